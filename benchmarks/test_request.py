"""What does a request cost whose work is nothing, beside a bare pygls server that gives the same text back?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved
from benchmarks.server import ECHO_PYGLS, Server

pytestmark = pytest.mark.bench

TEXT: Final = "A name of a tool. " * 57
REQUESTS: Final = 256
IN_FLIGHT: Final = 64


@pytest.fixture
def pygls() -> Iterator[Server]:
    """A server that is pygls and one function."""
    running = Server(ECHO_PYGLS)
    running.request("initialize", {"capabilities": {}, "processId": None, "rootUri": None})
    yield running
    running.kill()


@pytest.mark.rows("10", "10-64")
def test_a_request_beside_bare_pygls(
    tmp_path: Path, server: Server, pygls: Server, least: Callable[..., Server], judge: Judge
) -> None:
    """Ours asks whether a tool with a name of 1 KB is approved: read, checked against its model, answered from memory."""
    server.request("session/open", {"sessionId": "bench"})
    asked = server.frames("session/isApproved", [{"sessionId": "bench", "action": TEXT}] * REQUESTS)
    echoed = pygls.frames("echo", [{"sessionId": "bench", "text": TEXT}] * REQUESTS)
    doing_least = least(tmp_path / "least.jsonl")
    measured = interleaved(
        f"{REQUESTS} requests of 1 KB",
        {
            "bare pygls, one at a time": lambda: pygls.answered(echoed, 1),
            "timeleap, one at a time": lambda: server.answered(asked, 1),
            "bare pygls, 64 in flight": lambda: pygls.answered(echoed, IN_FLIGHT),
            "timeleap, 64 in flight": lambda: server.answered(asked, IN_FLIGHT),
            "the least, one at a time": lambda: doing_least.answered(asked, 1),
            "the least, 64 in flight": lambda: doing_least.answered(asked, IN_FLIGHT),
        },
        rounds=15,
    )
    for key, flight in (("10", "one at a time"), ("10-64", "64 in flight")):
        ours, theirs = measured[f"timeleap, {flight}"], measured[f"bare pygls, {flight}"]
        note = "`session/isApproved` with a name of 1 KB"
        judge(key, ours, theirs, per=REQUESTS, note=note, least=measured[f"the least, {flight}"])
