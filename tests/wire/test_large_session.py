"""A session of 100 000 messages (450 MB): opened through the index, rebuilt by scanning, never held in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.server import Launch, Server
from tests.support.session import Session, user

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = 100_000
BODY = "the quick brown fox jumps over the lazy dog " * 100


def write_log(path: Path, messages: int, body: str = BODY) -> int:
    """A log as the original writes it: a checkpoint before every tenth message, usage after it. Returns its size."""
    with path.open("wb") as log:
        log.write(b'{"role": "_system_prompt", "content": "be kind"}\n')
        text = json.dumps(body)[1:-1]
        for number in range(messages):
            role = "user" if number % 2 == 0 else "assistant"
            if number % 10 == 0:
                log.write(b'{"role": "_checkpoint", "id": %d}\n' % (number // 10))
            log.write(f'{{"role": "{role}", "content": "{number} {text}"}}\n'.encode())
            if number % 10 == 9:
                log.write(b'{"role": "_usage", "token_count": %d}\n' % number)
    return path.stat().st_size


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    base = tmp_path_factory.mktemp("large")
    for name, messages in (("small", 100), ("large", MESSAGES)):
        directory = base / "home" / "sessions" / name
        directory.mkdir(parents=True, mode=0o700)
        size = write_log(directory / "context.jsonl", messages)
        assert name == "small" or size > 440_000_000
    yield base / "home"
    for path in (base / "home").rglob("*.jsonl"):
        path.unlink()


@pytest.fixture
def launch(home: Path) -> Iterator[Callable[[], Server]]:
    started: list[Server] = []

    def launched() -> Server:
        started.append(Server(Launch(home, "lsp")))
        started[-1].initialize()
        return started[-1]

    yield launched
    for server in started:
        server.dispose()


def private_bytes(server: Server) -> int:
    """Memory of the process that is its own (pages of mapped files are the system's)."""
    return int(psutil.Process(server.process.pid).memory_full_info().uss)


def processor_seconds(server: Server) -> float:
    """Processor time the server has used: it does not depend on how busy the machine is."""
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def timed_open(server: Server, name: str) -> float:
    began = time.perf_counter()
    Session.open(server, name)
    return time.perf_counter() - began


@pytest.mark.long
def test_a_rebuild_reports_progress_and_is_a_scan_and_later_opens_cost_the_tail(launch: Callable[[], Server]) -> None:
    server = launch()
    small_memory = private_bytes(server)
    Session.open(server, "small")
    began = processor_seconds(server)
    pending = server.start("session/open", sessionId="large", workDoneToken="open")
    state = pending.result(240)
    rebuild = processor_seconds(server) - began
    kinds = [m["params"]["value"]["kind"] for m in pending.heard() if m["method"] == "$/progress"]
    assert (kinds[0], kinds[-1]) == ("begin", "end") and kinds.count("report") >= 1
    assert state["context"]["messageCount"] == MESSAGES
    assert state["context"]["nCheckpoints"] == MESSAGES // 10
    assert state["context"]["tokenCount"] == MESSAGES - 1
    assert private_bytes(server) - small_memory < 80 << 20

    session = Session(server, state)
    session.append(user("the last"))
    page = session.call("context/getHistory", **{"from": 50_000, "to": 50_003})["messages"]
    assert [entry["message"]["content"].split()[0] for entry in page] == ["50000", "50001", "50002"]
    began = processor_seconds(server)
    for index in range(0, MESSAGES, 1000):
        (entry,) = session.call("context/getHistory", **{"from": index, "to": index + 1})["messages"]
        assert entry["message"]["content"].startswith(f"{index} ")
    assert processor_seconds(server) - began < 2 * rebuild, "a page costs what is on it"
    newest = session.call("context/getHistory", order="desc", limit=2)["messages"]
    assert [entry["index"] for entry in newest] == [MESSAGES, MESSAGES - 1]
    assert server.finish() == 0

    server = launch()
    fresh = private_bytes(server)
    smalls, larges = [], []
    for _ in range(5):
        smalls.append(timed_open(server, "small"))
        larges.append(timed_open(server, "large"))
        for name in ("small", "large"):
            server.call("session/close", sessionId=name)
    assert min(larges) < 2 * min(smalls) + 0.02, (min(larges), min(smalls))
    assert private_bytes(server) - fresh < 40 << 20

    session = Session.open(server, "large")
    began = processor_seconds(server)
    result = session.call("context/revertTo", checkpointId=MESSAGES // 20)
    assert result["context"]["messageCount"] == MESSAGES // 2
    assert processor_seconds(server) - began < 5 * rebuild, "what is kept is copied, not parsed"
    assert private_bytes(server) - fresh < 80 << 20
    assert session.history(**{"from": MESSAGES // 2 - 1})[0]["content"].startswith(f"{MESSAGES // 2 - 1} ")
    assert session.timelines()[0]["messageCount"] == MESSAGES + 1
    server.kill()
    assert Session.open(launch(), "large").get_state()["context"]["messageCount"] == MESSAGES // 2
