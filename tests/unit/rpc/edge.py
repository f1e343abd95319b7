"""A connection in-process: a transport that keeps what is written, and a client's view of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.support.holding import PATIENCE
from tests.support.turns import idle, until
from tests.unit.rpc.fake_server import FakeService

from timeleap.rpc.connection import Connection


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.writes = 0
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += bytes(data)
        self.writes += 1

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Edge:
    """A connection in NDJSON with a fake service behind it."""

    def __init__(self, **limits: Any) -> None:
        self.service = FakeService()
        self.connection = Connection(lambda: self.service, **limits)
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)

    def send(self, *messages: Any) -> None:
        """Deliver messages, all in one chunk."""
        self.raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def raw(self, data: bytes) -> None:
        self.connection.data_received(data)

    def request(self, message_id: Any, method: str, params: Any = None, **rest: Any) -> None:
        self.send(request(message_id, method, params, **rest))

    def order(self, message_id: Any, order: str) -> None:
        """A read that does what `order` says (see FakeService)."""
        self.send(read(message_id, order))

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    @property
    def received(self) -> list[Any]:
        return [json.loads(line) for line in self.transport.written.splitlines()]

    async def settle(self) -> list[Any]:
        """Let the loop do all it can; returns what was written so far."""
        await idle()
        return self.received

    async def release(self) -> None:
        """Let what was ordered to wait go on; the connection is finished then, and was not before."""
        await idle()
        assert not self.connection.finished.done()
        self.service.release.set()
        await asyncio.wait_for(self.connection.finished, PATIENCE)

    async def reply(self, message_id: Any) -> Any:
        """The reply to a request."""
        replies: list[Any] = []

        def come() -> bool:
            replies[:] = [each for each in self.received if "method" not in each and each["id"] == message_id]
            return bool(replies)

        await until(come)
        return replies[0]

    async def ready(self, **params: Any) -> Edge:
        """The handshake; forgets what it said."""
        self.request("init", "initialize", params)
        assert "result" in await self.reply("init")
        self.notify("initialized")
        self.transport.written = b""
        return self


def request(message_id: Any, method: str, params: Any = None, **rest: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params or {}, **rest}


def read(message_id: Any, order: str) -> dict[str, Any]:
    return request(message_id, "session/isApproved", {"sessionId": "s", "action": order})


def change(message_id: Any, order: str, **params: Any) -> dict[str, Any]:
    return request(message_id, "session/setTitle", {"sessionId": "s", "title": order, **params})
