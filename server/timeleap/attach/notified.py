"""Notifications of an owner that are passed on, and the pending requests for approvals that a client knows of.

After a hand-over, a program that waits for an approval asks the next owner, which tells everybody. A window that knows
the request is not to hear of it again, or it would ask its user twice. The end of one may come before a window has
found the next owner: so it names those it knows, and is told what became of them, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from timeleap.sessions.shapes import APPROVAL_REQUESTED as REQUESTED
from timeleap.sessions.shapes import APPROVAL_RESOLVED as RESOLVED

if TYPE_CHECKING:
    from timeleap.call import Client

MAX_KNOWN = 1000


class ForwardedChange(msgspec.Struct, rename="camel"):
    """The members of an owner's notification that are used here; empty if absent."""

    session_id: str = ""
    head: str = ""
    kind: str = ""


_decode_change = msgspec.json.Decoder(ForwardedChange).decode


def read_change(params: bytes) -> ForwardedChange:
    """Decode the params of a notification; empty if they are malformed."""
    try:
        return _decode_change(params)
    except msgspec.MsgspecError:
        return ForwardedChange()


def as_here(params: bytes, theirs: str, ours: str) -> Any:
    """The params of a notification with the session called as it is here; as their own text where nothing changes."""
    if theirs == ours:
        return msgspec.Raw(params)
    return {**msgspec.json.decode(params), "sessionId": ours}


class NotifiedApprovals:
    """The pending requests that a client knows, by approval id."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._ended: dict[str, None] = {}

    @property
    def known(self) -> list[str]:
        """The requests that the client has not been told the end of."""
        return list(self._known)

    def is_new(self, approval_id: str) -> bool:
        """True if the client does not know a request yet; records it as known."""
        if approval_id in self._known:
            return False
        self._ended.pop(approval_id, None)  # it is asked again
        _add(self._known, approval_id)
        return True

    def ends(self, approval_id: str) -> bool:
        """True if the client does not know yet that a request needs no decision any more; records that it does."""
        self._known.pop(approval_id, None)
        if approval_id in self._ended:
            return False
        _add(self._ended, approval_id)
        return True

    def tell_ends(self, client: Client, session_id: str, ends: Iterable[dict[str, Any]]) -> None:
        """Notify the client of those ends that it does not know, each given as members of the notification."""
        for end in ends:
            name = end.get("approvalId")
            if isinstance(name, str) and self.ends(name):
                client.notify(RESOLVED, {"sessionId": session_id, **end})

    def passes(self, method: str, params: bytes) -> bool:
        """True if an owner's notification, its params as JSON text, has to be passed on to the client; records it."""
        if method not in (REQUESTED, RESOLVED):
            return True
        return self.adds(method, msgspec.json.decode(params))

    def adds(self, method: str, values: Any) -> bool:
        """True if a notification of a request, or of its end, says something new to the client; records it."""
        approval = values.get("approval") if method == REQUESTED else values
        approval_id = approval.get("approvalId") if isinstance(approval, dict) else None
        if not isinstance(approval_id, str):
            return False
        if method == REQUESTED:
            return self.is_new(approval_id)
        return self.ends(approval_id)


def _add(many: dict[str, None], approval_id: str) -> None:
    many[approval_id] = None
    if len(many) > MAX_KNOWN:
        del many[next(iter(many))]
