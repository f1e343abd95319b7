"""The states in which a crash may leave a directory.

After a killed process: every prefix of what was done, and every write torn. After a power failure, in addition:

- data that was not synced is lost, or replaced by zeros (the size is there, the blocks are not), in all files or in one;
- of data that was not synced a single block is missing, or only the last one is there (the disk writes in any order);
- of the changes of names since the directory was synced, the last ones may be lost (a journal keeps their order), or
  any single one (where the file system keeps no order).
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from tests.crash.storage.recorder import Op, Recording

from timeleap.storage.index import HEADER_SIZE, header

BLOCK = 512


@dataclass(frozen=True)
class State:
    """A directory after a crash.

    Attributes:
        how: What kind of crash, for the report.
        at: How many operations had been done.
        files: By inode: its content.
        names: By name: its inode.
        started, acked: Operations of the workload that had begun, and that had been acknowledged.
        log_before: The live log before a recovery that was cut short.
    """

    how: str
    at: int
    files: dict[int, bytes]
    names: dict[str, int]
    started: int
    acked: int
    log_before: bytes = b""

    def key(self) -> str:
        """Equal for states that no program can tell apart."""
        digest = hashlib.sha256()
        first: dict[int, str] = {}
        for name, inode in sorted(self.names.items()):
            digest.update(f"{name}={first.setdefault(inode, name)}\0".encode())
            digest.update(self.files.get(inode, b""))
        digest.update(f"{self.started} {self.acked}".encode())
        return digest.hexdigest()

    def materialise(self, folder: Path, recording: Recording) -> None:
        """Make the directory. Index headers quote the inode number of their log: they are made to quote the new one."""
        made: dict[int, Path] = {}
        for name, inode in self.names.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if inode in made:
                os.link(made[inode], path)
            else:
                path.write_bytes(self.files.get(inode, b""))
                made[inode] = path
        new = {recording.real_inodes[inode]: path.stat().st_ino for inode, path in made.items()}
        for path in made.values():
            content = path.read_bytes()
            for old, real in new.items():
                for parsed, synced in product((True, False), repeat=2):
                    if content[:HEADER_SIZE] == header(old, parsed=parsed, synced=synced):
                        with open(path, "r+b") as file:
                            file.write(header(real, parsed=parsed, synced=synced))


@dataclass
class _Disk:
    """What is on the disk for sure, and what may be."""

    files: dict[int, bytes]  # as a process sees them
    synced: dict[int, bytes]
    names: dict[str, int]  # as a process sees them
    synced_names: dict[str, int]
    renames: list[Op]  # since the directory was synced
    started: int = 0
    acked: int = 0

    def apply(self, op: Op) -> None:
        match op.kind:
            case "create":
                self.files[op.inode] = b""
                self.synced.setdefault(op.inode, b"")
            case "write" | "truncate":
                self.files[op.inode] = written(self.files[op.inode], op)
            case "sync":
                self.synced[op.inode] = self.files[op.inode]
            case "sync_dir":
                self._sync_directory(op.name)
            case "start":
                self.started += 1
            case "ack":
                self.acked += 1
            case _:
                pass
        if op.kind in ("create", "rename", "link", "unlink", "rmdir"):
            renamed(self.names, op)
            self.renames.append(op)

    def _sync_directory(self, folder: str) -> None:
        """The changes of names in a directory are on the disk, and those that were made before them."""
        places = [{os.path.dirname(op.name), os.path.dirname(op.other or op.name)} for op in self.renames]
        count = max((number for number, touched in enumerate(places, 1) if folder in touched), default=0)
        for op in self.renames[:count]:
            renamed(self.synced_names, op)
        self.renames = self.renames[count:]


def written(content: bytes, op: Op) -> bytes:
    """The content after a write or a truncation."""
    if op.kind == "truncate":
        return content[: op.offset].ljust(op.offset, b"\0")
    return content[: op.offset].ljust(op.offset, b"\0") + op.data + content[op.offset + len(op.data) :]


def renamed(names: dict[str, int], op: Op) -> None:
    """Change the names as the operation does; one whose name was lost does nothing."""
    if op.kind == "create":
        names[op.name] = op.inode
    elif op.kind == "unlink":
        names.pop(op.name, None)
    elif op.kind == "link" and op.name in names:
        names[op.other] = names[op.name]
    elif op.kind == "rename":
        for name in [one for one in names if one == op.name or one.startswith(f"{op.name}/")]:
            names[op.other + name[len(op.name) :]] = names.pop(name)


def crash_states(recording: Recording, *, power: bool = True, holes: bool = True) -> Iterator[State]:
    """Every distinct state.

    Args:
        recording: What was done.
        power: Those after a power failure too.
        holes: Of these, those with single blocks missing too.
    """
    seen: set[str] = set()
    for state in _all_states(recording, power, holes):
        if state.key() not in seen:
            seen.add(state.key())
            yield state


def _all_states(recording: Recording, power: bool, holes: bool) -> Iterator[State]:
    names = recording.names
    disk = _Disk(dict(recording.files), dict(recording.files), dict(names), dict(names), [])
    for at, op in enumerate([Op("begin"), *recording.ops]):
        if op.kind == "write":
            yield from _torn(disk, op, at)
        disk.apply(op)
        yield _state("kill", at, disk, disk.files, disk.names)
        if power:
            yield from _power(disk, at, holes)


def _state(how: str, at: int, disk: _Disk, files: dict[int, bytes], names: dict[str, int]) -> State:
    return State(how, at, dict(files), dict(names), disk.started, disk.acked)


def _torn(disk: _Disk, op: Op, at: int) -> Iterator[State]:
    """A write of which only the beginning was done."""
    size = len(op.data)
    for cut in sorted({1, size // 3, size // 2, size - 1, *line_cuts(op.data)}):
        if 0 < cut < size:
            part = replace(op, data=op.data[:cut])
            files = {**disk.files, op.inode: written(disk.files[op.inode], part)}
            yield _state(f"torn at {cut}", at, disk, files, disk.names)


def line_cuts(data: bytes) -> list[int]:
    """Around the first line feeds of a write."""
    cuts: list[int] = []
    at = data.find(b"\n")
    while at >= 0 and len(cuts) < 9:
        cuts += [at, at + 1, at + 2]
        at = data.find(b"\n", at + 1)
    return cuts


def _power(disk: _Disk, at: int, holes: bool) -> Iterator[State]:
    """What a power failure may leave: names up to any point, data lost in all files or in one."""
    unsynced = [inode for inode in disk.files if disk.files[inode] != disk.synced.get(inode, b"")]
    contents: list[tuple[str, dict[int, bytes]]] = [("all data kept", disk.files)]
    if unsynced:
        contents.append(("all unsynced data lost", {**disk.files, **{i: disk.synced.get(i, b"") for i in unsynced}}))
        contents.append(("unsynced data is zeros", {**disk.files, **{i: zeroed(disk, i) for i in unsynced}}))
    if len(unsynced) > 1:
        contents += [(f"data of {i} lost", {**disk.files, i: disk.synced.get(i, b"")}) for i in unsynced]
    if holes:
        contents += [(f"hole in {i}", {**disk.files, i: content}) for i in unsynced for content in holed(disk, i)]
    for kept in _kept_renames(disk.renames):
        names = dict(disk.synced_names)
        for op in kept:
            renamed(names, op)
        for how, files in contents:
            yield _state(f"power: {how}, {len(kept)} of {len(disk.renames)} names", at, disk, files, names)


def _kept_renames(renames: list[Op]) -> Iterator[list[Op]]:
    for count in range(len(renames) + 1):
        yield renames[:count]
    for lost in range(len(renames) - 1):
        yield [op for number, op in enumerate(renames) if number != lost]


def zeroed(disk: _Disk, inode: int) -> bytes:
    """The file with its new size, where what was not synced reads as zeros."""
    same, new = unsynced_from(disk, inode), disk.files[inode]
    return new[:same] + b"\0" * (len(new) - same)


def holed(disk: _Disk, inode: int) -> Iterator[bytes]:
    """The file with one block of what was not synced missing; and with all of them but the last."""
    same, new = unsynced_from(disk, inode), disk.files[inode]
    cuts = [same, *range((same // BLOCK + 1) * BLOCK, len(new), BLOCK), len(new)]
    if len(cuts) < 3:
        return
    for start, stop in [*itertools.pairwise(cuts), (same, cuts[-2])]:
        yield new[:start] + b"\0" * (stop - start) + new[stop:]


def unsynced_from(disk: _Disk, inode: int) -> int:
    """The first byte that may not be what was written."""
    old, new = disk.synced.get(inode, b""), disk.files[inode]
    return next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
