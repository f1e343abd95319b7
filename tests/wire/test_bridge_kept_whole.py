"""What a program needs beside a session's file is kept with it, redacted with it, and given back with it."""

from __future__ import annotations

import json
import lzma
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.codex_file import CodexFile, Segment
from tests.support.fixtures import StartServer
from tests.support.kimi_code_file import KimiCodeFile
from tests.support.kimi_file import KimiFile
from tests.support.opencode_file import OpencodeFile
from tests.support.scene import until
from tests.support.server import Server

from timeleap_agents.mirrors.folders import mirror_id

SECRET = "sesame-3141"
Made = tuple[str, Path, Path, list[Path]]
"""A program, its folder, a session's file, and all files that belong to the session."""


def claude(folder: Path) -> Made:
    file = ClaudeFile(folder / "claude" / "projects")
    file.turn(1)
    result = file.path.with_suffix("") / "tool-results" / "toolu_1.txt"
    result.parent.mkdir(parents=True)
    result.write_text(f"long output with {SECRET}\n")
    file.turn(2)
    return "claude-code", file.folder, file.path, [file.path, result]


def codex(folder: Path) -> Made:
    first = CodexFile(folder / "codex" / "sessions", name="00000000-0000-4000-8000-000000000001")
    first.asks(f"say {SECRET}")
    first.says("done")
    first.turn(2)
    second = Segment(first, 3, first.session_id, "00000000-0000-4000-8000-00000000000a")
    second.turn(3)
    return "codex", first.folder, second.path, [first.path, second.path]


def kimi(folder: Path) -> Made:
    file = KimiFile(folder / "kimi")
    file.turn(1)
    file.asks(f"say {SECRET}")
    file.says("done")
    file.notes("state.json", {"custom_title": "mine"})
    file.goes_back(2)
    file.turn(3)
    return "kimi", file.folder, file.path, sorted(each for each in file.path.parent.iterdir() if each.is_file())


def kimi_code(folder: Path) -> Made:
    file = KimiCodeFile(folder / "kimi-code")
    picture = file.path.parent / "blobs" / "0123abcd"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG\n\n\x00picture")
    file.notes(title=f"About {SECRET}")
    file.turn(1)
    file.turn(2)
    return "kimi-code", file.folder, file.path, [file.path, file.path.parents[2] / "state.json", picture]


KINDS: dict[str, Callable[[Path], Made]] = {"claude": claude, "codex": codex, "kimi": kimi, "kimi-code": kimi_code}


def watch(server: Server, kind: str, folder: Path, path: Path) -> str:
    """Follow a folder until a session is kept; returns the id of its mirror."""
    server.call("bridge/watch", kind=kind, path=str(folder))
    session = mirror_id(kind, path)

    def is_kept() -> bool:
        listed = {each["sessionId"]: each for each in server.call("session/list", includeSubagents=True)["sessions"]}
        return session in listed and listed[session]["source"].get("kept") is not None

    until(is_kept)
    until(lambda: all(each["pending"] == 0 for each in server.call("bridge/list")["sources"] if each["watched"]))
    return session


def holding(home: Path, text: str) -> list[str]:
    """The files of a store that hold a text; compressed ones are opened."""
    found = []
    for path in home.rglob("*"):
        if path.is_file():
            data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
            found += [path.name] if text.encode() in data else []
    return found


def is_packed(directory: Path) -> bool:
    return not list(directory.glob("kept_*.bytes")) and bool(list(directory.glob("kept_*.xz")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_was_deleted_is_given_back_with_all_its_files(
    start: StartServer, tmp_path: Path, kind: str
) -> None:
    program, folder, path, files = KINDS[kind](tmp_path)
    before = {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in files}
    server = start()
    session = watch(server, program, folder, path)
    for each in files:
        each.unlink()
    until(lambda: is_packed(server.home / "sessions" / session))
    for each in folder.iterdir():
        shutil.rmtree(each)
    given = server.call("bridge/restoreFile", sessionId=session)
    assert given["path"] == str(path)
    assert {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in files} == before
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in files)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_there_is_written_over(start: StartServer, tmp_path: Path, kind: str) -> None:
    program, folder, path, files = KINDS[kind](tmp_path)
    server = start()
    session = watch(server, program, folder, path)
    (other, *_) = [each for each in files if each != path]
    path.unlink()
    other.write_text("{}\n")
    server.call("bridge/restoreFile", sessionId=session)
    assert other.read_text() == "{}\n"
    elsewhere = tmp_path / "elsewhere" / "session.jsonl"
    other.unlink()
    server.call("bridge/restoreFile", sessionId=session, path=str(elsewhere))
    assert elsewhere.exists()
    assert not other.exists(), "for somebody else the file alone is written"


@pytest.mark.parametrize("kind", KINDS)
def test_redaction_reaches_what_is_kept_beside_a_file(start: StartServer, tmp_path: Path, kind: str) -> None:
    program, folder, path, files = KINDS[kind](tmp_path)
    server = start()
    session = watch(server, program, folder, path)
    assert holding(server.home / "sessions", SECRET)
    server.call("session/redact", sessionId=session, value=SECRET)
    assert holding(server.home / "sessions", SECRET) == []
    (other, *_) = [each for each in files if each != path]
    rewritten = other.with_name("rewritten")  # as a program writes a file of its state anew
    rewritten.write_bytes(other.read_bytes() + b"\n")
    rewritten.replace(other)
    with path.open("ab") as file:
        file.write(b'{"type": "dream"}\n')
    known = path.stat().st_size
    until(lambda: server.call("bridge/listKept", sessionId=session)["generations"][0]["bytes"] > 0)
    until(lambda: any(b"dream" in each.read_bytes() for each in server.home.rglob("kept_*.bytes")))
    assert path.stat().st_size == known
    assert holding(server.home / "sessions", SECRET) == []


def test_a_rewritten_state_is_kept_with_what_it_was(start: StartServer, tmp_path: Path) -> None:
    file = KimiCodeFile(tmp_path / "kimi-code")
    file.turn(1)
    server = start()
    session = watch(server, "kimi-code", file.folder, file.path)
    file.notes(title="Another title")
    file.turn(2)
    until(lambda: holding(server.home / "sessions" / session, "Another title"))
    (only,) = server.call("bridge/listKept", sessionId=session)["generations"]
    assert (only["generation"], only["bytes"]) == (1, file.path.stat().st_size), "files beside it are not told"
    (file.path.parents[2] / "state.json").unlink()
    file.path.unlink()
    until(lambda: is_packed(server.home / "sessions" / session))
    server.call("bridge/restoreFile", sessionId=session)
    assert json.loads((file.path.parents[2] / "state.json").read_text())["title"] == "Another title"


# opencode


@pytest.fixture
def file(tmp_path: Path) -> OpencodeFile:
    """A session of opencode, with a turn that was taken back and deleted."""
    (tmp_path / "shop").mkdir()
    made = OpencodeFile(tmp_path / "opencode", str(tmp_path / "shop"))
    OpencodeFile(tmp_path / "opencode", str(tmp_path / "shop"), "ses_2").turn(7)
    made.turn(1)
    gone = made.asks(f"say {SECRET}")
    made.says(gone, "done")
    made.reverts(gone)
    made.cleans()
    made.turn(2)
    return made


def delete(file: OpencodeFile) -> None:
    for table, column in (
        ("part", "session_id"),
        ("message", "session_id"),
        ("event", "aggregate_id"),
        ("session", "id"),
    ):
        file.connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (file.session_id,))
    file.connection.execute("DELETE FROM event_sequence WHERE aggregate_id = ?", (file.session_id,))


def exported(file: OpencodeFile) -> dict[str, Any]:
    """The session as `opencode export` tells it."""
    connection = file.connection

    def rows(table: str, name: str, column: str) -> list[tuple[str, dict[str, Any]]]:
        query = f"SELECT id, data FROM {table} WHERE {column} = ? ORDER BY id"
        return [(found, json.loads(data)) for found, data in connection.execute(query, (name,))]

    messages: list[dict[str, Any]] = []
    for message, info in rows("message", file.session_id, "session_id"):
        place: dict[str, Any] = {"messageID": message, "sessionID": file.session_id}
        parts = [{**data, "id": part, **place} for part, data in rows("part", message, "message_id")]
        messages.append({"info": info | {"id": message, "sessionID": file.session_id}, "parts": parts})
    return {"messages": messages}


def test_rows_that_opencode_deleted_are_given_back_in_the_form_that_it_takes_in(
    start: StartServer, file: OpencodeFile
) -> None:
    server = start()
    session = watch(server, "opencode", file.folder, file.path)
    expected = exported(file)
    delete(file)
    until(lambda: is_packed(server.home / "sessions" / session))
    (only,) = server.call("bridge/listKept", sessionId=session)["generations"]
    assert only["ended"] == "gone"
    given = server.call("bridge/restoreFile", sessionId=session)
    place = file.folder / "timeleap" / "ses_1.json"
    assert given["path"] == str(place)
    assert given["resume"]["args"][2:] == [str(place), "ses_1"]
    document = json.loads(place.read_text())
    assert document["messages"] == expected["messages"]
    assert document["info"]["id"] == "ses_1"
    assert server.call("bridge/restoreFile", sessionId=session)["sha256"] == given["sha256"], "it is there: a success"
    assert file.connection.execute("SELECT id FROM session").fetchall() == [("ses_2",)], "the database is only read"


def test_rows_that_opencode_deleted_can_be_gone_on_from(start: StartServer, file: OpencodeFile) -> None:
    server = start()
    session = watch(server, "opencode", file.folder, file.path)
    delete(file)
    until(lambda: is_packed(server.home / "sessions" / session))
    made = server.call("bridge/adopt", sessionId=session)
    document = json.loads(Path(made["path"]).read_text())
    words = [part["text"] for message in document["messages"] for part in message["parts"] if part["type"] == "text"]
    assert words == ["question 1", "answer 1", "question 2", "answer 2"]


def test_rows_that_are_kept_grow_with_what_changed_and_are_redacted(start: StartServer, file: OpencodeFile) -> None:
    server = start()
    session = watch(server, "opencode", file.folder, file.path)
    directory = server.home / "sessions" / session
    assert "kept_1.bytes" in holding(directory, SECRET), "what was taken back stands in the events"
    server.call("session/redact", sessionId=session, value=SECRET)
    assert holding(directory, SECRET) == []
    before = (directory / "kept_1.bytes").read_bytes()
    file.turn(3)
    until(lambda: holding(directory, "answer 3"))
    until(lambda: b"answer 3" in (directory / "kept_1.bytes").read_bytes())
    after = (directory / "kept_1.bytes").read_bytes()
    assert after.startswith(before)
    assert b"question 1" not in after[len(before) :], "rows that did not change are not kept once more"
    server.shut_down()
    again = start(at=server.home)
    watch(again, "opencode", file.folder, file.path)
    file.turn(4)
    until(lambda: b"answer 4" in (directory / "kept_1.bytes").read_bytes())
    assert b"question 1" not in (directory / "kept_1.bytes").read_bytes()[len(before) :]
    assert holding(directory, SECRET) == []


def test_a_database_that_is_gone_takes_no_kept_session_along(start: StartServer, file: OpencodeFile) -> None:
    server = start()
    session = watch(server, "opencode", file.folder, file.path)
    file.close()
    for each in file.folder.iterdir():
        each.unlink()
    until(lambda: is_packed(server.home / "sessions" / session))
    assert json.loads(Path(server.call("bridge/restoreFile", sessionId=session)["path"]).read_text())["messages"]
    with pytest.raises(sqlite3.ProgrammingError):
        file.connection.execute("SELECT 1")
