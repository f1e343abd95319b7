"""Questions for an approval: what is asked, what waits for a decision, and the answers to it."""

from __future__ import annotations

from msgspec import Struct

from timeleap.json_value import Json
from timeleap.sessions.shapes import APPROVAL_RESOLVED, Cause, Decision, Event, Resolution, set_members


class ApprovalQuestion(Struct, frozen=True):
    """The action that an approval is asked for."""

    action: str  # kind of action; automatic approvals match it
    description: str | None = None  # the action in detail, for a person
    detail: Json | None = None  # the same for a program that can show more; in memory only
    tool_call_id: str | None = None  # the tool call that waits for it


class PendingApproval(Struct, frozen=True):
    """A question that waits for a decision; `client` is the name of the program that asks."""

    approval_id: str
    question: ApprovalQuestion
    requested_at: str
    client: str | None = None

    def wire(self) -> Json:
        """`ApprovalRequest` of the contract."""
        question = self.question
        return {
            "approvalId": self.approval_id,
            "action": question.action,
            **set_members(description=question.description, detail=question.detail, toolCallId=question.tool_call_id),
            "requestedAt": self.requested_at,
            **set_members(client=self.client),
        }


def answer_of(decision: Decision, reason: str | None, client: str | None, at: str, *, automatic: bool = False) -> Json:
    """Answer to a request for an approval; `automatic`: by the session's approvals, no person was asked."""
    return {
        "decision": decision,
        **set_members(reason=reason),
        "decidedBy": {**set_members(client=client), "at": at},
        "automatic": automatic,
    }


def approval_resolved(head: str, approval_id: str, decision: Resolution, reason: str | None, who: Cause) -> Event:
    """A request for an approval needs no decision any more."""
    members = {"approvalId": approval_id, "decision": decision, **set_members(reason=reason), "cause": who.wire()}
    return Event("approvalResolved", head, members, APPROVAL_RESOLVED, who)
