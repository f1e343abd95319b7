"""Cost of keeping agents' files: disk, a watcher that has nothing to do, and the memory to read one very large file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import messages
from benchmarks.server import Server

pytestmark = pytest.mark.bench

SAMPLES: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "sessions"
"""Runs of real agents, which lie beside a checkout; without them the corpus of the other benchmarks is kept."""
SESSIONS: Final = 200
LARGE: Final = 300_000_000
"""Bytes of a large file. A gigabyte takes no more memory, but a minute."""
LARGE_LINE: Final = 8_000
MANY: Final = 500_000
"""Lines of a large file of short ones."""
WATCHED: Final = 1_000
SHORT: Final = 6
"""Messages of a watched session: what they say does not count, and takes time to be mirrored."""
RESTS: Final = 20.0
"""Seconds after which mirrors that do not change are closed."""
IDLE: Final = 20.0
PATIENCE: Final = 300.0
"""Seconds after which what is waited for has failed."""

READ: Final = """
import re, sys
from pathlib import Path
from timeleap_agents.mirrors.claude_log import ClaudeLog

def peak():  # that of `getrusage` is at least what the process had that started this one
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

log = ClaudeLog(Path(sys.argv[1]))
before = peak()
log.read()
assert log.steps()
print(peak() - before)
"""


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMELEAP_KEY_FILE", str(tmp_path / "key"))


def _records(said: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lines of a conversation as Claude Code writes them; each session under ids of its own."""
    session, parent = str(uuid.uuid4()), None
    for number, message in enumerate(said):
        made = str(uuid.uuid4())
        content, kind = message["content"], "assistant" if message["role"] == "assistant" else "user"
        yield {
            "parentUuid": parent, "isSidechain": False, "type": kind, "uuid": made, "sessionId": session, "cwd": "/work",
            "version": "2.1.330", "timestamp": f"2026-11-20T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
            "message": {"role": kind, "id": f"msg_{made}", "content": [{"type": "text", "text": str(content)}]},
        }  # fmt: skip
        parent = made


def _conversations() -> list[list[dict[str, Any]]]:
    found = []
    for path in sorted(SAMPLES.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found.append([line for line in lines if not line["role"].startswith("_") and line.get("content")])
    return found or [list(messages(200))]


def _write(folder: Path, number: int, said: list[dict[str, Any]]) -> Path:
    path = folder / "projects" / f"-project-{number // 20}" / f"{uuid.uuid4()}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in _records(said)), "utf-8")
    return path


def _all_mirrored(server: Server, folder: Path) -> None:
    server.request("bridge/watch", {"kind": "claude-code", "path": str(folder / "projects")})
    _wait_for(lambda: _source(server)["mirrored"] == _source(server)["sessions"] > 0)


def _source(server: Server) -> dict[str, Any]:
    (source,) = [each for each in server.request("bridge/list", {})["sources"] if each["watched"]]
    return dict(source)


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def _kept(home: Path) -> int:
    """Bytes of what is kept, notes included."""
    return sum(path.stat().st_size for path in home.rglob("kept*") if path.is_file())


@pytest.mark.rows("46", "46-ended")
def test_disk_of_what_is_kept(tmp_path: Path, judge: Judge) -> None:
    conversations = _conversations()
    paths = [_write(tmp_path, number, conversations[number % len(conversations)]) for number in range(SESSIONS)]
    size = sum(path.stat().st_size for path in paths)
    server = Server.timeleap(tmp_path / "home")
    _all_mirrored(server, tmp_path)
    judge("46", values=[_kept(tmp_path / "home") / size], note=f"{size / SESSIONS / 1e3:.0f} kB a session")
    for path in paths:
        path.unlink()
    _wait_for(lambda: len(list((tmp_path / "home").rglob("kept_1.xz"))) == SESSIONS)
    server.kill()
    judge("46-ended", values=[_kept(tmp_path / "home") / size])


@pytest.mark.rows("47", "47-memory")
def test_a_watcher_that_has_nothing_to_do(tmp_path: Path, judge: Judge) -> None:
    conversations = _conversations()
    for number in range(WATCHED):
        _write(tmp_path, number, conversations[number % len(conversations)][:SHORT])
    server = Server.timeleap(tmp_path / "home", "--durability", "os")
    _all_mirrored(server, tmp_path)
    server.request("shutdown", {})
    server.kill()
    server = Server.timeleap(tmp_path / "home")  # as after a login
    _all_mirrored(server, tmp_path)
    time.sleep(RESTS)
    before = _seconds_of(server.pid)
    time.sleep(IDLE)
    judge("47", values=[1e3 * (_seconds_of(server.pid) - before) / IDLE], note="milliseconds of the processor a second")
    judge("47-memory", values=[server.memory / 1e6])
    server.kill()


def _seconds_of(pid: int) -> float:
    """Seconds of the processor that a process has had. Those that systems count as a whole are hundredths."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _large_file(path: Path, lines: int, text: str) -> Path:
    session, parent = str(uuid.uuid4()), None
    with path.open("wb") as file:
        for number in range(lines):
            made, role = str(uuid.uuid4()), ("user", "assistant")[number % 2]
            record = {
                "parentUuid": parent, "type": role, "uuid": made, "sessionId": session,
                "timestamp": "2026-11-20T10:00:00.000Z",
                "message": {"role": role, "id": f"msg_{made}", "content": [{"type": "text", "text": text}]},
            }  # fmt: skip
            file.write(json.dumps(record).encode() + b"\n")
            parent = made
    return path


def _memory_of_reading(path: Path) -> float:
    """Megabytes by which a process grows that reads a file."""
    ran = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        check=True,
        capture_output=True,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    return int(ran.stdout) / 1e6


@pytest.mark.rows("48")
def test_memory_of_reading_a_large_file(tmp_path: Path, judge: Judge) -> None:
    path = _large_file(tmp_path / "large.jsonl", LARGE // LARGE_LINE, "all work and no play " * (LARGE_LINE // 21))
    judge("48", values=[_memory_of_reading(path)], note=f"{path.stat().st_size / 1e6:.0f} MB")


@pytest.mark.rows("48-lines")
def test_memory_of_reading_many_short_lines(tmp_path: Path, judge: Judge) -> None:
    path = _large_file(tmp_path / "large.jsonl", MANY, "yes")
    judge("48-lines", values=[_memory_of_reading(path)], note=f"{path.stat().st_size / 1e6:.0f} MB")
