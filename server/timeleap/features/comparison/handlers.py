"""Two states of a context side by side: their common messages, and those that differ."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from timeleap.service import cursors, paging
from timeleap.service.paging import HistoryPage
from timeleap.sessions.logs import LogPoint, Logs, OpenLogs, Stretch, common_messages, era_of, stretch
from timeleap.sessions.shapes import set_members
from timeleap_protocol.limits import DEFAULT_PAGE_BYTES, MAX_PAGE

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.service.time_slices import Work
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.past import DiffParams, DiffPoint


class DiffCursor(Struct, frozen=True):
    """Position at which a comparison continues: the messages of either side that were not shown yet."""

    session_ids: tuple[str, str]
    sides: tuple[LogPoint, LogPoint]
    lines: tuple[int, int]
    common: int
    removed: int
    added: int
    eras: tuple[str, str]


async def diff(service: Service, params: DiffParams, call: Call) -> Json:
    """Common and differing messages of two states."""
    session = service.session(call, params)
    points = (params.from_, params.to)
    names = tuple(point.session_id or session.session_id for point in points)
    async with contextlib.AsyncExitStack() as others:
        found = {session.session_id: await session.at_turn(functools.partial(_seen, session))}
        for name in {*names} - {session.session_id}:
            other = await others.enter_async_context(service.store.borrowed(name, "read"))
            found[name] = await other.at_turn(functools.partial(_seen, other))
        heads, logs = zip(*(found[name] for name in names), strict=True)
        sides = (_point(points[0]), _point(points[1]))
        left = None
        if params.cursor is not None:
            left = cursors.decode_cursor(params.cursor, call.method, DiffCursor)
            if (left.session_ids, left.sides) != (names, sides):
                raise cursors.unknown_cursor()
            for era, head in zip(left.eras, heads, strict=True):
                cursors.check_era(era, head)
        eras = (era_of(heads[0]), era_of(heads[1]))
        begin = DiffCursor((names[0], names[1]), sides, (-1, -1), 0, 0, 0, eras)
        limit, max_bytes = params.limit or MAX_PAGE, params.max_bytes or DEFAULT_PAGE_BYTES
        work = _compare(logs, left, begin, limit, max_bytes)
        page, rest = await service.slices.run(work, call.byte_progress("comparing"))
    return {**page, **set_members(nextCursor=rest and cursors.encode_cursor(call.method, **asdict(rest)))}


def _seen(session: Session) -> tuple[str, Logs]:
    return session.head, OpenLogs(session.engine)


def _compare(
    logs: Sequence[Logs], left: DiffCursor | None, begin: DiffCursor, limit: int, max_bytes: int
) -> Work[tuple[Json, DiffCursor | None]]:
    base, other = (stretch(*each) for each in zip(logs, begin.sides, strict=True))
    if left is None:
        common = yield from common_messages(base, other)
        left = replace(begin, lines=(base.lines, other.lines), common=common, removed=common, added=common)
    else:
        base, other = _as_long(base, left.lines[0]), _as_long(other, left.lines[1])
    before, after = base.state, other.state
    removed, left_of_base = _page(base, left.removed, left, limit, max_bytes)
    room = max_bytes - removed.size
    more_room = left_of_base >= before.message_count and removed.messages < limit and room > 0
    added, left_of_other = HistoryPage(), left.added
    if more_room:
        added, left_of_other = _page(other, left.added, left, limit - removed.messages, room)
    rest = None
    if left_of_base < before.message_count or left_of_other < after.message_count:
        rest = replace(left, removed=left_of_base, added=left_of_other)
    page = {
        "common": left.common,
        "removed": removed.entries,
        "added": added.entries,
        "removedCount": before.message_count - left.common,
        "addedCount": after.message_count - left.common,
        "tokens": {"from": before.token_count, "to": after.token_count},
        "state": {"from": to_builtins(before), "to": to_builtins(after)},
    }
    return page, rest


def _page(side: Stretch, start: int, left: DiffCursor, limit: int, max_bytes: int) -> tuple[HistoryPage, int]:
    """The next messages of one side, and where the rest begins."""
    stop = side.state.message_count
    span = paging.Span(left.session_ids[0], side.timeline_id, left.eras[0], start, stop, False)
    found, rest = paging.page(side.log, span, limit, max_bytes, meta=False)
    return found, rest.start


def _as_long(side: Stretch, lines: int) -> Stretch:
    """The side as it was when the first page was asked for: a log only grows until it is rewritten."""
    if not 0 <= lines <= side.log.state.lines:
        raise cursors.unknown_cursor()
    return replace(side, lines=lines)


def _point(point: DiffPoint) -> LogPoint:
    return LogPoint(point.checkpoint_uid, point.timeline_id)
