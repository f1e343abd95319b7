"""Upkeep of a session over the wire, with a server in this process: its lines are measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.server import Server
from tests.support.session import Session, user


@pytest.fixture
def session(shared: Server) -> Session:
    session = Session.open(shared)
    session.append(user("one"))
    session.checkpoint()
    session.append(user("two"))
    return session


def test_the_audit_is_listed_by_pages(session: Session) -> None:
    for yolo in (True, False):
        session.call("session/setYolo", yolo=yolo)
    first = session.call("session/listAudit", limit=1)
    rest = session.call("session/listAudit", limit=1, cursor=first["nextCursor"])
    assert first["entries"] and rest["entries"] and first["entries"] != rest["entries"]


def test_timelines_are_pruned_and_deleted_sessions_purged(session: Session, shared: Server) -> None:
    for _ in range(2):
        session.call("context/revertTo", messageIndex=1)
        session.append(user("again"))
    foretold = session.call("session/prune", maxTimelines=1, dryRun=True)
    done = session.call("session/prune", maxTimelines=1)
    assert [gone["timelineId"] for gone in done["removed"]] == [gone["timelineId"] for gone in foretold["removed"]]
    session.call("session/delete")
    purged = shared.call("session/purge", sessionId=session.id)
    assert purged["purged"]


def test_files_that_are_damaged_left_over_or_other_versions_are_told(session: Session) -> None:
    folder = Path(session.get_state()["path"])
    (folder / "state.json").write_text("{")
    (folder / "context (conflicted copy).jsonl").write_text('{"role":"user","content":"other"}\n')
    told = session.call("session/verify")
    kinds = {problem["kind"] for problem in told["problems"]} | {each["kind"] for each in told.get("warnings", [])}
    assert {"stateDamaged", "conflictCopy"} <= kinds, told
