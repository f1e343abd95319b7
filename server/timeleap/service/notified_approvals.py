"""Pending requests for approvals that a client was notified of.

After a handover each waiting process repeats its request to the next owner, which notifies all clients: a window that
knows the request must not be notified again, or it would ask its user twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

REQUESTED = "approval/didRequest"
RESOLVED = "approval/didResolve"

MAX_KNOWN = 1000


class NotifiedApprovals:
    """The pending requests that a client knows, by approval id."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def is_new(self, approval_id: str) -> bool:
        """True if the client does not know a request yet; records it as known."""
        if approval_id in self._known:
            return False
        self._known[approval_id] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def forget(self, approval_id: str) -> None:
        """Record that the client was notified of the end of a request."""
        self._known.pop(approval_id, None)

    def passes(self, method: str, params: bytes) -> bool:
        """True if an owner's notification, its params as JSON text, has to be passed on to the client; records it."""
        if method not in (REQUESTED, RESOLVED):
            return True
        values: Any = msgspec.json.decode(params)
        approval = values.get("approval") if method == REQUESTED else values
        approval_id = approval.get("approvalId") if isinstance(approval, dict) else None
        if not isinstance(approval_id, str):
            return False
        if method == REQUESTED:
            return self.is_new(approval_id)
        self.forget(approval_id)
        return True
