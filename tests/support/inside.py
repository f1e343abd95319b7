"""The real server in a thread of this process: what a test of many short commands starts instead of a process each time.

Everything but the process is real: the bytes go through a socket, the framing, the validation and the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest import mock

from timeleap.cli import serve
from timeleap.rpc import stdio
from timeleap.rpc.connection import ServicePort
from timeleap_client.process import Launch


class ServerInside:
    """Stands where the client has its `ServerProcess`, and answers to the same names."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, thread: _Thread) -> None:
        self._reader = reader
        self._writer = writer
        self._thread = thread
        self.stderr_tail = ""

    @classmethod
    async def start(cls, launch: Launch) -> ServerInside:
        """Start the server that `launch` asks for."""
        argv = launch.argv()
        options = serve.parse(argv[argv.index("serve") + 1 :], os.environ)
        flags = {"durability": options.durability} if options.durability else {}
        settings = {**os.environ, **launch.env}

        @functools.cache
        def service() -> ServicePort:
            return serve.make_service(options.home, settings, flags)

        ours, theirs = socket.socketpair()
        serve.make_home(options.home)
        thread = _Thread(service, theirs)
        thread.start()
        return cls(*await asyncio.open_connection(sock=ours), thread)

    @property
    def pid(self) -> int:
        """Nothing that could be killed."""
        raise AssertionError("a server in a thread is no process: start the command as one")

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._thread.code

    def write(self, data: bytes) -> None:
        """Queue `data` for it."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drained(self) -> None:
        """Wait while it is too slow to take what was queued."""
        await self._writer.drain()

    async def read(self) -> bytes:
        """Some of its output; empty at the end."""
        return await self._reader.read(1 << 18)

    def close_stdin(self) -> None:
        """Tell it that no more requests come."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        await asyncio.to_thread(self._thread.join)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        assert self._thread.code is not None
        return self._thread.code

    async def kill(self) -> int:
        """Hang up; it ends by that."""
        self.close_stdin()
        return await self.wait()


class _Thread(threading.Thread):
    """Serves one connection, on an event loop of its own."""

    def __init__(self, service: Callable[[], ServicePort], connection: socket.socket) -> None:
        super().__init__(name="timeleap-server-inside", daemon=True)
        self.code: int | None = None
        self._service = service
        self._connection = connection

    def run(self) -> None:
        with self._connection, self._connection.dup() as output:
            descriptors = stdio.Descriptors(self._connection.fileno(), output.fileno())
            code = serve.run(self._service, descriptors)
            self._connection.shutdown(socket.SHUT_RDWR)
        self.code = code


def server_thread(home: Path, settings: Mapping[str, str], connection: socket.socket) -> _Thread:
    """A thread that serves a connection, not started yet."""

    @functools.cache
    def service() -> ServicePort:
        return serve.make_service(home, settings, {})

    serve.make_home(home)
    return _Thread(service, connection)


@contextlib.contextmanager
def servers_inside() -> Iterator[None]:
    """Clients that are started meanwhile get their servers in threads of this process."""
    with (
        mock.patch("timeleap_client.link.ServerProcess", ServerInside),
        # Signals are the process's; only its main thread may ask for them.
        mock.patch.object(serve, "_signals", return_value=contextlib.nullcontext()),
    ):
        yield
