"""Every change a session can undergo, as data: tests that must hold for all of them walk this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.session import Session, assistant, user


@dataclass(frozen=True)
class Operation:
    """One mutating request on the session that `prepare` makes."""

    name: str
    method: str
    params: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)
    """Params that make it another request."""
    before: Callable[[Session], None] = lambda session: None
    """What has to be so for the operation to work, beyond `prepare`."""
    kinds: tuple[str, ...] = ()
    """Kinds of the notifications it causes, in order."""
    changes_log: bool = True

    def __str__(self) -> str:
        return self.name


def prepare(session: Session) -> None:
    """A history with everything in it: prompt, checkpoints, batches, usage, timelines."""
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    for number in range(3):
        session.checkpoint(label=f"turn {number}")
        session.append(user(f"question {number} " + "x" * 400), assistant(f"answer {number} " + "y" * 400))
        session.call("context/updateTokenCount", tokenCount=200 * (number + 1))
    session.call("context/revertTo", checkpointId=2)
    session.say("on another path " + "z" * 400)


def _pending(session: Session) -> None:
    session.call("context/sendDMail", checkpointId=1, message="note")


def _yolo(session: Session) -> None:
    session.call("session/setYolo", yolo=True)


def _archived(session: Session) -> None:
    session.call("session/archive")


def _subagent(session: Session) -> None:
    session.call("session/putSubagent", name="a", systemPrompt="p")


def _undone(session: Session) -> None:
    session.call("context/undo")


def _to_and_fro(session: Session) -> None:
    session.call("context/undo")
    session.call("context/redo")


OPERATIONS = (
    Operation(
        "append",
        "context/appendMessage",
        {"message": user("one more")},
        {"message": user("another")},
        kinds=("messagesAppended",),
    ),
    Operation(
        "append batch",
        "context/appendMessage",
        {"messages": [user("one"), assistant("two"), user("three")]},
        {"messages": [user("one"), assistant("two")]},
        kinds=("messagesAppended",),
    ),
    Operation(
        "update token count",
        "context/updateTokenCount",
        {"tokenCount": 777},
        {"tokenCount": 778},
        kinds=("tokenCountUpdated",),
    ),
    Operation(
        "set system prompt",
        "context/setSystemPrompt",
        {"systemPrompt": "be brief"},
        {"systemPrompt": "be long"},
        kinds=("systemPromptSet",),
    ),
    Operation("checkpoint", "context/checkpoint", {"label": "here"}, {"label": "there"}, kinds=("checkpointCreated",)),
    Operation(
        "checkpoint with message",
        "context/checkpoint",
        {"addUserMessage": True},
        {"addUserMessage": False},
        kinds=("checkpointCreated", "messagesAppended"),
    ),
    Operation("revert", "context/revertTo", {"checkpointId": 1}, {"checkpointId": 0}, kinds=("reverted",)),
    Operation("revert to message", "context/revertTo", {"messageIndex": 1}, {"messageIndex": 0}, kinds=("reverted",)),
    Operation(
        "replace message",
        "context/replaceMessage",
        {"messageIndex": 1, "message": user("instead")},
        {"messageIndex": 1, "message": user("or so")},
        kinds=("reverted",),
    ),
    Operation("undo", "context/undo", {}, {"steps": 2}, kinds=("undone",)),
    Operation("redo", "context/redo", {}, {"steps": 2}, _undone, kinds=("redone",)),
    Operation("undo to and fro", "context/undo", {}, {"steps": 2}, _to_and_fro, kinds=("undone",)),
    Operation("clear", "context/clear", {}, {"keepSystemPrompt": False}, kinds=("cleared",)),
    Operation(
        "restore",
        "context/restoreTimeline",
        {"timelineId": "context_1"},
        {"timelineId": "context_2"},
        kinds=("timelineRestored",),
    ),
    Operation("compact", "context/compact", {"summary": "in short"}, {"summary": "briefly"}, kinds=("compacted",)),
    Operation(
        "fold",
        "context/fold",
        {"from": {"messageIndex": 0}, "to": {"messageIndex": 1}, "drop": True},
        {"from": {"messageIndex": 0}, "to": {"messageIndex": 1}, "summary": "x"},
        kinds=("folded",),
    ),
    Operation(
        "send D-Mail",
        "context/sendDMail",
        {"checkpointId": 1, "message": "note"},
        {"checkpointId": 0, "message": "note"},
        kinds=("dmailChanged",),
        changes_log=False,
    ),
    Operation("deliver D-Mail", "context/deliverDMail", {}, {}, _pending, kinds=("dmailDelivered", "dmailChanged")),
    Operation("cancel D-Mail", "context/cancelDMail", {}, {}, _pending, kinds=("dmailChanged",), changes_log=False),
    Operation(
        "set pins",
        "context/setPins",
        {"pins": ["a", "b"]},
        {"pins": ["c"]},
        kinds=("pinsChanged",),
        changes_log=False,
    ),
    Operation(
        "set yolo", "session/setYolo", {"yolo": True}, {"yolo": False}, kinds=("approvalChanged",), changes_log=False
    ),
    Operation(
        "unset yolo", "session/setYolo", {"yolo": False}, {"yolo": True}, _yolo, ("approvalChanged",), changes_log=False
    ),
    Operation(
        "auto-approve",
        "session/setAutoApprove",
        {"action": "run", "enabled": True},
        {"action": "run", "enabled": False},
        kinds=("approvalChanged",),
        changes_log=False,
    ),
    Operation(
        "put sub-agent",
        "session/putSubagent",
        {"name": "b", "systemPrompt": "p"},
        {"name": "b", "systemPrompt": "q"},
        kinds=("subagentsChanged",),
        changes_log=False,
    ),
    Operation(
        "remove sub-agent",
        "session/removeSubagent",
        {"name": "a"},
        {"name": "b"},
        _subagent,
        ("subagentsChanged",),
        changes_log=False,
    ),
    Operation(
        "set title", "session/setTitle", {"title": "T"}, {"title": "U"}, kinds=("titleChanged",), changes_log=False
    ),
    Operation(
        "set workspace",
        "session/setWorkspace",
        {"workspace": "file:///w"},
        {"workspace": None},
        kinds=("workspaceChanged",),
        changes_log=False,
    ),
    Operation("archive", "session/archive", {}, {}, kinds=("archived",), changes_log=False),
    Operation("unarchive", "session/unarchive", {}, {}, _archived, ("unarchived",), changes_log=False),
)
