"""Revert, clear, restore, delivery of a D-Mail: another log in the place of the present one, which is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.service.mutation import guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.outcomes import RewriteOutcome
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
    number, uid, index, heal = params.checkpoint_id, params.checkpoint_uid, params.message_index, bool(params.heal)
    if params.dry_run:
        return await _dry_run(
            service,
            params,
            call,
            lambda session: session.plan_revert(
                checkpoint_id=number, checkpoint_uid=uid, message_index=index, heal=heal
            ),
        )
    session = service.session(call, params)
    call.say("rewriting the log")
    return await session.revert(
        checkpoint_id=number,
        checkpoint_uid=uid,
        message_index=index,
        heal=heal,
        guard=guard(params, call),
    )


async def undo(service: Service, params: UndoParams, call: Call) -> Json:
    """Bring back the log as it was before the last rewrites."""
    steps = params.steps or 1
    if params.dry_run:
        return await _dry_run(service, params, call, lambda session: session.plan_undo("undo", steps))
    session = service.session(call, params)
    call.say("rewriting the log")
    return await session.undo(steps, guard(params, call))


async def redo(service: Service, params: RedoParams, call: Call) -> Json:
    """Take back what was undone last."""
    steps = params.steps or 1
    if params.dry_run:
        return await _dry_run(service, params, call, lambda session: session.plan_undo("redo", steps))
    session = service.session(call, params)
    call.say("rewriting the log")
    return await session.redo(steps, guard(params, call))


async def clear(service: Service, params: ClearParams, call: Call) -> Json:
    """Start over with an empty log."""
    keep = params.keep_system_prompt is not False
    if params.dry_run:
        return await _dry_run(service, params, call, lambda session: session.plan_clear(keep))
    session = service.session(call, params)
    return await session.clear(keep, guard=guard(params, call))


async def restore_timeline(service: Service, params: RestoreTimelineParams, call: Call) -> Json:
    """Bring an earlier log back."""
    if params.dry_run:
        return await _dry_run(service, params, call, lambda session: session.plan_restore(params.timeline_id))
    session = service.session(call, params)
    call.say("rewriting the log")
    return await session.restore_timeline(params.timeline_id, guard=guard(params, call))


async def deliver_dmail(service: Service, params: DeliverDMailParams, call: Call) -> Json:
    """Go back to the note's checkpoint and find the note there."""
    if params.dry_run:
        return await _dry_run(service, params, call, lambda session: session.plan_deliver_dmail(bool(params.heal)))
    session = service.session(call, params)
    return await session.deliver_dmail(guard(params, call), heal=bool(params.heal))


async def _dry_run(
    service: Service, params: MutationParams, call: Call, plan: Callable[[Session], RewriteOutcome]
) -> Json:
    """Result of a dry run of a request, or its error: a dry run checks the expected head, too."""
    session = service.session(call, params)

    def at_its_turn() -> RewriteOutcome:
        session.expect_head(params.expected_head)
        return plan(session)

    return service.views.result(await session.at_turn(at_its_turn))
