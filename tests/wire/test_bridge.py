"""`bridge/*`: sessions of Claude Code are shown as they grow, are changed by nobody here, and can be gone on in."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_file import CREATED
from tests.support.bridged import mirror_of
from tests.support.claude_file import ClaudeFile
from tests.support.claude_histories import History
from tests.support.fixtures import StartServer
from tests.support.holding import Hold
from tests.support.said import said
from tests.support.scene import until
from tests.support.server import Message, Server
from tests.support.session import Session

from timeleap_agents.mirrors.folders import mirror_id


@pytest.fixture
def file(tmp_path: Path) -> ClaudeFile:
    """A session of two turns."""
    made = ClaudeFile(tmp_path / "projects")
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def watching(start: StartServer, file: ClaudeFile) -> Server:
    """A server that follows the folder."""
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    return server


def says(session: Session, texts: list[str]) -> None:
    until(lambda: session.texts() == texts)


TWO_TURNS = ["question 1", "answer 1", "question 2", "answer 2"]


def test_the_state_of_a_mirror_says_that_it_is_one_and_whose(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    assert mirror.get_state()["source"] == {"kind": "claude-code", "key": file.session_id, "path": str(file.path)}
    forked = Session.open(watching, watching.call("session/fork", sessionId=mirror.id)["sessionId"])
    assert "source" not in forked.get_state()


def test_a_session_of_the_program_is_listed_and_read(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    assert mirror.texts() == TWO_TURNS
    assert [point["label"] for point in mirror.get_state()["context"]["checkpoints"]] == ["question 1", "question 2"]
    (info,) = watching.call("session/list", source={"kind": "claude-code"})["sessions"]
    assert info["source"].pop("kept")["bytes"] == file.path.stat().st_size
    assert info["source"] == {"kind": "claude-code", "key": file.session_id, "path": str(file.path), "live": True}
    assert info["workspace"] == "file:///shop"
    assert watching.call("session/search", query="answer 2")["matches"]


def test_its_title_is_the_first_prompt_until_the_program_gives_one(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    until(lambda: mirror.get_state()["title"] == "question 1")
    file.write({"type": "ai-title", "sessionId": file.session_id, "aiTitle": "The till"})
    until(lambda: mirror.get_state()["title"] == "The till")


def test_what_the_program_writes_is_shown_and_told(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    watching.heard("bridge/didChange", added=[mirror.id])
    since = len(watching.received)
    file.turn(3)
    says(mirror, [*TWO_TURNS, "question 3", "answer 3"])
    assert watching.heard("context/didChange", since=since)["kind"] in ("checkpointCreated", "messagesAppended")
    assert watching.heard("bridge/didChange", since=since) == {"added": [], "changed": [mirror.id], "gone": []}


def test_a_new_session_of_the_program_is_told_as_added(watching: Server, file: ClaudeFile) -> None:
    watching.heard("bridge/didChange", added=[mirror_of(watching, "claude-code", file.path, 4).id])
    other = ClaudeFile(file.folder, "/other")
    other.turn(1)
    assert watching.heard("bridge/didChange", added=[mirror_of(watching, "claude-code", other.path, 2).id])


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("context/appendMessage", {"message": {"role": "user", "content": "x"}}),
    ("context/clear", {}),
    ("context/checkpoint", {}),
    ("context/revertTo", {"messageIndex": 1}),
    ("context/compact", {"summary": "x"}),
    ("session/setTitle", {"title": "x"}),
]


@pytest.mark.parametrize(("method", "params"), CHANGES)
def test_nobody_here_changes_it(watching: Server, file: ClaudeFile, method: str, params: Message) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    assert mirror.get_state()["access"] == "readOnly"
    error = mirror.refuse(method, **params)
    assert (error["code"], error["data"]["reason"]) == (4004, "mirrored")
    assert "claude-code" in error["message"], "whose mirror it is"
    assert mirror.texts() == TWO_TURNS


def test_what_is_not_open_is_not_changed_either(watching: Server, file: ClaudeFile) -> None:
    session_id = mirror_of(watching, "claude-code", file.path, 4).id
    watching.call("session/close", sessionId=session_id)
    assert watching.refuse("session/archive", sessionId=session_id)["data"]["reason"] == "mirrored"


def test_another_window_sees_it_grow_and_does_not_change_it(
    watching: Server, start: StartServer, file: ClaudeFile
) -> None:
    session_id = mirror_of(watching, "claude-code", file.path, 4).id
    window = start(at=watching.home)
    other = Session.open(window, session_id)
    assert other.get_state()["access"] == "readOnly"
    file.turn(3)
    says(other, [*TWO_TURNS, "question 3", "answer 3"])
    assert other.refuse("context/clear")["data"]["reason"] == "mirrored"


def test_a_fork_of_it_is_a_session_like_any_other(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    uid = mirror.get_state()["context"]["checkpoints"][1]["uid"]
    fork = Session(watching, mirror.call("session/fork", checkpointUid=uid))
    fork.say("on we go")
    assert fork.texts() == [*TWO_TURNS[:2], "on we go"]


def test_where_the_program_goes_back_the_log_as_it_was_is_a_timeline(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    first = json.loads(file.path.read_text().splitlines()[1])["uuid"]
    file.asks("question 2, better", parentUuid=first)
    says(mirror, [*TWO_TURNS[:2], "question 2, better"])
    (timeline,) = mirror.timelines()
    assert timeline["reason"] == "external"
    assert mirror.texts(timelineId=timeline["timelineId"]) == TWO_TURNS


def test_a_branch_that_was_left_before_is_a_timeline_too(start: StartServer, file: ClaudeFile) -> None:
    file.asks("question 2, better", parentUuid=json.loads(file.path.read_text().splitlines()[1])["uuid"])
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    mirror = mirror_of(server, "claude-code", file.path, 3)
    assert [mirror.texts(timelineId=timeline["timelineId"]) for timeline in mirror.timelines()] == [TWO_TURNS]


def test_a_file_that_is_replaced_is_read_again(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    other = ClaudeFile(file.folder.parent / "aside", name=file.session_id)
    other.turn(7)
    other.path.replace(file.path)
    says(mirror, ["question 7", "answer 7"])
    assert [timeline["reason"] for timeline in mirror.timelines()] == ["external"]


def test_a_file_that_is_gone_leaves_the_mirror_as_it_is(watching: Server, file: ClaudeFile) -> None:
    mirror, since = mirror_of(watching, "claude-code", file.path, 4), len(watching.received)
    file.path.unlink()
    assert watching.heard("bridge/didChange", since=since, gone=[{"sessionId": mirror.id, "path": str(file.path)}])
    assert mirror.texts() == TWO_TURNS


def test_what_was_mirrored_before_is_not_read_at_the_next_start(start: StartServer, file: ClaudeFile) -> None:
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    mirror_of(server, "claude-code", file.path, 4)
    until(lambda: list((server.home / "mirrors").glob("claude-code-*.json")))
    log = server.home / "sessions" / mirror_id("claude-code", file.path) / "context.jsonl"
    server.shut_down()
    before = log.stat()
    again = start(at=server.home)
    again.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: source(again, file)["mirrored"] == 1)
    assert (log.stat().st_mtime_ns, log.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    file.turn(3)
    assert mirror_of(again, "claude-code", file.path, 6).texts()[4:] == ["question 3", "answer 3"]
    assert mirror_of(again, "claude-code", file.path, 6).timelines() == []


def test_a_server_that_is_killed_shows_nothing_twice_afterwards(start: StartServer, file: ClaudeFile) -> None:
    for number in range(3, 200):
        file.turn(number)
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: server.call("session/list")["sessions"])
    server.kill()
    again = start(at=server.home)
    again.call("bridge/watch", kind="claude-code", path=str(file.folder))
    expected = [f"{kind} {number}" for number in range(1, 200) for kind in ("question", "answer")]
    assert mirror_of(again, "claude-code", file.path, len(expected)).texts() == expected


def test_a_file_that_was_edited_while_nobody_looked_is_read_again(start: StartServer, file: ClaudeFile) -> None:
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    mirror_of(server, "claude-code", file.path, 4)
    server.shut_down()
    file.path.write_bytes(file.path.read_bytes().replace(b"answer 1", b"edited 1"))
    again = start(at=server.home)
    again.call("bridge/watch", kind="claude-code", path=str(file.folder))
    says(mirror_of(again, "claude-code", file.path, 4), ["question 1", "edited 1", "question 2", "answer 2"])


def test_a_second_server_follows_when_the_first_one_ends(
    watching: Server, start: StartServer, file: ClaudeFile
) -> None:
    mirror_of(watching, "claude-code", file.path, 4)
    second = start(at=watching.home)
    second.call("bridge/watch", kind="claude-code", path=str(file.folder))
    watching.kill()
    file.turn(3)
    assert mirror_of(second, "claude-code", file.path, 6).texts()[4:] == ["question 3", "answer 3"]


def test_a_version_that_was_not_tested_is_a_warning(watching: Server, file: ClaudeFile) -> None:
    file.asks("from the future", version="9.0.1")
    mirror = mirror_of(watching, "claude-code", file.path, 5)
    since = len(watching.received)
    file.asks("and again", version="9.0.2")
    until(lambda: len(mirror.history()) == 6)
    (warning,) = mirror.get_state()["warnings"]
    assert warning["kind"] == "newerThanTested"
    assert [each for each in watching.received[since:] if each.get("method") == "session/warning"] == []


def source(server: Server, file: ClaudeFile) -> Message:
    (found,) = [source for source in server.call("bridge/list")["sources"] if source["path"] == str(file.folder)]
    return dict(found)


def test_sources_say_how_many_sessions_there_are(watching: Server, file: ClaudeFile) -> None:
    ClaudeFile(file.folder, "/other").turn(1)
    until(lambda: source(watching, file)["mirrored"] == 2)
    assert {**source(watching, file), "path": ""} == {
        "kind": "claude-code", "path": "", "sessions": 2, "available": True, "watched": True, "mirrored": 2, "pending": 0,
    }  # fmt: skip


def test_a_file_whose_name_is_not_utf_8_is_told_and_leaves_nothing_behind(watching: Server, file: ClaudeFile) -> None:
    folder = os.fsencode(file.folder) + b"/-sh\xf6p"
    os.mkdir(folder)
    shutil.copy(os.fsencode(file.path), folder + b"/11111111-1111-4111-8111-111111111111.jsonl")
    until(lambda: "is not UTF-8" in source(watching, file).get("problem", ""))
    assert "-sh\ufffdp" in source(watching, file)["problem"]
    until(lambda: len(watching.call("session/list")["sessions"]) == 1)


def test_unwatch_ends_it(watching: Server, file: ClaudeFile) -> None:
    mirror_of(watching, "claude-code", file.path, 4)
    where = {"kind": "claude-code", "path": str(file.folder)}
    assert watching.call("bridge/unwatch", **where) == {"watched": True}
    assert watching.call("bridge/unwatch", **where) == {"watched": False}
    assert source_is_unwatched(watching, file)


def source_is_unwatched(server: Server, file: ClaudeFile) -> bool:
    return all(source["path"] != str(file.folder) for source in server.call("bridge/list")["sources"])


def test_only_sessions_of_the_workspace_are_mirrored_where_one_is_named(start: StartServer, file: ClaudeFile) -> None:
    other = ClaudeFile(file.folder, "/other")
    other.turn(1)
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder), workspace="file:///other")
    mirror_of(server, "claude-code", other.path, 2)
    assert len(server.call("session/list")["sessions"]) == 1
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    mirror_of(server, "claude-code", file.path, 4)


def test_links_are_followed_to_each_file_once(start: StartServer, file: ClaudeFile) -> None:
    outside = ClaudeFile(file.folder.parent / "outside")
    outside.turn(1)
    (file.folder / "linked").symlink_to(outside.path.parent)
    (file.folder / "again").symlink_to(outside.path.parent)
    (file.path.parent / "link.jsonl").symlink_to(outside.path)
    (file.folder / "round").symlink_to(file.folder)
    (file.folder / "nowhere").symlink_to(file.folder / "gone")
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    mirror_of(server, "claude-code", file.path, 4)
    assert mirror_of(server, "claude-code", outside.path, 2).texts() == ["question 1", "answer 1"]
    found = source(server, file)
    assert (found["sessions"], "leads nowhere" in found["problem"]) == (2, True)


def test_a_session_is_the_same_wherever_its_file_is_moved(watching: Server, file: ClaudeFile) -> None:
    mirror_of(watching, "claude-code", file.path, 4)
    moved = file.folder / "-renamed"
    file.path.parent.rename(moved)
    file.path = moved / file.path.name
    file.turn(3)
    assert mirror_of(watching, "claude-code", file.path, 6).texts()[-1] == "answer 3"
    (only,) = watching.call("session/list")["sessions"]
    assert only["source"]["path"] == str(file.path)


def test_a_session_has_the_times_of_its_records(watching: Server, file: ClaudeFile) -> None:
    file.says("later", timestamp="2026-11-21T10:00:00.500Z")
    mirror_of(watching, "claude-code", file.path, 5)
    until(lambda: watching.call("session/list")["sessions"][0]["updatedAt"] == "2026-11-21T10:00:00.500Z")
    assert watching.call("session/list")["sessions"][0]["createdAt"] == CREATED


def test_a_sub_agent_stands_below_its_session(watching: Server, file: ClaudeFile) -> None:
    parent = mirror_of(watching, "claude-code", file.path, 4)
    agent = ClaudeFile(file.folder, name="agent-1")
    agent.path = file.path.with_suffix("") / "subagents" / "agent-1.jsonl"
    agent.path.parent.mkdir(parents=True)
    agent.asks("look into it", isSidechain=True)
    agent.says("I looked", isSidechain=True)
    child = mirror_of(watching, "claude-code", agent.path, 2)

    def listed(**how: Any) -> list[str]:
        return [each["sessionId"] for each in watching.call("session/list", **how)["sessions"]]

    assert listed() == [parent.id]
    assert listed(parent=parent.id) == [child.id]
    assert sorted(listed(includeSubagents=True)) == sorted([parent.id, child.id])
    assert source(watching, file)["sessions"] == 1


def test_the_folder_of_a_mirror_may_be_named(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    mirror.call("session/setWorkspace", workspace="file:///elsewhere")
    file.turn(3)
    assert mirror_of(watching, "claude-code", file.path, 6).call("session/getState")["workspace"] == "file:///elsewhere"


def test_a_mirror_is_verified_with_the_file(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    found = mirror.call("session/verify")
    assert (found["ok"], found["warnings"]) == (True, [])
    watching.call("bridge/unwatch", kind="claude-code", path=str(file.folder))
    file.turn(3)
    assert [each["kind"] for each in mirror.call("session/verify")["warnings"]] == ["mirrorBehind"]
    file.path.write_bytes(file.path.read_bytes().replace(b"answer 1", b"answer X"))
    found = mirror.call("session/verify")
    assert (found["ok"], found["problems"][-1]["kind"]) == (False, "mirrorDiffers")
    assert "agents watch claude-code --once" in found["problems"][-1]["message"]
    file.path.unlink()
    found = mirror.call("session/verify")
    assert (found["ok"], [each["kind"] for each in found["warnings"]]) == (True, ["sourceGone"]), "what is kept"
    for kept in Path(mirror.call("session/getState")["path"]).glob("kept*"):
        kept.unlink()
    assert [each["kind"] for each in mirror.call("session/verify")["warnings"]] == ["sourceUnreadable"]


def test_an_import_is_what_the_mirror_is(watching: Server, file: ClaudeFile) -> None:
    history = History(file.folder, 11).grow(12)
    watching.call("session/import", path=str(history.file.path), sessionId="imported")
    imported = Session.open(watching, "imported", create=False)
    assert said(imported.history()) == history.log
    mirror = mirror_of(watching, "claude-code", history.file.path, len(imported.history()))
    until(lambda: mirror.history() == imported.history())
    told = {each["sessionId"]: each for each in watching.call("session/list")["sessions"]}
    for name in ("title", "createdAt", "updatedAt", "workspace", "messageCount"):
        assert told["imported"].get(name) == told[mirror.id].get(name), name


def test_a_deleted_mirror_comes_back_when_the_program_writes_on(watching: Server, file: ClaudeFile) -> None:
    mirror = mirror_of(watching, "claude-code", file.path, 4)
    mirror.call("session/delete")
    file.turn(3)
    assert mirror_of(watching, "claude-code", file.path, 6).texts()[-1] == "answer 3"


def test_the_store_is_no_folder_to_watch(watching: Server) -> None:
    error = watching.refuse("bridge/watch", kind="claude-code", path=str(watching.home / "sessions"))
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["path"])


# Adopting

Cut = Callable[[Session], Any]


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        (lambda mirror: mirror.get_state()["context"]["checkpoints"][1]["uid"], TWO_TURNS[:2]),
        (lambda _: 2, TWO_TURNS[:2]),
        (lambda _: 3, TWO_TURNS[:3]),
        (lambda _: None, TWO_TURNS),
    ],
)
def test_adopt_writes_a_session_for_the_program_that_ends_there(
    watching: Server, file: ClaudeFile, at: Cut, kept: list[str]
) -> None:
    mirror, before = mirror_of(watching, "claude-code", file.path, 4), file.path.read_bytes()
    made = mirror.call("bridge/adopt", at=at(mirror))
    assert Session.open(watching, made["sessionId"], create=False).texts() == kept
    path = Path(made["path"])
    assert made["resume"] == {"command": "claude", "args": ["--resume", path.stem], "cwd": "/shop"}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert {record["sessionId"] for record in records} == {path.stem}
    assert file.path.read_bytes() == before


def test_adopt_answers_though_another_process_mirrors_the_new_session_first(
    watching: Server, start: StartServer, file: ClaudeFile, tmp_path: Path
) -> None:
    mirror_of(watching, "claude-code", file.path, 4)
    hold = Hold("bridge.adopted", tmp_path)
    window = start(env=hold.environment)
    adopting = window.start("bridge/adopt", sessionId=mirror_id("claude-code", file.path), at=2)
    hold.wait()
    until(lambda: len(watching.call("session/list")["sessions"]) == 2)
    hold.release()
    made = adopting.result()
    assert Session.open(window, made["sessionId"], create=False).texts() == TWO_TURNS[:2]
    assert sorted(file.folder.rglob("*.jsonl")) == sorted([file.path, Path(made["path"])])


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_adopt_whose_server_is_killed_leaves_a_whole_session(start: StartServer, file: ClaudeFile) -> None:
    doomed, before = start(failpoints="bridge.adopted=kill"), file.path.read_bytes()
    doomed.call("bridge/watch", kind="claude-code", path=str(file.folder))
    mirror_of(doomed, "claude-code", file.path, 4)
    doomed.start("bridge/adopt", sessionId=mirror_id("claude-code", file.path), at=2)
    doomed.wait()
    made = next(path for path in file.folder.rglob("*.jsonl") if path != file.path)
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: len(server.call("session/list")["sessions"]) == 2)
    says(Session.open(server, mirror_id("claude-code", made), create=False), TWO_TURNS[:2])
    assert mirror_of(server, "claude-code", file.path, 4).texts() == TWO_TURNS
    assert file.path.read_bytes() == before


def test_adopt_that_cannot_be_mirrored_leaves_no_session_behind(
    watching: Server, start: StartServer, file: ClaudeFile
) -> None:
    mirror_of(watching, "claude-code", file.path, 4)
    watching.call("bridge/unwatch", kind="claude-code", path=str(file.folder))  # else it may be the first to mirror it
    window = start(env={"TIMELEAP_FAILPOINTS": "append.before_write=raise:ENOSPC"})
    error = window.refuse("bridge/adopt", sessionId=mirror_id("claude-code", file.path), at=2)
    assert error["code"] == 4005
    assert list(file.folder.rglob("*.jsonl")) == [file.path]


@pytest.mark.parametrize("at", [0, 5, 1 << 40])
def test_adopt_refuses_a_message_that_is_not_there(watching: Server, file: ClaudeFile, at: int) -> None:
    error = mirror_of(watching, "claude-code", file.path, 4).refuse("bridge/adopt", at=at)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["at"])


def test_adopt_refuses_to_end_in_the_middle_of_a_tool_call(watching: Server, file: ClaudeFile) -> None:
    file.calls("call-1")
    file.gets("call-1", "done")
    mirror = mirror_of(watching, "claude-code", file.path, 6)
    assert mirror.refuse("bridge/adopt", at=5)["code"] == -32602
    assert mirror.call("bridge/adopt", at=6)["sessionId"]


def test_adopt_refuses_a_session_of_our_own(watching: Server) -> None:
    error = Session.open(watching).refuse("bridge/adopt")
    assert error["data"]["errors"][0]["loc"] == ["sessionId"]
