"""The messages that the journal of an agent of kimi-code makes, as the program itself makes them on its next resume.

Messages stand in records of their own, or come in pieces: a step of the program is an answer with its calls, and their
results. A compaction, a clear, an undo and a switch of branches change what was there before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.kimi_code import MAIN, JournalEntry, Kind, estimated
from timeleap_agents.mirrors.id_numbers import IdNumbers
from timeleap_agents.mirrors.kimi_code_messages import Journal, JournalMessage, JournalMessages
from timeleap_agents.mirrors.steps import PackedList

KEPT_TOKENS: Final = 20_000
"""The most of the person's messages that a compaction keeps."""
KEPT_AT_BEGINNING: Final = 2_000
"""The part of them for the oldest messages where there are more."""


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

        prompts = IdNumbers()
        for entry in filter(is_on_way, self._all()):
            if entry.anchor:
                prompts.number(entry.id)
        found = array("i")
        for place, entry in enumerate(self._all()):
            again = entry.origin == "injection" and (not entry.owner or prompts.find(entry.owner) > 0)
            is_undone = entry.kind == "undo" and entry.line in self._paired
            if (again or is_on_way(entry)) and entry.kind != "switch" and not is_undone:
                found.append(place)
        return found

    def _all(self) -> Iterator[JournalEntry]:
        return map(self._entries.__getitem__, range(len(self._entries)))


class JournalContext:
    """The messages as the entries taken so far define them.

    Attributes:
        journal: All entries.
        orphans: Places of the results that go with no call.
        begun: Ids of all steps that the journal says have begun.
    """

    def __init__(self, journal: Journal, begun: IdNumbers | None = None) -> None:
        self.journal = journal
        self.orphans = array("i")
        self.begun = begun or IdNumbers(journal.scratch)
        self._messages = JournalMessages(journal)
        self._open: JournalMessage | None = None
        self._step = ""
        self._calls: list[str] = []
        self._results: list[JournalMessage] = []
        self._waiting: set[str] = set()
        self._deferred: list[JournalMessage] = []

    def take(self, place: int, text_of: Callable[[JournalEntry], str]) -> None:
        """Apply the entry at a place. `text_of` gives the text of the message in one that was met before."""
        entry = self.journal.entries[place]
        if entry.kind == "message":
            self._add(place, entry)
        elif entry.kind == "clear":
            self._start(JournalMessages(self.journal))
        elif entry.kind == "compaction":
            self._settle()
            self._start(JournalMessages(self.journal, self._compacted(place, entry, text_of)))
        elif entry.kind == "undo":
            self._undo(entry.count)
        else:
            self._loop(place, entry)

    def shown(self, *, held: bool) -> Iterator[int]:
        """All pieces in their order. `held`: without results that another one, of an earlier call, is yet to precede."""
        waits = {number for number, call in enumerate(self._calls) if call in self._waiting}
        yield from self._messages.pieces()
        for message in self._messages.fresh:
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
        if entry.role == "tool" and not self._messages.waits(entry.call):
            self.orphans.append(place)
            return
        if not entry.blank:
            message = JournalMessage(array("i", [place]), place)
            (self._deferred if self._waiting else self._messages.fresh).append(message)
            if self._open is None:
                self._messages.settle()

    def _loop(self, place: int, entry: JournalEntry) -> None:
        if entry.kind == "begin":
            self._begin(place, entry)
        elif entry.kind == "end":
            if not entry.blank and self._open is not None:
                if self._open.pieces:
                    self._messages.fresh[-1].pieces.append(place)
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
                self._messages.fresh.append(answer)
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
        fresh = self._messages.fresh
        fresh.insert(fresh.index(behind[0]) if behind else len(fresh), message)
        self._results.insert(len(self._results) - len(behind), message)
        if not self._waiting:
            self._flush()

    def _flush(self) -> None:
        self._messages.fresh += self._deferred
        self._deferred = []

    def _settle(self) -> None:
        self._flush()
        self._messages.settle()
        self._open, self._step = None, ""
        self._calls, self._results, self._waiting = [], [], set()

    def _start(self, messages: JournalMessages) -> None:
        self._deferred = []
        self._settle()
        self._messages = messages

    def _undo(self, count: int) -> None:
        """Go back before the last `count` prompts: all of them, or not at all."""
        left = count
        every = self._messages.with_more(self._deferred)
        for at in reversed(range(len(every))):
            message = every[at]
            if message.summary:
                return
            prompt = self.journal.entries[message.entry]
            if prompt.anchor and prompt.origin != "injection":
                left -= 1
                if left == 0:
                    kept = at
                    while kept and _belongs(self.journal.entries[every[kept - 1].entry], prompt):
                        kept -= 1
                    self._settle()
                    self._messages.cut(kept)
                    return

    def _compacted(
        self, place: int, entry: JournalEntry, text_of: Callable[[JournalEntry], str]
    ) -> Iterator[JournalMessage]:
        summary, before = JournalMessage(array("i", [place]), place, summary=True), self._messages
        if entry.count >= 0:
            yield summary
            yield from (before[at] for at in range(len(before))[entry.count :])
            return
        kept = (at for at in range(len(before)) if self.journal.entries[before.entry(at)].kept)
        yield from self._kept(before, array("I", kept), text_of)
        yield summary

    def _kept(
        self, before: JournalMessages, prompts: array[int], text_of: Callable[[JournalEntry], str]
    ) -> list[JournalMessage]:
        """The messages of the person that a compaction keeps: all, or the newest and some of the oldest, in tokens."""
        if sum(self._size(before[at]) for at in prompts) <= KEPT_TOKENS:
            return [before[at] for at in prompts]
        tail: list[JournalMessage] = []
        left, head_end = KEPT_TOKENS - KEPT_AT_BEGINNING, len(prompts)
        rest: list[JournalMessage] = []
        for at in reversed(range(len(prompts))):
            if left <= 0:
                break
            message, head_end = before[prompts[at]], at
            size = self._size(message)
            if size <= left:
                tail.append(message)
                left -= size
                continue
            text = self._text_of(message, text_of)
            cut = len(text) - len(_fitting(text[::-1], left))
            tail.append(self._part_of(message, cut, len(text)))
            if cut:
                rest = [self._part_of(message, 0, cut)]
            break
        head: list[JournalMessage] = []
        left = KEPT_AT_BEGINNING
        for message in chain((before[at] for at in prompts[:head_end]), rest):
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
