"""`bridge/*` for opencode: the sessions in its database are shown as they grow, and it can go on from them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.bridged import labels, mirror_of
from tests.support.fixtures import StartServer
from tests.support.opencode_file import OpencodeFile
from tests.support.scene import until
from tests.support.server import Message, Server
from tests.support.session import Session

TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OpencodeFile]:
    """A session of two turns."""
    (tmp_path / "shop").mkdir()
    made = OpencodeFile(tmp_path / "opencode", str(tmp_path / "shop"))
    made.turn(1)
    made.turn(2)
    yield made
    made.close()


@pytest.fixture
def mirror(start: StartServer, file: OpencodeFile) -> Session:
    """The mirror, open, of a server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="opencode", path=str(file.folder))
    return mirror_of(server, "opencode", file.path, 4)


def test_a_session_of_the_program_is_listed_read_and_changed_by_nobody(mirror: Session, file: OpencodeFile) -> None:
    assert (mirror.texts(), labels(mirror)) == (TWO_TURNS, ["question 1", "question 2"])
    (info,) = mirror.server.call("session/list", source={"kind": "opencode"})["sessions"]
    assert info["source"].pop("kept")["fileGone"] is False
    assert info["source"] == {"kind": "opencode", "key": "ses_1", "path": str(file.path), "live": True}
    assert (info["workspace"], info["title"]) == (Path(file.workspace).as_uri(), "question 1")
    assert info["createdAt"] == "2026-11-29T10:03:09.000Z"
    assert mirror.refuse("context/clear")["data"]["reason"] == "mirrored"
    assert mirror.call("session/verify")["problems"] == []
    sources = mirror.server.call("bridge/list")["sources"]
    (source,) = [each for each in sources if each["path"] == str(file.folder)]
    assert (source["sessions"], source["mirrored"], source.get("problem")) == (1, 1, None)


def test_a_turn_makes_no_timeline_and_what_is_reverted_and_deleted_does(mirror: Session, file: OpencodeFile) -> None:
    prompt = file.asks("question 3")
    answer = file.begins(prompt)
    part = file.calls(answer, "call-1")
    until(lambda: len(mirror.history()) == 6)
    file.gets(answer, part, "call-1", "done")
    file.ends(answer, prompt, "tool-calls")
    file.says(prompt, "answer 3")
    until(lambda: len(mirror.history()) == 8)
    assert (mirror.texts()[-2:], mirror.timelines()) == (["done", "answer 3"], [])
    file.reverts(prompt)
    until(lambda: mirror.texts() == TWO_TURNS)
    file.cleans()
    file.turn(4)
    until(lambda: mirror.texts()[-1] == "answer 4")
    (timeline,) = mirror.timelines()
    assert mirror.texts(timelineId=timeline["timelineId"])[-1] == "answer 3"


def test_sub_agents_stand_below_their_session(mirror: Session, file: OpencodeFile) -> None:
    aside = OpencodeFile(file.folder, file.workspace, "ses_2", "ses_1")
    aside.turn(7)
    below = mirror_of(mirror.server, "opencode", aside.path, 2)
    found = mirror.server.call("session/list", parent=mirror.id)["sessions"]
    assert [each["sessionId"] for each in found] == [below.id]
    assert [each["sessionId"] for each in mirror.server.call("session/list")["sessions"]] == [mirror.id]
    aside.close()


def test_sessions_are_imported_as_they_are_mirrored(mirror: Session, file: OpencodeFile) -> None:
    def imported(path: Path) -> Message:
        return dict(mirror.server.call("session/import", path=str(path)))

    for path in (file.path, file.database):
        session = Session.open(mirror.server, imported(path)["sessionId"], create=False)
        assert (session.texts(), labels(session)) == (TWO_TURNS, labels(mirror))
    OpencodeFile(file.folder, name="ses_2").close()
    refused = mirror.server.refuse("session/import", path=str(file.database))
    assert f"holds 2 sessions of opencode: name one; the newest are {file.database}/ses_" in refused["message"]
    refused = mirror.server.refuse("session/import", path=str(file.database / "ses_9"))
    assert "there is no session ses_9" in refused["message"]


def test_what_the_shell_did_in_a_turn_is_undone(shared: Server, file: OpencodeFile) -> None:
    folder = Path(file.workspace)

    def hook(event: str, **params: Any) -> Message:
        where = {"kind": "opencode", "path": str(file.path), "cwd": file.workspace, **params}
        return dict(shared.call("bridge/catchUp", event=event, **where))

    (folder / "gone.txt").write_text("before")
    assert hook("prompt")["snapshot"]
    file.begun = int(time.time() * 1000)
    file.asks("change it")
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("after")
    hook("tool", toolName="bash")
    session = Session.open(shared, hook("stop")["sessionId"], create=False)
    *_, prompt = session.get_state()["context"]["checkpoints"]
    assert prompt["label"] == "change it"
    session.call("files/restore", to={"checkpointUid": prompt["uid"]}, onConflict="overwrite")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"gone.txt": "before"}
    refused = shared.refuse("bridge/catchUp", kind="opencode", path=str(file.database), event="stop")
    assert "must be the database, and `/ses_...`" in refused["message"]


def test_adopt_writes_a_session_for_the_program_that_ends_before_a_prompt(mirror: Session, file: OpencodeFile) -> None:
    before = {path.name for path in file.folder.iterdir()}
    made = mirror.call("bridge/adopt", at=mirror.get_state()["context"]["checkpoints"][1]["uid"])
    path = Path(made["path"])
    document = json.loads(path.read_bytes())
    texts = [part.get("text") for message in document["messages"] for part in message["parts"]]
    assert [text for text in texts if text] == TWO_TURNS[:2]
    new = document["info"]["id"]
    assert {message["info"]["sessionID"] for message in document["messages"]} == {new} != {"ses_1"}
    assert made["resume"]["args"][-2:] == [str(path), new]
    assert (made["resume"]["command"], made["resume"]["cwd"]) == ("sh", file.workspace)
    assert {each.name for each in file.folder.iterdir()} - before == {"timeleap"}
