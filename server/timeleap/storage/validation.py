"""Checks of a whole log: every line and checksum, in pieces, while others write.

All of it but `validate_in_thread` blocks, and runs in a thread of the log's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from timeleap.errors import StorageFailureError
from timeleap.storage import durable, scan
from timeleap.storage.damage import Damage
from timeleap.storage.durable import OpenFile
from timeleap.storage.index import EntryStore, IndexDamagedError, first_difference, header, index_path
from timeleap.storage.load import loss_behind
from timeleap.storage.log_values import Progress
from timeleap.storage.reader import StoredLog
from timeleap.storage.reference import Reference
from timeleap.uncancelled_work import LogThread, Outcome


class Validation(Struct):
    """A log parsed again, its entries in an index that is not yet in use."""

    log: StoredLog
    index: OpenFile | None  # the file of the new entries; None while they are in memory
    lost: Damage | None = None  # where lines that were written are not there any more; by the index we held

    def discard(self) -> None:
        if self.index is not None:
            self.index.close()
            with suppress(OSError):  # the next open removes it
                durable.remove_file(self.index.path)


class _AbandonedError(Exception):
    """Nobody wants to know any more."""


def validate(
    log: StoredLog, *, parsed: bool, writable: bool, abandoned: Callable[[], bool], progress: Progress | None = None
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
        if log.file is None or (parsed and has_bytes_of(log, log.file, told)):
            return None
        index = durable.open_temporary(log.path.parent, log.path.name) if writable else None
        store = EntryStore(index, 0, writable=writable)
        found = Validation(StoredLog(log.path, log.file, store), index)
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


async def validate_in_thread(
    log: StoredLog, *, parsed: bool, writable: bool, abandoned: Callable[[], bool], progress: Progress | None
) -> Validation | None:
    """Run `validate` in a thread of its own. If this is cancelled, the thread ends soon, and its result is discarded."""
    thread = LogThread(f"timeleap check of {log.path.parent.name}")
    checking: Outcome[Validation | None] | None = None  # the thread may look at it before `begin` returns

    def unwanted() -> bool:
        return abandoned() or (checking is not None and checking.unwanted)

    checking = thread.begin(
        lambda: validate(log, parsed=parsed, writable=writable, abandoned=unwanted, progress=progress)
    )
    thread.end()
    found = await checking.result_uncancelled()
    if checking.unwanted:
        if found is not None:
            found.discard()
        raise asyncio.CancelledError
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
    found.lost = found.lost or loss_behind(StoredLog(log.path, log.file, found.log.store, scanned.state), known)
    found.log = StoredLog(log.path, log.file, found.log.store, scanned.state, open_ended=log.open_ended)


def adopt(found: Validation, log: StoredLog) -> StoredLog:
    """Put the new entries in the place of the log's index; nobody writes to the log meanwhile. Raises OSError."""
    continue_to(found, log)
    if found.index is not None:
        durable.replace_file(found.index.path, index_path(log.path))
        found.index.path = index_path(log.path)
    return found.log


def has_bytes_of(log: StoredLog, file: OpenFile, progress: Progress | None = None) -> bool:
    """True if a file has what a log's index says of it."""
    try:
        return first_difference(file, log.store, 0, log.state.lines, progress) is None
    except IndexDamagedError:
        return False
