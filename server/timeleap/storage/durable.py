"""The primitives everything durable is made of. The only module that calls fsync, replace, link and the like.

Every file and every directory that Timeleap's storage changes, it changes through here: so the crash-state tests can
record all of it in one place, and the platforms' differences stay in one place. Failpoints, at the end, are where such
tests stop it.

- Files are 0600 and directories 0700 whatever the umask, where the file system has modes. Links are never followed, and
  what is no regular file is refused without blocking (a FIFO would block a plain open).
- No file gets one of the descriptors 0 to 2, not even where a standard stream is closed: what a library or a child
  process prints must not become a part of it.
- `sync_data` is fdatasync on Linux, F_FULLFSYNC on macOS (where fsync leaves the data in the drive's cache),
  FlushFileBuffers on Windows.
- Windows cannot rename over an open file: there (`HOLD_OPEN` false) a file is opened for each access.
"""

from __future__ import annotations

import _thread
import errno
import logging
import os
import secrets
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from timeleap.errors import StorageFailureError
from timeleap.storage.spare_descriptor import SPARE, ran_out

log = logging.getLogger(__name__)

try:
    import deflate as _zlib  # pyright: ignore[reportMissingImports]
except ImportError:  # there is none for this platform: the same, several times slower
    import zlib as _zlib


class _Checksum(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


crc32: Final[_Checksum] = _zlib.crc32

# Descriptors of regular files (also for `lock`); what a platform lacks is made up for here

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
_LARGE: Final = 8 << 20
_NO_KERNEL_COPY: Final = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF, errno.EPERM)
NO_MODES: Final = (
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EACCES,
    errno.EROFS,
)
"""Errors of chmod() where a file system has no modes, or lets nobody set them."""
_seek_lock: Final = threading.Lock()
_close_lock: Final = threading.Lock()


def open_regular(path: Path, flags: int) -> int:
    """Open without following links and without blocking; what is made is private whatever the umask. Raises
    StorageFailureError for what is no regular file."""
    mode = _mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise _not_regular(path, mode)
    try:
        fd = os.open(path, flags | _COMMON, FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _not_regular(path, _mode_of(path) or 0) from error
        raise
    if fd <= 2:
        fd = _above_standard(fd)
    try:
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            raise _not_regular(path, opened.st_mode)
        if flags & os.O_CREAT and mode is None:
            set_mode(fd, FILE_MODE, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _above_standard(fd: int) -> int:
    """Another descriptor of the same opening, above those of the standard streams; the given one is closed."""
    low = [fd]
    try:
        while (found := os.dup(low[-1])) <= 2:
            low.append(found)
        return found
    finally:
        for each in low:
            os.close(each)


class _ModesRefused:
    """Says once a process that a file system takes no modes."""

    message: str | None = None

    def tell(self, path: Path, error: OSError) -> None:
        if self.message is None:
            self.message = (
                f"the file system of {path.parent} does not let modes be set ({error.strerror}): other users of this "
                "machine may be able to read what is stored there"
            )
            log.warning("%s", self.message)


modes_refused: Final = _ModesRefused()


def set_mode(target: int | Path, mode: int, path: Path) -> None:
    """Give a file or directory of ours its mode: by its descriptor or its path; `path` is its name in words.

    Some mounts refuse that (vfat, SMB, object storage over FUSE). What is made there has the mode that the mount gives
    it; where that lets others in, `modes_refused` says so.
    """
    if os.name == "nt":
        return
    try:
        if isinstance(target, int):
            os.fchmod(target, mode)
        else:
            os.chmod(target, mode)
    except OSError as error:
        if error.errno not in NO_MODES:
            raise
        there = os.fstat(target) if isinstance(target, int) else os.stat(target)
        if stat.S_IMODE(there.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            modes_refused.tell(path, error)


def _mode_of(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return os.lstat(path).st_mode
    return None


def _not_regular(path: Path, mode: int) -> StorageFailureError:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    what = kinds.get(stat.S_IFMT(mode), "something else")
    return StorageFailureError(f"{path.name} must be a regular file, but is {what}", path=str(path), errno="EINVAL")


if sys.platform == "win32":

    def pread(fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`, from any thread."""
        with _seek_lock:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)

    def pwrite(fd: int, data: Buffer, offset: int) -> int:
        """Write at `offset`, from any thread; says how much was taken."""
        with _seek_lock:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.write(fd, data)

else:

    def pread(fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def pwrite(fd: int, data: Buffer, offset: int) -> int:
        return os.pwrite(fd, data, offset)


def copy_bytes(source: int, sink: int, offset: int, at: int, size: int) -> None:
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
    while size:
        data = pread(source, min(size, _BLOCK), offset)
        if not data:
            raise OSError(errno.EIO, "the file is shorter than it was")
        _pwrite_all(sink, data, at)
        offset, at, size = offset + len(data), at + len(data), size - len(data)


# Files

Buffer: TypeAlias = bytes | bytearray | memoryview

HOLD_OPEN: Final[bool] = sys.platform != "win32"
DIRECTORY_MODE: Final = 0o700

_NO_DIRECTORY_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
_NOT_FOR_LACK_OF_LINKS: Final = (
    errno.EEXIST,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC,
    errno.EROFS,
    errno.ENOMEM,
)
"""Errors of link() that are none of a system without hard links. Such a system may answer with any other: EPERM, ENOTSUP,
ENOSYS, but also EACCES (Android), EIO (Docker Desktop's mounts), EINVAL (FUSE)."""
_REPLACE_ATTEMPTS: Final = 50 if sys.platform == "win32" else 1


@contextmanager
def storage_errors(action: str, path: Path) -> Iterator[None]:
    """Raises StorageFailureError ("cannot `action`") for an OSError of the operating system."""
    try:
        yield
    except StorageFailureError:
        raise
    except OSError as error:
        raise StorageFailureError.of(error, action, path) from error


class Identity(NamedTuple):
    """Identifies a file under any of its names."""

    device: int
    inode: int


class FileStatus(NamedTuple):
    identity: Identity
    size: int
    modified_ns: int
    names: int = 1  # so many it has


class Readable(Protocol):
    """Bytes that can be read by position."""

    def pread(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end."""
        ...


class BorrowedBytes(Protocol):
    """Bytes of an open file that are read from other files (`timeleap_postgresql/shared_parts.py`)."""

    def within(self, file: OpenFile, offset: int, size: int) -> list[tuple[OpenFile, int, int]]:
        """Where bytes of the file are: in which file, from where, how many; nothing if all of them are its own."""
        ...

    def cut(self, start: int, stop: int | None) -> None:
        """The bytes `[start, stop)` (None: all from `start` on) of the file were written, or cut off."""
        ...


Share: TypeAlias = "Callable[[OpenFile, OpenFile, int, int], bool]"
"""Has a new file borrow the bytes from a place to another of an older one; False: they have to be copied."""
find_borrowed: Callable[[Identity], BorrowedBytes | None] | None = None
"""Set by a store whose files borrow from one another, such as one in a database."""


class OpenFile:
    """A regular file of the store, held open until it is closed or nobody refers to it any more.

    Reads are by position and may come from any thread. An access after `close` opens the file by its path for the moment.
    """

    __slots__ = ("__weakref__", "_closing", "_fd", "_flags", "_users", "borrowed", "identity", "path")

    def __init__(
        self,
        path: Path,
        *,
        writable: bool = False,
        appending: bool = False,
        create: bool = False,
        new: bool = False,
        whole: bool = True,
    ) -> None:
        """Open `path`; `create` makes it if there is none, `new` wants it not to be there; not `whole`: without what it
        borrows from other files. Raises as `open_regular`."""
        flags = os.O_RDWR if writable else os.O_RDONLY
        if appending:
            flags |= os.O_APPEND
        self._fd = self._closing = -1
        self._users: list[None] = []  # one item for each access under way: appending and popping need no lock
        self.path = path
        make = (os.O_CREAT if create or new else 0) | (os.O_EXCL if new else 0)
        self._fd = open_regular(path, flags | make)
        self._flags = flags
        self.identity = status_of(self._fd).identity
        self.borrowed = find_borrowed(self.identity) if whole and find_borrowed is not None else None
        if not HOLD_OPEN:
            self.close()

    def __del__(self) -> None:
        for fd in (self._fd, self._closing):
            if fd >= 0:
                _close_apart(fd)
        self._fd = self._closing = -1

    def close(self) -> None:
        """Close the descriptor now, or at the end of the last access that is under way."""
        # In this order: an access that still saw the descriptor is among the users by the time these are looked at.
        self._closing, self._fd = max(self._closing, self._fd), -1  # closed again, it is still to be closed
        self._close_unused()

    def _close_unused(self) -> None:
        with _close_lock:
            if self._users or self._closing < 0:
                return
            fd, self._closing = self._closing, -1
        os.close(fd)

    def pread(self, offset: int, size: int) -> bytes:
        if self.borrowed is not None and (places := self.borrowed.within(self, offset, size)):
            return b"".join(file.pread(at, length) for file, at, length in places)  # each has these bytes
        with _Access(self) as fd:
            data = pread(fd, size, offset)
            while 0 < len(data) < size and (more := pread(fd, size - len(data), offset + len(data))):
                data += more
            return data

    def pwrite(self, data: Buffer, offset: int) -> None:
        # One that is held open is none of Windows. Nearly always all is taken; else all again.
        if self._fd < 0 or os.pwrite(self._fd, data, offset) < len(data):
            with _Access(self) as fd:
                _pwrite_all(fd, data, offset)
        if self.borrowed is not None:
            self.borrowed.cut(offset, offset + len(data))

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end (the file was opened for appending) and say where it ended.

        One system call unless the operating system takes less than all of it; then the rest is offered again, because
        only that tells why.
        """
        written = 0
        if (fd := self._fd) >= 0 and (written := os.write(fd, data)) == len(data):
            return os.lseek(fd, 0, os.SEEK_CUR)
        with _Access(self) as fd:
            rest = memoryview(data).cast("B")[written:]
            while rest:
                rest = rest[os.write(fd, rest) :]
            return os.lseek(fd, 0, os.SEEK_CUR)

    def status(self) -> FileStatus:
        with _Access(self) as fd:
            return status_of(fd)

    def truncate(self, size: int) -> None:
        with _Access(self) as fd:
            os.ftruncate(fd, size)
        if self.borrowed is not None:
            self.borrowed.cut(size, None)

    def sync(self) -> None:
        with _Access(self) as fd:
            sync_data(fd)

    def forget_cached(self) -> None:
        """Ask that the next reads come from the disk (a hint; nothing where the platform has no such call)."""
        if hasattr(os, "posix_fadvise"):
            with _Access(self) as fd:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def copy_to(self, target: OpenFile, offset: int, size: int, at: int | None = None) -> None:
        """Copy `size` bytes from `offset` to the end of `target` (not opened for appending), or to `at` in it."""
        at = target.status().size if at is None else at
        places = self.borrowed.within(self, offset, size) if self.borrowed is not None else None
        for file, start, length in places or [(self, offset, size)]:
            with _Access(file) as source, _Access(target) as sink:
                copy_bytes(source, sink, start, at + start - offset, length)


def _pwrite_all(fd: int, data: Buffer, offset: int) -> None:
    view = memoryview(data).cast("B")
    while view:
        done = pwrite(fd, view, offset)
        offset, view = offset + done, view[done:]


def _close_apart(fd: int) -> None:
    """Close a descriptor; in a thread where that frees the blocks of a large file, for which nobody is to wait."""
    with suppress(OSError, RuntimeError):  # at the end of the process no thread can be started
        there = os.fstat(fd)
        if there.st_nlink == 0 and there.st_size > _LARGE:
            _thread.start_new_thread(os.close, (fd,))  # a Thread takes a lock, which may be held where objects go
            return
    os.close(fd)


class _Access:
    """The descriptor of an `OpenFile` for one access: the held one, or one for the moment."""

    __slots__ = ("_file", "_own")

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._own = -1

    def __enter__(self) -> int:
        self._file._users.append(None)
        held = self._file._fd
        if held >= 0:
            return held
        self._file._users.pop()
        self._own = fd = open_regular(self._file.path, self._file._flags)
        if status_of(fd).identity != self._file.identity:
            self.__exit__()
            raise OSError(errno.ESTALE, "another file has this name now", str(self._file.path))
        return fd

    def __exit__(self, *_: object) -> None:
        if self._own >= 0:
            os.close(self._own)
            self._own = -1
            return
        self._file._users.pop()
        if self._file._closing >= 0:
            self._file._close_unused()


def open_temporary(directory: Path, name: str) -> OpenFile:
    """A new, empty, private file beside `name`, called `.<name>.<16 random hex digits>.tmp`."""
    path = directory / f".{name}.{secrets.token_hex(8)}.tmp"
    return OpenFile(path, writable=True, new=True)


def create_exclusive(path: Path) -> OpenFile:
    """A new, empty, private file. Raises FileExistsError."""
    return OpenFile(path, writable=True, new=True)


def make_directory(path: Path) -> None:
    """Make a private directory, its missing parents too; a no-op if it exists. Durable."""
    if path.is_dir():
        return
    make_directory(path.parent)
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        return
    set_mode(path, DIRECTORY_MODE, path)
    sync_directory(path.parent)


def status(path: Path) -> FileStatus | None:
    """Identity and size of what has this name (links not followed), or None."""
    with suppress(FileNotFoundError):
        return _status(os.lstat(path))
    return None


def is_still(name: str, identity: Identity | None, size: int | None = None) -> bool:
    """True if a name (links not followed) refers to that file, and that has this size, if one is given."""
    try:
        there = os.lstat(name)
    except FileNotFoundError:
        return False
    return size in (None, there.st_size) and (there.st_dev, there.st_ino) == identity


def set_change_time_apart(path: Path) -> bool:
    """Let a file's time of change be later than that of all that was changed before, and earlier than that of all that
    is changed from now on; False if its file system cannot tell them apart yet.

    File systems take times from a clock that ticks every 1 to 10 ms: what is changed within one tick gets equal times.
    Since Linux 6.13 some give a file whose times were looked at an exact one at its next change, and no change after
    that gets an earlier one (Documentation/filesystems/multigrain-ts.rst); elsewhere the next tick has to come first.
    """
    try:
        written = os.stat(path).st_mtime_ns
        os.utime(path)
        later = os.stat(path).st_mtime_ns
        if later > written:
            os.utime(path, ns=(later - 1, later - 1))
    except OSError:
        return True  # its time cannot be set: waiting would not help
    return later > written


def status_of(fd: int) -> FileStatus:
    return _status(os.fstat(fd))


def is_regular(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(os.lstat(path).st_mode)
    return False


def list_directory(path: Path) -> list[str]:
    """The names in a directory; none if it does not exist."""
    with suppress(FileNotFoundError):
        try:
            return os.listdir(path)
        except OSError as error:
            if not ran_out(error):
                raise
        with SPARE.lent():
            return os.listdir(path)
    return []


def any_left_over(names: Set[str]) -> bool:
    """True if one of the names in a directory may be that of a temporary file, or of the index of a file that is gone."""
    return any(name.endswith(".tmp") or (name.endswith(".idx") and name[1:-4] not in names) for name in names)


def sync_data(fd: int) -> None:
    """Return when the file's data and size are on the disk itself."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk (a no-op where directories cannot be synced)."""
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(fd)


def replace_file(source: Path, target: Path) -> None:
    """Give `source` the name `target`, over what had it. Atomic; durable after `sync_directory`."""
    for _ in range(_REPLACE_ATTEMPTS - 1):
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(0.02)  # Windows: somebody has the target open for a moment
        else:
            return
    os.replace(source, target)


def replace_at(source: str, target: str, source_folder: int | None, target_folder: int | None) -> None:
    """Replace a file by names within folders that are open (None: the names are whole paths)."""
    os.replace(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)


def link_exclusive(source: Path, target: Path) -> bool:
    """Give the file a second name; False where the file system has no hard links. Raises FileExistsError."""
    try:
        if os.link in os.supports_follow_symlinks:
            os.link(source, target, follow_symlinks=False)
        else:
            os.link(source, target)
    except OSError as error:
        if _is_second_name(source, target):
            return True  # a network file system asked twice, or reports an error of what it did all the same
        if error.errno in _NOT_FOR_LACK_OF_LINKS:
            raise
        return False
    return True


def _is_second_name(path: Path, other: Path) -> bool:
    """True if both names are those of one regular file that has no other names."""
    try:
        one, two = os.lstat(path), os.lstat(other)
    except OSError:
        return False
    same = (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
    return same and one.st_ino != 0 and one.st_nlink == 2 and stat.S_ISREG(one.st_mode) and path != other


def remove_file(path: Path) -> None:
    """Take a name away; a no-op if there is none."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def atomic_write(path: Path, data: Buffer, *, durable: bool = True) -> None:
    """Put `data` at `path` in one step: readers see all of it or what was there before."""
    temporary = open_temporary(path.parent, path.name.lstrip("."))
    try:
        temporary.pwrite(data, 0)
        if durable:
            temporary.sync()
        temporary.close()
        replace_file(temporary.path, path)
    except BaseException:
        remove_file(temporary.path)
        raise
    if durable:
        sync_directory(path.parent)


def _status(result: os.stat_result) -> FileStatus:
    identity = Identity(result.st_dev, result.st_ino)
    return FileStatus(identity, result.st_size, result.st_mtime_ns, result.st_nlink)


# Failpoints: named crash points, inert unless a test switches them on.
#
# A call of `failpoint` with a name such as "replace.after_link" stands at each durable step. Tests set `TIMELEAP_FAILPOINTS`
# in the environment of a child process (`name=action`, several separated by `;`), or call `arm()`. Actions: `kill` (SIGKILL
# to ourselves), `sleep:SECONDS`, `hold:PATH` (makes that file and waits until somebody removes it), `raise:ERRNO` (an
# `OSError`, such as `raise:ENOSPC`). `name@3=kill` acts at the third passing only, `name@3+=kill` from the third on. (The
# idea is that of etcd's gofail and bbolt's failpoints.)

ENVIRONMENT: Final = "TIMELEAP_FAILPOINTS"


class _Armed(Struct):
    action: str
    first: int = 1
    onwards: bool = True
    passed: int = 0

    def due(self) -> bool:
        self.passed += 1
        return self.passed >= self.first if self.onwards else self.passed == self.first


_armed: dict[str, _Armed] = {}


def arm(specification: str) -> None:
    """Switch failpoints on, `name[@N[+]]=action[;...]`; what was armed before is forgotten."""
    _armed.clear()
    for item in filter(None, (part.strip() for part in specification.split(";"))):
        name, _, action = item.partition("=")
        name, _, count = name.partition("@")
        onwards = not count or count.endswith("+")
        _armed[name] = _Armed(action, int(count.rstrip("+") or 1), onwards)


def stalling() -> bool:
    """True if something is armed that waits: a slow disk, which must hold up nobody but who waits for it."""
    return any(armed.action.startswith(("sleep", "hold")) for armed in _armed.values())


def failpoint(name: str) -> None:
    """Do what was armed for `name`; nothing (one dictionary look-up) otherwise."""
    if _armed:
        _act(name)


def _act(name: str) -> None:
    armed = _armed.get(name)
    if armed is None or not armed.due():
        return
    action, _, argument = armed.action.partition(":")
    if action == "kill":
        os.kill(os.getpid(), 9)
        time.sleep(60)
    elif action == "sleep":
        time.sleep(float(argument))
    elif action == "hold":
        with open(argument, "xb"):
            pass
        while os.path.exists(argument):
            time.sleep(0.005)
    elif action == "raise":
        code = getattr(errno, argument)
        raise OSError(code, os.strerror(code))
    else:
        raise ValueError(f"unknown failpoint action {armed.action!r} for {name!r}")


if os.environ.get(ENVIRONMENT):
    arm(os.environ[ENVIRONMENT])
