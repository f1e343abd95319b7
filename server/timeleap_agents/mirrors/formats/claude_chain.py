"""The conversation in a session file of Claude Code: a model of what the program reads from its records.

Each record names the one before it, so the records are trees; the conversation is the way from a root to the last record.
Beyond that the model knows: parents that were never written or lead in a circle, ids that stand twice, records of one
answer that hang side by side, a leaf that the program noted, and compactions, which move records behind a new root.
`protocol/spec` says nothing of it; the rules were found by running the program.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Kind = Literal["prompt", "said", "answer", "result", "note", "progress"]
"""`said`: what the program says in the person's name. `note`: in the tree, but no message."""

MAX_CIRCLES: Final = 1000
"""Circles of parents that are looked for one by one; beyond them each record joins the one before it in the file."""


class Kept(Struct, frozen=True):
    """Records that a compaction keeps: they follow the record `anchor`, in this order. With a `head` they are all from
    that one to the last of `uuids`."""

    anchor: str
    uuids: tuple[str, ...]
    head: str | None = None


class Node(Struct, frozen=True, gc=False):
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
        rewrites: It repeats an id with other words than before.
        first: Of a message that was written again: offset of the record that its place is of; else -1.
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
    rewrites: bool = False
    first: int = -1

    @property
    def speaks(self) -> bool:
        return self.usable and self.kind not in ("note", "progress")


class LeafNote(Struct, frozen=True):
    """Where the program noted that the conversation ends, behind the record `order`; `uuid` None: it was emptied."""

    order: int
    uuid: str | None
    explicit: bool


class ChainEntry(Struct, frozen=True, gc=False):
    """A record of a conversation; `left` are ids of its results that go with no call of it."""

    node: Node
    left: frozenset[str] = frozenset()


class Branch(Struct, frozen=True):
    """A conversation in a file, and whether it was summed up."""

    entries: list[ChainEntry]
    compacted: bool


class _Answer(Struct):
    """The records of one answer, or of some without anything between them, and the results of their calls, as
    places."""

    records: list[int]
    results: list[int]
    waiting: set[str]  # calls without a result


class Chain:
    """The records of a file, linked.

    Args:
        nodes: They, in the file's order, those that repeat an id included.
        queued: Prompts that stand only in the program's queue, not in the tree.
        leaf: The last note of where the conversation ends.

    Attributes:
        orphans: Number of results on the way of `main` that go with no call.
        tail: Id of the record that one which goes on from `main` names.
    """

    def __init__(self, nodes: Sequence[Node], queued: Sequence[Node] = (), leaf: LeafNote | None = None) -> None:
        self._raw, self._queued, self._note = nodes, queued, leaf
        self._places: list[Node] = []
        self._at: dict[str, list[int]] = {}
        self._take_places(nodes)
        self._parents = self._linked()
        self._break_circles()
        self._kept_behind: dict[int, int] = {}  # by the anchor of a compaction: the last record that it keeps
        for place, node in enumerate(self._places):
            if node.kept is not None:
                self._move_kept(place, node.kept)
        self._callers: dict[str, list[int]] = {}
        self._results: dict[str, list[int]] = {}
        self._parts: dict[tuple[str, int], list[int]] = {}
        self._note_answers()
        self._used: set[int] = set()
        self._given: set[tuple[int, str]] = set()
        self._lost = 0
        self.orphans = 0
        self.tail: str | None = None

    # The conversations

    def main(self) -> list[ChainEntry]:
        """The conversation as it is now."""
        leaf = self._leaf()
        if leaf is None:
            return []
        last = len(self._places) - 1
        self.tail = self._places[last if self._speaking_at(last) == leaf else leaf].uuid
        entries = self._conversation(leaf)
        self.orphans = self._lost
        return entries

    def others(self, since: int = 0) -> Iterator[Branch]:
        """The other conversations, last first: those that were summed up, those with the former words of a record, and
        those that were left; to be asked for after `main`. `since`: those alone that end at or behind this offset."""
        for number in range(len(self._raw) - 1, -1, -1):
            node = self._raw[number]
            if (node.boundary or node.rewrites) and node.offset >= since:
                before = Chain(self._raw[:number], [each for each in self._queued if each.order < node.order])
                entries = before._ended_with(node.follows)
                self._used |= {self._at[each.node.uuid][0] for each in entries if each.node.uuid in self._at}
                if entries:
                    yield Branch(entries, node.boundary)
        for leaf in self._abandoned():
            if self._places[leaf].offset >= since:
                yield Branch(self._conversation(leaf), compacted=False)

    def unread(self) -> int:
        """Number of conversations that were left and not asked for."""
        return sum(1 for _ in self._abandoned())

    def _ended_with(self, uuid: str | None) -> list[ChainEntry]:
        """The conversation that ends where a compaction says."""
        leaf = self._leaf()
        named = self._speaking_at(self._at[uuid][0]) if uuid in self._at else None
        if named is not None and (leaf is None or named not in self._up(leaf)):
            leaf = named
        return [] if leaf is None else self._conversation(leaf)

    def _abandoned(self) -> Iterator[int]:
        """The ends of conversations nothing else has led through, last first."""
        inner = {self._speaking_at(self._parents[place]) for place, node in enumerate(self._places) if node.speaks}
        for place in range(len(self._places) - 1, -1, -1):
            if self._places[place].speaks and place not in self._used and place not in inner:
                yield place

    # Links

    def _take_places(self, nodes: Sequence[Node]) -> None:
        """Give each message one place, the first that its id has; its content is the last that can be read. Notes that
        repeat an id have a place each."""
        of_message: dict[str, int] = {}
        for node in nodes:
            place = None if node.kind in ("note", "progress") else of_message.get(node.uuid)
            if place is not None:
                first = self._places[place]
                if node.usable:
                    where = first if first.parent or first.root else node
                    begun = first.offset if first.first < 0 else first.first
                    self._places[place] = replace(
                        node, order=first.order, parent=where.parent, root=where.root, first=begun
                    )
                continue
            if node.kind not in ("note", "progress"):
                of_message[node.uuid] = len(self._places)
            self._at.setdefault(node.uuid, []).append(len(self._places))
            self._places.append(node)

    def _linked(self) -> list[int]:
        """The place that each follows; -1: none."""
        in_a_row = not any(node.parent for node in self._places) and not any(node.boundary for node in self._places)
        return [self._parent_of(place, node, in_a_row) for place, node in enumerate(self._places)]

    def _parent_of(self, place: int, node: Node, in_a_row: bool) -> int:
        if (node.root and not in_a_row) or (node.boundary and node.kind == "note"):
            return -1
        found = self._at.get(node.parent, []) if node.parent else []
        before = bisect_left(found, place)
        if before:
            return found[before - 1]
        return next((each for each in found if each > place), place - 1)

    def _break_circles(self) -> None:
        parents, done = self._parents, [False] * len(self._places)
        circles = 0
        for start in range(len(parents)):
            way: list[int] = []
            on_way: dict[int, int] = {}
            place = start
            while place >= 0 and not done[place]:
                if place not in on_way:
                    on_way[place] = len(way)
                    way.append(place)
                    place = parents[place]
                    continue
                circles += 1
                if circles > MAX_CIRCLES:
                    self._parents = [min(parent, each - 1) for each, parent in enumerate(parents)]
                    return
                first = min(way[on_way[place] :])
                for each in way[on_way[first] + 1 :]:
                    del on_way[each]
                del way[on_way[first] + 1 :]
                parents[first] = place = first - 1
            for each in way:
                done[each] = True

    def _move_kept(self, boundary: int, kept: Kept) -> None:
        """Put the records that a compaction keeps behind its anchor; nothing where one of them, or it, is not there."""
        if kept.anchor not in self._at or any(uuid not in self._at for uuid in kept.uuids):
            return
        anchor = self._at[kept.anchor][0]
        moved = [self._at[uuid][0] for uuid in kept.uuids]
        if kept.head is not None:
            way = list(self._up(moved[-1]))
            head = self._at.get(kept.head, [-1])[0]
            if head not in way:
                return
            moved = way[: way.index(head) + 1][::-1]
        which = set(moved)
        if not moved or any(place in which for place in self._up(anchor)):
            return
        for place, parent in enumerate(self._parents):
            gone = place > boundary and 0 <= parent < boundary and parent not in which
            if place not in which and (parent == anchor or gone):
                self._parents[place] = moved[-1]
        self._kept_behind[anchor] = moved[-1]
        for place, before in zip(moved, [anchor, *moved[:-1]], strict=True):
            self._parents[place] = before

    def _up(self, place: int) -> Iterator[int]:
        while place >= 0:
            yield place
            place = self._parents[place]

    def _speaking_at(self, place: int) -> int | None:
        """It, or the first before it that is a message."""
        return next((each for each in self._up(place) if self._places[each].speaks), None)

    # The end of the conversation

    def _leaf(self) -> int | None:
        spoken = [place for place, node in enumerate(self._places) if node.speaks]
        if not spoken:
            return None
        last = next(
            (each for each in range(len(self._places) - 1, -1, -1) if self._places[each].kind != "progress"), -1
        )
        found = self._speaking_at(last)
        found = spoken[-1] if found is None else found
        leaf = self._without_late_result(self._kept_behind.get(found, found), spoken)
        note = self._note
        newest = max(node.order for node in self._raw if node.speaks)
        if note is None or note.order < newest:
            return leaf
        if note.uuid is None:
            return None
        if note.uuid not in self._at:
            return leaf
        named = self._at[note.uuid][0]
        if note.explicit:
            return self._speaking_at(named)
        if named in self._up(leaf):
            return leaf
        return max(self._behind(named) & set(spoken), default=self._speaking_at(named))

    def _behind(self, root: int) -> set[int]:
        """A place and all that lead to it."""
        is_behind: dict[int, bool] = {root: True, -1: False}
        for start in range(len(self._places)):
            way = []
            place = start
            while place not in is_behind:
                way.append(place)
                place = self._parents[place]
            for each in way:
                is_behind[each] = is_behind[place]
        return {place for place, is_so in is_behind.items() if is_so}

    def _without_late_result(self, leaf: int, spoken: list[int]) -> int:
        """The last that was said where the leaf is a result of a call that is on the way to that: it came late, or
        others are yet to come."""
        if self._places[leaf].kind != "result":
            return leaf
        said = next((place for place in reversed(spoken) if self._places[place].kind != "result"), leaf)
        if said == leaf or said in self._up(leaf):
            return leaf
        way = set(self._up(said))
        answers = {self._places[place].answer for place in way} - {None}
        wanted = set(self._places[leaf].results)
        for call in self._places[leaf].results:
            for caller in self._callers.get(call, ()):
                if caller in way or self._places[caller].answer in answers:
                    wanted.discard(call)
        return leaf if wanted else said

    # Answers

    def _note_answers(self) -> None:
        for place, node in enumerate(self._places):
            if not node.usable:
                continue
            for call in node.calls:
                self._callers.setdefault(call, []).append(place)
            for call in node.results:
                self._results.setdefault(call, []).append(place)
            if node.kind == "answer" and node.answer is not None:
                self._parts.setdefault((node.answer, self._asked_by(place)), []).append(place)

    def _asked_by(self, place: int) -> int:
        """Find the place that an answer replies to: the first before it that is no part of it, no result and no note.
        Programs between here and the model may give one id to all answers, so the id alone does not tell."""
        answer = self._places[place].answer
        for each in self._up(place):
            node = self._places[each]
            part = node.kind == "answer" and node.answer == answer
            if node.speaks and not part and node.kind != "result" and not node.midway:
                return each
        return -1

    def _conversation(self, leaf: int) -> list[ChainEntry]:
        """Return the places that lead to a leaf, with all records of its answers, calls before results."""
        way = list(self._up(leaf))[::-1]
        self._used |= set(way)
        self._given = set()
        answers, of_record = self._answers_on(way)
        self._gather_parts(answers, of_record, way)
        self._gather_results(answers, of_record, way)
        placed: list[int] = []
        written: set[int] = set()
        for place in way:
            node = self._places[place]
            answer = of_record.get(place)
            if answer is None:
                if node.kind != "result" or not node.usable:
                    placed.append(place)
            elif id(answer) not in written:
                written.add(id(answer))
                placed += [*answer.records, *sorted(answer.results)]
        self._used |= set(placed)
        entries: list[ChainEntry] = []
        found = dict.fromkeys(placed)
        queued = self._queued_behind(found)
        last_of = {record: answer for answer in answers for record in (*answer.records, *answer.results)}
        for number, place in enumerate(placed):
            node = self._places[place]
            left = frozenset(call for call in node.results if (place, call) not in self._given)
            entries.append(ChainEntry(node, left))
            waiting = queued.pop(place, [])
            following = placed[number + 1] if number + 1 < len(placed) else -1
            if waiting and place in last_of and last_of.get(following) is last_of[place]:
                queued.setdefault(following, [])[:0] = waiting  # behind all of the answer
            else:
                entries += map(ChainEntry, waiting)
        self._lost = sum(len(each.left) for each in entries) + sum(
            self._places[place].kind == "result" and place not in found for place in way
        )
        return entries

    def _answers_on(self, way: list[int]) -> tuple[list[_Answer], dict[int, _Answer]]:
        """The answers on a way, and the answer of each record of one."""
        answers: list[_Answer] = []
        of_record: dict[int, _Answer] = {}
        current: _Answer | None = None
        last: Node | None = None
        for place in way:
            node = self._places[place]
            if node.kind == "answer" and node.usable:
                same = last is not None and (last.kind == "answer" or node.answer in self._ids_of(current) - {None})
                if current is None or not same:
                    current = _Answer([], [], set())
                    answers.append(current)
                current.records.append(place)
                of_record[place] = current
            elif node.speaks and node.kind != "result" and not node.midway:
                current = None
            last = node if node.speaks else last
        return answers, of_record

    def _ids_of(self, answer: _Answer | None) -> set[str | None]:
        return set() if answer is None else {self._places[place].answer for place in answer.records}

    def _gather_parts(self, answers: list[_Answer], of_record: dict[int, _Answer], way: list[int]) -> None:
        """Add the records of each answer that hang aside."""
        on_way = set(way)
        for answer in answers:
            placed, newest, named = [], -1, set[str]()
            for place in answer.records:  # whatever the file's order, a record comes behind its parent
                newest = max(newest, place)
                placed.append((newest, place))
                name = self._places[place].answer
                if name is not None and name not in named:
                    named.add(name)
                    parts = self._parts.get((name, self._asked_by(place)), [])
                    placed += [(part, part) for part in parts if part not in on_way]
            answer.records = [place for _, place in sorted(placed)]
            of_record.update((place, answer) for place in answer.records)
            answer.waiting = {call for place in answer.records for call in self._places[place].calls}

    def _gather_results(self, answers: list[_Answer], of_record: dict[int, _Answer], way: list[int]) -> None:
        """Give each answer the results of its calls: those on the way, then those that hang aside."""
        makers: dict[str, list[_Answer]] = {}
        for answer in answers:
            for call in answer.waiting:
                makers.setdefault(call, []).append(answer)
        position = {place: number for number, place in enumerate(way)}
        for place in way:
            node = self._places[place]
            if node.usable and node.results:
                known = [each for call in node.results for each in makers.get(call, []) if call in each.waiting]
                earlier = [each for each in known if position[_first_on(each.records, position)] < position[place]]
                self._give(place, (earlier or known)[-1:], of_record)
        for answer in answers:
            for call in sorted(answer.waiting):
                if call in answer.waiting:
                    aside = (
                        (each for each in self._results[call] if each not in of_record) if call in self._results else ()
                    )
                    chosen = next((each for each in aside if self._goes_with(each, call, answer, of_record)), None)
                    if chosen is not None:
                        self._give(chosen, [answer], of_record)

    def _give(self, place: int, answers: list[_Answer], of_record: dict[int, _Answer]) -> None:
        for answer in answers:
            taken = answer.waiting & set(self._places[place].results)
            answer.waiting -= taken
            self._given |= {(place, call) for call in taken}
            if self._places[place].kind == "result":
                answer.results.append(place)
                of_record[place] = answer

    def _goes_with(self, result: int, call: str, answer: _Answer, of_record: dict[int, _Answer]) -> bool:
        """False where another answer made a call of that id, too, and the result hangs on that one."""
        if len(self._callers.get(call, ())) < 2:
            return True
        maker = next((each for each in self._up(result) if call in self._places[each].calls), None)
        return maker is not None and of_record.get(maker) is answer

    def _queued_behind(self, placed: dict[int, None]) -> dict[int, list[Node]]:
        """The prompts of the queue that belong to these places, by the place that each stands behind."""
        found: dict[int, list[Node]] = {}
        orders = [node.order for node in self._places] if self._queued else []
        for queued in self._queued:
            place = bisect_left(orders, queued.order) - 1
            while place >= 0 and place not in placed and self._places[place].kind in ("note", "progress", "result"):
                place = self._parents[place]
            if place in placed:
                found.setdefault(place, []).append(queued)
        return found


def _first_on(records: list[int], position: dict[int, int]) -> int:
    return next(place for place in records if place in position)
