"""`bridge/*` for kimi-code: its sessions are shown as they grow, sub-agents below them, and it can go on from them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.bridged import labels, mirror_of
from tests.support.fixtures import StartServer
from tests.support.kimi_code_file import KimiCodeFile
from tests.support.scene import until
from tests.support.server import Message, Server
from tests.support.session import Session

TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]


@pytest.fixture
def file(tmp_path: Path) -> KimiCodeFile:
    """A session of two turns."""
    (tmp_path / "shop").mkdir()
    made = KimiCodeFile(tmp_path / "kimi", str(tmp_path / "shop"))
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def mirror(start: StartServer, file: KimiCodeFile) -> Session:
    """The mirror, open, of a server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="kimi-code", path=str(file.folder))
    return mirror_of(server, "kimi-code", file.path, 4)


def test_a_session_of_the_program_is_listed_read_and_changed_by_nobody(mirror: Session, file: KimiCodeFile) -> None:
    assert mirror.texts() == TWO_TURNS
    assert labels(mirror) == ["question 1", "question 2"]
    (info,) = mirror.server.call("session/list", source={"kind": "kimi-code"})["sessions"]
    assert info["source"].pop("kept")["bytes"] == file.path.stat().st_size
    assert info["source"] == {"kind": "kimi-code", "key": file.session_id, "path": str(file.path), "live": True}
    assert (info["workspace"], info["title"]) == (Path(file.workspace).as_uri(), "question 1")
    assert (info["createdAt"], info["updatedAt"]) == ("2026-11-29T10:03:09.000Z", "2026-11-29T10:03:20.000Z")
    assert mirror.refuse("context/clear")["data"]["reason"] == "mirrored"
    assert mirror.call("session/verify")["problems"] == []


def test_a_turn_with_tools_makes_no_timeline_and_an_undo_of_the_program_does(
    mirror: Session, file: KimiCodeFile
) -> None:
    file.asks("question 3")
    step = file.begins()
    file.calls(step, "call-1")
    until(lambda: len(mirror.history()) == 6)
    file.gets("call-1", "done")
    file.ends(step, "tool_use")
    file.says("answer 3")
    until(lambda: len(mirror.history()) == 8)
    assert mirror.texts()[-2:] == ["done", "answer 3"]
    assert mirror.timelines() == []
    file.record("context.undo", count=2)
    until(lambda: mirror.texts() == TWO_TURNS[:2])
    (timeline,) = mirror.timelines()
    assert len(mirror.texts(timelineId=timeline["timelineId"])) == 8


def test_sub_agents_stand_below_their_session(mirror: Session, file: KimiCodeFile, tmp_path: Path) -> None:
    aside = KimiCodeFile(tmp_path / "kimi", file.workspace, "agent-1", file.session_id)
    aside.said("user", "look there", {"kind": "user"})
    aside.says("found it")
    below = mirror_of(mirror.server, "kimi-code", aside.path, 2)
    assert below.texts() == ["look there", "found it"]
    found = mirror.server.call("session/list", parent=mirror.id)["sessions"]
    assert [each["sessionId"] for each in found] == [below.id]
    assert [each["sessionId"] for each in mirror.server.call("session/list")["sessions"]] == [mirror.id]


def test_adopt_writes_a_session_for_the_program_that_ends_before_a_prompt(mirror: Session, file: KimiCodeFile) -> None:
    before = file.path.read_bytes()
    made = mirror.call("bridge/adopt", at=mirror.get_state()["context"]["checkpoints"][1]["uid"])
    assert Session.open(mirror.server, made["sessionId"], create=False).texts() == TWO_TURNS[:2]
    path = Path(made["path"])
    session = path.parents[2]
    resume = {"command": "kimi", "args": ["-r", session.name], "cwd": file.workspace}
    assert (made["resume"], session.parent) == (resume, file.path.parents[3])
    state = json.loads((session / "state.json").read_bytes())
    assert (state["id"], state["cwd"]) == (session.name, file.workspace)
    assert file.path.read_bytes() == before


def test_a_journal_and_the_directory_of_a_session_are_imported_as_they_are_mirrored(
    mirror: Session, file: KimiCodeFile
) -> None:
    def imported(path: Path) -> Message:
        return dict(mirror.server.call("session/import", path=str(path)))

    for path in (file.path, file.path.parents[2]):
        made = imported(path)
        session = Session.open(mirror.server, made["sessionId"], create=False)
        assert (session.texts(), labels(session)) == (TWO_TURNS, labels(mirror))


def test_what_the_shell_did_in_a_turn_is_undone(shared: Server, file: KimiCodeFile) -> None:
    folder = Path(file.workspace)

    def hook(event: str, **params: Any) -> Message:
        where = {"kind": "kimi-code", "path": str(file.path), "cwd": file.workspace, **params}
        return dict(shared.call("bridge/catchUp", event=event, **where))

    (folder / "gone.txt").write_text("before")
    assert hook("prompt")["snapshot"]
    file.begun = int(time.time() * 1000)
    file.reminds("be brief")
    file.asks("change it")
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("after")
    hook("tool", toolName="Bash")
    session = Session.open(shared, hook("stop")["sessionId"], create=False)
    *_, prompt = session.get_state()["context"]["checkpoints"]
    assert prompt["label"] == "change it"
    session.call("files/restore", to={"checkpointUid": prompt["uid"]}, onConflict="overwrite")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"gone.txt": "before"}
