"""Appends that arrive together are written together; one alone is answered in the call that reads it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rpc.edge import Edge, FakeTransport, request

from timeleap.cli.serve import make_service
from timeleap.rpc.connection import Connection
from timeleap.storage import durable


class CountedWrites:
    """The system calls of `durable`, with a count of the writes to the end of a file."""

    def __init__(self) -> None:
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, fd: int, data: bytes) -> int:
        """Write, and count it."""
        self.count += 1
        return os.write(fd, data)


class RealEdge(Edge):
    """A connection with the real service behind it."""

    def __init__(self, home: Path, durability: str = "os") -> None:
        self.real = make_service(home, {}, {"durability": durability})
        self.connection = Connection(lambda: self.real)
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)


def append(number: int, session_id: str = "s") -> dict[str, Any]:
    message = {"role": "user", "content": str(number)}
    return request(number, "context/appendMessage", {"sessionId": session_id, "message": message})


async def test_appends_that_arrive_together_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = RealEdge(tmp_path)
    await edge.ready()
    edge.request("open", "session/open", {"sessionId": "s"})
    await edge.reply("open")
    edge.send(append(0))
    assert edge.received[-1]["result"]["messageCount"] == 1  # the loop has not turned since
    writes = CountedWrites()
    monkeypatch.setattr(durable, "os", writes)
    edge.send(*map(append, range(1, 21)))
    await edge.reply(20)
    assert writes.count == 1
    replies = [each for each in edge.received if "method" not in each and each["id"] in range(1, 21)]
    assert [(each["id"], each["result"]["messageCount"]) for each in replies] == [(n, n + 1) for n in range(1, 21)]
    await edge.connection.finish()
    await edge.real.disconnect(edge.connection)
    await edge.real.aclose()


async def test_a_request_answered_in_fewer_turns_does_not_overtake_the_one_ahead(tmp_path: Path) -> None:
    edge = RealEdge(tmp_path)
    await edge.ready()
    edge.request("open", "session/open", {"sessionId": "s"})
    await edge.reply("open")
    (connection,) = edge.real._connections.values()
    order = connection.order
    order.hold_up("s")
    # It waits for its turn, then, since more seems to come, for a write together.
    edge.send(append(0), {"jsonrpc": "2.0", "method": "$/unknown"})
    loop = asyncio.get_running_loop()

    def send_once_free() -> None:
        if "s" in order.blocked:
            loop.call_soon(send_once_free)
        else:  # in the very turn in which the one ahead went on
            edge.send(append(1))

    loop.call_soon(send_once_free)
    await edge.reply(1)
    assert [each["id"] for each in edge.received if each.get("id") in (0, 1)] == [0, 1]
    await edge.connection.finish()
    await edge.real.disconnect(edge.connection)
    await edge.real.aclose()
