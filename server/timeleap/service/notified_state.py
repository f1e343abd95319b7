"""The last state outside the log that a client of an attached session was notified of.

A change of that state leaves the head as it is. So a client that missed the notification, because the owner died first,
could not know that its state is stale: a window would show for ever that approvals are off which are on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_MEMBERS = {
    "titleChanged": "title",
    "workspaceChanged": "workspace",
    "approvalChanged": "approval",
    "subagentsChanged": "dynamicSubagents",
    "dmailChanged": "pendingDMail",
    "pinsChanged": "pins",
}
"""By kind of notification: the member of it, and of the session's state, that has the new value."""

_ARCHIVED = {"archived": True, "unarchived": False}


class NotifiedState:
    """The state of a session as its client knows it."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def note(self, kind: str, params: bytes) -> None:
        """Record that the client was notified of a change: its kind, and its params as JSON text."""
        if kind in _MEMBERS:
            self._known[_MEMBERS[kind]] = msgspec.json.decode(params).get(_MEMBERS[kind])
        elif kind in _ARCHIVED:
            self._known["archived"] = _ARCHIVED[kind]

    def missed(self, state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Notifications that bring the client up to the session's state: kinds and members. They count as sent."""
        state = {"pins": [], **state}  # left out of a state while there are none
        before, self._known = self._known, {name: state.get(name) for name in ("archived", *_MEMBERS.values())}
        if not before:
            return
        for kind, member in _MEMBERS.items():
            if before.get(member) != self._known[member]:
                yield kind, {member: self._known[member]}
        if before.get("archived") != self._known["archived"]:
            yield ("archived" if self._known["archived"] else "unarchived"), {}
