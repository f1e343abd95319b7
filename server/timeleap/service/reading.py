"""Reading a context: pages of it, and its state at a time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from timeleap.rpc.codec import Pieces, encode
from timeleap.service import cursors, paging
from timeleap.service.cursors import Position
from timeleap.service.paging import Span
from timeleap.sessions.logs import (
    OpenLogs,
    PointInTime,
    at_message,
    at_time,
    era_of,
    fitting,
    line_of_message,
    state_after_lines,
)
from timeleap.sessions.past import find_line, told_checkpoints
from timeleap.sessions.shapes import set_members
from timeleap.storage.log_values import RecordKind
from timeleap.summaries.log_spans import spans_of_page
from timeleap_protocol.limits import DEFAULT_PAGE, DEFAULT_PAGE_BYTES

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.storage.log_values import Timeline
    from timeleap.storage.reader import LogReader
    from timeleap_protocol.structs.context import (
        GetHistoryParams,
        GetRecordsParams,
        ListCheckpointsParams,
        ListTimelinesParams,
        ListUsageParams,
    )
    from timeleap_protocol.structs.past import AtParams

T = TypeVar("T")
P = TypeVar("P", bound=Position)
Result = TypeVar("Result", "Json", "Pieces")


class _Role(Struct):
    role: str


_ROLE: Final = msgspec.json.Decoder(_Role)
"""Decoder of the role of a record that is JSON, or was made so by the engine (`LENIENT`)."""


def at_its_turn(
    answer: Callable[[Session, Any, Call], Result],
) -> Callable[[Service, Any, Call], Coroutine[Any, Any, Result]]:
    """A handler that answers when all earlier requests on the open session have taken effect."""

    @functools.wraps(answer)
    async def handler(service: Service, params: Any, call: Call) -> Result:
        session = service.session(call, params)
        return await session.at_turn(lambda: answer(session, params, call))

    return handler


def _continued(
    session: Session, params: GetHistoryParams | GetRecordsParams | ListCheckpointsParams, call: Call, kind: type[P]
) -> tuple[LogReader, P | None]:
    """The log that is asked for, and the position in it of a cursor. Raises as `position_of`; TimelineNotFoundError."""
    left = None if params.cursor is None else cursors.position_of(params.cursor, call.method, kind, session)
    timeline_id = params.timeline_id if left is None else left.timeline_id
    return session.engine if timeline_id is None else session.engine.timeline(timeline_id), left


@at_its_turn
def get_history(session: Session, params: GetHistoryParams, call: Call) -> Pieces:
    """A page of messages, cut out of the log as bytes."""
    reader, span = _continued(session, params, call, Span)
    if span is None:
        place, stretch = (session.session_id, params.timeline_id, era_of(session.head)), _asked_for(reader, params)
        span = Span(*place, *stretch, params.order == "desc", bool(params.include))
    limit, max_bytes = params.limit or DEFAULT_PAGE, params.max_bytes or DEFAULT_PAGE_BYTES
    if span.opaque:
        entries, left = paging.page_of_lines(reader, span, limit, max_bytes)
    else:
        found, left = paging.page(reader, span, limit, max_bytes)
        entries = found.entries
    following = left.cursor(call.method)
    end = b"}" if following is None else b',"nextCursor":%b}' % encode(following)
    return Pieces([b'{"messages":', *entries.pieces, end])


def _asked_for(reader: LogReader, params: GetHistoryParams) -> tuple[int, int]:
    """The messages that are asked for, as `(first, after the last)`; with opaque records the lines.

    A record belongs to the message before it; those before the first message to a range that begins at 0.
    """
    if params.checkpoint_uid is not None:
        span_of = _lines_of_checkpoint if params.include else messages_of_checkpoint
        return span_of(reader, params.checkpoint_uid)
    count = reader.state.messages
    start = min(params.from_ or 0, count)
    stop = max(start, count if params.to is None else min(params.to, count))
    if not params.include:
        return start, stop
    end = reader.state.lines
    return line_of_message(reader, start, end) if start else 0, line_of_message(reader, stop, end)


def _lines_of_checkpoint(reader: LogReader, uid: str) -> tuple[int, int]:
    """The line of a checkpoint, and that of the next one or the end."""
    line = find_line(reader, None, uid)
    after = reader.entries(line, line + 1)[0].state.checkpoints
    return line, reader.line_of_checkpoint(after) if after < reader.state.checkpoints else reader.state.lines


def messages_of_checkpoint(reader: LogReader, uid: str) -> tuple[int, int]:
    """The messages between a checkpoint and the next one, as `(first, after the last)`.

    Raises:
        CheckpointNotFoundError: The log has no such checkpoint.
    """
    first, after = (state_after_lines(reader, line).messages for line in _lines_of_checkpoint(reader, uid))
    return first, after


class RecordsLeft(Position, frozen=True):
    """Lines `[start, stop)` of a log that are still to be shown; of those the records of some `roles`."""

    start: int
    stop: int
    roles: list[str] | None


@at_its_turn
def get_records(session: Session, params: GetRecordsParams, call: Call) -> Json:
    """Lines of the log as they are: messages, control records and our own additions."""
    reader, left = _continued(session, params, call, RecordsLeft)
    if left is None:
        start = min(params.from_ or 0, reader.state.lines)
        stop = reader.state.lines if params.to is None else max(start, min(params.to, reader.state.lines))
        place = session.session_id, params.timeline_id, era_of(session.head)
        left = RecordsLeft(*place, start, stop, params.roles)
    if not 0 <= left.start <= left.stop <= reader.state.lines:
        raise cursors.unknown_cursor()
    stop = min(left.start + (params.limit or DEFAULT_PAGE), left.stop)
    if left.start < stop:
        stop = fitting(reader, left.start, stop, DEFAULT_PAGE_BYTES)
    records = [
        {"line": row.line, "record": msgspec.Raw(row.body)}
        for row in reader.rows(left.start, stop)
        if row.kind not in (RecordKind.BLANK, RecordKind.DAMAGED)
        and (left.roles is None or _ROLE.decode(row.body).role in left.roles)
    ]
    more = stop < left.stop
    cursor = cursors.encode_cursor(call.method, **asdict(replace(left, start=stop))) if more else None
    return {"records": records, **set_members(next=stop if more else None, nextCursor=cursor)}


class CheckpointsLeft(Position, frozen=True):
    """Position at which a listing of checkpoints continues: `done` of the `total` at its start."""

    done: int
    total: int
    newest_first: bool


@at_its_turn
def list_checkpoints(session: Session, params: ListCheckpointsParams, call: Call) -> Json:
    """Checkpoints, newest first unless asked otherwise."""
    reader, left = _continued(session, params, call, CheckpointsLeft)
    if left is None:
        place = session.session_id, params.timeline_id, era_of(session.head)
        left = CheckpointsLeft(*place, 0, reader.state.checkpoints, params.order != "asc")
    count = min(params.limit or DEFAULT_PAGE, left.total - left.done)
    start = left.total - left.done - 1 if left.newest_first else left.done
    count = spans_of_page(reader, start, count, left.newest_first)
    found = told_checkpoints(reader, start, count, left.newest_first)
    left = replace(left, done=left.done + count)
    cursor = cursors.encode_cursor(call.method, **asdict(left)) if left.done < left.total else None
    return {"checkpoints": [checkpoint.wire() for checkpoint in found], **set_members(nextCursor=cursor)}


@at_its_turn
def list_usage(session: Session, params: ListUsageParams, call: Call) -> Json:
    """The trail of token counts."""
    engine = session.engine
    lines, cursor = _listed(session, range(engine.state.usages), params, call)
    entries = [engine.entries(line, line + 1)[0] for line in map(engine.line_of_usage, lines)]
    usage = [{"index": entry.state.messages, "tokenCount": entry.value} for entry in entries]
    return {"usage": usage, **set_members(nextCursor=cursor)}


@at_its_turn
def list_timelines(session: Session, params: ListTimelinesParams, call: Call) -> Json:
    """Earlier logs, newest first."""
    timelines, cursor = _listed(session, session.engine.timelines(), params, call)
    return {"timelines": list(map(_timeline, timelines)), **set_members(nextCursor=cursor)}


def _timeline(timeline: Timeline) -> Json:
    """`Timeline` of the contract."""
    return {
        "timelineId": timeline.timeline_id,
        "file": timeline.file,
        "reason": timeline.facts.reason,
        "createdAt": timeline.facts.created_at,
        "bytes": timeline.bytes,
        "messageCount": timeline.messages,
        "checkpointCount": timeline.checkpoints,
    }


def _listed(
    session: Session, entries: Sequence[T], params: ListUsageParams | ListTimelinesParams, call: Call
) -> tuple[Sequence[T], str | None]:
    """A page of a simple listing, and the cursor of the next."""
    listing = f"{call.method} {session.session_id}"
    start = cursors.cursor_offset(params.cursor, listing)
    stop = min(start + (params.limit or DEFAULT_PAGE), len(entries))
    return entries[start:stop], cursors.cursor_after(stop, len(entries), listing)


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
        **set_members(timelineId=found.timeline_id),
        "checkpoint": found.checkpoint and found.checkpoint.wire(),
        "nextCheckpoint": found.following and found.following.wire(),
        "state": to_builtins(found.state),
    }
