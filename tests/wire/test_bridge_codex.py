"""`bridge/*` for Codex: its sessions are shown as they grow, and a hook of its keeps the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from tests.support.bridged import mirror_of
from tests.support.codex_file import CodexFile, message
from tests.support.fixtures import StartServer
from tests.support.scene import until
from tests.support.server import Message, Server
from tests.support.session import Session

from timeleap import clock

TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]


@pytest.fixture
def file(tmp_path: Path) -> CodexFile:
    """A session of two turns."""
    (tmp_path / "shop").mkdir()
    made = CodexFile(tmp_path / "sessions", str(tmp_path / "shop"))
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def watching(start: StartServer, file: CodexFile) -> Server:
    """A server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="codex", path=str(file.folder))
    return server


def says(session: Session, texts: list[str]) -> None:
    until(lambda: session.texts() == texts)


def test_a_session_of_the_program_is_listed_read_and_changed_by_nobody(watching: Server, file: CodexFile) -> None:
    mirror = mirror_of(watching, "codex", file.path, 4)
    assert mirror.texts() == TWO_TURNS
    assert [point["label"] for point in mirror.get_state()["context"]["checkpoints"]] == ["question 1", "question 2"]
    (info,) = watching.call("session/list", source={"kind": "codex"})["sessions"]
    assert info["source"].pop("kept")["bytes"] == file.path.stat().st_size
    assert info["source"] == {"kind": "codex", "key": file.session_id, "path": str(file.path), "live": True}
    assert info["workspace"] == Path(file.workspace).as_uri()
    assert mirror.get_state()["context"]["systemPrompt"] == "You are Codex."
    assert mirror.refuse("context/clear")["data"]["reason"] == "mirrored"


def test_what_the_program_writes_is_shown_and_told(watching: Server, file: CodexFile) -> None:
    mirror = mirror_of(watching, "codex", file.path, 4)
    watching.heard("bridge/didChange", added=[mirror.id])
    since = len(watching.received)
    file.turn(3)
    says(mirror, [*TWO_TURNS, "question 3", "answer 3"])
    assert watching.heard("bridge/didChange", since=since, changed=[mirror.id])
    assert mirror.timelines() == []


def test_where_the_program_goes_back_the_log_as_it_was_is_a_timeline(watching: Server, file: CodexFile) -> None:
    mirror = mirror_of(watching, "codex", file.path, 4)
    file.event("thread_rolled_back", num_turns=1)
    file.asks("question 2, better")
    says(mirror, [*TWO_TURNS[:2], "question 2, better"])
    assert [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()] == [TWO_TURNS]


def test_what_was_summed_up_before_is_a_timeline(start: StartServer, file: CodexFile) -> None:
    file.write("compacted", {"message": "", "replacement_history": [message("user", "question 1")]})
    file.says("on we go")
    server = start()
    server.call("bridge/watch", kind="codex", path=str(file.folder))
    mirror = mirror_of(server, "codex", file.path, 2)
    assert mirror.texts() == ["question 1", "on we go"]
    assert [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()] == [TWO_TURNS]


def test_a_file_that_is_replaced_is_read_again(watching: Server, file: CodexFile) -> None:
    mirror = mirror_of(watching, "codex", file.path, 4)
    other = CodexFile(file.folder.parent / "aside", file.workspace, name=file.session_id)
    other.turn(7)
    other.path.replace(file.path)
    says(mirror, ["question 7", "answer 7"])
    assert [timeline["reason"] for timeline in mirror.timelines()] == ["external"]


def test_a_file_that_is_packed_and_unpacked_again_is_the_same_session(watching: Server, file: CodexFile) -> None:
    mirror = mirror_of(watching, "codex", file.path, 4)
    data, packed = file.path.read_bytes(), file.path.with_name(file.path.name + ".zst")

    def source() -> str:
        infos = watching.call("session/list", limit=100)["sessions"]
        return str(next(info["source"]["path"] for info in infos if info["sessionId"] == mirror.id))

    packed.write_bytes(zstd.compress(data))
    file.path.unlink()
    until(lambda: source() == str(packed))
    assert mirror.texts() == TWO_TURNS
    assert not mirror.timelines()
    packed.unlink()
    file.path.write_bytes(data)
    file.turn(3)
    says(mirror, [*TWO_TURNS, "question 3", "answer 3"])
    assert not mirror.timelines()


def test_a_packed_file_is_imported_and_gone_on_with(start: StartServer, file: CodexFile) -> None:
    packed = file.path.with_name(file.path.name + ".zst")
    packed.write_bytes(zstd.compress(file.path.read_bytes()))
    file.path.unlink()
    server = start()
    assert Session(server, server.call("session/import", path=str(packed))).texts() == TWO_TURNS
    server.call("bridge/watch", kind="codex", path=str(file.folder))
    mirror = mirror_of(server, "codex", packed, 4)
    assert server.call("session/search", query="question 2")["matches"]
    made = Path(mirror.call("bridge/adopt")["path"])
    assert made.parent == packed.parent
    assert made.suffix == ".jsonl"


def test_a_server_that_is_killed_shows_nothing_twice_afterwards(start: StartServer, file: CodexFile) -> None:
    for number in range(3, 200):
        file.turn(number)
    server = start()
    server.call("bridge/watch", kind="codex", path=str(file.folder))
    until(lambda: server.call("session/list")["sessions"])
    server.kill()
    again = start(at=server.home)
    again.call("bridge/watch", kind="codex", path=str(file.folder))
    expected = [f"{kind} {number}" for number in range(1, 200) for kind in ("question", "answer")]
    assert mirror_of(again, "codex", file.path, len(expected)).texts() == expected


def test_a_version_that_was_not_tested_is_a_warning(start: StartServer, file: CodexFile) -> None:
    newer = CodexFile(file.folder, name="newer")
    newer.path.unlink()
    newer.begin(cli_version="9.0.1-alpha.2")
    newer.turn(1)
    server = start()
    server.call("bridge/watch", kind="codex", path=str(file.folder))
    (warning,) = mirror_of(server, "codex", newer.path, 2).get_state()["warnings"]
    assert (warning["kind"], "codex 9.0.1 wrote this" in warning["message"]) == ("newerThanTested", True)


def test_the_usual_folders_are_listed_and_unwatched(
    start: StartServer, file: CodexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(file.folder.parent))
    server = start()
    (usual,) = [source for source in server.call("bridge/list")["sources"] if source["kind"] == "codex"]
    assert (usual["path"], usual["sessions"], usual["watched"]) == (str(file.folder), 1, False)
    assert server.call("bridge/watch", kind="codex")["path"] == str(file.folder)
    assert server.call("bridge/unwatch", kind="codex") == {"watched": True}


def hook(server: Server, file: CodexFile, event: str, **params: Any) -> Message:
    where = {"kind": "codex", "path": str(file.path), "cwd": file.workspace, **params}
    return dict(server.call("bridge/catchUp", event=event, **where))


def test_what_the_shell_did_in_a_turn_is_undone(shared: Server, file: CodexFile) -> None:
    folder = Path(file.workspace)
    (folder / "gone.txt").write_text("before")
    assert hook(shared, file, "prompt")["snapshot"]
    file.asks("change it", clock.now_iso())
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("after")
    file.calls("call-1")
    hook(shared, file, "tool", toolName="Bash")
    mirror = Session.open(shared, hook(shared, file, "stop")["sessionId"], create=False)
    *_, prompt = mirror.get_state()["context"]["checkpoints"]
    assert prompt["label"] == "change it"
    mirror.call("files/restore", to={"checkpointUid": prompt["uid"]}, onConflict="overwrite")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"gone.txt": "before"}


# Adopting


def lines(path: str) -> list[Message]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_adopt_writes_a_session_for_the_program_that_ends_before_a_prompt(watching: Server, file: CodexFile) -> None:
    mirror, before = mirror_of(watching, "codex", file.path, 4), file.path.read_bytes()
    made = mirror.call("bridge/adopt", at=mirror.get_state()["context"]["checkpoints"][1]["uid"])
    assert Session.open(watching, made["sessionId"], create=False).texts() == TWO_TURNS[:2]
    facts, *others = lines(made["path"])
    session_id = facts["payload"]["id"]
    assert made["resume"] == {"command": "codex", "args": ["resume", session_id], "cwd": file.workspace}
    assert Path(made["path"]).parent == file.path.parent
    assert Path(made["path"]).name.endswith(f"-{session_id}.jsonl")
    assert session_id != file.session_id
    assert others == lines(str(file.path))[1:6]  # up to what ends the first turn
    assert file.path.read_bytes() == before


def test_adopt_keeps_what_was_taken_back_out_of_the_conversation(watching: Server, file: CodexFile) -> None:
    file.event("thread_rolled_back", num_turns=1)
    file.turn(3)
    made = mirror_of(watching, "codex", file.path, 4).call("bridge/adopt")
    assert Session.open(watching, made["sessionId"], create=False).texts() == [*TWO_TURNS[:2], "question 3", "answer 3"]


def test_adopt_cuts_a_summary_where_it_is_told_to(watching: Server, file: CodexFile) -> None:
    history = [message("user", text) for text in ("one", "two", "three")]
    file.write("compacted", {"message": "", "replacement_history": history})
    file.turn(4)
    made = mirror_of(watching, "codex", file.path, 5).call("bridge/adopt", at=2)
    assert Session.open(watching, made["sessionId"], create=False).texts() == ["one", "two"]


def test_adopt_refuses_to_end_in_the_middle_of_a_tool_call(watching: Server, file: CodexFile) -> None:
    file.calls("call-1")
    file.gets("call-1", "done")
    mirror = mirror_of(watching, "codex", file.path, 6)
    assert mirror.refuse("bridge/adopt", at=5)["data"]["errors"][0]["loc"] == ["at"]
    assert mirror.call("bridge/adopt", at=6)["sessionId"]


def test_adopt_refuses_a_file_that_the_program_reads_no_more(start: StartServer, file: CodexFile) -> None:
    old = CodexFile(file.folder, name="old")
    old.path.unlink()
    old.write_bytes(b'{"id": "old", "timestamp": "2025-07-01T10:00:00Z", "instructions": "Old."}\n')
    old.write_bytes(json.dumps(message("user", "question 1")).encode() + b"\n")
    server = start()
    server.call("bridge/watch", kind="codex", path=str(file.folder))
    assert mirror_of(server, "codex", old.path, 1).refuse("bridge/adopt")["data"]["errors"][0]["loc"] == ["sessionId"]
