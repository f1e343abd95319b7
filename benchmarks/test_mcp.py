"""How long until `timeleap mcp` has listed its tools, and a search of a model in a long workspace?"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Self

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import messages
from benchmarks.server import Server

pytestmark = pytest.mark.bench

SESSIONS: Final = 20
MESSAGES: Final = 100_000
SEARCHES: Final = 40
COMMAND: Final = str(Path(sys.executable).parent / "timeleap")
HELLO: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class McpServer:
    """The process, asked over its standard input and output."""

    def __init__(self, home: Path, folder: Path) -> None:
        command = [COMMAND, "mcp", "--home", str(home), "--workspace", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._number = 0

    def __enter__(self) -> Self:
        self.ask("initialize", HELLO)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                return answer["result"]
        raise RuntimeError("the server went away")

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = Path(__file__).resolve().parents[1] / ".tools" / "agents" / "python" / "lib"
    where = packages / f"python3.{sys.version_info.minor}" / "site-packages"
    assert where.is_dir(), "`make agents` installs the SDK"
    monkeypatch.setenv("PYTHONPATH", str(where))
    monkeypatch.setenv("TIMELEAP_KEY_FILE", str(tmp_path / "key"))


@pytest.mark.rows("32")
def test_the_tools_are_listed(tmp_path: Path, judge: Judge) -> None:
    seconds: list[float] = []
    for _ in range(11):
        begun = time.perf_counter()
        with McpServer(tmp_path / "home", tmp_path) as server:
            assert server.ask("tools/list", {})["tools"]
            seconds.append(time.perf_counter() - begun)
    judge("32", values=seconds[1:])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store with sessions of one folder; the word is near the beginning of each."""
    home = tmp_path / "store"
    server = Server.timeleap(home)
    texts = messages(MESSAGES // SESSIONS - 1)
    for number in range(SESSIONS):
        session = {"sessionId": f"s{number}"}
        server.request("session/open", {**session, "workspace": tmp_path.as_uri()})
        said = [{"role": "user", "content": f"There it is, the waterfall {number}."}, *texts]
        for start in range(0, len(said), 500):
            server.request("context/appendMessage", {**session, "messages": said[start : start + 500]})
        server.request("session/close", session)
    server.request("shutdown", {})
    server.kill()
    return home


@pytest.mark.rows("33")
def test_a_model_searches_a_long_workspace(tmp_path: Path, home: Path, judge: Judge) -> None:
    seconds: list[float] = []
    with McpServer(home, tmp_path) as server:
        for number in range(SEARCHES + 2):
            begun = time.perf_counter()
            given = {"query": f"waterfall {number % SESSIONS}.", "scope": "workspace"}
            result = server.ask("tools/call", {"name": "search_history", "arguments": given})
            seconds.append(time.perf_counter() - begun)
            assert f"s{number % SESSIONS}#0 user" in result["content"][0]["text"]
    first, later = seconds[0], seconds[2:]
    note = f"{statistics.median(later):.2f} s p50; the first of a process {first:.1f} s"
    judge("33", values=[statistics.quantiles(later, n=20)[-1]], note=note)
