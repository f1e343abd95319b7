"""Files of a working copy that begin as another file does, without having those bytes a second time.

Such a file has a hole of that size at its beginning, so its size and all that follows are as in a copy; what is read
of the hole is read from the files that have the bytes (`durable.OpenFile` asks here). So a new log of a known
beginning, and its index, cost the same however long they are.

Each file that takes part has another name in a folder of its own (`SharedParts`): as long as it has that, its bytes
stay, and no other file can get its inode. When it has no name but that, `sweep` gives its bytes to one of the files
that begin with them, and removes it. All this is known to this process alone, as working copies are.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakSet

from timeleap.storage import durable
from timeleap.storage.durable import Identity, OpenFile
from timeleap.storage.index import EntryStore, IndexDamagedError, header, index_path, open_index
from timeleap.storage.load import lines_within

Segments = Sequence[tuple[int, int, int]]
"""Where a log's bytes are stored, in order: which log has them, from where, how many."""
MOST_PARTS: Final = 16
"""Number of other files that a file may have parts of; beyond that it is a copy."""


class LogRow(NamedTuple):
    """A log as the database has it: `name` is its file's, None where only its children need it."""

    name: str | None
    parent: int | None
    shared: int
    length: int


class _Part(NamedTuple):
    """The bytes `[start, stop)` of a file, which another one has at the same place."""

    start: int
    stop: int
    source: Identity


class _OpenPart(NamedTuple):
    start: int
    stop: int
    file: OpenFile


class _Sparse:
    """A file with a hole. All but reading is done under the lock."""

    def __init__(self, folder: SharedParts, start: int, parts: tuple[_Part, ...]) -> None:
        self.folder = folder
        self.start = start  # what is before is each file's own, and nothing of what is shared
        self.parts = parts
        self.gone = False  # it has no name of its own any more
        self.readers: WeakSet[PartsReader] = WeakSet()

    def reader(self) -> PartsReader:
        """Reader of the parts, to be held by a file that is open. Raises OSError."""
        made = PartsReader(self, self.opened())
        self.readers.add(made)
        return made

    def opened(self) -> tuple[_OpenPart, ...]:
        """The parts with the files that they are read from. Raises OSError."""
        files = {part.source: self.folder.file(part.source) for part in self.parts}
        return tuple(_OpenPart(part.start, part.stop, files[part.source]) for part in self.parts)

    def cut(self, start: int, stop: int | None) -> None:
        """The bytes `[start, stop)` (None: all from `start` on) are the file's own from now on."""
        self.parts = tuple(
            _Part(first, last, part.source) for part in self.parts for first, last in _rest(part, start, stop)
        )
        for reader in list(self.readers):
            view = reader.view
            reader.view = tuple(
                _OpenPart(first, last, part.file) for part in view for first, last in _rest(part, start, stop)
            )


class PartsReader:
    """The parts of an open file that others have; they stay readable as long as it is."""

    def __init__(self, sparse: _Sparse, view: tuple[_OpenPart, ...]) -> None:
        self.sparse = sparse
        self.view = view

    def within(self, file: OpenFile, offset: int, size: int) -> list[tuple[OpenFile, int, int]]:
        """Where bytes of the file are: in which file, from where, how many; nothing if all of them are its own."""
        found: list[tuple[OpenFile, int, int]] = []
        at, end = offset, offset + size
        for part in self.view:
            start, stop = max(at, part.start), min(end, part.stop)
            if start < stop:
                if at < start:
                    found.append((file, at, start - at))
                found.append((part.file, start, stop - start))
                at = stop
        if found and at < end:
            found.append((file, at, end - at))
        return found

    def cut(self, start: int, stop: int | None) -> None:
        """The bytes `[start, stop)` (None: all from `start` on) of the file were written, or cut off."""
        if any(start < part.stop and (stop is None or part.start < stop) for part in self.view):
            with _lock:
                self.sparse.cut(start, stop)


_COMPARED: Final = 1 << 18
_lock: Final = threading.RLock()
_known: Final[dict[Identity, _Sparse]] = {}


def _find(identity: Identity) -> PartsReader | None:
    """The parts of a file that others have, if it has such; for a file that is open."""
    if identity not in _known:
        return None
    with _lock:
        sparse = _known.get(identity)
        if sparse is None:
            return None
        if not sparse.folder.has(identity):  # its folder was removed, and another file has its inode
            del _known[identity]
            return None
        return sparse.reader()


class SharedParts:
    """The files of one working copy that share bytes; used by one thread at a time, reading apart.

    Attributes:
        path: The folder; of two objects with the same one each does for the other.
    """

    def __init__(self, folder: Path | None) -> None:
        """`folder`: is made for this alone; None: nothing is shared."""
        self._shares = folder is not None and durable.HOLD_OPEN
        self.path = folder or Path()

    def begin_as(self, source: OpenFile, target: OpenFile, start: int, stop: int) -> bool:
        """Let a new file, which has no byte beyond `start`, have the bytes `[start, stop)` of another one, at the same
        place. False where they have to be copied: nothing was done."""
        theirs = _known.get(source.identity)
        if not self._shares or stop <= start or (source.borrowed is not None and theirs is None):
            return False
        parts = _places(theirs.parts if theirs is not None else (), source.identity, start, stop)
        large = parts
        if len(parts) > MOST_PARTS:
            large = sorted(sorted(parts, key=lambda part: part.start - part.stop)[: MOST_PARTS // 2])
        try:
            durable.make_directory(self.path)
            own = any(part.source == source.identity for part in large)
            if not self._keep(target) or (own and not self._keep(source)):
                return False
            target.truncate(stop)
            for part in parts:
                if part not in large:
                    source.copy_to(target, part.start, part.stop - part.start, part.start)
            with _lock:
                sparse = _Sparse(self, start, tuple(large))
                target.borrowed = sparse.reader()
                _known[target.identity] = sparse
        except OSError:
            with suppress(OSError):
                target.truncate(start)
            return False
        return True

    def begin_log(self, log: OpenFile, beginnings: dict[Path, int]) -> int:
        """Let a new log, which has no byte yet, begin as one of `beginnings` does, of which it has so many bytes in
        common, and its index as that one's; says how many bytes it has now. Raises OSError."""
        path, size = max(beginnings.items(), key=lambda found: found[1], default=(Path(), 0))
        if size == 0:
            return 0
        source = OpenFile(path)
        if not self.begin_as(source, log, 0, size):
            return 0
        indexed = open_index(path, source.identity.inode, writable=False)
        # Without the last line, whose entry is written again where it had no line feed.
        with suppress(IndexDamagedError):
            if indexed is not None and (lines := lines_within(indexed[0], size) - 1) > 0:
                index = OpenFile(index_path(log.path), writable=True, new=True)
                if EntryStore(index, 0, writable=True).begin_as(indexed[0], lines, self.begin_as):
                    index.pwrite(header(log.identity.inode, parsed=indexed[1]), 0)
        return size

    def sweep(self) -> None:
        """Remove what has no other name any more; what others begin with is copied to one of these first.

        Raises:
            OSError: Some is still there.
        """
        gone: list[tuple[Identity, int]] = []
        for name in durable.list_directory(self.path) if self._shares else ():
            there = durable.status(self.path / name)
            if there is not None and there.names == 1:
                gone.append((there.identity, there.size))
                if there.identity in _known:
                    _known[there.identity].gone = True
        for identity, size in gone:
            if not self._is_needed_whole(identity, size):
                self._give_away(identity)
                file = self.file(identity)  # so that the blocks of a large one are freed behind the answer
                durable.remove_file(self._path(identity))
                with _lock:
                    _known.pop(identity, None)
                del file

    def clear(self) -> None:
        """Forget all: the files that share are removed."""
        with _lock:
            for identity in self._mine():
                del _known[identity]
        if self._shares:
            shutil.rmtree(self.path, ignore_errors=True)

    def _mine(self) -> dict[Identity, _Sparse]:
        """Files of the folder that have a hole, the oldest first."""
        return {identity: sparse for identity, sparse in list(_known.items()) if sparse.folder.path == self.path}

    def _needing(self, identity: Identity) -> list[tuple[int, int, Identity, _Part]]:
        """Parts of a file that other files need: up to where, the other file's number, that file, and the part."""
        return [
            (part.stop, number, target, part)
            for number, (target, sparse) in enumerate(self._mine().items())
            if not sparse.gone
            for part in sparse.parts
            if part.source == identity
        ]

    def _is_needed_whole(self, identity: Identity, size: int) -> bool:
        """True if other files have all that a file of that size has itself."""
        needing = self._needing(identity)
        if not needing:
            return False
        own = _known.get(identity)
        spans = [(part.start, part.stop) for part in own.parts] if own is not None else []
        at = min(_known[target].start for _, _, target, _ in needing)
        for start, stop in sorted(spans + [(part.start, part.stop) for *_, part in needing]):
            if start > at:
                return False
            at = max(at, stop)
        return at >= size

    def _give_away(self, identity: Identity) -> None:
        """Copy what others have of a file to these, once: to the one that has most of it, of several to the newest."""
        while True:
            needing = self._needing(identity)
            if not needing:
                return
            _, _, heir, part = max(needing)
            path = self._path(heir)
            stamp = path.stat().st_mtime_ns
            file = self.file(heir, writable=True)
            self.file(identity).copy_to(file, part.start, part.stop - part.start, part.start)
            os.utime(path, ns=(stamp, stamp))  # nothing of it has changed
            with _lock:
                _known[heir].cut(part.start, part.stop)
                for _, _, target, other in needing:
                    if target != heir:
                        self._take_from(_known[target], other, part, heir)

    @staticmethod
    def _take_from(sparse: _Sparse, part: _Part, copied: _Part, heir: Identity) -> None:
        """Point a file's part at the heir, as far as the part was copied to it."""
        start, stop = max(part.start, copied.start), min(part.stop, copied.stop)
        if start >= stop:
            return
        rest = [_Part(first, last, part.source) for first, last in _rest(part, start, stop)]
        others = [other for other in sparse.parts if other != part]
        sparse.parts = tuple(sorted([*others, *rest, _Part(start, stop, heir)]))
        view = sparse.opened()
        for reader in list(sparse.readers):
            reader.view = view

    # The names in the folder

    def _path(self, identity: Identity) -> Path:
        return self.path / f"{identity.inode:x}"

    def has(self, identity: Identity) -> bool:
        """True if a file of that identity takes part."""
        there = durable.status(self._path(identity))
        return there is not None and there.identity == identity

    def file(self, identity: Identity, *, writable: bool = False) -> OpenFile:
        """A file that takes part, with its own bytes alone. Raises OSError."""
        file = OpenFile(self._path(identity), writable=writable, whole=False)
        if file.identity != identity:
            raise OSError(f"{self._path(identity)} is another file")
        return file

    def _keep(self, file: OpenFile) -> bool:
        """Give a file its name in the folder; False where there are no such. Raises OSError."""
        path = self._path(file.identity)
        if self.has(file.identity):
            return True
        durable.remove_file(path)
        if not durable.link_exclusive(file.path, path):
            return False
        if not self.has(file.identity):
            durable.remove_file(path)
            return False
        return True


def _places(parts: tuple[_Part, ...], own: Identity, start: int, stop: int) -> list[_Part]:
    """Where the bytes `[start, stop)` of a file are that has such parts."""
    found: list[_Part] = []
    at = start
    for part in parts:
        first, last = max(at, part.start), min(stop, part.stop)
        if first < last:
            if at < first:
                found.append(_Part(at, first, own))
            found.append(_Part(first, last, part.source))
            at = last
    if at < stop:
        found.append(_Part(at, stop, own))
    return found


def _rest(part: _Part | _OpenPart, start: int, stop: int | None) -> list[tuple[int, int]]:
    """Ranges of a part without the bytes `[start, stop)`."""
    found = [(part.start, min(part.stop, start))]
    if stop is not None:
        found.append((max(part.start, stop), part.stop))
    return [(first, last) for first, last in found if first < last]


def segments(logs: Mapping[int, LogRow], log: int, begin: int) -> list[tuple[int, int, int]]:
    """Where the bytes of a log from `begin` on are stored: the log that has them, from where, how many; in order."""
    found: list[tuple[int, int, int]] = []
    end, current = logs[log].length, log
    while end > begin:
        start = max(begin, logs[current].shared)
        if start < end:
            found.append((current, start, end - start))
        end, parent = min(end, logs[current].shared), logs[current].parent
        if parent is None:
            break
        current = parent
    return found[::-1]


def common_beginning(parts: Segments, others: Segments) -> int:
    """How many bytes two logs begin with that are stored once, by where their bytes are stored."""
    at = 0
    for (source, start, size), (other, _, length) in zip(parts, others, strict=False):
        if source == other:
            at = start + min(size, length)
        if source != other or size != length:
            break
    return at


def beginnings(
    logs: Mapping[int, LogRow], log: int, here: Mapping[int, Path], as_here: Mapping[int, LogRow]
) -> dict[Path, int]:
    """The files of logs that are `here`, as far as they are, and with how many bytes of each a new log begins."""
    own = segments(logs, log, 0)
    return {
        path: min(as_here[other].length, shared)
        for other, path in here.items()
        if other in logs and (shared := common_beginning(segments(logs, other, 0), own))
    }


def same_beginning(file: OpenFile, other: OpenFile, most: int) -> int:
    """How many bytes, at most `most`, two files begin with that are the same."""
    at = 0
    while at < most and (one := file.pread(at, min(_COMPARED, most - at))):
        two = other.pread(at, len(one))
        if one != two:
            return at + next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(two))
        at += len(one)
    return at


durable.find_borrowed = _find
