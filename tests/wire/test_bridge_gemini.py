"""`bridge/*` for Gemini CLI: its sessions are shown as they grow, a hook of its keeps the folder, and it can go on from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.bridged import mirror_of
from tests.support.fixtures import StartServer
from tests.support.gemini_file import GeminiFile
from tests.support.scene import until
from tests.support.server import Message, Server
from tests.support.session import Session

from timeleap import clock

CONTEXT = "<session_context>\nx\n</session_context>"
TWO_TURNS = [CONTEXT, "question 1", "answer 1", "question 2", "answer 2"]


@pytest.fixture
def file(tmp_path: Path) -> GeminiFile:
    """A session of two turns."""
    (tmp_path / "shop").mkdir()
    made = GeminiFile(tmp_path / "tmp", str(tmp_path / "shop"))
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def mirror(start: StartServer, file: GeminiFile) -> Session:
    """The mirror, open, of a server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="gemini", path=str(file.folder))
    return mirror_of(server, "gemini", file.path, 5)


def test_a_session_of_the_program_is_listed_read_and_changed_by_nobody(mirror: Session, file: GeminiFile) -> None:
    assert mirror.texts() == TWO_TURNS
    assert [point["label"] for point in mirror.get_state()["context"]["checkpoints"]] == ["question 1", "question 2"]
    (info,) = mirror.server.call("session/list", source={"kind": "gemini"})["sessions"]
    assert info["source"].pop("kept")["bytes"] == file.path.stat().st_size
    assert info["source"] == {"kind": "gemini", "key": file.session_id, "path": str(file.path), "live": True}
    assert (info["workspace"], info["title"]) == (Path(file.workspace).as_uri(), "question 1")
    assert mirror.refuse("context/clear")["data"]["reason"] == "mirrored"


def test_a_turn_with_tools_is_shown_and_makes_no_timeline(mirror: Session, file: GeminiFile) -> None:
    file.asks("question 3")
    file.calls("call-1", "Let me look.")
    file.gets("call-1", "done")
    file.says("gemini", "answer 3")
    until(lambda: len(mirror.history()) == 10)
    assert mirror.texts()[-2:] == ["done", "answer 3"]
    assert mirror.timelines() == []


def test_where_the_program_goes_back_the_log_as_it_was_is_a_timeline(mirror: Session, file: GeminiFile) -> None:
    file.goes_back(2)
    file.turn(7)
    until(lambda: mirror.texts() == [*TWO_TURNS[:3], "question 7", "answer 7"])
    assert [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()] == [TWO_TURNS]


def test_a_server_that_is_killed_shows_nothing_twice_afterwards(start: StartServer, file: GeminiFile) -> None:
    for number in range(3, 200):
        file.turn(number)
    server = start()
    server.call("bridge/watch", kind="gemini", path=str(file.folder))
    until(lambda: server.call("session/list")["sessions"])
    server.kill()
    again = start(at=server.home)
    again.call("bridge/watch", kind="gemini", path=str(file.folder))
    expected = [f"{kind} {number}" for number in range(1, 200) for kind in ("question", "answer")]
    assert mirror_of(again, "gemini", file.path, len(expected) + 1).texts() == [CONTEXT, *expected]


def test_what_the_shell_did_in_a_turn_is_undone(shared: Server, file: GeminiFile) -> None:
    folder = Path(file.workspace)

    def hook(event: str, **params: Any) -> Message:
        where = {"kind": "gemini", "path": str(file.path), "cwd": file.workspace, **params}
        return dict(shared.call("bridge/catchUp", event=event, **where))

    (folder / "gone.txt").write_text("before")
    assert hook("prompt")["snapshot"]
    file.asks("change it", clock.now_iso())
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("after")
    file.calls("call-1")
    hook("tool", toolName="run_shell_command")
    mirror = Session.open(shared, hook("stop")["sessionId"], create=False)
    *_, prompt = mirror.get_state()["context"]["checkpoints"]
    assert prompt["label"] == "change it"
    mirror.call("files/restore", to={"checkpointUid": prompt["uid"]}, onConflict="overwrite")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"gone.txt": "before"}


def test_adopt_writes_a_session_for_the_program_that_ends_before_a_prompt(mirror: Session, file: GeminiFile) -> None:
    before = file.path.read_bytes()
    made = mirror.call("bridge/adopt", at=mirror.get_state()["context"]["checkpoints"][1]["uid"])
    assert Session.open(mirror.server, made["sessionId"], create=False).texts() == TWO_TURNS[:3]
    facts, *_ = map(json.loads, Path(made["path"]).read_text().splitlines())
    assert facts["sessionId"] != file.session_id
    resume = {"command": "gemini", "args": ["--resume", facts["sessionId"]], "cwd": file.workspace}
    assert (made["resume"], Path(made["path"]).parent) == (resume, file.path.parent)
    assert file.path.read_bytes() == before


def test_adopt_refuses_to_end_in_the_middle_of_a_tool_call(mirror: Session, file: GeminiFile) -> None:
    file.calls("call-1")
    file.gets("call-1", "done")
    until(lambda: len(mirror.history()) == 7)
    assert mirror.refuse("bridge/adopt", at=6)["data"]["errors"][0]["loc"] == ["at"]
    assert mirror.call("bridge/adopt", at=7)["sessionId"]
