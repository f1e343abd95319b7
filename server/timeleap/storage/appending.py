"""Writing a group to the end of a log, and what is done when that fails. Blocking; run in the log's own thread.

The order is: look whether the log is still as we left it; write; look whether our bytes are where we believe; sync. On
any error the log is cut back to where it was, so that neither half a record nor an unacknowledged one is left behind.
A sync that failed is never tried again: the system may have dropped the data and would report success. The log is cut
back, opened again and checked; if that cannot be done the log is not written to any more.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeleap.errors import ExternallyModifiedError, StorageFailureError
from timeleap.failpoints import failpoint
from timeleap.storage import durable
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import Durability, LogState
from timeleap.storage.index import IndexDamagedError, header, same_lines
from timeleap.storage.load import extend, fresh_store
from timeleap.storage.reader import StoredLog
from timeleap.storage.write_queue import WriteGroup

_TAIL: Final = 4
_MODIFIED: Final = "{} was changed by a program that takes no lock; reload the session to take over its state"


class UnwritableError(StorageFailureError):
    """The end of the log could not be brought back to a known state; it can only be read."""

    retryable = False


def untouched(log: StoredLog) -> bool:
    """True if the log's name still refers to our file, at the size we left it.

    Raises:
        StorageFailureError: That cannot be told.
    """
    try:
        there = durable.status(log.path)
    except OSError as error:
        raise StorageFailureError.of(error, "look at the log", log.path) from error
    if log.file is None or there is None:
        return log.file is None and there is None
    return there.identity == log.file.identity and there.size == log.state.length


def check_untouched(log: StoredLog) -> None:
    """Raise ExternallyModifiedError if a program that takes no lock changed the log."""
    if not untouched(log):
        raise ExternallyModifiedError(_MODIFIED.format(log.path.name))


@dataclass(frozen=True, slots=True)
class Written:
    """Result of writing a group.

    Attributes:
        log: The log after it.
        spans: The states around each append of the group.
        slipped: Another program wrote to the log in between: the states are not the planned ones.
    """

    log: StoredLog
    spans: list[tuple[LogState, LogState]]
    slipped: bool = False


def write_group(log: StoredLog, group: WriteGroup, durability: Durability) -> Written:
    """Write a group to the end of a log.

    Raises:
        ExternallyModifiedError, StorageFailureError: Nothing was written.
        UnwritableError: The log cannot be written to any more.
    """
    check_untouched(log)
    if log.file is None:
        return _first_group(log, group, durability)
    good = log.state.length
    try:
        failpoint("append.before_write")
        end = log.file.append(group.data)
        failpoint("append.after_write")
    except OSError as error:
        _cut_back(log, good)
        raise StorageFailureError.of(error, "append to the log", log.path) from error
    if end != good + len(group.data):
        return _interleaved_write(log, group, end, durability)
    if durability == "disk":
        _sync(log, good)
    log.store.truncate(group.first_line)
    log.store.extend(group.entries)
    return Written(log.at(group.after), group.spans)


def _first_group(log: StoredLog, group: WriteGroup, durability: Durability) -> Written:
    """Make the log's file with its first records."""
    try:
        created = new_log(log.path)
    except FileExistsError:
        check_untouched(log)
        raise
    except OSError as error:
        raise StorageFailureError.of(error, "create the log", log.path) from error
    return write_group(created, group, durability)


def new_log(path: Path) -> StoredLog:
    """Make an empty log. Durable.

    Raises:
        OSError: It cannot be made.
    """
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


def reopened(log: StoredLog) -> StoredLog:
    """The log through a new descriptor, its end checked against the index, after a sync that failed."""
    file = OpenFile(log.path, writable=True, appending=True)
    lines, size = log.state.lines, log.state.length
    if log.file is None or file.identity != log.file.identity or file.status().size != size:
        raise OSError("the log is not the file it was")
    file.forget_cached()
    try:
        same = same_lines(file, log.store, max(0, lines - _TAIL), lines)
    except IndexDamagedError as error:
        raise OSError("the index is damaged") from error
    if not same:
        raise OSError("the end of the log is not what was written")
    file.sync()
    return StoredLog(log.path, file, log.store, log.state, open_ended=log.open_ended)


def _sync(log: StoredLog, good: int) -> None:
    assert log.file is not None
    try:
        log.file.sync()
        failpoint("append.after_sync")
    except OSError as error:
        failure = StorageFailureError.of(error, "make the log durable", log.path)
        try:
            log.file.truncate(good)
            log.file = reopened(log).file
        except OSError as second:
            raise UnwritableError(
                f"{failure.message}; the log is only readable until it is opened again", **failure.data
            ) from second
        raise failure from error


def _cut_back(log: StoredLog, good: int) -> None:
    assert log.file is not None
    try:
        log.file.truncate(good)
        if log.file.status().size == good:
            return
        reason = "its size is not what it must be"
    except OSError as error:
        reason = str(error)
    raise UnwritableError(
        f"half a record is at the end of {log.path.name} and cannot be cut off ({reason}); open the session again",
        path=str(log.path),
        errno="EIO",
    )


def _interleaved_write(log: StoredLog, group: WriteGroup, end: int, durability: Durability) -> Written:
    """Another program appended between our look and our write. Whole records of ours stay; they are not where we
    planned them, so what they amount to is found by scanning."""
    assert log.file is not None
    start = end - len(group.data)
    whole = log.file.pread(start, len(group.data)) == group.data
    if not whole or (group.data[:1] != b"\n" and log.file.pread(start - 1, 1) != b"\n"):
        if whole and log.file.status().size == end:
            log.file.truncate(start)
        raise ExternallyModifiedError(_MODIFIED.format(log.path.name))
    if durability == "disk":
        try:
            log.file.sync()
        except OSError as error:
            raise UnwritableError.of(error, "make the log durable", log.path) from error
    shift = start - log.state.length
    now = extend(log, log.file.status().size).log
    spans = [
        (_state_at(now, before.length + shift), _state_at(now, after.length + shift)) for before, after in group.spans
    ]
    return Written(now, spans, slipped=True)


def _state_at(log: StoredLog, length: int) -> LogState:
    """The state at a byte that is the end of a line."""
    lines = bisect_left(range(log.state.lines), length, key=lambda lines: log.store.state(lines).length)
    return log.store.state(lines)
