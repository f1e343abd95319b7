"""The logs of one session, live and earlier, for those who look through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from timeleap.errors import CheckpointNotFoundError, CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.sessions.checkpoints import find_line, has_uid
from timeleap.sessions.summary import prompt_at
from timeleap.storage.engine import LogEngine, LogReader, Timeline, damaged_before


class Logs(Protocol):
    """The logs of one session."""

    def live(self) -> LogReader:
        """The live log. Raises StorageFailureError."""
        ...

    def timelines(self) -> Sequence[Timeline]:
        """The earlier logs, newest first. Raises StorageFailureError."""
        ...

    def timeline(self, timeline_id: str) -> LogReader:
        """An earlier log. Raises TimelineNotFoundError, StorageFailureError."""
        ...


class OpenLogs:
    """The logs of an open session as they are now, to be read in another thread."""

    def __init__(self, engine: LogEngine) -> None:
        self._engine = engine
        self._live = engine.view
        self._timelines = engine.timelines()

    def live(self) -> LogReader:
        """The live log."""
        return self._live

    def timelines(self) -> Sequence[Timeline]:
        """The earlier ones."""
        return self._timelines

    def timeline(self, timeline_id: str) -> LogReader:
        """An earlier one."""
        return self._engine.timeline(timeline_id)


@dataclass(frozen=True, slots=True)
class LogPoint:
    """A state of the context: before a checkpoint, at the end of a timeline, or (neither) at present."""

    checkpoint_uid: str | None = None
    timeline_id: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Counts and system prompt of a context at a point."""

    message_count: int
    checkpoint_count: int
    token_count: int
    system_prompt: str | None


@dataclass(frozen=True, slots=True)
class Stretch:
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
        end = self.log.entries(self.lines - 1, self.lines)[0].state if self.lines else None
        if end is None:
            return State(0, 0, 0, None)
        return State(end.messages, end.checkpoints, end.token_count, prompt_at(self.log, end))


def stretch(logs: Logs, point: LogPoint) -> Stretch:
    """The log that leads up to a point. A checkpoint that is not in the live log any more is looked for in timelines.

    Raises:
        TimelineNotFoundError, CheckpointNotFoundError: There is no such point.
        StorageFailureError: Its log cannot be read.
    """
    if point.timeline_id is not None:
        log = logs.timeline(point.timeline_id)
        facts = next(
            (timeline.facts for timeline in logs.timelines() if timeline.timeline_id == point.timeline_id), None
        )
        return Stretch(log, log.state.lines, point.timeline_id, damaged_before(facts))
    live = logs.live()
    if point.checkpoint_uid is None:
        return Stretch(live, live.state.lines)
    if has_uid(live, point.checkpoint_uid):
        return Stretch(live, find_line(live, None, point.checkpoint_uid))
    return _in_a_timeline(logs, point.checkpoint_uid)


def _in_a_timeline(logs: Logs, uid: str) -> Stretch:
    for timeline in logs.timelines():
        try:
            log = logs.timeline(timeline.timeline_id)
            if has_uid(log, uid):
                return Stretch(log, find_line(log, None, uid), timeline.timeline_id, damaged_before(timeline.facts))
        except (TimelineNotFoundError, CorruptedError, StorageFailureError):
            continue  # what cannot be read does not keep the others from being looked at
    message = f"checkpoint {uid[:80]} is neither in the present log nor in a timeline"
    raise CheckpointNotFoundError(message, checkpointUid=uid[:200])
