"""Pages of history, records, checkpoints, usage and timelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from timeleap.service import cursors, paging, views
from timeleap.service.paging import Span
from timeleap.service.registry import handles
from timeleap.storage.engine import RecordKind

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
    messages, left = paging.page(reader, span, params.limit, params.max_bytes)
    cursor = None if left is None else left.cursor(paging.era_of(session.head))
    return {"messages": messages, **views.set_members(nextCursor=cursor)}


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
    return Span(start, max(start, stop), params.order == "desc", params.timeline_id)


@handles("context/getRecords")
async def get_records(service: Service, params: GetRecordsParams, call: Call) -> Json:
    """Lines of the log as they are: messages, control records and our own additions."""
    session = service.session(call, params.session_id)
    reader = reader_of(session, params.timeline_id)
    start = min(params.from_ or 0, reader.state.lines)
    stop = min(start + params.limit, reader.state.lines)
    records = [
        {"line": row.line, "record": msgspec.Raw(row.body)}
        for row in reader.rows(start, stop)
        if row.kind not in (RecordKind.BLANK, RecordKind.DAMAGED)
    ]
    following = stop if stop < reader.state.lines else None
    return {"records": records, **views.set_members(next=following)}


@handles("context/listCheckpoints")
async def list_checkpoints(service: Service, params: ListCheckpointsParams, call: Call) -> Json:
    """Checkpoints, newest first unless asked otherwise."""
    session = service.session(call, params.session_id)
    era = paging.era_of(session.head)
    if params.cursor is None:
        total = reader_of(session, params.timeline_id).state.checkpoints
        left = {"next": 0, "total": total, "desc": params.order != "asc", "timeline": params.timeline_id, "era": era}
    else:
        left = cursors.decode(params.cursor, CHECKPOINTS)
        if left["timeline"] is None:
            paging.check_era(left, session.head)
    done, total, newest_first = left["next"], left["total"], left["desc"]
    count = min(params.limit, total - done)
    first = total - done - count if newest_first else done
    found = session.checkpoints(reader_of(session, left["timeline"]), first, count, newest_first)
    left["next"] = done + count
    cursor = cursors.encode(CHECKPOINTS, **left) if left["next"] < total else None
    return {"checkpoints": [views.checkpoint(one) for one in found], **views.set_members(nextCursor=cursor)}


@handles("context/listUsage")
async def list_usage(service: Service, params: ListUsageParams, call: Call) -> Json:
    """The trail of token counts."""
    engine = service.session(call, params.session_id).engine
    start = cursors.offset(params.cursor, "context/listUsage")
    stop = min(start + params.limit, engine.state.usages)
    usage = []
    for ordinal in range(start, stop):
        line = engine.line_of_usage(ordinal)
        entry = engine.entries(line, line + 1)[0]
        usage.append({"index": entry.state.messages, "tokenCount": entry.value})
    cursor = cursors.encode("context/listUsage", next=stop) if stop < engine.state.usages else None
    return {"usage": usage, **views.set_members(nextCursor=cursor)}


@handles("context/listTimelines")
async def list_timelines(service: Service, params: ListTimelinesParams, call: Call) -> Json:
    """Earlier logs, newest first."""
    every = service.session(call, params.session_id).engine.timelines()
    start = cursors.offset(params.cursor, "context/listTimelines")
    stop = min(start + params.limit, len(every))
    cursor = cursors.encode("context/listTimelines", next=stop) if stop < len(every) else None
    return {"timelines": [views.timeline(one) for one in every[start:stop]], **views.set_members(nextCursor=cursor)}
