"""From domain objects to the wire: every shape of the contract is made here and nowhere else.

A member that is unset is left out; a `T | null` member is always there. Results are plain dictionaries with wire names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from timeleap.sessions.outcomes import AppendOutcome

if TYPE_CHECKING:
    from timeleap.service.config import Budget
    from timeleap.sessions.outcomes import (
        Approval,
        ApprovalDecision,
        ApprovalOutcome,
        Checkpoint,
        CheckpointOutcome,
        CompactOutcome,
        DMailOutcome,
        Exchange,
        HeadOutcome,
        HistoryStep,
        PendingApproval,
        PendingDMail,
        PinsOutcome,
        Removed,
        Review,
        RewriteOutcome,
        SessionInfo,
        Subagent,
        SubagentsOutcome,
        Summary,
        UsageOutcome,
    )
    from timeleap.sessions.session import Session
    from timeleap.storage.engine import Quarantined, Timeline

Json = dict[str, Any]


def set_members(**members: Any) -> Json:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def checkpoint(one: Checkpoint) -> Json:
    """`Checkpoint` of the contract."""
    return {
        "id": one.id,
        "uid": one.uid,
        **set_members(label=one.label, createdAt=one.created_at),
        "messageCount": one.message_count,
        "tokenCount": one.token_count,
        **set_members(preview=one.preview),
    }


def timeline(one: Timeline) -> Json:
    """`Timeline` of the contract."""
    return {
        "timelineId": one.timeline_id,
        "file": one.file,
        "reason": one.facts.reason,
        "createdAt": one.facts.created_at,
        "bytes": one.bytes,
        "messageCount": one.messages,
        "checkpointCount": one.checkpoints,
    }


def approval_request(one: PendingApproval) -> Json:
    """`ApprovalRequest` of the contract."""
    question = one.question
    return {
        "approvalId": one.approval_id,
        "action": question.action,
        **set_members(description=question.description, detail=question.detail, toolCallId=question.tool_call_id),
        "requestedAt": one.requested_at,
        **set_members(client=one.client),
    }


def approval_decision(one: ApprovalDecision) -> Json:
    """The result of `approval/request`."""
    return {
        "decision": one.decision,
        **set_members(reason=one.reason),
        "decidedBy": {**set_members(client=one.client), "at": one.at},
        "automatic": one.automatic,
    }


def approval(one: Approval) -> Json:
    """`Approval` of the contract."""
    return {
        "yolo": one.yolo,
        "afk": one.afk,
        "autoApproveActions": list(one.actions),
        "sealed": one.sealed,
        **set_members(changedAt=one.changed_at, changedBy=one.changed_by),
    }


def removed(one: Removed) -> Json:
    """What a rewrite took away."""
    return {"messages": one.messages, "checkpoints": one.checkpoints, "tokens": one.tokens}


def exchange(one: Exchange) -> Json:
    """The tool exchange a revert went into the middle of."""
    return {"index": one.index, "openCalls": list(one.calls), "healed": one.healed}


def subagents(many: tuple[Subagent, ...]) -> list[Json]:
    """Sub-agent definitions, in the order they were put."""
    return [{"name": one.name, "systemPrompt": one.system_prompt} for one in many]


def pending_dmail(one: PendingDMail | None) -> Json | None:
    """The D-Mail that waits to be delivered."""
    if one is None:
        return None
    return {
        "checkpointId": one.checkpoint_id,
        "checkpointUid": one.checkpoint_uid,
        "message": one.message,
        **set_members(fromSessionId=one.sender),
    }


def review(one: Review) -> Json:
    """What there is to say of a summary."""
    kinds: Json = asdict(one.scorecard)
    tallies = {kind: {**tally, "lost": list(tally["lost"])} for kind, tally in kinds.items()}
    report = {"kept": len(one.pins) - len(one.pins_added), "added": list(one.pins_added)} if one.pins else None
    return {"summarizer": one.summarizer, "scorecard": tallies, **set_members(pins=report)}


def quarantined(one: Quarantined) -> Json:
    """Bytes that were cut at open."""
    return {"file": one.file, "offset": one.offset, "bytes": one.bytes, "reason": one.reason}


def session_info(one: SessionInfo) -> Json:
    """`SessionInfo` of the contract."""
    parent = one.parent
    return {
        "sessionId": one.session_id,
        "title": one.title,
        "path": str(one.path),
        **set_members(workspace=one.workspace),
        "createdAt": one.created_at,
        "updatedAt": one.updated_at,
        "archived": one.archived,
        "messageCount": one.message_count,
        "tokenCount": one.token_count,
        **set_members(
            parent=parent and {"sessionId": parent.session_id, **set_members(checkpointUid=parent.checkpoint_uid)},
            owner=one.owner and {"pid": one.owner.pid, "host": one.owner.host, "since": one.owner.since},
            deletedAt=one.deleted_at,
            damaged=one.damaged,
        ),
    }


class Views:
    """The shapes that depend on the token budget (`shouldCompact`)."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def summary(self, one: Summary) -> Json:
        """`ContextSummary` of the contract."""
        return {
            "messageCount": one.message_count,
            "tokenCount": one.token_count,
            "tokenCountWithPending": one.token_count_with_pending,
            "nCheckpoints": one.n_checkpoints,
            "checkpoints": [checkpoint(each) for each in one.checkpoints],
            "checkpointsOmitted": one.checkpoints_omitted,
            "systemPrompt": one.system_prompt,
            "logBytes": one.log_bytes,
            "timelines": one.timelines,
            "canUndo": one.can_undo,
            "canRedo": one.can_redo,
            "shouldCompact": self._budget.should_compact(one.token_count_with_pending),
        }

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

    def append(self, one: AppendOutcome) -> Json:
        """Result of `context/appendMessage`."""
        return {
            "head": one.head,
            "firstIndex": one.first_index,
            "messageCount": one.message_count,
            "tokenCountWithPending": one.token_count_with_pending,
            "shouldCompact": self._budget.should_compact(one.token_count_with_pending),
        }

    def rewrite(self, one: RewriteOutcome) -> Json:
        """Result of the methods that put another log in the place of the present one."""
        return {
            "head": one.head,
            **set_members(timelineId=one.timeline_id),
            "removed": removed(one.removed),
            "context": self.summary(one.context),
            **set_members(checkpoint=one.checkpoint and checkpoint(one.checkpoint)),
            **set_members(toolExchange=one.exchange and exchange(one.exchange)),
            **(stepped(one.steps, one.context) if one.steps is not None else {}),
        }

    def compact(self, one: CompactOutcome) -> Json:
        """Result of `context/compact`."""
        return {
            "head": one.head,
            "compacted": one.compacted,
            **set_members(reason=one.reason, timelineId=one.timeline_id, summary=one.summary),
            "removedMessages": one.removed_messages,
            "preservedMessages": one.preserved_messages,
            "tokenCountBefore": one.token_count_before,
            "tokenCountAfter": one.token_count_after,
            "context": self.summary(one.context),
            **(review(one.review) if one.review is not None else {}),
        }

    def renderers(self) -> Mapping[str, Callable[[Any], Json]]:
        """By method: what makes its result of the domain's outcome, also for a request that is repeated after a crash."""
        return {
            "context/appendMessage": self.append,
            "context/updateTokenCount": usage,
            "context/setSystemPrompt": head,
            "context/checkpoint": checkpointed,
            "context/revertTo": self.rewrite,
            "context/clear": self.rewrite,
            "context/restoreTimeline": self.rewrite,
            "context/undo": self.rewrite,
            "context/redo": self.rewrite,
            "context/compact": self.compact,
            "context/deliverDMail": self.rewrite,
            "context/setPins": pins_changed,
            "context/sendDMail": dmail,
            "context/cancelDMail": head,
            "session/setYolo": approved,
            "session/setAutoApprove": approved,
            "session/putSubagent": subagents_changed,
            "session/removeSubagent": subagents_changed,
            "session/setTitle": head,
            "session/setWorkspace": head,
            "session/archive": head,
            "session/unarchive": head,
        }


def stepped(steps: Sequence[HistoryStep], after: Summary) -> Json:
    """What undo and redo say beyond the other rewrites."""
    return {
        "steps": [{"kind": one.kind, **set_members(timelineId=one.timeline_id)} for one in steps],
        "canUndo": after.can_undo,
        "canRedo": after.can_redo,
    }


def head(one: HeadOutcome) -> Json:
    """Result of the methods that have nothing else to say."""
    return {"head": one.head}


def usage(one: UsageOutcome) -> Json:
    """Result of `context/updateTokenCount`."""
    return {"head": one.head, "tokenCount": one.token_count}


def checkpointed(one: CheckpointOutcome) -> Json:
    """Result of `context/checkpoint`."""
    return {"head": one.head, "checkpoint": checkpoint(one.checkpoint)}


def approved(one: ApprovalOutcome) -> Json:
    """Result of the methods that change approvals."""
    return {"head": one.head, "approval": approval(one.approval)}


def subagents_changed(one: SubagentsOutcome) -> Json:
    """Result of the methods that change sub-agents."""
    return {"head": one.head, "dynamicSubagents": subagents(one.subagents)}


def pins_changed(one: PinsOutcome) -> Json:
    """Result of `context/setPins`."""
    return {"head": one.head, "pins": list(one.pins)}


def dmail(one: DMailOutcome | AppendOutcome) -> Json:
    """Result of `context/sendDMail`, for a note from another session, too."""
    if isinstance(one, AppendOutcome):
        return {"head": one.head, "pendingDMail": None, "index": one.first_index}
    return {"head": one.head, "pendingDMail": pending_dmail(one.pending_dmail)}
