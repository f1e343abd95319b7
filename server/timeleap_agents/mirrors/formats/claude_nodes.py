"""The records of a session file of Claude Code as far as they tell of the conversation: of each a few numbers, since a file
may have a million."""

from __future__ import annotations

from array import array
from typing import Final, Literal, get_args

from msgspec import Struct

from timeleap_agents.mirrors.id_numbers import IdNumbers, NumberLists, PackedTexts, packed_time, time_text
from timeleap_agents.mirrors.scratch import STAGE, Column, Scratch
from timeleap_agents.mirrors.steps import Step

Kind = Literal["prompt", "said", "answer", "result", "note", "progress"]
"""`said`: what the program says in the person's name. `note`: in the tree, but no message."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_USABLE: Final = 1
_ROOT: Final = 2
_SIDECHAIN: Final = 4
_MIDWAY: Final = 8
_BOUNDARY: Final = 16
_REWRITES: Final = 32
_QUEUED: Final = 64


class Kept(Struct, frozen=True):
    """Records that a compaction keeps: they follow the record `anchor`, in this order. With a `head` they are all from
    that one to the last of `uuids`."""

    anchor: str
    uuids: tuple[str, ...]
    head: str | None = None


class Node(Struct, frozen=True):
    """A record that stands in the tree, as far as that matters.

    Attributes:
        order: Its place among the records of the file.
        uuid: Its id; one made of its offset where it has none.
        parent: The id of the record it names; empty where it names none, which is no root.
        root: It says that nothing is before it.
        kind: What it is in a conversation.
        usable: It is a message that can be read.
        midway: A prompt that was typed while the program worked.
        answer: The id of the answer that it is a part of.
        calls: Ids of the tool calls it makes.
        results: Ids of the calls it answers.
        boundary: A compaction begins with it.
        follows: Of a compaction: the record that the summed-up conversation ended with.
        queued: It stands in the program's queue alone, not in the tree.
    """

    order: int
    uuid: str
    parent: str
    root: bool
    kind: Kind
    usable: bool
    offset: int
    length: int
    time: str | None = None
    sidechain: bool = False
    midway: bool = False
    answer: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    boundary: bool = False
    follows: str | None = None
    kept: Kept | None = None
    queued: bool = False

    @property
    def speaks(self) -> bool:
        """It is a message that can be read."""
        return self.usable and self.kind not in ("note", "progress")


class LeafNote(Struct, frozen=True):
    """Where the program noted that the conversation ends, behind the record `order`; `uuid` None: it was emptied."""

    order: int
    uuid: str | None
    explicit: bool


class ClaudeStep(Step, frozen=True):
    """Attributes:
    left: Ids of results in it that go with no call of the conversation.
    """

    left: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Tells it, and which of its results are shown."""
        return f"{self.key} {sorted(self.left)}" if self.left else self.key


class _Variant(Struct, frozen=True):
    """A record that is shown in another way than as it stands: its place is that of an earlier one of its id (`again`), or
    some of its results are `left`."""

    row: int
    again: bool
    left: frozenset[str]


class NodeTable:
    """The nodes of a file, a row each. Ids are numbers in it, 0 for none.

    A conversation is a sequence of codes: of a row its number, of one that is shown in another way a negative number.

    Attributes:
        scratch: Where the columns are.
        ids: Numbers of the records' ids; `answer_ids`: of answers; `call_ids`: of tool calls.
        order, offset, length: By row, as in a node.
        uuid, parent, answer: By row, as numbers.
        calls, results: By row, as numbers of calls.
        compactions: By row of a boundary: what it follows, and what it keeps.
    """

    def __init__(self) -> None:
        scratch = self.scratch = Scratch()
        self.ids, self.answer_ids, self.call_ids = IdNumbers(scratch), IdNumbers(scratch), IdNumbers(scratch)
        self.order, self.offset, self.length = Column(scratch, "I"), Column(scratch, "Q"), Column(scratch, "I")
        self.uuid, self.parent, self.answer = Column(scratch, "I"), Column(scratch, "I"), Column(scratch, "I")
        self.calls, self.results = NumberLists(scratch), NumberLists(scratch)
        self.compactions: dict[int, tuple[str | None, Kept | None]] = {}
        self._kinds, self._marks = bytearray(), bytearray()
        self._times = Column(scratch, "q")
        self._names, self._result_names = PackedTexts(scratch), PackedTexts(scratch)
        self._variants: list[_Variant] = []
        self._codes: dict[_Variant, int] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, node: Node) -> int:
        """Add a node; returns its row."""
        self.order.append(node.order)
        self.offset.append(node.offset)
        self.length.append(node.length)
        self.uuid.append(self.ids.number(node.uuid))
        self.parent.append(self.ids.number(node.parent))
        self.answer.append(self.answer_ids.number(node.answer or ""))
        self.calls.append(map(self.call_ids.number, node.calls))
        self.results.append(map(self.call_ids.number, node.results))
        for name in node.results:
            self._result_names.append(name)
        self._names.append(node.uuid)
        self._times.append(packed_time(node.time))
        self._kinds.append(KINDS.index(node.kind))
        marks = _USABLE * node.usable + _ROOT * node.root + _SIDECHAIN * node.sidechain + _MIDWAY * node.midway
        self._marks.append(marks + _BOUNDARY * node.boundary + _QUEUED * node.queued)
        row = len(self._kinds) - 1
        if row % STAGE == 0:
            self.scratch.let_go()
        if node.boundary:
            self.compactions[row] = node.follows, node.kept
        return row

    def drop_last(self) -> None:
        """Take the last row away."""
        for _ in self.results.slots(len(self) - 1):
            self._result_names.pop()
        last = len(self) - 1
        self.compactions.pop(last, None)
        for column in (self.order, self.offset, self.length, self.uuid, self.parent, self.answer, self._times):
            column.cut(last)
        for packed in (self.calls, self.results, self._names, self._kinds, self._marks):
            packed.pop()

    def mark_rewriting(self, row: int) -> None:
        """Note that it says something else than an earlier record of its id."""
        self._marks[row] |= _REWRITES

    # Facts of a row

    def kind(self, row: int) -> Kind:
        return KINDS[self._kinds[row]]

    def is_usable(self, row: int) -> bool:
        return bool(self._marks[row] & _USABLE)

    def is_root(self, row: int) -> bool:
        return bool(self._marks[row] & _ROOT)

    def is_midway(self, row: int) -> bool:
        return bool(self._marks[row] & _MIDWAY)

    def is_boundary(self, row: int) -> bool:
        return bool(self._marks[row] & _BOUNDARY)

    def rewrites(self, row: int) -> bool:
        """True if it repeats an id with other words than before."""
        return bool(self._marks[row] & _REWRITES)

    def is_message(self, row: int) -> bool:
        """True if it is no note."""
        return self._kinds[row] < _NOTE

    def speaks(self, row: int) -> bool:
        """True if it is a message that can be read."""
        return self._kinds[row] < _NOTE and bool(self._marks[row] & _USABLE)

    def rows(self, *, sidechains: bool) -> array[int]:
        """The rows that stand in the tree of a session; `sidechains`: with those of sub-agents."""
        never = _QUEUED if sidechains else _QUEUED | _SIDECHAIN
        return array("I", (row for row, marks in enumerate(self._marks) if not marks & never))

    def result_name(self, slot: int) -> str:
        """The id of the call that a result answers, by its place among all results."""
        return self._result_names[slot]

    # Codes

    def variant(self, row: int, *, again: bool, left: frozenset[str]) -> int:
        """The code of a record that is shown in another way than as it stands."""
        if not again and not left:
            return row
        variant = _Variant(row, again, left)
        code = self._codes.get(variant)
        if code is None:
            self._variants.append(variant)
            code = self._codes[variant] = -len(self._variants)
        return code

    def row_of(self, code: int) -> int:
        """The row of a code."""
        return code if code >= 0 else self._variants[-code - 1].row

    def left_of(self, code: int) -> frozenset[str]:
        """The ids of its results that are left out."""
        return frozenset() if code >= 0 else self._variants[-code - 1].left

    def step(self, place: int) -> ClaudeStep:
        """The step that a code stands for."""
        row = self.row_of(place)
        again = place < 0 and self._variants[-place - 1].again
        name, offset = self._names[row], self.offset[row]
        key = f"{name}@{offset}" if again else name
        return ClaudeStep(key, offset, self.length[row], time_text(self._times[row]), self.left_of(place))


_NOTE: Final = KINDS.index("note")
