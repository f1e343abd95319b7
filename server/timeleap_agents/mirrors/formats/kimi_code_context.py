"""The messages that the journal of an agent of kimi-code makes, as the program itself makes them on its next resume.

Messages stand in records of their own, or come in pieces: a step of the program is an answer with its calls, and their
results. A compaction, a clear, an undo and a switch of branches change what was there before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.kimi_code import MAIN, JournalEntry, Kind, estimated
from timeleap_agents.mirrors.id_numbers import CallNotes, IdNumbers, NumberLists
from timeleap_agents.mirrors.steps import PackedList, Step, Steps

_PROMPT: Final = -1
"""The number by which the system prompt is known."""
KEPT_TOKENS: Final = 20_000
"""The most of the person's messages that a compaction keeps."""
KEPT_AT_BEGINNING: Final = 2_000
"""The part of them for the oldest messages where there are more."""


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
        prompt: The step of the system prompt.
    """

    def __init__(self) -> None:
        self.entries = PackedList(JournalEntry)
        self.offsets = array("Q")
        self.prompt: PieceStep | None = None
        self._cuts: list[tuple[int, int, int]] = []
        self._codes: dict[tuple[int, int, int], int] = {}
        self._call_ids, self._calls = IdNumbers(), NumberLists()  # calls that an entry makes
        self._answered = array("I")  # by place: the call that it answers
        self._all_calls = CallNotes()

    def add(self, entry: JournalEntry) -> int:
        """Add an entry; returns its place."""
        self.offsets.append(entry.offset)
        number = self._call_ids.number
        made = [number(call) for call in ((*entry.calls, entry.call) if entry.kind == "call" else entry.calls)]
        for call in made:
            self._all_calls.make(call)
        self._calls.append(made)
        self._answered.append(number(entry.call) if entry.kind == "result" or entry.role == "tool" else 0)
        if self._answered[-1]:
            self._all_calls.answer(self._answered[-1])
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

    def with_prompt(self, codes: array[int]) -> Steps:
        """The system prompt, and these pieces."""
        return Steps(self, codes if self.prompt is None else array("i", [_PROMPT]) + codes)

    def waits(self, call: str, codes: Iterable[int]) -> bool:
        """True of a call that some pieces make, and none answers."""
        number, made = self._call_ids.find(call), False
        for code in codes:
            place = self.place(code)
            if self._answered[place] == number:
                return False
            made = made or number in self._calls.of(place)
        return made


class JournalMessage(Struct, gc=False):
    """A message as the program counts them, from one record or several. `order`: which call of its answer a result
    belongs to."""

    pieces: array[int]
    entry: int
    order: int = -1
    summary: bool = False


class Branches:
    """The branches of a journal."""

    def __init__(self, entries: PackedList[JournalEntry]) -> None:
        self._entries = entries
        self._switches = {MAIN: (0, MAIN, 0)}  # by branch: the line of its switch, and where it begins
        self._until: dict[str, int] = {}
        self._paired: set[int] = set()
        branch, last = MAIN, 0
        for entry in self._all():
            last = entry.line
            if entry.kind == "switch":
                self._until[branch] = entry.line
                branch = entry.branch
                self._switches[branch] = entry.line, entry.base, entry.base_line
                self._paired.add(entry.paired)
        self._until[branch] = last
        self._active = branch

    def active(self) -> array[int]:
        """The places of the entries that count, in their order."""
        ranges: list[tuple[int, int]] = []
        branch, until, met = self._active, self._until[self._active], set[str]()
        while branch in self._switches and branch not in met:
            met.add(branch)
            begun, base, base_line = self._switches[branch]
            ranges.append((begun + 1, until))
            if branch == MAIN:
                break
            branch, until = base, base_line

        def is_on_way(entry: JournalEntry) -> bool:
            return any(first <= entry.line <= last for first, last in ranges)

        prompts = {entry.id for entry in self._all() if entry.anchor and entry.id and is_on_way(entry)}
        found = array("i")
        for place, entry in enumerate(self._all()):
            again = entry.origin == "injection" and (not entry.owner or entry.owner in prompts)
            is_undone = entry.kind == "undo" and entry.line in self._paired
            if (again or is_on_way(entry)) and entry.kind != "switch" and not is_undone:
                found.append(place)
        return found

    def _all(self) -> Iterator[JournalEntry]:
        return map(self._entries.__getitem__, range(len(self._entries)))


class JournalContext(Struct):
    """The messages as the entries taken so far define them.

    Attributes:
        journal: All entries.
        orphans: Places of the results that go with no call.
        begun: Ids of all steps that the journal says have begun.
    """

    journal: Journal
    messages: list[JournalMessage] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)
    begun: IdNumbers = field(default_factory=IdNumbers)
    _open: JournalMessage | None = None
    _step: str = ""
    _calls: list[str] = field(default_factory=list)
    _results: list[JournalMessage] = field(default_factory=list)
    _waiting: set[str] = field(default_factory=set)
    _deferred: list[JournalMessage] = field(default_factory=list)

    def take(self, place: int, text_of: Callable[[JournalEntry], str]) -> None:
        """Apply the entry at a place. `text_of` gives the text of the message in one that was met before."""
        entry = self.journal.entries[place]
        if entry.kind == "message":
            self._add(place, entry)
        elif entry.kind == "clear":
            self._start([])
        elif entry.kind == "compaction":
            self._settle()
            self._start(self._compacted(place, entry, text_of))
        elif entry.kind == "undo":
            self._undo(entry.count)
        else:
            self._loop(place, entry)

    def shown(self, *, held: bool) -> Iterator[int]:
        """All pieces in their order. `held`: without results that another one, of an earlier call, is yet to precede."""
        waits = {number for number, call in enumerate(self._calls) if call in self._waiting}
        for message in self.messages:
            is_held = held and message in self._results and any(number < message.order for number in waits)
            if not is_held:
                yield from message.pieces
        for message in self._deferred:
            yield from message.pieces

    @property
    def holds(self) -> bool:
        """An earlier call has no result yet where a later one has."""
        waits = [number for number, call in enumerate(self._calls) if call in self._waiting]
        return any(number < message.order for number in waits for message in self._results)

    def _add(self, place: int, entry: JournalEntry) -> None:
        if entry.role == "tool" and not self._waits(entry.call):
            self.orphans.append(place)
            return
        if not entry.blank:
            message = JournalMessage(array("i", [place]), place)
            (self._deferred if self._waiting else self.messages).append(message)

    def _waits(self, call: str) -> bool:
        """True of a call without a result in the messages."""
        return self.journal.waits(call, (piece for message in self.messages for piece in message.pieces))

    def _loop(self, place: int, entry: JournalEntry) -> None:
        if entry.kind == "begin":
            self._begin(place, entry)
        elif entry.kind == "end":
            if not entry.blank and self._open is not None:
                if self.messages and self._open.pieces:
                    self.messages[-1].pieces.append(place)
                self._settle()
        elif entry.kind == "result":
            self._take_result(place, entry)
        else:
            if not self.begun.find(entry.step):  # the record that began it was damaged
                self._begin(place, entry)
            if self._open is not None and entry.step == self._step:
                self._add_piece(place, entry, self._open)

    def _add_piece(self, place: int, entry: JournalEntry, answer: JournalMessage) -> None:
        """Add a part of an answer, or a call in it."""
        if entry.kind == "call":
            if entry.call in self._calls:
                return
            self._calls.append(entry.call)
            self._waiting.add(entry.call)
        if not entry.blank:
            if not answer.pieces:
                self.messages.append(answer)
            answer.pieces.append(place)

    def _begin(self, place: int, entry: JournalEntry) -> None:
        self._settle()
        self._open, self._step = JournalMessage(array("i"), place), entry.step
        self.begun.number(entry.step)

    def _take_result(self, place: int, entry: JournalEntry) -> None:
        if entry.call not in self._waiting:
            self.orphans.append(place)
            return
        self._waiting.discard(entry.call)
        message = JournalMessage(array("i", [place]), place, order=self._calls.index(entry.call))
        behind = [each for each in self._results if each.order > message.order]
        at = self.messages.index(behind[0]) if behind else len(self.messages)
        self.messages.insert(at, message)
        self._results.insert(len(self._results) - len(behind), message)
        if not self._waiting:
            self._flush()

    def _flush(self) -> None:
        self.messages += self._deferred
        self._deferred = []

    def _settle(self) -> None:
        self._flush()
        self._open, self._step = None, ""
        self._calls, self._results, self._waiting = [], [], set()

    def _start(self, messages: list[JournalMessage]) -> None:
        self._deferred = []
        self._settle()
        self.messages = messages

    def _undo(self, count: int) -> None:
        """Go back before the last `count` prompts: all of them, or not at all."""
        left = count
        every = [*self.messages, *self._deferred]
        for at in reversed(range(len(every))):
            message = every[at]
            if message.summary:
                return
            prompt = self.journal.entries[message.entry]
            if prompt.anchor and prompt.origin != "injection":
                left -= 1
                if left == 0:
                    kept = every[:at]
                    while kept and _belongs(self.journal.entries[kept[-1].entry], prompt):
                        kept.pop()
                    self._start(kept)
                    return

    def _compacted(
        self, place: int, entry: JournalEntry, text_of: Callable[[JournalEntry], str]
    ) -> list[JournalMessage]:
        summary = JournalMessage(array("i", [place]), place, summary=True)
        if entry.count >= 0:
            return [summary, *self.messages[entry.count :]]
        prompts = [message for message in self.messages if self.journal.entries[message.entry].kept]
        return [*self._kept(prompts, text_of), summary]

    def _kept(self, prompts: list[JournalMessage], text_of: Callable[[JournalEntry], str]) -> list[JournalMessage]:
        """The messages of the person that a compaction keeps: all, or the newest and some of the oldest, in tokens."""
        if sum(map(self._size, prompts)) <= KEPT_TOKENS:
            return prompts
        tail: list[JournalMessage] = []
        left, head_end = KEPT_TOKENS - KEPT_AT_BEGINNING, len(prompts)
        rest: list[JournalMessage] = []
        for at in reversed(range(len(prompts))):
            if left <= 0:
                break
            size, head_end = self._size(prompts[at]), at
            if size <= left:
                tail.append(prompts[at])
                left -= size
                continue
            text = self._text_of(prompts[at], text_of)
            cut = len(text) - len(_fitting(text[::-1], left))
            tail.append(self._part_of(prompts[at], cut, len(text)))
            if cut:
                rest = [self._part_of(prompts[at], 0, cut)]
            break
        head: list[JournalMessage] = []
        left = KEPT_AT_BEGINNING
        for message in (*prompts[:head_end], *rest):
            if left <= 0:
                break
            text = self._text_of(message, text_of)
            is_whole = self.journal.bounds(message.pieces[0])[1] < 0
            size = self._size(message) if is_whole else estimated("user") + estimated(text)
            if size > left:
                head.append(self._part_of(message, 0, len(_fitting(text, left))))
                break
            head.append(message)
            left -= size
        return [*head, *reversed(tail)]

    def _size(self, message: JournalMessage) -> int:
        return self.journal.entries[message.entry].tokens

    def _text_of(self, message: JournalMessage, text_of: Callable[[JournalEntry], str]) -> str:
        text, (start, stop) = text_of(self.journal.entries[message.entry]), self.journal.bounds(message.pieces[0])
        return text if stop < 0 else text[start:stop]

    def _part_of(self, message: JournalMessage, start: int, stop: int) -> JournalMessage:
        begun, _ = self.journal.bounds(message.pieces[0])
        piece = self.journal.part(message.entry, begun + start, begun + stop)
        return JournalMessage(array("i", [piece]), message.entry)


def _belongs(entry: JournalEntry, prompt: JournalEntry) -> bool:
    return entry.origin == "injection" and bool(entry.owner) and entry.owner == prompt.id


def _fitting(text: str, most: int) -> str:
    """The beginning of a text that has at most so many tokens."""
    plain = others = 0
    for at, character in enumerate(text):
        plain, others = plain + (character < "\x80"), others + (character >= "\x80")
        if -(-plain // 4) + others > most:
            return text[:at]
    return text


REASONS: Final[dict[Kind, TimelineReason]] = {"compaction": "compact"}
"""Reasons of timelines, by the kind of the entry that takes something away."""
TAKES_AWAY: Final = frozenset({"compaction", "clear", "undo", "switch"})
