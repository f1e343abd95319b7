"""What does a durable append over the wire cost, beside a bare write and fdatasync, and beside the original's?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.measure import interleaved
from benchmarks.original import Original
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGE = {"role": "assistant", "content": "A reply of the usual length. " * 30}
RECORD = json.dumps(MESSAGE).encode() + b"\n"
APPENDS = 50
IN_FLIGHT = 64


class Bare:
    """A file that is written and synced record by record."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._sync = getattr(os, "fdatasync", os.fsync)

    def append(self, records: int) -> None:
        """Write and sync a number of records, one after the other."""
        for _ in range(records):
            os.write(self._fd, RECORD)
            self._sync(self._fd)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    file = Bare(tmp_path / "bare.jsonl")
    yield file
    file.close()


@pytest.fixture
def session(server: Server) -> str:
    """The id of an open session."""
    server.request("session/open", {"sessionId": "bench"})
    return "bench"


def test_a_durable_append_costs_little_more_than_the_disk(bare: Bare, server: Server, session: str) -> None:
    def append() -> None:
        for _ in range(APPENDS):
            server.request("context/appendMessage", {"sessionId": session, "message": MESSAGE})

    measured = interleaved(
        f"{APPENDS} durable appends, one at a time",
        {"write + fdatasync": lambda: bare.append(APPENDS), "timeleap": append},
        rounds=15,
    )
    assert measured["timeleap"].over(measured["write + fdatasync"]) <= 2.5


def test_durable_appends_in_flight_together_share_the_disks_work(bare: Bare, server: Server, session: str) -> None:
    def append() -> None:
        server.requests("context/appendMessage", [{"sessionId": session, "message": MESSAGE}] * IN_FLIGHT)

    measured = interleaved(
        f"{IN_FLIGHT} durable appends in flight together",
        {"write + fdatasync, one by one": lambda: bare.append(IN_FLIGHT), "timeleap": append},
        rounds=15,
    )
    assert measured["timeleap"].over(measured["write + fdatasync, one by one"]) <= 1.0


def test_appends_beside_the_original(tmp_path: Path, server: Server, session: str, original: Original) -> None:
    """The original appends in its own process, and does not sync."""
    log = tmp_path / "original.jsonl"

    def together() -> None:
        server.requests("context/appendMessage", [{"sessionId": session, "message": MESSAGE}] * IN_FLIGHT)

    measured = interleaved(
        f"{IN_FLIGHT} appends",
        {
            "original, in process, not durable": lambda: original.append(log, MESSAGE, IN_FLIGHT),
            "timeleap, over the wire, durable, in flight together": together,
        },
        rounds=15,
    )
    ours, theirs = (
        measured["timeleap, over the wire, durable, in flight together"],
        measured["original, in process, not durable"],
    )
    assert ours.over(theirs) <= 1 / 2
