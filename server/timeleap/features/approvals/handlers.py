"""Handlers of standing approvals and of approval/*: a program asks, any window that may write to the session answers.

A request waits here, in its own task: neither its connection nor the session waits with it.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

from timeleap.call import to_its_end
from timeleap.errors import ApprovalTimeoutError, CancelledError, SessionNotOpenError, TooLargeError
from timeleap.features.approvals import switches
from timeleap.features.approvals.questions import ApprovalQuestion
from timeleap.features.approvals.switches import asked_in
from timeleap.service.reading import at_its_turn
from timeleap.service.service import guard
from timeleap.sessions.shapes import Cause
from timeleap_protocol.limits import DEFAULT_APPROVAL_TIMEOUT, MAX_APPROVAL_DETAIL_BYTES

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.connections import OpenHandle
    from timeleap.service.service import Service
    from timeleap.sessions.participants import Answer
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.approval import ApprovalListParams, ApprovalRequestParams, ApprovalRespondParams
    from timeleap_protocol.structs.session import (
        SessionIsApprovedParams,
        SessionSetAfkParams,
        SessionSetAutoApproveParams,
        SessionSetYoloParams,
    )


@at_its_turn
def is_approved(session: Session, params: SessionIsApprovedParams, _: Call) -> Json:
    """Tell whether an action may proceed without asking, and the reason."""
    approved, reason = switches.is_approved(session, params.action)
    return {"approved": approved, "reason": reason}


async def set_yolo(service: Service, params: SessionSetYoloParams, call: Call) -> Json:
    """Switch the approval of everything on or off."""
    async with service.borrowed(call, params) as session:
        return await switches.set_yolo(session, params.yolo, guard(params, call))


async def set_auto_approve(service: Service, params: SessionSetAutoApproveParams, call: Call) -> Json:
    """Switch the approval of one action on or off."""
    async with service.borrowed(call, params) as session:
        return await switches.set_auto_approve(session, params.action, params.enabled, guard(params, call))


async def set_afk(service: Service, params: SessionSetAfkParams, call: Call) -> Json:
    """Note that nobody is there to approve anything, or that somebody is."""
    async with service.borrowed(call, params) as session:
        return await switches.set_afk(session, params.afk, guard(params, call))


async def request_approval(service: Service, params: ApprovalRequestParams, call: Call) -> Json:
    """Ask for an approval and wait for the decision."""
    session = service.session(call, params)
    held = service.held(call, params.session_id)
    if params.detail is not None:  # it is sent to every window
        text = json.dumps(params.detail, ensure_ascii=False, separators=(",", ":"))
        if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_APPROVAL_DETAIL_BYTES:
            raise TooLargeError(f"detail has {size} bytes as JSON; at most {MAX_APPROVAL_DETAIL_BYTES} are taken")
    question = ApprovalQuestion(params.action, params.description, params.detail, params.tool_call_id)
    with service.asking(call, params.session_id):
        # Cancelled meanwhile, it is known all the same whether anybody was asked, who then has to be told.
        answer = await to_its_end(asked_in(session).ask(question, guard(params, call)))
        if isinstance(answer, dict):
            return answer
        held.waiting.append(answer)
        try:
            return await _decision(service, held, answer, call, params.timeout or DEFAULT_APPROVAL_TIMEOUT)
        finally:
            held.waiting.remove(answer)


async def _decision(service: Service, held: OpenHandle, answer: Answer, call: Call, timeout: float) -> Json:  # noqa: ASYNC109
    """The result of a request that waits; it waits until its connection is about to end, at most."""
    task = asyncio.current_task()
    cancelled = task is not None and task.cancelling() > 0
    if not cancelled:
        try:
            ends: set[asyncio.Future[Any]] = {answer, call.client.ending}
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled = True
    why: Literal["cancelled", "timedOut"] = "cancelled"
    if not answer.done():
        if not cancelled and service.drain.under_way(held.session):
            asked_in(held.session).leave_open(answer)
            raise SessionNotOpenError("the session is being handed over: ask its next owner", handedOver=True)
        why = "cancelled" if cancelled or call.client.ending.done() else "timedOut"
        await to_its_end(asked_in(held.session).stop_waiting(answer, why))
    if not answer.cancelled():
        return answer.result()
    if why == "timedOut":
        raise ApprovalTimeoutError(f"nobody decided within {timeout:g} seconds; repeat the request to ask again")
    raise CancelledError("the request for an approval was cancelled before anybody decided")


async def respond(service: Service, params: ApprovalRespondParams, call: Call) -> Json:
    """Decide what was asked."""
    session = service.session(call, params)
    await asked_in(session).decide(params.approval_id, params.decision, params.reason, Cause(client=call.client.name))
    return {}


async def list_approvals(service: Service, params: ApprovalListParams, call: Call) -> Any:
    """Pending approval requests; a reader asks the owner, if there is one."""
    held = service.held(call, params.session_id)
    if held.watcher is not None and (answer := await held.watcher.ask(call.method)) is not None:
        return answer
    pending = await held.session.at_turn(lambda: asked_in(held.session).pending)
    return {"approvals": [request.wire() for request in pending]}
