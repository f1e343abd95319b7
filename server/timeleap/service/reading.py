"""Pages of history, records, checkpoints, usage and timelines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from timeleap.service import paging, views
from timeleap.service.paging import Span
from timeleap.sessions import shapes
from timeleap.sessions.checkpoints import find_line
from timeleap.sessions.checkpoints import list_checkpoints as list_checkpoints_of
from timeleap.sessions.logs import fitting
from timeleap.storage.engine import RecordKind
from timeleap_protocol.limits import DEFAULT_PAGE, DEFAULT_PAGE_BYTES

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.outcomes import Checkpoint
    from timeleap.sessions.session import Session
    from timeleap.storage.engine import LogReader
    from timeleap_protocol.context import (
        GetHistoryParams,
        GetRecordsParams,
        ListCheckpointsParams,
        ListTimelinesParams,
        ListUsageParams,
    )


def reader_of(session: Session, timeline_id: str | None) -> LogReader:
    """The live log, or a timeline's. Raises TimelineNotFoundError."""
    return session.engine if timeline_id is None else session.engine.timeline(timeline_id)


async def get_history(service: Service, params: GetHistoryParams, call: Call) -> Json:
    """A page of messages, cut out of the log as bytes."""
    session = service.session(call, params)

    def page() -> Json:
        span = _span(session, params, call)
        limit, max_bytes = params.limit or DEFAULT_PAGE, params.max_bytes or DEFAULT_PAGE_BYTES
        messages, left = paging.page(reader_of(session, span.timeline_id), span, limit, max_bytes)
        return {"messages": messages, **shapes.set_members(nextCursor=left.cursor(call.method))}

    return await session.at_turn(page)


def _span(session: Session, params: GetHistoryParams, call: Call) -> Span:
    if params.cursor is not None:
        return paging.span_of_cursor(params.cursor, call.method, session.session_id, session.head)
    reader = reader_of(session, params.timeline_id)
    count = reader.state.messages
    if params.checkpoint_uid is not None:
        start, stop = messages_of_checkpoint(reader, params.checkpoint_uid)
    else:
        start = min(params.from_ or 0, count)
        stop = count if params.to is None else min(params.to, count)
    newest_first = params.order == "desc"
    return Span(
        session.session_id, start, max(start, stop), newest_first, params.timeline_id, paging.era_of(session.head)
    )


def messages_of_checkpoint(reader: LogReader, uid: str) -> tuple[int, int]:
    """The messages between a checkpoint and the next one, as `(first, after the last)`.

    Raises:
        CheckpointNotFoundError: The log has no such checkpoint.
    """
    line = find_line(reader, None, uid)
    state = reader.entries(line, line + 1)[0].state
    if state.checkpoints == reader.state.checkpoints:
        return state.messages, reader.state.messages
    following = reader.line_of_checkpoint(state.checkpoints)
    return state.messages, reader.entries(following, following + 1)[0].state.messages


async def get_records(service: Service, params: GetRecordsParams, call: Call) -> Json:
    """Lines of the log as they are: messages, control records and our own additions."""
    session = service.session(call, params)

    def page() -> Json:
        reader = reader_of(session, params.timeline_id)
        lines = reader.state.lines
        start = min(params.from_ or 0, lines)
        stop = min(start + (params.limit or DEFAULT_PAGE), lines)
        if start < stop:
            stop = fitting(reader, start, stop, DEFAULT_PAGE_BYTES)
        records = [
            {"line": row.line, "record": msgspec.Raw(row.body)}
            for row in reader.rows(start, stop)
            if row.kind not in (RecordKind.BLANK, RecordKind.DAMAGED)
        ]
        return {"records": records, **shapes.set_members(next=stop if stop < lines else None)}

    return await session.at_turn(page)


@dataclass(frozen=True, slots=True)
class CheckpointsLeft:
    """Position at which a listing of checkpoints continues: `done` of the `total` at its start."""

    session_id: str
    done: int
    total: int
    newest_first: bool
    timeline_id: str | None
    era: str

    def page(self, reader: LogReader, limit: int) -> tuple[list[Checkpoint], CheckpointsLeft]:
        """The next checkpoints, and what is left then."""
        count = min(limit, self.total - self.done)
        start = self.total - self.done - 1 if self.newest_first else self.done
        found = list_checkpoints_of(reader, start, count, self.newest_first)
        return found, replace(self, done=self.done + count)


async def list_checkpoints(service: Service, params: ListCheckpointsParams, call: Call) -> Json:
    """Checkpoints, newest first unless asked otherwise."""
    session = service.session(call, params)

    def page() -> Json:
        left = _checkpoints_left(session, params, call)
        found, left = left.page(reader_of(session, left.timeline_id), params.limit or DEFAULT_PAGE)
        cursor = paging.encode_cursor(call.method, **asdict(left)) if left.done < left.total else None
        return {"checkpoints": list(map(shapes.checkpoint, found)), **shapes.set_members(nextCursor=cursor)}

    return await session.at_turn(page)


def _checkpoints_left(session: Session, params: ListCheckpointsParams, call: Call) -> CheckpointsLeft:
    era = paging.era_of(session.head)
    if params.cursor is None:
        total = reader_of(session, params.timeline_id).state.checkpoints
        return CheckpointsLeft(session.session_id, 0, total, params.order != "asc", params.timeline_id, era)
    left = paging.decode_cursor(params.cursor, call.method, CheckpointsLeft)
    if left.session_id != session.session_id:
        raise paging.unknown_cursor()
    if left.timeline_id is None:
        paging.check_era(left.era, session.head)
    return left


async def list_usage(service: Service, params: ListUsageParams, call: Call) -> Json:
    """The trail of token counts."""
    session = service.session(call, params)

    def page() -> Json:
        engine = session.engine
        listing = f"{call.method} {session.session_id}"
        start = paging.cursor_offset(params.cursor, listing)
        stop = min(start + (params.limit or DEFAULT_PAGE), engine.state.usages)
        usage = [_usage(engine, engine.line_of_usage(ordinal)) for ordinal in range(start, stop)]
        cursor = paging.cursor_after(stop, engine.state.usages, listing)
        return {"usage": usage, **shapes.set_members(nextCursor=cursor)}

    return await session.at_turn(page)


def _usage(reader: LogReader, line: int) -> Json:
    entry = reader.entries(line, line + 1)[0]
    return {"index": entry.state.messages, "tokenCount": entry.value}


async def list_timelines(service: Service, params: ListTimelinesParams, call: Call) -> Json:
    """Earlier logs, newest first."""
    session = service.session(call, params)

    def page() -> Json:
        every = session.engine.timelines()
        listing = f"{call.method} {session.session_id}"
        start = paging.cursor_offset(params.cursor, listing)
        stop = min(start + (params.limit or DEFAULT_PAGE), len(every))
        cursor = paging.cursor_after(stop, len(every), listing)
        return {"timelines": list(map(views.timeline, every[start:stop])), **shapes.set_members(nextCursor=cursor)}

    return await session.at_turn(page)
