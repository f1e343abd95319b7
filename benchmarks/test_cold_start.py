"""How long until `initialize` is answered, beside a bare pygls server?"""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.measure import interleaved
from benchmarks.server import BARE_PYGLS, TIMELEAP, Server

pytestmark = pytest.mark.bench


def start_and_greet(command: tuple[str, ...], *arguments: str) -> None:
    server = Server(command, *arguments)
    server.request("initialize", {"capabilities": {}, "processId": None, "rootUri": None})
    server.kill()


def test_cold_start_is_not_slower_than_a_bare_pygls_server(tmp_path: Path) -> None:
    measured = interleaved(
        "Cold start to the reply to initialize",
        {
            "bare pygls": lambda: start_and_greet(BARE_PYGLS),
            "timeleap": lambda: start_and_greet(TIMELEAP, "--home", str(tmp_path)),
        },
        rounds=15,
    )
    assert measured["timeleap"].over(measured["bare pygls"]) <= 1.05
