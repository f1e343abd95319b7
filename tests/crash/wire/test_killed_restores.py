"""kill -9 at every failpoint of a change that takes the files along: log and files are both before it or both after it.

Whole trees are compared. What was cut short is brought to an end by the next opening, and the request asked again makes it
happened exactly once.
"""

from __future__ import annotations

import itertools
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import PATIENCE, Launch, Pending, Server
from tests.support.session import Session
from tests.support.trace import Tracer
from tests.support.workspace import Tree, Workspace, work

pytestmark = [
    pytest.mark.crash,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9"),
]

OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "revert": ("context/revertTo", {"checkpointId": 0, "restore": "both"}),
    "revert of files": ("context/revertTo", {"checkpointId": 0, "restore": "files"}),
    "undo": ("context/undo", {"restore": "both"}),
    "redo": ("context/redo", {"restore": "both"}),
    "restore": ("context/restoreTimeline", {"timelineId": "context_1", "restore": "both"}),
    "deliver D-Mail": ("context/deliverDMail", {"restore": "both"}),
}
State = tuple[list[str], Tree]
names = (f"w{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that opens the sessions again after the others died."""
    server = Server(Launch(tmp_path_factory.mktemp("crash") / "home", "ndjson"))
    server.initialize(clientInfo={"name": "keeper"})
    yield server
    server.dispose()


def prepared(keeper: Server, folder: Path, operation: str) -> tuple[Session, Workspace]:
    """A closed session with a turn behind it, on which the operation can be done."""
    workspace = Workspace(folder)
    session = Session.open(keeper, next(names), workspace=workspace.uri, files={"mode": "checkpoint"})
    session.checkpoint()
    work(session, workspace)
    if operation == "deliver D-Mail":
        session.call("context/sendDMail", checkpointId=0, message="stop")
    if operation in ("undo", "redo", "restore"):
        session.call("context/revertTo", checkpointId=0, restore="both")
    if operation == "redo":
        session.call("context/undo", restore="both")
    session.call("session/close")
    return session, workspace


def state(session: Session, workspace: Workspace) -> State:
    return session.texts(), workspace.tree


def begin(keeper: Server, session: Session, operation: str, env: dict[str, str]) -> tuple[Server, Pending]:
    """Another server in which the operation is under way."""
    server = Server(Launch(keeper.home, "lsp", env=env))
    server.initialize()
    victim = Session.open(server, session.id)
    method, params = OPERATIONS[operation]
    return server, victim.start(method, **params, requestId="op")


def passed_by(keeper: Server, folder: Path, operation: str) -> tuple[list[str], State, State]:
    """What to arm to die at each failpoint of the operation, and the state before and after it."""
    tracer = Tracer(folder.with_name("trace"))
    session, workspace = prepared(keeper, folder, operation)
    again = session.reopen(keeper)
    before = state(again, workspace)
    again.call("session/close")
    server, pending = begin(keeper, session, operation, tracer.env)
    try:
        pending.result()
        armed, counts = list[str](), Counter[str]()
        for name in tracer.passed():
            counts[name] += 1
            armed.append(f"{name}@{counts[name]}=kill")
        return armed, before, state(Session(server, session.state), workspace)
    finally:
        server.dispose()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_any_failpoint_log_and_files_go_together(keeper: Server, tmp_path: Path, operation: str) -> None:
    armed, before, after = passed_by(keeper, tmp_path / "traced", operation)
    assert {"files.intent@1=kill", "files.moved@1=kill", "files.before_log@1=kill"} <= set(armed)
    method, params = OPERATIONS[operation]
    for number, failpoint in enumerate(armed):
        session, workspace = prepared(keeper, tmp_path / str(number), operation)
        server, _ = begin(keeper, session, operation, {"TIMELEAP_FAILPOINTS": failpoint})
        try:
            assert server.process.wait(PATIENCE) == -signal.SIGKILL, failpoint
        finally:
            server.dispose()
        again = session.reopen(keeper)
        assert state(again, workspace) in (before, after), failpoint
        assert "problem" not in again.state["files"], failpoint
        again.call(method, **params, requestId="op")
        assert state(again, workspace) == after, failpoint
        assert again.call(method, **params, requestId="op")["duplicate"] is True
        assert state(again, workspace) == after, failpoint
        again.call("session/close")


def test_an_edit_between_the_crash_and_the_opening_is_left_alone_and_said(keeper: Server, tmp_path: Path) -> None:
    session, workspace = prepared(keeper, tmp_path / "edited", "revert")
    server, _ = begin(keeper, session, "revert", {"TIMELEAP_FAILPOINTS": "files.before_log@1=kill"})
    assert server.process.wait(PATIENCE) == -signal.SIGKILL
    server.dispose()
    workspace.write("login.py", "mine")
    again = session.reopen(keeper)
    assert again.texts() == ["done"]
    assert workspace.tree["login.py"][1] == b"mine"
    assert workspace.tree["new done"][1] == b"done"
    (said,) = [each["message"] for each in again.state["warnings"] if each["kind"] == "filesIncomplete"]
    assert "login.py" in said
    for snapshot in (each["snapshot"] for each in again.call("files/list")["snapshots"][:2]):
        assert snapshot in said


def test_killed_between_two_roots_both_follow_the_log(keeper: Server, tmp_path: Path) -> None:
    def roots(name: str) -> tuple[Session, list[Workspace]]:
        two = [Workspace(tmp_path / f"{name} one"), Workspace(tmp_path / f"{name} two")]
        uris = [workspace.uri for workspace in two]
        session = Session.open(keeper, next(names), files={"mode": "checkpoint", "roots": uris})
        session.checkpoint()
        for workspace in two:
            work(session, workspace)
        session.call("session/close")
        return session, two

    session, two = roots("after")
    trees = [workspace.tree for workspace in two]
    server, pending = begin(keeper, session, "revert", {})
    pending.result()
    server.dispose()
    gone_back = [workspace.tree for workspace in two]
    for number, failpoint in enumerate(
        ["files.intent@2", "files.restored@2", "replace.renamed", "files.after_published@2"]
    ):
        session, two = roots(str(number))
        server, _ = begin(keeper, session, "revert", {"TIMELEAP_FAILPOINTS": f"{failpoint}=kill"})
        assert server.process.wait(PATIENCE) == -signal.SIGKILL, failpoint
        server.dispose()
        again = session.reopen(keeper)
        expected = trees if again.texts() else gone_back
        assert [workspace.tree for workspace in two] == expected, failpoint
        again.call("session/close")
