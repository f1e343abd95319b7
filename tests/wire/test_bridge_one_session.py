"""`bridge/watch` where a session has several files, or a file several names, and where sub-agents have some of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.codex_file import CodexFile, Segment
from tests.support.fixtures import StartServer
from tests.support.gemini_file import GeminiFile, message
from tests.support.scene import until
from tests.support.server import Server
from tests.support.session import Session

from timeleap_agents.mirrors.folders import mirror_id

TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]
SEGMENT = "00000000-0000-4000-8000-00000000000a"


def watching(start: StartServer, kind: str, folder: Path, home: Path | None = None) -> Server:
    server = start() if home is None else start(at=home)
    server.call("bridge/watch", kind=kind, path=str(folder))
    return server


def shown(server: Server, session_id: str, texts: list[str]) -> Session:
    """The mirror, open, when it says this."""
    until(lambda: any(one["sessionId"] == session_id for one in listed(server, includeSubagents=True)))
    session = Session.open(server, session_id, create=False)
    until(lambda: [text for text in session.texts() if "context>" not in text] == texts)
    return session


def listed(server: Server, **params: Any) -> list[dict[str, Any]]:
    return list(server.call("session/list", **params)["sessions"])


def test_a_thread_of_codex_goes_on_in_a_segment_and_is_one_session(start: StartServer, tmp_path: Path) -> None:
    first = CodexFile(tmp_path / "sessions")
    first.turn(1)
    first.turn(2)
    server = watching(start, "codex", first.folder)
    mirror = shown(server, mirror_id("codex", first.path), TWO_TURNS)
    segment = Segment(first, 6, first.session_id, SEGMENT)
    segment.turn(3)
    now = [*TWO_TURNS[:2], "question 3", "answer 3"]
    shown(server, mirror.id, now)
    assert [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()] == [TWO_TURNS]
    (info,) = listed(server)
    assert (info["source"]["path"], info["source"]["key"]) == (str(segment.path), first.session_id)
    assert server.call("session/verify", sessionId=mirror.id)["problems"] == []
    server.kill()
    again = watching(start, "codex", first.folder, server.home)
    segment.turn(4)
    later = shown(again, mirror.id, [*now, "question 4", "answer 4"])
    assert len(later.timelines()) == 1


def test_what_a_segment_took_back_before_the_first_look_is_a_timeline(start: StartServer, tmp_path: Path) -> None:
    first = CodexFile(tmp_path / "sessions")
    first.turn(1)
    first.turn(2)
    Segment(first, 6, first.session_id, SEGMENT).turn(3)
    server = watching(start, "codex", first.folder)
    mirror = shown(server, mirror_id("codex", first.path), [*TWO_TURNS[:2], "question 3", "answer 3"])
    assert [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()] == [TWO_TURNS]


def test_sub_agents_of_codex_are_listed_below_their_session_alone(start: StartServer, tmp_path: Path) -> None:
    parent = CodexFile(tmp_path / "sessions")
    parent.turn(1)
    child = CodexFile(parent.folder)
    child.path.unlink()
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": parent.session_id, "depth": 1}}}
    child.begin(source=spawn, parent_thread_id=parent.session_id, thread_source="subagent")
    child.write_bytes(parent.path.read_bytes())
    child.turn(7)
    server = watching(start, "codex", parent.folder)
    mirror = shown(server, mirror_id("codex", parent.path), TWO_TURNS[:2])
    below = shown(server, mirror_id("codex", child.path), ["question 7", "answer 7"])
    assert [one["sessionId"] for one in listed(server)] == [mirror.id]
    assert [(one["sessionId"], one["title"]) for one in listed(server, parent=mirror.id)] == [(below.id, "question 7")]
    (source,) = [one for one in server.call("bridge/list")["sources"] if one["path"] == str(parent.folder)]
    assert source["sessions"] == 1


def test_a_session_of_gemini_that_is_gone_on_with_is_one_session(start: StartServer, tmp_path: Path) -> None:
    file = GeminiFile(tmp_path / "tmp")
    file.turn(1)
    server = watching(start, "gemini", file.folder)
    mirror = shown(server, mirror_id("gemini", file.path), TWO_TURNS[:2])
    beside = file.path.with_name(f"session-2026-11-21T10-00-{file.session_id[:8]}.jsonl")  # as the program does
    context = message("user", [{"text": "<session_context>x</session_context>"}])
    facts = {"sessionId": file.session_id, "projectHash": "f" * 64, "kind": "main"}
    beside.write_text("".join(json.dumps(record) + "\n" for record in (facts, {"$set": {"messages": [context]}})))
    file.turn(2)
    shown(server, mirror.id, TWO_TURNS)
    assert (len(listed(server)), mirror.timelines()) == (1, [])


def of_gemini(folder: Path) -> tuple[GeminiFile, Path]:
    """A session of two turns, and where the program writes one that begins it anew."""
    file = GeminiFile(folder / "tmp")
    return file, file.path.with_name(f"session-2026-11-21T10-00-{file.session_id[:8]}.jsonl")


def of_claude_code(folder: Path) -> tuple[ClaudeFile, Path]:
    file = ClaudeFile(folder / "projects")
    return file, file.folder / "-moved" / file.path.name


@pytest.mark.parametrize("made", [of_gemini, of_claude_code])
def test_a_shorter_file_of_a_session_that_comes_between_two_looks_hides_nothing(
    start: StartServer, tmp_path: Path, made: Callable[[Path], tuple[Any, Path]]
) -> None:
    file, beside = made(tmp_path)
    file.turn(1)
    file.turn(2)
    kind = "gemini" if made is of_gemini else "claude-code"
    server = watching(start, kind, file.folder)
    mirror = shown(server, mirror_id(kind, file.path), TWO_TURNS)
    server.finish()
    other, _ = made(tmp_path / "aside")
    other.turn(9)
    beside.parent.mkdir(exist_ok=True)
    beside.write_bytes(other.path.read_bytes().replace(other.session_id.encode(), file.session_id.encode()))
    again = watching(start, kind, file.folder, server.home)
    until(lambda: Session.open(again, mirror.id, create=False).timelines() != [])
    later = shown(again, mirror.id, TWO_TURNS)
    found = [later.texts(timelineId=each["timelineId"]) for each in later.timelines()]
    assert ["question 9", "answer 9"] in [[text for text in each if "context>" not in text] for each in found]
    assert len(listed(again)) == 1


def test_a_document_of_gemini_and_the_lines_it_goes_on_in_are_one_session(start: StartServer, tmp_path: Path) -> None:
    file = GeminiFile(tmp_path / "tmp")
    lines = file.path.read_bytes()
    said = [message("user", "question 1"), message("gemini", "answer 1")]
    former = file.path.with_suffix(".json")
    file.path.unlink()
    facts = {"sessionId": file.session_id, "projectHash": "f" * 64}
    former.write_text(json.dumps({**facts, "messages": said}, indent=2))
    server = watching(start, "gemini", file.folder)
    mirror = shown(server, mirror_id("gemini", former), TWO_TURNS[:2])
    file.write_bytes(lines)
    file.write(*said)
    file.turn(2)
    shown(server, mirror.id, TWO_TURNS)
    assert len(listed(server)) == 1


def test_of_two_files_of_one_session_the_longer_is_shown_and_the_other_is_a_timeline(
    start: StartServer, tmp_path: Path
) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.turn(1)
    copy = tmp_path / "projects" / "-moved" / file.path.name
    copy.parent.mkdir()
    shutil.copy(file.path, copy)
    file.turn(2)
    server = watching(start, "claude-code", tmp_path / "projects")
    mirror = shown(server, mirror_id("claude-code", file.path), TWO_TURNS)
    assert mirror.timelines() == []  # the copy is how the other begins
    other = ClaudeFile(tmp_path / "aside", name=file.session_id)
    other.turn(9)
    copy.write_bytes(other.path.read_bytes())
    until(lambda: len(mirror.timelines()) >= 1)
    shown(server, mirror.id, TWO_TURNS)
    found = [mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()]
    assert ["question 9", "answer 9"] in found
    assert len(listed(server)) == 1


def test_a_file_that_is_met_twice_through_links_is_one_session(start: StartServer, tmp_path: Path) -> None:
    file = CodexFile(tmp_path / "sessions")
    file.turn(1)
    (file.path.parents[1] / "29").symlink_to(file.path.parent)
    file.path.with_name(file.path.name.replace("T10", "T11")).symlink_to(file.path)
    server = watching(start, "codex", file.folder)
    mirror = shown(server, mirror_id("codex", file.path), TWO_TURNS[:2])
    file.turn(2)
    shown(server, mirror.id, TWO_TURNS)
    assert (len(listed(server)), mirror.timelines()) == (1, [])


def test_sidechains_within_a_file_are_told_and_no_part_of_the_log(start: StartServer, tmp_path: Path) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.turn(1)
    last = file.last
    file.asks("work aside", parentUuid=None, isSidechain=True)
    file.says("worked aside", isSidechain=True)
    file.last = last
    file.turn(2)
    server = watching(start, "claude-code", tmp_path / "projects")
    mirror = shown(server, mirror_id("claude-code", file.path), TWO_TURNS)
    (warning,) = mirror.get_state()["warnings"]
    assert "2 messages of sub-agents stand in sidechains" in warning["message"]
    assert len(listed(server, includeSubagents=True)) == 1
