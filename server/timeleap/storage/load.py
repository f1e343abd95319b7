"""Loading a log: its index if it can be believed, else a scan; and checking all of a log that is in use."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from timeleap.errors import StorageFailureError
from timeleap.storage import durable, scan
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import Damage, Entry, LogState, Progress, RecordFlag, RecordKind, Recovery
from timeleap.storage.index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    EntryStore,
    IndexDamagedError,
    Reference,
    first_difference,
    header,
    index_path,
    not_as_written,
    read_header,
    same_lines,
)
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import ID_LIMIT, read_tl

# The end of a log: is its last batch whole, was it cut short by a crash, or was it damaged later?
#
# A batch is one write, and it is acknowledged after a sync. So a crash leaves the beginning of it (the process was
# killed), or, if the power failed, the file's new size with blocks of zeros in it that never reached the disk. Either
# was never acknowledged, and goes as a whole. Everything else that is wrong with a batch (a line that is not JSON, two
# lines in one, one line in two) came about later, in a batch that was whole: its sound members stay.
#
# Three things look the same, and a side had to be chosen:
#
# - Zeroed blocks in the last batch are what a power failure left, or a disk's doing in a batch that was acknowledged.
#   If the index knows the batch, it was acknowledged and stays. If not, it goes (to quarantine, where it can be looked
#   at): half of a turn that nobody was promised is worse in a history than its absence.
# - Zeroed blocks with whole records behind them are a disk's doing, and stay where they are. (A power failure may leave
#   them only in the middle of a group of appends none of which was acknowledged, on a disk that wrote the end first.)
# - A log that ends before its last batch does was cut short by a crash, though it may have lost its end later; also if
#   the index knew more, since without syncs (durability `os`) a power failure leaves just that.

_MARKS: Final = RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL
_NO_RECORD: Final = (RecordKind.BLANK, RecordKind.DAMAGED)
_BLOCK: Final = 512  # what a disk writes is a multiple of it
_ZEROS: Final = re.compile(rb"\0+")


class _Batch(NamedTuple):
    """The sound members of the batch that the last record of a log belongs to."""

    first: int  # line of the first of them
    last: int  # and of the last
    positions: list[int]  # where in the batch they stand
    size: int  # how many members the batch has

    @property
    def ended(self) -> bool:
        """True if its end is there (a damaged mark may lie about a position or the size, not about both)."""
        return self.positions[-1] >= self.size - 1 or len(self.positions) >= self.size


def without_incomplete_tail(log: StoredLog, covered: int, *, torn: bool) -> int:
    """How many lines of a log are left without what a crash cut short at its end. Lines below `covered` were indexed,
    so they were acknowledged once; `torn`: behind the last line is what may be the beginning of a record."""
    lines = log.state.lines
    while lines > covered:
        if _has_hole(log, log.store.entry(lines - 1)):
            lines, torn = lines - 1, True
            continue
        batch = _last_batch(log, lines)
        if batch is None or batch.last < covered or not _cut_short(log, batch, lines, torn=torn):
            return lines
        lines, torn = batch.first, False
    return lines


def cut_through(log: StoredLog) -> int:
    """The line from which on a log ends in a batch that is not whole; its number of lines if there is none."""
    batch = _last_batch(log, log.state.lines)
    return log.state.lines if batch is None or batch.positions == list(range(batch.size)) else batch.first


def last_record(log: StoredLog, stop: int, floor: int = 0) -> int:
    """The last line before `stop` that is neither blank nor damaged; `floor` - 1 if there is none from `floor` on."""
    for line in range(stop - 1, floor - 1, -1):
        if log.store.entry(line).kind not in _NO_RECORD:
            return line
    return floor - 1


def _last_batch(log: StoredLog, lines: int) -> _Batch | None:
    positions: list[int] = []
    sizes: list[int] = []
    batch_id, first = None, lines
    last = line = last_record(log, lines)
    while line >= 0 and log.store.entry(line).flags & _MARKS:
        tl = read_tl(log.read(line, line + 1)[0])
        if positions and tl.get("b") != batch_id:
            break
        batch_id, first = tl.get("b"), line
        positions.append(int(tl.get("i", 0)))
        sizes.append(int(tl.get("n", 0)))
        line = last_record(log, line)
    return _Batch(first, last, positions[::-1], min(sizes)) if positions else None


def _cut_short(log: StoredLog, batch: _Batch, lines: int, *, torn: bool) -> bool:
    """True if a crash left the last batch of the first `lines` lines in its present state."""
    start = batch.first if batch.positions[0] == 0 else last_record(log, batch.first) + 1
    stop = batch.last if batch.ended else lines
    damaged = [entry for entry in log.entries(start, stop) if entry.kind == RecordKind.DAMAGED]
    if any(_has_hole(log, entry) for entry in damaged):
        return True
    return not batch.ended and (torn or not any(entry.line > batch.last for entry in damaged))


def _has_hole(log: StoredLog, entry: Entry) -> bool:
    """True if a line is damaged by zeros that end where a block of the disk ends."""
    if entry.kind != RecordKind.DAMAGED or log.file is None:
        return False
    line = log.file.pread(entry.offset, entry.length)
    return any((entry.offset + zeros.end()) % _BLOCK == 0 for zeros in _ZEROS.finditer(line))


# Loading

SMALL: Final = 8 << 20  # logs up to this size are checked in full whenever they are opened
_SAMPLE: Final = 8


@dataclass(frozen=True, slots=True)
class Loaded:
    log: StoredLog  # what of it counts: without a torn tail, without an incomplete batch at its end
    cut: int = 0  # bytes after that
    torn: int = 0  # of them, those that are no whole record
    rebuilt: bool = False  # there was no usable index
    parsed: bool = True  # every line was parsed at least once
    accepted: bool = False  # it was taken as it is, whatever the index file says
    lost: Damage | None = None  # where lines that were written are not there any more
    recovery: Recovery = Recovery()  # of a log that was opened: what there is to say about it
    highest: int = 0  # of a log that was opened: the highest number of a timeline

    @property
    def checked(self) -> bool:
        return self.parsed and self.log.state.length <= SMALL


def load(path: Path, *, writable: bool, progress: Progress | None = None, trust_index: bool = True) -> Loaded:
    """Open a log; it need not exist. Raises OSError.

    Args:
        path: The log.
        writable: Open it for appending, and keep its index file up to date. Otherwise nothing is written.
        progress: Told about a long scan.
        trust_index: Use the index where it agrees with the log; False takes the log as it is, but for where its lines
            begin and end.
    """
    if durable.status(path) is None:
        return Loaded(StoredLog(path, None, EntryStore(), LogState()))
    file = OpenFile(path, writable=writable, appending=writable)
    size = file.status().size
    found = _indexed(path, file.identity.inode, writable)
    if found is not None and trust_index:
        loaded = _from_index(path, file, size, found[0], parsed=found[1], progress=progress)
        if loaded is not None:
            return _published(loaded, writable)
    reference = None
    if found is not None:
        known = found[0] if durable.HOLD_OPEN else found[0].in_memory()
        reference = Reference(known, known.count, binding=trust_index)
    store = fresh_store(path) if writable else EntryStore()
    scanned, parsed = _scan(file, LogState(), size, store, known=reference, progress=progress)
    covered, lost = 0, None
    if not trust_index:
        covered = scanned.state.lines  # what is there counts: nothing of ours was cut short since it was acknowledged
    elif reference is not None:
        covered, lost = _lines_within(store, reference.length) if reference.length <= size else 0, reference.lost
    loaded = _settled(path, file, store, scanned, covered, rebuilt=True, parsed=parsed)
    return _published(replace(loaded, accepted=not trust_index, lost=lost), writable)


def peek(log: Path) -> LogState | None:
    """The state of a log from its index alone, without checking or scanning; None if the index does not cover it."""
    try:
        there = durable.status(log)
        found = None if there is None else _indexed(log, there.identity.inode, writable=False)
        if there is None or found is None:
            return None
        state = found[0].state(found[0].count)
        return state if state.length == there.size else None
    except (OSError, IndexDamagedError):
        return None


def fresh_store(path: Path) -> EntryStore:
    """An empty store in a new index file that is not yet valid (see `EntryStore.publish`); in memory where that
    cannot be made."""
    try:
        temporary = durable.open_temporary(path.parent, path.name)
        try:
            durable.replace_file(temporary.path, index_path(path))
            temporary.reopened_at(index_path(path))
        except OSError:
            durable.remove_file(temporary.path)
            raise
    except OSError:
        return EntryStore()
    return EntryStore(temporary, 0, writable=True)


def extend(log: StoredLog, size: int, progress: Progress | None = None) -> Loaded:
    """The log with what was added to its file since, up to `size` bytes. The index file is left as it is."""
    assert log.file is not None
    state, store = log.state, log.store.aside()
    if log.open_ended:
        state = store.state(state.lines - 1)
    store.truncate(state.lines)
    scanned, parsed = _scan(log.file, state, size, store, known=None, progress=progress)
    return _settled(log.path, log.file, store, scanned, state.lines, rebuilt=False, parsed=parsed)


def catch_up(log: StoredLog, seen: int) -> Loaded | None:
    """The log as it is now, if its file is another one or of another size than `seen`; None if nothing changed.

    What another program put in the place of the log is taken as it is: it has no checksums to keep to.
    """
    there = durable.status(log.path)
    if there is None:
        if log.file is None:
            return None
        return Loaded(StoredLog(log.path, None, EntryStore(), LogState()))
    if log.file is None or there.identity != log.file.identity:
        return load(log.path, writable=False)
    if there.size == seen:
        return None
    lines = log.state.lines
    try:
        if there.size >= log.state.length and same_lines(log.file, log.store, max(0, lines - 1), lines):
            return extend(log, there.size)
    except IndexDamagedError:
        pass
    return load(log.path, writable=False, trust_index=False)


def _published(loaded: Loaded, writable: bool) -> Loaded:
    if writable and loaded.log.file is not None:
        loaded.log.store.publish(header(loaded.log.file.identity.inode, parsed=loaded.parsed))
    return loaded


def _scan(
    file: OpenFile, state: LogState, size: int, store: EntryStore, *, known: Reference | None, progress: Progress | None
) -> tuple[scan.Scanned, bool]:
    """Scan a log from `state` on, and say whether every line was parsed: all are if they are few, or known already."""
    if size - state.length <= SMALL or known is not None:
        return scan.thoroughly(file, state, size, store, reference=known, progress=progress), True
    return scan.quickly(file, state, size, store, progress=progress), False


def _indexed(path: Path, inode: int, writable: bool) -> tuple[EntryStore, bool] | None:
    """The log's index file, if it is of the file with that inode, and whether it says that every line was parsed."""
    try:
        if durable.status(index_path(path)) is None:
            return None
        base = OpenFile(index_path(path), writable=writable)
        parsed = read_header(base, inode)
        if parsed is None:
            return None
        count = (base.status().size - HEADER_SIZE) // ENTRY_SIZE
        return EntryStore(base, max(0, count)), parsed
    except OSError:
        return None


def _from_index(
    path: Path, file: OpenFile, size: int, store: EntryStore, *, parsed: bool, progress: Progress | None
) -> Loaded | None:
    """The log read through its index and, beyond it, scanned; None if the two disagree."""
    try:
        lines = _lines_within(store, size)
        ahead = lines < store.count
        first = 0 if size <= SMALL else max(0, lines - _SAMPLE)
        same = same_lines(file, store, first, lines) if first else first_difference(file, store, lines) is None
        if not same:
            return None
        state = store.state(lines)
        if not 0 <= state.next_checkpoint_id <= ID_LIMIT:
            return None  # made when such ids were still counted on from
        lost = not_as_written(lines, state.length, store.state(store.count).length) if ahead else None
    except IndexDamagedError:
        return None
    store.truncate(lines)
    known = None
    if lines and file.pread(state.length - 1, 1) != b"\n":
        lines -= 1  # it had no line feed when it was indexed; see whether it has one now
        known = Reference(store.in_memory(lines), 1)
        store.truncate(lines)
        state = store.state(lines)
    scanned, parsed_now = _scan(file, state, size, store, known=known, progress=progress)
    covered = 0 if ahead else lines
    settled = _settled(path, file, store, scanned, covered, rebuilt=False, parsed=parsed and parsed_now)
    return replace(settled, lost=lost)


def _lines_within(store: EntryStore, size: int) -> int:
    return bisect_right(range(store.count), size, key=lambda line: store.entry(line).state.length)


def _settled(
    path: Path, file: OpenFile, store: EntryStore, scanned: scan.Scanned, covered: int, *, rebuilt: bool, parsed: bool
) -> Loaded:
    """Leave out what a crash cut short at the end. Lines below `covered` were indexed, so they were acknowledged."""
    log = StoredLog(path, file, store, scanned.state, open_ended=scanned.open_ended)
    keep = without_incomplete_tail(log, covered, torn=scanned.torn > 0)
    if keep == scanned.state.lines:
        return Loaded(log, scanned.torn, scanned.torn, rebuilt, parsed)
    state = store.state(keep)
    cut = scanned.state.length - state.length + scanned.torn
    torn = scanned.torn if last_record(log, scanned.state.lines, keep) >= keep else cut
    store.truncate(keep)
    return Loaded(StoredLog(path, file, store, state), cut, torn, rebuilt, parsed)


# Checking a whole log that is in use: every checksum, and every line that was never parsed


@dataclass(slots=True)
class Validation:
    """A log parsed again, its entries in an index that is not yet in use."""

    log: StoredLog
    index: OpenFile | None  # the file of the new entries; None while they are in memory
    lost: Damage | None = None  # where lines that were written are not there any more

    def discard(self) -> None:
        if self.index is not None:
            self.index.close()
            with suppress(OSError):  # the next open removes it
                durable.remove_file(self.index.path)


class _AbandonedError(Exception):
    """Nobody wants to know any more."""


def validate(
    log: StoredLog,
    *,
    parsed: bool,
    writable: bool,
    abandoned: Callable[[], bool],
    progress: Progress | None = None,
) -> Validation | None:
    """Parse a log again, which may be appended to meanwhile: lines that are not what was written are damaged then.
    Blocking; None if there was no need.

    Args:
        log: The log as it is now.
        parsed: Every line was parsed before: only the checksums are looked at.
        writable: New entries may be written beside the log.
        abandoned: Asked now and then whether anybody still wants to know.
        progress: Told how far it is.
    """

    def told(done: int, total: int) -> None:
        if abandoned():
            raise _AbandonedError
        if progress is not None:
            progress(done, total)

    try:
        if log.file is None or (parsed and _unchanged(log, log.file, told)):
            return None
        index = durable.open_temporary(log.path.parent, log.path.name) if writable else None
        store = EntryStore(index, 0, writable=writable)
        found = Validation(StoredLog(log.path, log.file, store, LogState()), index)
        try:
            if index is not None:
                index.pwrite(header(log.file.identity.inode, parsed=True), 0)
            continue_to(found, log, told)
            told(log.state.length, log.state.length)
        except BaseException:
            found.discard()
            raise
    except _AbandonedError:
        return None
    except OSError as error:
        raise StorageFailureError.of(error, "check the log", log.path) from error
    return found


def continue_to(found: Validation, log: StoredLog, progress: Progress | None = None) -> None:
    """Go on to where the log is now."""
    assert log.file is not None
    known = Reference(log.store, log.state.lines)
    state = found.log.state
    if found.log.open_ended:  # it may have got its line feed meanwhile
        state = found.log.store.state(state.lines - 1)
        found.log.store.truncate(state.lines)
    known.skip_to(state.length)
    scanned = scan.thoroughly(log.file, state, log.state.length, found.log.store, reference=known, progress=progress)
    found.lost = found.lost or known.lost
    found.log = StoredLog(log.path, log.file, found.log.store, scanned.state, open_ended=log.open_ended)


def adopt(found: Validation, log: StoredLog) -> StoredLog:
    """Put the new entries in the place of the log's index; nobody writes to the log meanwhile. Raises OSError."""
    continue_to(found, log)
    if found.index is not None:
        durable.replace_file(found.index.path, index_path(log.path))
        found.index.reopened_at(index_path(log.path))
    return found.log


def same_history(state: LogState, other: LogState) -> bool:
    """True if two readings of the same bytes agree, but for `has_damage`, which only a thorough reading can know."""
    return replace(state, has_damage=other.has_damage) == other


def newly_found(before: list[Damage], after: list[Damage]) -> list[Damage]:
    """Damage in `after` at offsets where `before` has none."""
    known = {damage.offset for damage in before}
    return [damage for damage in after if damage.offset not in known]


def _unchanged(log: StoredLog, file: OpenFile, progress: Progress) -> bool:
    try:
        return first_difference(file, log.store, log.state.lines, progress) is None
    except IndexDamagedError:
        return False
