"""Results and notifications in the members of the contract: what the journal keeps of a change, what its request is
answered with, and what listeners are told.

All three are one form, made by the session in the step that makes the change: so a repeat is answered word for word,
whichever process and release is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from timeleap.message_text import should_compact
from timeleap.sessions.outcomes import (
    Approval,
    Cause,
    Checkpoint,
    Decision,
    HistoryStep,
    PendingApproval,
    PendingDMail,
    Resolution,
    Review,
    Subagent,
    Summary,
)
from timeleap.storage.engine import LogState

_log = logging.getLogger(__name__)

Json = dict[str, Any]

CONTEXT = "context/didChange"
SESSION = "session/didChange"
RECOVERED = "session/didRecover"
WARNING = "session/warning"
APPROVAL_REQUESTED = "approval/didRequest"
APPROVAL_RESOLVED = "approval/didResolve"


@dataclass(frozen=True, slots=True)
class Event:
    """What listeners are told, after a change is durable and before its method returns, in the order of the changes.

    Attributes:
        kind: Of change, or of warning.
        head: The head after it.
        members: The notification's own.
        method: The notification's.
        cause: Who asked for it; empty where no request did.
    """

    kind: str
    head: str
    members: Json = field(default_factory=dict)
    method: str = SESSION
    cause: Cause = Cause()

    def params(self, session_id: str) -> Json:
        """The notification's params."""
        if self.method not in (CONTEXT, SESSION):
            return {"sessionId": session_id, **self.members}
        about = {"head": self.head, "kind": self.kind, "cause": cause(self.cause)}
        return {"sessionId": session_id, **about, **self.members}


class Listeners:
    """Callbacks that are told of every event."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Event], None]] = []

    def add(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Tell `callback` from now on; returns what ends that."""
        self._callbacks.append(callback)

        def stop() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return stop

    def tell(self, *events: Event) -> None:
        """Tell all of them, in this order."""
        for event in events:
            for callback in tuple(self._callbacks):
                try:
                    callback(event)
                except Exception:
                    # What is done is done: a listener that fails must not make it look undone to the one who asked.
                    _log.exception("a listener failed at %s", event.kind)


def appended_events(
    head: str, made: Sequence[Checkpoint], told: tuple[str, Json] | None, before: int, after: int
) -> list[Event]:
    """What listeners are told of an append that made checkpoints, and took a log from `before` messages to `after`."""
    found = [Event("checkpointCreated", head, {"checkpoint": checkpoint(each)}, CONTEXT) for each in made]
    if told is not None:
        kind, members = told
        found.append(Event(kind, head, members, CONTEXT))
    if after > before:
        found.append(Event("messagesAppended", head, {"firstIndex": before, "count": after - before}, CONTEXT))
    return found


def set_members(**members: Any) -> Json:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Budget:
    """The model's window, in tokens, and when a context is due for compaction."""

    max_context_size: int | None = None  # None: never suggest compaction
    reserved_context_size: int = 0  # for the answer; counts only if less than half the window
    trigger_ratio: float = 1.0  # part of the window that may be used

    def should_compact(self, tokens: int) -> bool:
        """True if a context of so many tokens is due for compaction."""
        ratio, reserved = self.trigger_ratio, self.reserved_context_size
        return should_compact(tokens, self.max_context_size, trigger_ratio=ratio, reserved_context_size=reserved)

    def wire(self) -> Json:
        """`budget` of the contract."""
        return {
            "maxContextSize": self.max_context_size,
            "reservedContextSize": self.reserved_context_size,
            "triggerRatio": self.trigger_ratio,
        }


class Shapes:
    """The forms that depend on the budget."""

    def __init__(self, budget: Budget = Budget()) -> None:
        self.budget = budget

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
            "shouldCompact": self.budget.should_compact(summary.token_count_with_pending),
        }

    def appended(self, before: LogState, after: LogState) -> Json:
        """Where appended messages are, and what they make of the log."""
        return {
            "firstIndex": before.messages,
            "messageCount": after.messages,
            "tokenCountWithPending": after.token_count_with_pending,
            "shouldCompact": self.budget.should_compact(after.token_count_with_pending),
        }


def cause(cause: Cause) -> Json:
    """Who asked for a change."""
    return set_members(requestId=cause.request_id, client=cause.client)


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


def approval_resolved(head: str, approval_id: str, decision: Resolution, reason: str | None, who: Cause) -> Event:
    """A request for an approval needs no decision any more."""
    members = {"approvalId": approval_id, "decision": decision, **set_members(reason=reason), "cause": cause(who)}
    return Event("approvalResolved", head, members, APPROVAL_RESOLVED, who)


def decision(decision: Decision, reason: str | None, client: str | None, at: str, *, automatic: bool = False) -> Json:
    """What a request for an approval is answered with; `automatic`: by the session's approvals, no person was asked."""
    return {
        "decision": decision,
        **set_members(reason=reason),
        "decidedBy": {**set_members(client=client), "at": at},
        "automatic": automatic,
    }


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


def stepped(steps: Sequence[HistoryStep], after: Summary) -> Json:
    """Members of the results of undo and redo beyond those of other rewrites."""
    return {
        "steps": [{"kind": step.kind, **set_members(timelineId=step.timeline_id)} for step in steps],
        "canUndo": after.can_undo,
        "canRedo": after.can_redo,
    }
