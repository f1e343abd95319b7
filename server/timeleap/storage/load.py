"""Opening a log: mend what a crash left, then use the index if it can be believed, or scan the log.

All of it blocks, and runs in the log's own thread.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from timeleap.storage import durable, index_cache, losses, opened_log, scan
from timeleap.storage.damage import Damage, Quarantined, Recovery
from timeleap.storage.durable import OpenFile
from timeleap.storage.index import (
    EntryStore,
    IndexDamagedError,
    OldIndex,
    first_difference,
    fresh_store,
    header,
    old_index,
    open_index,
)
from timeleap.storage.intents import intent_pending, settle_intent, tidy
from timeleap.storage.log_values import LogState, Progress
from timeleap.storage.opened_log import Loaded
from timeleap.storage.reader import StoredLog, damaged_lines, highest_number, last_record
from timeleap.storage.record import ID_LIMIT
from timeleap.storage.reference import Reference
from timeleap.storage.tail import cut_tail, without_incomplete_tail

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
# - A log that ends before its last batch does was cut short by a crash, though it may have lost its end later. If the
#   index knew more, it has lost its end later, and what is there stays; but for one that was written without syncs
#   (durability `os`): of that a power failure leaves just that.


# Loading

_SAMPLE: Final = 8


def load(
    path: Path,
    *,
    writable: bool,
    progress: Progress | None = None,
    trust_index: bool = True,
    expected: bool = False,
) -> Loaded:
    """Open a log; it need not exist. Where lines are lost, the index stays as it is. Raises OSError.

    Args:
        path: The log.
        writable: Open it for appending, and keep its index file up to date. Otherwise nothing is written.
        progress: Told about a long scan.
        trust_index: Use the index where it agrees with the log; False takes the log as it is, but for where its lines
            begin and end.
        expected: Other files say that there was one.
    """
    if durable.status(path) is None:
        return _missing(path, trust_index=trust_index, expected=expected)
    file = OpenFile(path, writable=writable, appending=writable)
    indexed = open_index(path, file.identity.inode, writable=writable)
    size = file.status().size  # after the index, which must not know of what is appended meanwhile
    loaded = None
    if indexed is not None and trust_index:
        loaded = _from_index(StoredLog(path, file, indexed[0]), size, parsed=indexed[1], progress=progress)
    if loaded is None:
        known = None
        if indexed is not None:
            known = indexed[0]
        loaded = _read_again(path, file, known, writable=writable, progress=progress, trust_index=trust_index)
    if loaded.undecided and (old := old_index(path)) is not None and old.inode == file.identity.inode:
        loaded = replace(loaded, undecided=old.synced)  # else a power failure may have taken the end
    if writable and not loaded.undecided:
        loaded = _with_index_file(loaded)
        loaded.log.store.publish(header(file.identity.inode, parsed=loaded.parsed))
    return loaded


def _missing(path: Path, *, trust_index: bool, expected: bool) -> Loaded:
    """An empty log in the place of one that is not there, and the loss of it."""
    lost, undecided = None, False
    if trust_index and not intent_pending(path):
        lost, undecided = losses.of_missing_log(path, expected=expected)
    return Loaded(StoredLog(path), lost=lost, undecided=undecided, accepted=not trust_index)


def _read_again(
    path: Path,
    file: OpenFile,
    known: EntryStore | None,
    *,
    writable: bool,
    progress: Progress | None,
    trust_index: bool,
) -> Loaded:
    """The log scanned from its beginning, and its loss by the index that it had; `known` is that, if it is of this
    file."""
    size = file.status().size
    reference = None
    if known is not None:
        if not durable.HOLD_OPEN:
            known = known.in_memory()
        reference = Reference(known, known.count, binding=trust_index)
    old = None
    if trust_index:
        old = old_index(path)
    # The old index stays until it is known that no line of it is lost.
    store = fresh_store(path) if writable and old is None else EntryStore()
    loaded = _scanned(StoredLog(path, file, store), size, reference, progress)
    # Without the index all that is there counts: nothing was cut short since it was acknowledged.
    covered, lost = loaded.log.state.lines, None
    if trust_index:
        covered, lost = _compared(loaded.log, size, reference, old)
    loaded = _settled(loaded, covered)
    return replace(
        loaded, rebuilt=True, accepted=not trust_index, lost=lost, undecided=losses.needs_decision(lost, path)
    )


def _compared(
    log: StoredLog, size: int, reference: Reference | None, old: OldIndex | None
) -> tuple[int, Damage | None]:
    """How many lines of a log that was scanned were acknowledged, and its loss: by the index that it had (`reference`), or
    the `old` one of another file."""
    synced = old is not None and old.synced
    if reference is not None:
        lost = loss_behind(log, reference)
        if lost is not None and lost.kind == "notAsWritten" and old is not None:
            lost = losses.behind(log, old) or lost
        if reference.length <= size:
            return lines_within(log.store, reference.length), lost
        return log.state.lines if synced else 0, lost
    if old is None:
        return 0, None
    return losses.common_lines(log, old) if synced else 0, losses.behind(log, old)


def _with_index_file(loaded: Loaded) -> Loaded:
    """The log with its entries in its index file, where a scan kept them elsewhere."""
    log = loaded.log
    if not loaded.rebuilt or log.store.in_file:
        return loaded
    store = fresh_store(log.path)
    store.begin_with(log.store)
    return replace(loaded, log=StoredLog(log.path, log.file, store, log.state, open_ended=log.open_ended))


def loss_behind(log: StoredLog, known: Reference) -> Damage | None:
    """The loss of a log that was scanned with its old index at hand, or the place from which it is not as it was."""
    line = known.lost
    if line is None:
        return None
    there = log.state.messages + 2 * damaged_lines(log)  # two lines may have become one
    return losses.not_in(log.path, line.number, line.offset, known.length - line.offset, known.messages - there)


def _from_index(log: StoredLog, size: int, *, parsed: bool, progress: Progress | None) -> Loaded | None:
    """The log read through its index and, beyond it, scanned; None if the two disagree."""
    assert log.file is not None
    store = log.store
    try:
        lines = lines_within(store, size)
        ahead = lines < store.count
        first = 0 if size <= opened_log.SMALL else max(0, lines - _SAMPLE)
        if first_difference(log.file, store, first, lines) is not None:
            return None
        state = store.state(lines)
        if not 0 <= state.next_checkpoint_id <= ID_LIMIT:
            return None  # made when such ids were still counted on from
        then = store.state(store.count)
    except IndexDamagedError:
        return None
    store.truncate(lines)
    known = None
    if lines and log.file.pread(state.length - 1, 1) != b"\n":
        lines -= 1  # it had no line feed when it was indexed; see whether it has one now
        known = Reference(store.in_memory(lines), 1)
        store.truncate(lines)
        state = store.state(lines)
    old = old_index(log.path) if ahead else None
    # Without syncs a power failure leaves the beginning of a batch; what was synced stays, though its end is lost.
    covered = lines
    if ahead:
        covered = size if old is not None and old.synced else 0
    found = _settled(_scanned(log.at(state), size, known, progress), covered)
    lost, end = None, found.log.state
    if ahead and end.lines < then.lines:
        gone = then.messages - end.messages
        lost = losses.not_in(log.path, end.lines, end.length, then.length - end.length, gone)
    return replace(found, parsed=parsed and found.parsed, lost=lost, undecided=lost is not None)


def extend(log: StoredLog, size: int) -> Loaded:
    """The log with what was added to its file since, up to `size` bytes. The index file is left as it is."""
    state, store = log.state, log.store.aside()
    if log.open_ended:
        state = store.state(state.lines - 1)
    store.truncate(state.lines)
    return _settled(_scanned(StoredLog(log.path, log.file, store, state), size), state.lines)


def lines_within(store: EntryStore, size: int) -> int:
    return bisect_right(range(store.count), size, key=lambda line: store.entry(line).state.length)


def _scanned(log: StoredLog, size: int, known: Reference | None = None, progress: Progress | None = None) -> Loaded:
    """The log and what comes after it up to `size` bytes; all of that is parsed if it is little, or known already."""
    assert log.file is not None
    parsed = size - log.state.length <= opened_log.SMALL or known is not None
    if parsed:
        found = scan.thoroughly(log.file, log.state, size, log.store, reference=known, progress=progress)
    else:
        found = scan.quickly(log.file, log.state, size, log.store, progress=progress)
    grown = StoredLog(log.path, log.file, log.store, found.state, open_ended=found.open_ended)
    return Loaded(grown, found.torn, found.torn, parsed=parsed)


def _settled(loaded: Loaded, covered: int) -> Loaded:
    """Leave out what a crash cut short at the end. Lines below `covered` were indexed, so they were acknowledged."""
    log = loaded.log
    keep = without_incomplete_tail(log, covered, torn=loaded.torn > 0)
    if keep == log.state.lines:
        return loaded
    state = log.store.state(keep)
    cut = log.state.length - state.length + loaded.torn
    torn = loaded.torn if last_record(log, log.state.lines, keep) >= keep else cut
    log.store.truncate(keep)
    return replace(loaded, log=log.at(state), cut=cut, torn=torn)


# Opening a log, mended or not


def looked_at(path: Path, progress: Progress | None, expected: bool = False) -> Loaded:
    """The log as readers open it: without an index beside it, by the one that an earlier look left in the cache."""
    there = durable.status(path)
    if (
        there is None
        or there.size <= opened_log.SMALL
        or open_index(path, there.identity.inode, writable=False) is not None
    ):
        return _described(load(path, writable=False, progress=progress, expected=expected))
    loaded = _by_cached_index(path, progress) or load(path, writable=False, progress=progress, expected=expected)
    log = loaded.log
    if loaded.lost is None and log.file is not None and log.file.status() == there:
        index_cache.keep(path, there, log.store, parsed=loaded.parsed)
    return _described(loaded)


def lost_of(path: Path, *, expected: bool) -> Damage | None:
    """The loss of a log that nobody has accepted yet, if any; the log is only read. Blocking. Raises OSError."""
    found = load(path, writable=False, expected=expected)
    return found.lost if found.undecided else None


def _by_cached_index(path: Path, progress: Progress | None) -> Loaded | None:
    """The log read through an index in the cache; None where there is none that agrees with it in all it says.

    It is not a record of what was acknowledged, as the one beside a log: another program may have written the log anew.
    """
    file = OpenFile(path)
    found = index_cache.find(path, file.status())
    if found is None:
        return None
    loaded = _from_index(StoredLog(path, file, found[0]), file.status().size, parsed=found[1], progress=progress)
    return None if loaded is None or loaded.lost is not None else loaded


def caught_up(log: StoredLog, seen: int) -> Loaded | None:
    """The log as it is now, if its file is another one or of another size than `seen`; None if nothing changed.

    What another program put in the place of the log is taken as it is: it has no checksums to keep to.
    """
    there = durable.status(log.path)
    if there is None:
        loaded = None if log.file is None else load(log.path, writable=False)
    elif log.file is None or there.identity != log.file.identity:
        loaded = load(log.path, writable=False)
    elif there.size == seen:
        loaded = None
    else:
        lines, loaded = log.state.lines, None
        with suppress(IndexDamagedError):
            if (
                there.size >= log.state.length
                and first_difference(log.file, log.store, max(0, lines - 1), lines) is None
            ):
                loaded = extend(log, there.size)
        loaded = loaded or _with_loss(log.path) or load(log.path, writable=False, trust_index=False)
    if loaded is None or (loaded.log.file is None and intent_pending(log.path)):
        return None
    return _described(loaded)


def _with_loss(path: Path) -> Loaded | None:
    """The log as it is now, if somebody has to accept its loss, or it has lost its end and is as it was up to there."""
    loaded = load(path, writable=False)
    at_end = loaded.lost is not None and loaded.lost.line == loaded.log.state.lines
    return loaded if loaded.undecided or at_end else None


def taken_over(path: Path, create: bool, before: StoredLog, *, told: bool) -> Loaded:
    """Mend and load a log as it is, whatever the log `before` and its index say, and tell what it lacks of that, unless
    it is `told` already. We have its lock."""
    settle_intent(path)
    known = losses.before_reload(before, told=told)
    found = recovered(path, create, None, False)
    lost = losses.of_reloaded(found.log, known)
    if lost is None:
        return found
    return replace(found, recovery=replace(found.recovery, warnings=(lost, *found.recovery.warnings)))


def as_reloaded(shown: StoredLog, *, modified: bool) -> StoredLog:
    """A log as `taken_over` would take it in the place of the one that is `shown`; where another program has modified
    that, its `damage` says what it has lost, too. Changes nothing."""
    log = load(shown.path, writable=False, trust_index=False).log
    # What the index beside it says is of the log before: what is shown tells more.
    if modified:
        log.lost = losses.of_reloaded(log, losses.before_reload(shown, told=False))
    return log


def recovered(
    path: Path, create: bool, progress: Progress | None, trust_index: bool = True, expected: bool = False
) -> Loaded:
    """Mend and load a log we have the lock of; one that has lost lines is left as it is."""
    tidy(path)
    loaded = load(path, writable=True, progress=progress, trust_index=trust_index, expected=expected)
    if loaded.undecided:
        return _described(loaded)
    cut = cut_tail(loaded)
    found = _described(replace(loaded, cut=0, torn=0), cut)
    if create and found.log.file is None and not found.recovery.warnings:
        return replace(found, log=new_log(path))
    return found


def _described(loaded: Loaded, cut: Quarantined | None = None) -> Loaded:
    log = loaded.log
    warnings = [*log.damage()]
    if loaded.lost:
        warnings.insert(0, loaded.lost)
    recovery = Recovery(
        quarantined=(cut,) if cut else (),
        index_rebuilt=loaded.rebuilt and log.state.lines > 0,
        warnings=tuple(warnings),
    )
    identity = log.file.identity if log.file else None
    return replace(loaded, recovery=recovery, highest=highest_number(log.path, besides=identity))


def new_log(path: Path) -> StoredLog:
    """Make an empty log. Durable."""
    durable.create_exclusive(path).close()
    try:
        durable.sync_directory(path.parent)
        file = OpenFile(path, writable=True, appending=True)
    except BaseException:
        with suppress(OSError):  # else the next attempt would take it for another program's
            durable.remove_file(path)
        raise
    store = fresh_store(path)
    store.publish(header(file.identity.inode, parsed=True))
    return StoredLog(path, file, store, LogState())
