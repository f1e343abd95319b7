"""`restore` of the changes that go back: the conversation, its files, or both as one step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import HEAD
from tests.support.mostly_long import mostly_long
from tests.support.server import Server
from tests.support.session import Session, assistant, user
from tests.support.workspace import Tree, Workspace, listed, work

COUNTS = {"added": 1, "modified": 1, "deleted": 1, "kept": 0, "conflicts": 0}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "shop")


@pytest.fixture
def server(shared: Server) -> Server:
    return shared


class Turn:
    """A session with a checkpoint and a turn after it, and the files before and after that turn."""

    def __init__(self, server: Server, workspace: Workspace, text: str = "done") -> None:
        self.workspace = workspace
        self.session = workspace.open(server)
        self.checkpoint = self.session.checkpoint(label="start")
        self.before = workspace.tree
        work(self.session, workspace, text)
        self.after = workspace.tree

    def revert(self, restore: str = "both", **params: Any) -> Any:
        uid = self.checkpoint["uid"]
        return self.session.call("context/revertTo", checkpointUid=uid, restore=restore, **params)

    def edit(self, text: str = "mine") -> None:
        """A person's edit, right after the answer to the last append."""
        (self.workspace.folder / "login.py").write_text(text)

    @property
    def tree(self) -> Tree:
        return self.workspace.tree


@pytest.fixture
def turn(server: Server, workspace: Workspace) -> Turn:
    return Turn(server, workspace)


def test_both_go_back_and_undo_and_redo_take_them_along_exactly(turn: Turn) -> None:
    done = turn.revert()
    assert (turn.session.texts(), turn.tree) == ([], turn.before)
    assert {name: done["files"][name] for name in COUNTS} == COUNTS
    undone = turn.session.call("context/undo", restore="both")
    assert (turn.session.texts(), turn.tree) == (["done"], turn.after)
    assert undone["files"]["after"].partition("-")[2] == done["files"]["before"].partition("-")[2]
    turn.session.call("context/redo", restore="both")
    assert (turn.session.texts(), turn.tree) == ([], turn.before)
    turn.session.call("context/undo", restore="both")
    assert (turn.session.texts(), turn.tree) == (["done"], turn.after)


def test_the_conversation_alone_is_what_goes_back_unless_asked_otherwise(turn: Turn) -> None:
    done = turn.session.call("context/revertTo", checkpointId=0)
    assert "files" not in done
    assert (turn.session.texts(), turn.tree) == ([], turn.after)


def test_the_files_alone_leave_the_log(turn: Turn) -> None:
    head = turn.session.head
    done = turn.revert("files", requestId="r")
    assert (done["head"], done["removed"]["messages"]) == (head, 0)
    assert (turn.session.head, turn.session.texts(), turn.tree) == (head, ["done"], turn.before)
    turn.workspace.write("login.py", "since")
    again = turn.revert("files", requestId="r")
    assert again == {**done, "duplicate": True}
    assert (turn.workspace.folder / "login.py").read_text() == "since"


def test_a_timeline_comes_back_with_the_files_of_then(turn: Turn) -> None:
    timeline = turn.revert()["timelineId"]
    turn.session.call("context/restoreTimeline", timelineId=timeline, restore="both")
    assert (turn.session.texts(), turn.tree) == (["done"], turn.after)


def test_a_dmail_is_delivered_to_the_files_of_its_checkpoint(turn: Turn) -> None:
    turn.session.call("context/sendDMail", checkpointId=0, message="stop")
    done = turn.session.call("context/deliverDMail", restore="both")
    assert done["files"]["deleted"] == 1
    assert turn.tree == turn.before


def test_files_of_a_dmail_alone_leave_it_pending(turn: Turn) -> None:
    turn.session.call("context/sendDMail", checkpointId=0, message="stop")
    turn.session.call("context/deliverDMail", restore="files")
    assert turn.tree == turn.before
    assert turn.session.get_state()["pendingDMail"]["message"] == "stop"


def test_a_persons_edit_after_the_turn_is_refused_and_nothing_goes(turn: Turn) -> None:
    turn.edit()
    edited, head = turn.tree, turn.session.head
    error = turn.session.refuse("context/revertTo", checkpointId=0, restore="both")
    assert (error["code"], error["data"]["paths"]) == (4021, ["login.py"])
    assert (turn.tree, turn.session.head) == (edited, head)


@pytest.mark.long
def test_an_edit_right_before_an_append_is_its_agents_and_one_right_after_is_not(
    server: Server, workspace: Workspace
) -> None:
    for text in "abcdefghij":
        turn = Turn(server, workspace, text)
        turn.edit()
        assert turn.revert(dryRun=True)["files"]["conflicts"] == 1
        turn.session.append(assistant("that was me"))
        assert turn.revert()["files"]["conflicts"] == 0


def test_an_agents_edit_before_its_result_was_appended_is_no_conflict(turn: Turn) -> None:
    turn.edit()
    turn.session.append(assistant("edited once more"))
    assert turn.revert()["files"]["conflicts"] == 0
    assert turn.tree == turn.before


def test_keep_leaves_the_edit_and_overwrite_can_be_undone_exactly(turn: Turn) -> None:
    turn.edit()
    edited = turn.tree
    assert turn.revert(onConflict="keep")["files"]["kept"] == 1
    assert (turn.workspace.folder / "login.py").read_text() == "mine"
    turn.session.call("context/undo", restore="both")
    assert turn.tree == edited
    turn.edit("mine again")
    edited = turn.tree
    assert turn.revert(onConflict="overwrite")["files"]["conflicts"] == 1
    assert turn.tree == turn.before
    turn.session.call("context/undo", restore="both")
    assert turn.tree == edited


def test_a_dry_run_lists_conflicts_and_changes_and_touches_nothing(turn: Turn) -> None:
    turn.edit()
    edited, head, snapshots = turn.tree, turn.session.head, listed(turn.session)
    done = turn.revert(dryRun=True)
    assert done["files"]["conflicts"] == 1
    assert [path["path"] for path in done["files"]["conflictPaths"]] == ["login.py"]
    assert {change["path"] for change in done["changes"]} >= {"new done", "src/shop.py"}
    assert done["removed"]["messages"] == 1
    assert (turn.tree, turn.session.head, listed(turn.session)) == (edited, head, snapshots)


def test_a_deleted_folder_and_a_new_one_come_back_exactly(server: Server, workspace: Workspace) -> None:
    workspace.write("deep/er/file", "x")
    turn = Turn(server, workspace)
    (workspace.folder / "deep/er/file").unlink()
    (workspace.folder / "deep/er").rmdir()
    workspace.write("made/up/file", "y")
    turn.session.append(assistant("moved"))
    after = turn.tree
    turn.revert()
    assert turn.tree == turn.before
    assert not (workspace.folder / "made").exists()
    turn.session.call("context/undo", restore="both")
    assert turn.tree == after


def test_without_a_snapshot_of_that_state_neither_goes(turn: Turn) -> None:
    turn.session.call("context/revertTo", checkpointId=0)
    error = turn.session.refuse("context/undo", restore="both")
    assert error["code"] == 4025
    assert (turn.session.texts(), turn.tree) == ([], turn.after)


def test_a_session_that_keeps_no_files_says_how_to_begin(server: Server) -> None:
    session = Session.open(server)
    session.checkpoint()
    error = session.refuse("context/revertTo", checkpointId=0, restore="both")
    assert (error["code"], error["data"]["reason"]) == (4020, "notConfigured")


def test_listeners_hear_of_the_files_before_the_log(turn: Turn) -> None:
    pending = turn.session.start("context/revertTo", checkpointId=0, restore="both", requestId="r")
    done = pending.result()
    told = [m for m in pending.heard() if m["method"] in ("files/didRestore", "context/didChange")]
    assert [message["method"] for message in told] == ["files/didRestore", "context/didChange"]
    assert told[0]["params"] == {
        "sessionId": turn.session.id,
        "paths": ["login.py", "new done", "src/shop.py"],
        "more": 0,
        "before": done["files"]["before"],
        "after": done["files"]["after"],
        "cause": {"requestId": "r", "client": "tests"},
    }


def test_a_repeat_over_a_restart_gets_the_answer_of_then_and_leaves_the_files(turn: Turn) -> None:
    done = turn.revert(requestId="r")
    turn.workspace.write("login.py", "since")
    turn.session.call("session/close")
    turn.session = turn.session.reopen(turn.session.server.again())
    assert turn.revert(requestId="r") == {**done, "duplicate": True}
    assert (turn.workspace.folder / "login.py").read_text() == "since"


def test_a_stale_head_touches_no_file(turn: Turn) -> None:
    error = turn.session.refuse(
        "context/revertTo", checkpointId=0, restore="both", expectedHead=turn.checkpoint.get("head", "1.1.1-11111111")
    )
    assert error["code"] == -32801
    assert turn.tree == turn.after


FULL = ["files.staged", "files.moved", "files.before_log", "replace.prepared", "replace.linked", "replace.renamed"]


@pytest.mark.parametrize("point", mostly_long(FULL, every=3))
def test_a_full_disk_leaves_both_as_they_were(start: StartServer, workspace: Workspace, point: str) -> None:
    turn = Turn(start(env={"TIMELEAP_FAILPOINTS": f"{point}@1=raise:ENOSPC"}), workspace)
    error = turn.session.refuse("context/revertTo", checkpointId=0, restore="both")
    assert error["code"] == 4005
    assert (turn.session.texts(), turn.tree) == (["done"], turn.after)
    turn.revert()
    assert (turn.session.texts(), turn.tree) == ([], turn.before)


Cancel = Callable[[], None]


@pytest.mark.parametrize("restore", ["both", "files"])
def test_a_restore_that_is_cancelled_leaves_both_as_they_were(
    start: StartServer, workspace: Workspace, tmp_path: Path, restore: str
) -> None:
    for number in range(300):
        workspace.write(f"many/{number}", str(number))
    held = tmp_path / "held"
    turn = Turn(start(env={"TIMELEAP_FAILPOINTS": f"files.intent@1=hold:{held}"}), workspace)
    for number in range(300):
        (workspace.folder / f"many/{number}").unlink()
    turn.session.append(user("go on"))
    after = turn.tree
    pending = turn.session.start("context/revertTo", checkpointId=0, restore=restore)
    while not held.exists():
        assert pending.server.process.poll() is None
    pending.server.notify("$/cancelRequest", id=pending.id)
    turn.session.server.call("session/list")  # what was sent before it has been read
    held.unlink()
    assert pending.error()["code"] == -32800
    assert (turn.session.texts(), turn.tree) == (["done", "go on"], after)


def test_an_attached_window_takes_files_along_through_the_owner(start: StartServer, workspace: Workspace) -> None:
    turn = Turn(start(), workspace)
    window = turn.session.reopen(start())
    assert window.state["access"] == "attached"
    done = window.call("context/revertTo", checkpointId=0, restore="both")
    assert {name: done["files"][name] for name in COUNTS} == COUNTS
    assert turn.tree == turn.before
    assert done["head"] == HEAD


# What is gone for good


def test_a_purged_session_leaves_no_snapshot_and_a_deleted_one_keeps_them(turn: Turn) -> None:
    session, home = turn.session, turn.session.server.home
    secret = turn.workspace.write("secret.txt", "sk-0123456789abcdef" * 400)
    session.call("files/snapshot")
    secret.unlink()
    stored = (home / "files", lambda: sum(f.stat().st_size for f in (home / "files").rglob("*") if f.is_file()))[1]
    session.call("session/delete")
    session.server.call("session/undelete", sessionId=session.id)
    again = session.reopen(session.server)
    assert len(listed(again)) == 2
    again.call("session/delete")
    before = stored()
    (gone,) = session.server.call("session/purge", sessionId=session.id)["purged"]
    assert "filesRemain" not in gone
    assert stored() < before


def test_a_redaction_names_the_snapshots_that_hold_the_value_and_takes_them_out(turn: Turn) -> None:
    turn.workspace.write("config", "password=hunter2-Tq9")
    held = turn.session.call("files/snapshot")["snapshot"]
    root = str(turn.workspace.folder)
    foretold = turn.session.call("session/redact", value="hunter2-Tq9", dryRun=True)
    assert foretold["snapshots"] == [{"snapshot": held, "root": root}]
    done = turn.session.call("session/redact", value="hunter2-Tq9")
    assert (done["redacted"], done["snapshots"]) == (True, [{"snapshot": held, "root": root}])
    assert held not in [snapshot["snapshot"] for snapshot in listed(turn.session)]
    assert turn.session.refuse("files/restore", to={"snapshot": held})["code"] == 4025
    assert turn.revert(onConflict="overwrite")["files"]["deleted"] == 2
