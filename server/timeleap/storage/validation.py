"""The check of a whole log behind a session's back: every checksum, and every line that was never parsed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from timeleap.errors import StorageFailureError
from timeleap.storage import compare, durable, scan
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import Damage, LogState, Progress
from timeleap.storage.index import EntryStore, IndexDamagedError, header, index_path
from timeleap.storage.reader import StoredLog


@dataclass(slots=True)
class Validation:
    """A log parsed again, its entries in an index that is not yet in use.

    Attributes:
        log: The log with the new entries.
        index: The file they are in; None while they are in memory.
        lost: Where lines that were written are not there any more.
    """

    log: StoredLog
    index: OpenFile | None
    lost: Damage | None = None

    def discard(self) -> None:
        """It is not needed."""
        if self.index is not None:
            self.index.close()
            with suppress(OSError):  # the next open removes it
                durable.remove_file(self.index.path)


def validate(
    log: StoredLog,
    *,
    parsed: bool,
    writable: bool,
    abandoned: Callable[[], bool],
    progress: Progress | None = None,
) -> Validation | None:
    """Check a log. Blocking; it may be appended to meanwhile.

    Args:
        log: The log as it is now.
        parsed: Every line was parsed before: only the checksums are looked at.
        writable: New entries may be written beside the log.
        abandoned: Asked now and then whether anybody still wants to know.
        progress: Told how far it is.

    Returns:
        The log parsed again, lines that are not what was written being damaged now; None if there was no need.

    Raises:
        StorageFailureError: The operating system refused.
    """

    def told(done: int, total: int) -> None:
        if abandoned():
            raise _AbandonedError
        if progress is not None:
            progress(done, total)

    try:
        if log.file is None or (parsed and _unchanged(log, told)):
            return None
        return _reparsed(log, writable, told)
    except _AbandonedError:
        return None
    except OSError as error:
        raise StorageFailureError.of(error, "check the log", log.path) from error


def _reparsed(log: StoredLog, writable: bool, progress: Progress) -> Validation:
    index = durable.open_temporary(log.path.parent, log.path.name) if writable else None
    store = EntryStore(index, 0, writable=writable)
    found = Validation(StoredLog(log.path, log.file, store, LogState()), index)
    try:
        if index is not None and log.file is not None:
            index.pwrite(header(log.file.identity.inode, parsed=True), 0)
        continue_to(found, log, progress)
        progress(log.state.length, log.state.length)
    except BaseException:
        found.discard()
        raise
    return found


class _AbandonedError(Exception):
    """Nobody wants to know any more."""


def continue_to(found: Validation, log: StoredLog, progress: Progress | None = None) -> None:
    """Go on to where the log is now."""
    assert log.file is not None
    known = compare.Reference(log.store, log.state.lines)
    state = found.log.state
    if found.log.open_ended:  # it may have got its line feed meanwhile
        state = found.log.store.state(state.lines - 1)
        found.log.store.truncate(state.lines)
    known.skip_to(state.length)
    scanned = scan.thoroughly(log.file, state, log.state.length, found.log.store, reference=known, progress=progress)
    found.lost = found.lost or known.lost
    found.log = StoredLog(log.path, log.file, found.log.store, scanned.state, open_ended=log.open_ended)


def adopt(found: Validation, log: StoredLog) -> StoredLog:
    """Put the new entries in the place of the log's index; nobody writes to the log meanwhile.

    Raises:
        OSError: The index cannot be put in place.
    """
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


def _unchanged(log: StoredLog, progress: Progress | None) -> bool:
    assert log.file is not None
    try:
        return compare.first_difference(log.file, log.store, log.state.lines, progress) is None
    except IndexDamagedError:
        return False
