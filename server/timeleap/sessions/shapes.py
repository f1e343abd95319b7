"""Outcomes and events as JSON, in the members of the contract: what the journal keeps of a change, what its request is
answered with, and what listeners are told.

All three are one form, made by the session in the step that makes the change: so a repeat is answered word for word,
whichever process and release is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from timeleap.sessions import events
from timeleap.sessions.outcomes import (
    AppendOutcome,
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
    NoteOutcome,
    Outcome,
    PendingDMail,
    PinsOutcome,
    PruneOutcome,
    Removed,
    Review,
    RewriteOutcome,
    SentOutcome,
    Subagent,
    SubagentsOutcome,
    Summary,
    UsageOutcome,
)

Json = dict[str, Any]

_Small = (
    UsageOutcome
    | HeadOutcome
    | CheckpointOutcome
    | ApprovalOutcome
    | SubagentsOutcome
    | PinsOutcome
    | DMailOutcome
    | NoteOutcome
    | SentOutcome
)

CONTEXT = "context/didChange"
SESSION = "session/didChange"


def set_members(**members: Any) -> Json:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


class Shapes:
    """The forms of outcomes and events.

    Args:
        should_compact: Whether a context of so many tokens is due for compaction.
    """

    def __init__(self, should_compact: Callable[[int], bool] = lambda tokens: False) -> None:
        self._should_compact = should_compact

    def result(self, outcome: Outcome) -> Json:
        """What a request is answered with."""
        match outcome:
            case AppendOutcome():
                return self._append(outcome)
            case RewriteOutcome():
                return self._rewrite(outcome)
            case CompactOutcome():
                return self._compact(outcome)
            case PruneOutcome():
                return _prune(outcome)
            case ApprovalDecision():
                return _decision(outcome)
            case _:
                return {"head": outcome.head, **_members(outcome)}

    def notification(self, event: events.Event) -> tuple[str, str, Json]:
        """What listeners are told: the notification's method, the kind of change, and the members that are its own."""
        method, members = self._notified(event)
        return method, event.kind, members

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
            "shouldCompact": self._should_compact(summary.token_count_with_pending),
        }

    def _append(self, outcome: AppendOutcome) -> Json:
        return {
            "head": outcome.head,
            "firstIndex": outcome.first_index,
            "messageCount": outcome.message_count,
            "tokenCountWithPending": outcome.token_count_with_pending,
            "shouldCompact": self._should_compact(outcome.token_count_with_pending),
        }

    def _rewrite(self, outcome: RewriteOutcome) -> Json:
        return {
            "head": outcome.head,
            **set_members(timelineId=outcome.timeline_id),
            "removed": removed(outcome.removed),
            "context": self.summary(outcome.context),
            **set_members(checkpoint=outcome.checkpoint and checkpoint(outcome.checkpoint)),
            **set_members(toolExchange=outcome.exchange and exchange(outcome.exchange)),
            **(_stepped(outcome.steps, outcome.context) if outcome.steps is not None else {}),
        }

    def _compact(self, outcome: CompactOutcome) -> Json:
        return {
            "head": outcome.head,
            "compacted": outcome.compacted,
            **set_members(reason=outcome.reason, timelineId=outcome.timeline_id, summary=outcome.summary),
            "removedMessages": outcome.removed_messages,
            "preservedMessages": outcome.preserved_messages,
            "tokenCountBefore": outcome.token_count_before,
            "tokenCountAfter": outcome.token_count_after,
            "context": self.summary(outcome.context),
            **(_review(outcome.review) if outcome.review is not None else {}),
        }

    def _notified(self, event: events.Event) -> tuple[str, Json]:
        match event:
            case events.MessagesAppended():
                return CONTEXT, {"firstIndex": event.first_index, "count": event.count}
            case events.CheckpointCreated():
                return CONTEXT, {"checkpoint": checkpoint(event.checkpoint)}
            case events.Rewritten():
                return CONTEXT, {
                    **set_members(checkpointId=event.checkpoint_id, checkpointUid=event.checkpoint_uid),
                    **set_members(messageIndex=event.message_index, timelineId=event.timeline_id),
                    "removed": removed(event.removed),
                    "context": self.summary(event.summary),
                }
            case events.Redacted():
                counts = {"records": event.records, "occurrences": event.occurrences}
                return CONTEXT, {**counts, "context": self.summary(event.summary)}
            case events.TokenCountUpdated():
                return CONTEXT, {"tokenCount": event.token_count}
            case events.SystemPromptSet() | events.External():
                return CONTEXT, {}
            case _:
                return SESSION, _state_members(event)


def _members(outcome: _Small) -> Json:
    """Members of a result beside the head."""
    match outcome:
        case UsageOutcome():
            return {"tokenCount": outcome.token_count}
        case CheckpointOutcome():
            return {"checkpoint": checkpoint(outcome.checkpoint)}
        case ApprovalOutcome():
            return {"approval": approval(outcome.approval)}
        case SubagentsOutcome():
            return {"dynamicSubagents": subagents(outcome.subagents)}
        case PinsOutcome():
            return {"pins": list(outcome.pins)}
        case DMailOutcome():
            return set_members(pendingDMail=pending_dmail(outcome.pending_dmail))  # taken back: none
        case NoteOutcome():
            return {"pendingDMail": None, "index": outcome.index}
        case SentOutcome():
            return outcome.answer
        case HeadOutcome():
            return {}


def _state_members(event: events.Event) -> Json:
    """Members of the notification of a change of the state outside the log, beyond its kind."""
    match event:
        case events.ApprovalChanged():
            return {"approval": approval(event.approval)}
        case events.SubagentsChanged():
            return {"dynamicSubagents": subagents(event.subagents)}
        case events.TitleChanged():
            return {"title": event.title}
        case events.WorkspaceChanged():
            return {"workspace": event.workspace}
        case events.DMailChanged():
            return {"pendingDMail": pending_dmail(event.pending_dmail)}
        case events.PinsChanged():
            return {"pins": list(event.pins)}
        case events.AccessChanged():
            return {"access": event.access}
        case _:
            return {}


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


def _decision(decision: ApprovalDecision) -> Json:
    return {
        "decision": decision.decision,
        **set_members(reason=decision.reason),
        "decidedBy": {**set_members(client=decision.client), "at": decision.at},
        "automatic": decision.automatic,
    }


def _prune(outcome: PruneOutcome) -> Json:
    freed = sum(size for _, size in (*outcome.removed, *outcome.quarantine))
    return {
        "head": outcome.head,
        "removed": [{"timelineId": name, "bytes": size} for name, size in outcome.removed],
        "kept": [{"timelineId": name, "reason": reason} for name, reason in outcome.kept],
        "quarantine": [{"file": name, "bytes": size} for name, size in outcome.quarantine],
        "freedBytes": freed,
    }


def _review(review: Review) -> Json:
    """Review of a summary: its author, scorecard and pins."""
    kinds: Json = asdict(review.scorecard)
    tallies = {kind: {**tally, "lost": list(tally["lost"])} for kind, tally in kinds.items()}
    report = (
        {"kept": len(review.pins) - len(review.pins_added), "added": list(review.pins_added)} if review.pins else None
    )
    return {"summarizer": review.summarizer, "scorecard": tallies, **set_members(pins=report)}


def _stepped(steps: Sequence[HistoryStep], after: Summary) -> Json:
    """Members of the results of undo and redo beyond those of other rewrites."""
    return {
        "steps": [{"kind": step.kind, **set_members(timelineId=step.timeline_id)} for step in steps],
        "canUndo": after.can_undo,
        "canRedo": after.can_redo,
    }
