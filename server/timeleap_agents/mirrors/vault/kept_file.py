"""The bytes of one program's file as they are kept beside its mirror: what the file has more is appended; where what was
read has changed, the generation ends, and the next one begins.

The bytes are on the disk before the mirror says what they mean. What a crash leaves is a beginning of the file, and is
compared with it before more is appended.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from timeleap import clock
from timeleap.storage.durable import FileStatus, Identity, OpenFile, failpoint, remove_file, storage_errors
from timeleap_agents.mirrors.packed_files import file_at, unpacked_path
from timeleap_agents.mirrors.vault import packing
from timeleap_agents.mirrors.vault.notes import Ended, Generation, next_number, raw_name, read_notes, write_notes

TAIL: Final = 4096
"""Bytes before the end of what is kept that are compared before more is appended."""


class _Lock:
    """The lock on a directory of kept bytes, for one change."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_locks: Final[WeakValueDictionary[str, _Lock]] = WeakValueDictionary()
_locks_lock: Final = threading.Lock()


def lock_of(directory: Path) -> _Lock:
    """The one lock of a directory in this process; the session's own keeps other processes out."""
    with _locks_lock:
        return _locks.setdefault(os.path.realpath(directory), _Lock())


class KeptFile:
    """The bytes that are kept in one mirror's directory. All methods block; hold the session's lock for those that change it.

    Args:
        directory: Of the mirror.
        durable: Whether bytes are to be on the disk itself when `keep` returns.
        row: Of the numbers of the generations: 0 for the mirrored file, another for one beside it.
    """

    def __init__(self, directory: Path, *, durable: bool = True, row: int = 0) -> None:
        self.directory, self.row = directory, row
        self._durable = durable
        self._lock = lock_of(directory)
        self._compared: FileStatus | None = None  # as the file was when it was found to begin with what is kept

    def keep(self, path: Path) -> bool:
        """Keep what the file has more than is kept; says whether something waits to be compressed.

        Raises:
            OSError: It cannot be read, or the bytes cannot be written; what was written before is kept.
        """
        with self._lock.lock, storage_errors("keep the agent's file", path), closing(file_at(path)) as file:
            noted = read_notes(self.directory, self.row)
            known = list(noted)
            live = known[-1] if known and known[-1].ended is None else None
            there = file.status()
            if live is not None and (why := self._difference(live, file, there)) is not None:
                known[-1] = self._ended(live, why)
                live = None
            if live is None:
                number = next_number(self.directory, known, self.row)
                live = Generation(number, str(unpacked_path(path)), clock.now_iso())
                known.append(live)
                self._create(live)
            now = replace(live, path=str(unpacked_path(path)), device=there.identity.device, inode=there.identity.inode)
            self._append(now, file, there)
            if now.read is not None:
                now = replace(now, read=there.size)
            known[-1] = now
            if known != noted:
                write_notes(self.directory, known, self.row)
            self._compared = there
            return any(each.ended and not each.packed for each in known)

    def add(self, path: Path, data: bytes) -> None:
        """Keep what is no file of its own, but is read from the one at `path`: bytes behind those that are kept.

        Raises:
            OSError: They cannot be written.
        """
        with self._lock.lock, storage_errors("keep the agent's session", path):
            known = read_notes(self.directory, self.row)
            if not known or known[-1].ended is not None:
                known.append(Generation(next_number(self.directory, known, self.row), str(path), clock.now_iso()))
                self._create(known[-1])
                write_notes(self.directory, known, self.row)
            with closing(OpenFile(self.directory / known[-1].name, writable=True)) as kept:
                size = kept.status().size
                is_torn = size > 0 and kept.pread(size - 1, 1) != b"\n"
                kept.pwrite(b"\n" + data if is_torn else data, size)
                if self._durable:
                    kept.sync()

    def live(self) -> Generation | None:
        """The generation that may grow."""
        known = read_notes(self.directory, self.row)
        return known[-1] if known and known[-1].ended is None else None

    def waits(self) -> bool:
        """Something waits to be compressed."""
        return any(each.ended and not each.packed for each in read_notes(self.directory, self.row))

    def brings_back(self, path: Path) -> bool:
        """True if the file does not go on from what is kept, of which something was taken out."""
        known = read_notes(self.directory, self.row)
        if all(each.read is None for each in known):
            return False
        if known[-1].ended is not None:
            return True
        with closing(file_at(path)) as file:
            return self._difference(known[-1], file, file.status()) is not None

    def end(self, why: Ended) -> bool:
        """End the generation that may grow; says whether something waits to be compressed."""
        with self._lock.lock, storage_errors("keep the agent's file", self.directory):
            known = read_notes(self.directory, self.row)
            self._compared = None
            if known and known[-1].ended is None:
                known[-1] = self._ended(known[-1], why)
                write_notes(self.directory, known, self.row)
            return any(each.ended and not each.packed for each in known)

    def pack(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Compress the generations that have ended, until `stopped` says so.

        Raises:
            OSError: One cannot be written; it is kept as it is.
        """
        with self._lock.lock, suppress(packing.StoppedError, FileNotFoundError):
            for generation in read_notes(self.directory, self.row):
                if generation.ended and not generation.packed:
                    self._pack(generation, stopped)

    def _pack(self, generation: Generation, stopped: Callable[[], bool]) -> None:
        raw = self.directory / raw_name(generation.number)
        size, digest = packing.write_packed(
            self.directory, generation.number, packing.blocks(self.directory, generation), stopped
        )
        failpoint("vault.packed")
        known = [
            replace(each, bytes=size, sha256=digest) if each.number == generation.number else each
            for each in read_notes(self.directory, self.row)
        ]
        write_notes(self.directory, known, self.row)
        remove_file(raw)  # until then it counts

    def _create(self, generation: Generation) -> None:
        OpenFile(self.directory / raw_name(generation.number), writable=True, new=True).close()
        self._compared = None

    def _append(self, live: Generation, file: OpenFile, there: FileStatus) -> None:
        path = self.directory / raw_name(live.number)
        with closing(OpenFile(path, writable=True)) as kept:
            size = kept.status().size
            begin = size if live.read is None else live.read
            if there.size > begin:
                file.copy_to(kept, begin, there.size - begin, size)
                if self._durable:
                    kept.sync()
        with suppress(OSError):  # of the file: it is given back with its time
            os.utime(path, ns=(there.modified_ns, there.modified_ns))

    def _ended(self, live: Generation, why: Ended) -> Generation:
        status = (self.directory / raw_name(live.number)).stat()
        seen = clock.iso(status.st_ctime)
        return replace(live, ended=why, last_seen=max(live.first_seen, seen), modified_ns=status.st_mtime_ns)

    def _difference(self, live: Generation, file: OpenFile, there: FileStatus) -> Ended | None:
        """Why the file does not go on from what is kept; None where it does."""
        before = self._compared
        if there == before:
            return None
        same_file = Identity(live.device, live.inode) == there.identity
        if live.read is not None:  # what is kept is not what was read: the file's identity has to do
            goes_on = same_file and there.size >= live.read
            return None if goes_on else "truncated" if same_file else "replaced"
        with closing(OpenFile(self.directory / raw_name(live.number))) as kept:
            size = kept.status().size
            is_seen = before is not None and before.identity == there.identity and size < there.size
            start = max(0, size - TAIL) if is_seen else 0
            if there.size >= size and _equal(kept, file, start, size):
                return None
            if not same_file:
                return "replaced"
            return "truncated" if there.size < size and _equal(kept, file, 0, there.size) else "rewritten"


def _equal(one: OpenFile, other: OpenFile, start: int, end: int) -> bool:
    at = start
    while at < end:
        size = min(packing.BLOCK, end - at)
        block = one.pread(at, size)
        if len(block) < size or block != other.pread(at, size):
            return False
        at += size
    return True


def bytes_of(directory: Path, generation: Generation) -> int:
    """How many bytes a generation has. Blocking."""
    if generation.packed:
        return generation.bytes
    with suppress(OSError):
        return (directory / raw_name(generation.number)).stat().st_size
    return generation.bytes
