"""What does a durable append over the wire cost, beside a bare write and fdatasync?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from benchmarks.measure import interleaved
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGE = {"role": "assistant", "content": "A reply of the usual length. " * 30}
APPENDS = 50


def test_a_durable_append_costs_little_more_than_the_disk(tmp_path: Path) -> None:
    record = json.dumps(MESSAGE).encode() + b"\n"
    bare = os.open(tmp_path / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sync = getattr(os, "fdatasync", os.fsync)
    server = Server.timeleap(tmp_path / "store")
    server.request("session/open", {"sessionId": "bench"})

    def write_and_sync() -> None:
        for _ in range(APPENDS):
            os.write(bare, record)
            sync(bare)

    def append() -> None:
        for _ in range(APPENDS):
            server.request("context/appendMessage", {"sessionId": "bench", "message": MESSAGE})

    try:
        measured = interleaved(
            f"{APPENDS} durable appends, one at a time",
            {"write + fdatasync": write_and_sync, "timeleap": append},
            rounds=15,
        )
    finally:
        server.kill()
        os.close(bare)
    assert measured["timeleap"].over(measured["write + fdatasync"]) <= 2.5
