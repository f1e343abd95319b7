"""From domain objects to the wire: what is shown of them. Outcomes and events have their form from `sessions.shapes`.

A member that is unset is left out; a `T | null` member is always there. Results are plain dictionaries with wire names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeleap.sessions.shapes import Shapes, set_members

if TYPE_CHECKING:
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import SessionInfo
    from timeleap.storage.engine import Timeline

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

    def state(self, session: Session, access: str) -> Json:
        """`SessionState` of the contract, as seen with `access`."""
        return {
            "sessionId": session.session_id,
            "title": session.facts.title,
            "path": str(session.path),
            **set_members(workspace=session.facts.workspace),
            "archived": session.facts.archived,
            "access": access,
            "head": session.head,
            "context": self.summary(session.summary()),
            "budget": self.budget.wire(),
            "approval": session.facts.approval.wire(),
            "dynamicSubagents": [agent.wire() for agent in session.facts.subagents],
            "pendingDMail": session.facts.pending_dmail and session.facts.pending_dmail.wire(),
            **set_members(pins=list(session.facts.pins) or None),
            "warnings": list(session.warnings),
        }
