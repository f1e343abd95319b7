"""Comparing a log with its index: is every line still what was written?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from timeleap.storage.durable import Readable
from timeleap.storage.engine import Damage, Progress, RecordKind
from timeleap.storage.index import ENTRY, ENTRY_SIZE, EntryStore, IndexDamagedError, Line, sound_lines, unpack_entry

_AT_ONCE: Final = 1 << 22  # bytes of the log that are looked at together
_STEP: Final = 1024


class Reference:
    """The index of the same file as it once was: a line that is where it was, but not what it was, is damaged.

    Attributes:
        length: How many bytes of the log it speaks of.
    """

    def __init__(self, store: EntryStore, lines: int) -> None:
        self.length = self._length(store, lines)
        self._lines = self._iterate(store, lines)
        self._next: Line | None = next(self._lines, None)
        self._lost: Line | None = None

    def condemns(self, offset: int, length: int, crc: int) -> bool:
        """Whether the line of that place must be taken as damaged. Asked in the order of the file."""
        while self._next is not None and self._next.offset < offset:
            self._lose()
        known = self._next
        if known is None or known.offset != offset or known.length != length:
            return False
        self._next = next(self._lines, None)
        return known.crc != crc or known.kind == RecordKind.DAMAGED

    def skip_to(self, offset: int) -> None:
        """Forget the lines before `offset`: they were asked for elsewhere."""
        while self._next is not None and self._next.offset < offset:
            self._next = next(self._lines, None)

    @property
    def lost(self) -> Damage | None:
        """Where, after all was asked for, lines are missing that were written, or others are in their place."""
        if self._next is not None:
            self._lose()
        return None if self._lost is None else not_as_written(self._lost.number, self._lost.offset, self.length)

    def _lose(self) -> None:
        self._lost = self._lost or self._next
        self._next = next(self._lines, None)

    @staticmethod
    def _length(store: EntryStore, lines: int) -> int:
        try:
            return store.state(lines).length
        except IndexDamagedError:
            return 0

    @staticmethod
    def _iterate(store: EntryStore, lines: int) -> Iterator[Line]:
        for start in range(0, lines, _STEP):
            try:
                raw = store.raw(start, min(start + _STEP, lines))
            except IndexDamagedError:
                return
            yield from sound_lines(raw, start)


def not_as_written(line: int, offset: int, length: int) -> Damage:
    """What there is to say about a log whose lines are not those that were written, from `line` at `offset` on."""
    reason = f"from line {line} on lines are missing or others are in their place; the log is taken as it is"
    return Damage("notAsWritten", reason, line, offset, length - offset)


def first_difference(file: Readable, store: EntryStore, lines: int, progress: Progress | None = None) -> int | None:
    """The first of the first `lines` lines whose bytes are not those of its entry, or None."""
    total = store.state(lines).length
    for start in range(0, lines, _STEP):
        raw = store.raw(start, min(start + _STEP, lines))
        differs = _first_unlike(file, raw, store.state(start).length)
        if differs is not None:
            return start + differs
        if progress is not None:
            progress(_end(raw), total)
    return None


def same_lines(file: Readable, store: EntryStore, start: int, stop: int) -> bool:
    """Whether the bytes of the lines `[start, stop)` are those of their entries."""
    return start >= stop or _first_unlike(file, store.raw(start, stop), store.state(start).length) is None


def _first_unlike(file: Readable, raw: bytes, begin: int) -> int | None:
    """Which of some entries is the first that does not follow the one before it, or is not of the log's bytes.

    Args:
        file: The log.
        raw: The entries.
        begin: The byte at which the first of them must begin.
    """
    size = _end(raw) - begin
    if size > _AT_ONCE and len(raw) > ENTRY_SIZE:
        half = len(raw) // ENTRY_SIZE // 2
        left, right = raw[: half * ENTRY_SIZE], raw[half * ENTRY_SIZE :]
        differs = _first_unlike(file, left, begin)
        if differs is None and (differs := _first_unlike(file, right, _end(left))) is not None:
            differs += half
        return differs
    entries, data = memoryview(raw), memoryview(file.pread(begin, max(0, size)))
    at = position = 0
    for offset, length, crc, _, _, _, _, _, _, _, _, _, _, _, _, check in ENTRY.iter_unpack(raw):
        if crc32(entries[at : at + ENTRY_SIZE - 4]) != check:
            raise IndexDamagedError(f"entry at {at}")
        end = position + length
        if offset != begin + position or end > len(data) or crc32(data[position:end]) != crc:
            return at // ENTRY_SIZE
        at, position = at + ENTRY_SIZE, end
    return None


def _end(raw: bytes) -> int:
    """Where the line of the last of some entries ends."""
    return unpack_entry(raw, 0, len(raw) - ENTRY_SIZE).state.length
