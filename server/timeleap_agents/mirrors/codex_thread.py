"""The conversation of a Codex thread: its items as a tree, which rollbacks and compactions go back in.

Items follow each other. A rollback takes the last prompts away, over a compaction if need be: the items that it had
replaced are there again. So nothing is ever taken out of the tree; the conversation is the way to its head.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, get_args

from msgspec import Struct

from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.growing_file import (
    MAX_BRANCHES,
)
from timeleap_agents.mirrors.id_numbers import CallNotes, IdNumbers
from timeleap_agents.mirrors.steps import PlacedStep, Steps, StepTable

Kind = Literal["prompt", "call", "result", "aborted", "event", "other", "tokens"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
ROOT: Final = -1
NOTHING: Final = -1


class ItemStep(PlacedStep, frozen=True):
    """An item of a line.

    Attributes:
        item: Which one of its line.
        kind: `prompt`: the program counts it as one of the person's. `aborted`: the note of an interruption. `event`: it stands in an event alone. `tokens`: a token count.
        call: The id of the call that it makes, or answers.
    """

    item: int
    kind: Kind = "other"
    call: str = ""


class _Compaction(Struct, frozen=True):
    """Attributes:
    replaced: The items that take the place of all before it.
    keeps_prompts: It keeps the prompts before it.
    """

    replaced: array[int]
    keeps_prompts: bool


class _Left(Struct, frozen=True):
    """A conversation that was taken back or summed up; `offset`: of its last line in the session's own file."""

    head: int
    reason: TimelineReason
    offset: int


class Thread:
    """The items taken so far, each as the place of its step; of a million there are a few numbers each.

    Attributes:
        table: Their steps.
    """

    def __init__(self) -> None:
        self.table = StepTable(ItemStep)
        self._system = NOTHING
        self._kinds = bytearray()  # by place in the table
        self._call_of = array("I")  # by place in the table: the number of the call that it makes or answers
        self._ids = IdNumbers()  # of calls
        # The nodes: items, and compactions. Of each the one that it follows, and the item, or a compaction's summary.
        self._before, self._item = array("i"), array("i")
        self._compactions: dict[int, _Compaction] = {}
        self._head = ROOT
        self._left: deque[_Left] = deque(maxlen=MAX_BRANCHES)
        self._log: array[int] | None = array("i")  # the items up to the head, if they are known
        self._calls = CallNotes()
        self._all_calls = CallNotes()  # also of what was left

    @property
    def system(self) -> ItemStep | None:
        """The step of the system prompt."""
        return None if self._system == NOTHING else self.table.step(self._system)

    @system.setter
    def system(self, step: ItemStep) -> None:
        self._system = self.note(step)

    def note(self, step: ItemStep) -> int:
        """Keep a step; returns its place in the table."""
        self._kinds.append(KINDS.index(step.kind))
        self._call_of.append(self._ids.number(step.call))
        self._count(len(self._kinds) - 1, self._all_calls)
        return self.table.add(step)

    @property
    def head(self) -> int:
        """The place that the next item follows."""
        return self._head

    @property
    def is_empty(self) -> bool:
        return self._head == ROOT

    @property
    def speaks(self) -> bool:
        """Something is said, or was."""
        return self._head != ROOT

    @property
    def moved(self) -> bool:
        """Some of what was said stands, in the log, behind what was said later."""
        return any(self._keeps_prompts(place) for place in self._way(self._head))

    def add(self, step: ItemStep) -> None:
        """Add an item."""
        item = self.note(step)
        self._follow(item)
        if self._log is not None:
            self._log.append(item)
            self._count(item, self._calls)

    def compact(self, replaced: tuple[ItemStep, ...] | None, summary: ItemStep | None, offset: int) -> None:
        """Put items, or a summary behind all prompts, in the place of what was said."""
        self._leave("compact", offset)
        items = array("i", map(self.note, replaced or ()))
        self._follow(
            NOTHING if summary is None else self.note(summary), _Compaction(items, keeps_prompts=replaced is None)
        )
        self._log = None

    def roll_back(self, prompts: int, offset: int) -> None:
        """Take back the last prompts and what follows the first of them. Of what a compaction without a history of its
        own summed up, its prompts alone come back."""
        self._leave("revert", offset)
        cut = place = self._head
        summed_up = False
        while place != ROOT and prompts > 0:
            node, place = place, self._before[place]
            summed_up = summed_up or self._keeps_prompts(node)
            if node not in self._compactions and self._kind(self._item[node]) == "prompt":
                prompts -= 1
                cut = place
        self._head = ROOT if prompts else self._without_note(cut)
        if summed_up and self._head != ROOT:
            self._follow(NOTHING, _Compaction(array("i"), keeps_prompts=True))
        self._log = None

    def go_to(self, head: int, offset: int) -> None:
        """Go on from a place before the end."""
        if head != self._head:
            self._leave("revert", offset)
            self._head = head
            self._log = None

    def steps(self) -> Steps:
        """The conversation, without results that go with no call."""
        return self._whole(self._present(), self._calls)

    def orphans(self) -> int:
        """Number of results in the conversation that go with no call."""
        log = self._present()
        return sum(self._is_lost(item, self._calls) for item in log) if self._calls.lacks else 0

    def homeless(self) -> int:
        """Number of calls that are answered in what was left, and made nowhere."""
        log = self._present()
        here = (self._call_of[item] for item in log if self._is_lost(item, self._calls)) if self._calls.lacks else ()
        return self._all_calls.alone_but(here)

    def earlier(self, since: int) -> Iterator[tuple[Steps, TimelineReason]]:
        """The conversations that were left, oldest first, each but those with which another one begins. `since`: those
        alone that end at or behind this offset."""
        known = bytearray(len(self._before))
        for place in self._way(self._head):
            known[place] = True
        for left in self._left:
            if left.offset >= since and not known[left.head]:
                for place in self._way(left.head):
                    known[place] = True
                items = self._items(left.head)
                if items:
                    yield self._whole(items, self._calls_in(items)), left.reason

    def with_system(self, items: array[int]) -> Steps:
        """The system prompt, and these items."""
        system = array("i") if self._system == NOTHING else array("i", [self._system])
        return Steps(self.table, system + items)

    def _kind(self, item: int) -> Kind:
        return KINDS[self._kinds[item]]

    def _keeps_prompts(self, place: int) -> bool:
        return place in self._compactions and self._compactions[place].keeps_prompts

    def _is_lost(self, item: int, calls: CallNotes) -> bool:
        return self._kind(item) == "result" and not calls.made(self._call_of[item])

    def _present(self) -> array[int]:
        if self._log is None:
            self._log = self._items(self._head)
            self._calls = self._calls_in(self._log)
        return self._log

    def _whole(self, items: array[int], calls: CallNotes) -> Steps:
        if calls.lacks:
            items = array("i", (item for item in items if not self._is_lost(item, calls)))
        return self.with_system(items)

    def _follow(self, item: int, compaction: _Compaction | None = None) -> None:
        self._before.append(self._head)
        self._item.append(item)
        self._head = len(self._before) - 1
        if compaction is not None:
            self._compactions[self._head] = compaction

    def _calls_in(self, items: array[int]) -> CallNotes:
        calls = CallNotes()
        for item in items:
            self._count(item, calls)
        return calls

    def _count(self, item: int, calls: CallNotes) -> None:
        kind = self._kind(item)
        if kind == "call":
            calls.make(self._call_of[item])
        elif kind == "result":
            calls.answer(self._call_of[item])

    def _leave(self, reason: TimelineReason, offset: int) -> None:
        if self._head != ROOT:
            self._left.append(_Left(self._head, reason, offset))

    def _without_note(self, cut: int) -> int:
        """The place before the note of an interruption that stands right before a place."""
        place = cut
        while place != ROOT:
            if place in self._compactions or self._kind(self._item[place]) not in ("tokens", "aborted"):
                return cut
            is_note, place = self._kind(self._item[place]) == "aborted", self._before[place]
            if is_note:
                cut = place
        return cut

    def _way(self, place: int) -> Iterator[int]:
        """The places of a conversation, last first, up to a compaction that replaces all."""
        while place != ROOT:
            yield place
            if place in self._compactions:
                return
            place = self._before[place]

    def _items(self, head: int) -> array[int]:
        found = array("i")
        prompts_only, place = False, head
        while place != ROOT:
            item, compaction = self._item[place], self._compactions.get(place)
            if compaction is None:
                if not prompts_only or self._kind(item) == "prompt":
                    found.append(item)
            elif compaction.keeps_prompts:
                if item != NOTHING and not prompts_only:
                    found.append(item)
                prompts_only = True
            else:
                replaced = reversed(compaction.replaced)
                found.extend(each for each in replaced if not prompts_only or self._kind(each) == "prompt")
                break
            place = self._before[place]
        found.reverse()
        return found
