"""session/prune, purge: timelines, and sessions in the trash, that go for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.errors import InvalidInputError
from timeleap.service.service import guard
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.logs import parse_time
from timeleap.sessions.shapes import Retention, set_members
from timeleap.store.home import Trashed
from timeleap.store.purging import PurgeOutcome, PurgeRequest

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap_protocol.structs.space import SessionPruneParams
    from timeleap_protocol.structs.trash import SessionPurgeParams

IN_USE = "another process is using it"


async def purge(service: Service, params: SessionPurgeParams, call: Call) -> Json:
    """Remove sessions from the trash for good."""
    if params.deleted_at is not None and params.session_id is None:
        text = "goes with sessionId"
        raise InvalidInputError(f"deletedAt: {text}", errors=[{"loc": ["deletedAt"], "msg": text, "type": "choice"}])
    request = PurgeRequest(params.session_id, params.deleted_at, params.older_than or 0)
    if params.dry_run:
        return _purged(await service.store.trash.plan_purge(request))
    return _purged(await service.store.trash.purge(request, guard(params, call)))


def _purged(outcome: PurgeOutcome) -> Json:
    def named(session: Trashed) -> Json:
        return {"sessionId": session.session_id, "deletedAt": session.deleted_at}

    return {
        "purged": [
            {**named(session), "bytes": session.bytes, **set_members(filesRemain=session.remains or None)}
            for session in outcome.purged
        ],
        "bytes": sum(session.bytes for session in outcome.purged),
        **set_members(
            kept=[{**named(session), "reason": IN_USE} for session in outcome.kept] or None,
            duplicate=outcome.duplicate or None,
        ),
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
    limits = None
    if unsaid:
        limits = usual
    elif named:
        limits = Retention(_or_unlimited(count), _or_unlimited(size))
    return PruneRequest(
        limits=limits,
        older_than=parse_time(params.older_than, "olderThan") if params.older_than is not None else None,
        timeline_ids=tuple(params.timeline_ids or ()),
        quarantine=bool(params.quarantine),
    )


def _or_unlimited(limit: int | None) -> int:
    return 1 << 62 if limit is None else limit
