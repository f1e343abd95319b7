"""The index of a log as it was before, which a scan compares the log with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from timeleap.storage.durable import Readable, crc32
from timeleap.storage.index import ENTRY, ENTRY_SIZE, EntryStore, IndexDamagedError

_LINES_AT_ONCE: Final = 1024
_LOOK_AHEAD: Final = 1024
"""Lines that may differ one behind the other and still be told apart."""


class Line(NamedTuple):
    """Where a line is and what it is: an entry without the state."""

    number: int
    offset: int
    length: int
    crc: int
    kind: int


class Reference:
    """The index of the same file as it once was: a line that is where it was, but not what it was, is damaged.

    Asked in the order of the file. `length`, `messages`: so much of the log it speaks of. `binding`: a record in the place of
    another one is damaged; otherwise it is taken as it is, and only where lines begin and end is believed.
    """

    def __init__(self, store: EntryStore, lines: int, *, binding: bool = True) -> None:
        self.binding = binding
        self.length = self.messages = 0
        with suppress(IndexDamagedError):
            state = store.state(lines)
            self.length, self.messages = state.length, state.messages
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
        return self._peek() is None

    def take(self) -> None:
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
    def lost(self) -> Line | None:
        """The first line, after all was asked for, that is missing though it was written, or has another in its place."""
        if not self.done:
            self._lose()
        return self._lost

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
    def _iterate(store: EntryStore, lines: int) -> Iterator[Line]:
        """Where the lines are; damaged entries are left out."""
        for start in range(0, lines, _LINES_AT_ONCE):
            try:
                raw = store.raw(start, min(start + _LINES_AT_ONCE, lines))
            except IndexDamagedError:
                return
            for number, fields in enumerate(ENTRY.iter_unpack(raw)):
                at = number * ENTRY_SIZE
                if crc32(raw[at : at + 76]) == fields[15]:
                    yield Line(start + number, *fields[:4])
