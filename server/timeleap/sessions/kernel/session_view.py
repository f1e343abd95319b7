"""State of an open session as decisions see it: its log, and what stands beside that."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from timeleap.json_value import Json
from timeleap.sessions.past import Stacks
from timeleap.sessions.shapes import Approval, AutoCheckpoint, Event, PendingDMail, Subagent, json_members
from timeleap.storage.engine import LogEngine

CHANGES: Final[dict[str, str]] = json_members(
    approval="approvalChanged",
    dynamic_subagents="subagentsChanged",
    title="titleChanged",
    workspace="workspaceChanged",
    archived="archived",
    pending_dmail="dmailChanged",
    pins="pinsChanged",
)
"""By member of the state: the kind of notification that it has changed."""
LEFT_OUT: Final = frozenset({"workspace", "pins"})
"""Members that are absent from the state while they have no value."""


class StateSnapshot(Struct, frozen=True):
    """The state outside the log, as it counts now."""

    title: str | None = None
    archived: bool = False
    subagents: tuple[Subagent, ...] = ()
    pending_dmail: PendingDMail | None = None
    pins: tuple[str, ...] = ()
    auto_checkpoint: AutoCheckpoint = "off"
    workspace: str | None = None
    approval: Approval = field(default_factory=Approval)
    stacks: Stacks = Stacks()

    def wire(self) -> Json:
        """The members of `SessionState` of the contract that clients are notified of (see `CHANGES`)."""
        return json_members(
            approval=self.approval.wire(),
            dynamic_subagents=[agent.wire() for agent in self.subagents],
            title=self.title,
            workspace=self.workspace,
            archived=self.archived,
            pending_dmail=self.pending_dmail and self.pending_dmail.wire(),
            pins=list(self.pins),
        )


class SessionView(Struct, frozen=True):
    """An open session at one moment.

    Attributes:
        log: Its log and timelines, which are only read.
        facts: What stands beside the log.
        time: ISO-8601 UTC.
    """

    log: LogEngine
    facts: StateSnapshot
    time: str


def changes(before: StateSnapshot, after: StateSnapshot, head: str) -> list[Event]:
    """The events for a difference in the state outside the log."""
    then, now = before.wire(), after.wire()
    differing = (member for member in CHANGES if then[member] != now[member])
    return [Event(kind, head, members) for kind, members in (changed(member, now[member]) for member in differing)]


def changed(member: str, value: Any) -> tuple[str, Json]:
    """The kind of the notification that a member of the state has another value, and the members of its own."""
    if member == "archived":
        return ("archived" if value else "unarchived"), {}
    return CHANGES[member], {member: value}
