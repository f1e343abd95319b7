"""A new log in the place of an old one, which becomes a timeline (G3); and the timelines there are.

Order of the steps, each durable before the next: the new log stands complete beside the old one, under a temporary
name; whoever asked for it notes what will be true; the live log gets the timeline's name as a second one; the new log is
renamed over the live name. A crash before the rename leaves the old log live (its second name is removed at the next open), a
crash after it leaves the new one live and the old one as a timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from msgspec import Struct

from timeleap.errors import CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.storage import durable, scan
from timeleap.storage.appending import UnwritableError, check_untouched, group_on
from timeleap.storage.damage import Damage, damaged_before, new_damage, not_restored
from timeleap.storage.durable import FileStatus, Identity, OpenFile, Share, failpoint, storage_errors
from timeleap.storage.engine import Drafted
from timeleap.storage.external_change import changed_names
from timeleap.storage.index import (
    ENTRY_SIZE,
    EntryStore,
    IndexDamagedError,
    Memory,
    first_difference,
    header,
    index_path,
    peek,
    save,
)
from timeleap.storage.intents import declare_intent, withdraw_intent
from timeleap.storage.load import load, new_log
from timeleap.storage.log_notes import Notes
from timeleap.storage.log_values import (
    Edit,
    LogState,
    NewRecord,
    RecordFlag,
    Replacement,
    Timeline,
    TimelineFacts,
)
from timeleap.storage.moved_lines import MovedLines
from timeleap.storage.opened_log import Loaded
from timeleap.storage.reader import (
    StoredLog,
    TimelineName,
    cut_through,
    highest_number,
    is_file,
    same_as_live,
    same_bytes,
    timeline_file,
    timeline_names,
)
from timeleap.storage.record import without_batch_marks
from timeleap.storage.reference import Reference
from timeleap.storage.syncing import threads
from timeleap.storage.validation import has_bytes_of

MAX_GONE: Final = 100
"""Timelines that are gone by now and whose counts are still remembered."""
_REMEMBERED: Final = 8
_STEP: Final = 1024


class Beginning(NamedTuple):
    """A new log, as it was made, has so many bytes from the beginning of another file, as that was."""

    source: FileStatus
    made: FileStatus
    shared: int


class Timelines:
    def __init__(self, log: Path, notes: Notes, *, keep_index: bool) -> None:
        self.notes = notes
        self._log = log
        self._keep_index = keep_index  # write the index of a timeline that had to be scanned beside it
        self._known: dict[tuple[str, Identity, int], tuple[int, int, int]] = {}
        self._origins: dict[FileStatus, FileStatus] = {}  # of copies as they were made: what they are the beginning of
        self.found: list[tuple[FileStatus, Memory]] = []  # of the logs that were live last: `EntryStore.memory`
        self.beginning: Beginning | None = None  # of the last new log

    def listed(self, live: OpenFile | None = None) -> list[Timeline]:
        """All timelines, newest first; with `live` those there were while that file was the live log: not that log
        itself, nor what was set aside after it. Raises StorageFailureError."""
        found: list[Timeline] = []
        with storage_errors("list the timelines", self._log.parent):
            for name in self._names():
                there = durable.status(name.path)
                if there is not None and durable.is_regular(name.path):
                    facts = self.notes.facts(name.timeline_id) or TimelineFacts()
                    counts = self._counts(name.path, there)
                    found.append(Timeline(name.timeline_id, name.path.name, facts, there.size, *counts))
        if len(self._known) > len(found) + MAX_GONE:
            present = {timeline.file for timeline in found}
            self._known = {key: counts for key, counts in self._known.items() if key[0] in present}
        if live is not None:
            for number, timeline in enumerate(found):
                if is_file(self._log.parent / timeline.file, live.identity):
                    return found[number + 1 :]
        return found

    def path(self, timeline_id: str) -> Path:
        """The file of a timeline. Raises TimelineNotFoundError, StorageFailureError."""
        with storage_errors("look for a timeline", self._log.parent):
            for name in self._names():
                if name.timeline_id == timeline_id:
                    return name.path
        raise TimelineNotFoundError(f"no timeline {timeline_id!r:.80}", timelineId=timeline_id)

    def reader(self, timeline_id: str) -> StoredLog:
        """A reader of one timeline; never writes. Its `damage` says what is missing at its end, too."""
        path = self.path(timeline_id)
        with storage_errors(f"read the timeline {timeline_id}", path):
            loaded = load(path, writable=False)
        if loaded.cut and not loaded.lost:
            end = loaded.log.state
            loaded.log.lost = Damage("damagedRecord", "its end is cut off", end.lines, end.length, loaded.cut)
        else:
            loaded.log.lost = loaded.lost
        return loaded.log

    def _names(self) -> Iterator[TimelineName]:
        """The names of timelines; the live log itself, which a replacement may have linked, is none."""
        live = durable.status(self._log)
        return (name for name in timeline_names(self._log) if not (live and is_file(name.path, live.identity)))

    def remove(self, timeline_id: str) -> None:
        """Delete a timeline and its index; its number is not used again."""
        path = self.path(timeline_id)
        with storage_errors(f"remove the timeline {timeline_id}", path):
            self.notes.remember(rotation=highest_number(self._log))
            durable.remove_file(index_path(path))  # first: alone it would be left, with a checksum of each line
            durable.remove_file(path)
            durable.sync_directory(path.parent)

    def equal_to(self, log: StoredLog) -> str | None:
        """The newest timeline with the very bytes of a log, or None; "" where it has none."""
        if log.file is None or log.file.status().size == 0:
            return ""
        for timeline in self.listed():
            if timeline.may_equal(log.state):
                with suppress(OSError):  # what cannot be read cannot stand for the log
                    path = self._log.parent / timeline.file
                    there, live = durable.status(path), log.file.status()._replace(names=1)
                    there = there and there._replace(names=1)
                    copied = self._origins.get(there, there) == self._origins.get(live, live) if there else False
                    if copied or same_bytes(OpenFile(path), log.file):
                        return timeline.timeline_id
        return None

    def note_copy(self, source: FileStatus, copy: FileStatus) -> None:
        """A file has been made that is the beginning of another one: two such of one length are the same, as long as
        nobody writes to either."""
        self._origins[copy] = self._origins.get(source, source)
        if len(self._origins) > MAX_GONE:
            del self._origins[next(iter(self._origins))]

    def _counts(self, path: Path, there: FileStatus) -> tuple[int, int, int]:
        key = (path.name, there.identity, there.size)
        if key not in self._known:
            try:
                state = peek(path) or self._scanned(path)
            except OSError:
                return 0, 0, 0
            self._known[key] = (state.messages, state.checkpoints, state.chain)
        return self._known[key]

    def _scanned(self, path: Path) -> LogState:
        loaded = load(path, writable=False)
        file, state = loaded.log.file, loaded.log.state
        # An index that knows of more than there is stays: it is what tells that something is missing.
        if self._keep_index and file is not None and not loaded.cut and loaded.lost is None:
            with suppress(OSError):  # it is only a convenience
                save(loaded.log.store, path, file.identity.inode, parsed=loaded.parsed)
        return state


# The new log


class Draft(Struct):
    """A new log under a temporary name, with its index; a context that removes it on any error."""

    log: StoredLog  # what it holds so far
    index: OpenFile
    borrow: Share | None = None  # see `Replacement`
    parsed: bool = True  # every line of it was parsed at least once
    shared: int = 0  # bytes that it has from the beginning of another file
    in_place: bool = False  # it is the live log: there is no draft any more
    _sync: Future[None] | None = None  # of all that is in the file

    @classmethod
    def for_log(cls, path: Path, borrow: Share | None = None) -> Draft:
        file = durable.open_temporary(path.parent, path.name)
        try:
            index = durable.open_temporary(path.parent, path.name)
        except BaseException:
            durable.remove_file(file.path)
            raise
        return cls(StoredLog(path, file, EntryStore(index, 0, writable=True)), index, borrow)

    @property
    def file(self) -> OpenFile:
        assert self.log.file is not None
        return self.log.file

    def holds(self, state: LogState, *, open_ended: bool) -> None:
        """The lines up to `state` are in the file and the index; their pending characters are counted if need be."""
        if state.pending_chars < 0:
            counted = scan.count_pending(self.file, self.log.store, state)
            state, open_ended = counted.state, counted.open_ended
        self.log = StoredLog(self.log.path, self.file, self.log.store, state, open_ended=open_ended)

    def add(self, records: Sequence[NewRecord]) -> None:
        """Add records at the end; they need no batch marks, since the draft becomes live as a whole."""
        if not records:
            return
        self.end_sync()
        group = group_on(self.log)
        group.add(records)
        self.file.pwrite(group.data, self.log.state.length)
        self.log.store.put(group.first_line, b"".join(group.packed))
        self.log = self.log.at(group.after)

    def add_lines(self, log: StoredLog, first: int, stop: int, edit: Edit | None = None, *, keep: bool = False) -> int:
        """Add the lines `[first, stop)` of a log as `edit` leaves them; says how many it changed. See `MovedLines`."""
        self.end_sync()
        self.parsed = self.parsed and _all_parsed(log.store.raw(first, stop))
        moved = MovedLines(log, self.log.state, edit, keep)
        for begin, text, entries in moved.blocks(first, stop):
            self.file.pwrite(text, begin)
            self.log.store.extend(entries)
        self.holds(moved.state, open_ended=not moved.ended)
        return moved.changed

    def follow(self, log: StoredLog, replacement: Replacement) -> None:
        """Add what follows the beginning of a new log, in the place of `log`."""
        self.add(replacement.records)
        if replacement.resume_at is not None:
            self.add_lines(log, replacement.resume_at, log.state.lines, replacement.edited)
        self.add(replacement.closing)

    def live(self, file: OpenFile) -> StoredLog:
        """The draft in its place, where it is `file`."""
        return StoredLog(self.log.path, file, self.log.store, self.log.state, open_ended=self.log.open_ended)

    def begin_as(self, file: OpenFile, size: int) -> None:
        """Have the first bytes of another file."""
        if self.borrow is None or not self.borrow(file, self.file, 0, size):
            file.copy_to(self.file, 0, size)

    def begin_sync(self) -> None:
        """Let the disk take what is in the file by now, while that is being compared with what was written."""
        if self._sync is None and self.borrow is None:
            self._sync = threads.pool.submit(self.file.sync)

    def end_sync(self) -> None:
        """Return when the draft is durable as far as its sync was begun."""
        sync, self._sync = self._sync, None
        if sync is not None:
            sync.result()

    def finish(self) -> None:
        """Complete the draft, and let the disk take it (its index need not be durable); see `end_sync`."""
        self.index.pwrite(header(self.file.identity.inode, parsed=self.parsed), 0)
        self.begin_sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.discard()

    def discard(self) -> None:
        if self.in_place:
            return
        with suppress(OSError):  # nobody needs it any more
            self.end_sync()
        for file in (self.file, self.index):
            file.close()
            with suppress(OSError):  # the next open removes it
                durable.remove_file(file.path)


class NewLog(Drafted, frozen=True, kw_only=True):
    """A drafted replacement, and all that is needed to put it in its place."""

    replacement: Replacement
    draft: Draft
    old: StoredLog  # whose place it takes
    timeline: Path  # the name that the old log gets, and the number in it
    number: int
    files: tuple[FileStatus, FileStatus]  # of the old log, and of what the new one begins as


def draft_log(log: StoredLog, replacement: Replacement, timelines: Timelines, lowest: int) -> NewLog:
    """Build a new log beside `log`, which is settled and locked. Blocking; the live log stays as it is.

    Its timeline gets the number `lowest` or a higher one. An index that proves damaged meanwhile is rebuilt first. Raises
    TimelineNotFoundError, CorruptedError, ExternallyModifiedError, StorageFailureError: nothing is left of it.
    """
    with suppress(IndexDamagedError):
        return _draft(log, replacement, timelines, lowest)
    log.mend()
    return _draft(log, replacement, timelines, lowest)


def _draft(log: StoredLog, replacement: Replacement, timelines: Timelines, lowest: int) -> NewLog:
    check_untouched(log)
    with storage_errors("replace the log", log.path):
        if log.file is None:
            log = new_log(log.path)
        assert log.file is not None
        for leftover in same_as_live(log.path):
            durable.remove_file(leftover)
        source = before = log.file.status()._replace(names=1)
        with Draft.for_log(log.path, replacement.borrow) as draft:
            if replacement.from_timeline is not None:
                source = _begin_as_timeline(draft, replacement.from_timeline, timelines)
            else:
                copy_prefix(draft, log, replacement.keep_lines)
            draft.follow(log, replacement)
            number = max(lowest, highest_number(log.path) + 1)
            while durable.status(timeline := log.path.parent / timeline_file(log.path, number)) is not None:
                number += 1
            equals = timelines.equal_to(log) if replacement.reuse else None
            if equals and replacement.from_timeline is None:  # the log itself will have no name any more
                source = OpenFile(timelines.path(equals)).status()._replace(names=1)
            replaces = not (replacement.reuse and same_bytes(draft.file, log.file))
            if replaces:
                draft.finish()  # what is noted meanwhile counts only with its rename
                failpoint("replace.built")
            return NewLog(
                timeline.stem,
                replaces,
                equals,
                draft.log.state,
                draft.log.head(timelines.notes.epoch, number),
                log=draft.log,
                replacement=replacement,
                draft=draft,
                old=log,
                timeline=timeline,
                number=number,
                files=(before, source),
            )


def _begin_as_timeline(draft: Draft, timeline_id: str, timelines: Timelines) -> FileStatus:
    """Begin a draft with a whole timeline. Returns the status of its file."""
    path = timelines.path(timeline_id)
    source, loaded = OpenFile(path).status()._replace(names=1), load(path, writable=False)
    loaded.log.store.memory = dict(timelines.found).get(source, {})
    copy_timeline(draft, loaded, damaged_before(timelines.notes.facts(timeline_id)))
    if not loaded.parsed:
        with suppress(OSError):  # so that it is parsed only once, however often it is restored
            save(draft.log.store, path, source.identity.inode, parsed=draft.parsed)
    return source


def commit_log(new: NewLog, timelines: Timelines, check_lock: Callable[[], None]) -> StoredLog:
    """Put a drafted log in the place of the present one. Blocking. Returns the live log, which is still the old one where
    the new one has its bytes.

    Raises:
        ExternallyModifiedError, StorageFailureError: Nothing was changed, as with what `check_lock` raises at last.
        UnwritableError: It was changed, but that may not last.
    """
    log, draft, (before, source) = new.old, new.draft, new.files
    assert log.file is not None
    if not new.replaces:
        draft.discard()
        return log
    with storage_errors("replace the log", log.path):
        failpoint("replace.prepared")
        draft.end_sync()
        if draft.borrow is None:
            log.file.sync()
        check_untouched(log)
        check_lock()
        live = OpenFile(draft.file.path, writable=True, appending=True)  # now: after the step nothing may fail
        made = live.status()._replace(names=1)
        _exchange(log, draft, new.timeline)
        draft.in_place = True
    live.path = log.path
    _move_indexes(log.path, draft, new.timeline)
    timelines.found = [*timelines.found[-_REMEMBERED:], (before, log.store.memory)]
    timelines.beginning = Beginning(source, made, draft.shared)
    if 0 < draft.shared == draft.log.state.length:
        timelines.note_copy(source, made)
    return draft.live(live)


# What a draft begins with


def copy_prefix(draft: Draft, log: StoredLog, keep_lines: int) -> None:
    """Begin a draft with the first lines of a log, damaged ones left out. Raises CorruptedError: a line is not what was
    written."""
    keep_lines = min(keep_lines, log.state.lines)
    if log.file is None or keep_lines <= 0:
        return
    state = log.store.state(keep_lines)
    if state.has_damage:
        draft.add_lines(log, 0, keep_lines)
        _unmark_cut_batch(draft, cut_through(draft.log))
        return
    draft.begin_as(log.file, state.length)
    draft.begin_sync()
    _take_entries(draft, log, keep_lines)
    keep = cut_through(draft.log)
    _check(draft.file, log, keep, keep_lines)
    _unmark_cut_batch(draft, keep)
    draft.shared = log.store.state(keep).length
    if draft.borrow is None:
        _check(draft.file, log, 0, keep)


def _check(file: OpenFile, log: StoredLog, start: int, stop: int) -> None:
    """Compare lines of a log, as they are in it or in a copy, with what was written; raises CorruptedError."""
    damaged = first_difference(file, log.store, start, stop)
    if damaged is not None:
        raise CorruptedError(
            f"line {damaged} of {log.path.name} is not what was written; verify the session",
            path=str(log.path),
            line=damaged,
            offset=log.store.entry(damaged).offset,
        )


def _unmark_cut_batch(draft: Draft, keep: int) -> None:
    """A batch cut through on purpose, at the line `keep`, is no incomplete one: its members lose their marks."""
    log = draft.log
    if lines := log.read(keep, log.state.lines):
        state = log.store.state(keep)
        draft.file.truncate(state.length)
        log.store.truncate(keep)
        draft.log = log.at(state)
        draft.add([without_batch_marks(line) for line in lines])


def _take_entries(draft: Draft, log: StoredLog, lines: int) -> None:
    """The lines were copied as they are, from the first on: their entries hold."""
    state, share = log.store.state(lines), draft.borrow
    if share is not None and log.file is not None and draft.log.store.begin_as(log.store, lines, share):
        draft.parsed = log.store.is_parsed(log.file.identity.inode)
    else:
        for start in range(0, lines, 16 * _STEP):
            raw = log.store.raw(start, min(start + 16 * _STEP, lines))
            draft.parsed = draft.parsed and _all_parsed(raw)
            draft.log.store.extend(raw)
    draft.holds(state, open_ended=draft.file.pread(state.length - 1, 1) != b"\n")


def _all_parsed(entries: bytes) -> bool:
    return all(flags & RecordFlag.VALIDATED for flags in set(entries[17::ENTRY_SIZE]))


def copy_timeline(draft: Draft, source: Loaded, known_damage: Collection[int] = ()) -> None:
    """Begin a draft with a timeline, byte for byte. Lines in `known_damage`, which were damaged already when it was the
    live log, come back as they were.

    Raises:
        CorruptedError: Another line of it is damaged, or its end is torn.
    """
    log = source.log
    if log.file is None:
        return
    if not source.cut:
        draft.begin_as(log.file, log.state.length)
        draft.shared = log.state.length
        draft.begin_sync()
        intact = source.parsed and log.state.lines and log.state.pending_chars >= 0 and not log.state.has_damage
        if intact and (draft.borrow is not None or has_bytes_of(log, draft.file)):
            _take_entries(draft, log, log.state.lines)
        else:
            store, length = draft.log.store, log.state.length
            scanned = None if log.state.has_damage else scan.thoroughly(draft.file, LogState(), length, store)
            if scanned is None or scanned.state.chain != log.state.chain:  # not what was written: which lines are not?
                store.truncate(0)
                known = Reference(log.store, log.state.lines)
                scanned = scan.thoroughly(draft.file, LogState(), length, store, reference=known)
            draft.holds(scanned.state, open_ended=scanned.open_ended)
    damaged = next(iter(new_damage(draft.log.damage(), known_damage)), None)
    if source.cut or source.lost or damaged is not None or draft.log.state.length != log.state.length:
        raise not_restored(log.path, damaged.offset if damaged else log.state.length)


# The step itself


def _exchange(log: StoredLog, draft: Draft, timeline: Path) -> None:
    """Two names change hands. On an error everything is as before."""
    assert log.file is not None
    if not durable.HOLD_OPEN:
        draft.file.close()
    try:
        linked = durable.link_exclusive(log.path, timeline)
    except FileExistsError as error:
        raise changed_names(log.path) from error
    if not linked:
        _exchange_by_renames(log, draft, timeline)
        return
    try:
        there = durable.status(timeline)
        if there is None or there.identity != log.file.identity:
            raise changed_names(log.path)
        failpoint("replace.linked")
        if draft.borrow is None:
            durable.sync_directory(log.path.parent)
        failpoint("replace.linked_synced")
        durable.replace_file(draft.file.path, log.path)
    except BaseException:
        with suppress(OSError):  # the next replacement or the next open removes it
            durable.remove_file(timeline)
        raise
    if draft.borrow is None:
        _make_names_durable(log, timeline)


def _exchange_by_renames(log: StoredLog, draft: Draft, timeline: Path) -> None:
    """Exchange the logs without hard links; between the two renames the intent record names the new log."""
    if durable.status(timeline) is not None:
        raise changed_names(log.path)
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


def _move_indexes(path: Path, draft: Draft, timeline: Path) -> None:
    """The new index under the live log's name, the old one under the timeline's. A lost index is only a scan."""
    index = index_path(path)
    try:
        if durable.status(index) is not None:
            durable.replace_file(index, index_path(timeline))
        failpoint("replace.old_index_moved")
        durable.replace_file(draft.index.path, index)
        draft.index.path = index
        failpoint("replace.done")
    except OSError:
        with suppress(OSError):
            durable.remove_file(draft.index.path)
