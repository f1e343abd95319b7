"""Revert, clear, restore, delivery of a D-Mail: another log in the place of the present one, which is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.service.mutation import guard

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.session import Session
    from timeleap_protocol.base import MutationParams
    from timeleap_protocol.context import (
        ClearParams,
        DeliverDMailParams,
        RedoParams,
        RestoreTimelineParams,
        RevertToParams,
        UndoParams,
    )


async def revert_to(service: Service, params: RevertToParams, call: Call) -> Json:
    """Remove a checkpoint and all after it."""
    return await _session(service, params, call).revert(
        checkpoint_id=params.checkpoint_id,
        checkpoint_uid=params.checkpoint_uid,
        message_index=params.message_index,
        heal=bool(params.heal),
        guard=guard(params, call),
        dry_run=bool(params.dry_run),
    )


async def undo(service: Service, params: UndoParams, call: Call) -> Json:
    """Bring back the log as it was before the last rewrites."""
    session = _session(service, params, call)
    return await session.undo(params.steps or 1, guard(params, call), dry_run=bool(params.dry_run))


async def redo(service: Service, params: RedoParams, call: Call) -> Json:
    """Take back what was undone last."""
    session = _session(service, params, call)
    return await session.redo(params.steps or 1, guard(params, call), dry_run=bool(params.dry_run))


async def clear(service: Service, params: ClearParams, call: Call) -> Json:
    """Start over with an empty log."""
    keep = params.keep_system_prompt is not False
    return await service.session(call, params).clear(keep, guard(params, call), dry_run=bool(params.dry_run))


async def restore_timeline(service: Service, params: RestoreTimelineParams, call: Call) -> Json:
    """Bring an earlier log back."""
    session = _session(service, params, call)
    return await session.restore_timeline(params.timeline_id, guard(params, call), dry_run=bool(params.dry_run))


async def deliver_dmail(service: Service, params: DeliverDMailParams, call: Call) -> Json:
    """Go back to the note's checkpoint and find the note there."""
    session = service.session(call, params)
    return await session.deliver_dmail(guard(params, call), heal=bool(params.heal), dry_run=bool(params.dry_run))


def _session(service: Service, params: MutationParams, call: Call) -> Session:
    """The session of a request that copies a log, which may take a while."""
    session = service.session(call, params)
    if not getattr(params, "dry_run", None):
        call.say("rewriting the log")
    return session
