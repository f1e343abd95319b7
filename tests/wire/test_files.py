"""Snapshots of a session's files: when they are taken, what is said of them, and what can be seen of them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import HEAD, TIME
from tests.support.server import Server
from tests.support.session import Session, assistant, user
from tests.support.workspace import Workspace, listed, work

from timeleap_protocol.limits import MAX_FILE_PART


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "shop")


@pytest.fixture
def server(shared: Server) -> Server:
    return shared


@pytest.fixture
def session(server: Server, workspace: Workspace) -> Session:
    return workspace.open(server)


def restarted(session: Session) -> Session:
    """The session in another process, which owns it."""
    session.call("session/close")
    return session.reopen(session.server.again())


# Settings


def test_a_new_session_keeps_no_files_and_says_so(start: StartServer, home: Path, workspace: Workspace) -> None:
    session = Session.open(start(), workspace=workspace.uri)
    session.checkpoint()
    assert session.get_state()["files"] == {"mode": "off", "roots": [workspace.uri], "snapshots": 0, "bytes": 0}
    assert not (home / "files").exists()
    assert "files" not in session.call("context/listCheckpoints")["checkpoints"][0]


def test_settings_are_told_back_and_survive_a_restart(server: Server, workspace: Workspace) -> None:
    settings = {"exclude": ["*.log"], "includeIgnored": ["a"], "maxFileBytes": 5, "maxFiles": 6}
    session = workspace.open(server, mode="turn", **settings)
    told = {"mode": "turn", "roots": [workspace.uri], "snapshots": 0, "bytes": told_bytes(session), **settings}
    assert session.state["files"] == told
    again = restarted(session)
    assert again.state["files"] == told


def told_bytes(session: Session) -> int:
    return int(session.state["files"]["bytes"])


def test_who_changes_the_mode_alone_keeps_the_rest(server: Server, workspace: Workspace) -> None:
    session = workspace.open(server, exclude=["*.log"], maxFiles=6)
    state = session.reopen(server, files={"mode": "off"}).state["files"]
    assert (state["mode"], state["exclude"], state["maxFiles"]) == ("off", ["*.log"], 6)
    state = session.reopen(server, files={"mode": "turn", "exclude": []}).state["files"]
    assert "exclude" not in state


def test_a_folder_that_is_not_there_stops_nothing_and_is_said(server: Server, tmp_path: Path) -> None:
    session = Session.open(server, workspace=(tmp_path / "gone").as_uri(), files={"mode": "checkpoint"})
    problem = session.state["files"]["problem"]
    assert (problem["kind"], problem["reason"]) == ("filesUnavailable", "rootMissing")
    assert session.checkpoint()["files"] == {"error": problem}


def test_a_session_without_workspace_and_roots_says_what_is_missing(server: Server) -> None:
    session = Session.open(server, files={"mode": "checkpoint"})
    assert session.state["files"]["problem"]["reason"] == "notConfigured"
    assert session.refuse("files/snapshot")["data"]["reason"] == "notConfigured"


# Checkpoints


def test_a_checkpoint_has_a_snapshot_that_its_record_names(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint(label="before")
    assert made["files"] == {
        "snapshot": made["files"]["snapshot"],
        "changed": 0,
        "skipped": 0,
        "ms": made["files"]["ms"],
    }
    assert session.lines()[-1]["_tl"]["w"] == made["files"]
    assert session.call("context/listCheckpoints")["checkpoints"][0]["files"] == made["files"]
    (kept,) = listed(session)
    assert kept == {
        "snapshot": made["files"]["snapshot"],
        "createdAt": TIME,
        "checkpointUid": made["uid"],
        "changed": 0,
    }


def test_listeners_hear_of_the_snapshot_and_then_of_the_checkpoint(session: Session) -> None:
    pending = session.start("context/checkpoint", requestId="r")
    taken, created = pending.heard()
    checkpoint = pending.result()["checkpoint"]
    assert taken["method"] == "files/didSnapshot"
    assert taken["params"] == {
        "sessionId": session.id, "snapshot": checkpoint["files"]["snapshot"], "createdAt": TIME, "changed": 0, "skipped": 0,
        "checkpointUid": checkpoint["uid"], "cause": created["params"]["cause"],
    }  # fmt: skip
    assert created["params"]["checkpoint"] == checkpoint


@pytest.mark.parametrize(
    ("mode", "files", "has"), [("checkpoint", False, False), ("off", True, True), ("off", None, False)]
)
def test_a_request_can_ask_for_a_snapshot_or_for_none(
    server: Server, workspace: Workspace, mode: str, files: bool | None, has: bool
) -> None:
    session = workspace.open(server, mode=mode)
    assert ("files" in session.checkpoint(files=files)) is has


def test_checkpoints_that_the_server_writes_have_snapshots_too(session: Session, server: Server) -> None:
    session.reopen(server, autoCheckpoint="step")
    session.append(user("a"), assistant("b"))
    first, second = session.call("context/listCheckpoints")["checkpoints"]
    assert first["files"] == second["files"]
    assert len(listed(session)) == 1


def test_checkpoints_among_the_items_of_an_append_have_snapshots_too(session: Session) -> None:
    session.append({"checkpoint": {"label": "x"}}, user("a"), {"checkpoint": {}}, user("b"))
    first, second = session.call("context/listCheckpoints")["checkpoints"]
    assert first["files"] == second["files"]
    assert len(listed(session)) == 1
    session.append({"tokenCount": 5}, user("c"))
    assert len(listed(session)) == 1


def test_what_is_appended_behind_a_checkpoint_waits_and_keeps_its_place(session: Session) -> None:
    first = session.start("context/checkpoint")
    later = [session.start("context/appendMessage", message=user(str(number))) for number in range(3)]
    assert [pending.result()["firstIndex"] for pending in later] == [0, 1, 2]
    assert first.result()["checkpoint"]["messageCount"] == 0


def test_a_repeated_checkpoint_takes_no_second_snapshot(session: Session, server: Server) -> None:
    first = session.call("context/checkpoint", requestId="r")
    assert session.call("context/checkpoint", requestId="r") == {**first, "duplicate": True}
    again = restarted(session)
    assert again.call("context/checkpoint", requestId="r")["checkpoint"] == first["checkpoint"]
    assert len(listed(again)) == 1


def test_a_stale_head_takes_no_snapshot(session: Session) -> None:
    head = session.head
    session.say("a")
    assert session.refuse("context/checkpoint", expectedHead=head)["code"] == -32801
    assert listed(session) == []


# Turns


def test_the_end_of_a_turn_has_a_snapshot_and_a_call_of_tools_has_none(server: Server, workspace: Workspace) -> None:
    session = workspace.open(server, mode="turn")
    call = {"type": "function", "id": "c", "function": {"name": "look", "arguments": "{}"}}
    session.append(user("go"))
    session.append({"role": "assistant", "content": "", "tool_calls": [call]})
    session.append({"role": "tool", "content": "x", "tool_call_id": "c"})
    assert listed(session) == []
    pending = session.start("context/appendMessage", message=assistant("done"))
    assert [heard["method"] for heard in pending.heard()] == ["context/didChange", "files/didSnapshot"]
    assert [kept.keys() for kept in listed(session)] == [{"snapshot", "createdAt", "changed"}]


def test_the_end_of_a_turn_that_cannot_be_kept_is_a_warning(server: Server, tmp_path: Path) -> None:
    session = Session.open(server, workspace=(tmp_path / "gone").as_uri(), files={"mode": "turn"})
    pending = session.start("context/appendMessage", message=assistant("done"))
    warning = pending.heard()[-1]
    assert (warning["method"], warning["params"]["kind"]) == ("session/warning", "filesNotKept")
    assert (pending.result()["messageCount"], "gone" in warning["params"]["message"]) == (1, True)


# On request


def test_a_snapshot_on_request_says_what_it_skipped(session: Session, workspace: Workspace) -> None:
    os.mkfifo(workspace.folder / "pipe")
    result = session.call("files/snapshot", label="mine")
    assert result == {
        "head": HEAD, "snapshot": result["snapshot"], "changed": 0, "skipped": [{"path": "pipe", "reason": "special"}],
    }  # fmt: skip
    assert listed(session)[0]["label"] == "mine"


def test_a_repeated_snapshot_is_the_same_over_a_restart(session: Session, server: Server) -> None:
    first = session.call("files/snapshot", requestId="r")
    assert session.call("files/snapshot", requestId="r") == {**first, "duplicate": True}
    again = restarted(session)
    assert again.call("files/snapshot", requestId="r")["snapshot"] == first["snapshot"]
    assert again.refuse("files/snapshot", requestId="r", label="other")["code"] == -32602


def test_snapshots_come_in_pages(session: Session) -> None:
    made = [session.call("files/snapshot")["snapshot"] for _ in range(3)]
    page = session.call("files/list", limit=2)
    rest = session.call("files/list", limit=2, cursor=page["nextCursor"])
    assert [kept["snapshot"] for kept in [*page["snapshots"], *rest["snapshots"]]] == made[::-1]
    assert "nextCursor" not in rest
    assert session.refuse("files/list", cursor="x")["data"]["errors"][0]["loc"] == ["cursor"]


# Differences


def test_a_difference_names_each_path_with_its_kind_and_sizes(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    (workspace.folder / "src").mkdir(exist_ok=True)
    os.symlink("login.py", workspace.folder / "link")
    changes = session.call("files/diff", **{"from": {"checkpointUid": made["uid"]}, "to": {}})["changes"]
    shown = {change["path"]: (change["kind"], change.get("bytesFrom"), change.get("bytesTo")) for change in changes}
    assert shown == {
        "link": ("added", None, 8),
        "login.py": ("modified", 13, 25),
        "new done": ("added", None, 4),
        "src/shop.py": ("deleted", 10, None),
    }


def test_differences_come_in_pages_that_go_on_behind_a_path(session: Session, workspace: Workspace) -> None:
    before = session.call("files/snapshot")["snapshot"]
    for number in range(5):
        workspace.write(f"file{number}", "x")
    after = session.call("files/snapshot")["snapshot"]
    sides = {"from": {"snapshot": before}, "to": {"snapshot": after}}
    page = session.call("files/diff", limit=3, **sides)
    rest = session.call("files/diff", limit=3, cursor=page["nextCursor"], **sides)
    assert [change["path"] for change in [*page["changes"], *rest["changes"]]] == [f"file{n}" for n in range(5)]
    assert "nextCursor" not in rest
    turned = {"from": sides["to"], "to": sides["from"], "cursor": page["nextCursor"]}
    assert session.refuse("files/diff", **turned)["data"]["errors"][0]["loc"] == ["cursor"]


def test_a_folder_alone_can_be_compared(session: Session, workspace: Workspace) -> None:
    before = session.call("files/snapshot")["snapshot"]
    work(session, workspace)
    changes = session.call("files/diff", path="src/", **{"from": {"snapshot": before}, "to": {}})["changes"]
    assert [change["path"] for change in changes] == ["src/shop.py"]


def test_a_file_is_read_as_it_was(session: Session, workspace: Workspace) -> None:
    os.chmod(workspace.folder / "login.py", 0o640)
    before = session.call("files/snapshot")["snapshot"]
    work(session, workspace)
    whole = session.call("files/read", snapshot=before, path="login.py")
    assert whole == {"content": base64.b64encode(b"def login():\n").decode(), "bytes": 13, "mode": 0o100640}
    part = session.call("files/read", snapshot=before, path="login.py", offset=4, length=5)
    assert (base64.b64decode(part["content"]), part["bytes"]) == (b"login", 13)
    assert session.call("files/read", snapshot=before, path="login.py", offset=99)["content"] == ""


@pytest.mark.parametrize("length", [0, MAX_FILE_PART + 1])
def test_a_part_has_a_length_that_a_reply_can_hold(session: Session, length: int) -> None:
    error = session.refuse("files/read", snapshot="f1-000000000000", path="a", length=length)
    assert error["data"]["errors"][0]["loc"] == ["length"]


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../b", ".", "", "a//b", "a\0b", "x" * 4097])
def test_a_path_that_leads_out_of_its_root_is_refused(session: Session, path: str) -> None:
    snapshot = session.call("files/snapshot")["snapshot"]
    error = session.refuse("files/read", snapshot=snapshot, path=path)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["path"])


def test_a_path_that_the_snapshot_has_not_is_refused(session: Session) -> None:
    snapshot = session.call("files/snapshot")["snapshot"]
    for path in ("nothing", "src"):
        assert session.refuse("files/read", snapshot=snapshot, path=path)["data"]["errors"][0]["loc"] == ["path"]


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_not_utf_8_goes_there_and_back(session: Session, workspace: Workspace) -> None:
    (workspace.folder / os.fsdecode(b"caf\xe9 50%")).write_bytes(b"x")
    before = session.call("files/snapshot")["snapshot"]
    (workspace.folder / os.fsdecode(b"caf\xe9 50%")).unlink()
    (change,) = session.call("files/diff", **{"from": {"snapshot": before}, "to": {}})["changes"]
    assert (change["path"], change["pathEncoding"]) == ("caf%E9%2050%25", "percent")
    named = {"path": change["path"], "pathEncoding": "percent"}
    assert session.call("files/read", snapshot=before, **named)["bytes"] == 1
    assert len(session.call("files/diff", **{"from": {"snapshot": before}, "to": {}}, **named)["changes"]) == 1
    assert session.refuse("files/read", snapshot=before, path=change["path"])["code"] == -32602


# Errors


def test_a_session_that_keeps_no_files_says_how_to_begin(server: Server, workspace: Workspace) -> None:
    session = Session.open(server, workspace=workspace.uri)
    read = {"snapshot": "f1-000000000000", "path": "a"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("files/snapshot", {}),
        ("files/list", {}),
        ("files/read", read),
        ("files/restore", {"to": {"snapshot": "f1"}}),
    ]
    for method, params in asked:
        error = session.refuse(method, **params)
        assert (error["code"], error["data"]["reason"]) == (4020, "notConfigured")
        assert "mode" in error["message"]
    assert session.checkpoint(files=True)["files"]["error"]["reason"] == "notConfigured"


@pytest.mark.parametrize("snapshot", ["f99-000000000000", "f1-ffffffffffff", "nonsense", "f" + "9" * 300])
def test_a_snapshot_that_is_not_there_is_named(session: Session, snapshot: str) -> None:
    session.call("files/snapshot")
    for method, params in (
        ("files/read", {"snapshot": snapshot, "path": "login.py"}),
        ("files/diff", {"from": {"snapshot": snapshot}, "to": {}}),
        ("files/restore", {"to": {"snapshot": snapshot}}),
    ):
        assert session.refuse(method, **params)["code"] == 4025


def test_a_checkpoint_without_a_snapshot_is_told_from_one_that_never_was(session: Session) -> None:
    plain = session.checkpoint(files=False)
    assert session.refuse("files/restore", to={"checkpointUid": plain["uid"]})["code"] == 4025
    assert session.refuse("files/restore", to={"checkpointUid": "c7-0123456789ab"})["code"] == 4002


def test_the_snapshot_of_a_checkpoint_that_is_gone_is_found(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    session.call("context/revertTo", checkpointUid=made["uid"])
    work(session, workspace)
    assert session.call("files/restore", to={"checkpointUid": made["uid"]})["files"]["modified"] == 1


def test_too_many_files_are_refused_with_their_number(server: Server, workspace: Workspace) -> None:
    session = workspace.open(server, maxFiles=1)
    error = session.refuse("files/snapshot")
    assert (error["code"], error["data"]["limit"]) == (4023, 1)
    assert session.checkpoint()["files"]["error"]["kind"] == "filesTooLarge"


def test_no_git_is_no_end(start: StartServer, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    session = workspace.open(start(env={"PATH": str(tmp_path / "bin")}))
    assert session.state["files"]["problem"]["reason"] == "noGit"
    made = session.checkpoint()
    assert made["files"]["error"]["reason"] == "noGit"
    assert session.refuse("files/snapshot")["data"]["reason"] == "noGit"
    assert session.call("context/revertTo", checkpointUid=made["uid"])["removed"]["checkpoints"] == 1


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"mode": "sometimes"}, ["files", "mode"]),
        ({}, ["files", "mode"]),
        ({"mode": "turn", "maxFiles": 0}, ["files", "maxFiles"]),
        ({"mode": "turn", "maxFileBytes": -1}, ["files", "maxFileBytes"]),
        ({"mode": "turn", "more": 1}, ["files", "more"]),
        ({"mode": "turn", "roots": ["https://example.com/x"]}, ["files", "roots", 0]),
        ({"mode": "turn", "roots": ["file:///w"] * 17}, ["files", "roots"]),
        ({"mode": "turn", "exclude": ["a", "b\nc"]}, ["files", "exclude", 1]),
        ({"mode": "turn", "includeIgnored": ["x"] * 1001}, ["files", "includeIgnored"]),
    ],
)
def test_settings_that_cannot_be_are_refused_and_no_session_is_made(
    server: Server, files: dict[str, Any], place: list[Any]
) -> None:
    error = server.refuse("session/open", sessionId="never-made", files=files)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, place)
    assert server.refuse("session/open", sessionId="never-made", create=False)["code"] == 4001


# Checkpoints that come with other changes


def test_the_checkpoint_before_a_dmail_has_the_files_of_its_moment(session: Session, workspace: Workspace) -> None:
    target = session.checkpoint()
    work(session, workspace)
    session.call("context/sendDMail", checkpointUid=target["uid"], message="do not")
    made = session.call("context/deliverDMail")["checkpoint"]
    read = session.call("files/read", snapshot=made["files"]["snapshot"], path="new done")
    assert (read["bytes"], listed(session)[0]["checkpointUid"]) == (4, made["uid"])
    assert session.call("context/listCheckpoints")["checkpoints"][0]["files"] == made["files"]


def test_a_dmail_that_takes_the_files_along_leaves_them_as_they_were_there(
    session: Session, workspace: Workspace
) -> None:
    before, target = workspace.tree, session.checkpoint()
    work(session, workspace)
    session.call("context/sendDMail", checkpointUid=target["uid"], message="do not")
    made = session.call("context/deliverDMail", restore="both")["checkpoint"]
    assert (workspace.tree, made["files"]["snapshot"]) == (before, target["files"]["snapshot"])


def test_the_checkpoint_of_a_compaction_has_a_snapshot(session: Session) -> None:
    session.say(*("word " * 200 for _ in range(6)))
    session.call("context/compact", summary="short")
    (made,) = session.call("context/listCheckpoints")["checkpoints"]
    assert listed(session)[0]["snapshot"] == made["files"]["snapshot"]


# Forks


def test_a_fork_begins_with_the_snapshots_of_its_parent(session: Session, workspace: Workspace) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    session.call("files/snapshot")
    fork = Session(session.server, session.call("session/fork"))
    assert (fork.state["files"]["mode"], listed(fork)) == ("checkpoint", listed(session))
    fork.call("context/revertTo", checkpointUid=made["uid"], restore="both")
    assert workspace.tree == before
    assert len(listed(fork)) == len(listed(session)) + 2
    assert fork.checkpoint()["files"]["changed"] == 0


def test_the_snapshots_of_a_fork_outlive_its_parent(session: Session, workspace: Workspace) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    fork = Session(session.server, session.call("session/fork"))
    session.call("session/delete")
    session.server.call("session/purge", sessionId=session.id)
    fork.call("files/restore", to={"checkpointUid": made["uid"]})
    assert workspace.tree == before
