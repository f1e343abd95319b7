"""The places of the records of a Claude Code session, linked: which one each follows.

Each record names the one before it. Beyond that the program knows: parents that were never written or lead in a circle, ids
that stand twice, and compactions, which move records behind a new root.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from timeleap_agents.mirrors.formats.claude_nodes import Kept, Kind, NodeTable
from timeleap_agents.mirrors.scratch import Scratch

MAX_CIRCLES: Final = 1000
"""Circles of parents that are looked for one by one; beyond them each record joins the one before it in the file."""


class PlacesByNumber:
    """Places by the number of an id, in the order in which they were added. `numbers`: the highest one."""

    def __init__(self, scratch: Scratch, numbers: int) -> None:
        self._first = scratch.numbers("I", numbers + 1)
        self._more: dict[int, list[int]] = {}

    def add(self, number: int, place: int) -> None:
        """Add a place to those of a number."""
        first = self._first[number]
        if not first:
            self._first[number] = place + 1
        elif number in self._more:
            self._more[number].append(place)
        else:
            self._more[number] = [first - 1, place]

    def of(self, number: int) -> Sequence[int]:
        """All places of a number."""
        if number in self._more:
            return self._more[number]
        first = self._first[number]
        return (first - 1,) if first else ()

    def first(self, number: int) -> int:
        """The first place of a number; -1 where there is none."""
        return self._first[number] - 1


class _Merged(Struct, frozen=True):
    """Facts of the first record of a message of which a later one says the content."""

    order: int
    parent: int
    root: bool


class Places:
    """Each message of some rows has one place, the first that its id has; its content is the last that can be read. Notes
    that repeat an id have a place each.

    Attributes:
        table: The records.
        scratch: Where notes about their places are.
        rows: By place: the row that says what stands there.
        parents: By place: the one that it follows; -1: none.
        kept_behind: By the anchor of a compaction: the last record that it keeps.
    """

    def __init__(self, table: NodeTable, rows: Sequence[int], scratch: Scratch) -> None:
        self.table, self.scratch = table, scratch
        self.rows = scratch.numbers("I", len(rows))
        self._merged: dict[int, _Merged] = {}
        self._at = PlacesByNumber(scratch, len(table.ids))
        self._take(rows)
        self.parents = self._linked()
        self._break_circles()
        self.kept_behind: dict[int, int] = {}
        for place, row in enumerate(self.rows):
            if row in table.compactions and (kept := table.compactions[row][1]) is not None:
                self._move_kept(place, kept)

    def __len__(self) -> int:
        return len(self.rows)

    # What stands in a place

    def kind(self, place: int) -> Kind:
        return self.table.kind(self.rows[place])

    def speaks(self, place: int) -> bool:
        return self.table.speaks(self.rows[place])

    def answer(self, place: int) -> int:
        """The number of the answer that it is a part of."""
        return self.table.answer[self.rows[place]]

    def calls(self, place: int) -> memoryview:
        return self.table.calls.of(self.rows[place])

    def results(self, place: int) -> memoryview:
        return self.table.results.of(self.rows[place])

    def order(self, place: int) -> int:
        merged = self._merged.get(place)
        return self.table.order[self.rows[place]] if merged is None else merged.order

    def code(self, place: int, left: frozenset[str]) -> int:
        """How a conversation names it in which some of its results are `left`."""
        return self.table.variant(self.rows[place], again=place in self._merged, left=left)

    # Ways

    def first_of(self, number: int) -> int:
        """The first place that an id has; -1 where it has none."""
        return self._at.first(number)

    def named(self, uuid: str | None) -> int:
        """The first place of a record's id; -1 where it is none of them."""
        return self._at.first(self.table.ids.find(uuid or ""))

    def up(self, place: int) -> Iterator[int]:
        """It, and all before it, last first."""
        while place >= 0:
            yield place
            place = self.parents[place]

    def speaking_at(self, place: int) -> int:
        """It, or the first before it that is a message; -1 where there is none."""
        while place >= 0 and not self.speaks(place):
            place = self.parents[place]
        return place

    def last_behind(self, root: int) -> int:
        """The last message that leads to a place; -1 where there is none."""
        state = bytearray(len(self))  # 1: leads there, 2: does not
        state[root] = 1
        for start in self.scratch.stages(range(len(self))):
            way = array("I")
            place = start
            while place >= 0 and not state[place]:
                way.append(place)
                place = self.parents[place]
            found = state[place] if place >= 0 else 2
            for each in way:
                state[each] = found
        return next((each for each in reversed(range(len(self))) if state[each] == 1 and self.speaks(each)), -1)

    # Links

    def _take(self, rows: Sequence[int]) -> None:
        table = self.table
        # By the number of an id: the place of its message, from 1.
        of_message = self.scratch.numbers("I", len(table.ids) + 1)
        size = 0
        for row in self.scratch.stages(rows):
            number = table.uuid[row]
            if table.is_message(row):
                if of_message[number]:
                    self._take_again(row, of_message[number] - 1)
                    continue
                of_message[number] = size + 1
            self._at.add(number, size)
            self.rows[size] = row
            size += 1
        self.rows = self.rows[:size]

    def _take_again(self, row: int, place: int) -> None:
        """Take in a message whose id has a place."""
        table, first = self.table, self.rows[place]
        if not table.is_usable(row):
            return
        merged = self._merged.get(place)
        if merged is None:
            merged = _Merged(table.order[first], table.parent[first], table.is_root(first))
        if not merged.parent and not merged.root:
            merged = _Merged(merged.order, table.parent[row], table.is_root(row))
        self._merged[place] = merged
        self.rows[place] = row

    def _linked(self) -> memoryview:
        places = range(len(self))
        is_linked = any(map(self._parent_named_by, places)) or any(map(self.table.is_boundary, self.rows))
        parents = self.scratch.numbers("i", len(self))
        for place in self.scratch.stages(places):
            parents[place] = self._parent_of(place, in_a_row=not is_linked)
        return parents

    def _parent_named_by(self, place: int) -> int:
        merged = self._merged.get(place)
        return self.table.parent[self.rows[place]] if merged is None else merged.parent

    def _parent_of(self, place: int, *, in_a_row: bool) -> int:
        row, merged = self.rows[place], self._merged.get(place)
        root = self.table.is_root(row) if merged is None else merged.root
        if (root and not in_a_row) or (self.table.is_boundary(row) and self.kind(place) == "note"):
            return -1
        parent = self._parent_named_by(place)
        found = self._at.of(parent) if parent else ()
        before = bisect_left(found, place)
        if before:
            return found[before - 1]
        return next((each for each in found if each > place), place - 1)

    def _break_circles(self) -> None:
        parents, done = self.parents, bytearray(len(self))
        on_way = self.scratch.numbers("I", len(self))  # by place: how many of the way there are up to it
        circles = 0
        for start in self.scratch.stages(range(len(parents))):
            way = array("I")
            place = start
            while place >= 0 and not done[place]:
                if not on_way[place]:
                    way.append(place)
                    on_way[place] = len(way)
                    place = parents[place]
                    continue
                circles += 1
                if circles > MAX_CIRCLES:
                    for each, parent in enumerate(parents):
                        parents[each] = min(parent, each - 1)
                    return
                first = min(way[on_way[place] - 1 :])
                end = on_way[first]
                for each in way[end:]:
                    on_way[each] = 0
                del way[end:]
                parents[first] = place = first - 1
            for each in way:
                done[each] = True

    def _move_kept(self, boundary: int, kept: Kept) -> None:
        """Put the records that a compaction keeps behind its anchor; nothing where one of them, or it, is not there."""
        anchor, moved = self.named(kept.anchor), [self.named(uuid) for uuid in kept.uuids]
        if anchor < 0 or min(moved, default=-1) < 0:
            return
        if kept.head is not None:
            way = array("I", self.up(moved[-1]))
            head = self.named(kept.head)
            if head < 0 or head not in way:
                return
            moved = way[: way.index(head) + 1].tolist()[::-1]
        which = set(moved)
        if any(place in which for place in self.up(anchor)):
            return
        for place, parent in enumerate(self.parents):
            gone = place > boundary and 0 <= parent < boundary and parent not in which
            if place not in which and (parent == anchor or gone):
                self.parents[place] = moved[-1]
        self.kept_behind[anchor] = moved[-1]
        for place, before in zip(moved, [anchor, *moved[:-1]], strict=True):
            self.parents[place] = before
