"""Pages of history, records, checkpoints, usage and timelines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from timeleap.service import cursors, paging, views
from timeleap.service.paging import Span
from timeleap.service.registry import handles
from timeleap.storage.engine import RecordKind
from timeleap_protocol.limits import DEFAULT_PAGE, DEFAULT_PAGE_BYTES

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.session import Session
    from timeleap.storage.engine import LogReader
    from timeleap_protocol.context import (
        GetHistoryParams,
        GetRecordsParams,
        ListCheckpointsParams,
        ListTimelinesParams,
        ListUsageParams,
    )


CHECKPOINTS = "context/listCheckpoints"


def reader_of(session: Session, timeline_id: str | None) -> LogReader:
    """The live log, or a timeline's. Raises TimelineNotFoundError."""
    return session.engine if timeline_id is None else session.engine.timeline(timeline_id)


@handles("context/getHistory")
async def get_history(service: Service, params: GetHistoryParams, call: Call) -> Json:
    """A page of messages, cut out of the log as bytes."""
    session = service.session(call, params.session_id)
    span = _span(session, params)
    reader = reader_of(session, span.timeline_id)
    messages, left = paging.page(reader, span, params.limit or DEFAULT_PAGE, params.max_bytes or DEFAULT_PAGE_BYTES)
    return {"messages": messages, **views.set_members(nextCursor=left.cursor)}


def _span(session: Session, params: Any) -> Span:
    if params.cursor is not None:
        return paging.span_of_cursor(params.cursor, session.head)
    reader = reader_of(session, params.timeline_id)
    count = reader.state.messages
    start, stop = 0, count
    if params.checkpoint_uid is not None:
        start, stop = session.messages_of_checkpoint(reader, params.checkpoint_uid)
    elif params.from_ is not None or params.to is not None:
        start = min(params.from_ or 0, count)
        stop = count if params.to is None else min(params.to, count)
    return Span(start, max(start, stop), params.order == "desc", params.timeline_id, paging.era_of(session.head))


@handles("context/getRecords")
async def get_records(service: Service, params: GetRecordsParams, call: Call) -> Json:
    """Lines of the log as they are: messages, control records and our own additions."""
    session = service.session(call, params.session_id)
    reader = reader_of(session, params.timeline_id)
    start = min(params.from_ or 0, reader.state.lines)
    stop = min(start + (params.limit or DEFAULT_PAGE), reader.state.lines)
    records = [
        {"line": row.line, "record": msgspec.Raw(row.body)}
        for row in reader.rows(start, stop)
        if row.kind not in (RecordKind.BLANK, RecordKind.DAMAGED)
    ]
    following = stop if stop < reader.state.lines else None
    return {"records": records, **views.set_members(next=following)}


@dataclass(frozen=True, slots=True)
class _CheckpointsLeft:
    """Where a listing of checkpoints goes on: `done` of the `total` there were at its start."""

    done: int
    total: int
    newest_first: bool
    timeline_id: str | None
    era: str


@handles("context/listCheckpoints")
async def list_checkpoints(service: Service, params: ListCheckpointsParams, call: Call) -> Json:
    """Checkpoints, newest first unless asked otherwise."""
    session = service.session(call, params.session_id)
    left = _checkpoints_left(session, params)
    count = min(params.limit or DEFAULT_PAGE, left.total - left.done)
    first = left.total - left.done - count if left.newest_first else left.done
    found = session.checkpoints(reader_of(session, left.timeline_id), first, count, left.newest_first)
    left = replace(left, done=left.done + count)
    cursor = cursors.encode(CHECKPOINTS, **asdict(left)) if left.done < left.total else None
    return {"checkpoints": [views.checkpoint(one) for one in found], **views.set_members(nextCursor=cursor)}


def _checkpoints_left(session: Session, params: ListCheckpointsParams) -> _CheckpointsLeft:
    era = paging.era_of(session.head)
    if params.cursor is None:
        total = reader_of(session, params.timeline_id).state.checkpoints
        return _CheckpointsLeft(0, total, params.order != "asc", params.timeline_id, era)
    left = cursors.decode_as(params.cursor, CHECKPOINTS, _CheckpointsLeft)
    if left.timeline_id is None:
        paging.check_era(left.era, session.head)
    return left


@handles("context/listUsage")
async def list_usage(service: Service, params: ListUsageParams, call: Call) -> Json:
    """The trail of token counts."""
    engine = service.session(call, params.session_id).engine
    start = cursors.offset(params.cursor, "context/listUsage")
    stop = min(start + (params.limit or DEFAULT_PAGE), engine.state.usages)
    usage = []
    for ordinal in range(start, stop):
        line = engine.line_of_usage(ordinal)
        entry = engine.entries(line, line + 1)[0]
        usage.append({"index": entry.state.messages, "tokenCount": entry.value})
    cursor = cursors.after(stop, engine.state.usages, "context/listUsage")
    return {"usage": usage, **views.set_members(nextCursor=cursor)}


@handles("context/listTimelines")
async def list_timelines(service: Service, params: ListTimelinesParams, call: Call) -> Json:
    """Earlier logs, newest first."""
    every = service.session(call, params.session_id).engine.timelines()
    start = cursors.offset(params.cursor, "context/listTimelines")
    stop = min(start + (params.limit or DEFAULT_PAGE), len(every))
    cursor = cursors.after(stop, len(every), "context/listTimelines")
    return {"timelines": [views.timeline(one) for one in every[start:stop]], **views.set_members(nextCursor=cursor)}
