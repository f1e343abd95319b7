"""The messages of a Gemini CLI session as a tree: what is taken back stays, and can be shown."""

from __future__ import annotations

import hashlib
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, get_args

from msgspec import Struct

from timeleap_agents.mirrors.growing_file import MAX_BRANCHES
from timeleap_agents.mirrors.id_numbers import IdNumbers
from timeleap_agents.mirrors.scratch import STAGE, Column, Scratch
from timeleap_agents.mirrors.steps import Step, Steps, StepTable

Said = Literal["text", "call", "result"]
PARTS: Final[tuple[Said, ...]] = get_args(Said)


class PartStep(Step, frozen=True):
    """A part of a message.

    Attributes:
        index: Of the message among those that its line replaces all with; -1: the line is the message.
        part: Which part it is.
        call: The id of the call.
    """

    index: int
    part: Said
    call: str


class _NotedMessage(Struct, frozen=True):
    """A message, or a change of one.

    Attributes:
        key: The number of its id and kind.
        first, end: Of its parts in the table.
        length: Of its text in characters; `digest`: of the text.
    """

    key: int
    first: int
    end: int
    length: int
    digest: int

    def goes_on_in(self, text: str) -> bool:
        """True if a text begins with all of this one's."""
        return len(text) >= self.length and _digest(text[: self.length]) == self.digest


class MessageTree:
    """The messages that were noted so far. Of a million there are a few numbers each."""

    def __init__(self) -> None:
        scratch = self._scratch = Scratch()
        self._table = StepTable(PartStep)
        self._parts = bytearray()  # by place in the table: which part it is
        self._key_of, self._call_of = Column(scratch, "I"), Column(scratch, "I")
        self._keys, self._calls, self._ids = IdNumbers(scratch), IdNumbers(scratch), IdNumbers(scratch)
        self._made, self._answered = bytearray(1), bytearray(1)  # by the number of a call: whether there is one
        # By node: the one that it follows, and what it notes.
        self._before, self._digests = Column(scratch, "i"), Column(scratch, "Q")
        self._id, self._first, self._end, self._length = (Column(scratch, "I") for _ in range(4))
        self._head = -1
        self._at = Column(scratch, "I")  # by the number of an id: the node up to the head, from 1
        self._at.append(0)
        self._left: deque[int] = deque(maxlen=MAX_BRANCHES)

    @property
    def orphans(self) -> int:
        """Number of results that go with no call, whether they are in the conversation or not."""
        return sum(answered and not made for made, answered in zip(self._made, self._answered, strict=True))

    def put(self, message_id: str, kind: str, parts: list[PartStep], text: str) -> None:
        """Note a message, or note it once more; other words than before are another conversation."""
        key = self._ids.number(_key(message_id, kind))
        self._at.extend([0] * (key + 1 - len(self._at)))
        first = len(self._table)
        for part in parts:
            self._add(part)
        said = _NotedMessage(key, first, len(self._table), len(text), _digest(text))
        if not self._at[key]:
            self._follow(said)
            return
        node = self._at[key] - 1
        before = self._message(node)
        if text and before.length and not before.goes_on_in(text):
            self.leave()
            behind = [self._message(each) for each in self._way(self._head) if each > node]
            self.go_to(self._before[node])
            for each in (said, *reversed(behind)):
                self._follow(each)
        else:
            self._set(node, said if text else _NotedMessage(key, first, said.end, before.length, before.digest))

    def leave(self) -> None:
        """Note that something is about to be taken back."""
        if self._head >= 0 and (not self._left or self._left[-1] != self._head):
            self._left.append(self._head)

    def rewind(self, message_id: str) -> None:
        """Take back a message and what follows it, all where there is none of that id."""
        self.leave()
        numbers = [self._ids.find(_key(message_id, kind)) for kind in ("user", "gemini")]
        nodes = [self._at[number] - 1 for number in numbers if self._at[number]]
        self.go_to(self._before[min(nodes)] if nodes else -1)

    def go_to(self, head: int) -> None:
        """Go on from an earlier node."""
        while self._head > head:
            self._at[self._id[self._head]] = 0
            self._head = self._before[self._head]

    def steps(self) -> Steps:
        """The parts of the conversation; what is said twice counts where it is said first."""
        return self._steps(self._head)

    def earlier(self) -> Iterator[Steps]:
        """The parts of conversations that were left, oldest first."""
        return map(self._steps, self._left)

    def keys(self, steps: Steps) -> array[int]:
        """Numbers of the keys of steps."""
        return array("I", (self._key_of[place] for place in steps.places))

    def _add(self, part: PartStep) -> None:
        """Put a part into the table."""
        call = self._calls.number(part.call)
        self._parts.append(PARTS.index(part.part))
        self._key_of.append(self._keys.number(part.key))
        self._call_of.append(call)
        for noted in (self._made, self._answered):
            noted.extend(bytes(max(0, call + 1 - len(noted))))
        if part.part == "call":
            self._made[call] = True
        elif part.part == "result":
            self._answered[call] = True
        self._table.add(part)

    def _follow(self, message: _NotedMessage) -> None:
        self._before.append(self._head)
        self._head = len(self._before) - 1
        self._id.append(message.key)
        self._first.append(message.first)
        self._end.append(message.end)
        self._length.append(message.length)
        self._digests.append(message.digest)
        self._at[message.key] = self._head + 1
        if len(self._before) % STAGE == 0:
            self._scratch.let_go()

    def _message(self, node: int) -> _NotedMessage:
        facts = (column[node] for column in (self._id, self._first, self._end, self._length, self._digests))
        return _NotedMessage(*facts)

    def _set(self, node: int, message: _NotedMessage) -> None:
        self._first[node], self._end[node], self._length[node] = message.first, message.end, message.length
        self._digests[node] = message.digest

    def _steps(self, head: int) -> Steps:
        way = array("I", self._way(head))
        way.reverse()
        known = bytearray(len(self._keys) + 1)
        calls = bytearray(len(self._calls) + 1)
        found = array("I")
        for node in self._scratch.stages(way):
            for place in range(self._first[node], self._end[node]):
                if not known[self._key_of[place]]:
                    known[self._key_of[place]] = True
                    found.append(place)
                    if PARTS[self._parts[place]] == "call":
                        calls[self._call_of[place]] = True
        shown = (place for place in found if PARTS[self._parts[place]] != "result" or calls[self._call_of[place]])
        return Steps(self._table, array("I", shown))

    def _way(self, node: int) -> Iterator[int]:
        while node >= 0:
            yield node
            node = self._before[node]


DIGEST: Final = 8  # bytes


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest(), "big")


def _key(message_id: str, kind: str) -> str:
    return f"{kind} {message_id}"
