"""The vault: bytes of agents' files are kept as they are mirrored, listed, and given back when the program has lost them."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.codex_file import CodexFile
from tests.support.fixtures import StartServer
from tests.support.scene import until
from tests.support.server import Message, Server

from timeleap_agents.mirrors.folders import mirror_id


@pytest.fixture
def file(tmp_path: Path) -> ClaudeFile:
    """A session of two turns."""
    made = ClaudeFile(tmp_path / "claude" / "projects")
    made.turn(1)
    made.turn(2)
    return made


@pytest.fixture
def watching(start: StartServer, file: ClaudeFile) -> Server:
    """A server that has mirrored it, and follows the folder."""
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: generations(server, mirror(file)) != [])
    return server


def mirror(file: ClaudeFile | CodexFile) -> str:
    return mirror_id("claude-code" if isinstance(file, ClaudeFile) else "codex", file.path)


def generations(server: Server, session_id: str) -> list[Message]:
    made = [each["sessionId"] for each in server.call("session/list", includeSubagents=True)["sessions"]]
    found = server.call("bridge/listKept", sessionId=session_id)["generations"] if session_id in made else []
    return list(found)


def ended(server: Server, session_id: str) -> list[str | None]:
    return [each.get("ended") for each in generations(server, session_id)]


def kept(server: Server, session_id: str) -> Any:
    sessions = server.call("session/list", includeSubagents=True)["sessions"]
    (info,) = (each for each in sessions if each["sessionId"] == session_id)
    return info["source"].get("kept")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_what_is_mirrored_is_kept_byte_for_byte(watching: Server, file: ClaudeFile) -> None:
    (only,) = generations(watching, mirror(file))
    assert (only["generation"], only["bytes"]) == (1, file.path.stat().st_size)
    assert only["sha256"] == sha256(file.path.read_bytes())
    assert only["firstSeen"] <= only["lastSeen"]
    file.turn(3)
    until(lambda: generations(watching, mirror(file))[0]["sha256"] == sha256(file.path.read_bytes()))
    facts = kept(watching, mirror(file))
    assert (facts["bytes"], facts["generations"], facts["fileGone"]) == (file.path.stat().st_size, 1, False)


@pytest.mark.parametrize(("days", "counted"), [(None, 30), (7, 7), (1, 1)])
def test_a_list_says_when_the_programs_own_clean_up_will_remove_it(
    watching: Server, file: ClaudeFile, days: object, counted: int
) -> None:
    if days is not None:
        (file.folder.parent / "settings.json").write_text(json.dumps({"cleanupPeriodDays": days}))
    goes_at = time.strptime(kept(watching, mirror(file))["goesAt"][:19], "%Y-%m-%dT%H:%M:%S")
    assert abs(time.mktime(goes_at) - time.timezone - file.path.stat().st_mtime - counted * 86400) < 2


@pytest.mark.parametrize("days", [0, "soon", -1])
def test_a_period_that_the_program_refuses_deletes_nothing(watching: Server, file: ClaudeFile, days: object) -> None:
    (file.folder.parent / "settings.json").write_text(json.dumps({"cleanupPeriodDays": days}))
    assert "goesAt" not in kept(watching, mirror(file))


def test_an_old_state_is_given_back_elsewhere_when_the_file_was_rewritten(
    watching: Server, file: ClaudeFile, tmp_path: Path
) -> None:
    before = file.path.read_bytes()
    file.path.write_bytes(before.splitlines(keepends=True)[0])
    until(lambda: ended(watching, mirror(file)) == [None, "truncated"])
    refused = watching.refuse("bridge/restoreFile", sessionId=mirror(file), generation=1)
    assert (refused["code"], refused["data"]["errno"], refused["data"]["retryable"]) == (4005, "EEXIST", False)
    assert refused["data"]["path"] == str(file.path)
    place = tmp_path / "elsewhere" / "old.jsonl"
    foretold = watching.call("bridge/restoreFile", sessionId=mirror(file), generation=1, path=str(place), dryRun=True)
    assert not place.exists()
    given = watching.call("bridge/restoreFile", sessionId=mirror(file), generation=1, path=str(place))
    assert given == foretold == {"path": str(place), "bytes": len(before), "sha256": sha256(before), "generation": 1}
    assert (place.read_bytes(), place.stat().st_mode & 0o777) == (before, 0o600)


def test_a_file_that_is_gone_is_given_back_at_its_old_place(watching: Server, file: ClaudeFile) -> None:
    before, changed, since = file.path.read_bytes(), file.path.stat().st_mtime_ns, len(watching.received)
    file.path.unlink()
    file.path.parent.rmdir()
    gone = [{"sessionId": mirror(file), "path": str(file.path)}]
    assert watching.heard("bridge/didChange", since=since, gone=gone)
    until(lambda: ended(watching, mirror(file)) == ["gone"])
    facts = kept(watching, mirror(file))
    assert facts == {"bytes": len(before), "generations": 1, "fileGone": True}
    given = watching.call("bridge/restoreFile", sessionId=mirror(file))
    resume = {"command": "claude", "args": ["--resume", file.session_id], "cwd": "/shop"}
    assert given == {
        "path": str(file.path), "bytes": len(before), "sha256": sha256(before), "generation": 1, "resume": resume,
    }  # fmt: skip
    assert (file.path.read_bytes(), file.path.stat().st_mtime_ns) == (before, changed)
    until(lambda: ended(watching, mirror(file)) == [None, "gone"])
    there = file.path.stat()
    assert watching.call("bridge/restoreFile", sessionId=mirror(file), generation=1)["path"] == str(file.path)
    assert file.path.stat() == there, "the same bytes are there: nothing is written"


def test_what_went_while_nobody_looked_is_told_by_the_next_watch(start: StartServer, file: ClaudeFile) -> None:
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: list((server.home / "mirrors").glob("claude-code-*.json")))
    server.shut_down()
    file.path.unlink()
    again = start(at=server.home)
    again.call("bridge/watch", kind="claude-code", path=str(file.folder))
    gone = [{"sessionId": mirror(file), "path": str(file.path)}]
    assert again.heard("bridge/didChange", gone=gone)
    until((again.home / "sessions" / mirror(file) / "kept_1.xz").exists)
    assert ended(again, mirror(file)) == ["gone"]


def test_a_moved_file_is_not_gone(watching: Server, file: ClaudeFile) -> None:
    elsewhere = file.path.parent.with_name("-elsewhere")
    elsewhere.mkdir()
    file.path = file.path.rename(elsewhere / file.path.name)
    file.turn(3)
    until(lambda: generations(watching, mirror(file))[0]["sha256"] == sha256(file.path.read_bytes()))
    until(lambda: ended(watching, mirror(file)) == [None])
    assert not [
        each for each in watching.received if each.get("method") == "bridge/didChange" and each["params"]["gone"]
    ]


BAD: list[tuple[Message, str]] = [
    ({"generation": 7}, "generation: is not kept: there are 1"),
    ({"path": "relative.jsonl"}, "path: must be an absolute path"),
    ({"path": "HOME/sessions/x.jsonl"}, "path: lies in the store"),
]


@pytest.mark.parametrize(("params", "why"), BAD)
def test_what_cannot_be_given_back_is_refused_in_words(
    watching: Server, file: ClaudeFile, params: Message, why: str
) -> None:
    params = json.loads(json.dumps(params).replace("HOME", str(watching.home)))
    error = watching.refuse("bridge/restoreFile", sessionId=mirror(file), **params)
    assert error["code"] == -32602
    assert why in error["message"]


def test_of_a_session_that_is_no_mirror_nothing_is_kept(watching: Server) -> None:
    own = watching.call("session/open")["sessionId"]
    assert "is not the mirror" in watching.refuse("bridge/listKept", sessionId=own)["message"]
    assert "is not the mirror" in watching.refuse("bridge/restoreFile", sessionId=own)["message"]


@pytest.mark.parametrize("agent", [ClaudeFile, CodexFile])
def test_a_session_whose_file_is_gone_is_gone_on_with_from_what_is_kept(
    start: StartServer, tmp_path: Path, agent: type[ClaudeFile] | type[CodexFile]
) -> None:
    file = agent(tmp_path / "agent" / "sessions" / "projects")
    file.turn(1)
    file.turn(2)
    kind = "claude-code" if agent is ClaudeFile else "codex"
    server = start()
    server.call("bridge/watch", kind=kind, path=str(file.folder))
    until(lambda: [each["messageCount"] for each in server.call("session/list")["sessions"]] == [4])
    there = server.call("bridge/adopt", sessionId=mirror(file), at=2)
    lines = len(Path(there["path"]).read_bytes().splitlines())
    file.path.unlink()
    until(lambda: ended(server, mirror(file)) == ["gone"])
    made = server.call("bridge/adopt", sessionId=mirror(file), at=2)
    assert Path(made["path"]).parent == file.path.parent
    assert made["resume"]["cwd"] == "/shop"
    assert len(Path(made["path"]).read_bytes().splitlines()) == lines
    assert "question 1" in Path(made["path"]).read_text()
    assert "question 2" not in Path(made["path"]).read_text()


def test_settings_say_how_much_is_kept_and_of_which_nothing(
    start: StartServer, file: ClaudeFile, tmp_path: Path
) -> None:
    other = ClaudeFile(file.folder, "/secret")
    other.turn(1)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[agents.keep]\nmaxBytes = 0\nexclude = ["/secret"]\n')
    server = start(at=home)
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: generations(server, mirror(file)) != [])
    until(lambda: other.session_id in [each["source"]["key"] for each in server.call("session/list")["sessions"]])
    assert generations(server, mirror(other)) == []
    file.path.write_bytes(b"".join(file.path.read_bytes().splitlines(keepends=True)[:1]))
    until(lambda: [each["generation"] for each in generations(server, mirror(file))] == [2])


def test_killed_while_a_file_is_given_back_there_is_none_or_all_of_it(
    start_at: StartServer, tmp_path: Path, file: ClaudeFile
) -> None:
    victim = start_at(tmp_path / "home", env={"TIMELEAP_FAILPOINTS": "vault.restoring=kill"})
    victim.initialize()
    victim.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: generations(victim, mirror(file)) != [])
    whole = file.path.read_bytes()
    file.path.unlink()
    victim.start("bridge/restoreFile", sessionId=mirror(file))
    victim.process.wait(60)
    assert not file.path.exists()
    later = start_at(tmp_path / "home")
    later.initialize()
    later.call("bridge/restoreFile", sessionId=mirror(file))
    assert file.path.read_bytes() == whole


@pytest.mark.long
def test_of_many_files_that_go_at_once_all_that_is_kept_is_compressed(start: StartServer, tmp_path: Path) -> None:
    files = [ClaudeFile(tmp_path / "claude" / "projects", f"/shop{number}") for number in range(40)]
    for file in files:
        file.says(hashlib.shake_256(str(file.path).encode()).hexdigest(200_000))
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(files[0].folder))
    until(lambda: all(generations(server, mirror(file)) for file in files))
    for file in files:
        file.path.unlink()
    packed = [server.home / "sessions" / mirror(file) / "kept_1.xz" for file in files]
    until(lambda: all(path.exists() for path in packed))
