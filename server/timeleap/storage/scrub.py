"""Rewriting a log line by line, so that nothing of what it was stays: for what must not be kept anywhere.

The one rewrite that keeps no timeline. The new log stands complete and synced beside the old one before it takes its
name; a kill in between leaves the old one or the new one, and may be asked again. Lines keep their numbers,
damaged ones stay damaged, and the index is rebuilt: a checksum of what is gone would tell who guesses that he is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from timeleap.errors import StorageFailureError
from timeleap.failpoints import failpoint
from timeleap.storage import durable, scan
from timeleap.storage.appending import UnwritableError, check_untouched
from timeleap.storage.durable import OpenFile, storage_errors
from timeleap.storage.engine import Edit, Entry, LogState, NewRecord, RecordFlag, RecordKind
from timeleap.storage.index import index_path
from timeleap.storage.load import load
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import classify
from timeleap.storage.rewrite import Draft
from timeleap.storage.timelines import same_as_live

_STEP: Final = 1024
_FLUSH: Final = 1 << 20


def revise_live(log: StoredLog, edit: Edit, prepare: Callable[[], None]) -> tuple[StoredLog, int]:
    """Rewrite the live log. Blocking.

    Args:
        log: The live log, settled and locked.
        edit: What becomes of each line.
        prepare: Called before the step; does no harm if the step does not come.

    Returns:
        The log after it, and how many of its lines changed; if none, it is the same log.

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
            changed = revise(draft, log, edit)
            if not changed:
                draft.discard()
                return log, 0
            draft.finish()
            failpoint("revise.built")
            prepare()
            failpoint("revise.prepared")
            check_untouched(log)
            live = OpenFile(draft.file.path, writable=True, appending=True)  # now: after the step nothing may fail
            if not durable.HOLD_OPEN:
                draft.file.close()
            durable.replace_file(draft.file.path, log.path)
    live.reopened_at(log.path)
    try:
        failpoint("revise.renamed")
        durable.sync_directory(log.path.parent)
    except OSError as error:
        failure = StorageFailureError.of(error, "redact the log", log.path)
        raise UnwritableError(f"{failure.message}; open the session again", **failure.data) from error
    finally:
        _move_index(draft, log.path)
    failpoint("revise.done")
    return StoredLog(log.path, live, draft.log.store, draft.log.state, open_ended=draft.log.open_ended), changed


def revise_closed(path: Path, edit: Edit) -> int:
    """Rewrite a log that nobody writes to: a timeline, or that of a session which is not open. Blocking.

    What is torn at its end is edited as a line, and stays torn.

    Returns:
        How many lines changed.

    Raises:
        StorageFailureError: Nothing was changed, or that it was may not last.
    """
    with storage_errors("redact the log", path):
        log = load(path, writable=False).log
        if log.file is None:
            return 0
        with Draft.for_log(path) as draft:
            changed = revise(draft, log, edit) + _revise_tail(draft, log, edit)
            if not changed:
                draft.discard()
                return 0
            draft.finish()
            failpoint("revise.closed_built")
            draft.file.close()
            draft.index.close()
            durable.replace_file(draft.file.path, path)
        _move_index(draft, path)
        durable.sync_directory(path.parent)
    return changed


def revise(draft: Draft, log: StoredLog, edit: Edit) -> int:
    """Fill a draft with the lines of a log as `edit` leaves them; says how many it changed.

    A line whose bytes are not those that were written is one of the damaged ones from now on.
    """
    assert log.file is not None
    state, changed = LogState(), 0
    data, packed = bytearray(), bytearray()
    ended = True
    for start in range(0, log.state.lines, _STEP):
        for entry in log.entries(start, start + _STEP):
            raw = log.file.pread(entry.offset, entry.length)
            ended = raw.endswith(b"\n")
            record = NewRecord(b"", entry.kind, entry.role, entry.value, entry.flags)
            if crc32(raw) != entry.crc:
                record = NewRecord(b"", RecordKind.DAMAGED)
            new = edit(entry.line, raw[:-1] if ended else raw)
            if new is not None:
                changed += 1
                raw = new + b"\n" if ended else new
                if record.kind != RecordKind.DAMAGED:
                    record = classify(new)
            packed_entry, state = scan.entry_of(record, state, crc32(raw), len(raw))
            draft.parsed = draft.parsed and bool(entry.flags & RecordFlag.VALIDATED)
            packed += packed_entry
            data += raw
            if len(data) >= _FLUSH:
                draft.file.pwrite(data, state.length - len(data))
                data.clear()
        draft.log.store.extend(packed)
        packed.clear()
    draft.file.pwrite(data, state.length - len(data))
    if state.pending_chars < 0:
        state = scan.count_pending(draft.file, draft.log.store, state).state
    draft.log = StoredLog(draft.log.path, draft.file, draft.log.store, state, open_ended=not ended)
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
    """The same for what does not count at the end of a log: it gets no entries."""
    at, changed = draft.log.state.length, 0
    lines = _tail(log)
    for number, line in enumerate(lines):
        new = edit(log.state.lines + number, line)
        changed += new is not None
        piece = (line if new is None else new) + (b"\n" if number + 1 < len(lines) else b"")
        draft.file.pwrite(piece, at)
        at += len(piece)
    return changed


def _move_index(draft: Draft, path: Path) -> None:
    """The new index in the place of the old one, which must not stay; without one the log is scanned."""
    try:
        durable.replace_file(draft.index.path, index_path(path))
        draft.index.reopened_at(index_path(path))
    except OSError:
        for leftover in (draft.index.path, index_path(path)):
            with suppress(OSError):
                durable.remove_file(leftover)
