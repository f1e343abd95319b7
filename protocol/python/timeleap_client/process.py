"""The server as a child process: its three streams and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from timeleap_client.errors import StartFailedError

_READ_BYTES = 1 << 18
_STDERR_LINES = 200
_STDERR_LINE_BYTES = 4096


def default_command() -> tuple[str, ...]:
    """The server of this very installation.

    `-P` keeps the working directory off the module path: a folder there that happens to hold a `json.py` must not
    become part of the server.
    """
    return (sys.executable, "-P", "-m", "timeleap", "serve")


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server; the same again for a restart.

    Args:
        command: Program and arguments.
        home: The store's directory, handed on as `--home`; None leaves it to the server.
        env: Variables on top of our own environment.
        cwd: Working directory; None is ours.
    """

    command: Sequence[str] = field(default_factory=default_command)
    home: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    def argv(self) -> list[str]:
        """The complete command line."""
        home = [] if self.home is None else ["--home", self.home]
        return [*self.command, *home]


class RunningServer(Protocol):
    """A server and the way to it; `ServerProcess` says what each of these is."""

    @property
    def pid(self) -> int: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def stderr_tail(self) -> str: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...
    async def read(self) -> bytes: ...
    def close_stdin(self) -> None: ...
    async def wait(self) -> int: ...
    async def kill(self) -> int: ...


StartServer = Callable[[Launch], Awaitable[RunningServer]]
"""Starts a server."""


class ServerProcess:
    """A running server. Made by `start`; ends with `wait` or `kill`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        # Read from the first moment on: a server that fills a pipe nobody reads would stand still.
        self._drain = asyncio.create_task(self._drain_stderr(), name="timeleap-client-stderr")

    @classmethod
    async def start(cls, launch: Launch) -> ServerProcess:
        """Start the server.

        Raises:
            StartFailedError: There is no such program, or it may not be run.
        """
        argv = launch.argv()
        creation = asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **launch.env},
            cwd=launch.cwd,
            limit=1 << 20,
            **_own_group(),
        )
        try:
            process = await _uncancelled(asyncio.create_task(creation, name="timeleap-client-spawn"))
        except (OSError, ValueError) as error:
            raise StartFailedError(f"cannot start {argv[0]!r}: {error}") from error
        except NotImplementedError as error:
            raise StartFailedError(
                "this event loop cannot start processes; on Windows use the proactor loop"
            ) from error
        return cls(process)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last lines it wrote to its standard error output."""
        return "\n".join(self._stderr)

    def write(self, data: bytes) -> None:
        """Queue `data` for its standard input, in the order of the calls; lost if that is closed."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def drained(self) -> None:
        """Wait while it is too slow to take what was queued.

        Raises:
            ConnectionError: It does not read any more.
        """
        await self._stdin.drain()

    async def read(self) -> bytes:
        """Some of its output; empty at the end."""
        stdout = self._process.stdout
        assert stdout is not None
        return await stdout.read(_READ_BYTES)

    def close_stdin(self) -> None:
        """Tell it that no more requests come."""
        self._stdin.close()

    async def wait(self) -> int:
        """Wait for its end, all of its standard error output taken in; returns the exit code."""
        code = await self._process.wait()
        # A grandchild that inherited the stream could hold it open for ever.
        await asyncio.wait({self._drain}, timeout=1.0)
        return code

    async def kill(self) -> int:
        """End it at once; returns the exit code."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        return await self.wait()

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        stdin = self._process.stdin
        assert stdin is not None
        return stdin

    async def _drain_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        rest = b""
        while data := await stderr.read(1 << 14):
            *lines, rest = (rest + data).split(b"\n")
            self._stderr.extend(_text(line) for line in lines[-_STDERR_LINES:])
            rest = rest[-_STDERR_LINE_BYTES:]
        if rest:
            self._stderr.append(_text(rest))


async def _uncancelled(creation: asyncio.Task[asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """The process, once it is there; if the caller is cancelled meanwhile it is killed first.

    A creation that is itself cancelled before its pipes are connected waits for ever for the end of the process
    (a defect of asyncio).
    """
    try:
        return await asyncio.shield(creation)
    except asyncio.CancelledError:
        ending = asyncio.create_task(_end(creation))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):  # again: it takes milliseconds
                await asyncio.shield(ending)
        raise


async def _end(creation: asyncio.Task[asyncio.subprocess.Process]) -> None:
    with contextlib.suppress(OSError, ValueError, NotImplementedError):
        process = await creation
        process.kill()
        await process.wait()


def _text(line: bytes) -> str:
    return line[-_STDERR_LINE_BYTES:].decode("utf-8", "replace").rstrip("\r")


def _own_group() -> dict[str, Any]:
    """A group of its own, so that a Ctrl-C meant for the client does not reach the server behind its back.

    The client decides about the end; should it be killed, the server sees the end of its input.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
