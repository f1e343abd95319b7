"""Approvals, sub-agents, title: the state of a session outside its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.service.mutation import guard

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap_protocol.session import (
        SessionIsApprovedParams,
        SessionPutSubagentParams,
        SessionRemoveSubagentParams,
        SessionSetAfkParams,
        SessionSetAutoApproveParams,
        SessionSetTitleParams,
        SessionSetWorkspaceParams,
        SessionSetYoloParams,
    )


async def set_yolo(service: Service, params: SessionSetYoloParams, call: Call) -> Json:
    """Switch approval of everything on or off."""
    session = service.session(call, params)
    return await session.set_yolo(params.yolo, guard=guard(params, call))


async def set_auto_approve(service: Service, params: SessionSetAutoApproveParams, call: Call) -> Json:
    """Switch approval of one action on or off."""
    session = service.session(call, params)
    return await session.set_auto_approve(params.action, params.enabled, guard=guard(params, call))


async def set_afk(service: Service, params: SessionSetAfkParams, call: Call) -> Json:
    """Set whether the user is away, so that nobody can approve anything."""
    session = service.session(call, params)
    return await session.set_afk(params.afk, guard=guard(params, call))


async def is_approved(service: Service, params: SessionIsApprovedParams, call: Call) -> Json:
    """Tell whether an action may proceed without asking, and the reason."""
    session = service.session(call, params)
    approved, reason = await session.at_turn(lambda: session.is_approved(params.action))
    return {"approved": approved, "reason": reason}


async def put_subagent(service: Service, params: SessionPutSubagentParams, call: Call) -> Json:
    """Define a sub-agent, or replace it."""
    session = service.session(call, params)
    return await session.put_subagent(params.name, params.system_prompt, guard=guard(params, call))


async def remove_subagent(service: Service, params: SessionRemoveSubagentParams, call: Call) -> Json:
    """Forget a sub-agent."""
    session = service.session(call, params)
    return await session.remove_subagent(params.name, guard=guard(params, call))


async def set_title(service: Service, params: SessionSetTitleParams, call: Call) -> Json:
    """Give the session a title."""
    session = service.session(call, params)
    return await session.set_title(params.title, guard=guard(params, call))


async def set_workspace(service: Service, params: SessionSetWorkspaceParams, call: Call) -> Json:
    """Say which folder the session is about."""
    session = service.session(call, params)
    return await session.set_workspace(params.workspace, guard=guard(params, call))
