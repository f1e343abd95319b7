"""The messages that the journal of an agent of kimi-code makes, as the program itself makes them on its next resume.

Messages stand in records of their own, or come in pieces: a step of the program is an answer with its calls, and their
results. A compaction, a clear, an undo and a switch of branches change what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from timeleap.storage.engine import TimelineReason
from timeleap_agents.mirrors.formats.kimi_code import MAIN, JournalEntry, Kind, estimated

KEPT_TOKENS: Final = 20_000
"""The most of the person's messages that a compaction keeps."""
KEPT_AT_BEGINNING: Final = 2_000
"""The part of them for the oldest messages where there are more."""


class Piece(Struct, frozen=True):
    """A record of a message, or a part of its text.

    Attributes:
        start, stop: Of the characters of its text, that are shown; `stop` -1: all of it as it is.
    """

    entry: JournalEntry
    start: int = 0
    stop: int = -1


class JournalMessage(Struct):
    """A message as the program counts them, from one record or several. `order`: which call of its answer a result
    belongs to."""

    pieces: list[Piece]
    entry: JournalEntry
    order: int = -1
    summary: bool = False


class Branches:
    """The branches of a journal."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._switches = {MAIN: (0, MAIN, 0)}  # by branch: the line of its switch, and where it begins
        self._until: dict[str, int] = {}
        branch = MAIN
        for entry in entries:
            if entry.kind == "switch":
                self._until[branch] = entry.line
                branch = entry.branch
                self._switches[branch] = entry.line, entry.base, entry.base_line
        self._until[branch] = entries[-1].line if entries else 0
        self._active = branch
        self._paired = {entry.paired for entry in entries if entry.kind == "switch"}

    def active(self) -> list[JournalEntry]:
        """The entries that count, in their order."""
        ranges: list[tuple[int, int]] = []
        branch, until, met = self._active, self._until[self._active], set[str]()
        while branch in self._switches and branch not in met:
            met.add(branch)
            begun, base, base_line = self._switches[branch]
            ranges.append((begun + 1, until))
            if branch == MAIN:
                break
            branch, until = base, base_line
        chain = [entry for entry in self._entries if any(first <= entry.line <= last for first, last in ranges)]
        lines = {entry.line for entry in chain}
        prompts = {entry.id for entry in chain if entry.anchor and entry.id}
        again = [
            entry
            for entry in self._entries
            if entry.origin == "injection" and entry.line not in lines and (not entry.owner or entry.owner in prompts)
        ]
        kept = [entry for entry in (*chain, *again) if entry.kind != "switch" and not self._is_paired(entry)]
        return sorted(kept, key=lambda entry: entry.line)

    def _is_paired(self, entry: JournalEntry) -> bool:
        return entry.kind == "undo" and entry.line in self._paired


class JournalContext(Struct):
    """The messages as the entries taken so far define them.

    Attributes:
        orphans: Results that go with no call.
        begun: Ids of all steps that the journal says have begun.
    """

    messages: list[JournalMessage] = field(default_factory=list)
    orphans: int = 0
    begun: set[str] = field(default_factory=set)
    _open: JournalMessage | None = None
    _step: str = ""
    _calls: list[str] = field(default_factory=list)
    _results: list[JournalMessage] = field(default_factory=list)
    _waiting: set[str] = field(default_factory=set)
    _deferred: list[JournalMessage] = field(default_factory=list)

    def take(self, entry: JournalEntry, text_of: Callable[[JournalEntry], str]) -> None:
        """Apply an entry. `text_of` gives the text of the message in one that was met before."""
        if entry.kind == "message":
            self._add(entry)
        elif entry.kind == "clear":
            self._start([])
        elif entry.kind == "compaction":
            self._settle()
            self._start(self._compacted(entry, text_of))
        elif entry.kind == "undo":
            self._undo(entry.count)
        else:
            self._loop(entry)

    def shown(self, *, held: bool) -> Iterator[Piece]:
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

    def _add(self, entry: JournalEntry) -> None:
        if entry.role == "tool" and not self._answers(entry):
            self.orphans += 1
            return
        if not entry.blank:
            message = JournalMessage([Piece(entry)], entry)
            (self._deferred if self._waiting else self.messages).append(message)

    def _answers(self, entry: JournalEntry) -> bool:
        """True of a result in a message of its own that goes with a call without one."""
        made, answered = set[str](), set[str]()
        for piece in (piece for message in self.messages for piece in message.pieces):
            known = piece.entry
            if known.kind == "call":
                made.add(known.call)
            elif known.kind == "result" or known.role == "tool":
                answered.add(known.call)
            made |= set(known.calls)
        return entry.call in made - answered

    def _loop(self, entry: JournalEntry) -> None:
        if entry.kind == "begin":
            self._begin(entry)
        elif entry.kind == "end":
            if not entry.blank and self._open is not None:
                if self.messages and self._open.pieces:
                    self.messages[-1].pieces.append(Piece(entry))
                self._settle()
        elif entry.kind == "result":
            self._take_result(entry)
        else:
            if entry.step not in self.begun:  # the record that began it was damaged
                self._begin(entry)
            if self._open is not None and entry.step == self._step:
                self._add_piece(entry, self._open)

    def _add_piece(self, entry: JournalEntry, answer: JournalMessage) -> None:
        """Add a part of an answer, or a call in it."""
        if entry.kind == "call":
            if entry.call in self._calls:
                return
            self._calls.append(entry.call)
            self._waiting.add(entry.call)
        if not entry.blank:
            if not answer.pieces:
                self.messages.append(answer)
            answer.pieces.append(Piece(entry))

    def _begin(self, entry: JournalEntry) -> None:
        self._settle()
        self._open, self._step = JournalMessage([], entry), entry.step
        self.begun.add(entry.step)

    def _take_result(self, entry: JournalEntry) -> None:
        if entry.call not in self._waiting:
            self.orphans += 1
            return
        self._waiting.discard(entry.call)
        message = JournalMessage([Piece(entry)], entry, order=self._calls.index(entry.call))
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
            if message.entry.anchor and message.entry.origin != "injection":
                left -= 1
                if left == 0:
                    kept = every[:at]
                    while kept and _belongs(kept[-1].entry, message.entry):
                        kept.pop()
                    self._start(kept)
                    return

    def _compacted(self, entry: JournalEntry, text_of: Callable[[JournalEntry], str]) -> list[JournalMessage]:
        summary = JournalMessage([Piece(entry)], entry, summary=True)
        if entry.count >= 0:
            return [summary, *self.messages[entry.count :]]
        prompts = [message for message in self.messages if message.entry.kept]
        return [*_kept(prompts, text_of), summary]


def _belongs(entry: JournalEntry, prompt: JournalEntry) -> bool:
    return entry.origin == "injection" and bool(entry.owner) and entry.owner == prompt.id


def _kept(prompts: list[JournalMessage], text_of: Callable[[JournalEntry], str]) -> list[JournalMessage]:
    """The messages of the person that a compaction keeps: all, or the newest and some of the oldest, in tokens."""
    if sum(map(_size, prompts)) <= KEPT_TOKENS:
        return prompts
    tail: list[JournalMessage] = []
    left, head_end = KEPT_TOKENS - KEPT_AT_BEGINNING, len(prompts)
    rest: list[JournalMessage] = []
    for at in reversed(range(len(prompts))):
        if left <= 0:
            break
        size, head_end = _size(prompts[at]), at
        if size <= left:
            tail.append(prompts[at])
            left -= size
            continue
        text = _text_of(prompts[at], text_of)
        cut = len(text) - len(_fitting(text[::-1], left))
        tail.append(_part_of(prompts[at], cut, len(text)))
        if cut:
            rest = [_part_of(prompts[at], 0, cut)]
        break
    head: list[JournalMessage] = []
    left = KEPT_AT_BEGINNING
    for message in (*prompts[:head_end], *rest):
        if left <= 0:
            break
        text = _text_of(message, text_of)
        size = _size(message) if message.pieces[0].stop < 0 else estimated("user") + estimated(text)
        if size > left:
            head.append(_part_of(message, 0, len(_fitting(text, left))))
            break
        head.append(message)
        left -= size
    return [*head, *reversed(tail)]


def _size(message: JournalMessage) -> int:
    return message.entry.tokens


def _text_of(message: JournalMessage, text_of: Callable[[JournalEntry], str]) -> str:
    piece, text = message.pieces[0], text_of(message.entry)
    return text if piece.stop < 0 else text[piece.start : piece.stop]


def _part_of(message: JournalMessage, start: int, stop: int) -> JournalMessage:
    begun = message.pieces[0].start
    return JournalMessage([Piece(message.entry, begun + start, begun + stop)], message.entry)


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
