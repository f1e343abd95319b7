"""The conversation in a session file of Claude Code: a model of what the program reads from its records.

The records are trees; the conversation is the way from a root to the last record. Beyond that the model knows a leaf that
the program noted, and what `claude_places` and `claude_answers` tell.
`protocol/spec` says nothing of it; the rules were found by running the program.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from timeleap_agents.mirrors.formats.claude_answers import AnsweredWay, Answers
from timeleap_agents.mirrors.formats.claude_nodes import LeafNote, NodeTable
from timeleap_agents.mirrors.formats.claude_places import Places
from timeleap_agents.mirrors.scratch import Scratch


class QueuedPrompt(NamedTuple):
    """A prompt that stands only in the program's queue: its row, and behind which record it belongs."""

    row: int
    order: int


class Branch(Struct, frozen=True):
    """A conversation in a file, as codes of its records, and whether it was summed up."""

    codes: array[int]
    compacted: bool


class Chain:
    """The records of a file, linked.

    Args:
        table: All records of the file.
        rows: Those of the session, in the file's order.
        queued: Prompts that stand only in the program's queue.
        leaf: The last note of where the conversation ends.

    Attributes:
        orphans: Number of results on the way of `main` that go with no call.
        homeless: Number of the other results in the file whose call is nowhere in it.
        tail: Number of the id of the record that one which goes on from `main` names; 0: none.
    """

    def __init__(
        self,
        table: NodeTable,
        rows: Sequence[int],
        queued: Sequence[QueuedPrompt] = (),
        leaf: LeafNote | None = None,
    ) -> None:
        self._table, self._raw, self._queued, self._note = table, rows, queued, leaf
        self._scratch = Scratch(table.scratch)
        self._places = Places(table, rows, self._scratch)
        self._answers = Answers(self._places)
        self._used = bytearray(len(self._places))
        self._lost = 0
        self.orphans = self.homeless = 0
        self.tail = 0

    # The conversations

    def main(self) -> array[int]:
        """The conversation as it is now."""
        leaf = self._leaf()
        if leaf < 0:
            return array("i")
        last = len(self._places) - 1
        end = last if self._places.speaking_at(last) == leaf else leaf
        self.tail = self._table.uuid[self._places.rows[end]]
        codes = self._conversation(leaf)
        self.orphans = self._lost
        self.homeless = self._answers.homeless(self._used)
        return codes

    def others(self, since: int = 0) -> Iterator[Branch]:
        """The other conversations, last first: those that were summed up, those with the former words of a record, and
        those that were left; to be asked for after `main`. `since`: those alone that end at or behind this offset."""
        table = self._table
        for number in range(len(self._raw) - 1, -1, -1):
            row = self._raw[number]
            if (table.is_boundary(row) or table.rewrites(row)) and table.offset[row] >= since:
                order = table.order[row]
                before = Chain(table, self._raw[:number], [each for each in self._queued if each.order < order])
                follows, _ = table.compactions.get(row, (None, None))
                codes = before._through(table.uuid[row]) if table.rewrites(row) else before._ended_with(follows)
                for code in codes:
                    place = self._places.first_of(table.uuid[table.row_of(code)])
                    # With other words under its id the record ends a conversation of its own.
                    if place >= 0 and self._places.rows[place] == table.row_of(code):
                        self._used[place] = True
                if codes:
                    yield Branch(codes, table.is_boundary(row))
        for leaf in self._abandoned():
            if table.offset[self._places.rows[leaf]] >= since:
                yield Branch(self._conversation(leaf), compacted=False)

    def unread(self) -> int:
        """Number of conversations that were left and not asked for."""
        return sum(1 for _ in self._abandoned())

    def _ended_with(self, uuid: str | None) -> array[int]:
        """The conversation that ends where a compaction says."""
        leaf, named = self._leaf(), self._places.named(uuid)
        named = self._places.speaking_at(named)
        if named >= 0 and (leaf < 0 or named not in self._places.up(leaf)):
            leaf = named
        return array("i") if leaf < 0 else self._conversation(leaf)

    def _through(self, number: int) -> array[int]:
        """The conversation with the record whose id has this number: the present one, or the last that leads through it."""
        leaf, place = self._leaf(), self._places.first_of(number)
        if place >= 0 and (leaf < 0 or place not in self._places.up(leaf)):
            leaf = self._places.last_behind(place)
        return array("i") if leaf < 0 else self._conversation(leaf)

    def _abandoned(self) -> Iterator[int]:
        """The ends of conversations nothing else has led through, last first."""
        places = self._places
        is_inner = bytearray(len(places) + 1)  # the last is for no place
        for place in range(len(places)):
            # What a compaction kept has been led through without the summary that it hangs on now.
            if places.speaks(place) and not self._used[place]:
                is_inner[places.speaking_at(places.parents[place])] = True
        for place in range(len(places) - 1, -1, -1):
            if places.speaks(place) and not self._used[place] and not is_inner[place]:
                yield place

    # The end of the conversation

    def _leaf(self) -> int:
        """The place of the last message; -1 where there is none."""
        places = self._places
        spoken = self._last_spoken()
        if spoken < 0:
            return -1
        backwards = range(len(places) - 1, -1, -1)
        found = places.speaking_at(next((each for each in backwards if places.kind(each) != "progress"), -1))
        found = spoken if found < 0 else found
        leaf = self._without_late_result(places.kept_behind.get(found, found))
        note = self._note
        newest = next(self._table.order[row] for row in reversed(self._raw) if self._table.speaks(row))
        if note is None or note.order < newest:
            return leaf
        if note.uuid is None:
            return -1
        named = places.named(note.uuid)
        if named < 0:
            return leaf
        if note.explicit:
            return places.speaking_at(named)
        if named in places.up(leaf):
            return leaf
        last = places.last_behind(named)
        return last if last >= 0 else places.speaking_at(named)

    def _last_spoken(self, *, results: bool = True) -> int:
        """The last message of the file, `results` or none; -1 where there is none."""
        places = self._places
        for place in range(len(places) - 1, -1, -1):
            if places.speaks(place) and (results or places.kind(place) != "result"):
                return place
        return -1

    def _without_late_result(self, leaf: int) -> int:
        """The last that was said where the leaf is a result of a call that is on the way to that: it came late, or
        others are yet to come."""
        places = self._places
        if places.kind(leaf) != "result":
            return leaf
        said = self._last_spoken(results=False)
        if said < 0 or said in places.up(leaf):
            return leaf
        makers = {call: self._answers.callers.of(call) for call in places.results(leaf)}
        wanted = {maker for of_call in makers.values() for maker in of_call}
        names = {places.answer(maker) for maker in wanted} - {0}
        on_way = {place for place in places.up(said) if place in wanted}
        answers = {name for place in places.up(said) if (name := places.answer(place)) in names}
        made = [
            any(maker in on_way or places.answer(maker) in answers for maker in of_call) for of_call in makers.values()
        ]
        return said if all(made) else leaf

    # The records in between

    def _conversation(self, leaf: int) -> array[int]:
        """The records that lead to a leaf, with all records of its answers, calls before results."""
        places = self._places
        way = array("I", places.up(leaf))
        way.reverse()
        answered = AnsweredWay(places, self._answers, way)
        self._lost = answered.lost
        for place in itertools.chain(way, answered.placed):
            self._used[place] = True
        placed, answer_of = answered.placed, answered.answer_of
        codes = array("i")
        queued = self._queued_behind(placed)
        for number, place in enumerate(self._scratch.stages(placed)):
            codes.append(places.code(place, answered.left(place)))
            waiting = queued.pop(place, [])
            following = placed[number + 1] if number + 1 < len(placed) else -1
            if waiting and answer_of[place] >= 0 and following >= 0 and answer_of[following] == answer_of[place]:
                queued.setdefault(following, [])[:0] = waiting  # behind all of the answer
            else:
                codes.extend(waiting)
        return codes

    def _queued_behind(self, placed: array[int]) -> dict[int, list[int]]:
        """The rows of the prompts of the queue that belong to these places, by the place that each stands behind."""
        found: dict[int, list[int]] = {}
        if not self._queued:
            return found
        places, is_placed = self._places, bytearray(len(self._places))
        for place in placed:
            is_placed[place] = True
        for queued in self._queued:
            place = bisect_left(range(len(places)), queued.order, key=places.order) - 1
            while place >= 0 and not is_placed[place] and places.kind(place) in ("note", "progress", "result"):
                place = places.parents[place]
            if place >= 0 and is_placed[place]:
                found.setdefault(place, []).append(queued.row)
        return found
