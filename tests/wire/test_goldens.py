"""The goldens of `protocol/golden` against the real server: what they promise is what it says.

Values differ from run to run, shapes do not: the members of result, `error.data` and notifications, codes, kinds and
the places of bad params are compared. A golden that cannot be replayed is named here with its reason, so that a new
one is either replayed or explained.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import Engine, StartServer, with_store
from tests.support.server import Launch, Message, Server
from tests.support.session import Session

GOLDEN = Path(__file__).resolve().parents[2] / "protocol" / "golden"
FAMILIES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())

ELSEWHERE = {
    "approval.request/approved": "two windows: test_approval_requests",
    "approval.request/rejected": "two windows: test_approval_requests",
    "approval.request/repeated": "test_approval_requests",
    "approval.request/timed-out": "test_approval_ends",
    "approval.request/cancelled": "test_approval_ends",
    "approval.request/too-many": "test_approval_bounds",
    "approval.request/detail-too-large": "the golden shows a small stand-in: test_approval_bounds",
    "approval.respond/reject": "two windows: test_approval_requests",
    "approval.respond/for-session": "two windows: test_approval_requests",
    "approval.list/pending": "two windows: test_approval_requests",
    "bridge.adopt/before-a-checkpoint": "test_bridge",
    "bridge.adopt/first-messages": "test_bridge",
    "bridge.adopt/of-codex": "test_bridge_codex",
    "bridge.listKept/two-generations": "test_bridge_kept",
    "bridge.restoreFile/at-its-old-place": "test_bridge_kept",
    "bridge.restoreFile/elsewhere": "test_bridge_kept",
    "session.list/kept": "test_bridge_kept",
    "bridge.catchUp/prompt": "test_bridge_hooks",
    "bridge.catchUp/tool": "test_bridge_hooks",
    "context.appendMessage/cancelled": "test_ordering",
    "context.appendMessage/overloaded": "a client is slowed down instead: test_limits",
    "context.appendMessage/server-fault": "no fault is known",
    "context.appendMessage/too-deep": "the golden shows a shallow stand-in: test_limits",
    "context.getHistory/from-a-standby": "test_postgresql_standby",
    "initialize/store-in-a-database": "test_postgresql",
    "files.list/store-in-a-database": "test_postgresql",
    "files.diff/of-a-folder": "several roots: test_files_roots",
    "files.read/part": "several roots: test_files_roots",
    "files.restore/conflict": "test_files_restore",
    "files.restore/cut-short": "test_files_restore",
    "files.restore/dry-run": "more changes than a result lists: test_files_restore",
    "files.restore/folder": "several roots: test_files_roots",
    "files.snapshot/busy": "test_files_restore",
    "files.snapshot/several-roots": "test_files_roots",
    "files.snapshot/too-many-files": "test_files",
    "session.purge/files-remain": "what says whose they are is damaged: unit/features/files/test_gone_for_good",
    "session.redact/mirror": "test_kept_redacted",
    "session.redact/snapshots": "test_restore_with_files",
    "session.redact/secrets": "the rules take seconds to load: test_redact",
    "session.storage/with-files": "only where the store has snapshots: test_cli_files",
    "session.list/before-initialize": "test_lifecycle",
    "session.purge/older-than": "test_purge: another process is using one of them",
    "session.open/disk-full": "test_store",
    "shutdown/plain": "test_lifecycle",
    "rpc.discover/plain": "test_initialize",
}
OF_ISSUE_D = ("context.summarize",)

ID = "fix-login"
Change = Callable[[Server, Session], Any]


numbers = itertools.count()


@pytest.fixture(scope="module")
def editor(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all; each golden has a session of its own there."""
    running = Server(Launch(with_store(tmp_path_factory.mktemp("goldens") / "home", engine), "lsp"))
    running.initialize(clientInfo={"name": "editor"})
    yield running
    running.dispose()


def renamed(golden: Message) -> Message:
    """The golden with session and request ids that were not used before."""
    number = next(numbers)
    params = dict(golden["params"])
    for name in ("sessionId", "newSessionId", "requestId"):
        if params.get(name) not in (None, "../../x", "nobody"):
            params[name] = f"{params[name]}-{number}"
    return {**golden, "params": params}


def world(server: Server, session_id: str) -> Session:
    """The session the goldens tell of: two turns, tokens, a timeline."""
    session = Session.open(
        server, session_id, title="Login", systemPrompt="You are a careful engineer.", workspace="file:///w"
    )
    for number in range(2):
        session.checkpoint(label=f"turn {number}")
        session.say(f"question {number} " + "x" * 800, f"more {number} " + "y" * 800)
        session.call("context/updateTokenCount", tokenCount=900 * (number + 1))
    session.call("context/restoreTimeline", timelineId=session.call("context/revertTo", checkpointId=1)["timelineId"])
    session.say("on we go " + "z" * 40, "and on")
    return session


def _close(server: Server, session: Session) -> None:
    session.call("session/close")


def _reader(server: Server, session: Session) -> None:
    session.call("session/close")
    session.reopen(server, access="readOnly")


def _dmail(server: Server, session: Session) -> None:
    session.call("context/sendDMail", checkpointId=1, message="x")


def _append_foreign(server: Server, session: Session) -> None:
    with session.log.open("ab") as log:
        log.write(b'{"role":"user","content":"x"}\n')


def _many(method: str, **params: Any) -> Change:
    def change(server: Server, session: Session) -> None:
        for _ in range(4):
            session.call(method, **params)

    return change


def _call(method: str, **params: Any) -> Change:
    return lambda server, session: session.call(method, **params)


def _approvals(server: Server, session: Session) -> None:
    for number in range(3):
        session.call("session/setAutoApprove", action=f"run {number}", enabled=True, requestId=f"approve-{number}")


def _trash(server: Server, session: Session) -> None:
    session.call("session/delete")


def _damage_timeline(server: Server, session: Session) -> None:
    data = bytearray((session.path / "context_1.jsonl").read_bytes())
    data[len(data) // 2] ^= 1
    (session.path / "context_1.jsonl").write_bytes(data)


def _damage_middle(server: Server, session: Session) -> None:
    session.call("session/close")
    lines = session.log.read_bytes().splitlines(keepends=True)
    session.log.write_bytes(b"".join([*lines[:3], b"{broken\n", *lines[3:]]))
    session.reopen(server)


def _two_in_trash(server: Server, session: Session) -> None:
    for name in ("a", "b"):
        Session.open(server, name).call("session/delete")


def _more_sessions(server: Server, session: Session) -> None:
    for number in range(4):
        Session.open(server, f"login-{number}", workspace="file:///home/ada/shop")


def _clear_twice(server: Server, session: Session) -> None:
    for _ in range(2):
        session.call("context/clear", keepSystemPrompt=False)


def _damage(server: Server, session: Session) -> None:
    session.call("session/setYolo", yolo=True)
    session.call("session/close")
    state = json.loads((session.path / "state.json").read_text())
    state["approval"]["afk"] = True
    (session.path / "state.json").write_text(json.dumps(state))
    session.log.write_bytes(session.log.read_bytes() + b'{"role":"us')


def _amid_an_exchange(server: Server, session: Session) -> None:
    session.call("context/revertTo", checkpointId=1)
    call = {"type": "function", "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
    session.append({"role": "assistant", "content": "", "tool_calls": [call]})
    session.checkpoint()


def _files(server: Server, session: Session) -> None:
    """A folder with snapshots, the newest of which is of a checkpoint; it differs from them."""
    folder = session.path.parents[2] / f"files of {session.id}"
    folder.mkdir()
    session.call("session/setWorkspace", workspace=folder.as_uri())
    session.reopen(server, files={"mode": "off"})
    for _ in range(3):
        session.call("files/snapshot")
    session.checkpoint(files=True)
    for number in range(5):
        (folder / f"file{number}").write_text("x")
    session.append({"role": "assistant", "content": "written"})


def _side_branch(server: Server, session: Session) -> None:
    session.call("context/setPins", pins=["x"])
    Session.open(server, "try-tabs").say("tabs work, too")


BEFORE: dict[str, Change] = {
    "context.checkpoint/with-files": _files,
    "context.revertTo/with-files": _files,
    "files.diff/checkpoint-to-disk": _files,
    "session.export/with-files": _files,
    "session.import/with-files": _files,
    "files.diff/no-such-snapshot": _files,
    "files.list/page": _files,
    "files.restore/repeated-request-id": _files,
    "files.restore/stale-files": _files,
    "files.snapshot/labelled": _files,
    "approval.request/automatic": _call("session/setAutoApprove", action="run tests", enabled=True),
    "approval.request/nobody-there": _call("session/setAfk", afk=True),
    "approval.respond/read-only": _reader,
    "context.appendMessage/externally-modified": _append_foreign,
    "context.appendMessage/not-open": _close,
    "context.appendMessage/turn-checkpoint-first": lambda server, session: (
        session.append({"role": "assistant", "content": "x"}),
        session.reopen(server, autoCheckpoint="turn"),
    ),
    "context.cancelDMail/plain": _dmail,
    "context.compact/nothing-to-compact": _clear_twice,
    "context.deliverDMail/dry-run": _dmail,
    "context.deliverDMail/plain": _dmail,
    "context.getHistory/a-note-that-arrived": _call("context/sendDMail", fromSessionId="tests", message="x"),
    "context.getHistory/of-a-timeline-newest-first": _call("session/getState"),
    "context.getHistory/with-opaque-records": _call(
        "context/appendMessage",
        messages=[{"role": "user", "content": "x"}, {"record": {"role": "_mode", "content": ""}}],
    ),
    "context.diff/of-another-session": lambda server, session: Session.open(server, "shop").say("x"),
    "context.listTimelines/page": _many("context/clear"),
    "context.listUsage/page": _many("context/updateTokenCount", tokenCount=5),
    "context.listCheckpoints/newest-first": _many("context/checkpoint"),
    "context.prepareCompaction/nothing-to-compact": _clear_twice,
    "context.redo/plain": _call("context/undo"),
    "context.restoreTimeline/damaged": _damage_timeline,
    "context.revertTo/heals-a-tool-exchange": _amid_an_exchange,
    "context.search/damaged-timeline": _damage_timeline,
    "context.sendDMail/note-to-another-session": lambda server, session: Session.open(server, "shop"),
    "context.sendDMail/one-is-pending": _dmail,
    "session.close/not-open": _close,
    "session.merge/dry-run": _side_branch,
    "session.merge/handed-in": _side_branch,
    "session.getState/pinned": _call("context/setPins", pins=["x"]),
    "session.isApproved/by-action": _call("session/setAutoApprove", action="run tests", enabled=True),
    "session.isApproved/by-yolo": _call("session/setYolo", yolo=True),
    "session.list/page": _more_sessions,
    "session.list/empty-store": _trash,
    "session.latest/none": _trash,
    "session.latest/of-a-workspace": _more_sessions,
    "session.listTrash/page": _two_in_trash,
    "session.open/after-damage": _damage,
    "session.open/new": _trash,
    "session.open/repeated-request-id": lambda server, session: (
        session.call("session/delete"),
        server.call(
            "session/open", sessionId=session.id, create=True, attach=True, requestId=f"r-1{session.id[len(ID) :]}"
        ),
    ),
    "session.listAudit/page": _approvals,
    "session.listAudit/no-file": lambda _, session: (session.path / "audit.jsonl").mkdir(),
    "session.purge/by-id": _trash,
    "session.purge/dry-run": _two_in_trash,
    "session.purge/repeated-request-id": _trash,
    "session.redact/in-the-trash": _trash,
    "session.removeSubagent/plain": _call("session/putSubagent", name="reviewer", systemPrompt="x"),
    "session.repair/one-damaged-line": _damage_middle,
    "session.search/found": _damage_timeline,
    "session.setYolo/read-only": _reader,
    "session.storage/store": _more_sessions,
    "session.unarchive/plain": _call("session/archive"),
    "session.undelete/plain": _trash,
    "session.undelete/id-taken": lambda server, session: (
        session.call("session/delete"),
        Session.open(server, session.id),
    ),
}
OPTIONS: dict[str, Message] = {
    "approval.respond/only-asks": {"approvals": "ask"},
    "session.setYolo/only-asks": {"approvals": "ask"},
    "context.appendMessage/over-the-trigger": {"maxContextSize": 2140, "reservedContextSize": 0},
}


def replayable() -> list[Any]:
    cases = []
    for family in FAMILIES:
        for file in sorted((GOLDEN / family).glob("*.json")):
            golden = json.loads(file.read_text())
            name = f"{family}/{file.stem}"
            answered = "result" in golden or "error" in golden
            if answered and name not in ELSEWHERE and family not in OF_ISSUE_D and family != "initialize":
                cases.append(pytest.param(name, golden, id=name))
    return cases


def adapted(name: str, golden: Message, server: Server, session: Session, tmp_path: Path) -> Message:
    """The params of the golden, with this run's head, uids, cursors and paths in the place of the golden's."""
    params = dict(golden["params"])
    if "expectedHead" in params and "stale" not in name:
        params["expectedHead"] = session.head
    checkpoint = -1 if BEFORE.get(name) is _files else 1
    if "checkpointUid" in params and golden.get("error", {}).get("code") != -32602:
        params["checkpointUid"] = session.get_state()["context"]["checkpoints"][checkpoint]["uid"]
    for side in ("from", "to"):
        given = params.get(side)
        if isinstance(given, dict) and "checkpointUid" in given and "error" not in golden:
            params[side] = {"checkpointUid": session.get_state()["context"]["checkpoints"][checkpoint]["uid"]}
        if isinstance(given, dict) and "snapshot" in given and "error" not in golden:
            params[side] = {"snapshot": session.call("files/list")["snapshots"][0]["snapshot"]}
    if "deletedAt" in params:
        params["deletedAt"] = next(
            entry["deletedAt"]
            for entry in server.call("session/listTrash", limit=1000)["sessions"]
            if entry["sessionId"] == session.id
        )
    if "cursor" in params and "error" not in golden:
        del params["cursor"]
        if name.endswith("next-page"):
            page = session.call("context/getHistory", limit=5)
            params["cursor"] = page["nextCursor"]
    if name == "context.getHistory/cursor-from-before-a-revert":
        params["cursor"] = session.call("context/getHistory", limit=1)["nextCursor"]
        session.call("context/revertTo", checkpointId=1)
    if name == "context.getHistory/between-checkpoints":
        params["limit"] = 2
    if "path" in params:
        directory = tmp_path / "9f27"
        directory.mkdir()
        (directory / "context.jsonl").write_text('{"role": "user", "content": "x"}\n')
        params["path"] = str(tmp_path / "all.md" if name.startswith("session.export") else directory)
    if name == "session.import/with-files":
        params |= {"path": str(tmp_path / "all.zip"), "folders": session.get_state()["files"]["roots"]}
        session.call("session/export", format="native", path=params["path"], withFiles=True)
    if name.endswith("repeated-request-id") and not name.startswith("session.open"):
        server.call(golden["method"], **params)
    return params


def members(value: Any) -> set[str]:
    return set(value or ())


def test_every_golden_is_replayed_or_explained() -> None:
    names = {param.values[0] for param in replayable()}
    assert len(names) > 80
    for name in [*ELSEWHERE, *BEFORE, *OPTIONS]:
        assert (GOLDEN / f"{name}.json").exists(), name
    assert not names & set(ELSEWHERE)


@pytest.mark.parametrize(("name", "golden"), replayable())
def test_the_server_says_what_the_golden_says(
    start: StartServer, editor: Server, tmp_path: Path, name: str, golden: Message
) -> None:
    alone = name in OPTIONS or golden["method"] in ("session/list", "session/latest", "session/listTrash")
    server = start(options=OPTIONS.get(name, {})) if alone else editor
    golden = renamed(golden)
    named = golden["params"].get("sessionId", "")
    session = world(server, named if named.startswith(ID) else f"any-{next(numbers)}")
    if name == "session.open/locked":
        session.call("session/close")
        Session.open(start(at=server.home), session.id)
    BEFORE.get(name, lambda server, session: None)(server, session)
    pending = server.start(golden["method"], **adapted(name, golden, server, session, tmp_path))
    reply = pending.reply()
    if "error" in golden:
        assert "error" in reply, reply
        error, expected = reply["error"], golden["error"]
        assert error["code"] == expected["code"]
        assert members(expected["data"]) <= members(error["data"])
        places = [(problem["loc"], problem["type"]) for problem in error["data"].get("errors", [])]
        assert places == [(problem["loc"], problem["type"]) for problem in expected["data"].get("errors", [])]
    else:
        assert "result" in reply, reply
        if name != "session.open/of-the-original-by-path":
            assert members(golden["result"]) <= members(reply["result"])
        heard = [(m["method"], m["params"].get("kind")) for m in pending.heard() if m["method"] != "$/progress"]
        told = [n for n in golden.get("notifications", []) if n["method"] != "$/progress"]
        assert heard == [(n["method"], n["params"].get("kind")) for n in told]
    return


@pytest.mark.parametrize("name", [path.stem for path in sorted((GOLDEN / "initialize").glob("*.json"))])
def test_initialize_answers_as_its_goldens(start_at: StartServer, tmp_path: Path, name: str) -> None:
    golden = json.loads((GOLDEN / "initialize" / f"{name}.json").read_text())
    server = start_at(tmp_path / "home")
    if name == "twice":
        server.initialize()
    params = {key: value for key, value in golden["params"].items() if key != "processId"}
    params.get("initializationOptions", {}).pop("home", None)
    reply = server.start("initialize", **params).reply()
    if "error" in golden:
        assert reply["error"]["code"] == golden["error"]["code"]
        assert members(golden["error"]["data"]) <= members(reply["error"]["data"])
    else:
        assert members(reply["result"]) == members(golden["result"])
