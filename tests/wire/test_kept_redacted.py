"""Redaction of mirrors: it reaches the log, its timelines and all that is kept of the file, never the program's own file."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.fixtures import StartServer
from tests.support.scene import until
from tests.support.server import Server

from timeleap_agents.mirrors.folders import mirror_id

SECRET = 'p"w\u00f6rd-3141'


@pytest.fixture
def file(tmp_path: Path) -> ClaudeFile:
    """A session whose first prompt, and a result of a tool, hold a secret."""
    made = ClaudeFile(tmp_path / "claude" / "projects")
    made.asks(f"the password is {SECRET}")
    made.calls("call-1")
    made.gets("call-1", '{"inner": "' + SECRET.replace('"', '\\"') + '"}')
    made.says("done")
    return made


@pytest.fixture
def watching(start: StartServer, file: ClaudeFile) -> Server:
    """A server that has mirrored it, and two generations of its file."""
    server = start()
    server.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: counts(server) == [4])
    data = file.path.read_bytes()
    file.path.write_bytes(data.splitlines(keepends=True)[-1] + data)  # as a program writes it anew
    until((directory(server, file) / "kept_1.xz").exists)
    until(lambda: len(server.call("bridge/listKept", sessionId=mirror(file))["generations"]) == 2)
    until(lambda: [each["pending"] for each in server.call("bridge/list")["sources"] if each["watched"]] == [0])
    return server


def counts(server: Server) -> list[int]:
    return [each["messageCount"] for each in server.call("session/list")["sessions"]]


def mirror(file: ClaudeFile) -> str:
    return mirror_id("claude-code", file.path)


def directory(server: Server, file: ClaudeFile) -> Path:
    return server.home / "sessions" / mirror(file)


def holding(home: Path) -> list[str]:
    """The files of a store that hold the secret, however it is spelled; compressed ones are opened."""
    forms = [SECRET.encode(), *(form.encode() for form in ("w\\u00f6rd-3141", "w\\\\u00f6rd-3141", "w\u00f6rd-3141"))]
    found = []
    for path in sorted(home.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            data = lzma.decompress(data) if path.suffix == ".xz" else data
            found += [path.name] if any(form in data for form in forms) else []
    return found


def test_it_is_taken_out_of_all_that_is_kept_and_not_of_the_programs_file(watching: Server, file: ClaudeFile) -> None:
    before = file.path.read_bytes()
    assert {"kept_1.xz", "kept_2.bytes", "context.jsonl"} <= set(holding(watching.home))
    foretold = watching.call("session/redact", sessionId=mirror(file), value=SECRET, dryRun=True)
    assert foretold["untouched"] == [str(file.path)]
    assert {"kept_1.xz", "kept_2.bytes"} <= {each["file"] for each in foretold["files"]}
    done = watching.call("session/redact", sessionId=mirror(file), value=SECRET)
    assert (done["occurrences"], done["untouched"]) == (foretold["occurrences"], [str(file.path)])
    assert holding(watching.home) == []
    assert file.path.read_bytes() == before
    file.says("later")
    until(lambda: counts(watching) == [5])
    until(lambda: b"later" in (directory(watching, file) / "kept_2.bytes").read_bytes())
    assert holding(watching.home) == [], "what the program adds brings nothing of it back"
    for generation in watching.call("bridge/listKept", sessionId=mirror(file))["generations"]:
        place = watching.home.parent / f"given-{generation['generation']}.jsonl"
        given = watching.call(
            "bridge/restoreFile", sessionId=mirror(file), generation=generation["generation"], path=str(place)
        )
        assert given["sha256"] == generation["sha256"] == hashlib.sha256(place.read_bytes()).hexdigest()
        assert b"[redacted]" in place.read_bytes()
    assert holding(watching.home.parent / "nothing") == []


def test_a_server_that_starts_later_brings_nothing_back(watching: Server, start: StartServer, file: ClaudeFile) -> None:
    file.write({"type": "ai-title", "sessionId": file.session_id, "aiTitle": f"About {SECRET}"})
    until(lambda: "About" in str(watching.call("session/list")["sessions"][0]["title"]))
    watching.call("session/redact", sessionId=mirror(file), value=SECRET)
    file.says("later")
    until(lambda: counts(watching) == [5])
    watching.shut_down()
    file.says("later still")
    again = start(at=watching.home)
    again.call("bridge/watch", kind="claude-code", path=str(file.folder))
    until(lambda: counts(again) == [6])
    until(lambda: b"later still" in (directory(again, file) / "kept_2.bytes").read_bytes())
    assert holding(again.home) == []


def test_where_the_file_is_gone_nothing_is_untouched(watching: Server, file: ClaudeFile) -> None:
    file.path.unlink()
    until((directory(watching, file) / "kept_2.xz").exists)
    done = watching.call("session/redact", sessionId=mirror(file), value=SECRET)
    assert "untouched" not in done
    assert holding(watching.home) == []


def test_a_mirror_in_the_trash_is_redacted_and_purged_with_all_that_is_kept(watching: Server, file: ClaudeFile) -> None:
    watching.call("bridge/unwatch", kind="claude-code", path=str(file.folder))
    watching.call("session/delete", sessionId=mirror(file))
    (gone,) = watching.call("session/listTrash")["sessions"]
    done = watching.call("session/redact", sessionId=mirror(file), deletedAt=gone["deletedAt"], value=SECRET)
    assert done["untouched"] == [str(file.path)]
    assert holding(watching.home) == []
    watching.call("session/purge", olderThan=0)
    assert not list(watching.home.rglob("kept_*"))


def test_what_is_kept_is_counted_among_what_a_session_takes(watching: Server, file: ClaudeFile) -> None:
    (space,) = watching.call("session/storage", sessionId=mirror(file))["sessions"]
    sizes = {each["file"]: each["bytes"] for each in space["files"]}
    assert sizes["kept_2.bytes"] == file.path.stat().st_size
    assert space["otherBytes"] >= sizes["kept_1.xz"] + sizes["kept_2.bytes"]
