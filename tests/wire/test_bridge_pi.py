"""`bridge/*` for pi: its sessions are shown as they grow, and it can go on from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.bridged import labels, mirror_of
from tests.support.fixtures import StartServer
from tests.support.pi_file import PiFile
from tests.support.scene import until
from tests.support.session import Session

TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]


@pytest.fixture
def file(tmp_path: Path) -> PiFile:
    """A session of two turns."""
    made = PiFile(tmp_path / "sessions", str(tmp_path / "shop"))
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def mirror(start: StartServer, file: PiFile) -> Session:
    """The mirror, open, of a server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="pi", path=str(file.folder))
    return mirror_of(server, "pi", file.path, 4)


def test_a_session_of_the_program_is_listed_read_and_gone_on_with(mirror: Session, file: PiFile) -> None:
    assert (mirror.texts(), labels(mirror)) == (TWO_TURNS, ["question 1", "question 2"])
    (info,) = mirror.server.call("session/list", source={"kind": "pi"})["sessions"]
    assert info["source"].pop("kept")["bytes"] == file.path.stat().st_size
    assert info["source"] == {"kind": "pi", "key": file.session_id, "path": str(file.path), "live": True}
    assert (info["workspace"], info["title"]) == (Path(file.workspace).as_uri(), "question 1")
    assert mirror.call("session/verify")["problems"] == []
    first = file.last
    file.calls("call-1")
    file.gets("call-1", "done")
    until(lambda: mirror.texts()[-1] == "done")
    file.last = first
    file.turn(3)
    file.entry("session_info", name="Mend the login")
    until(lambda: mirror.texts() == [*TWO_TURNS, "question 3", "answer 3"])
    (timeline,) = mirror.timelines()
    assert mirror.texts(timelineId=timeline["timelineId"])[-1] == "done"
    until(lambda: mirror.server.call("session/list")["sessions"][0]["title"] == "Mend the login")
    made = mirror.call("bridge/adopt", at=mirror.get_state()["context"]["checkpoints"][1]["uid"])
    assert Session.open(mirror.server, made["sessionId"], create=False).texts() == TWO_TURNS[:2]
    assert made["resume"] == {"command": "pi", "args": ["--session", made["path"]], "cwd": file.workspace}
    header, *entries = map(json.loads, Path(made["path"]).read_text().splitlines())
    assert (header["cwd"], header["parentSession"]) == (file.workspace, str(file.path))
    assert [entry["parentId"] for entry in entries] == [None, entries[0]["id"]]


def test_a_file_of_any_of_its_forms_is_imported(mirror: Session, file: PiFile) -> None:
    def imported(path: Path) -> list[str]:
        made = mirror.server.call("session/import", path=str(path))
        return Session.open(mirror.server, made["sessionId"], create=False).texts()

    assert imported(file.path) == TWO_TURNS
    header, *entries = map(json.loads, file.path.read_text().splitlines())
    del header["version"]
    kept = {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 3, "timestamp": header["timestamp"]}
    older = file.path.with_name("2026-11-20T10-00-00-000Z_older.jsonl")
    bare = [{name: entry[name] for name in ("type", "timestamp", "message")} for entry in entries]
    older.write_text("".join(json.dumps(record) + "\n" for record in [header, *bare, kept]))
    texts = imported(older)
    assert (texts[0].splitlines()[3], texts[1:]) == ("so far", TWO_TURNS[2:])
