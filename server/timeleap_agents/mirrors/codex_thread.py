"""The conversation of a Codex thread: its items as a tree, which rollbacks and compactions go back in.

Items follow each other. A rollback takes the last prompts away, over a compaction if need be: the items that it had
replaced are there again. So nothing is ever taken out of the tree; the conversation is the way to its head.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from timeleap.storage.engine import TimelineReason
from timeleap_agents.mirrors.growing_file import (
    MAX_BRANCHES,
)
from timeleap_agents.mirrors.steps import PlacedStep

Kind = Literal["prompt", "call", "result", "aborted", "event", "other", "tokens"]
ROOT: Final = -1


class ItemStep(PlacedStep, frozen=True):
    """An item of a line.

    Attributes:
        item: Which one of its line.
        kind: `aborted`: the note of an interruption. `event`: it stands in an event alone. `tokens`: a token count.
        call: The id of the call that it makes, or answers.
    """

    item: int
    kind: Kind = "other"
    call: str = ""


class _Node(Struct, frozen=True):
    """An item, or a compaction.

    Attributes:
        before: The place of the node that it follows.
        step: The item; of a compaction without a history of its own, the summary.
        replaced: Of a compaction: the items that take the place of all before it.
        keeps_prompts: It is a compaction that keeps the prompts before it.
    """

    before: int
    step: ItemStep | None
    replaced: tuple[ItemStep, ...] | None = None
    keeps_prompts: bool = False


class _Left(Struct, frozen=True):
    """A conversation that was taken back or summed up; `offset`: of its last line in the session's own file."""

    head: int
    reason: TimelineReason
    offset: int


class Thread:
    """The items taken so far.

    Attributes:
        system: The step of the system prompt.
    """

    def __init__(self) -> None:
        self.system: ItemStep | None = None
        self._nodes: list[_Node] = []
        self._head = ROOT
        self._left: deque[_Left] = deque(maxlen=MAX_BRANCHES)
        self._log: list[ItemStep] | None = []  # the items up to the head, if they are known
        self._calls: set[str] = set()
        self._orphans: set[str] = set()

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
        return any(self._nodes[place].keeps_prompts for place in self._way(self._head))

    def add(self, step: ItemStep) -> None:
        """Add an item."""
        self._follow(_Node(self._head, step))
        if self._log is not None:
            self._log.append(step)
            self._note(step)

    def compact(self, replaced: tuple[ItemStep, ...] | None, summary: ItemStep | None, offset: int) -> None:
        """Put items, or a summary behind all prompts, in the place of what was said."""
        self._leave("compact", offset)
        self._follow(_Node(self._head, summary, replaced or (), keeps_prompts=replaced is None))
        self._log = None

    def roll_back(self, prompts: int, offset: int) -> None:
        """Take back the last prompts and what follows the first of them. Of what a compaction without a history of its
        own summed up, its prompts alone come back."""
        self._leave("revert", offset)
        cut = place = self._head
        summed_up = False
        while place != ROOT and prompts > 0:
            node = self._nodes[place]
            place = node.before
            summed_up = summed_up or node.keeps_prompts
            if node.step is not None and node.step.kind == "prompt" and node.replaced is None:
                prompts -= 1
                cut = place
        self._head = ROOT if prompts else self._without_note(cut)
        if summed_up and self._head != ROOT:
            self._follow(_Node(self._head, None, (), keeps_prompts=True))
        self._log = None

    def go_to(self, head: int, offset: int) -> None:
        """Go on from a place before the end."""
        if head != self._head:
            self._leave("revert", offset)
            self._head = head
            self._log = None

    def steps(self) -> list[ItemStep]:
        """The conversation, without results that go with no call."""
        return self._whole(self._present(), self._orphans - self._calls)

    def orphans(self) -> int:
        """Number of results in the conversation that go with no call."""
        log = self._present()
        lost = self._orphans - self._calls
        return sum(step.kind == "result" and step.call in lost for step in log) if lost else 0

    def earlier(self, since: int) -> Iterator[tuple[list[ItemStep], TimelineReason]]:
        """The conversations that were left, oldest first, each but those with which another one begins. `since`: those
        alone that end at or behind this offset."""
        known = set(self._way(self._head))
        for left in self._left:
            if left.offset >= since and left.head not in known:
                known |= set(self._way(left.head))
                items = list(self._items(left.head))
                calls = {step.call for step in items if step.kind == "call"}
                whole = self._whole(items, {step.call for step in items if step.kind == "result"} - calls)
                if items:
                    yield whole, left.reason

    def _present(self) -> list[ItemStep]:
        if self._log is None:
            self._log = list(self._items(self._head))
            self._calls, self._orphans = set(), set()
            for step in self._log:
                self._note(step)
        return self._log

    def _whole(self, items: list[ItemStep], orphans: set[str]) -> list[ItemStep]:
        kept = [step for step in items if step.kind != "result" or step.call not in orphans] if orphans else items
        return kept[:] if self.system is None else [self.system, *kept]

    def _follow(self, node: _Node) -> None:
        self._head = len(self._nodes)
        self._nodes.append(node)

    def _note(self, step: ItemStep) -> None:
        if step.kind == "call":
            self._calls.add(step.call)
        elif step.kind == "result" and step.call not in self._calls:
            self._orphans.add(step.call)

    def _leave(self, reason: TimelineReason, offset: int) -> None:
        if self._head != ROOT:
            self._left.append(_Left(self._head, reason, offset))

    def _without_note(self, cut: int) -> int:
        """The place before the note of an interruption that stands right before a place."""
        place = cut
        while place != ROOT:
            node = self._nodes[place]
            if node.step is None or node.replaced is not None or node.step.kind not in ("tokens", "aborted"):
                return cut
            place = node.before
            if node.step.kind == "aborted":
                cut = place
        return cut

    def _way(self, place: int) -> Iterator[int]:
        """The places of a conversation, last first, up to a compaction that replaces all."""
        while place != ROOT:
            yield place
            node = self._nodes[place]
            if node.replaced is not None:
                return
            place = node.before

    def _items(self, head: int) -> Iterator[ItemStep]:
        found: list[ItemStep] = []
        prompts_only, place = False, head
        while place != ROOT:
            node = self._nodes[place]
            if node.replaced is None and node.step is not None:
                if not prompts_only or node.step.kind == "prompt":
                    found.append(node.step)
            elif node.keeps_prompts:
                if node.step is not None and not prompts_only:
                    found.append(node.step)
                prompts_only = True
            else:
                found += [step for step in reversed(node.replaced or ()) if not prompts_only or step.kind == "prompt"]
                break
            place = node.before
        return reversed(found)
