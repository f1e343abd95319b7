"""How much memory does a message take that nobody looks at, beside the original?"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import write_session
from benchmarks.original import Original
from benchmarks.server import BARE_PYGLS, GREETING, TIMELEAP, Server
from rich.console import Console

pytestmark = pytest.mark.bench

MESSAGES = 20_000
SESSIONS = 50


IDLE = 0.5
"""Seconds after which a server has loaded what it loads by itself."""


@pytest.mark.rows("21", "21-session")
def test_memory_of_a_server_and_of_its_sessions(tmp_path: Path, judge: Judge) -> None:
    ratios, sessions, note = [], [], ""
    for number in range(7):
        servers = [Server(BARE_PYGLS), Server(TIMELEAP, "--home", str(tmp_path / str(number)))]
        for server in servers:
            server.request("initialize", GREETING)
        time.sleep(IDLE)
        bare, ours = (server.memory for server in servers)
        ratios.append(ours / bare)
        note = f"{ours / 1e6:.1f} over {bare / 1e6:.1f} MB"
        server = servers[1]
        server.request("session/open", {})
        before = server.memory
        for _ in range(SESSIONS):
            server.request("session/open", {})
        sessions.append((server.memory - before) / SESSIONS / 1e6)
        for server in servers:
            server.kill()
    judge("21", values=ratios, note=note)
    judge("21-session", values=sessions)


@pytest.mark.rows("13-memory")
def test_memory_of_a_message(tmp_path: Path, serve: Callable[..., Server], original: Original, judge: Judge) -> None:
    small, log = write_session(tmp_path / "small", 10), write_session(tmp_path / "session", MESSAGES)
    original.restore(small)
    before = original.memory
    original.hold(log)
    theirs = (original.memory - before) / MESSAGES
    builder, reader = serve(), serve()
    taken: dict[int, list[int]] = {10: [], MESSAGES: []}
    for number in range(8):
        for messages, found in taken.items():
            written = write_session(tmp_path / f"{messages}-{number}", messages, size=0.1)
            # What a scan takes, which makes the index, is no message's.
            builder.request("session/close", {"sessionId": builder.open(written)["sessionId"]})
            before = reader.memory
            reader.open(written)
            found.append(reader.memory - before)
    # Nor is what a session takes that has hardly any. Memory comes in pages: a difference may be less than none.
    values = [(large - few) / MESSAGES for few, large in zip(taken[10][1:], taken[MESSAGES][1:], strict=True)]
    ours = max(0.0, sum(values) / len(values))
    judge("13-memory", values=[max(value, 1 / MESSAGES) for value in values])
    Console(stderr=True).print(
        f"Resident bytes per message of an open session of {MESSAGES} (4.4 KB each): "
        f"original {theirs:,.0f}, timeleap {ours:,.0f}: {theirs / max(ours, 1):,.0f} times less"
    )
    assert theirs / max(ours, 1) >= 20
