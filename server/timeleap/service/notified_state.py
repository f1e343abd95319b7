"""What a client of an attached session was last told of the state beside the log.

A change of that state leaves the head as it is. So who did not hear of one, because the owner died first, could not tell
that there is something to be read again: a window would show for ever that approvals are off which are on.
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
"""By kind of notification: the member of it, and of the session's state, that tells what is so now."""

_ARCHIVED = {"archived": True, "unarchived": False}


class NotifiedState:
    """The state of a session as its client knows it."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def note(self, kind: str, params: bytes) -> None:
        """The client is told of a change: its kind, and its params as JSON text."""
        if kind in _MEMBERS:
            self._known[_MEMBERS[kind]] = msgspec.json.decode(params).get(_MEMBERS[kind])
        elif kind in _ARCHIVED:
            self._known["archived"] = _ARCHIVED[kind]

    def missed(self, state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is to be told so that the client knows the session's state: kinds, and their members. It counts as told."""
        state = {"pins": [], **state}  # left out of a state while there are none
        before, self._known = self._known, {name: state.get(name) for name in ("archived", *_MEMBERS.values())}
        if not before:
            return
        for kind, member in _MEMBERS.items():
            if before.get(member) != self._known[member]:
                yield kind, {member: self._known[member]}
        if before.get("archived") != self._known["archived"]:
            yield ("archived" if self._known["archived"] else "unarchived"), {}
