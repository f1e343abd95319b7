"""Rows of the method table: `approval/*`."""

from __future__ import annotations

from typing import Final

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.method import Method, read

_E = ErrorKind

LIST: Final = read(
    "approval/list",
    "approval.ApprovalListParams",
    "approval.ApprovalListResult",
    "What waits for a decision, oldest first.",
    handler="timeleap.features.approvals.handlers.list_approvals",
    stale=False,  # nothing can be decided meanwhile
)

APPROVAL_ROWS: Final[tuple[Method, ...]] = (
    read(
        "approval/request",
        "approval.ApprovalRequestParams",
        "approval.ApprovalDecision",
        "Asks for an approval and waits for the decision.",
        handler="timeleap.features.approvals.handlers.request_approval",
        access="write",
        waits=True,
        errors=(_E.READ_ONLY, _E.EXTERNALLY_MODIFIED, _E.STORAGE_FAILURE, _E.APPROVAL_TIMEOUT),
    ),
    read(
        "approval/respond",
        "approval.ApprovalRespondParams",
        "session.EmptyResult",
        "Decides what was asked.",
        handler="timeleap.features.approvals.handlers.respond",
        cancel="unbegun",
        access="write",
        decides=True,
        errors=(_E.READ_ONLY, _E.EXTERNALLY_MODIFIED, _E.STORAGE_FAILURE, _E.APPROVAL_NOT_PENDING),
    ),
    LIST,
)
