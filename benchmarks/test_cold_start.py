"""How long until `initialize` is answered, beside a bare pygls server, and how long does the first open take then?"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved
from benchmarks.server import BARE_PYGLS, GREETING, TIMELEAP, Server, first_open

pytestmark = pytest.mark.bench

QUIET = 340
"""Milliseconds of a bare pygls cold start where the limits were set: ours are told as they would be there, since a clock
says as much of the load of a machine."""
IDLE = 0.25
"""Seconds that a person, or a program that starts, takes until it opens a session."""


def start_and_greet(command: tuple[str, ...], *arguments: str) -> None:
    server = Server(command, *arguments)
    server.request("initialize", GREETING)
    server.kill()


@pytest.mark.rows("13")
def test_cold_start_beside_a_bare_pygls_server(tmp_path: Path, judge: Judge) -> None:
    measured = interleaved(
        "Cold start to the reply to initialize",
        {
            "bare pygls": lambda: start_and_greet(BARE_PYGLS),
            "timeleap": lambda: start_and_greet(TIMELEAP, "--home", str(tmp_path)),
        },
        rounds=15,
    )
    judge("13", measured["timeleap"], measured["bare pygls"])


@pytest.mark.rows("7")
def test_first_open_of_a_fresh_server(tmp_path: Path, judge: Judge) -> None:
    ids = count()
    first_open(tmp_path, {"sessionId": "small"})  # makes it
    measured = interleaved(
        "First session/open of a small session in a fresh server",
        {
            "bare pygls, cold start": lambda: start_and_greet(BARE_PYGLS),
            "at once": lambda: first_open(tmp_path, {"sessionId": "small"}),
            "after a quarter of a second": lambda: first_open(tmp_path, {"sessionId": "small"}, IDLE),
            "a new session, at once": lambda: first_open(tmp_path, {"sessionId": f"new-{next(ids)}"}),
        },
        rounds=15,
    )
    taken, cold = measured["at once"].seconds, measured["bare pygls, cold start"].seconds
    values = [mine / its * QUIET for mine, its in zip(taken, cold, strict=True)]
    judge("7", values=values, note=f"{measured['at once'].median * 1e3:.1f} ms as measured, right after `initialize`")
