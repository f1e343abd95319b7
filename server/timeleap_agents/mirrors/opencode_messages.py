"""The messages of a session of opencode as they were at some time, and which of them are sent: a million take a few bytes of
memory each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from timeleap_agents.mirrors.formats.opencode import RowMessage, RowPart, RowStep, steps_of
from timeleap_agents.mirrors.id_numbers import NumberLists
from timeleap_agents.mirrors.scratch import Column, Scratch
from timeleap_agents.mirrors.scratch_database import ScratchDatabase
from timeleap_agents.mirrors.steps import StepTable

Run = array  # of ints: the numbers of messages, in their order
AT_ONCE: Final = 500
_USER, _ASKS, _SUMS, _FINISHED, _FAILED, _DROPPED, _SPEAKS = (1 << bit for bit in range(7))
_TABLES: Final = """
CREATE TABLE message (id TEXT PRIMARY KEY, created INTEGER, changed INTEGER, number INTEGER, is_new INTEGER, body BLOB)
  WITHOUT ROWID;
CREATE INDEX in_order ON message (created, id);
CREATE INDEX unread ON message (id) WHERE is_new;
CREATE TABLE part (message TEXT, id TEXT, changed INTEGER, body BLOB, PRIMARY KEY (message, id)) WITHOUT ROWID;
"""
_PUT_MESSAGE: Final = """
INSERT INTO message VALUES (?, ?, ?, NULL, 1, ?) ON CONFLICT (id) DO UPDATE SET
created = excluded.created, changed = excluded.changed, is_new = 1, body = excluded.body"""
_BITS: Final = (1 << 64) - 1
_NOBODY: Final = -1
"""The number of a message of which neither the author nor a part is known."""


class MessageStates:
    """Each message as it was at some time, by its number: what decides whether it is sent, and its steps."""

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.table = StepTable(RowStep)
        # By the place of a step: a fingerprint of its key, and of all it says of itself.
        self._key, self._whole, self._offset = (Column(self.scratch, "Q") for _ in range(3))
        self._flags = bytearray()
        self._any = 0  # all flags that some message has
        self._id, self._parent, self._tail = (Column(self.scratch, "Q") for _ in range(3))  # fingerprints of ids
        self._created = Column(self.scratch, "q")
        self._lists = NumberLists(self.scratch)  # two rows for each: the steps, and those as long as more may come

    def add(self, message: RowMessage, parts: list[RowPart], before: int | None = None) -> int:
        """Add a message with its parts, in their order; returns its number. `before`: the one that it had, as it was: a
        step that has not changed keeps its place."""
        asks = message.compaction(parts)
        known: dict[int, int] = {}
        if before is not None and before >= 0:
            places = (*self._lists.of(2 * before), *self._lists.of(2 * before + 1))
            known = {self._whole[place]: place for place in places}
        steps = [self._place(step, known) for step in steps_of(message, parts, over=True)]
        self._lists.append(steps)
        is_over = message.role == "user" or message.finished
        begun = [] if is_over else steps_of(message, parts, over=False)
        self._lists.append(self._place(step, known) for step in begun)
        facts = {
            _USER: message.role == "user",
            _ASKS: asks is not None,
            _SUMS: message.summary,
            _FINISHED: message.finished,
            _FAILED: message.failed,
            _DROPPED: message.is_dropped(parts),
            _SPEAKS: bool(steps),
        }
        flags = sum(flag for flag, is_so in facts.items() if is_so)
        self._flags.append(flags)
        self._any |= flags
        self._id.append(_fingerprint(message.id))
        self._parent.append(_fingerprint(message.parent))
        self._tail.append(0 if asks is None else _fingerprint(asks.tail))
        self._created.append(message.created)
        return len(self._flags) - 1

    def _place(self, step: RowStep, known: dict[int, int]) -> int:
        """The place of a step in the table; one that is known has it already."""
        whole = _fingerprint(f"{step.key} {step.time} {step.tokens} {step.parts}")
        place = known.get(whole)
        if place is None:
            place = known[whole] = self.table.add(step)
            self._whole.append(whole)
            self._key.append(_fingerprint(step.key))
            self._offset.append(step.offset)
        return place

    def created(self, number: int) -> int:
        """When a message was begun, in milliseconds since 1970."""
        return self._created[number]

    # Steps

    def steps(self, run: Run[int], *, with_dropped: bool = False) -> Run[int]:
        """The places of the steps that messages make. `with_dropped`: of those, too, that the program does not send."""
        found, last = array("i"), len(run) - 1
        for at, number in enumerate(self.scratch.stages(run)):
            flags = self._flags[number]
            if flags & _DROPPED and not with_dropped:
                continue
            is_over = at < last or flags & (_USER | _FINISHED)
            found.extend(self._lists.of(2 * number if is_over else 2 * number + 1))
        return found

    def keys(self, places: Iterable[int]) -> array[int]:
        """Fingerprints of the keys of steps."""
        return array("Q", map(self._key.__getitem__, self.scratch.stages(places)))

    def reaches(self, places: Iterable[int], since: int) -> bool:
        """True if some steps are of an event at or behind this one."""
        return any(self._offset[place] >= since for place in self.scratch.stages(places))

    # Which messages are sent

    def dropped(self, run: Run[int]) -> Iterator[int]:
        """The places in a run, last first, of messages that say something and are not sent."""
        wanted = _DROPPED | _SPEAKS
        if self._any & wanted == wanted:
            yield from (at for at in reversed(range(len(run))) if self._flags[run[at]] & wanted == wanted)

    def first_prompts(self, run: Iterable[int]) -> Iterator[int]:
        """The numbers of messages of the person that say something."""
        wanted = _USER | _SPEAKS
        yield from (number for number in run if self._flags[number] & wanted == wanted)

    def steps_of(self, number: int) -> memoryview:
        """The places of the steps of one message."""
        return self._lists.of(2 * number)

    def since_compaction(self, run: Run[int]) -> Run[int]:
        """The messages from the last compaction on that is done: its question and summary, what it keeps, what
        follows."""
        if not self._any & _ASKS:
            return run
        done: set[int] = set()
        for at in reversed(range(len(run))):
            number, flags = run[at], self._flags[run[at]]
            if flags & _ASKS and self._id[number] in done:
                tail = self._tail[number]
                kept = at if tail in (0, self._id[number]) else self._find(run, tail, range(at - 1, -1, -1))
                return self._with_tail(run[max(0, kept) :])
            if flags & _SUMS and flags & _FINISHED and not flags & _FAILED:
                done.add(self._parent[number])
        return self._with_tail(run)

    def _with_tail(self, run: Run[int]) -> Run[int]:
        """With the question and the summary in front of what the compaction keeps, which was said before."""
        asked = (at for at in reversed(range(len(run))) if self._flags[run[at]] & _ASKS and self._tail[run[at]])
        at = next(asked, None)
        if at is None:
            return run
        question = self._id[run[at]]
        summaries = (
            behind
            for behind in range(at + 1, len(run))
            if self._flags[run[behind]] & _SUMS and self._parent[run[behind]] == question
        )
        end, kept = next(summaries, -1) + 1, self._find(run, self._tail[run[at]], range(at))
        return run if end == 0 or kept < 0 else run[at:end] + run[kept:at] + run[end:]

    def _find(self, run: Run[int], message: int, places: Iterable[int]) -> int:
        """The first of some places at which a message stands; -1 where it does not."""
        return next((at for at in places if self._id[run[at]] == message), -1)

    def without_begun_compaction(self, run: Run[int]) -> Run[int]:
        """The messages without a compaction at their end that the program is busy with: all that was said still counts."""
        end = len(run)
        if end and self._flags[run[-1]] & (_SUMS | _FINISHED) == _SUMS:
            end -= 1
        return run[: end - 1] if end and self._flags[run[end - 1]] & _ASKS else run

    def compactions(self, run: Run[int]) -> list[int]:
        """How many messages stand before each compaction that has begun: the program may leave them out before it is
        done."""
        if not self._any & _ASKS:
            return []
        asked = {self._id[number]: at for at, number in enumerate(run) if self._flags[number] & _ASKS}
        summaries = (self._parent[number] for number in run if self._flags[number] & _SUMS)
        return [asked[parent] for parent in summaries if parent in asked]


class MessageTable:
    """Messages with their parts, changed one by one.

    Args:
        states: Where they are numbered.
    """

    def __init__(self, states: MessageStates) -> None:
        self._states = states
        self._notes = ScratchDatabase(_TABLES)
        self._encoder = msgspec.msgpack.Encoder()
        self._message, self._part = msgspec.msgpack.Decoder(RowMessage), msgspec.msgpack.Decoder(RowPart)

    def put(self, message: RowMessage, changed: int = 0) -> None:
        """Add a message, or change it; its parts stay. `changed`: when that was, in milliseconds since 1970."""
        self._notes.do(_PUT_MESSAGE, message.id, message.created, changed, self._encoder.encode(message))

    def put_part(self, message_id: str, part: RowPart, changed: int = 0) -> None:
        """Add a part to a message that is there, or change it."""
        body = self._encoder.encode(part)
        self._notes.do("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?)", message_id, part.id, changed, body)
        self._has_changed(message_id)

    def get(self, message_id: str) -> RowMessage | None:
        """A message that was put in."""
        body = self._notes.one("SELECT body FROM message WHERE id = ?", message_id)
        return None if body is None else self._message.decode(body)

    def part(self, message_id: str, part_id: str) -> RowPart | None:
        """A part that was put in."""
        body = self._notes.one("SELECT body FROM part WHERE message = ? AND id = ?", message_id, part_id)
        return None if body is None else self._part.decode(body)

    def parts(self, message_id: str) -> list[RowPart]:
        """The parts of a message in their order."""
        rows = self._notes.do("SELECT body FROM part WHERE message = ? ORDER BY id", message_id)
        return [self._part.decode(body) for (body,) in rows]

    def changed(self, message_id: str) -> int | None:
        """When a message was changed; None of one that is not there."""
        found: int | None = self._notes.one("SELECT changed FROM message WHERE id = ?", message_id)
        return found

    def part_changed(self, message_id: str, part_id: str) -> int | None:
        """When a part was changed; None of one that is not there."""
        query = "SELECT changed FROM part WHERE message = ? AND id = ?"
        found: int | None = self._notes.one(query, message_id, part_id)
        return found

    def doubt(self, message_id: str, part_id: str) -> None:
        """Note of a part that it is not known when it was changed."""
        self._notes.do("UPDATE part SET changed = -1 WHERE message = ? AND id = ?", message_id, part_id)

    def remove(self, message_id: str) -> None:
        """Take a message away, with its parts."""
        self._notes.do("DELETE FROM part WHERE message = ?", message_id)
        self._notes.do("DELETE FROM message WHERE id = ?", message_id)

    def remove_part(self, message_id: str, part_id: str) -> None:
        """Take away a part of a message."""
        self._notes.do("DELETE FROM part WHERE message = ? AND id = ?", message_id, part_id)
        self._has_changed(message_id)

    def _has_changed(self, message_id: str) -> None:
        self._notes.do("UPDATE message SET is_new = 1 WHERE id = ? AND NOT is_new", message_id)

    def ids(self) -> Iterator[str]:
        """The ids of all messages in their order. Nothing may be changed meanwhile."""
        return (name for (name,) in self._notes.do("SELECT id FROM message ORDER BY created, id"))

    def part_ids(self) -> Iterator[tuple[str, str]]:
        """The ids of all parts, behind those of their messages. Nothing may be changed meanwhile."""
        return iter(self._notes.do("SELECT message, id FROM part"))

    def count(self) -> int:
        """Number of messages."""
        return int(self._notes.one("SELECT count(*) FROM message"))

    def count_parts(self) -> int:
        """Number of parts."""
        return int(self._notes.one("SELECT count(*) FROM part"))

    # As they are now

    def number(self, message_id: str) -> int | None:
        """The number of a message as it is now; None of one that is not there."""
        self._settle()
        found: int | None = self._notes.one("SELECT number FROM message WHERE id = ? AND number >= 0", message_id)
        return found

    def run(self) -> Run[int]:
        """All messages as they are now."""
        self._settle()
        return self._numbers("SELECT number FROM message WHERE number >= 0 ORDER BY created, id")

    def run_before(self, message_id: str) -> Run[int]:
        """Messages with a lesser id, as they are now."""
        self._settle()
        query = "SELECT number FROM message WHERE number >= 0 AND id < ? ORDER BY created, id"
        return self._numbers(query, message_id)

    def run_until(self, place: tuple[int, str]) -> Run[int]:
        """Messages before a place in their order, which is a time and an id, as they are now."""
        self._settle()
        query = "SELECT number FROM message WHERE number >= 0 AND (created, id) < (?, ?) ORDER BY created, id"
        return self._numbers(query, *place)

    def first(self) -> tuple[int, str] | None:
        """The place of the first message in their order."""
        self._settle()
        query = "SELECT created, id FROM message WHERE number >= 0 ORDER BY created, id LIMIT 1"
        found: tuple[int, str] | None = self._notes.do(query).fetchone()
        return found

    def _numbers(self, query: str, *values: str | int) -> Run[int]:
        return array("i", (number for (number,) in self._notes.do(query, *values)))

    def _settle(self) -> None:
        """Number the messages that were changed."""
        query = "SELECT id, number, body FROM message WHERE is_new LIMIT ?"
        while rows := self._notes.do(query, AT_ONCE).fetchall():
            for message_id, before, body in rows:
                parts = self.parts(message_id)
                message = self._message.decode(body)
                is_known = bool(message.role or parts)
                number = self._states.add(message.with_author(parts), parts, before) if is_known else _NOBODY
                self._notes.do("UPDATE message SET number = ?, is_new = 0 WHERE id = ?", number, message_id)
            self._states.scratch.let_go()


def _fingerprint(text: str) -> int:
    """64 bits of a text, made with a key of this process; 0 of the empty one."""
    return hash(text) & _BITS
