"""What does the first look at a gigabyte of another agent's sessions cost, a later one, a line it writes, and a hook?"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.claude_folder import write_claude_folder
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved
from benchmarks.server import Server

pytestmark = pytest.mark.bench

SESSIONS: Final = 1_000
LINES: Final = 60
HOOKS: Final = 40
COMMAND: Final = str(Path(sys.executable).parent / "timeleap")


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMELEAP_KEY_FILE", str(tmp_path / "key"))


def _mirror_all(home: Path, folder: Path) -> tuple[float, list[float]]:
    """Seconds until all sessions of a folder are mirrored by a server that is started, and those that each look at the
    lists took meanwhile."""
    server, looks = Server.timeleap(home), list[float]()
    begun = time.perf_counter()
    server.request("bridge/watch", {"kind": "claude-code", "path": str(folder)})
    while True:
        asked = time.perf_counter()
        sources = server.request("bridge/list", {})["sources"]
        server.request("session/list", {"limit": 50})
        looks.append(time.perf_counter() - asked)
        (source,) = [each for each in sources if each["path"] == str(folder)]
        if source["mirrored"] == source["sessions"] > 0:
            taken = time.perf_counter() - begun
            server.request("shutdown", {})
            server.kill()
            return taken, looks
        time.sleep(0.1)


@pytest.mark.rows("28", "28-lists", "29")
def test_a_gigabyte_of_sessions_is_mirrored(tmp_path: Path, judge: Judge) -> None:
    size = write_claude_folder(tmp_path / "projects", SESSIONS)
    first, looks = _mirror_all(tmp_path / "home", tmp_path / "projects")
    judge("28", values=[first * 1e9 / size], note=f"{size / 1e6 / first:.0f} MB/s, {SESSIONS} files")
    judge("28-lists", values=[statistics.quantiles(looks, n=20)[-1]], note=f"{max(looks):.2f} s the longest")
    judge("29", values=[_mirror_all(tmp_path / "home", tmp_path / "projects")[0] for _ in range(5)])


@pytest.mark.rows("30")
def test_a_line_that_the_agent_writes_is_seen(tmp_path: Path, server: Server, judge: Judge) -> None:
    folder = tmp_path / "projects"
    write_claude_folder(folder, 100)
    path = max(folder.rglob("*.jsonl"))
    record = json.loads(path.read_text().splitlines()[-1])
    server.request("bridge/watch", {"kind": "claude-code", "path": str(folder)})
    while server.request("bridge/list", {})["sources"][-1]["mirrored"] < 100:
        time.sleep(0.1)
    (mirror,) = [
        info["sessionId"]
        for info in server.request("session/list", {"limit": 200})["sessions"]
        if info["source"]["path"] == str(path)
    ]
    server.request("session/open", {"sessionId": mirror})
    delays: list[float] = []
    for number in range(LINES):
        record = {**record, "parentUuid": record["uuid"], "uuid": f"00000000-0000-4000-8000-{number:012x}"}
        time.sleep(0.3 + number % 7 / 100)  # at any moment between two looks
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        written = time.perf_counter()
        while not any(_tells_of(json.loads(body), mirror) for body in server.read()):
            pass
        delays.append(time.perf_counter() - written)
    judge(
        "30",
        values=[statistics.quantiles(delays, n=20)[-1] * 1e3],
        note=f"{statistics.median(delays) * 1e3:.0f} ms p50",
    )


def _tells_of(message: dict[str, Any], session_id: str) -> bool:
    return message.get("method") == "context/didChange" and message["params"]["sessionId"] == session_id


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[list[str]]:
    """The command of an agent's hook."""
    yield [COMMAND, "hook", "--home", str(tmp_path / "home"), "claude-code"]
    record = tmp_path / "home" / "hooks" / "host.json"
    if record.exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads(record.read_bytes())["pid"], signal.SIGTERM)


@pytest.mark.rows("31")
def test_a_hook_after_a_tool(tmp_path: Path, hook: list[str], judge: Judge) -> None:
    write_claude_folder(tmp_path / "projects", 1)
    (path,) = (tmp_path / "projects").rglob("*.jsonl")
    (tmp_path / "work").mkdir()
    members = {"transcript_path": str(path), "cwd": str(tmp_path / "work"), "tool_name": "Bash"}

    def tell(event: str) -> None:
        said = json.dumps({**members, "hook_event_name": event}).encode()
        subprocess.run(hook, input=said, check=True, stdout=subprocess.DEVNULL)

    tell("UserPromptSubmit")  # starts the process that does the work
    measured = interleaved("One hook", {"timeleap hook": lambda: tell("PostToolUse")}, rounds=HOOKS)
    assert not (tmp_path / "home" / "hooks" / "hook.log").read_text()
    judge("31", values=[measured["timeleap hook"].median * 1e3])
