"""`bridge/*` for kimi-cli: its sessions are shown as they grow, also where it goes back, and it can go on from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.bridged import mirror_of
from tests.support.fixtures import StartServer
from tests.support.kimi_file import KimiFile
from tests.support.scene import until
from tests.support.server import Message, Server
from tests.support.session import Session

TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]


@pytest.fixture
def file(tmp_path: Path) -> KimiFile:
    """A session of two turns."""
    (tmp_path / "shop").mkdir()
    made = KimiFile(tmp_path / "share", str(tmp_path / "shop"))
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def watching(start: StartServer, file: KimiFile) -> Server:
    """A server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="kimi", path=str(file.folder))
    return server


def checkpoints(session: Session) -> list[tuple[str, str]]:
    return [(point["label"], point["uid"]) for point in session.get_state()["context"]["checkpoints"]]


def test_a_session_of_the_program_is_listed_read_and_changed_by_nobody(watching: Server, file: KimiFile) -> None:
    mirror = mirror_of(watching, "kimi", file.path, 4)
    assert mirror.texts() == TWO_TURNS
    assert [label for label, _ in checkpoints(mirror)] == ["question 1", "question 2"]
    (info,) = watching.call("session/list", source={"kind": "kimi"})["sessions"]
    assert info["source"].pop("kept")["bytes"] == file.path.stat().st_size
    assert info["source"] == {"kind": "kimi", "key": file.session_id, "path": str(file.path), "live": True}
    assert (info["workspace"], info["title"]) == (Path(file.workspace).as_uri(), "question 1")
    state = mirror.get_state()["context"]
    assert (state["systemPrompt"], state["tokenCount"]) == ("You are Kimi.", 14)
    assert mirror.refuse("context/clear")["data"]["reason"] == "mirrored"
    assert watching.call("session/search", query="answer 2")["matches"][0]["sessionId"] == mirror.id


def test_where_the_program_goes_back_what_is_kept_has_its_checkpoints_and_the_rest_is_a_timeline(
    watching: Server, file: KimiFile
) -> None:
    mirror = mirror_of(watching, "kimi", file.path, 4)
    before = checkpoints(mirror)
    file.goes_back(2)
    file.turn(7)
    until(lambda: mirror.texts() == [*TWO_TURNS[:2], "question 7", "answer 7"])
    assert checkpoints(mirror)[0] == before[0]
    (timeline,) = mirror.timelines()
    assert (timeline["reason"], mirror.texts(timelineId=timeline["timelineId"])) == ("external", TWO_TURNS)


def test_logs_that_were_set_aside_before_are_timelines(start: StartServer, file: KimiFile) -> None:
    file.goes_back(2)
    file.turn(7)
    file.goes_back(0)
    file.turn(8)
    server = start()
    server.call("bridge/watch", kind="kimi", path=str(file.folder))
    mirror = mirror_of(server, "kimi", file.path, 2)
    until(lambda: mirror.texts() == ["question 8", "answer 8"] and len(mirror.timelines()) == 2)
    assert [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()] == [
        [*TWO_TURNS[:2], "question 7", "answer 7"],
        TWO_TURNS,
    ]


def test_a_server_that_is_killed_shows_nothing_twice_afterwards(start: StartServer, file: KimiFile) -> None:
    for number in range(3, 200):
        file.turn(number)
    server = start()
    server.call("bridge/watch", kind="kimi", path=str(file.folder))
    until(lambda: server.call("session/list")["sessions"])
    server.kill()
    file.goes_back(2 * 150)
    file.turn(500)
    again = start(at=server.home)
    again.call("bridge/watch", kind="kimi", path=str(file.folder))
    expected = [f"{kind} {number}" for number in (*range(1, 151), 500) for kind in ("question", "answer")]
    assert mirror_of(again, "kimi", file.path, len(expected)).texts() == expected


def test_a_form_that_was_not_tested_is_one_warning(watching: Server, file: KimiFile) -> None:
    newer = KimiFile(file.folder.parent)
    newer.notes("wire.jsonl", {"type": "metadata", "protocol_version": "9.1"})
    newer.turn(1)
    mirror = mirror_of(watching, "kimi", newer.path, 2)
    newer.turn(2)
    until(lambda: mirror.texts() == TWO_TURNS)
    (warning,) = mirror.get_state()["warnings"]
    assert (warning["kind"], "kimi-cli with the protocol 9.1 wrote" in warning["message"]) == ("newerThanTested", True)


def test_the_usual_folder_is_that_of_the_programs_variable(
    start: StartServer, file: KimiFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_SHARE_DIR", str(file.folder.parent))
    server = start()
    (usual,) = [source for source in server.call("bridge/list")["sources"] if source["kind"] == "kimi"]
    assert (usual["path"], usual["sessions"], usual["watched"]) == (str(file.folder), 1, False)


# Adopting


def lines(path: Path | str) -> list[Message]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_adopt_writes_a_session_for_the_program_that_ends_before_a_prompt(watching: Server, file: KimiFile) -> None:
    mirror, before = mirror_of(watching, "kimi", file.path, 4), file.path.read_bytes()
    made = mirror.call("bridge/adopt", at=checkpoints(mirror)[1][1])
    assert Session.open(watching, made["sessionId"], create=False).texts() == TWO_TURNS[:2]
    path = Path(made["path"])
    assert made["resume"] == {"command": "kimi", "args": ["--session", path.parent.name], "cwd": file.workspace}
    assert (path.parent.parent, path.name) == (file.path.parents[1], "context.jsonl")
    assert path.parent.name != file.session_id
    assert lines(path) == lines(file.path)[:6]  # up to the token count of the first turn
    assert file.path.read_bytes() == before


def test_adopt_refuses_to_end_in_the_middle_of_a_tool_call(watching: Server, file: KimiFile) -> None:
    file.calls("call-1")
    file.gets("call-1", "done")
    mirror = mirror_of(watching, "kimi", file.path, 6)
    assert mirror.refuse("bridge/adopt", at=5)["data"]["errors"][0]["loc"] == ["at"]
    assert mirror.call("bridge/adopt", at=6)["sessionId"]


def test_adopt_refuses_a_session_that_the_program_would_not_find(watching: Server, file: KimiFile) -> None:
    mirror = mirror_of(watching, "kimi", file.path, 4)
    (file.folder.parent / "kimi.json").unlink()
    assert mirror.refuse("bridge/adopt")["data"]["errors"][0]["loc"] == ["sessionId"]
    assert [path.name for path in file.path.parents[1].iterdir()] == [file.session_id]
