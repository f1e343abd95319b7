"""`bridge/catchUp`: what a hook of Claude Code asks for: its session mirrored up to now, and its folder kept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.fixtures import StartServer
from tests.support.server import Message, Server
from tests.support.session import Session

from timeleap import clock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The agent's folder."""
    made = tmp_path / "shop"
    made.mkdir()
    (made / "kept.txt").write_text("before")
    (made / "gone.txt").write_text("before")
    return made


@pytest.fixture
def file(tmp_path: Path, folder: Path) -> ClaudeFile:
    return ClaudeFile(tmp_path / "projects", str(folder))


def hook(server: Server, file: ClaudeFile, event: str, **params: Any) -> Message:
    where = {"kind": "claude-code", "path": str(file.path), "cwd": file.workspace, **params}
    return dict(server.call("bridge/catchUp", event=event, **where))


def a_turn_by_shell(server: Server, file: ClaudeFile, folder: Path) -> Session:
    """The first turn of a session: its file is not there when the hook of its prompt runs."""
    said = hook(server, file, "prompt")
    assert "snapshot" in said, said
    now = clock.now_iso()
    file.asks("change it", timestamp=now)
    (folder / "kept.txt").write_text("after")
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("after")
    file.calls("call-1", timestamp=now)
    assert hook(server, file, "tool", toolName="Bash")["snapshot"] != said["snapshot"]
    file.says("done", timestamp=now)
    assert hook(server, file, "stop")["added"] == 1
    return Session.open(server, said["sessionId"], create=False)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_what_the_shell_did_in_a_turn_is_undone(shared: Server, file: ClaudeFile, folder: Path) -> None:
    mirror = a_turn_by_shell(shared, file, folder)
    (prompt,) = mirror.get_state()["context"]["checkpoints"]
    assert (prompt["label"], prompt["files"]["skipped"]) == ("change it", 0)
    mirror.call("files/restore", to={"checkpointUid": prompt["uid"]}, onConflict="overwrite")
    assert contents(folder) == {"kept.txt": "before", "gone.txt": "before"}


def test_a_checkpoint_says_how_many_files_differ_from_the_one_before(
    shared: Server, file: ClaudeFile, folder: Path
) -> None:
    mirror = a_turn_by_shell(shared, file, folder)
    hook(shared, file, "prompt")  # nothing differs from the snapshot of the turn's end
    file.asks("and now", timestamp=clock.now_iso())
    hook(shared, file, "stop")
    hook(shared, file, "prompt")
    file.asks("anything else?", timestamp=clock.now_iso())
    hook(shared, file, "stop")
    found = mirror.get_state()["context"]["checkpoints"]
    assert [(point["label"], point["files"]["changed"]) for point in found] == [
        ("change it", 0),  # there is none before
        ("and now", 3),
        ("anything else?", 0),
    ]


def test_a_revert_of_the_files_alone_works_on_a_mirror(shared: Server, file: ClaudeFile, folder: Path) -> None:
    mirror = a_turn_by_shell(shared, file, folder)
    texts = mirror.history()
    mirror.call("context/revertTo", checkpointId=0, restore="files", onConflict="overwrite")
    assert contents(folder) == {"kept.txt": "before", "gone.txt": "before"}
    assert mirror.history() == texts
    assert mirror.refuse("context/revertTo", checkpointId=0, restore="both")["data"]["reason"] == "mirrored"


def test_the_snapshot_of_a_tool_is_called_by_it(shared: Server, file: ClaudeFile, folder: Path) -> None:
    mirror = a_turn_by_shell(shared, file, folder)
    labels = [snapshot.get("label") for snapshot in mirror.call("files/list")["snapshots"]]
    assert labels == ["stop", "Bash", "prompt"]


def test_an_earlier_prompt_does_not_get_the_snapshot(shared: Server, file: ClaudeFile) -> None:
    file.turn(1)
    mirror = Session.open(shared, hook(shared, file, "prompt")["sessionId"], create=False)
    file.asks("question 2", timestamp=clock.now_iso())
    hook(shared, file, "stop")
    assert ["files" in point for point in mirror.get_state()["context"]["checkpoints"]] == [False, True]


def test_a_first_hook_may_get_here_late(shared: Server, file: ClaudeFile) -> None:
    mirror = Session.open(shared, hook(shared, file, "prompt")["sessionId"], create=False)
    file.asks("question 1", timestamp=clock.iso(time.time() - 30))  # noted before its hook was started
    hook(shared, file, "stop")
    assert ["files" in point for point in mirror.get_state()["context"]["checkpoints"]] == [True]


def test_a_prompt_from_before_the_snapshot_does_not_get_it(shared: Server, file: ClaudeFile) -> None:
    mirror = Session.open(shared, hook(shared, file, "prompt")["sessionId"], create=False)
    file.asks("of yesterday", timestamp="2001-01-01T00:00:00.000Z")
    hook(shared, file, "start")
    assert ["files" in point for point in mirror.get_state()["context"]["checkpoints"]] == [False]


def test_a_folder_that_is_never_kept_is_said_and_fails_nothing(shared: Server, file: ClaudeFile) -> None:
    file.turn(1)
    said = hook(shared, file, "prompt", cwd="/")
    assert said["problem"]
    assert said["added"] == 2


def test_without_a_file_and_a_folder_there_is_nothing_to_mirror(shared: Server, file: ClaudeFile) -> None:
    said = shared.call("bridge/catchUp", kind="claude-code", path=str(file.path), event="start")
    assert (said["added"], said["problem"]) == (0, "there is nothing to mirror yet")
    assert shared.refuse("session/getState", sessionId=said["sessionId"])["code"] == 4001


def test_the_process_that_has_the_mirror_open_does_it(start: StartServer, file: ClaudeFile) -> None:
    owner = start()
    file.turn(1)
    mirror = Session.open(owner, hook(owner, file, "start")["sessionId"], create=False)
    file.turn(2)
    assert hook(start(at=owner.home), file, "prompt")["snapshot"]
    assert mirror.texts()[-1] == "answer 2"


@pytest.mark.parametrize(
    ("params", "field"), [({"path": "x.jsonl"}, "path"), ({"path": "/x"}, "path"), ({"cwd": "x"}, "cwd")]
)
def test_places_that_cannot_be_are_refused(shared: Server, file: ClaudeFile, params: Message, field: str) -> None:
    where = {"kind": "claude-code", "path": str(file.path), "event": "stop", **params}
    error = shared.refuse("bridge/catchUp", **where)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, [field])


def test_a_log_of_the_store_is_no_file_of_a_program(shared: Server, file: ClaudeFile) -> None:
    file.turn(1)
    mirror = hook(shared, file, "stop")["sessionId"]
    own = shared.home / "sessions" / mirror / "context.jsonl"
    error = shared.refuse("bridge/catchUp", kind="kimi", path=str(own), event="stop")
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["path"])


def test_a_store_within_the_agents_folder_is_left_alone(start: StartServer, file: ClaudeFile, folder: Path) -> None:
    server = start(at=folder / "store", env={"HOME": str(folder.parent / "person")})
    mirror = a_turn_by_shell(server, file, folder)
    size = (server.home / "sessions" / mirror.id / "context.jsonl").stat().st_size
    (prompt,) = mirror.get_state()["context"]["checkpoints"]
    changes = mirror.call("files/diff", **{"from": {"checkpointUid": prompt["uid"]}, "to": {}})["changes"]
    assert [change["path"] for change in changes] == ["gone.txt", "kept.txt", "new.txt"]
    mirror.call("files/restore", to={"checkpointUid": prompt["uid"]}, onConflict="overwrite")
    assert (server.home / "sessions" / mirror.id / "context.jsonl").stat().st_size == size
    assert (folder / "gone.txt").read_text() == "before"


def test_a_file_that_is_a_link_or_a_folder_is_refused(shared: Server, file: ClaudeFile) -> None:
    file.turn(1)
    link = file.path.with_name("link.jsonl")
    link.symlink_to(file.path)
    assert shared.refuse("bridge/catchUp", kind="claude-code", path=str(link), event="stop")["code"] == 4005
    folder = file.path.with_name("folder.jsonl")
    folder.mkdir()
    assert shared.refuse("bridge/catchUp", kind="claude-code", path=str(folder), event="stop")["code"] == 4005
