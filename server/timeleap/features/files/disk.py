"""Reads and writes files below a root without ever following a link on the way.

Where the system has it, each folder on the way is opened by its descriptor and refused if it is a link: another
process may exchange one at any time. Elsewhere (Windows) each is looked at before the path is used.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap.features.files.root_folder import RootFolder
from timeleap.storage.durable import NO_MODES, replace_at, sync_data, sync_directory

BY_DESCRIPTOR: Final = {os.open, os.mkdir, os.unlink, os.rmdir, os.stat, os.symlink, os.readlink} <= os.supports_dir_fd
_FOLDER: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_READ: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_NEW: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_BLOCK: Final = 1 << 20
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_OCCUPIED: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY, errno.EACCES, errno.EPERM)


class Found(Struct, frozen=True):
    """The entry at a path.

    Attributes:
        oid: Git's name of its content, of files and links only.
        links: How many names the file has, some of them perhaps outside of the root.
    """

    mode: int
    size: int
    changed_ns: int
    oid: str | None = None
    links: int = 1


class Disk:
    """The files below one root."""

    def __init__(self, root: RootFolder) -> None:
        self._root = root

    def verify(self) -> None:
        """Raises FilesUnavailableError where the root's path leads to another folder by now."""
        self._root.verify()

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int | None, str]]:
        """The folder of `path` as a descriptor, and its name in it. Raises OSError if there is no such folder."""
        parts = path.split("/")
        if not BY_DESCRIPTOR:
            self._root.verify()
            place = self._root.path
            for part in parts[:-1]:
                place /= part
                if not stat.S_ISDIR(os.lstat(place).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
            yield None, str(place / parts[-1])
            return
        with self._root.opened() as root:
            fd = root
            try:
                for part in parts[:-1]:
                    deeper = os.open(part, _FOLDER, dir_fd=fd)
                    if fd != root:
                        os.close(fd)
                    fd = deeper
                yield fd, parts[-1]
            finally:
                if fd != root:
                    os.close(fd)

    def look(self, path: str, *, content: bool = False) -> Found | None:
        """Look at `path`, and with `content` hash it, too. None if nothing is there, or a parent is no folder."""
        try:
            with self._parent(path) as (fd, name):
                facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
                oid = None
                if content and stat.S_ISLNK(facts.st_mode):
                    oid = _named(os.fsencode(os.readlink(name, dir_fd=fd)))
                elif content and stat.S_ISREG(facts.st_mode):
                    oid = _hashed(name, fd)
                return Found(facts.st_mode, facts.st_size, facts.st_ctime_ns, oid, facts.st_nlink)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def content(self, path: str) -> bytes:
        """The content of a file, or where a link points to. Raises OSError."""
        with self._parent(path) as (fd, name):
            if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                return os.fsencode(os.readlink(name, dir_fd=fd))
            blocks: list[bytes] = []
            file = os.open(name, _READ, dir_fd=fd)
            try:
                while block := os.read(file, _BLOCK):
                    blocks.append(block)
            finally:
                os.close(file)
            return b"".join(blocks)

    def changed_ns(self, path: str) -> int:
        """When it was changed last; of what is gone, when its folder was, or the nearest one above that is there."""
        while path:
            found = self.look(path)
            if found is not None:
                return found.changed_ns
            path = path.rpartition("/")[0]
        return self._root.facts("").st_ctime_ns

    def nearest_folder(self, path: str) -> str:
        """The deepest folder above `path` that exists; empty for the root."""
        folder = path.rpartition("/")[0]
        while folder:
            found = self.look(folder)
            if found is not None and stat.S_ISDIR(found.mode):
                return folder
            folder = folder.rpartition("/")[0]
        return ""

    def write_file(self, path: str, mode: int, copy: Callable[[Callable[[bytes], object]], object], sync: bool) -> None:
        """Make a file, which must not be there; `copy` is called with a function that takes its content."""
        with self._parent(path) as (fd, name):
            file = os.open(name, _NEW, 0o600, dir_fd=fd)
            try:

                def write(block: bytes) -> None:
                    view = memoryview(block)
                    while view:
                        view = view[os.write(file, view) :]

                copy(write)
                if hasattr(os, "fchmod"):
                    with _modes_or_none():
                        os.fchmod(file, stat.S_IMODE(mode))
                if sync:
                    sync_data(file)
            finally:
                os.close(file)

    def write_link(self, path: str, target: bytes) -> None:
        with self._parent(path) as (fd, name):
            os.symlink(os.fsdecode(target), name, dir_fd=fd)

    def move(self, source: str, target: str) -> None:
        """Give a file or link another name, in the place of what has it."""
        with self._parent(source) as (source_fd, source_name), self._parent(target) as (target_fd, target_name):
            replace_at(source_name, target_name, source_fd, target_fd)

    def remove(self, path: str) -> None:
        """Remove a file or link; nothing if it is gone."""
        try:
            with self._parent(path) as (fd, name):
                os.unlink(name, dir_fd=fd)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        parent = path.rpartition("/")[0]
        found = self.look(path)
        if found is not None and stat.S_ISDIR(found.mode):
            return
        if parent:
            self.make_folder(parent)
        with self._parent(path) as (fd, name):
            os.mkdir(name, dir_fd=fd)

    def remove_folder(self, path: str) -> None:
        """Remove a folder if it is there and empty."""
        try:
            with self._parent(path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise

    def set_mode(self, path: str, mode: int, *, folder: bool = False) -> bool:
        """Set the permissions of what is there, if it is a file, or with `folder` if it is a folder. False for a file
        with several names, which stays as it is: the others may be outside of the root."""
        if not hasattr(os, "fchmod"):
            return True
        with self._parent(path) as (fd, name):
            facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = stat.S_IFDIR if folder else stat.S_IFREG
            if stat.S_IMODE(facts.st_mode) == stat.S_IMODE(mode) or stat.S_IFMT(facts.st_mode) != kind:
                return True
            if not folder and facts.st_nlink > 1:
                return False
            try:
                opened = os.open(name, _READ, dir_fd=fd)
            except PermissionError:
                with _modes_or_none():  # one that its owner cannot read has no descriptor
                    os.chmod(name, stat.S_IMODE(mode), dir_fd=fd)
                return True
            try:
                if not folder and os.fstat(opened).st_nlink > 1:
                    return False
                with _modes_or_none():
                    os.fchmod(opened, stat.S_IMODE(mode))
            finally:
                os.close(opened)
            return True

    def names(self, folder: str) -> list[str]:
        """The names in a folder; the root itself is the empty one. Raises OSError."""
        with self._parent(f"{folder}/." if folder else ".") as (fd, name):
            return [entry.name for entry in os.scandir(fd if fd is not None else name)]

    def sync_folder(self, folder: str) -> None:
        """Return when the names in a folder are on the disk; at once where it is no folder (any more). Raises
        OSError."""
        place = self._root.place
        try:
            sync_directory(Path(f"{place}/{folder}" if folder else place))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise

    def remove_temporaries(self, folders: set[str], prefix: str) -> None:
        """Remove what was written beside its place and has not got its name."""
        for folder in folders:
            with suppress(OSError):
                for name in self.names(folder):
                    if name.startswith(prefix):
                        self.remove(f"{folder}/{name}" if folder else name)


@contextmanager
def _modes_or_none() -> Iterator[None]:
    """Set modes where the file system has any: contents come back where it has none."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_MODES:
            raise


def _named(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _hashed(name: str, fd: int | None) -> str:
    file = os.open(name, _READ, dir_fd=fd)
    try:
        digest = hashlib.sha1(b"blob %d\0" % os.fstat(file).st_size, usedforsecurity=False)
        while block := os.read(file, _BLOCK):
            digest.update(block)
        return digest.hexdigest()
    finally:
        os.close(file)


def is_mode_changed(path_mode: int, found: Found) -> bool:
    return os.name == "posix" and not stat.S_ISLNK(path_mode) and stat.S_IMODE(path_mode) != stat.S_IMODE(found.mode)
