"""Windows that hear of requests for approvals, and what tests say to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.scene import settle
from tests.support.server import Launch, Message, Pending, Server
from tests.support.session import Session

WANTED = {"experimental": {"timeleap": {"approvals": True}}}
REQUESTED, RESOLVED = "approval/didRequest", "approval/didResolve"


@dataclass
class Windows:
    """Processes on one store, each with the session open; those that want to hear of approvals, unless told not to."""

    home: Path
    servers: list[Server]

    def start(self, name: str, *, approvals: bool = True, framing: Any = "lsp", failpoints: str = "") -> Server:
        """Start a process."""
        server = Server(Launch(self.home, framing, env={"TIMELEAP_FAILPOINTS": failpoints} if failpoints else {}))
        self.servers.append(server)
        server.initialize(clientInfo={"name": name}, capabilities=WANTED if approvals else {})
        return server

    def open(self, name: str, *, approvals: bool = True, failpoints: str = "", **params: Any) -> Session:
        """Start a process and open the session there."""
        return Session.open(self.start(name, approvals=approvals, failpoints=failpoints), "s", **params)


def ask(session: Session, action: str = "run command", **params: Any) -> Pending:
    """Ask for an approval and do not wait."""
    return session.start("approval/request", action=action, **params)


def asked(session: Session, since: int = 0) -> Message:
    """Wait until a window is told of a request; returns it."""
    return dict(session.server.heard(REQUESTED, since=since, sessionId=session.id)["approval"])


def resolved(session: Session, approval_id: str, since: int = 0) -> Message:
    """Wait until a window is told the end of a request; returns the params."""
    return session.server.heard(RESOLVED, since=since, approvalId=approval_id)


def told(session: Session, method: str, since: int = 0) -> list[Message]:
    """The params of all notifications of a method up to now."""
    settle([session])
    return [message["params"] for message in session.server.notifications(since) if message["method"] == method]


def pending(session: Session) -> list[Message]:
    """What waits for a decision."""
    return list(session.call("approval/list")["approvals"])


def audit(session: Session) -> list[Message]:
    """The entries about requests for approvals."""
    entries = [json.loads(line) for line in (session.path / "audit.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["field"] == "approval"]


def verdicts(session: Session) -> list[Any]:
    """What the audit says that became of requests."""
    return [entry["to"] for entry in audit(session)]


def decide(session: Session, approval_id: str, decision: str = "approve", **params: Any) -> Any:
    """Decide a request."""
    return session.call("approval/respond", approvalId=approval_id, decision=decision, **params)
