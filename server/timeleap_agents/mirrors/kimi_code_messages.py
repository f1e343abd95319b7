"""The entries of a journal of kimi-code, and the messages that they make: a million take a few bytes of memory each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from timeleap_agents.mirrors.formats.kimi_code import JournalEntry
from timeleap_agents.mirrors.id_numbers import CallNotes, IdNumbers, NumberLists
from timeleap_agents.mirrors.scratch import Column, Scratch
from timeleap_agents.mirrors.steps import PackedList, Step, Steps

_PROMPT: Final = -1
"""The number by which the system prompt is known."""


class PieceStep(Step, frozen=True):
    """A record of a message, or a part of its text.

    Attributes:
        kind: Of the record.
        start, stop: Of the characters of its text, that are shown; `stop` -1: all of it as it is.
    """

    kind: str
    start: int = 0
    stop: int = -1


class Journal:
    """All entries of a journal, packed. As steps they are known by their places, parts of their texts by negative numbers.

    Attributes:
        entries: By place.
        offsets: By place.
        scratch: Where numbers about the journal are put aside.
        prompt: The step of the system prompt.
    """

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.entries = PackedList(JournalEntry)
        self.offsets = Column(self.scratch, "Q")
        self.prompt: PieceStep | None = None
        self._cuts: list[tuple[int, int, int]] = []
        self._codes: dict[tuple[int, int, int], int] = {}
        self._call_ids, self._calls = IdNumbers(self.scratch), NumberLists(self.scratch)  # calls that an entry makes
        self._answered = Column(self.scratch, "I")  # by place: the call that it answers
        self._all_calls = CallNotes()

    def add(self, entry: JournalEntry) -> int:
        """Add an entry; returns its place."""
        self.offsets.append(entry.offset)
        number = self._call_ids.number
        made = [number(call) for call in ((*entry.calls, entry.call) if entry.kind == "call" else entry.calls)]
        for call in made:
            self._all_calls.make(call)
        self._calls.append(made)
        answered = number(entry.call) if entry.kind == "result" or entry.role == "tool" else 0
        self._answered.append(answered)
        if answered:
            self._all_calls.answer(answered)
        return self.entries.add(entry)

    def homeless(self, but: Iterable[int]) -> int:
        """Number of calls that are answered and made nowhere, without those that the entries at these places answer."""
        return self._all_calls.alone_but(map(self._answered.__getitem__, but))

    def part(self, code: int, start: int, stop: int) -> int:
        """The number of a part of the text of an entry."""
        part = (self.place(code), start, stop)
        found = self._codes.get(part)
        if found is None:
            self._cuts.append(part)
            found = self._codes[part] = _PROMPT - len(self._cuts)
        return found

    def place(self, code: int) -> int:
        """The place of an entry, or of the one that this is a part of."""
        return code if code >= 0 else self._cuts[_PROMPT - 1 - code][0]

    def bounds(self, code: int) -> tuple[int, int]:
        """The characters of its text that are shown; the second is -1 for all of it as it is."""
        return (0, -1) if code >= 0 else self._cuts[_PROMPT - 1 - code][1:]

    def step(self, place: int) -> PieceStep:
        """The step that a number stands for."""
        if place == _PROMPT:
            assert self.prompt is not None
            return self.prompt
        entry, (start, stop) = self.entries[self.place(place)], self.bounds(place)
        cut = "" if stop < 0 else f".{start}-{stop}"
        return PieceStep(f"{entry.offset}{cut}", entry.offset, entry.length, entry.time, entry.kind, start, stop)

    def with_prompt(self, codes: array[int] | memoryview) -> Steps:
        """The system prompt, and these pieces."""
        found = array("i", [] if self.prompt is None else [_PROMPT])
        found.extend(codes)
        return Steps(self, found)

    def reaches(self, codes: Iterable[int], since: int) -> bool:
        """True if some of these pieces are of lines at or behind this offset."""
        return any(self.offsets[self.place(code)] >= since for code in codes)

    def call(self, call_id: str) -> int:
        """The number of a call; 0 of one that no entry names."""
        return self._call_ids.find(call_id)

    def made(self, code: int) -> Sequence[int]:
        """The numbers of the calls that a piece makes."""
        return self._calls.of(self.place(code))

    def answered(self, code: int) -> int:
        """The number of the call that a piece answers; 0: none."""
        return self._answered[self.place(code)]


class JournalMessage(Struct, gc=False):
    """A message as the program counts them, from one record or several. `order`: which call of its answer a result
    belongs to."""

    pieces: array[int]
    entry: int
    order: int = -1
    summary: bool = False


class JournalMessages:
    """The messages of a journal in their order.

    Attributes:
        fresh: The last ones, which may change.
    """

    def __init__(self, journal: Journal, messages: Iterable[JournalMessage] = ()) -> None:
        self._journal = journal
        scratch = self._scratch = Scratch()
        self._entries = Column(scratch, "i")  # a summary as the number below 0 that is as far from -1
        self._pieces = NumberLists(scratch, "i")
        self._made, self._answered = Column(scratch, "I"), Column(scratch, "I")  # by call: in how many pieces
        self.fresh: list[JournalMessage] = []
        for message in messages:
            self._settle(message)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: int) -> JournalMessage:
        """A message that does not change any more."""
        entry = self._entries[at]
        return JournalMessage(array("i", self._pieces.of(at)), self.entry(at), summary=entry < 0)

    def entry(self, at: int) -> int:
        """The place of the entry of one of them."""
        entry = self._entries[at]
        return ~entry if entry < 0 else entry

    def pieces(self) -> memoryview:
        """The pieces of those that do not change any more."""
        return self._pieces.every()

    def with_more(self, more: Sequence[JournalMessage]) -> _Joined:
        """All messages, and some behind them."""
        return _Joined(self, [*self.fresh, *more])

    def waits(self, call_id: str) -> bool:
        """True of a call that some message makes, and none answers."""
        call = self._journal.call(call_id)
        fresh = [code for message in self.fresh for code in message.pieces]
        if self._has(self._answered, call) or any(self._journal.answered(code) == call for code in fresh):
            return False
        return self._has(self._made, call) or any(call in self._journal.made(code) for code in fresh)

    def settle(self) -> None:
        """Have no message that may change."""
        for message in self.fresh:
            self._settle(message)
        self.fresh = []

    def cut(self, size: int) -> None:
        """Keep the first of those that do not change any more."""
        for at in reversed(range(size, len(self))):
            self._count(self._pieces.of(at), -1)
            self._pieces.pop()
        self._entries.cut(size)

    def _settle(self, message: JournalMessage) -> None:
        self._count(message.pieces, 1)
        self._entries.append(~message.entry if message.summary else message.entry)
        self._pieces.append(message.pieces)

    def _count(self, pieces: Iterable[int], number: int) -> None:
        for code in pieces:
            for call in self._journal.made(code):
                self._add(self._made, call, number)
            self._add(self._answered, self._journal.answered(code), number)

    def _add(self, column: Column, call: int, number: int) -> None:
        if call:
            while len(column) <= call:
                column.append(0)
            column[call] += number

    def _has(self, column: Column, call: int) -> bool:
        return call < len(column) and column[call] > 0


class _Joined:
    """Messages that do not change any more, and some behind them."""

    def __init__(self, settled: JournalMessages, fresh: list[JournalMessage]) -> None:
        self._settled, self._fresh = settled, fresh

    def __len__(self) -> int:
        return len(self._settled) + len(self._fresh)

    def __getitem__(self, at: int) -> JournalMessage:
        return self._settled[at] if at < len(self._settled) else self._fresh[at - len(self._settled)]
