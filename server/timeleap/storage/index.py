"""The derived index of a log: one entry a line, each with the state of the log after that line.

It is written beside the log (`.context.jsonl.idx`), never synced and never believed over the log. Cumulative entries
make every question one read or a binary search, and make the index of a prefix of the log a prefix of its index.

Layout, little-endian. Header, 64 bytes: magic 8, version u32, entry size u32, inode of the log u64, flags u32 (1:
every line was parsed when its entry was made; 2: lines may not have been synced), 32 zero bytes, crc32 of the 60 bytes
before. Then entries of 80 bytes::

    0  offset u64        20 value i64           48 token count i64          76 crc32 of the
    8  length u32        28 messages u32        56 pending characters i64      76 bytes before
    12 crc32 u32         32 checkpoints u32     64 system prompt line i32
    16 kind u8           36 usages u32          68 chain u64
    17 flags u16         40 next checkpoint id i64
    19 roles u8 (this line's | last role of a message << 4)

`length`, the crc32 of the line and `chain` include the line feed.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left
from contextlib import suppress
from functools import cache, lru_cache
from io import RawIOBase
from operator import or_
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from timeleap.storage import durable
from timeleap.storage.durable import Readable, crc32
from timeleap.storage.log_values import Entry, LogState, Progress, RecordFlag, RecordKind, Role

ENTRY_SIZE: Final = 80
HEADER_SIZE: Final = 64
PACK: Final = struct.Struct("<QIIBHBqIIIqqqiQ")
CRC: Final = struct.Struct("<I")
ENTRY: Final = struct.Struct("<QIIBHBqIIIqqqiQI")
_HEADER: Final = struct.Struct("<8sIIQI32x")
_MAGIC: Final = b"TLINDEX\x00"
_VERSION: Final = 1

# What `count_after` can tell: where in an entry the count (u32) stands.
MESSAGES: Final = 28
CHECKPOINTS: Final = 32
USAGES: Final = 36
_PARSED: Final = 1
_UNSYNCED: Final = 2
_MEMORY_LIMIT: Final = 1 << 20
_STEP: Final = 4096
_NEIGHBOURHOOD: Final = 4
_WINDOW: Final = 128

FoundLines: TypeAlias = tuple[int, int, list[int]]
"""Two lines, and all of a kind that are between them, the first one included."""
Memory: TypeAlias = dict[object, FoundLines]
_IRREGULAR: Final = int(RecordFlag.IRREGULAR)
_HAS_DAMAGE: Final = int(RecordFlag.HAS_DAMAGE)
_CUMULATIVE: Final = _IRREGULAR | _HAS_DAMAGE
_KINDS: Final = tuple(RecordKind)
_ROLES: Final = tuple(Role)


class IndexDamagedError(Exception):
    """An entry is not what was written; the index has to be rebuilt."""


def unpack_entry(raw: bytes, line: int, at: int = 0) -> Entry:
    """The entry of `line` from its bytes at `raw[at:]`. Raises IndexDamagedError if they are not what was written."""
    if crc32(raw[at : at + 76]) != CRC.unpack_from(raw, at + 76)[0]:
        raise IndexDamagedError(f"entry of line {line}")
    return entry_of(line, ENTRY.unpack_from(raw, at))


def entry_of(line: int, fields: tuple[int, ...]) -> Entry:
    (offset, length, crc, kind, flags, roles, value, messages, checkpoints, usages) = fields[:10]
    next_id, tokens, pending, prompt, chain = fields[10:15]
    counts = offset + length, line + 1, messages, checkpoints, usages, tokens, pending, next_id, prompt
    state = LogState(*counts, _ROLES[roles >> 4], chain, not flags & _IRREGULAR, bool(flags & _HAS_DAMAGE))
    entry = (line, offset, length, crc, _KINDS[kind], own_flags(flags), _ROLES[roles & 15], value, state)
    return tuple.__new__(Entry, entry)  # past the constructor: a page of checkpoints makes hundreds


def check_entries(raw: bytes, line: int) -> None:
    """Raise IndexDamagedError if some of the entries from `line` on are not what was written.

    In one step for all of them: the checksum of bytes that end with their own checksum does not depend on them.
    """
    if crc32(raw) != _checksum_of_sound(len(raw) // ENTRY_SIZE):
        raise IndexDamagedError(f"entries from line {line} on")


@lru_cache(4096)
def _checksum_of_sound(entries: int) -> int:
    body = bytes(ENTRY_SIZE - CRC.size)
    return crc32((body + CRC.pack(crc32(body))) * entries)


@cache
def own_flags(flags: int) -> RecordFlag:
    """The flags of a line itself, without the cumulative ones (making a flag is slow, and few combinations occur)."""
    return RecordFlag(flags & ~_CUMULATIVE)


class EntryStore:
    """The entries of one log, in memory, in a file, or in a file with the newest in memory.

    A writer's store is its index file; if that cannot be written (the disk is full), the rest waits in memory. A
    reader's is whatever index it found, and its own findings in memory or, when they are many, an unlinked file.

    Attributes:
        memory: What was found in the entries (`found`).
    """

    def __init__(self, base: durable.OpenFile | None = None, count: int = 0, *, writable: bool = False) -> None:
        self._base = base
        self._based = count  # entries in the file
        self._rest = bytearray()  # those after them
        self._writable = writable and base is not None
        self._spill: RawIOBase | None = None
        self._near = 0  # where the last search ended
        self._window = 0, b""  # the bytes of the entries from a line on, of a writer's file: nobody else changes that
        self._window_before = 0, b""  # the same, used before: neighbours may stand on both sides of a border
        self._strict = bytearray()  # a 1 for each line that proved to be strict JSON; its entry does not say so
        self.memory: Memory = {}
        self.sound: dict[int, tuple[bytes, int]] = {}  # of blocks of lines as written: the last one's chain, a checksum
        self._edits = 0  # so often entries were removed, or made again
        self._lock = threading.RLock()  # the writer's thread adds while others read

    @property
    def count(self) -> int:
        with self._lock:
            return self._based + len(self._rest) // ENTRY_SIZE

    def raw(self, start: int, stop: int) -> bytes:
        """The bytes of the entries `[start, stop)`; they must exist, or IndexDamagedError is raised."""
        with self._lock:
            based = self._based
            if start >= based:
                return bytes(self._rest[(start - based) * ENTRY_SIZE : (stop - based) * ENTRY_SIZE])
            inside = min(stop, based)
            if self._writable and stop - start == 1:  # searches ask for one after the other, close together
                return self._in_window(start)
            raw = self._read(start * ENTRY_SIZE, (inside - start) * ENTRY_SIZE)
            if stop > inside:
                raw += self._rest[: (stop - based) * ENTRY_SIZE]
            return raw

    def entry(self, line: int) -> Entry:
        return unpack_entry(self.raw(line, line + 1), line)

    def count_after(self, line: int, count: int) -> int:
        """How many messages, checkpoints or usages (`MESSAGES` ...) there are up to and with a line; it must exist.

        What `entry(line).state` says, without making the objects: searches ask it many times.
        """
        raw = self.raw(line, line + 1)
        if crc32(raw[:-4]) != CRC.unpack_from(raw, len(raw) - 4)[0]:
            raise IndexDamagedError(f"entry of line {line}")
        return int(CRC.unpack_from(raw, count)[0])

    def first_line(self, wanted: int, count: int, low: int, high: int) -> int:
        """The first line of `[low, high]` after which a count is `wanted`; it is at the last one.

        Lookups come in sequence (a list of checkpoints, the message after each): so the search starts where the last
        one ended (if that is far, where the line would be were all evenly spread), and leaps from there in growing steps.
        """
        near, leap = min(max(self._near, low), high), _NEIGHBOURHOOD
        if abs(self.count_after(near, count) - wanted) > _WINDOW:
            near = low + (high - low) * wanted // max(wanted, self.count_after(high, count))
        if self.count_after(near, count) >= wanted:
            high = near
            while low < high:
                probe = max(low, high - leap)
                if self.count_after(probe, count) < wanted:
                    low = probe + 1
                    break
                high, leap = probe, 4 * leap
        else:
            low = min(near + 1, high)
            while low < high:
                probe = min(high, low + leap)
                if self.count_after(probe, count) >= wanted:
                    high = probe
                    break
                low, leap = probe + 1, 4 * leap
        self._near = near = low + bisect_left(range(low, high), wanted, key=lambda line: self.count_after(line, count))
        return near

    def state(self, lines: int) -> LogState:
        return self.entry(lines - 1).state if lines else LogState()

    def extend(self, raw: durable.Buffer) -> None:
        """Add entries at the end. Never fails for a full disk: what cannot be written waits in memory."""
        with self._lock:
            self._rest += raw
            if self._writable:
                self._flush()
            elif self._spill is not None or len(self._rest) > _MEMORY_LIMIT:
                self._move_to_spill()

    def begin_as(self, other: EntryStore, count: int, share: durable.Share) -> bool:
        """Have the first entries of another store, which the file of this one, that has none yet, shares with that one's.
        False where they have to be added: nothing was done."""
        with other._lock, self._lock:
            if self._base is None or self._based or other._base is None or other._based < count:
                return False
            if not share(other._base, self._base, HEADER_SIZE, HEADER_SIZE + count * ENTRY_SIZE):
                return False
            self._based = count
            self.memory = {kind: _up_to(found, count) for kind, found in other.memory.items()}
            return True

    def found(self, kind: object, stop: int) -> tuple[FoundLines, int]:
        """Remembered lines of a kind before the line `stop`, and the number to give back to `remember`."""
        with self._lock:
            return _up_to(self.memory.get(kind, (stop, stop, [])), stop), self._edits

    def remember(self, kind: object, found: FoundLines, edits: int) -> None:
        """Remember what was found, unless entries have changed since `edits`."""
        with self._lock:
            if edits == self._edits:
                self.memory[kind] = found

    def is_parsed(self, inode: int) -> bool:
        """True if its file says that every line of the log was parsed when its entry was made."""
        with self._lock:
            return self._base is not None and self._base.pread(0, HEADER_SIZE) in (
                header(inode, parsed=True),
                header(inode, parsed=True, synced=False),
            )

    def put(self, line: int, raw: bytes) -> None:
        """Put entries in the place of those from `line` on; as `extend`, never fails for a full disk."""
        with self._lock:
            base = self._base
            if line != self._based or self._rest or not self._writable or base is None:
                self.truncate(line)
                self.extend(raw)
                return
            if self._strict:
                del self._strict[line:]
            try:
                base.pwrite(raw, HEADER_SIZE + line * ENTRY_SIZE)
            except OSError:
                self._rest += raw
            else:
                self._based = line + len(raw) // ENTRY_SIZE

    def _in_window(self, line: int) -> bytes:
        first, raw = self._window
        if not 0 <= (line - first) * ENTRY_SIZE < len(raw):
            (first, raw), self._window_before = self._window_before, self._window
            if not 0 <= (line - first) * ENTRY_SIZE < len(raw):
                first = line - line % _WINDOW
                raw = self._read(first * ENTRY_SIZE, min(_WINDOW, self._based - first) * ENTRY_SIZE)
            self._window = first, raw
        at = (line - first) * ENTRY_SIZE
        return raw[at : at + ENTRY_SIZE]

    def found_strict(self, start: int, stop: int) -> bytes:
        """For each of the lines `[start, stop)` 1 if it is known to be strict JSON (see `note_strict`), else 0."""
        with self._lock:
            return bytes(self._strict[start:stop]).ljust(stop - start, b"\0")

    def note_strict(self, start: int, found: bytes) -> None:
        """Remember that lines from `start` on, those with a 1, were parsed and are strict JSON; not in the file."""
        with self._lock:
            stop, known = start + len(found), self._strict
            if len(known) < stop:
                known += bytes(stop - len(known))  # in place: a byte for each line of the log is not copied
            known[start:stop] = bytes(map(or_, known[start:stop], found))

    def truncate(self, count: int) -> None:
        with self._lock:
            self._window = self._window_before = 0, b""
            del self._strict[count:]
            self._edits += 1
            self.memory = {kind: _up_to(found, count) for kind, found in self.memory.items()}
            if count >= self._based:
                del self._rest[(count - self._based) * ENTRY_SIZE :]
                return
            self._rest = bytearray()
            self._based = count
            if self._writable and self._base is not None:
                with suppress(OSError):  # the next entries are written over those that should be gone
                    self._base.truncate(HEADER_SIZE + count * ENTRY_SIZE)

    def publish(self, head: bytes) -> None:
        """From now on the file is the index of the log: what was found is written to it, and its header says so.

        Not before everything in it is known to count: an index says what was once acknowledged.
        """
        with self._lock:
            if self._base is None or self._spill is not None:
                return
            try:
                self._base.truncate(HEADER_SIZE + self._based * ENTRY_SIZE)
                self._base.pwrite(head, 0)
            except OSError:
                return  # the entries stay in memory
            self._writable = True
            self._window = self._window_before = 0, b""
            self._flush()

    def note_unsynced(self, inode: int) -> None:
        """Say in the file that lines may be written without a sync: after a power failure the log may lack the last."""
        with self._lock:
            if self._base is None or not self._writable:
                return
            with suppress(OSError):
                self._base.pwrite(header(inode, parsed=self.is_parsed(inode), synced=False), 0)

    def close(self) -> None:
        """Close the index file; the entries can still be read."""
        with self._lock:
            if self._base is not None:
                self._base.close()

    def aside(self) -> EntryStore:
        """A store with the same entries that leaves the file alone."""
        with self._lock:
            if not self._writable:
                return self
            other = EntryStore(self._base, self._based)
            other.extend(self._rest)
            return other

    @property
    def in_file(self) -> bool:
        """True if the entries are in an index file, or are to be."""
        with self._lock:
            return self._base is not None

    def begin_with(self, other: EntryStore) -> None:
        """Take over all entries of another store; this one is empty."""
        for start in range(0, other.count, _STEP):
            self.extend(other.raw(start, min(start + _STEP, other.count)))
        self._strict[:] = other._strict

    def in_memory(self, first: int = 0) -> EntryStore:
        """A copy of the entries from `first` on that needs no file."""
        copy = EntryStore()
        for start in range(first, self.count, _STEP):
            copy.extend(self.raw(start, min(start + _STEP, self.count)))
        return copy

    def replace_by(self, fresh: EntryStore, count: int) -> None:
        """Take over the first `count` entries from another store; those after them stay as they are."""
        with self._lock:
            self._window = self._window_before = 0, b""
            self._strict.clear()
            self._edits += 1
            self.memory = {}
            try:
                rest = self.raw(count, self.count)
            except IndexDamagedError:
                rest = b""
            if self._writable:
                self._based = 0
            else:
                self._based, self._base, self._spill = 0, None, None
            self._rest = bytearray()
            for start in range(0, count, _STEP):
                self.extend(fresh.raw(start, min(start + _STEP, count)))
            self.extend(rest)

    def __del__(self) -> None:
        if self._spill is not None:
            self._spill.close()

    def _read(self, at: int, size: int) -> bytes:
        if self._spill is not None:
            self._spill.seek(at)
            raw = self._spill.read(size)
        else:
            assert self._base is not None
            try:
                raw = self._base.pread(HEADER_SIZE + at, size)
            except OSError as error:
                raise IndexDamagedError(str(error)) from error
        if len(raw) != size:
            raise IndexDamagedError("the index is shorter than it was")
        return raw

    def _flush(self) -> None:
        assert self._base is not None
        try:
            self._base.pwrite(self._rest, HEADER_SIZE + self._based * ENTRY_SIZE)
        except OSError:
            return
        self._based += len(self._rest) // ENTRY_SIZE
        self._rest = bytearray()

    def _move_to_spill(self) -> None:
        try:
            if self._spill is None:
                import tempfile  # slow to import, and hardly ever needed

                spill = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as the store
                for start in range(0, self._based, _STEP):
                    _write_all(spill, self.raw(start, min(start + _STEP, self._based)))
                self._spill, self._base = spill, None
            self._spill.seek(self._based * ENTRY_SIZE)
            _write_all(self._spill, self._rest)
        except OSError:
            return  # no room: the entries stay in memory
        self._based += len(self._rest) // ENTRY_SIZE
        self._rest = bytearray()


def _up_to(found: FoundLines, stop: int) -> FoundLines:
    """Lines found before a line."""
    low, high, lines = found
    return min(low, stop), min(high, stop), lines[: bisect_left(lines, stop)]


def _write_all(file: RawIOBase, data: durable.Buffer) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def index_path(log: Path) -> Path:
    return log.parent / f".{log.name}.idx"


def save(store: EntryStore, log: Path, inode: int, *, parsed: bool, target: Path | None = None) -> None:
    """Write the index of a log whole, to `target`, or beside the log. Raises OSError."""
    temporary = durable.open_temporary(*((log.parent, log.name) if target is None else (target.parent, target.name)))
    try:
        temporary.pwrite(header(inode, parsed=parsed), 0)
        for start in range(0, store.count, _STEP):
            raw = store.raw(start, min(start + _STEP, store.count))
            temporary.pwrite(raw, HEADER_SIZE + start * ENTRY_SIZE)
        temporary.close()
        durable.replace_file(temporary.path, target or index_path(log))
    except BaseException:
        durable.remove_file(temporary.path)
        raise


def header(inode: int, *, parsed: bool, synced: bool = True) -> bytes:
    flags = (_PARSED if parsed else 0) | (0 if synced else _UNSYNCED)
    body = _HEADER.pack(_MAGIC, _VERSION, ENTRY_SIZE, inode & 0xFFFFFFFFFFFFFFFF, flags)
    return body + CRC.pack(crc32(body))


def open_index(log: Path, inode: int, *, writable: bool, found: Path | None = None) -> tuple[EntryStore, bool] | None:
    """The index file of a log, beside it or `found` elsewhere, if it is of the file with that inode, and whether every
    line was parsed for it."""
    try:
        file = durable.OpenFile(found or index_path(log), writable=writable)
        head, size = file.pread(0, HEADER_SIZE), file.status().size
    except OSError:
        return None
    parsed = head in (header(inode, parsed=True), header(inode, parsed=True, synced=False))
    if not parsed and head not in (header(inode, parsed=False), header(inode, parsed=False, synced=False)):
        return None
    return EntryStore(file, max(0, (size - HEADER_SIZE) // ENTRY_SIZE)), parsed


class OldIndex(NamedTuple):
    """The index file beside a log, whichever file it was made for; to be read only."""

    store: EntryStore
    inode: int  # of the log it was made for
    synced: bool  # its entries were written after a sync


def old_index(log: Path) -> OldIndex | None:
    """The index file beside a log, if it is sound, whether the log is there or not."""
    try:
        file = durable.OpenFile(index_path(log))
        head, size = file.pread(0, HEADER_SIZE), file.status().size
    except OSError:
        return None
    if len(head) != HEADER_SIZE or head[:8] != _MAGIC:
        return None
    inode, flags = _HEADER.unpack(head[: -CRC.size])[3:]
    if head != header(inode, parsed=bool(flags & _PARSED), synced=not flags & _UNSYNCED):
        return None
    store = EntryStore(file, max(0, (size - HEADER_SIZE) // ENTRY_SIZE))
    return OldIndex(store, inode, not flags & _UNSYNCED)


def fresh_store(log: Path) -> EntryStore:
    """An empty store in a new index file that is not yet valid (see `EntryStore.publish`); in memory where that
    cannot be made."""
    temporary = None
    try:
        temporary = durable.open_temporary(log.parent, log.name)
        durable.replace_file(temporary.path, index_path(log))
    except OSError:
        if temporary is not None:
            durable.remove_file(temporary.path)
        return EntryStore()
    temporary.path = index_path(log)
    return EntryStore(temporary, 0, writable=True)


def peek(log: Path) -> LogState | None:
    """The state of a log from its index alone, without checking or scanning; None if the index does not cover it."""
    try:
        there = durable.status(log)
        found = None if there is None else open_index(log, there.identity.inode, writable=False)
        if there is None or found is None:
            return None
        state = found[0].state(found[0].count)
    except (OSError, IndexDamagedError):
        return None
    return state if state.length == there.size else None


# Comparing a log with its index: is every line still what was written?

_PLACE: Final = struct.Struct("<QII64x")  # of an entry: where its line is, and its checksum
_AT_ONCE: Final = 1 << 18  # bytes of the log that are read together: few enough for the processor's cache
_LINES_AT_ONCE: Final = 1024


def first_difference(
    file: Readable, store: EntryStore, start: int, stop: int, progress: Progress | None = None
) -> int | None:
    """The first of the lines `[start, stop)` that does not follow the one before it, or whose bytes are not those of
    its entry; None if all are."""
    begin, end = store.state(start).length, store.state(stop).length
    data, position, size = memoryview(b""), 0, 0
    for first in range(start, stop, _LINES_AT_ONCE):
        raw = store.raw(first, min(first + _LINES_AT_ONCE, stop))
        check_entries(raw, first)
        for line, (offset, length, crc) in enumerate(_PLACE.iter_unpack(raw), first):
            if position + length > size:
                data = memoryview(file.pread(offset, max(length, min(_AT_ONCE, end - offset))))
                position, size = 0, len(data)
            if offset != begin or position + length > size or crc32(data[position : position + length]) != crc:
                return line
            begin, position = begin + length, position + length
        if progress is not None:
            progress(begin, end)
    return None
