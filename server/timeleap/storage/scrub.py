"""Rewriting the lines of a log so that nothing of what they were stays.

No timeline is kept. The new log stands complete and synced beside the old one before it takes its name; a kill in
between leaves the old one or the new one, and may be asked again. Lines keep their numbers, damaged ones stay damaged,
and the index is rebuilt: a checksum of what is gone would tell who guesses that he is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap.errors import StorageFailureError
from timeleap.storage import durable
from timeleap.storage.appending import UnwritableError, check_untouched
from timeleap.storage.durable import OpenFile, failpoint, storage_errors
from timeleap.storage.index import index_path
from timeleap.storage.load import load
from timeleap.storage.log_values import Edit, Entry
from timeleap.storage.reader import StoredLog, same_as_live
from timeleap.storage.rewrite import Draft

_STEP: Final = 1024


def revise_live(log: StoredLog, edit: Edit, prepare: Callable[[], None]) -> tuple[StoredLog, int]:
    """Rewrite the live log, which is settled and locked. Blocking. `prepare` is called before the step; it does no harm
    if the step does not come. Returns the log after it (the same if no line changed), and how many lines changed.

    Raises:
        ExternallyModifiedError, StorageFailureError: Nothing was changed.
        UnwritableError: It was changed, but that may not last.
    """
    check_untouched(log)
    if log.file is None:
        return log, 0
    with storage_errors("redact the log", log.path):
        for leftover in same_as_live(log.path):
            durable.remove_file(leftover)
        with Draft.for_log(log.path) as draft:
            changed = draft.add_lines(log, 0, log.state.lines, edit, keep=True)
            if not changed:
                draft.discard()
                return log, 0
            draft.finish()
            failpoint("revise.built")
            prepare()
            failpoint("revise.prepared")
            draft.end_sync()
            check_untouched(log)
            live = OpenFile(draft.file.path, writable=True, appending=True)  # now: after the step nothing may fail
            if not durable.HOLD_OPEN:
                draft.file.close()
            _remove_index(log.path)
            durable.replace_file(draft.file.path, log.path)
    live.path = log.path
    try:
        failpoint("revise.renamed")
        durable.sync_directory(log.path.parent)
    except OSError as error:
        failure = StorageFailureError.of(error, "redact the log", log.path)
        raise UnwritableError(f"{failure.message}; open the session again", **failure.data) from error
    finally:
        _move_index(draft, log.path)
    failpoint("revise.done")
    return draft.live(live), changed


def revise_closed(path: Path, edit: Edit, changed_it: Callable[[], None] = lambda: None) -> int:
    """Rewrite a log that nobody writes to: a timeline, or that of a session which is not open. Blocking. Says how many
    lines changed, and calls `changed_it` if any did; what is torn at its end is edited as a line, and stays torn.

    Raises:
        StorageFailureError: Nothing was changed, or that it was may not last.
    """
    with storage_errors("redact the log", path):
        log = load(path, writable=False).log
        if log.file is None:
            return 0
        with Draft.for_log(path) as draft:
            changed = draft.add_lines(log, 0, log.state.lines, edit, keep=True) + _revise_tail(draft, log, edit)
            if not changed:
                draft.discard()
                return 0
            draft.finish()
            draft.end_sync()
            failpoint("revise.closed_built")
            draft.file.close()
            draft.index.close()
            _remove_index(path)
            durable.replace_file(draft.file.path, path)
        _move_index(draft, path)
        durable.sync_directory(path.parent)
        changed_it()
    return changed


def raw_lines(log: StoredLog) -> Iterator[tuple[Entry | None, bytes]]:
    """The lines of a log as they stand in its file, without line feeds, with their entries; what does not count at its
    end has none."""
    if log.file is None:
        return
    for start in range(0, log.state.lines, _STEP):
        for entry in log.entries(start, start + _STEP):
            yield entry, log.file.pread(entry.offset, entry.length).removesuffix(b"\n")
    for line in _tail(log):
        yield None, line


def _tail(log: StoredLog) -> list[bytes]:
    assert log.file is not None
    rest = log.file.status().size - log.state.length
    return log.file.pread(log.state.length, rest).split(b"\n") if rest > 0 else []


def _revise_tail(draft: Draft, log: StoredLog, edit: Edit) -> int:
    """Revise the bytes at the end of a log that do not count: they get no entries."""
    at, changed = draft.log.state.length, 0
    lines = _tail(log)
    for number, line in enumerate(lines):
        new = edit(log.state.lines + number, line)
        changed += new is not None
        piece = (line if new is None else new) + (b"\n" if number + 1 < len(lines) else b"")
        draft.file.pwrite(piece, at)
        at += len(piece)
    return changed


def _remove_index(path: Path) -> None:
    """Remove the index of a log that is about to be replaced."""
    # After a crash in between, it would say of the redacted log that another one was saved there.
    with suppress(OSError):
        durable.remove_file(index_path(path))


def _move_index(draft: Draft, path: Path) -> None:
    """Put the new index in the place of the old one, which must not stay; without one the log is scanned."""
    try:
        durable.replace_file(draft.index.path, index_path(path))
        draft.index.path = index_path(path)
    except OSError:
        for leftover in (draft.index.path, index_path(path)):
            with suppress(OSError):
                durable.remove_file(leftover)
