"""What do operations cost as a session grows from 1 000 to 1 000 000 messages?"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks import results
from benchmarks.corpus import write_session
from benchmarks.measure import interleaved
from benchmarks.original import Original
from benchmarks.server import Server

pytestmark = pytest.mark.bench

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
MOST_OF_ORIGINAL: Final = 100_000
"""Beyond, its restore takes minutes and gigabytes."""

SIZE: Final = 0.1
"""Of the messages, beside real ones: the largest log is half a gigabyte then."""


def timed(server: Server, method: str, params: dict[str, Any]) -> tuple[float, Any]:
    """Seconds of a request, and its result."""
    started = time.perf_counter()
    result = server.request(method, params)
    return time.perf_counter() - started, result


def operations(server: Server, log: Path, messages: int) -> dict[str, Callable[[], float]]:
    """What is measured of one session, each leaving it as it was."""
    session = {"sessionId": server.open(log)["sessionId"]}
    where = {"path": str(log.parent), "access": "write"}

    def opening() -> float:
        server.request("session/close", session)
        return timed(server, "session/open", where)[0]

    def page() -> float:
        middle = messages // 2
        return timed(server, "context/getHistory", {**session, "from": middle, "to": middle + 100, "limit": 100})[0]

    def revert() -> float:
        state = server.request("session/getState", session)
        last = state["context"]["nCheckpoints"] - 1
        seconds, done = timed(server, "context/revertTo", {**session, "checkpointId": last})
        again = server.request("context/restoreTimeline", {**session, "timelineId": done["timelineId"]})
        server.request("session/prune", {**session, "timelineIds": [done["timelineId"], again["timelineId"]]})
        return seconds

    def search() -> float:
        return timed(server, "context/search", {**session, "query": "nowhere to be found", "limit": 10})[0]

    return {
        "open by index": opening,
        "page of 100 in the middle": page,
        "search a word that is not there": search,
        "go back to the last checkpoint": revert,
    }


def test_operations_as_the_session_grows(tmp_path: Path, server: Server, original: Original) -> None:
    curves: dict[str, dict[int, float]] = {}
    for messages in SIZES:
        log = write_session(tmp_path / str(messages), messages, size=SIZE)
        cases = operations(server, log, messages)
        if messages <= MOST_OF_ORIGINAL:
            cases["kimi-cli: restore"] = partial(original.restore, log)
        for name, measured in interleaved(f"{messages} messages", cases, rounds=3).items():
            curves.setdefault(name, {})[messages] = measured.median
        server.request("session/close", {"sessionId": server.open(log)["sessionId"]})
    results.keep_curve("growth", curves)
    assert curves["open by index"][SIZES[-1]] <= 4 * curves["open by index"][SIZES[0]]
