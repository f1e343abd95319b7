"""Params and results of `session/purge` and `session/listAudit`: deletion for good, and the record of approvals."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from timeleap_protocol.base import (
    Choice,
    Count,
    Opt,
    PageParams,
    Params,
    ReadShape,
    RequestId,
    SessionId,
    SessionParams,
    Shape,
    Timestamp,
)
from timeleap_protocol.shapes import StateWarning


class SessionPurgeParams(Choice, Params):
    """`session/purge`. Only what is in the trash goes, and nothing brings it back."""

    alternatives = (("session_id",), ("older_than",))
    names_field = True

    session_id: Opt[SessionId] = None
    """The sessions of this id in the trash; this or `olderThan`."""
    deleted_at: Opt[Timestamp] = None
    """Of these only the one that was deleted then, as `session/listTrash` says it."""
    older_than: Opt[Count] = None
    """What was deleted so many seconds ago or earlier; 0 is everything."""
    dry_run: Opt[bool] = None
    """Say what would go, and change nothing. Default: false."""
    request_id: Opt[RequestId] = None
    """Makes the request safe to retry."""


class PurgedSession(Shape):
    """A session that is gone for good, or (dry run) would be."""

    session_id: str
    deleted_at: Timestamp
    bytes: Count
    files_remain: Opt[Literal[True]] = None
    """Present where it could not be told which snapshots of files were the session's: some may be there still."""


class KeptSession(Shape):
    """A session that stays in the trash."""

    session_id: str
    deleted_at: Timestamp
    reason: str


class SessionPurgeResult(Shape):
    """What is gone for good, or (dry run) would be."""

    purged: list[PurgedSession]
    """A repeated request gets at most the first 1000."""
    bytes: Count
    """Of all together."""
    kept: Opt[list[KeptSession]] = None
    """With `olderThan`: what stays although it is old enough, since another process is using it."""
    duplicate: Opt[bool] = None
    """Present when this answers a repeated `requestId`; then nothing was changed."""


class SessionListAuditParams(PageParams, SessionParams):
    """`session/listAudit`."""


class AuditEntry(Shape):
    """What somebody changed, asked for or decided."""

    time: Timestamp
    client: Opt[str] = None
    """Who asked for it, as the client called itself."""
    request_id: Opt[str] = None
    field: str
    """What was changed: `yolo`, `autoApprove:<action>`, `redaction`, ...; `approval` where somebody was asked."""
    from_: Any = Field(default=None, alias="from")
    """What it was before; null where there was nothing."""
    to: Any = None
    """What it is since then; null where there is nothing."""
    approval_id: Opt[str] = None
    action: Opt[str] = None
    description: Opt[str] = None
    tool_call_id: Opt[str] = None
    reason: Opt[str] = None
    automatic: Opt[bool] = None
    """Whether a setting decided, not a person."""


class SessionListAuditResult(ReadShape):
    """Entries of the audit, newest first."""

    entries: list[AuditEntry]
    next_cursor: Opt[str] = None
    warnings: Opt[list[StateWarning]] = None
    """What of the audit cannot be shown, since its file is damaged."""
