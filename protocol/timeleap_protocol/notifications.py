"""What the server sends unasked. A change is told after it is durable and before the reply to its request."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import Count, Int, Opt, Shape, WireRoot
from timeleap_protocol.branches import FoldedRange
from timeleap_protocol.shapes import (
    Access,
    Approval,
    Cause,
    Checkpoint,
    ContextSummary,
    MergedFrom,
    PendingDMail,
    Quarantined,
    Removed,
    SpanSummary,
    Subagent,
)


class _Change(Shape):
    """Base of what changed in a session."""

    session_id: str
    head: str
    """The same as in the reply to the request that caused it."""
    cause: Cause


class _Rewrite(_Change):
    """Base of changes that put a new log in the place of the present one."""

    timeline_id: Opt[str] = None
    """The timeline that has the log before it; absent where that was empty."""
    removed: Removed
    context: ContextSummary
    """After it."""


class ChangedSpan(Shape):
    """What happened since the newest checkpoint, up to now."""

    checkpoint_uid: str
    summary: SpanSummary
    name: Opt[Annotated[str, Field(max_length=200)]] = None
    """The name of its checkpoint, unless that has a label; absent where nothing happened."""


class MessagesAppended(_Change):
    """Messages came."""

    kind: Literal["messagesAppended"]
    first_index: Count
    count: Count
    span: Opt[ChangedSpan] = None
    """The span they are in; absent where there is no checkpoint before them."""


class CheckpointCreated(_Change):
    """A checkpoint was written."""

    kind: Literal["checkpointCreated"]
    checkpoint: Checkpoint


class Reverted(_Rewrite):
    """The log went back to before a checkpoint, or a message."""

    kind: Literal["reverted"]
    checkpoint_id: Opt[Int] = None
    checkpoint_uid: Opt[str] = None
    message_index: Opt[Count] = None
    """In the place of the checkpoint, where it went back to before a message."""


class Merged(_Change):
    """A summary of another session was appended, behind a checkpoint."""

    kind: Literal["merged"]
    checkpoint: Checkpoint
    first_index: Count
    from_: MergedFrom = Field(alias="from")
    span: Opt[ChangedSpan] = None
    """The span that begins with the checkpoint."""


class Cleared(_Rewrite):
    """The log was emptied."""

    kind: Literal["cleared"]


class Compacted(_Rewrite):
    """A summary took the place of the older messages."""

    kind: Literal["compacted"]


class Folded(_Rewrite):
    """A summary, or nothing, took the place of a range of messages."""

    kind: Literal["folded"]
    folded: FoldedRange


class TimelineRestored(_Rewrite):
    """A timeline became the live log again."""

    kind: Literal["timelineRestored"]


class Undone(_Rewrite):
    """The log is again what it was before the last rewrites."""

    kind: Literal["undone"]


class Redone(_Rewrite):
    """What was undone is done again."""

    kind: Literal["redone"]


class DMailDelivered(_Rewrite):
    """A D-Mail arrived in the past."""

    kind: Literal["dmailDelivered"]
    checkpoint_id: Opt[Int] = None
    """The checkpoint the note was sent to, which is gone now."""
    checkpoint_uid: Opt[str] = None
    checkpoint: Opt[Checkpoint] = None
    """The new checkpoint before the note."""


class Redacted(_Change):
    """A secret was taken out of the log or its timelines. Messages keep their indexes; what was read of them before is
    not what they say now."""

    kind: Literal["redacted"]
    records: Count
    """Changed in all files together."""
    occurrences: Count
    context: ContextSummary
    """After it."""


class TokenCountUpdated(_Change):
    """The model reported its usage."""

    kind: Literal["tokenCountUpdated"]
    token_count: Count
    span: Opt[ChangedSpan] = None
    """The span whose growth it tells; absent where there is no checkpoint before it."""


class SystemPromptSet(_Change):
    """Another system prompt is in force."""

    kind: Literal["systemPromptSet"]


class ExternalChange(_Change):
    """The log was changed by a program that is not attached, while nobody could tell, or by `session/reload`: compare `head`."""

    kind: Literal["external"]


ContextChange = (
    MessagesAppended
    | CheckpointCreated
    | Reverted
    | Cleared
    | Compacted
    | Folded
    | Merged
    | TimelineRestored
    | Undone
    | Redone
    | DMailDelivered
    | Redacted
    | TokenCountUpdated
    | SystemPromptSet
    | ExternalChange
)


class ContextDidChange(WireRoot[Annotated[ContextChange, Field(discriminator="kind")]]):
    """`context/didChange`: the log of a session changed."""


class ApprovalChanged(_Change):
    """Other things may run unasked now."""

    kind: Literal["approvalChanged"]
    approval: Approval


class SubagentsChanged(_Change):
    """A sub-agent was defined, changed or removed."""

    kind: Literal["subagentsChanged"]
    dynamic_subagents: Opt[list[Subagent]] = None


class TitleChanged(_Change):
    """The session has another title."""

    kind: Literal["titleChanged"]
    title: Opt[str] = None


class WorkspaceChanged(_Change):
    """The session is about another folder."""

    kind: Literal["workspaceChanged"]
    workspace: str | None


class Archived(_Change):
    """The session was archived."""

    kind: Literal["archived"]


class Unarchived(_Change):
    """The session is no longer archived."""

    kind: Literal["unarchived"]


class Deleted(_Change):
    """The session went to the trash."""

    kind: Literal["deleted"]


class DMailChanged(_Change):
    """A D-Mail is pending, or none is any more."""

    kind: Literal["dmailChanged"]
    pending_dmail: PendingDMail | None = Field(alias="pendingDMail")


class PinsChanged(_Change):
    """Other strings are pinned."""

    kind: Literal["pinsChanged"]
    pins: list[str]


class AccessChanged(_Change):
    """What this process may do with the session changed."""

    kind: Literal["accessChanged"]
    access: Access


SessionChange = (
    ApprovalChanged
    | SubagentsChanged
    | TitleChanged
    | WorkspaceChanged
    | Archived
    | Unarchived
    | Deleted
    | DMailChanged
    | PinsChanged
    | AccessChanged
)


class SessionDidChange(WireRoot[Annotated[SessionChange, Field(discriminator="kind")]]):
    """`session/didChange`: something about a session other than its log changed."""


class SessionDidRecover(Shape):
    """`session/didRecover`: opening a session found damage and mended it."""

    session_id: str
    quarantined: list[Quarantined]
    cut_bytes: Count
    """Bytes of an unfinished record or batch that were cut from the end of the log."""


class CompactionSuggested(Shape):
    """`context/compactionSuggested`: the context passed the trigger; sent once a crossing."""

    session_id: str
    token_count_with_pending: Count
    max_context_size: Opt[Count] = None
    reserved_context_size: Opt[Count] = None
    trigger_ratio: Opt[float] = None


class SessionWarning(Shape):
    """`session/warning`: something worth knowing that stops nothing."""

    session_id: str
    kind: str
    message: str


class WorkDoneBegin(Shape):
    """Work has begun."""

    kind: Literal["begin"]
    title: str
    cancellable: Opt[bool] = None
    message: Opt[str] = None
    percentage: Opt[Count] = None


class WorkDoneReport(Shape):
    """Work goes on."""

    kind: Literal["report"]
    cancellable: Opt[bool] = None
    message: Opt[str] = None
    percentage: Opt[Count] = None


class WorkDoneEnd(Shape):
    """Work has ended."""

    kind: Literal["end"]
    message: Opt[str] = None


ProgressValue = Annotated[WorkDoneBegin | WorkDoneReport | WorkDoneEnd, Field(discriminator="kind")]


class ProgressParams(Shape):
    """`$/progress`: how far the work of a request with a `workDoneToken` has come."""

    token: str | Int
    value: ProgressValue
