"""`session/setYolo`, `session/setAutoApprove`, `session/isApproved`, the seal and the audit file (G9)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING, TIME, at_least
from tests.support.server import Server
from tests.support.session import Session

OFF = {"yolo": False, "afk": False, "autoApproveActions": []}
OFF_IN_FILE = {"yolo": False, "afk": False, "auto_approve_actions": []}


def test_yolo_goes_on_and_off_and_leaves_the_head(session: Session) -> None:
    session.say("x")
    head = session.head
    on = session.call("session/setYolo", yolo=True)
    assert on == {
        "head": head,
        "approval": {**OFF, "yolo": True, "sealed": True, "changedAt": TIME, "changedBy": A_STRING},
    }
    assert session.get_state()["approval"] == on["approval"]
    assert session.call("session/isApproved", action="anything") == {"approved": True, "reason": "yolo"}
    off = session.call("session/setYolo", yolo=False)
    assert (off["head"], off["approval"]["yolo"]) == (head, False)
    assert session.call("session/isApproved", action="anything") == {"approved": False, "reason": "notApproved"}


@pytest.mark.parametrize(
    ("method", "said", "edited"),
    [
        ("session/setYolo", {"yolo": False}, {"yolo": True}),
        ("session/setAfk", {"afk": False}, {"afk": True}),
        ("session/setAutoApprove", {"action": "run", "enabled": False}, {"auto_approve_actions": ["run"]}),
        ("session/setYolo", {"yolo": False}, {"auto_approve_actions": ["rm"], "afk": True}),
    ],
)
def test_the_file_says_what_was_said_last_though_somebody_edited_it_meanwhile(
    session: Session, method: str, said: dict[str, Any], edited: dict[str, Any]
) -> None:
    session.call("session/setYolo", yolo=True)
    session.call("session/setYolo", yolo=False)
    state = json.loads(session.file_bytes("state.json"))
    state["approval"] |= edited
    session.put_file("state.json", json.dumps(state).encode())
    assert session.call(method, **said)["approval"]["yolo"] is False
    filed = json.loads(session.file_bytes("state.json"))["approval"]
    assert {**filed, **OFF_IN_FILE} == filed


def test_actions_are_a_sorted_set(session: Session) -> None:
    for action in ("write", "run", "écrire", "write", "a b"):
        session.call("session/setAutoApprove", action=action, enabled=True)
    assert session.get_state()["approval"]["autoApproveActions"] == ["a b", "run", "write", "écrire"]
    assert session.call("session/isApproved", action="run") == {"approved": True, "reason": "autoApprove"}
    assert session.call("session/isApproved", action="Run") == {"approved": False, "reason": "notApproved"}
    session.call("session/setAutoApprove", action="run", enabled=False)
    session.call("session/setAutoApprove", action="never there", enabled=False)
    assert session.get_state()["approval"]["autoApproveActions"] == ["a b", "write", "écrire"]


def test_yolo_is_named_before_the_action(session: Session) -> None:
    session.call("session/setAutoApprove", action="run", enabled=True)
    session.call("session/setYolo", yolo=True)
    assert session.call("session/isApproved", action="run")["reason"] == "yolo"


@pytest.mark.parametrize("yolo", [1, 0, "true", None, [], 1.0])
def test_yolo_is_a_boolean_and_nothing_else(session: Session, yolo: Any) -> None:
    error = session.refuse("session/setYolo", yolo=yolo)
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["yolo"]]
    assert session.get_state()["approval"] == at_least(OFF)


def test_approvals_survive_a_restart(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.call("session/setYolo", yolo=True)
    session.call("session/setAutoApprove", action="run", enabled=True)
    approval = session.get_state()["approval"]
    first.kill()
    state = start().call("session/open", sessionId="s")
    assert (state["approval"], state["warnings"]) == (approval, [])


def test_the_original_finds_them_where_it_looks(session: Session) -> None:
    session.call("session/setYolo", yolo=True)
    session.call("session/setAutoApprove", action="b", enabled=True)
    session.call("session/setAutoApprove", action="a", enabled=True)
    approval = json.loads((session.path / "state.json").read_text())["approval"]
    assert approval == at_least({"yolo": True, "auto_approve_actions": ["a", "b"]})


def edit_state(session: Session, change: Any) -> None:
    path = session.path / "state.json"
    state = json.loads(path.read_text()) if path.exists() else {"version": 1, "approval": {}}
    change(state)
    path.write_text(json.dumps(state))


@pytest.mark.parametrize("field", ["yolo", "afk", "auto_approve_actions"])
def test_an_edited_state_file_switches_nothing_on_and_says_so(start: StartServer, field: str) -> None:
    first = start()
    session = Session.open(first, "s", title="kept")
    session.call("session/setAutoApprove", action="a", enabled=True)
    first.kill()
    edit_state(session, lambda s: s["approval"].update({field: ["a", "rm -rf"] if "actions" in field else True}))
    second = start()
    state = second.call("session/open", sessionId="s")
    assert state["approval"] == at_least({**OFF, "sealed": False})
    assert state["title"] == "kept"
    assert len(state["warnings"]) == 1
    assert Session(second, state).call("session/isApproved", action="a")["approved"] is False


def test_a_state_copied_from_another_session_switches_nothing_on(start: StartServer) -> None:
    first = start()
    source, target = Session.open(first, "source"), Session.open(first, "target")
    source.call("session/setYolo", yolo=True)
    target.call("session/setYolo", yolo=False)
    first.kill()
    for name in ("state.json", "timeleap.json"):
        if name == "state.json":
            shutil.copy(source.path / name, target.path / name)
    assert start().call("session/open", sessionId="target")["approval"] == at_least(OFF)


def test_a_whole_session_copied_switches_nothing_on(start: StartServer) -> None:
    first = start()
    source = Session.open(first, "source")
    source.say("x")
    source.call("session/setYolo", yolo=True)
    first.kill()
    shutil.copytree(source.path, source.path.parent / "copied")
    second = start()
    copied = Session.open(second, "copied")
    assert copied.texts() == ["x"]
    both = [Session.open(second, "source").get_state()["approval"]["yolo"], copied.get_state()["approval"]["yolo"]]
    assert both[1] is False, both


def test_a_state_put_back_from_earlier_switches_nothing_on(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.call("session/setYolo", yolo=True)
    earlier = {path.name: path.read_bytes() for path in session.path.iterdir() if path.is_file()}
    session.call("session/setYolo", yolo=False)
    first.kill()
    for name in ("state.json", "timeleap.json"):
        if name in earlier:
            (session.path / name).write_bytes(earlier[name])
    assert start().call("session/open", sessionId="s")["approval"] == at_least(OFF)


def test_another_user_s_key_switches_nothing_on(start: StartServer, tmp_path: Path) -> None:
    first = start()
    Session.open(first, "s").call("session/setYolo", yolo=True)
    first.kill()
    other = start(env={"TIMELEAP_KEY_FILE": str(tmp_path / "other" / "key")})
    assert other.call("session/open", sessionId="s")["approval"] == at_least(OFF)


def test_editing_while_the_server_runs_switches_nothing_on(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.call("session/setAutoApprove", action="a", enabled=True)
    edit_state(session, lambda state: state["approval"].update(yolo=True))
    assert session.call("session/isApproved", action="b")["approved"] is False
    session.call("session/setTitle", title="t")
    assert session.get_state()["approval"]["yolo"] is False
    session.call("session/close")
    assert session.reopen(server).state["approval"]["yolo"] is False
    server.kill()
    assert Session.open(start(), "s").state["approval"]["yolo"] is False


def test_the_key_is_private_and_not_in_the_store(start: StartServer, home: Path, tmp_path: Path) -> None:
    server = start()
    session = Session.open(server, "s")
    session.call("session/setYolo", yolo=True)
    key = tmp_path / "user" / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    secret = key.read_bytes().strip()
    assert len(secret) >= 32
    for path in home.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path


def test_every_change_is_recorded_with_who_when_from_and_to(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.call("session/setYolo", yolo=True)
    session.call("session/setAutoApprove", action="run", enabled=True)
    session.call("session/setYolo", yolo=False)
    audit = [path for path in session.path.iterdir() if "audit" in path.name]
    assert len(audit) == 1
    lines = audit[0].read_text().splitlines()
    assert len(lines) == 3
    assert all("client-1" in line for line in lines)
    assert all(json.loads(line) for line in lines)


def test_a_fork_starts_with_approvals_off_and_keeps_the_sub_agents(session: Session) -> None:
    session.call("session/setYolo", yolo=True)
    session.call("session/setAutoApprove", action="a", enabled=True)
    session.call("session/putSubagent", name="n", systemPrompt="p")
    fork = session.call("session/fork")
    assert fork["approval"] == at_least(OFF)
    assert fork["dynamicSubagents"] == [{"name": "n", "systemPrompt": "p"}]
    assert fork["warnings"] == []


def test_changes_of_approvals_do_not_fail_an_expected_head(session: Session) -> None:
    session.say("x")
    head = session.head
    session.call("session/setYolo", yolo=True)
    session.call("session/setTitle", title="t")
    assert session.call("context/appendMessage", message={"role": "user", "content": "y"}, expectedHead=head)


def test_setting_what_is_set_already_is_fine(session: Session) -> None:
    for _ in range(2):
        assert session.call("session/setYolo", yolo=True)["approval"]["yolo"] is True


def test_unapproved_is_the_default(server: Server) -> None:
    session = Session.open(server)
    assert session.call("session/isApproved", action="x") == {"approved": False, "reason": "notApproved"}
    assert session.refuse("session/isApproved")["code"] == -32602


def test_the_files_of_a_deleted_session_switch_nothing_on_in_a_new_one(start: StartServer, home: Path) -> None:
    first = start()
    Session.open(first, "nightly").call("session/setYolo", yolo=True)
    first.call("session/close", sessionId="nightly")
    first.call("session/delete", sessionId="nightly")
    new = Session.open(first, "nightly")
    first.kill()
    (trash,) = (home / "trash").iterdir()
    for name in ("state.json", "timeleap.json"):
        shutil.copy(trash / name, new.path / name)
    second = start()
    state = second.call("session/open", sessionId="nightly")
    assert state["approval"] == at_least(OFF)
    assert [warning["kind"] for warning in state["warnings"]] == ["approvalSealBroken"]
    second.call("session/close", sessionId="nightly")
    second.call("session/delete", sessionId="nightly")
    shutil.move(trash, new.path)
    assert start().call("session/open", sessionId="nightly")["approval"] == at_least(OFF)


def test_an_undeleted_session_has_its_approvals_again(start: StartServer) -> None:
    server = start()
    Session.open(server, "s").call("session/setYolo", yolo=True)
    server.call("session/delete", sessionId="s")
    server.call("session/undelete", sessionId="s")
    assert Session.open(server, "s").get_state()["approval"] == at_least({"yolo": True, "sealed": True})
