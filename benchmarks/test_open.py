"""How long until a session is open, beside the original, beside reading the file, and as it grows?"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import write_session
from benchmarks.measure import interleaved
from benchmarks.original import Original
from benchmarks.server import Server, first_open

pytestmark = pytest.mark.bench


def opening(server: Server, log: Path) -> float:
    """Seconds to open a session over the wire; it is closed again afterwards."""
    started = time.perf_counter()
    state = server.open(log)
    taken = time.perf_counter() - started
    server.request("session/close", {"sessionId": state["sessionId"]})
    return taken


def test_open_beside_the_original(tmp_path: Path, server: Server, original: Original) -> None:
    log = write_session(tmp_path / "session", 10_000)
    measured = interleaved(
        "Open a session of 10 000 messages (44 MB)",
        {"original, restore": lambda: original.restore(log), "timeleap": lambda: opening(server, log)},
        rounds=5,
    )
    assert measured["timeleap"].over(measured["original, restore"]) <= 1 / 20


@pytest.mark.rows("6")
def test_open_by_index_in_a_fresh_server(tmp_path: Path, server: Server, original: Original, judge: Judge) -> None:
    """What is measured is all that a client waits for the first time, imports included."""
    log = write_session(tmp_path / "session", 100_000)
    opening(server, log)  # makes the index
    params = {"path": str(log.parent), "access": "write"}
    measured = interleaved(
        "Open a session of 100 000 messages (444 MB) in a fresh server",
        {
            "original, restore": lambda: original.restore(log),
            "timeleap": lambda: first_open(tmp_path / "fresh", params),
            "timeleap, in a server that has opened one": lambda: opening(server, log),
        },
        rounds=3,
    )
    judge("6", measured["timeleap"], measured["original, restore"])


@pytest.mark.rows("8")
def test_open_does_not_grow_with_the_session(tmp_path: Path, server: Server, judge: Judge) -> None:
    small = write_session(tmp_path / "small", 1_000, size=0.1)
    large = write_session(tmp_path / "large", 1_000_000, size=0.1)
    measured = interleaved(
        "Open as the session grows",
        {"1 000 messages": lambda: opening(server, small), "1 000 000 messages": lambda: opening(server, large)},
        rounds=15,
    )
    judge("8", measured["1 000 000 messages"], measured["1 000 messages"])


@pytest.mark.rows("12")
def test_open_without_an_index_is_one_scan(tmp_path: Path, server: Server, judge: Judge) -> None:
    log = write_session(tmp_path / "session", 50_000)
    marked = write_session(tmp_path / "marked", 50_000, marked=True)

    def reading() -> None:
        with log.open("rb") as file:
            for _ in io.BytesIO(file.read()):
                pass

    def rebuilding(log: Path) -> Callable[[], float]:
        def rebuild() -> float:
            for index in log.parent.glob(".*.idx"):
                index.unlink()
            return opening(server, log)

        return rebuild

    measured = interleaved(
        "Open a session of 50 000 messages (239 MB) whose index is lost",
        {
            "read the file, and its lines": reading,
            "timeleap, index lost": rebuilding(log),
            "timeleap, of requests with ids": rebuilding(marked),
        },
        rounds=9,
    )
    assert measured["timeleap, of requests with ids"].over(measured["timeleap, index lost"]) <= 2
    judge("12", measured["timeleap, index lost"], measured["read the file, and its lines"])
