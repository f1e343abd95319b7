"""Mirrors of other programs' sessions, as a client sees them."""

from __future__ import annotations

from pathlib import Path

from tests.support.scene import until
from tests.support.server import Server
from tests.support.session import Session

from timeleap_agents.mirrors.folders import mirror_id


def mirror_of(server: Server, kind: str, path: Path, messages: int) -> Session:
    """The mirror of a program's file, open, when it has so many messages."""
    session_id = mirror_id(kind, path)

    def has_all() -> bool:
        sessions = server.call("session/list", includeSubagents=True)["sessions"]
        return any(each["sessionId"] == session_id and each["messageCount"] == messages for each in sessions)

    until(has_all)
    return Session.open(server, session_id, create=False)


def labels(session: Session) -> list[str]:
    return [point["label"] for point in session.get_state()["context"]["checkpoints"]]
