"""context/diff and context/at: two states of a context side by side, and the state at a message or a time."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from timeleap.service import paging
from timeleap.sessions import shapes
from timeleap.sessions.logs import (
    LogPoint,
    Logs,
    OpenLogs,
    PointInTime,
    State,
    Stretch,
    at_message,
    at_time,
    common_messages,
    stretch,
)
from timeleap_protocol.limits import DEFAULT_PAGE_BYTES, MAX_PAGE

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.service.service import Service
    from timeleap.service.time_slicing import Work
    from timeleap.service.views import Json
    from timeleap_protocol.past import AtParams, DiffParams, DiffPoint


@dataclass(frozen=True, slots=True)
class DiffCursor:
    """Position at which a comparison continues: the messages of either side that were not shown yet."""

    session_id: str
    sides: tuple[LogPoint, LogPoint]
    lines: tuple[int, int]
    common: int
    removed: int
    added: int
    era: str


async def diff(service: Service, params: DiffParams, call: Call) -> Json:
    """Common and differing messages of two states."""
    session = service.session(call, params)
    head, logs = await session.at_turn(lambda: (session.head, OpenLogs(session.engine)))
    sides = (_point(params.from_), _point(params.to))
    left = None
    if params.cursor is not None:
        left = paging.decode_cursor(params.cursor, call.method, DiffCursor)
        if (left.session_id, left.sides) != (session.session_id, sides):
            raise paging.unknown_cursor()
        paging.check_era(left.era, head)
    begin = DiffCursor(session.session_id, sides, (-1, -1), 0, 0, 0, paging.era_of(head))
    limit, max_bytes = params.limit or MAX_PAGE, params.max_bytes or DEFAULT_PAGE_BYTES
    work = _compare(logs, left, begin, limit, max_bytes)
    page, rest = await service.slices.run(work, call.byte_progress("comparing"))
    return {**page, **shapes.set_members(nextCursor=rest and paging.encode_cursor(call.method, **asdict(rest)))}


def _compare(
    logs: Logs, left: DiffCursor | None, begin: DiffCursor, limit: int, max_bytes: int
) -> Work[tuple[Json, DiffCursor | None]]:
    base, other = (stretch(logs, point) for point in begin.sides)
    if left is None:
        common = yield from common_messages(base, other)
        left = replace(begin, lines=(base.lines, other.lines), common=common, removed=common, added=common)
    else:
        base, other = _as_long(base, left.lines[0]), _as_long(other, left.lines[1])
    before, after = base.state, other.state
    removed, left_of_base = _page(base, left.removed, left, limit, max_bytes)
    room = max_bytes - sum(len(bytes(each["message"])) for each in removed)
    more_room = left_of_base >= before.message_count and len(removed) < limit and room > 0
    added, left_of_other = _page(other, left.added, left, limit - len(removed), room) if more_room else ([], left.added)
    rest = None
    if left_of_base < before.message_count or left_of_other < after.message_count:
        rest = replace(left, removed=left_of_base, added=left_of_other)
    page = {
        "common": left.common,
        "removed": removed,
        "added": added,
        "removedCount": before.message_count - left.common,
        "addedCount": after.message_count - left.common,
        "tokens": {"from": before.token_count, "to": after.token_count},
        "state": {"from": _state(before), "to": _state(after)},
    }
    return page, rest


def _page(side: Stretch, start: int, left: DiffCursor, limit: int, max_bytes: int) -> tuple[list[Json], int]:
    """The next messages of one side, and where the rest begins."""
    stop = side.state.message_count
    span = paging.Span(left.session_id, start, stop, False, side.timeline_id, left.era)
    found, rest = paging.page(side.log, span, limit, max_bytes)
    return [{"index": message["index"], "message": message["message"]} for message in found], rest.start


def _as_long(side: Stretch, lines: int) -> Stretch:
    """The side as it was when the first page was asked for: a log only grows until it is rewritten."""
    if not 0 <= lines <= side.log.state.lines:
        raise paging.unknown_cursor()
    return replace(side, lines=lines)


async def at(service: Service, params: AtParams, call: Call) -> Json:
    """The checkpoint that led to a message or a time, and the state there."""
    session = service.session(call, params)
    logs = await session.at_turn(lambda: OpenLogs(session.engine))

    def look() -> PointInTime:
        if params.index is not None:
            return at_message(logs, params.index, params.timeline_id)
        return at_time(logs, params.time or "", params.timeline_id)

    found = await asyncio.to_thread(look)
    return {
        **shapes.set_members(timelineId=found.timeline_id),
        "checkpoint": shapes.checkpoint(found.checkpoint) if found.checkpoint else None,
        "nextCheckpoint": shapes.checkpoint(found.following) if found.following else None,
        "state": _state(found.state),
    }


def _point(point: DiffPoint) -> LogPoint:
    return LogPoint(point.checkpoint_uid, point.timeline_id)


def _state(state: State) -> Json:
    return {
        "messageCount": state.message_count,
        "checkpointCount": state.checkpoint_count,
        "tokenCount": state.token_count,
        "systemPrompt": state.system_prompt,
    }
