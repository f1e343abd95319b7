"""Files go back: alone or with the conversation, refused where somebody else has changed them, and undone exactly."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.holding import file_time_passes
from tests.support.matching import HEAD
from tests.support.server import Server
from tests.support.session import Session, assistant
from tests.support.workspace import Workspace, listed, work

LISTED = 200


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "shop")


@pytest.fixture
def session(shared: Server, workspace: Workspace) -> Session:
    return workspace.open(shared)


def test_files_go_back_and_the_conversation_stays(session: Session, workspace: Workspace) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    worked, head = workspace.tree, session.head
    result = session.call("files/restore", to={"checkpointUid": made["uid"]})
    assert (workspace.tree, session.head) == (before, head)
    counts = {"added": 1, "modified": 1, "deleted": 1, "kept": 0, "conflicts": 0}
    files = result["files"]
    assert result == {"head": head, "files": {"before": files["before"], "after": files["after"], **counts}}
    session.call("files/restore", to={"snapshot": files["before"]})
    assert workspace.tree == worked


def test_listeners_hear_which_paths_went_back(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    pending = session.start("files/restore", to={"checkpointUid": made["uid"]}, requestId="r")
    (heard,) = pending.heard()
    files = pending.result()["files"]
    assert heard["method"] == "files/didRestore"
    assert heard["params"] == {
        "sessionId": session.id, "paths": ["login.py", "new done", "src/shop.py"], "more": 0, "before": files["before"],
        "after": files["after"], "cause": {"requestId": "r", "client": "tests"},
    }  # fmt: skip


@pytest.mark.parametrize("restore", ["conversation", "files", "both"])
def test_a_revert_takes_along_what_was_asked_for(session: Session, workspace: Workspace, restore: str) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    worked = workspace.tree
    session.call("context/revertTo", checkpointUid=made["uid"], restore=restore)
    assert workspace.tree == (worked if restore == "conversation" else before)
    assert session.history() == ([assistant("done")] if restore == "files" else [])


def test_undo_and_redo_take_the_files_along(session: Session, workspace: Workspace) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    worked = workspace.tree
    session.call("context/revertTo", checkpointUid=made["uid"], restore="both")
    session.call("context/undo", restore="both")
    assert (workspace.tree, session.texts()) == (worked, ["done"])
    session.call("context/redo", restore="both")
    assert (workspace.tree, session.texts()) == (before, [])


def test_a_timeline_comes_back_with_the_files_it_had(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    worked = workspace.tree
    gone = session.call("context/revertTo", checkpointUid=made["uid"], restore="both")["timelineId"]
    session.call("context/restoreTimeline", timelineId=gone, restore="both")
    assert (workspace.tree, session.texts()) == (worked, ["done"])


def test_where_no_snapshot_belongs_to_the_state_nothing_happens(session: Session, workspace: Workspace) -> None:
    plain = session.checkpoint(files=False)
    work(session, workspace)
    worked, head = workspace.tree, session.head
    error = session.refuse("context/revertTo", checkpointUid=plain["uid"], restore="both")
    assert (error["code"], workspace.tree, session.head) == (4025, worked, head)


def test_a_repeat_changes_nothing_also_after_a_restart(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    params: dict[str, Any] = {"to": {"checkpointUid": made["uid"]}, "requestId": "r"}
    first = session.call("files/restore", **params)
    work(session, workspace, "again")
    worked = workspace.tree
    assert session.call("files/restore", **params)["files"] == first["files"]
    session.call("session/close")
    again = session.reopen(session.server.again())
    repeated = again.call("files/restore", **params)
    assert (repeated["files"], repeated["duplicate"], workspace.tree) == (first["files"], True, worked)


# Some of them


def test_a_folder_alone_goes_back(session: Session, workspace: Workspace) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    worked = workspace.tree
    session.call("files/restore", to={"checkpointUid": made["uid"]}, paths=["src"])
    assert workspace.tree == {**worked, "src/shop.py": before["src/shop.py"]}


@pytest.mark.parametrize("paths", [[], [""], ["../x"], ["/x"], ["a", "b/../c"]])
def test_paths_that_can_be_none_are_refused(session: Session, paths: list[str]) -> None:
    made = session.checkpoint()
    error = session.refuse("files/restore", to={"checkpointUid": made["uid"]}, paths=paths)
    assert (error["code"], error["data"]["errors"][0]["loc"][0]) == (-32602, "paths")


@pytest.mark.parametrize("to", [{}, {"snapshot": "f1-000000000000", "checkpointUid": "c0-0"}, {"timelineId": "x"}])
def test_what_is_gone_back_to_is_one_thing(session: Session, to: dict[str, str]) -> None:
    assert session.refuse("files/restore", to=to)["code"] == -32602


# Conflicts


def test_what_somebody_changed_after_the_turn_is_not_overwritten(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    file_time_passes()
    workspace.write("login.py", "mine\n")
    edited, kept = workspace.tree, listed(session)
    error = session.refuse("files/restore", to={"checkpointUid": made["uid"]})
    assert (error["code"], error["data"]["paths"], error["data"]["more"]) == (4021, ["login.py"], 0)
    error = session.refuse("context/revertTo", checkpointUid=made["uid"], restore="both")
    assert (error["code"], error["data"]["paths"]) == (4021, ["login.py"])
    assert (workspace.tree, session.texts(), listed(session)) == (edited, ["done"], kept)


@pytest.mark.parametrize("choice", ["keep", "overwrite"])
def test_a_conflict_can_be_kept_or_overwritten_and_is_in_the_snapshot_before(
    session: Session, workspace: Workspace, choice: str
) -> None:
    before, made = workspace.tree, session.checkpoint()
    work(session, workspace)
    file_time_passes()
    workspace.write("login.py", "mine\n")
    edited = workspace.tree
    files = session.call("context/revertTo", checkpointUid=made["uid"], restore="both", onConflict=choice)["files"]
    assert (files["kept"], files["conflicts"]) == (int(choice == "keep"), 1)
    assert workspace.tree == ({**before, "login.py": edited["login.py"]} if choice == "keep" else before)
    session.call("files/restore", to={"snapshot": files["before"]})
    assert workspace.tree == edited


def test_a_dry_run_lists_conflicts_and_changes_nothing(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    file_time_passes()
    workspace.write("login.py", "mine\n")
    edited, kept = workspace.tree, listed(session)
    for method, params in (
        ("files/restore", {"to": {"checkpointUid": made["uid"]}}),
        ("context/revertTo", {"checkpointUid": made["uid"], "restore": "both"}),
        ("context/revertTo", {"checkpointUid": made["uid"], "restore": "files"}),
    ):
        result = session.call(method, dryRun=True, **params)
        assert result["files"]["conflictPaths"] == [{"path": "login.py"}]
        assert (result["files"]["after"], "before" in result["files"]) == (made["files"]["snapshot"], False)
        assert [change["path"] for change in result["changes"]] == ["login.py", "new done", "src/shop.py"]
        assert (result["files"]["changes"], result["files"]["cursor"]) == (result["changes"], result["cursor"])
        sides = {"from": {}, "to": {"snapshot": result["files"]["after"]}}
        assert session.call("files/diff", cursor=result["cursor"], **sides) == {"changes": []}
    assert (workspace.tree, listed(session), session.texts()) == (edited, kept, ["done"])


@pytest.mark.parametrize("restore", ["both", "files"])
def test_each_dry_run_with_files_says_what_would_change(session: Session, workspace: Workspace, restore: str) -> None:
    made = session.checkpoint()
    work(session, workspace)
    same = {"restore": restore, "dryRun": True}

    def paths(method: str, **params: Any) -> list[str]:
        result = session.call(method, **same, **params)
        assert result["files"]["changes"] == result["changes"]
        assert result["files"]["cursor"] == result["cursor"]
        return [change["path"] for change in result["changes"]]

    changed = ["login.py", "new done", "src/shop.py"]
    assert paths("context/revertTo", checkpointUid=made["uid"]) == changed
    session.call("context/sendDMail", checkpointId=made["id"], message="go back")
    assert paths("context/deliverDMail") == changed
    reverted = session.call("context/revertTo", checkpointUid=made["uid"], restore="both")
    assert paths("context/undo") == changed
    assert paths("context/restoreTimeline", timelineId=reverted["timelineId"]) == changed
    session.call("context/undo", restore="both")
    assert paths("context/redo") == changed


def test_a_dry_run_that_would_change_nothing_says_so(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    result = session.call("files/restore", to={"checkpointUid": made["uid"]}, dryRun=True)
    assert result["changes"] == []
    sides = {"from": {}, "to": {"snapshot": result["files"]["after"]}}
    workspace.write("later", "x")
    found = session.call("files/diff", cursor=result["cursor"], **sides)["changes"]
    assert [change["path"] for change in found] == ["later"]


def test_a_dry_run_of_very_much_goes_on_in_the_difference(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    for number in range(LISTED + 5):
        workspace.write(f"many/{number:03}", "x")
    session.append(assistant("done"))
    result = session.call("files/restore", to={"checkpointUid": made["uid"]}, dryRun=True)
    assert len(result["changes"]) == LISTED
    sides = {"from": {}, "to": {"snapshot": result["files"]["after"]}}
    rest = session.call("files/diff", cursor=result["cursor"], **sides)["changes"]
    assert [change["path"] for change in rest] == [f"many/{number:03}" for number in range(LISTED, LISTED + 5)]
    pending = session.start("files/restore", to={"checkpointUid": made["uid"]})
    params = pending.heard()[0]["params"]
    assert (len(params["paths"]), params["more"]) == (LISTED, 5)


def test_who_has_not_seen_the_newest_snapshot_is_told(session: Session, workspace: Workspace) -> None:
    made = session.checkpoint()
    work(session, workspace)
    newest = session.call("files/snapshot")["snapshot"]
    worked = workspace.tree
    target = {"checkpointUid": made["uid"]}
    error = session.refuse("files/restore", to=target, expectedFiles=made["files"]["snapshot"])
    assert (error["code"], error["data"]["head"], error["data"]["snapshot"]) == (-32801, session.head, newest)
    assert session.refuse("files/restore", to=target, expectedHead="x")["code"] == -32801
    assert workspace.tree == worked
    assert session.call("files/restore", to=target, expectedFiles=newest)["files"]["modified"] == 1


# Who may, and what stands in the way


def test_a_session_that_is_only_read_can_have_its_files_back(shared: Server, workspace: Workspace) -> None:
    owner = workspace.open(shared)
    before, made = workspace.tree, owner.checkpoint()
    work(owner, workspace)
    owner.call("session/close")
    log, meta = owner.log.read_bytes(), (owner.path / "timeleap.json").read_bytes()
    reader = owner.reopen(shared, access="readOnly")
    params: dict[str, Any] = {"to": {"checkpointUid": made["uid"]}, "requestId": "r"}
    first = reader.call("files/restore", **params)
    assert workspace.tree == before
    work_alone = workspace.write("login.py", "mine\n")
    assert reader.call("files/restore", **params) == {**first, "duplicate": True}
    assert work_alone.read_text() == "mine\n"
    assert (owner.log.read_bytes(), (owner.path / "timeleap.json").read_bytes()) == (log, meta)
    assert reader.refuse("files/snapshot")["code"] == 4004


def test_an_attached_window_restores_through_the_owner_and_all_hear_of_it(
    servers: list[Server], workspace: Workspace
) -> None:
    owner = workspace.open(servers[0])
    other = owner.reopen(servers[1])
    assert (other.state["access"], other.state["files"]) == ("attached", owner.state["files"])
    before, made = workspace.tree, other.checkpoint()
    work(other, workspace)
    result = other.call("files/restore", to={"checkpointUid": made["uid"]}, requestId="r")
    heard = servers[0].heard("files/didRestore", sessionId=owner.id)
    assert heard["cause"] == {"requestId": "r", "client": "client-2"}
    assert workspace.tree == before
    assert owner.call("files/restore", to={"checkpointUid": made["uid"]}, requestId="r")["files"] == result["files"]


def test_settings_that_an_attached_window_gives_are_kept_by_the_owner(
    servers: list[Server], workspace: Workspace
) -> None:
    owner = Session.open(servers[0], workspace=workspace.uri)
    other = owner.reopen(servers[1], files={"mode": "turn", "exclude": ["*.log"]})
    assert (other.state["files"]["mode"], other.state["files"]["exclude"]) == ("turn", ["*.log"])
    assert owner.get_state()["files"]["mode"] == "turn"


@pytest.mark.skipif(os.name == "nt", reason="locks are taken in another way there")
@pytest.mark.long
def test_a_folder_that_another_process_is_working_on_is_busy(
    start: StartServer, home: Path, workspace: Workspace
) -> None:
    import fcntl

    session = workspace.open(start())
    session.call("files/snapshot")
    (lock,) = (home / "files").glob("*/lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        error = session.refuse("files/snapshot")
    assert (error["code"], error["data"]["retryable"]) == (4024, True)
    assert session.call("files/snapshot")["snapshot"]


def test_a_cancelled_snapshot_keeps_nothing_and_says_so(start: StartServer, workspace: Workspace) -> None:
    for number in range(3000):
        workspace.write(f"many/{number % 50}/{number}", str(number))
    server = start()
    session = workspace.open(server)
    pending = session.start("files/snapshot", workDoneToken="t")
    server.heard("$/progress", token="t")
    server.notify("$/cancelRequest", id=pending.id)
    reply = pending.reply()
    if "error" in reply:  # else it was done before it heard of that, and says what it did
        assert reply["error"]["code"] == -32800
        assert listed(session) == []
    assert session.call("files/snapshot")["snapshot"]


@pytest.mark.parametrize("gone", ["moved", "another"])
def test_a_folder_that_is_gone_or_another_is_left_alone(
    session: Session, workspace: Workspace, gone: str, tmp_path: Path
) -> None:
    made = session.checkpoint()
    workspace.folder.rename(tmp_path / "elsewhere")
    if gone == "another":
        workspace.folder.mkdir()
        workspace.write("mine", "x")
    error = session.refuse("files/restore", to={"checkpointUid": made["uid"]}, onConflict="overwrite")
    assert error["code"] in (4020, 4025)
    assert not workspace.folder.exists() or workspace.tree.keys() == {"mine"}
    assert session.head == HEAD
