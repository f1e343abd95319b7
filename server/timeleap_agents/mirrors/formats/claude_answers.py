"""The answers in a Claude Code session: of each all records, wherever they hang, and the results of its calls."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from timeleap_agents.mirrors.formats.claude_places import Places, PlacesByNumber
from timeleap_agents.mirrors.scratch import Scratch

_UNKNOWN: Final = -1
_NOTHING: Final = -2
_PLACE: Final = (1 << 32) - 1


class _Chains:
    """Places that hang on numbers, each on one."""

    def __init__(self, scratch: Scratch, numbers: int, places: int) -> None:
        self._first, self._next = scratch.numbers("I", numbers), scratch.numbers("I", places)  # from 1; 0 is the end

    def put_first(self, number: int, place: int) -> None:
        """Hang a place on a number, before all others."""
        self._next[place], self._first[number] = self._first[number], place + 1

    def of(self, number: int) -> Iterator[int]:
        """The places on a number."""
        each = self._first[number]
        while each:
            yield each - 1
            each = self._next[each - 1]


class _WaitingCalls:
    """Calls that have no result yet, of answers that make them; a call is seldom that of several answers. `calls`: the
    highest number of one."""

    def __init__(self, scratch: Scratch, calls: int) -> None:
        self._maker = scratch.numbers("i", calls + 1, -1)
        self._waits = bytearray(calls + 1)
        self._more: dict[int, dict[int, bool]] = {}  # by call: whether it waits, by answer

    def add(self, calls: Iterable[int], answer: int) -> None:
        """Note calls that an answer makes."""
        for call in calls:
            if self._maker[call] < 0:
                self._maker[call], self._waits[call] = answer, True
            elif self._maker[call] != answer:
                self._more.setdefault(call, {self._maker[call]: True})[answer] = True

    def makers(self, call: int) -> Iterable[int]:
        """The answers that make a call."""
        if call in self._more:
            return self._more[call]
        return (self._maker[call],) if self._maker[call] >= 0 else ()

    def waits(self, call: int, answer: int) -> bool:
        """True of a call of the answer that has no result yet."""
        if call in self._more:
            return self._more[call].get(answer, False)
        return self._maker[call] == answer and bool(self._waits[call])

    def take(self, calls: Iterable[int], answer: int) -> None:
        """Note that calls of an answer have their results."""
        for call in calls:
            if call in self._more:
                self._more[call][answer] = False
            else:
                self._waits[call] = False


class Answers:
    """Records of a file by the answer that they go with.

    Attributes:
        callers: By call: the places of the answers that make it.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        size, calls, scratch = len(places), len(places.table.call_ids), places.scratch
        self.callers, self._results = PlacesByNumber(scratch, calls), PlacesByNumber(scratch, calls)
        self._asked = scratch.numbers("i", size, _UNKNOWN)  # of a part of an answer: what that replies to
        self._replies = _Chains(scratch, size + 2, size)  # on what they reply to, from 2; 0 is nothing
        for place in scratch.stages(range(size)):
            if not places.table.is_usable(places.rows[place]):
                continue
            for call in places.calls(place):
                self.callers.add(call, place)
            for call in places.results(place):
                self._results.add(call, place)
            if places.kind(place) == "answer" and places.answer(place):
                self._asked[place] = self._asked_by(place)
        for place in scratch.stages(reversed(range(size))):
            if self._asked[place] != _UNKNOWN:
                self._replies.put_first(self._asked[place] - _NOTHING, place)

    def _asked_by(self, place: int) -> int:
        """Find the place that an answer replies to: the first before it that is no part of it, no result and no note.
        Programs between here and the model may give one id to all answers, so the id alone does not tell."""
        places = self._places
        answer = places.answer(place)
        for each in places.up(place):
            is_part = places.kind(each) == "answer" and places.answer(each) == answer
            if is_part and self._asked[each] != _UNKNOWN:
                return self._asked[each]
            is_other = places.speaks(each) and not is_part and places.kind(each) != "result"
            if is_other and not places.table.is_midway(places.rows[each]):
                return each
        return _NOTHING

    def parts_with(self, place: int) -> Iterator[int]:
        """The places of all records of an answer that reply to what this one of them replies to."""
        answer = self._places.answer(place)
        return (each for each in self._replies.of(self._asked[place] - _NOTHING) if self._places.answer(each) == answer)

    def results_of(self, call: int) -> Sequence[int]:
        """The places of the results of a call."""
        return self._results.of(call)

    def homeless(self, but: bytearray) -> int:
        """Number of results whose call no answer makes, without those in places that are marked in `but`."""
        places, callers = self._places, self.callers
        others = (place for place in places.scratch.stages(range(len(places))) if not but[place])
        return sum(callers.first(call) < 0 for place in others for call in places.results(place))


class AnsweredWay:
    """The places of one conversation in the order in which the program sends them: all records of an answer, calls before
    results, where the way first comes to it.

    Args:
        answers: What goes with which answer in the file.
        way: The places that lead to the end of the conversation.

    Attributes:
        placed: The places in that order.
        answer_of: By place of the file: the number of the answer in this conversation that it is of; -1: none.
        lost: Number of results that go with no call.
    """

    def __init__(self, places: Places, answers: Answers, way: array[int]) -> None:
        self._places, self._answers = places, answers
        self._scratch = places.scratch
        self.answer_of = self._scratch.numbers("i", len(places), -1)
        self._position = self._scratch.numbers("i", len(places), -1)  # on the way
        for number, place in enumerate(way):
            self._position[place] = number
        self._records, self._starts = array("I"), array("I", [0])  # of all answers, and where those of each begin
        self._find_answers(way)
        self._gather_parts()
        self._waiting = _WaitingCalls(self._scratch, len(places.table.call_ids))
        for answer in self._scratch.stages(range(len(self._starts) - 1)):
            for place in self._records_of(answer):
                self._waiting.add(places.calls(place), answer)
        self._given = bytearray(places.table.results.size)  # of results: whether they go with a call
        self._gather_results(way)
        self.placed = self._ordered(way)
        self.lost = self._count_lost(way)

    def left(self, place: int) -> frozenset[str]:
        """The ids of its results that go with no call."""
        table = self._places.table
        slots = table.results.slots(self._places.rows[place])
        return frozenset(table.result_name(slot) for slot in slots if not self._given[slot])

    def _records_of(self, answer: int) -> array[int]:
        return self._records[self._starts[answer] : self._starts[answer + 1]]

    def _find_answers(self, way: array[int]) -> None:
        """Find the records of answers that stand on the way; those without anything between them are of one."""
        places, records, starts = self._places, array("I"), array("I")
        is_open, last = False, -1
        # By the number of an answer's id: which answer of the way it was met in last, from 1.
        met_in = self._scratch.numbers("I", len(places.table.answer_ids) + 1)
        for place in self._scratch.stages(way):
            if not places.speaks(place):
                continue
            kind = places.kind(place)
            if kind == "answer":
                name = places.answer(place)
                same = last >= 0 and (places.kind(last) == "answer" or (name > 0 and met_in[name] == len(starts)))
                if not is_open or not same:
                    is_open = True
                    starts.append(len(records))
                records.append(place)
                met_in[name] = len(starts)
            elif kind != "result" and not places.table.is_midway(places.rows[place]):
                is_open = False
            last = place
        starts.append(len(records))
        self._records, self._starts = records, starts

    def _gather_parts(self) -> None:
        """Add the records of each answer that hang aside."""
        records, starts = array("I"), array("I")
        named_in = self._scratch.numbers("I", len(self._places.table.answer_ids) + 1)
        for answer in self._scratch.stages(range(len(self._starts) - 1)):
            placed, newest = array("Q"), -1  # where it belongs, and 32 bits of the place
            is_sorted = True
            for place in self._scratch.stages(self._records_of(answer)):
                newest = max(newest, place)  # whatever the file's order, a record comes behind its parent
                is_sorted = is_sorted and newest == place
                placed.append(newest << 32 | place)
                name = self._places.answer(place)
                if name and named_in[name] != answer + 1:
                    named_in[name] = answer + 1
                    aside = [part for part in self._answers.parts_with(place) if self._position[part] < 0]
                    is_sorted = is_sorted and not aside
                    placed.extend(part << 32 | part for part in aside)
            starts.append(len(records))
            for each in placed if is_sorted else sorted(placed):
                place = each & _PLACE
                records.append(place)
                self.answer_of[place] = answer
        starts.append(len(records))
        self._records, self._starts = records, starts

    def _gather_results(self, way: array[int]) -> None:
        """Give each answer the results of its calls: those on the way, then those that hang aside."""
        places, waiting = self._places, self._waiting
        for place in self._scratch.stages(way):
            calls = places.results(place) if places.table.is_usable(places.rows[place]) else ()
            known = [answer for call in calls for answer in waiting.makers(call) if waiting.waits(call, answer)]
            earlier = [answer for answer in known if self._begins(answer) < self._position[place]]
            for answer in (earlier or known)[-1:]:
                self._give(place, answer)
        for answer in self._scratch.stages(range(len(self._starts) - 1)):
            for call in sorted(call for place in self._records_of(answer) for call in places.calls(place)):
                if waiting.waits(call, answer):
                    aside = (each for each in self._answers.results_of(call) if self.answer_of[each] < 0)
                    chosen = next((each for each in aside if self._goes_with(each, call, answer)), None)
                    if chosen is not None:
                        self._give(chosen, answer)

    def _begins(self, answer: int) -> int:
        """Where on the way the first record of an answer stands that is on it."""
        return next(at for place in self._records_of(answer) if (at := self._position[place]) >= 0)

    def _give(self, place: int, answer: int) -> None:
        places = self._places
        calls = places.results(place)
        taken = {call for call in calls if self._waiting.waits(call, answer)}
        self._waiting.take(taken, answer)
        for slot, call in zip(places.table.results.slots(places.rows[place]), calls, strict=True):
            if call in taken:
                self._given[slot] = True
        if places.kind(place) == "result":
            self.answer_of[place] = answer

    def _goes_with(self, result: int, call: int, answer: int) -> bool:
        """False where another answer made a call of that id, too, and the result hangs on that one."""
        if len(self._answers.callers.of(call)) < 2:
            return True
        maker = next((each for each in self._places.up(result) if call in self._places.calls(each)), -1)
        return maker >= 0 and self.answer_of[maker] == answer

    def _ordered(self, way: array[int]) -> array[int]:
        places, results = self._places, self._results()
        placed, written = array("I"), bytearray(len(self._starts) - 1)
        for place in self._scratch.stages(way):
            answer = self.answer_of[place]
            if answer < 0:
                if places.kind(place) != "result" or not places.table.is_usable(places.rows[place]):
                    placed.append(place)
            elif not written[answer]:
                written[answer] = True
                placed += self._records_of(answer)
                placed.extend(results.of(answer))
        return placed

    def _results(self) -> _Chains:
        """The results of each answer, in the file's order."""
        chains = _Chains(self._scratch, len(self._starts) - 1, len(self._places))
        for place in self._scratch.stages(reversed(range(len(self._places)))):
            if self.answer_of[place] >= 0 and self._places.kind(place) == "result":
                chains.put_first(self.answer_of[place], place)
        return chains

    def _count_lost(self, way: array[int]) -> int:
        places = self._places
        is_placed = bytearray(len(places))
        lost = 0
        for place in self._scratch.stages(self.placed):
            is_placed[place] = True
            lost += len(self.left(place))
        return lost + sum(places.kind(place) == "result" and not is_placed[place] for place in way)
