"""From domain objects to the wire: what is shown of them. Outcomes and events have their form from `sessions.shapes`.

A member that is unset is left out; a `T | null` member is always there. Results are plain dictionaries with wire names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeleap.sessions.shapes import Shapes, approval, pending_dmail, set_members, subagents

if TYPE_CHECKING:
    from timeleap.service.config import Budget
    from timeleap.sessions.events import ApprovalResolved
    from timeleap.sessions.outcomes import PendingApproval, SessionInfo
    from timeleap.sessions.session import Session
    from timeleap.storage.engine import Quarantined, Timeline

Json = dict[str, Any]


def timeline(timeline: Timeline) -> Json:
    """`Timeline` of the contract."""
    return {
        "timelineId": timeline.timeline_id,
        "file": timeline.file,
        "reason": timeline.facts.reason,
        "createdAt": timeline.facts.created_at,
        "bytes": timeline.bytes,
        "messageCount": timeline.messages,
        "checkpointCount": timeline.checkpoints,
    }


def approval_request(pending: PendingApproval) -> Json:
    """`ApprovalRequest` of the contract."""
    question = pending.question
    return {
        "approvalId": pending.approval_id,
        "action": question.action,
        **set_members(description=question.description, detail=question.detail, toolCallId=question.tool_call_id),
        "requestedAt": pending.requested_at,
        **set_members(client=pending.client),
    }


def approval_end(event: ApprovalResolved) -> Json:
    """`approval/didResolve` of the contract, without the session."""
    return {
        "approvalId": event.approval_id,
        "decision": event.decision,
        **set_members(reason=event.reason),
        "cause": set_members(requestId=event.cause.request_id, client=event.cause.client),
    }


def quarantined(cut: Quarantined) -> Json:
    """Bytes that were cut at open."""
    return {"file": cut.file, "offset": cut.offset, "bytes": cut.bytes, "reason": cut.reason}


def session_info(info: SessionInfo) -> Json:
    """`SessionInfo` of the contract."""
    parent = info.parent
    return {
        "sessionId": info.session_id,
        "title": info.title,
        "path": str(info.path),
        **set_members(workspace=info.workspace),
        "createdAt": info.created_at,
        "updatedAt": info.updated_at,
        "archived": info.archived,
        "messageCount": info.message_count,
        "tokenCount": info.token_count,
        **set_members(
            parent=parent and {"sessionId": parent.session_id, **set_members(checkpointUid=parent.checkpoint_uid)},
            owner=info.owner and {"pid": info.owner.pid, "host": info.owner.host, "since": info.owner.since},
            deletedAt=info.deleted_at,
            damaged=info.damaged,
        ),
    }


class Views(Shapes):
    """The shapes of the contract, those of outcomes and events included."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget.should_compact)
        self._budget = budget

    def state(self, session: Session, access: str) -> Json:
        """`SessionState` of the contract, as seen with `access`."""
        return {
            "sessionId": session.session_id,
            "title": session.title,
            "path": str(session.path),
            **set_members(workspace=session.workspace),
            "archived": session.archived,
            "access": access,
            "head": session.head,
            "context": self.summary(session.summary()),
            "budget": self._budget.wire(),
            "approval": approval(session.approval),
            "dynamicSubagents": subagents(session.subagents),
            "pendingDMail": pending_dmail(session.pending_dmail),
            **set_members(pins=list(session.pins) or None),
            "warnings": list(session.warnings),
        }
