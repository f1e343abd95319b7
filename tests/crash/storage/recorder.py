"""Recording what the storage layer does to a directory.

`timeleap.storage.durable` and `lock` change files through the name `os` (`system.py`). A recorder stands in the
place of that name, does what is asked, and writes down each change as an operation on inodes and names: what was
written where, what was synced, which names changed. `states.py` makes crash states of it. Directories count only as parts
of names: one without files is none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.crash.storage.system import stand_in_for_os


@dataclass(frozen=True)
class Op:
    """One change, or a promise (`sync`, `sync_dir`, `ack`).

    Attributes:
        kind: create, write, truncate, sync, sync_dir, rename, link, unlink, rmdir, ack or start.
        inode: The file, by a number of ours that is never used twice.
        name: The name in the directory (of a rename or link: the old one), with slashes; of a rename also a directory's.
        other: The new name.
        offset: Where was written; the new size of a truncation.
        data: What was written.
    """

    kind: str
    inode: int = 0
    name: str = ""
    other: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass
class Recording:
    """A directory as it was, and what was done to it.

    Attributes:
        files: By our inode number: the content at the beginning, durable.
        names: By name: the inode at the beginning, durable.
        ops: What was done.
        real_inodes: By our inode number: the number the file system gave it, which index headers quote.
    """

    files: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    real_inodes: dict[int, int] = field(default_factory=dict)


class Recorder:
    """Stands in for the `os` of the storage layer."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)
        self._mutex = threading.RLock()
        self._by_real: dict[int, int] = {}
        self._next = 1
        self.recording = Recording()
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and _counts(path.name):
                real = path.stat().st_ino
                if real not in self._by_real:
                    inode = self._new_inode(real)
                    self.recording.files[inode] = path.read_bytes()
                self.recording.names[str(path.relative_to(folder))] = self._by_real[real]

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def note(self, kind: str) -> None:
        """Record a promise of the workload: `start` of an operation, or its `ack`."""
        with self._mutex:
            self.recording.ops.append(Op(kind))

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = _whole(path, dir_fd)
        with self._mutex:
            new = not os.path.lexists(path)
            fd = os.open(path, flags, mode)
            name = self._name(path)
            if new and name is not None:
                inode = self._new_inode(os.fstat(fd).st_ino)
                self.recording.ops.append(Op("create", inode, name))
            return fd

    def write(self, fd: int, data: Any) -> int:
        with self._mutex:
            size = os.fstat(fd).st_size
            done = os.write(fd, data)
            self._add(fd, "write", size, bytes(data)[:done])
            return done

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        with self._mutex:
            done = os.pwrite(fd, data, offset)
            self._add(fd, "write", offset, bytes(data)[:done])
            return done

    def copy_file_range(self, source: int, target: int, count: int, offset_src: int, offset_dst: int) -> int:
        with self._mutex:
            done = os.copy_file_range(source, target, count, offset_src, offset_dst)
            self._add(target, "write", offset_dst, os.pread(source, done, offset_src))
            return done

    def ftruncate(self, fd: int, size: int) -> None:
        with self._mutex:
            os.ftruncate(fd, size)
            self._add(fd, "truncate", size)

    def fdatasync(self, fd: int) -> None:
        with self._mutex:
            self._add(fd, "sync")

    def fsync(self, fd: int) -> None:
        with self._mutex:
            if os.path.isdir(f"/proc/self/fd/{fd}"):
                folder = os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), self._folder)
                self.recording.ops.append(Op("sync_dir", name="" if folder == "." else folder))
            else:
                self._add(fd, "sync")

    def replace(self, source: Any, target: Any) -> None:
        with self._mutex:
            os.replace(source, target)
            self._rename("rename", source, target)

    def link(self, source: Any, target: Any, **options: Any) -> None:
        with self._mutex:
            os.link(source, target, **options)
            self._rename("link", source, target)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("unlink", _whole(path, dir_fd))

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("rmdir", _whole(path, dir_fd))

    def _remove(self, kind: str, path: Any) -> None:
        with self._mutex:
            getattr(os, kind)(path)
            name = self._name(path)
            if name is not None:
                self.recording.ops.append(Op(kind, name=name))

    @property
    def supports_follow_symlinks(self) -> set[Any]:
        return {*os.supports_follow_symlinks, self.link}

    def _add(self, fd: int, kind: str, offset: int = 0, data: bytes = b"") -> None:
        inode = self._by_real.get(os.fstat(fd).st_ino)
        if inode is not None:
            self.recording.ops.append(Op(kind, inode, offset=offset, data=data))

    def _rename(self, kind: str, source: Any, target: Any) -> None:
        one, two = self._name(source), self._name(target)
        if one is not None and two is not None:
            self.recording.ops.append(Op(kind, name=one, other=two))

    def _name(self, path: Any) -> str | None:
        folder, name = os.path.split(os.path.abspath(os.fspath(path)))
        place = os.path.join(os.path.realpath(folder), name)
        return place[len(self._folder) + 1 :] if place.startswith(f"{self._folder}/") and _counts(name) else None

    def _new_inode(self, real: int) -> int:
        inode, self._next = self._next, self._next + 1
        self._by_real[real] = inode
        self.recording.real_inodes[inode] = real
        return inode


def _whole(path: Any, dir_fd: int | None) -> Any:
    return path if dir_fd is None else os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), os.fspath(path))


def _counts(name: str) -> bool:
    """The lock says nothing about content."""
    return not name.endswith(".lock")


@contextmanager
def recording(folder: Path) -> Iterator[Recorder]:
    """Record what is done to a directory. Nothing is really synced meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(folder)
        stand_in_for_os(patch, recorder)
        yield recorder
