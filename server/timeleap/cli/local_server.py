"""The server behind a command, in the command's own process: starting another costs more than what most commands do.

It is the whole server but for its process and its log: the same connection, service and lock, asked over the same wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from timeleap.cli import serve
from timeleap.rpc.connection import Connection, ServicePort

if TYPE_CHECKING:
    from timeleap_client.process import Launch

PATIENCE = 10.0
"""Seconds that a server which was hung up on may take for what it had accepted."""


class _Replies(asyncio.Transport):
    """The way from the connection to the client. A client in the same process reads at once: nothing has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.waiting.put_nowait(bytes(data))

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class LocalServer:
    """Stands where a client has its `ServerProcess` (see there)."""

    stderr_tail = ""

    def __init__(self, home: Path | None) -> None:
        @cache
        def service() -> ServicePort:
            return serve.make_service(home, os.environ)

        self._loop = asyncio.get_running_loop()
        self._replies = _Replies()
        self._connection = Connection(service)
        self._connection.connection_made(self._replies)
        self._serving = asyncio.create_task(serve.attend(service, self._connection), name="timeleap-server")
        self._serving.add_done_callback(lambda _: self._replies.write(b""))

    @classmethod
    async def start(cls, launch: Launch) -> LocalServer:
        # What it has to say is said in answers; without a handler the rest would go to the standard error output.
        logging.getLogger("timeleap").addHandler(logging.NullHandler())
        home = None if launch.home is None else Path(launch.home)
        serve.make_home(home)
        return cls(home)

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def exit_code(self) -> int | None:
        return int(self._connection.exit_code) if self._serving.done() else None

    def write(self, data: bytes) -> None:
        self._loop.call_soon(self._connection.data_received, data)

    async def drained(self) -> None:
        """Nothing to wait for: what is written has been taken."""

    async def read(self) -> bytes:
        return await self._replies.waiting.get()

    def close_stdin(self) -> None:
        self._loop.call_soon(self._connection.eof_received)

    async def wait(self) -> int:
        await asyncio.wait({self._serving})
        return int(self._connection.exit_code)

    async def kill(self) -> int:
        """Hang up: what was accepted is finished, unless it takes too long."""
        self._connection.close_input()
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._serving, PATIENCE)
        return int(self._connection.exit_code)
