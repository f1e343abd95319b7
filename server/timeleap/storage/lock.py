"""Locks between processes, on files: the only module that calls flock and its relatives."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from timeleap.storage import durable

_LOCKED_BYTE: Final = 1 << 30  # Windows locks are mandatory: far beyond the owner record, so that it stays readable
_RECORD_LIMIT: Final = 4096
LOCK_SECONDS = 5.0
"""How long to wait for another process that changes a small file; it takes milliseconds."""


class FileLock:
    """An exclusive lock between processes on a file; the system frees it at once when the process dies.

    Attributes:
        place: The name of the file, and, while the lock is held, which file that is: one that has lost its name, since it
            was moved away or removed, keeps nobody out.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place: tuple[str, durable.Identity | None] = str(path), None
        self._fd = -1

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def try_acquire(self) -> bool:
        """Take the lock if it is free; one that is held on a file which has lost its name is let go of then, and only then.
        Raises OSError where the lock file cannot be made or opened."""
        while not (self.held and durable.is_still(*self.place)):
            fd = durable.open_regular(self._path, os.O_RDWR | os.O_CREAT)
            try:
                free = _try_lock(fd)
                there = durable.status(self._path)
                identity = durable.status_of(fd).identity
                ours = free and there is not None and there.identity == identity
            except BaseException:
                os.close(fd)
                raise
            if ours:
                self.release()
                self._fd, self.place = fd, (self.place[0], identity)
                return True
            os.close(fd)
            if not free:
                return False
            # Somebody removed the file meanwhile: a lock on it keeps nobody out.
        return True

    def write(self, data: bytes) -> None:
        """Replace the lock file's content (the owner record; `read` returns it).

        What is shorter than the content before it is filled up with spaces: to cut the file would cost a file system
        several milliseconds, and a lock that is taken for each write writes its record each time. Nobody else may read
        it, no matter which process made the file: the record may say how its holder is reached.
        """
        there = os.fstat(self._fd)
        if stat.S_IMODE(there.st_mode) != durable.FILE_MODE:
            durable.set_mode(self._fd, durable.FILE_MODE, self._path)
        durable.pwrite(self._fd, memoryview(data.ljust(there.st_size)), 0)

    def read(self) -> bytes:
        with suppress(OSError):
            fd = durable.open_regular(self._path, os.O_RDONLY)
            try:
                return durable.pread(fd, _RECORD_LIMIT, 0).rstrip()
            finally:
                os.close(fd)
        return b""

    def release(self) -> None:
        """Free the lock. Idempotent. The file stays: removing it would race with the next owner."""
        fd, self._fd, self.place = self._fd, -1, (self.place[0], None)
        if fd >= 0:
            try:
                _unlock(fd)
            finally:
                os.close(fd)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` for a moment. Raises OSError where it cannot be made, or another process keeps it."""
    lock = FileLock(path)
    deadline = time.monotonic() + LOCK_SECONDS
    while not lock.try_acquire():
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock", str(path))
        time.sleep(0.005)
    try:
        yield
    finally:
        lock.release()


if sys.platform == "win32":

    def _try_lock(fd: int) -> bool:
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(fd: int) -> bool:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)
