"""From domain objects to the wire: every shape of the contract is made here and nowhere else.

A member that is unset is left out; a `T | null` member is always there. Results are plain dictionaries with wire names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from timeleap.sessions.outcomes import AppendOutcome
from timeleap_protocol.methods import REQUESTS

if TYPE_CHECKING:
    from timeleap.service.config import Budget
    from timeleap.sessions.events import ApprovalResolved
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
    from timeleap_protocol.method import Outcome

Json = dict[str, Any]


def set_members(**members: Any) -> Json:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def checkpoint(checkpoint: Checkpoint) -> Json:
    """`Checkpoint` of the contract."""
    return {
        "id": checkpoint.id,
        "uid": checkpoint.uid,
        **set_members(label=checkpoint.label, createdAt=checkpoint.created_at),
        "messageCount": checkpoint.message_count,
        "tokenCount": checkpoint.token_count,
        **set_members(preview=checkpoint.preview),
    }


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


def approval_decision(decision: ApprovalDecision) -> Json:
    """The result of `approval/request`."""
    return {
        "decision": decision.decision,
        **set_members(reason=decision.reason),
        "decidedBy": {**set_members(client=decision.client), "at": decision.at},
        "automatic": decision.automatic,
    }


def approval(approval: Approval) -> Json:
    """`Approval` of the contract."""
    return {
        "yolo": approval.yolo,
        "afk": approval.afk,
        "autoApproveActions": list(approval.actions),
        "sealed": approval.sealed,
        **set_members(changedAt=approval.changed_at, changedBy=approval.changed_by),
    }


def removed(removed: Removed) -> Json:
    """Counts of what a rewrite removed."""
    return {"messages": removed.messages, "checkpoints": removed.checkpoints, "tokens": removed.tokens}


def exchange(exchange: Exchange) -> Json:
    """The tool exchange a revert went into the middle of."""
    return {"index": exchange.index, "openCalls": list(exchange.calls), "healed": exchange.healed}


def subagents(many: tuple[Subagent, ...]) -> list[Json]:
    """Sub-agent definitions, in the order they were put."""
    return [{"name": agent.name, "systemPrompt": agent.system_prompt} for agent in many]


def pending_dmail(pending: PendingDMail | None) -> Json | None:
    """The D-Mail that waits to be delivered."""
    if pending is None:
        return None
    return {
        "checkpointId": pending.checkpoint_id,
        "checkpointUid": pending.checkpoint_uid,
        "message": pending.message,
        **set_members(fromSessionId=pending.sender),
    }


def review(review: Review) -> Json:
    """Review of a summary: its author, scorecard and pins."""
    kinds: Json = asdict(review.scorecard)
    tallies = {kind: {**tally, "lost": list(tally["lost"])} for kind, tally in kinds.items()}
    report = (
        {"kept": len(review.pins) - len(review.pins_added), "added": list(review.pins_added)} if review.pins else None
    )
    return {"summarizer": review.summarizer, "scorecard": tallies, **set_members(pins=report)}


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


class Views:
    """The shapes that depend on the token budget (`shouldCompact`)."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def summary(self, summary: Summary) -> Json:
        """`ContextSummary` of the contract."""
        return {
            "messageCount": summary.message_count,
            "tokenCount": summary.token_count,
            "tokenCountWithPending": summary.token_count_with_pending,
            "nCheckpoints": summary.n_checkpoints,
            "checkpoints": [checkpoint(each) for each in summary.checkpoints],
            "checkpointsOmitted": summary.checkpoints_omitted,
            "systemPrompt": summary.system_prompt,
            "logBytes": summary.log_bytes,
            "timelines": summary.timelines,
            "canUndo": summary.can_undo,
            "canRedo": summary.can_redo,
            "shouldCompact": self._budget.should_compact(summary.token_count_with_pending),
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

    def append(self, outcome: AppendOutcome) -> Json:
        """Result of `context/appendMessage`."""
        return {
            "head": outcome.head,
            "firstIndex": outcome.first_index,
            "messageCount": outcome.message_count,
            "tokenCountWithPending": outcome.token_count_with_pending,
            "shouldCompact": self._budget.should_compact(outcome.token_count_with_pending),
        }

    def rewrite(self, outcome: RewriteOutcome) -> Json:
        """Result of the methods that put another log in the place of the present one."""
        return {
            "head": outcome.head,
            **set_members(timelineId=outcome.timeline_id),
            "removed": removed(outcome.removed),
            "context": self.summary(outcome.context),
            **set_members(checkpoint=outcome.checkpoint and checkpoint(outcome.checkpoint)),
            **set_members(toolExchange=outcome.exchange and exchange(outcome.exchange)),
            **(stepped(outcome.steps, outcome.context) if outcome.steps is not None else {}),
        }

    def compact(self, outcome: CompactOutcome) -> Json:
        """Result of `context/compact`."""
        return {
            "head": outcome.head,
            "compacted": outcome.compacted,
            **set_members(reason=outcome.reason, timelineId=outcome.timeline_id, summary=outcome.summary),
            "removedMessages": outcome.removed_messages,
            "preservedMessages": outcome.preserved_messages,
            "tokenCountBefore": outcome.token_count_before,
            "tokenCountAfter": outcome.token_count_after,
            "context": self.summary(outcome.context),
            **(review(outcome.review) if outcome.review is not None else {}),
        }

    @cached_property
    def renderers(self) -> Mapping[str, Callable[[Any], Json]]:
        """By method: what makes its result of the domain's outcome, also for a request that is repeated after a crash."""
        by_outcome: dict[Outcome, Callable[[Any], Json]] = {
            "append": self.append,
            "usage": usage,
            "head": head,
            "checkpoint": checkpointed,
            "rewrite": self.rewrite,
            "compact": self.compact,
            "pins": pins_changed,
            "dmail": dmail,
            "approval": approved,
            "subagents": subagents_changed,
        }
        return {row.name: by_outcome[row.outcome] for row in REQUESTS.values() if row.outcome is not None}


def stepped(steps: Sequence[HistoryStep], after: Summary) -> Json:
    """Members of the results of undo and redo beyond those of other rewrites."""
    return {
        "steps": [{"kind": step.kind, **set_members(timelineId=step.timeline_id)} for step in steps],
        "canUndo": after.can_undo,
        "canRedo": after.can_redo,
    }


def head(outcome: HeadOutcome) -> Json:
    """Result of the methods that have nothing else to say."""
    return {"head": outcome.head}


def usage(outcome: UsageOutcome) -> Json:
    """Result of `context/updateTokenCount`."""
    return {"head": outcome.head, "tokenCount": outcome.token_count}


def checkpointed(outcome: CheckpointOutcome) -> Json:
    """Result of `context/checkpoint`."""
    return {"head": outcome.head, "checkpoint": checkpoint(outcome.checkpoint)}


def approved(outcome: ApprovalOutcome) -> Json:
    """Result of the methods that change approvals."""
    return {"head": outcome.head, "approval": approval(outcome.approval)}


def subagents_changed(outcome: SubagentsOutcome) -> Json:
    """Result of the methods that change sub-agents."""
    return {"head": outcome.head, "dynamicSubagents": subagents(outcome.subagents)}


def pins_changed(outcome: PinsOutcome) -> Json:
    """Result of `context/setPins`."""
    return {"head": outcome.head, "pins": list(outcome.pins)}


def dmail(outcome: DMailOutcome | AppendOutcome) -> Json:
    """Result of `context/sendDMail`, for a note from another session, too."""
    if isinstance(outcome, AppendOutcome):
        return {"head": outcome.head, "pendingDMail": None, "index": outcome.first_index}
    return {"head": outcome.head, "pendingDMail": pending_dmail(outcome.pending_dmail)}
