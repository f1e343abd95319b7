"""The atomic replacement: a new log takes the place of the live one, which becomes a timeline (G3).

Order of the steps, each durable before the next: the new log stands complete beside the old one, under a temporary
name; `prepare` notes what will be true; the live log gets the timeline's name as a second one; the new log is renamed
over the live name. A crash before the rename leaves the old log live (its second name is removed at the next open), a
crash after it leaves the new one live and the old one as a timeline.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from timeleap.errors import (
    CorruptedError,
    ExternallyModifiedError,
    StorageFailureError,
    TimeleapError,
)
from timeleap.failpoints import failpoint
from timeleap.storage import durable, scan
from timeleap.storage.appending import UnwritableError, check_untouched, new_log
from timeleap.storage.durable import OpenFile, storage_errors
from timeleap.storage.engine import (
    LogState,
    NewRecord,
    Prepared,
    RecordFlag,
    RecordKind,
    Replacement,
    new_damage,
    not_restored,
)
from timeleap.storage.index import (
    ENTRY_SIZE,
    EntryStore,
    IndexDamagedError,
    Reference,
    first_difference,
    header,
    index_path,
)
from timeleap.storage.load import Loaded, cut_through, load
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import without_batch_marks
from timeleap.storage.timelines import Timelines, file_name, highest_number, same_as_live, same_bytes
from timeleap.storage.write_queue import group_on

_STEP: Final = 4096
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Draft:
    """A new log under a temporary name, with its index.

    Attributes:
        log: What it holds so far.
        index: The file of its index.
        parsed: Every line of it was parsed at least once.
    """

    log: StoredLog
    index: OpenFile
    parsed: bool = True

    @classmethod
    def for_log(cls, path: Path) -> Draft:
        """An empty draft for the log `path`."""
        file = durable.open_temporary(path.parent, path.name)
        try:
            index = durable.open_temporary(path.parent, path.name)
        except BaseException:
            durable.remove_file(file.path)
            raise
        return cls(StoredLog(path, file, EntryStore(index, 0, writable=True), LogState()), index)

    @property
    def file(self) -> OpenFile:
        """The draft's file."""
        assert self.log.file is not None
        return self.log.file

    def add(self, records: list[NewRecord]) -> None:
        """Add records at the end; they need no batch marks, since the draft becomes live as a whole."""
        if not records:
            return
        group = group_on(self.log)
        group.add(records)
        self.file.pwrite(group.data, self.log.state.length)
        self.log.store.truncate(group.first_line)
        self.log.store.extend(group.entries)
        self.log = self.log.at(group.after)

    def finish(self) -> None:
        """Make the draft durable (its index need not be)."""
        self.index.pwrite(header(self.file.identity.inode, parsed=self.parsed), 0)
        self.file.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Remove it on any error."""
        if error is not None:
            self.discard()

    def discard(self) -> None:
        """Remove it."""
        for file in (self.file, self.index):
            file.close()
            with suppress(OSError):  # the next open removes it
                durable.remove_file(file.path)


@dataclass(frozen=True, slots=True)
class ReplacedLog:
    """Result of a replacement."""

    log: StoredLog
    timeline_id: str
    number: int


def replace_log(log: StoredLog, replacement: Replacement, timelines: Timelines, lowest: int) -> ReplacedLog:
    """Put a new log in the place of `log`. Blocking.

    Args:
        log: The live log, settled and locked.
        replacement: What the new log is.
        timelines: The log's timelines.
        lowest: The lowest number its timeline may get.

    Raises:
        TimelineNotFoundError, CorruptedError, ExternallyModifiedError, StorageFailureError: Nothing was changed.
    """
    check_untouched(log)
    with storage_errors("replace the log", log.path):
        if log.file is None:
            log = new_log(log.path)
        for leftover in same_as_live(log.path):
            durable.remove_file(leftover)
        with Draft.for_log(log.path) as draft:
            if replacement.from_timeline is not None:
                path = timelines.path(replacement.from_timeline)
                known = timelines.damaged_before(replacement.from_timeline)
                copy_timeline(draft, load(path, writable=False), known)
            else:
                copy_prefix(draft, log, replacement.keep_lines)
            draft.add(list(replacement.records))
            assert log.file is not None
            number = max(lowest, highest_number(log.path) + 1)
            while durable.status(timeline := log.path.parent / file_name(log.path, number)) is not None:
                number += 1
            equals = _equal(log, timelines) if replacement.reuse else None
            replaces = not (replacement.reuse and same_bytes(draft.file, log.file))
            head = draft.log.head(timelines.epoch, number)
            prepared = Prepared(timeline.stem, replaces, equals, draft.log.state, head, draft.log)
            if not replaces:
                if replacement.prepare is not None:
                    replacement.prepare(prepared)
                draft.discard()
                return ReplacedLog(log, prepared.kept_as or "", 0)
            draft.finish()
            failpoint("replace.built")
            if replacement.prepare is not None:
                replacement.prepare(prepared)
            failpoint("replace.prepared")
            log.file.sync()
            check_untouched(log)
            live = OpenFile(draft.file.path, writable=True, appending=True)  # now: after the step nothing may fail
            _exchange(log, draft, timeline)
    live.reopened_at(log.path)
    log = _moved_in(live, draft, timeline)
    _settle(replacement, prepared, timelines)
    return ReplacedLog(log, prepared.kept_as or "", number)


def _equal(log: StoredLog, timelines: Timelines) -> str | None:
    """The timeline that has the bytes of a log; "" for an empty log, which needs none."""
    assert log.file is not None
    return "" if log.file.status().size == 0 else timelines.equal_to(log)


def _settle(replacement: Replacement, prepared: Prepared, timelines: Timelines) -> None:
    """The step is done: what fails from here on is not to make it look undone."""
    try:
        if replacement.settle is not None:
            replacement.settle(prepared)
        if prepared.equals is not None:
            failpoint("replace.settled")
            timelines.remove(prepared.timeline_id)
            failpoint("replace.duplicate_removed")
    except (OSError, TimeleapError):
        _logger.exception("a timeline that is not needed could not be removed: %s", prepared.timeline_id)


def replace_trusting_index(log: StoredLog, replacement: Replacement, timelines: Timelines, lowest: int) -> ReplacedLog:
    """`replace_log`; an index that proves damaged meanwhile is rebuilt first."""
    try:
        return replace_log(log, replacement, timelines, lowest)
    except IndexDamagedError:
        log.mend()
    return replace_log(log, replacement, timelines, lowest)


def copy_prefix(draft: Draft, log: StoredLog, keep_lines: int) -> None:
    """Begin a draft with the first lines of a log, damaged ones left out.

    Raises:
        CorruptedError: A line is not what was written.
    """
    keep_lines = min(keep_lines, log.state.lines)
    if log.file is None or keep_lines <= 0:
        return
    state = log.store.state(keep_lines)
    damaged = first_difference(log.file, log.store, keep_lines)
    if damaged is not None:
        raise CorruptedError(
            f"line {damaged} of {log.path.name} is not what was written; verify the session",
            path=str(log.path),
            line=damaged,
            offset=log.store.entry(damaged).offset,
        )
    if state.has_damage:
        _copy_sound_lines(draft, log, keep_lines)
    else:
        log.file.copy_to(draft.file, 0, state.length)
        _take_entries(draft, log, keep_lines)
    if draft.log.state.pending_chars < 0:
        scanned = scan.count_pending(draft.file, draft.log.store, draft.log.state)
        draft.log = StoredLog(log.path, draft.file, draft.log.store, scanned.state, open_ended=scanned.open_ended)
    _unmark_cut_batch(draft)


def _take_entries(draft: Draft, log: StoredLog, lines: int) -> None:
    """The lines were copied as they are, from the first on: their entries hold."""
    state = log.store.state(lines)
    for start in range(0, lines, _STEP):
        raw = log.store.raw(start, min(start + _STEP, lines))
        draft.parsed = draft.parsed and all(flags & RecordFlag.VALIDATED for flags in set(raw[17::ENTRY_SIZE]))
        draft.log.store.extend(raw)
    ended = draft.file.pread(state.length - 1, 1) == b"\n"
    draft.log = StoredLog(draft.log.path, draft.file, draft.log.store, state, open_ended=not ended)


def _copy_sound_lines(draft: Draft, log: StoredLog, keep_lines: int) -> None:
    """Copy runs of lines between the damaged ones; their entries are rebuilt, since all of them moved."""
    assert log.file is not None
    state, begin, end = LogState(), 0, 0
    ended = True
    for start in range(0, keep_lines, _STEP):
        packed = bytearray()
        for entry in log.entries(start, min(start + _STEP, keep_lines)):
            if entry.kind == RecordKind.DAMAGED:
                log.file.copy_to(draft.file, begin, end - begin)
                begin = end = entry.offset + entry.length
                continue
            ended = log.file.pread(entry.offset + entry.length - 1, 1) == b"\n"
            record = NewRecord(b"", entry.kind, entry.role, entry.value, entry.flags)
            raw, state = scan.entry_of(record, state, entry.crc, entry.length)
            draft.parsed = draft.parsed and bool(entry.flags & RecordFlag.VALIDATED)
            packed += raw
            end = entry.offset + entry.length
        draft.log.store.extend(packed)
    log.file.copy_to(draft.file, begin, end - begin)
    draft.log = StoredLog(log.path, draft.file, draft.log.store, state, open_ended=not ended)


def _unmark_cut_batch(draft: Draft) -> None:
    """A batch that was cut through on purpose is no incomplete one: its members lose their marks."""
    log = draft.log
    keep = cut_through(log)
    lines = log.read(keep, log.state.lines)
    if not lines:
        return
    draft.file.truncate(log.store.state(keep).length)
    state = log.store.state(keep)
    log.store.truncate(keep)
    draft.log = log.at(state)
    draft.add([without_batch_marks(line) for line in lines])


def copy_timeline(draft: Draft, source: Loaded, damaged_before: Collection[int] = ()) -> None:
    """Begin a draft with a timeline, byte for byte.

    Args:
        draft: Where to.
        source: The timeline.
        damaged_before: Lines that were damaged already when it was the live log: they come back as they were.

    Raises:
        CorruptedError: Another line of it is damaged, or its end is torn.
    """
    log = source.log
    if log.file is None:
        return
    if not source.cut:
        log.file.copy_to(draft.file, 0, log.state.length)
        if _is_known(draft, source):
            _take_entries(draft, log, log.state.lines)
        else:
            known = Reference(log.store, log.state.lines)
            scanned = scan.thoroughly(draft.file, LogState(), log.state.length, draft.log.store, reference=known)
            open_ended = scanned.open_ended
            draft.log = StoredLog(draft.log.path, draft.file, draft.log.store, scanned.state, open_ended=open_ended)
    damaged = next(iter(new_damage(draft.log, damaged_before)), None)
    if source.cut or source.lost or damaged is not None or draft.log.state.length != log.state.length:
        raise not_restored(log.path, damaged.offset if damaged else log.state.length)


def _is_known(draft: Draft, source: Loaded) -> bool:
    """True if each line was parsed when its entry was made, none is damaged, and the copy has the same bytes."""
    log = source.log
    if not source.parsed or log.state.has_damage or log.state.pending_chars < 0 or not log.state.lines:
        return False
    try:
        return first_difference(draft.file, log.store, log.state.lines) is None
    except IndexDamagedError:
        return False


def _exchange(log: StoredLog, draft: Draft, timeline: Path) -> None:
    """The step itself: two names change hands. On an error everything is as before."""
    assert log.file is not None
    if not durable.HOLD_OPEN:
        draft.file.close()
    try:
        linked = durable.link_exclusive(log.path, timeline)
    except FileExistsError as error:
        raise _external_change(log.path) from error
    if not linked:
        _exchange_by_renames(log, draft, timeline)
        return
    try:
        there = durable.status(timeline)
        if there is None or there.identity != log.file.identity:
            raise _external_change(log.path)
        failpoint("replace.linked")
        durable.sync_directory(log.path.parent)
        failpoint("replace.linked_synced")
        durable.replace_file(draft.file.path, log.path)
    except BaseException:
        with suppress(OSError):  # the next replacement or the next open removes it
            durable.remove_file(timeline)
        raise
    _make_names_durable(log, timeline)


def _exchange_by_renames(log: StoredLog, draft: Draft, timeline: Path) -> None:
    """The same without hard links; between the two renames the intent record tells what was meant."""
    if durable.status(timeline) is not None:
        raise _external_change(log.path)
    declare_intent(log.path, timeline, draft.file.path)
    try:
        failpoint("replace.declared")
        durable.replace_file(log.path, timeline)
        try:
            failpoint("replace.set_aside")
            durable.sync_directory(log.path.parent)
            durable.replace_file(draft.file.path, log.path)
        except BaseException:
            durable.replace_file(timeline, log.path)
            raise
        _make_names_durable(log, timeline)
    finally:
        with suppress(OSError):  # a record of something done or undone does no harm
            withdraw_intent(log.path)


def _make_names_durable(log: StoredLog, timeline: Path) -> None:
    """The names have changed hands; if that cannot be made durable, it is taken back: a caller who is told of a failure
    must find the old log."""
    try:
        failpoint("replace.renamed")
        durable.sync_directory(log.path.parent)
        failpoint("replace.renamed_synced")
    except OSError as error:
        try:
            durable.replace_file(timeline, log.path)
        except OSError as second:
            failure = StorageFailureError.of(error, "make the new log's name durable", log.path)
            raise UnwritableError(
                f"{failure.message}, nor take it back; open the session again", **failure.data
            ) from second
        raise


def _moved_in(live: OpenFile, draft: Draft, timeline: Path) -> StoredLog:
    """The new live log, its index under its name, the old index under the timeline's. A lost index is only a scan."""
    index = index_path(live.path)
    try:
        if durable.status(index) is not None:
            durable.replace_file(index, index_path(timeline))
        failpoint("replace.old_index_moved")
        durable.replace_file(draft.index.path, index)
        draft.index.reopened_at(index)
        failpoint("replace.done")
    except OSError:
        with suppress(OSError):
            durable.remove_file(draft.index.path)
    return StoredLog(live.path, live, draft.log.store, draft.log.state, open_ended=draft.log.open_ended)


def _external_change(path: Path) -> ExternallyModifiedError:
    return ExternallyModifiedError(f"another program is changing the logs of {path.name}; reload the session")


# Replacing a log where the file system has no hard links: an intent record, then two renames
#
# Between the renames the live log has no name. The record says what was meant, so that the next process that opens the
# log for writing can finish it, or undo it where the new log is gone.


def intent_path(log: Path) -> Path:
    """Where the intent of a replacement is written down."""
    return log.parent / f".{log.name}.intent"


def declare_intent(log: Path, timeline: Path, temporary: Path) -> None:
    """Write down, durably, that `log` is to become `timeline` and `temporary` is to become `log`."""
    record = {"timeline": timeline.name, "new": temporary.name}
    durable.atomic_write(intent_path(log), json.dumps(record).encode())


def withdraw_intent(log: Path) -> None:
    """The replacement is done, or given up."""
    durable.remove_file(intent_path(log))
    durable.sync_directory(log.parent)


def settle_intent(log: Path) -> bool:
    """Finish or undo a replacement that was cut short.

    Returns:
        Whether there was anything to do.
    """
    path = intent_path(log)
    if not durable.is_regular(path):
        return False
    record = _read_intent(path)
    # Whatever the record says, nothing is touched but a temporary file of ours and a name that a timeline may have.
    timeline = _sibling(log, record.get("timeline"), rf"{re.escape(log.stem)}_[0-9]{{1,18}}{re.escape(log.suffix)}")
    new = _sibling(log, record.get("new"), rf"\.{re.escape(log.name)}\.[0-9a-f]{{16}}\.tmp")
    if durable.status(log) is None:
        if new is not None and durable.is_regular(new):
            durable.replace_file(new, log)
        elif timeline is not None and durable.is_regular(timeline):
            durable.replace_file(timeline, log)
        durable.sync_directory(log.parent)
    elif new is not None:
        durable.remove_file(new)
    withdraw_intent(log)
    return True


def intent_pending(log: Path) -> bool:
    """True if a replacement is between its two renames."""
    return durable.status(log) is None and durable.is_regular(intent_path(log))


def _read_intent(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(durable.OpenFile(path).pread(0, 4096))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _sibling(log: Path, name: object, form: str) -> Path | None:
    """The file of that name in the log's directory, if the name is of that form."""
    if not isinstance(name, str) or re.fullmatch(form, name) is None:
        return None
    return log.parent / name
