"""Params and results of `approval/*`: a program asks, any window of the session answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import JsonObject, Name, Opt, RequestId, SessionParams, Shape, Timestamp
from timeleap_protocol.limits import MAX_APPROVAL_ACTION, MAX_APPROVAL_TEXT, MAX_TOOL_CALL_ID
from timeleap_protocol.shapes import Cause

Decision = Literal["approve", "approveForSession", "reject"]
Resolution = Literal["approve", "approveForSession", "reject", "cancelled", "timedOut"]

Action = Annotated[str, Field(min_length=1, max_length=MAX_APPROVAL_ACTION)]
Text = Annotated[str, Field(max_length=MAX_APPROVAL_TEXT)]
ToolCallId = Annotated[str, Field(min_length=1, max_length=MAX_TOOL_CALL_ID)]


class ApprovalRequestParams(SessionParams):
    """`approval/request`. Answered when a person has decided, or at once where the session's approvals say so."""

    action: Action
    """What kind of thing is to be done, such as `run command`: automatic approvals go by this name."""
    description: Opt[Text] = None
    """For the person: what exactly is to be done."""
    detail: Opt[JsonObject] = None
    """For a window that can show more: any object, up to 64 KiB as JSON. It is not written to disk."""
    tool_call_id: Opt[ToolCallId] = None
    """The tool call that waits for it."""
    timeout: Opt[Annotated[float, Field(gt=0)]] = None
    """Seconds to wait for a decision. Default: 600."""
    request_id: Opt[RequestId] = None
    """Makes the request safe to retry: a repeat joins the pending one, or gets its decision."""


class ApprovalRespondParams(SessionParams):
    """`approval/respond`. The first decision counts."""

    approval_id: Name
    decision: Decision
    """`approveForSession` also switches the automatic approval of the action on."""
    reason: Opt[Text] = None
    """For the one who asked: why, or what to do instead."""


class ApprovalListParams(SessionParams):
    """`approval/list`."""


class ApprovalRequest(Shape):
    """A request that waits for a decision."""

    approval_id: str
    action: str
    description: Opt[str] = None
    detail: Opt[JsonObject] = None
    tool_call_id: Opt[str] = None
    requested_at: Timestamp
    client: Opt[str] = None
    """Name of the client that asks."""


class DecidedBy(Shape):
    """Who decided."""

    client: Opt[str] = None
    """Its name; absent where the session's approvals decided."""
    at: Timestamp


class ApprovalDecision(Shape):
    """What was decided."""

    decision: Decision
    reason: Opt[str] = None
    """In the decider's words; of an automatic one `yolo`, `autoApprove` or `afk`."""
    decided_by: DecidedBy
    automatic: bool
    """Whether the session's approvals decided, and nobody was asked."""
    duplicate: Opt[Literal[True]] = None
    """Present when this answers a repeated `requestId` that was decided before."""


class ApprovalListResult(Shape):
    """What waits for a decision, oldest first."""

    approvals: list[ApprovalRequest]


class ApprovalDidRequest(Shape):
    """`approval/didRequest`: somebody asks for an approval."""

    session_id: str
    approval: ApprovalRequest


class ApprovalDidResolve(Shape):
    """`approval/didResolve`: a request needs no decision any more."""

    session_id: str
    approval_id: str
    decision: Resolution
    """`cancelled`: the one who asked does not want it any more, or is gone; `timedOut`: nobody decided in time."""
    reason: Opt[str] = None
    cause: Cause
    """Who decided."""
