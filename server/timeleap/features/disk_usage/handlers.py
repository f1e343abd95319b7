"""session/storage and session/prune: what takes space, and freeing it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timeleap.features.disk_usage.disk_usage import Space, measure, measure_store
from timeleap.service import paging
from timeleap.service.mutation import guard
from timeleap.sessions import shapes
from timeleap.sessions.outcomes import Retention
from timeleap.sessions.point_in_time import parse_time
from timeleap.sessions.pruning import PruneRequest
from timeleap_protocol.limits import DEFAULT_SESSION_PAGE, MAX_PAGE

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap_protocol.space import SessionPruneParams, SessionStorageParams


async def storage(service: Service, params: SessionStorageParams, call: Call) -> Json:
    """Disk usage of the store, or of one session."""
    if params.session_id is not None:
        if held := service.if_held(call, params.session_id):
            await held.session.catch_its_turn()
        space = await asyncio.to_thread(measure, params.session_id, service.store.locate(params.session_id))
        return {"totalBytes": space.bytes, "trashBytes": 0, "sessions": [_space(space, files=True)]}
    every = await asyncio.to_thread(measure_store, service.store.home)
    start = paging.cursor_offset(params.cursor, call.method)
    stop = min(start + (params.limit or DEFAULT_SESSION_PAGE), len(every))
    return {
        "totalBytes": sum(space.bytes for space in every),
        "trashBytes": sum(space.bytes for space in every if space.deleted_at is not None),
        "sessions": [_space(space) for space in every[start:stop]],
        **shapes.set_members(nextCursor=paging.cursor_after(stop, len(every), call.method)),
    }


def _space(space: Space, *, files: bool = False) -> Json:
    listed = [{"file": each.name, "kind": each.kind, "bytes": each.bytes} for each in space.files[:MAX_PAGE]]
    return {
        "sessionId": space.session_id,
        **shapes.set_members(deletedAt=space.deleted_at),
        "bytes": space.bytes,
        "logBytes": space.bytes_of("log"),
        "timelineBytes": space.bytes_of("timeline"),
        "timelineCount": space.number_of("timeline"),
        "indexBytes": space.bytes_of("index"),
        "quarantineBytes": space.bytes_of("quarantine"),
        "otherBytes": space.bytes_of("other"),
        **shapes.set_members(files=listed if files else None),
    }


async def prune(service: Service, params: SessionPruneParams, call: Call) -> Json:
    """Remove timelines for good."""
    selection = _selection(service, params)
    async with service.borrowed(call, params) as session:
        return await session.prune(selection, guard(params, call), dry_run=bool(params.dry_run))


def _selection(service: Service, params: SessionPruneParams) -> PruneRequest:
    """Timelines to remove; by default those beyond the limits of the configuration."""
    usual = service.config.retention
    count, size = params.max_timelines, params.max_timeline_bytes
    named = count is not None or size is not None
    unsaid = not (named or params.older_than or params.timeline_ids or params.quarantine)
    limits = Retention(
        usual.max_timelines if unsaid else 1 << 62 if count is None else count,
        usual.max_timeline_bytes if unsaid else 1 << 62 if size is None else size,
    )
    return PruneRequest(
        limits=limits if named or unsaid else None,
        older_than=parse_time(params.older_than, "olderThan") if params.older_than is not None else None,
        timeline_ids=tuple(params.timeline_ids or ()),
        quarantine=bool(params.quarantine),
    )
