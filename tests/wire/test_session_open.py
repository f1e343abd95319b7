"""`session/open` and `session/close`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import Engine, StartServer
from tests.support.matching import A_BOOL, A_STRING, HEAD, TIME, UID, at_least
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user

FRESH_CONTEXT: Message = {
    "messageCount": 0,
    "tokenCount": 0,
    "tokenCountWithPending": 0,
    "nCheckpoints": 0,
    "checkpoints": [],
    "checkpointsOmitted": 0,
    "systemPrompt": None,
    "logBytes": 0,
    "timelines": 0,
    "canUndo": 0,
    "canRedo": 0,
    "shouldCompact": False,
}
NO_SNAPSHOTS = {"mode": "off", "roots": [], "snapshots": 0, "bytes": 0}


def foreign_directory(parent: Path, name: str = "0a1b2c", **files: str) -> Path:
    """A session directory as the original program writes it."""
    directory = parent / name
    directory.mkdir(parents=True)
    lines: list[Message] = [
        {"role": "_system_prompt", "content": "be kind"},
        {"role": "_checkpoint", "id": 0},
        user("hello there"),
        {"role": "assistant", "content": [{"type": "think", "think": "hm"}, {"type": "text", "text": "hi"}]},
        {"role": "_usage", "token_count": 12},
        {"role": "_checkpoint", "id": 1},
        user("12345678"),
    ]
    (directory / "context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for file, text in files.items():
        (directory / file.replace("__", ".")).write_text(text)
    return directory


def test_a_new_session_is_empty_and_ours(server: Server, engine: Engine) -> None:
    state = server.call("session/open", sessionId="fresh-1")
    assert state == {
        "sessionId": "fresh-1",
        "title": None,
        "path": str(server.home / "sessions" / "fresh-1") if engine == "jsonl" else A_STRING,
        "archived": False,
        "access": "owner",
        "head": HEAD,
        "context": FRESH_CONTEXT,
        "budget": {"maxContextSize": None, "reservedContextSize": 50_000, "triggerRatio": 0.85},
        "approval": {"yolo": False, "afk": False, "autoApproveActions": [], "sealed": A_BOOL},
        "dynamicSubagents": [],
        "pendingDMail": None,
        **({"files": NO_SNAPSHOTS} if engine == "jsonl" else {}),
        "warnings": [],
    }
    assert server.call("session/getState", sessionId="fresh-1") == state


def test_title_prompt_and_workspace_are_used_on_creation(server: Server) -> None:
    creation = {"title": "T", "systemPrompt": "be brief", "workspace": "file:///w%20x"}
    state = server.call("session/open", sessionId="made", **creation)
    assert (state["title"], state["workspace"], state["context"]["systemPrompt"]) == ("T", "file:///w%20x", "be brief")
    assert Session(server, state).lines() == [at_least({"role": "_system_prompt", "content": "be brief"})]
    other = {"title": "U", "systemPrompt": "be long", "workspace": "file:///other"}
    again = server.call("session/open", sessionId="made", **other)
    assert again == state


def test_ids_are_generated_and_differ(server: Server) -> None:
    ids = {server.call("session/open")["sessionId"] for _ in range(20)}
    assert len(ids) == 20


def test_an_unknown_id_is_not_created_when_that_is_not_wanted(server: Server) -> None:
    error = server.refuse("session/open", sessionId="never-made", create=False)
    assert (error["code"], error["data"]["kind"]) == (4001, "sessionNotFound")
    assert not (server.home / "sessions" / "never-made").exists()


def test_reading_an_unknown_id_does_not_create_it(server: Server) -> None:
    assert server.refuse("session/open", sessionId="never-read", create=False, access="readOnly")["code"] == 4001
    assert server.refuse("session/getState", sessionId="never-read")["code"] == 4001
    assert not (server.home / "sessions" / "never-read").exists()


def test_opening_twice_is_the_same_session_and_is_counted(server: Server, session: Session) -> None:
    again = session.reopen(server)
    assert again.state == session.get_state()
    assert session.call("session/close") == {}
    again.say("still open")
    assert session.call("session/close") == {}
    assert session.refuse("context/appendMessage", message=user("x"))["code"] == 4013
    assert session.refuse("session/close")["code"] == 4013


def test_opening_again_with_another_access_is_refused(server: Server, session: Session) -> None:
    error = server.refuse("session/open", sessionId=session.id, access="readOnly")
    assert error["code"] == -32602
    session.call("session/close")
    reader = session.reopen(server, access="readOnly")
    assert reader.state["access"] == "readOnly"
    assert server.refuse("session/open", sessionId=session.id, access="write")["code"] == -32602


def test_what_needs_an_open_session_says_so(server: Server, session: Session) -> None:
    session.say("x")
    session.call("session/close")
    for method, params in OPEN_ONLY.items():
        error = session.refuse(method, **params)
        assert (error["code"], error["data"]["kind"]) == (4013, "sessionNotOpen"), (method, error)
        error = server.refuse(method, sessionId="nobody", **params)
        assert (error["code"], error["data"]["kind"]) == (4001, "sessionNotFound"), (method, error)


OPEN_ONLY: dict[str, dict[str, Any]] = {
    "session/close": {},
    "session/setYolo": {"yolo": True},
    "session/setAutoApprove": {"action": "a", "enabled": True},
    "session/isApproved": {"action": "a"},
    "session/putSubagent": {"name": "a", "systemPrompt": "x"},
    "session/removeSubagent": {"name": "a"},
    "session/setTitle": {"title": "t"},
    "session/reload": {},
    "context/appendMessage": {"message": user("x")},
    "context/updateTokenCount": {"tokenCount": 1},
    "context/listUsage": {},
    "context/setSystemPrompt": {"systemPrompt": "x"},
    "context/checkpoint": {},
    "context/listCheckpoints": {},
    "context/revertTo": {"checkpointId": 0},
    "context/clear": {},
    "context/getHistory": {},
    "context/getRecords": {},
    "context/listTimelines": {},
    "context/restoreTimeline": {"timelineId": "context_1"},
    "context/compact": {},
    "context/prepareCompaction": {},
    "context/sendDMail": {"checkpointId": 0, "message": "x"},
    "context/deliverDMail": {},
    "context/cancelDMail": {},
}
MUTATING = [
    *(name for name in OPEN_ONLY if name.startswith("context/") and ".get" not in name and "list" not in name),
    *["session/setYolo", "session/setAutoApprove", "session/putSubagent", "session/removeSubagent", "session/setTitle"],
]


def test_a_read_only_session_refuses_every_change(server: Server, session: Session) -> None:
    session.say("x")
    session.checkpoint()
    session.call("session/close")
    before = session.log.read_bytes()
    reader = session.reopen(server, access="readOnly")
    assert reader.state["access"] == "readOnly"
    for method in MUTATING:
        if method in ("context/getHistory", "context/getRecords", "context/prepareCompaction"):
            continue
        error = reader.refuse(method, **OPEN_ONLY[method])
        assert (error["code"], error["data"]["kind"]) == (4004, "readOnly"), (method, error)
    assert reader.texts() == ["x"]
    assert session.log.read_bytes() == before


def test_get_state_works_on_a_session_that_is_not_open(server: Server, session: Session) -> None:
    session.say("hello")
    checkpoint = session.checkpoint(label="L")
    state = session.get_state()
    session.call("session/close")
    closed = server.call("session/getState", sessionId=session.id)
    assert closed == {**state, "access": closed["access"]}
    assert closed["context"]["checkpoints"] == [
        {**checkpoint, "summary": {"kind": "empty", "text": "", "messages": 0}, "name": "L"}
    ]


# by path


def test_a_session_of_the_original_opens_by_path_to_be_read(server: Server, engine: Engine, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path)
    before = sorted((path.name, path.read_bytes()) for path in directory.iterdir())
    state = server.call("session/open", path=str(directory))
    assert state == {
        "sessionId": "0a1b2c",
        "title": None,
        "path": str(directory),
        "archived": False,
        "access": "readOnly",
        "head": HEAD,
        "context": {
            **FRESH_CONTEXT,
            "messageCount": 3,
            "tokenCount": 12,
            "tokenCountWithPending": 14,
            "nCheckpoints": 2,
            "checkpoints": [
                at_least({"id": 0, "uid": UID, "messageCount": 0, "tokenCount": 0, "preview": "hello there"}),
                at_least({"id": 1, "uid": UID, "messageCount": 2, "tokenCount": 12, "preview": "12345678"}),
            ],
            "systemPrompt": "be kind",
            "logBytes": (directory / "context.jsonl").stat().st_size,
        },
        "budget": {"maxContextSize": None, "reservedContextSize": 50_000, "triggerRatio": 0.85},
        "approval": {"yolo": False, "afk": False, "autoApproveActions": [], "sealed": A_BOOL},
        "dynamicSubagents": [],
        "pendingDMail": None,
        **({"files": NO_SNAPSHOTS} if engine == "jsonl" else {}),
        "warnings": [],
    }
    assert sorted((path.name, path.read_bytes()) for path in directory.iterdir()) == before
    server.call("session/close", sessionId="0a1b2c")


def test_a_session_opened_by_path_can_be_written_on_request(server: Server, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path, "writable")
    before = (directory / "context.jsonl").read_bytes()
    session = Session(server, server.call("session/open", path=str(directory), access="write"))
    session.append(assistant("appended"))
    assert (directory / "context.jsonl").read_bytes() == before + b'{"role":"assistant","content":"appended"}\n'
    assert session.history()[-1] == assistant("appended")
    session.call("session/close")


def test_a_session_of_the_store_opens_by_path_to_be_written(server: Server, session: Session) -> None:
    session.call("session/close")
    state = server.call("session/open", path=str(session.path))
    assert (state["sessionId"], state["access"]) == (session.id, "owner")


def test_sessions_opened_by_path_are_listed_while_open(server: Server, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path, "listed-by-path")
    listed = lambda: [s["sessionId"] for s in server.call("session/list", limit=1000)["sessions"]]  # noqa: E731
    server.call("session/open", path=str(directory))
    assert "listed-by-path" in listed()
    server.call("session/close", sessionId="listed-by-path")
    assert "listed-by-path" not in listed()


def test_a_directory_whose_name_is_no_good_id_or_taken_gets_a_generated_one(server: Server, tmp_path: Path) -> None:
    odd = server.call("session/open", path=str(foreign_directory(tmp_path, "no good id")))
    assert odd["sessionId"] != "no good id"
    server.call("session/open", sessionId="taken-name")
    taken = server.call("session/open", path=str(foreign_directory(tmp_path, "taken-name")))
    assert taken["sessionId"] not in ("taken-name", odd["sessionId"])
    assert server.call("session/getState", sessionId=taken["sessionId"])["path"] == str(tmp_path / "taken-name")


def test_opening_one_path_twice_is_the_same_session(server: Server, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path, "twice-by-path")
    first = server.call("session/open", path=str(directory))
    assert server.call("session/open", path=str(directory) + os.sep)["sessionId"] == first["sessionId"]


@pytest.mark.parametrize("path", ["relative/path", ".", "", "~", "no\x00good"])
def test_a_path_that_is_not_absolute_is_refused(server: Server, path: str) -> None:
    error = server.refuse("session/open", path=path)
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["path"]]


def test_a_path_without_a_session_is_not_found_and_nothing_is_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "missing", tmp_path / "empty", tmp_path / "file"):
        error = server.refuse("session/open", path=str(path))
        assert error["code"] in (4001, -32602), (path, error)
    assert list((tmp_path / "empty").iterdir()) == [] and not (tmp_path / "missing").exists()


def test_id_and_path_together_are_refused_or_agree(server: Server, session: Session) -> None:
    reply = server.start("session/open", sessionId="other-name", path=str(session.path)).reply()
    if "error" in reply:
        assert reply["error"]["code"] in (-32602, 4016)
    else:
        assert reply["result"]["path"] == session.state["path"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("access", "admin"),
        ("access", 1),
        ("attach", "yes"),
        ("create", 1),
        ("title", 5),
        ("systemPrompt", ["x"]),
        ("workspace", {}),
        ("autoCheckpoint", "sometimes"),
        ("autoCheckpoint", True),
        ("path", 5),
        ("requestId", 5),
    ],
)
def test_a_param_of_the_wrong_type_is_refused_by_name(server: Server, name: str, value: Any) -> None:
    error = server.refuse("session/open", **{name: value})
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [[name]]


def test_approvals_of_a_foreign_session_are_off(server: Server, tmp_path: Path) -> None:
    state = {
        "version": 1,
        "approval": {"yolo": True, "afk": True, "auto_approve_actions": ["run shell command"]},
        "custom_title": "mine",
        "future": {"a": 1},
    }
    directory = foreign_directory(tmp_path, "was-yolo", state__json=json.dumps(state))
    opened = server.call("session/open", path=str(directory), access="write")
    assert opened["approval"] == at_least({"yolo": False, "afk": False, "autoApproveActions": []})
    assert opened["title"] == "mine"
    assert [warning["kind"] for warning in opened["warnings"]] == [A_STRING]
    assert server.call("session/isApproved", sessionId="was-yolo", action="run shell command") == {
        "approved": False,
        "reason": "notApproved",
    }
    server.call("session/setTitle", sessionId="was-yolo", title="other")
    kept = json.loads((directory / "state.json").read_text())
    assert kept["future"] == {"a": 1} and kept["custom_title"] == "other"


# files


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
def test_files_are_private_whatever_the_umask(start: StartServer, mask: int) -> None:
    previous = os.umask(mask)
    try:
        server = start(wrapper=("sh", "-c", f'umask {mask:03o}; exec "$@"', "sh"))
    finally:
        os.umask(previous)
    session = Session.open(server, "s", systemPrompt="x")
    session.say("a")
    session.checkpoint()
    session.call("session/setYolo", yolo=True)
    session.call("session/putSubagent", name="a", systemPrompt="x")
    session.call("context/revertTo", checkpointId=0, requestId="r")
    session.call("context/clear")
    session.call("session/fork", newSessionId="f")
    server.call("session/delete", sessionId="f")
    for path in [server.home, *server.home.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert path.stat().st_mode & 0o777 == expected, path


def test_auto_checkpoint_stays_until_set_otherwise(server: Server) -> None:
    session = Session.open(server, "auto", autoCheckpoint="turn")
    session.append(user("first question of many words"))
    session.append(assistant("a"))
    session.append(user("more"), user("of the same turn"))
    counts = [(c["id"], c["messageCount"], c["label"]) for c in session.get_state()["context"]["checkpoints"]]
    assert [(identity, count) for identity, count, _ in counts] == [(0, 0), (1, 2)]
    assert "first question of many words".startswith(counts[0][2].rstrip("…. "))
    session.call("session/close")
    session.reopen(server)
    session.append(assistant("b"))
    session.append(user("again"))
    assert session.get_state()["context"]["nCheckpoints"] == 3
    session.call("session/close")
    session.reopen(server, autoCheckpoint="off")
    session.append(assistant("c"))
    session.append(user("no checkpoint"))
    assert session.get_state()["context"]["nCheckpoints"] == 3


def test_with_steps_each_reply_has_a_checkpoint_before_it(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "steps", autoCheckpoint="step")
    session.append(user("look"))
    call = {"type": "function", "id": "call_1", "function": {"name": "ls", "arguments": "{}"}}
    session.append({"role": "assistant", "content": None, "tool_calls": [call]})
    session.append({"role": "tool", "tool_call_id": "call_1", "content": "a b"}, assistant("two files"), user("thanks"))
    session.append(assistant("welcome"), assistant("bye"))
    found = [(c["messageCount"], c.get("label")) for c in session.get_state()["context"]["checkpoints"]]
    assert found == [(0, "look"), (1, None), (3, "two files"), (4, "thanks"), (5, "welcome"), (6, "bye")]
    server.kill()
    session = Session.open(start(), "steps")
    session.append(assistant("still"))
    assert session.get_state()["context"]["nCheckpoints"] == 7
    session.reopen(session.server, autoCheckpoint="turn")
    session.append(assistant("no more"))
    assert session.get_state()["context"]["nCheckpoints"] == 7


def test_auto_checkpoint_survives_a_restart(start: StartServer) -> None:
    first = start()
    Session.open(first, "auto", autoCheckpoint="turn").append(user("a"))
    first.kill()
    session = Session.open(start(), "auto")
    session.append(assistant("b"))
    session.append(user("c"))
    assert session.get_state()["context"]["nCheckpoints"] == 2


def test_a_checkpoint_comes_with_a_time_of_its_own(session: Session) -> None:
    assert session.checkpoint() == {"id": 0, "uid": UID, "createdAt": TIME, "messageCount": 0, "tokenCount": 0}
