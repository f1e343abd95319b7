"""What does a page of history cost, beside building the same page of objects, and anywhere in a long session?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.corpus import write_session
from benchmarks.measure import interleaved
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGES = 20_000
PAGE = 500


def test_a_page_of_history(tmp_path: Path, server: Server) -> None:
    log = write_session(tmp_path / "session", MESSAGES, size=0.2)
    session = server.open(log)["sessionId"]
    lines = [line for line in log.read_bytes().splitlines() if b'"role": "_' not in line]

    def page(start: int) -> None:
        asked = {"sessionId": session, "from": start, "to": start + PAGE, "limit": PAGE}
        assert len(server.request("context/getHistory", asked)["messages"]) == PAGE

    def plainly() -> None:
        made = [{"index": at, "message": json.loads(line)} for at, line in enumerate(lines[:PAGE])]
        json.loads(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"messages": made}}))

    measured = interleaved(
        f"A page of {PAGE} messages of {MESSAGES}",
        {
            "read and write it as objects": plainly,
            "timeleap, the first": lambda: page(0),
            "timeleap, in the middle": lambda: page(MESSAGES // 2),
            "timeleap, the last": lambda: page(MESSAGES - PAGE),
        },
        rounds=15,
    )
    first, last = measured["timeleap, the first"], measured["timeleap, the last"]
    assert last.over(first) <= 2
    assert first.over(measured["read and write it as objects"]) <= 2
