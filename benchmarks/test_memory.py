"""How much memory does a message take that nobody looks at, beside the original?"""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.corpus import write_session
from benchmarks.original import Original
from benchmarks.server import Server
from rich.console import Console

pytestmark = pytest.mark.bench

MESSAGES = 20_000


def test_memory_of_a_message(tmp_path: Path, server: Server, original: Original) -> None:
    small = write_session(tmp_path / "small", 10)
    log = write_session(tmp_path / "session", MESSAGES)
    original.restore(small)
    before = original.memory
    original.hold(log)
    theirs = (original.memory - before) / MESSAGES
    server.request("session/close", {"sessionId": server.open(small)["sessionId"]})
    before = server.memory
    server.open(log)
    ours = (server.memory - before) / MESSAGES
    Console(stderr=True).print(
        f"Resident bytes per message of an open session of {MESSAGES} (4.4 KB each): "
        f"original {theirs:,.0f}, timeleap {ours:,.0f}: {theirs / max(ours, 1):,.0f} times less"
    )
    assert theirs / max(ours, 1) >= 20
