"""The context at a message, or at a time: the checkpoint that led there, and the log it was in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor

from timeleap.errors import InvalidInputError
from timeleap.sessions.checkpoints import read_checkpoint
from timeleap.sessions.logs import Logs, State, Stretch
from timeleap.sessions.outcomes import Checkpoint
from timeleap.storage.engine import LogReader


@dataclass(frozen=True, slots=True)
class PointInTime:
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
    """The moment right after a message was added.

    Raises:
        InvalidInputError: The log has no such message.
        TimelineNotFoundError, StorageFailureError: There is no such log, or it cannot be read.
    """
    log = _log(logs, timeline_id)
    if index >= log.state.messages:
        raise _refused("index", f"there is no message {index}: the log has {log.state.messages}")
    line = log.line_of_message(index)
    passed = log.entries(line, line + 1)[0].state.checkpoints
    return _moment(log, timeline_id, passed, line + 1)


def at_time(logs: Logs, time: str, timeline_id: str | None) -> PointInTime:
    """The moment a clock showed `time`, as nearly as checkpoints tell.

    A log that was set aside after that time was the live one then, or a beginning of it; the first of those counts.
    Without one it is the live log.

    Args:
        logs: The logs.
        time: ISO-8601, with its offset from UTC.
        timeline_id: Look in this log only.

    Raises:
        InvalidInputError: It is no such time.
        TimelineNotFoundError, StorageFailureError, CorruptedError: The log is not there, or cannot be read.
    """
    wanted = parse_time(time, "time")
    if timeline_id is None:
        later = [timeline for timeline in logs.timelines() if _after(timeline.facts.created_at, wanted)]
        timeline_id = min(later, key=lambda timeline: _parsed(timeline.facts.created_at)).timeline_id if later else None
    log = _log(logs, timeline_id)
    passed = _passed(log, wanted)
    if _was_written(log, wanted, passed):
        return _moment(log, timeline_id, log.state.checkpoints, log.state.lines)
    return _moment(log, timeline_id, passed, log.line_of_checkpoint(passed - 1) + 1 if passed else 0)


def parse_time(text: str, where: str) -> datetime:
    """A point in time from ISO-8601 text. Raises InvalidInputError, naming the field `where`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise _refused(where, "a time is ISO-8601, such as 2026-11-20T09:30:00Z") from None
    if found.tzinfo is None:
        raise _refused(where, "a time needs its offset from UTC, such as Z")
    return found


def _log(logs: Logs, timeline_id: str | None) -> LogReader:
    return logs.live() if timeline_id is None else logs.timeline(timeline_id)


def _moment(log: LogReader, timeline_id: str | None, passed: int, lines: int) -> PointInTime:
    """The moment after `lines` lines, `passed` checkpoints behind it."""
    return PointInTime(
        timeline_id,
        _checkpoint(log, passed - 1),
        _checkpoint(log, passed),
        Stretch(log, lines, timeline_id).state,
    )


def _checkpoint(log: LogReader, ordinal: int) -> Checkpoint | None:
    if not 0 <= ordinal < log.state.checkpoints:
        return None
    return read_checkpoint(log, log.line_of_checkpoint(ordinal))


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


def _was_written(log: LogReader, wanted: datetime, passed: int) -> bool:
    """True if all of a log was written by a time: no checkpoint has a later one, and nothing was written since."""
    written = log.last_change()
    if written is None or wanted.timestamp() < floor(written * 1000) / 1000:  # many clocks show milliseconds
        return False
    return all(_time_of(log, ordinal) is None for ordinal in range(passed, log.state.checkpoints))


def _time_of(log: LogReader, ordinal: int) -> datetime | None:
    found = read_checkpoint(log, log.line_of_checkpoint(ordinal), messages=0).created_at
    return _parsed(found) if _is_time(found) else None


def _after(created_at: str, wanted: datetime) -> bool:
    return _is_time(created_at) and _parsed(created_at) > wanted


def _is_time(text: str | None) -> bool:
    try:
        return bool(text) and datetime.fromisoformat(str(text)) is not None
    except ValueError:
        return False


def _parsed(text: str | None) -> datetime:
    found = datetime.fromisoformat(str(text))
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _refused(where: str, message: str) -> InvalidInputError:
    return InvalidInputError(f"{where}: {message}", errors=[{"loc": [where], "msg": message, "type": where}])
