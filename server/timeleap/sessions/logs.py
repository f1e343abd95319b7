"""The logs of one session, live and earlier: read page by page, at a point, and compared."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from math import floor
from typing import Final, Protocol

from msgspec import Struct

from timeleap.errors import (
    CheckpointNotFoundError,
    CorruptedError,
    InvalidInputError,
    StorageFailureError,
    TimelineNotFoundError,
)
from timeleap.sessions.past import find_line, has_uid, prompt_at, read_checkpoint
from timeleap.sessions.shapes import Checkpoint
from timeleap.storage.damage import damaged_before, new_damage
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import LogLines, LogState, RecordFlag, RecordKind, Row, Timeline
from timeleap.storage.reader import LogReader
from timeleap.storage.record import as_sent

PAGE_LINES: Final = 1024
PAGE_BYTES: Final = 1 << 20
_PAUSE: Final = 128  # messages compared between two reports


class Logs(Protocol):
    """The logs of one session; the earlier ones newest first. Looking raises TimelineNotFoundError,
    StorageFailureError."""

    def live(self) -> LogReader: ...

    def timelines(self) -> Sequence[Timeline]: ...

    def timeline(self, timeline_id: str) -> LogReader: ...


class OpenLogs:
    """The logs of an open session as they are now, to be read in another thread."""

    def __init__(self, engine: LogEngine) -> None:
        self._live = engine.view
        self._timelines = engine.timelines()
        self.timeline = engine.timeline

    def live(self) -> LogReader:
        return self._live

    def timelines(self) -> Sequence[Timeline]:
        return self._timelines


# Page by page: never more of a log in memory than a handful of pages


def fitting(reader: LogReader, start: int, stop: int, max_bytes: int) -> int:
    """Where to stop reading the lines `[start, stop)` to read at most `max_bytes`, or one line. Reads only the index:
    a page of large messages must not be read whole to be cut afterwards."""
    begin = begin_of(reader, start)
    if end_of(reader, stop - 1) - begin <= max_bytes:
        return stop
    lines = range(start, stop)
    return start + max(1, bisect_right(lines, begin + max_bytes, key=lambda line: end_of(reader, line)))


def blocks(reader: LogReader, start: int, stop: int, lost: list[CorruptedError] | None = None) -> Iterator[LogLines]:
    """The lines `[start, stop)`, some at a time. What is not what was written is left out and put on the list `lost`.

    Raises:
        CorruptedError: Without such a list.
    """
    while start < stop:
        end = fitting(reader, start, min(start + PAGE_LINES, stop), PAGE_BYTES)
        try:
            yield reader.lines(start, end)
        except CorruptedError:
            if lost is None:
                raise
            sound = [LogLines(end)]
            for line in range(start, end):
                try:
                    sound.append(reader.lines(line, line + 1))
                except CorruptedError as error:
                    lost.append(error)
            yield from sound  # not before `lost` is complete: its reader looks at it with each block
        start = end


def pages(reader: LogReader, start: int, stop: int, lost: list[CorruptedError] | None = None) -> Iterator[list[Row]]:
    """The messages of `blocks`; a page may be empty."""
    for block in blocks(reader, start, stop, lost):
        yield list(block.rows(RecordKind.MESSAGE))


def left_out(reader: LogReader, start: int, stop: int) -> list[str]:
    """The damaged lines of `[start, stop)`, which are left out of history, in words; at most 100."""
    return [
        f"line {damaged.line} at byte {damaged.offset} is left out: {damaged.message}"
        for damaged in reader.damage()
        if damaged.outside_history and start <= damaged.line < stop
    ]


def state_after_lines(reader: LogReader, lines: int) -> LogState:
    """The state after the first `lines` lines, its pending characters perhaps not counted; one look at the index."""
    return reader.entries(lines - 1, lines)[0].state if lines else LogState()


def era_of(head: str) -> str:
    """The part of a head that changes with a rewrite, but not with an append."""
    return head.rpartition(".")[0]


def line_of_message(reader: LogReader, index: int, stop: int) -> int:
    """The line of a message, or `stop` if the log ends before it."""
    return min(stop, reader.line_of_message(index)) if index < reader.state.messages else stop


def begin_of(reader: LogReader, line: int) -> int:
    """The byte at which a line begins."""
    return reader.entries(line, line + 1)[0].offset


def end_of(reader: LogReader, line: int) -> int:
    """The byte after a line."""
    entry = reader.entries(line, line + 1)[0]
    return entry.offset + entry.length


# At a point


class LogPoint(Struct, frozen=True):
    """A state of the context: before a checkpoint, at the end of a timeline, or (neither) at present."""

    checkpoint_uid: str | None = None
    timeline_id: str | None = None


class State(Struct, frozen=True, rename="camel"):
    """Counts and system prompt of a context at a point; in wire form by `msgspec.to_builtins`."""

    message_count: int
    checkpoint_count: int
    token_count: int
    system_prompt: str | None


class Stretch(Struct, frozen=True):
    """The first `lines` lines of a log.

    Attributes:
        timeline_id: None where it is the live one.
        damaged_before: The lines of a timeline that were damaged already when it was the live log.
    """

    log: LogReader
    lines: int
    timeline_id: str | None = None
    damaged_before: frozenset[int] = frozenset()

    @property
    def state(self) -> State:
        """Counts and system prompt after these lines."""
        end = state_after_lines(self.log, self.lines)
        return State(end.messages, end.checkpoints, end.token_count, prompt_at(self.log, end) if self.lines else None)


def stretch(logs: Logs, point: LogPoint) -> Stretch:
    """The log that leads up to a point. A checkpoint that is not in the live log any more is looked for in timelines.
    Raises TimelineNotFoundError, CheckpointNotFoundError, StorageFailureError."""
    if point.timeline_id is not None:
        log = logs.timeline(point.timeline_id)
        facts = (timeline.facts for timeline in logs.timelines() if timeline.timeline_id == point.timeline_id)
        return Stretch(log, log.state.lines, point.timeline_id, damaged_before(next(facts, None)))
    live, uid = logs.live(), point.checkpoint_uid
    if uid is None:
        return Stretch(live, live.state.lines)
    if has_uid(live, uid):
        return Stretch(live, find_line(live, None, uid))
    for timeline in logs.timelines():
        # What cannot be read does not keep the others from being looked at.
        with suppress(TimelineNotFoundError, CorruptedError, StorageFailureError):
            log = logs.timeline(timeline.timeline_id)
            if has_uid(log, uid):
                return Stretch(log, find_line(log, None, uid), timeline.timeline_id, damaged_before(timeline.facts))
    message = f"checkpoint {uid[:80]} is neither in the present log nor in a timeline"
    raise CheckpointNotFoundError(message, checkpointUid=uid[:200])


class PointInTime(Struct, frozen=True):
    """A moment of a context's past.

    Attributes:
        timeline_id: The earlier log that it is in; None if it is in the live one.
        checkpoint: The last checkpoint before it; None if there is none.
        following: The first checkpoint after it.
        state: What the context amounted to: with the message; or, for a time, at the end of the log if that was written
            by then, else at the checkpoint: more may have been there.
    """

    timeline_id: str | None
    checkpoint: Checkpoint | None
    following: Checkpoint | None
    state: State


def at_message(logs: Logs, index: int, timeline_id: str | None) -> PointInTime:
    """The moment right after a message was added. Raises InvalidInputError where the log has no such message."""
    log = logs.live() if timeline_id is None else logs.timeline(timeline_id)
    if index >= log.state.messages:
        raise InvalidInputError.of("index", f"there is no message {index}: the log has {log.state.messages}")
    line = log.line_of_message(index)
    return _moment(log, timeline_id, log.entries(line, line + 1)[0].state.checkpoints, line + 1)


def at_time(logs: Logs, time: str, timeline_id: str | None) -> PointInTime:
    """The moment a clock showed `time`, as nearly as checkpoints tell.

    A log that was set aside after that time was the live one then, or a beginning of it; the first of those counts.
    Without one it is the live log. Or look in the log `timeline_id` only.

    Raises:
        InvalidInputError: It is not ISO-8601 with its offset from UTC.
        TimelineNotFoundError, StorageFailureError, CorruptedError: The log is not there, or cannot be read.
    """
    wanted = parse_time(time, "time")
    if timeline_id is None:
        ends = ((noted_time(timeline.facts.created_at), timeline.timeline_id) for timeline in logs.timelines())
        later = [(set_aside, name) for set_aside, name in ends if set_aside is not None and set_aside > wanted]
        timeline_id = min(later, key=lambda end: end[0])[1] if later else None
    log = logs.live() if timeline_id is None else logs.timeline(timeline_id)
    passed = _passed(log, wanted)
    written = log.view.last_change()  # many clocks show milliseconds
    if (
        written is not None
        and wanted.timestamp() >= floor(written * 1000) / 1000
        and all(_time_of(log, ordinal) is None for ordinal in range(passed, log.state.checkpoints))
    ):  # all of it was written by then: nothing was since, and no checkpoint has a later time
        return _moment(log, timeline_id, log.state.checkpoints, log.state.lines)
    return _moment(log, timeline_id, passed, log.line_of_checkpoint(passed - 1) + 1 if passed else 0)


def parse_time(text: str, where: str) -> datetime:
    """A point in time from ISO-8601 text. Raises InvalidInputError, naming the field `where`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError.of(where, "a time is ISO-8601, such as 2026-11-20T09:30:00Z") from None
    if found.tzinfo is None:
        raise InvalidInputError.of(where, "a time needs its offset from UTC, such as Z")
    return found


def _moment(log: LogReader, timeline_id: str | None, passed: int, lines: int) -> PointInTime:
    """The moment after `lines` lines, `passed` checkpoints behind it."""
    last, following = (
        read_checkpoint(log, log.line_of_checkpoint(ordinal)) if 0 <= ordinal < log.state.checkpoints else None
        for ordinal in (passed - 1, passed)
    )
    return PointInTime(timeline_id, last, following, Stretch(log, lines, timeline_id).state)


def _passed(log: LogReader, wanted: datetime) -> int:
    """How many checkpoints had been written at a time. Those of the original program tell none: they count as written
    with the next one that does."""
    low, high = 0, log.state.checkpoints
    while low < high:
        middle = (low + high) // 2
        told, time = middle, None
        while time is None and told < high:
            time = _time_of(log, told)
            told += 1
        if time is not None and time <= wanted:
            low = told
        else:
            high = middle
    return low


def _time_of(log: LogReader, ordinal: int) -> datetime | None:
    return noted_time(read_checkpoint(log, log.line_of_checkpoint(ordinal), messages=0).created_at)


def noted_time(text: str | None) -> datetime | None:
    """A time that was noted in a file; None where none was, or it cannot be one."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


# Compared


def common_lines(reader: LogReader, other: LogReader, most: int) -> int:
    """How many lines, at most `most`, two logs begin with that are byte for byte the same. Reads only the indexes: the
    fingerprint of all bytes up to a line stands in its entry."""

    def differ(lines: int) -> bool:
        one, two = state_after_lines(reader, lines), state_after_lines(other, lines)
        # The messages, too: a line that one index condemns may count in the other log.
        return (one.chain, one.length, one.messages) != (two.chain, two.length, two.messages)

    return bisect_left(range(1, min(most, reader.state.lines, other.state.lines) + 1), True, key=differ)


def common_messages(stretch: Stretch, other: Stretch) -> Generator[tuple[int, int], None, int]:
    """How many messages both begin with. Pauses now and then with the messages compared and those in all.

    Where the bytes are the same, the indexes say so. From there on messages are compared one by one: other checkpoints,
    token counts, marks of ours or spacing between them do not make them differ.

    Raises:
        CorruptedError: What would have to be compared is damaged.
    """
    lines = common_lines(stretch.log, other.log, min(stretch.lines, other.lines))
    same = state_after_lines(stretch.log, lines).messages
    for side in (stretch, other):
        _refuse_damage(side, lines)
    total = min(stretch.state.message_count, other.state.message_count)
    for number, left, right in zip(count(same), _messages(stretch, same), _messages(other, same), strict=False):
        if left != right and _compact(left) != _compact(right):
            return number
        if number % _PAUSE == 0:
            yield number, total
    return total


def _messages(side: Stretch, index: int) -> Iterator[bytes]:
    """The messages of a side from one on, without our marks."""
    for page in pages(side.log, line_of_message(side.log, index, side.lines), side.lines):
        yield from (as_sent(row.body) if row.flags & RecordFlag.HAS_TL else row.body for row in page)


def _refuse_damage(side: Stretch, first: int) -> None:
    """A timeline that is not what was set aside would be compared with a hole in it. The live log is what it is."""
    if side.timeline_id is None:
        return
    for damaged in new_damage(side.log.damage(), side.damaged_before):
        if first <= damaged.line <= side.lines:
            message = f"the timeline {side.timeline_id} is damaged at byte {damaged.offset}: {damaged.message}"
            raise CorruptedError(message, timelineId=side.timeline_id, offset=damaged.offset)


def _compact(body: bytes) -> str | bytes:
    """The record whatever its spacing, numbers exact; itself where it cannot be parsed."""
    try:
        return json.dumps(json.loads(body), separators=(",", ":"))
    except (ValueError, RecursionError):
        return body
