"""Events that sessions emit to their listeners: one class per kind of the contract's notifications.

Events are emitted after the change is durable and before the method that made it returns, in the order of the changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from timeleap.sessions.outcomes import (
    Access,
    Approval,
    Cause,
    Checkpoint,
    PendingApproval,
    PendingDMail,
    Removed,
    Resolution,
    Subagent,
    Summary,
)
from timeleap.storage.engine import Quarantined

RewriteKind = Literal["reverted", "cleared", "compacted", "timelineRestored", "dmailDelivered", "undone", "redone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a session.

    Attributes:
        head: The head after it.
        cause: Who asked for it; empty where no request did.
        kind: The contract's name of the kind.
    """

    head: str
    cause: Cause = Cause()
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesAppended(Event):
    """`count` messages were appended from index `first_index` on."""

    kind: str = "messagesAppended"
    first_index: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCreated(Event):
    """A checkpoint was written."""

    kind: str = "checkpointCreated"
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten(Event):
    """Another log took the place of the present one; a checkpoint or a message says where a revert went.

    `timeline_id` is None where the log before it was empty.
    """

    kind: RewriteKind
    timeline_id: str | None
    removed: Removed
    summary: Summary
    checkpoint_id: int | None = None
    checkpoint_uid: str | None = None
    message_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted(Event):
    """Something was taken out of the log or its timelines; messages kept their indexes."""

    kind: str = "redacted"
    records: int
    occurrences: int
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCountUpdated(Event):
    """The model's reported input usage was noted."""

    kind: str = "tokenCountUpdated"
    token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPromptSet(Event):
    """The system prompt was set."""

    kind: str = "systemPromptSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class External(Event):
    """A followed log was changed by its owner, or by a program that takes no lock."""

    kind: str = "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalChanged(Event):
    """The approvals were changed."""

    kind: str = "approvalChanged"
    approval: Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Event):
    """Somebody asks for an approval."""

    kind: str = "approvalRequested"
    request: PendingApproval


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResolved(Event):
    """A request for an approval needs no decision any more; `cause` is who decided."""

    kind: str = "approvalResolved"
    approval_id: str
    decision: Resolution
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentsChanged(Event):
    """Sub-agents were put or removed."""

    kind: str = "subagentsChanged"
    subagents: tuple[Subagent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleChanged(Event):
    """The title was set."""

    kind: str = "titleChanged"
    title: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceChanged(Event):
    """The workspace was set."""

    kind: str = "workspaceChanged"
    workspace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived(Event):
    """The session was archived."""

    kind: str = "archived"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unarchived(Event):
    """The session was taken out of the archive."""

    kind: str = "unarchived"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Event):
    """The session was moved to the trash, and closed."""

    kind: str = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DMailChanged(Event):
    """A D-Mail was put, taken back, delivered or dropped."""

    kind: str = "dmailChanged"
    pending_dmail: PendingDMail | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinsChanged(Event):
    """Other strings are pinned."""

    kind: str = "pinsChanged"
    pins: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChanged(Event):
    """The session is now owned, or only followed, by this process."""

    kind: str = "accessChanged"
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """Opening or reloading found a torn tail or a half batch, and cut it."""

    kind: str = "recovered"
    quarantined: tuple[Quarantined, ...]
    cut_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """Something a user should know; `kind` is the warning's own."""

    message: str
