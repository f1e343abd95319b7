"""Descriptors of regular files: opened without following links, read, written and copied by position.

For `durable` and `filelock`, which say what is done with them; what a platform lacks is made up for here.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from timeleap.errors import StorageFailureError

FILE_MODE: Final = 0o600

_COMMON: Final = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_BLOCK: Final = 1 << 20
_NO_KERNEL_COPY: Final = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF, errno.EPERM)
_seek_lock: Final = threading.Lock()


def open_regular(path: Path, flags: int) -> int:
    """Open without following links and without blocking; what is made is private whatever the umask.

    Raises:
        OSError: As `os.open`.
        StorageFailureError: It is no regular file.
    """
    mode = _mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise _not_regular(path, mode)
    try:
        fd = os.open(path, flags | _COMMON, FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _not_regular(path, _mode_of(path) or 0) from error
        raise
    try:
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            raise _not_regular(path, opened.st_mode)
        if flags & os.O_CREAT and mode is None and hasattr(os, "fchmod"):
            os.fchmod(fd, FILE_MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _mode_of(path: Path) -> int | None:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None


def _not_regular(path: Path, mode: int) -> StorageFailureError:
    kinds: list[tuple[Callable[[int], bool], str]] = [
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ]
    what = next((name for test, name in kinds if test(mode)), "something else")
    return StorageFailureError(f"{path.name} must be a regular file, but is {what}", path=str(path), errno="EINVAL")


if sys.platform == "win32":

    def pread(fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`, from any thread."""
        with _seek_lock:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        """Write at `offset`, from any thread; says how much was taken."""
        with _seek_lock:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.write(fd, data)

else:

    def pread(fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`, from any thread."""
        return os.pread(fd, size, offset)

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        """Write at `offset`, from any thread; says how much was taken."""
        return os.pwrite(fd, data, offset)


def copy(source: int, sink: int, offset: int, at: int, size: int) -> None:
    """Copy within the kernel where it can, else by blocks."""
    if hasattr(os, "copy_file_range"):
        try:
            while size:
                done = os.copy_file_range(source, sink, min(size, 1 << 30), offset, at)
                if done == 0:
                    break
                offset, at, size = offset + done, at + done, size - done
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
    for block in _blocks(source, offset, size):
        view = memoryview(block)
        while view:
            done = pwrite(sink, view, at)
            view, at = view[done:], at + done


def _blocks(fd: int, offset: int, size: int) -> Iterator[bytes]:
    while size:
        block = pread(fd, min(size, _BLOCK), offset)
        if not block:
            raise OSError(errno.EIO, "the file is shorter than it was")
        yield block
        offset, size = offset + len(block), size - len(block)
