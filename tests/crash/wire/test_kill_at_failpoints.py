"""kill -9 of the server at every failpoint it passes, during every operation.

For each operation a traced run tells which failpoints lie on its way. Then, for each of them, a server is killed there
and the session is opened by another one: what was acknowledged is there, once, in order; the operation happened
entirely or not at all; and its repetition under the same request id makes it happened exactly once.
"""

from __future__ import annotations

import itertools
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import PATIENCE, Launch, Pending, Server
from tests.support.session import Session, assistant, user
from tests.support.trace import Tracer
from tests.wire.operations import OPERATIONS, Operation, prepare

from timeleap.storage.index import index_path

pytestmark = [
    pytest.mark.crash,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9"),
]

SOURCES = Path(__file__).resolve().parents[3] / "server"
UNREACHED_BY_RUNNING = {
    "replace.declared": "only where hard links are missing: tests/unit/storage",
    "replace.set_aside": "only where hard links are missing: tests/unit/storage",
}
FILES = (
    *("files.objects_written", "files.committed", "files.published", "files.intent", "files.staged", "files.moved"),
    *("files.removed", "files.folders_settled", "files.restored", "files.before_log", "files.noted", "files.followed"),
    *("files.after_published", "files.taken_back", "files.recovered"),
)
KILLED_ELSEWHERE = {
    **dict.fromkeys(
        ("files.bundle_judged", "files.bundle_unpacked", "files.bundle_taken"), "wire/test_archive_with_files"
    ),
    "approval.after_requests": "wire/test_approval_ends",
    "approval.after_audit": "wire/test_approval_ends",
    "bridge.adopted": "wire/test_bridge",
    "vault.packed": "unit/agents/mirrors/vault/test_kept_file",
    "vault.restoring": "wire/test_bridge_kept",
    "mail.arrived": "test_dmail_elsewhere",
    "redact.before_note": "wire/test_purge",
    **dict.fromkeys(FILES, "crash/wire/test_killed_restores, and unit/features/files"),
    **dict.fromkeys(("purge.moved", "purge.noted", "purge.files_forgotten", "purge.removed"), "wire/test_purge"),
    **dict.fromkeys(
        ("revise.built", "revise.prepared", "revise.renamed", "revise.done", "revise.closed_built"),
        "test_redact, and all of the storage's in tests/crash/storage/test_kill",
    ),
}
NOTHING_IS_WRITTEN = {"watch.look"}
"""Passed now and then, and only to be held there."""
PRUNING = ("prune.noted",)
RECOVERY = ("recovery.unlink", "recovery.before_cut", "recovery.after_cut")
names = (f"s{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that prepares the sessions and opens them again after the others died."""
    server = Server(Launch(tmp_path_factory.mktemp("crash") / "home", "ndjson"))
    server.initialize(clientInfo={"name": "keeper"})
    yield server
    server.dispose()


def facts(session: Session) -> dict[str, Any]:
    """What a session is, without what differs from run to run (uids, times, seals)."""
    state = session.get_state()
    return {
        "history": session.history(),
        "roles": [record["role"] for record in session.records()],
        "tokens": (state["context"]["tokenCount"], state["context"]["tokenCountWithPending"]),
        "prompt": state["context"]["systemPrompt"],
        "checkpoints": [(c["id"], c.get("label"), c["messageCount"]) for c in state["context"]["checkpoints"]],
        "timelines": [  # without their ids: a step that was cut short may have used up a number
            (t["reason"], t["messageCount"], t["checkpointCount"]) for t in session.timelines()
        ],
        "approval": (state["approval"]["yolo"], state["approval"]["autoApproveActions"]),
        "subagents": state["dynamicSubagents"],
        "undo": (state["context"]["canUndo"], state["context"]["canRedo"]),
        "pending": state["pendingDMail"] and (state["pendingDMail"]["checkpointId"], state["pendingDMail"]["message"]),
        "title": state["title"],
        "archived": state["archived"],
    }


def prepared(keeper: Server, operation: Operation) -> Session:
    """A closed session on which `operation` can be done, after what comes `earlier`."""
    session = Session.open(keeper, next(names))
    prepare(session)
    session.call("session/close")
    return session


def earlier(session: Session, operation: Operation) -> None:
    """What is acknowledged before the operation: a message, and a change of state under a request id."""
    session.append(assistant("acknowledged " + "a" * 400))
    session.call("session/setAutoApprove", action="earlier", enabled=True, requestId="earlier")
    operation.before(session)


def run(keeper: Server, operation: Operation, session: Session, env: dict[str, str]) -> tuple[Server, Pending, int]:
    """Start another server, do there what comes earlier, and begin the operation.

    Returns:
        The server, the operation's request, and how many failpoints a tracer in `env` saw before it.
    """
    tracer_file = Path(env.get("TRACE_FILE", "/nonexistent"))
    server = Server(Launch(keeper.home, "lsp", env=env))
    server.initialize(clientInfo={"name": "keeper"})
    victim = Session.open(server, session.id)
    earlier(victim, operation)
    before = len(tracer_file.read_text().split()) if tracer_file.exists() else 0
    return server, victim.start(operation.method, **operation.params, requestId="op"), before


def plan(keeper: Server, operation: Operation, directory: Path) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """What to arm to die at each failpoint of the operation, and the facts before and after it."""
    tracer = Tracer(directory)
    session = prepared(keeper, operation)
    server, pending, skip = run(keeper, operation, session, tracer.env)
    try:
        pending.result()
        passed = tracer.passed()
        after = facts(Session(server, session.state))
    finally:
        server.dispose()
    undone = prepared(keeper, operation).reopen(keeper)
    earlier(undone, operation)
    before = facts(undone)
    undone.call("session/close")
    counts: Counter[str] = Counter()
    armed = []
    for position, name in enumerate(passed):
        counts[name] += 1
        if position >= skip:
            armed.append(f"{name}@{counts[name]}=kill")
    return armed, before, after


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_killed_at_any_failpoint_it_happened_once_or_not_at_all(
    keeper: Server, operation: Operation, tmp_path: Path
) -> None:
    armed, before, after = plan(keeper, operation, tmp_path / "trace")
    assert armed, "the operation passes no failpoint"
    for failpoint in armed:
        session = prepared(keeper, operation)
        server, pending, _ = run(keeper, operation, session, {"TIMELEAP_FAILPOINTS": failpoint})
        try:
            assert server.process.wait(PATIENCE) == -signal.SIGKILL, failpoint
        finally:
            server.dispose()
        assert not any(m.get("id") == pending.id for m in server.received), failpoint
        again = session.reopen(keeper)
        found = facts(again)
        assert found in (before, after), (failpoint, found, before)
        approved = again.call("session/setAutoApprove", action="earlier", enabled=True, requestId="earlier")
        assert approved["duplicate"] is True, failpoint
        again.call(operation.method, **operation.params, requestId="op")
        assert facts(again) == after, failpoint
        repeat = again.call(operation.method, **operation.params, requestId="op")
        assert repeat["duplicate"] is True
        assert facts(again) == after, failpoint
        again.say("and on")
        assert again.history()[-1] == user("and on")
        again.call("session/close")


def test_killed_while_creating_a_session(keeper: Server, tmp_path: Path) -> None:
    creation = {"title": "T", "systemPrompt": "p"}
    tracer = Tracer(tmp_path / "trace")
    server = Server(Launch(keeper.home, "lsp", env=tracer.env))
    server.initialize()
    server.call("session/open", **creation, requestId=next(names))
    server.dispose()
    counts: Counter[str] = Counter()
    for name in tracer.passed():
        counts[name] += 1
        request_id = next(names)
        victim = Server(Launch(keeper.home, "lsp", env={"TIMELEAP_FAILPOINTS": f"{name}@{counts[name]}=kill"}))
        victim.initialize()
        victim.start("session/open", **creation, requestId=request_id)
        assert victim.process.wait(PATIENCE) == -signal.SIGKILL, name
        victim.dispose()
        listed = len(keeper.call("session/list", limit=1000)["sessions"])
        state = keeper.call("session/open", **creation, requestId=request_id)
        assert (state["title"], state["context"]["systemPrompt"]) == ("T", "p"), name
        assert keeper.call("session/open", **creation, requestId=request_id)["sessionId"] == state["sessionId"]
        assert len(keeper.call("session/list", limit=1000)["sessions"]) - listed in (0, 1)
    assert counts


def test_killed_while_forking(keeper: Server, tmp_path: Path) -> None:
    source = Session.open(keeper, next(names))
    prepare(source)
    expected = source.history()
    source.call("session/close")
    tracer = Tracer(tmp_path / "trace")
    server = Server(Launch(keeper.home, "lsp", env=tracer.env))
    server.initialize()
    server.call("session/fork", sessionId=source.id, requestId=next(names))
    server.dispose()
    counts: Counter[str] = Counter()
    for name in tracer.passed():
        counts[name] += 1
        request_id = next(names)
        victim = Server(Launch(keeper.home, "lsp", env={"TIMELEAP_FAILPOINTS": f"{name}@{counts[name]}=kill"}))
        victim.initialize()
        victim.start("session/fork", sessionId=source.id, requestId=request_id)
        assert victim.process.wait(PATIENCE) == -signal.SIGKILL, name
        victim.dispose()
        before = {info["sessionId"] for info in keeper.call("session/list", limit=1000)["sessions"]}
        fork = Session(keeper, keeper.call("session/fork", sessionId=source.id, requestId=request_id))
        assert fork.history() == expected, name
        for other in before - {fork.id}:
            assert keeper.call("session/getState", sessionId=other)["context"]["messageCount"] >= 0


@pytest.mark.parametrize("failpoint", RECOVERY)
def test_killed_while_recovering_from_a_crash(keeper: Server, failpoint: str) -> None:
    session = Session.open(keeper, next(names))
    session.say("kept")
    session.append(user("a"), user("b"))
    session.call("session/close")
    whole = session.log.read_bytes()
    session.log.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 20])
    index_path(session.log).unlink()  # it knows that more was answered: that would be a loss
    (session.path / ".stray-temporary.tmp").write_bytes(b"")
    victim = Server(Launch(keeper.home, "lsp", env={"TIMELEAP_FAILPOINTS": f"{failpoint}=kill"}))
    victim.initialize()
    pending = victim.start("session/open", sessionId=session.id)
    if failpoint != "recovery.unlink":
        assert victim.process.wait(PATIENCE) == -signal.SIGKILL
    else:
        pending.result()
    victim.dispose()
    again = session.reopen(keeper)
    assert again.texts() == ["kept"]
    again.say("next")
    assert again.texts() == ["kept", "next"]


@pytest.mark.parametrize("failpoint", PRUNING)
def test_killed_while_pruning_the_rest_goes_at_the_next_opening(keeper: Server, failpoint: str) -> None:
    session = Session.open(keeper, next(names))
    for number in range(3):
        session.say(str(number))
        session.call("context/clear")
    session.call("session/close")
    victim = Server(Launch(keeper.home, "lsp", env={"TIMELEAP_FAILPOINTS": f"{failpoint}=kill"}))
    victim.initialize()
    victim.call("session/open", sessionId=session.id)
    victim.start("session/prune", sessionId=session.id, maxTimelines=1, requestId="op")
    assert victim.process.wait(PATIENCE) == -signal.SIGKILL
    victim.dispose()
    again = session.reopen(keeper)
    assert [one["timelineId"] for one in again.timelines()] == ["context_3"]
    repeated = again.call("session/prune", maxTimelines=1, requestId="op")
    assert repeated["duplicate"] and [one["timelineId"] for one in repeated["removed"]] == ["context_2", "context_1"]


def test_killed_at_random_moments_of_a_busy_session(keeper: Server, tmp_path: Path) -> None:
    """No failpoints: the kill comes at some moment of a stream of pipelined work."""
    for attempt in range(8):
        session = Session.open(keeper, next(names))
        session.call("session/close")
        server = Server(Launch(keeper.home, "lsp"))
        server.initialize()
        victim = Session.open(server, session.id)
        pendings = []
        for number in range(400):
            pendings.append(victim.start("context/appendMessage", message=user(str(number)), requestId=f"r{number}"))
            if number == 40 * (attempt + 1):
                pendings[10 * attempt].result()
                server.kill()
                break
        server.dispose()
        acknowledged = {m["id"] for m in server.received if "result" in m}
        count = sum(1 for pending in pendings if pending.id in acknowledged)
        again = session.reopen(keeper)
        texts = again.texts()
        assert texts == [str(number) for number in range(len(texts))] and len(texts) >= count
        for number in range(len(pendings)):
            again.call("context/appendMessage", message=user(str(number)), requestId=f"r{number}")
        assert again.texts() == [str(number) for number in range(len(pendings))]
        again.call("session/close")


@pytest.mark.parametrize("method", ["session/delete", "session/undelete"])
def test_killed_on_the_way_to_the_trash_and_back(keeper: Server, tmp_path: Path, method: str) -> None:
    def ready() -> str:
        session = Session.open(keeper, next(names))
        session.say("kept")
        session.call("session/close")
        if method == "session/undelete":
            keeper.call("session/delete", sessionId=session.id)
        return session.id

    tracer = Tracer(tmp_path / "trace")
    server = Server(Launch(keeper.home, "lsp", env=tracer.env))
    server.initialize()
    server.call(method, sessionId=ready(), requestId=next(names))
    server.dispose()
    counts: Counter[str] = Counter()
    for name in tracer.passed():
        counts[name] += 1
        session_id = ready()
        victim = Server(Launch(keeper.home, "lsp", env={"TIMELEAP_FAILPOINTS": f"{name}@{counts[name]}=kill"}))
        victim.initialize()
        victim.start(method, sessionId=session_id, requestId=f"op-{session_id}")
        assert victim.process.wait(PATIENCE) == -signal.SIGKILL, name
        victim.dispose()
        listed = session_id in [info["sessionId"] for info in keeper.call("session/list", limit=1000)["sessions"]]
        trash = keeper.call("session/listTrash", limit=1000)["sessions"]
        assert listed != (session_id in [info["sessionId"] for info in trash]), name
        keeper.call(method, sessionId=session_id, requestId=f"op-{session_id}")
        if method == "session/delete":
            keeper.call("session/undelete", sessionId=session_id)
        assert Session.open(keeper, session_id).texts() == ["kept"], name
        keeper.call("session/close", sessionId=session_id)
    assert counts


def test_every_failpoint_of_the_source_is_passed_by_what_is_killed_above(keeper: Server, tmp_path: Path) -> None:
    found = set()
    for path in SOURCES.rglob("*.py"):
        found |= set(re.findall(r'failpoint\(\s*"([^"]+)"', path.read_text()))
    tracer = Tracer(tmp_path / "trace")
    server = Server(Launch(keeper.home, "lsp", env=tracer.env))
    server.initialize()
    session = Session.open(server)
    for operation in OPERATIONS:
        session = Session.open(server, next(names), systemPrompt="p")
        prepare(session)
        earlier(session, operation)
        session.call(operation.method, **operation.params, requestId="op")
    session.call("session/fork", requestId="fork")
    session.call("session/delete", requestId="delete")
    server.call("session/undelete", sessionId=session.id, requestId="undelete")
    server.dispose()
    named = {*UNREACHED_BY_RUNNING, *KILLED_ELSEWHERE, *PRUNING, *RECOVERY}
    assert found - set(tracer.passed()) - NOTHING_IS_WRITTEN == named
