"""Comparing a log with its index: is every line still what was written?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from timeleap.storage.durable import Readable
from timeleap.storage.engine import Damage, Progress
from timeleap.storage.index import ENTRY, ENTRY_SIZE, EntryStore, IndexDamagedError, Line, sound_lines, unpack_entry

_AT_ONCE: Final = 1 << 22  # bytes of the log that are looked at together
_STEP: Final = 1024
_LOOK_AHEAD: Final = 1024  # lines that may differ one behind the other and still be told apart


class Reference:
    """The index of the same file as it once was: a line that is where it was, but not what it was, is damaged.

    Asked in the order of the file.

    Attributes:
        length: How many bytes of the log it speaks of.
        binding: A record in the place of another one is damaged. Otherwise it is taken as it is, and only where lines
            begin and end is believed.
    """

    def __init__(self, store: EntryStore, lines: int, *, binding: bool = True) -> None:
        self.binding = binding
        self.length = self._length(store, lines)
        self._rest = self._iterate(store, lines)
        self._ahead: deque[Line] = deque()
        self._differing = 0  # so many of the lines ahead have been compared with the log, and differ
        self._lost: Line | None = None

    def line_at(self, offset: int) -> Line | None:
        """The line that was written at a place; those before it that were not taken are lost."""
        while (known := self._peek()) is not None and known.offset < offset:
            self._lose()
        return known if known is not None and known.offset == offset else None

    @property
    def done(self) -> bool:
        """True if there are no more lines."""
        return self._peek() is None

    def take(self) -> None:
        """The next line was found in its place."""
        self._ahead.popleft()
        self._differing = max(0, self._differing - 1)

    def differing(self, file: Readable, stop: int) -> tuple[list[Line], bool]:
        """The next lines, one behind the other, that are not what was written, and whether a line that is follows.

        The second is False also where none was found within the next thousand lines.
        """
        number = max(1, self._differing)
        while number < _LOOK_AHEAD and (known := self._peek(number)) is not None:
            before = self._ahead[number - 1]
            if known.offset != before.offset + before.length or known.offset + known.length > stop:
                break
            if crc32(file.pread(known.offset, known.length)) == known.crc:
                return [self._ahead[at] for at in range(number)], True
            number += 1
            self._differing = number
        return [self._ahead[at] for at in range(number)], False

    def skip_to(self, offset: int) -> None:
        """Forget the lines before `offset`: they were asked for elsewhere."""
        while (known := self._peek()) is not None and known.offset < offset:
            self.take()

    @property
    def lost(self) -> Damage | None:
        """Where, after all was asked for, lines are missing that were written, or others are in their place."""
        if not self.done:
            self._lose()
        return None if self._lost is None else not_as_written(self._lost.number, self._lost.offset, self.length)

    def _lose(self) -> None:
        self._lost = self._lost or self._ahead[0]
        self.take()

    def _peek(self, number: int = 0) -> Line | None:
        """The line so many ahead, or None behind the last one."""
        while len(self._ahead) <= number:
            line = next(self._rest, None)
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[number]

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
    """The damage of a log whose lines from `line` at `offset` on are not those that were written."""
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
    """True if the bytes of the lines `[start, stop)` are those of their entries."""
    return start >= stop or _first_unlike(file, store.raw(start, stop), store.state(start).length) is None


def _first_unlike(file: Readable, raw: bytes, begin: int) -> int | None:
    """Index of the first entry that does not follow the entry before it, or does not match the log's bytes, or None.

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
