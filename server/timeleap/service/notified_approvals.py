"""Which requests for approvals one client has been told of and not told the end of.

After a hand-over who waits asks the next owner, which tells everybody: a window that knows the request is not to hear of
it again, or it would ask its user twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

REQUESTED = "approval/didRequest"
RESOLVED = "approval/didResolve"

MAX_KNOWN = 1000


class NotifiedApprovals:
    """The requests that one client knows, by approval id."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def is_new(self, approval_id: str) -> bool:
        """Whether the client is to be told of a request; from now on it knows it."""
        if approval_id in self._known:
            return False
        self._known[approval_id] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def forget(self, approval_id: str) -> None:
        """The client is told that a request needs no decision any more."""
        self._known.pop(approval_id, None)

    def passes(self, method: str, params: bytes) -> bool:
        """Whether an owner's notification, its params as JSON text, is to be passed on to the client."""
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
