"""The process that hooks talk to: hands their events to a server of its own, and ends when none have come for a while.

Started by a hook that finds none (`hook.py`), one for each store. A hook connects, sends a line, and reads lines: that
the event is accepted, and how long it may take; then what became of it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import logging
import os
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from timeleap.attach import sockets
from timeleap.errors import StorageFailureError
from timeleap.storage import durable
from timeleap.storage.lock import FileLock
from timeleap_agents.hooks.hook import FIRST_SECONDS, FOLDER, RECORD, open_log
from timeleap_client import RawTimeleap, TimeleapClientError

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 600.0
JOINED_SECONDS: Final = 0.5
"""Events after tools that come within this time of each other are one."""
MAX_CONNECTIONS: Final = 64
MAX_SESSIONS: Final = 1000
"""Sessions of agents that are remembered; of one that was forgotten the next prompt counts as the first."""
MAX_LINE: Final = 64 * 1024
_WITH_SNAPSHOT: Final = frozenset({"prompt", "tool", "stop"})
_LINE_SECONDS: Final = 5.0
_CALL_SECONDS: Final = 120.0
_ENDING_SECONDS: Final = 5.0
_PAUSE: Final = 0.05

Call = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class AgentSession:
    """The events of one session of an agent, in their order."""

    def __init__(self) -> None:
        self.prompted = False
        self._turn = asyncio.Lock()
        self._tool: asyncio.TimerHandle | None = None
        self._waiting: dict[str, Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        return self._turn.locked() or self._tool is not None or bool(self._tasks)

    async def tell(self, call: Call, event: dict[str, Any]) -> None:
        """Hand an event to the server. Where it takes a snapshot, that counts for a tool's that still waits."""
        if self._tool is not None:
            self._tool.cancel()
            if event["event"] in _WITH_SNAPSHOT:
                self._tool = self._waiting = None
            else:
                self._joined(call)
        async with self._turn:
            try:
                result = await call(event)
            except TimeleapClientError as error:
                log.warning("%s: %s", event["event"], error)
                return
        if event["event"] == "prompt":
            self.prompted = True
        if problem := result.get("problem"):
            log.warning("%s: %s", event["event"], problem)

    def tell_later(self, call: Call, event: dict[str, Any]) -> None:
        """Hand an event to the server without anybody waiting; those after tools a little later, several as one."""
        if event["event"] != "tool":
            self._begin(call, event)
            return
        self._waiting = event
        if self._tool is None:
            self._tool = asyncio.get_running_loop().call_later(JOINED_SECONDS, self._joined, call)

    def _joined(self, call: Call) -> None:
        event, self._waiting, self._tool = self._waiting, None, None
        if event is not None:
            self._begin(call, event)

    def _begin(self, call: Call, event: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self.tell(call, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, call: Call) -> None:
        """Do what waits, and wait for what is done."""
        if self._tool is not None:
            self._tool.cancel()
            self._joined(call)
        if self._tasks:
            await asyncio.wait(self._tasks)


class HookHost:
    """Takes events from hooks, as long as some come."""

    def __init__(self, home: Path, idle: float, client: RawTimeleap | None = None) -> None:
        self._home = home
        self._idle = idle
        self._token = secrets.token_hex(32)
        self._client = client or RawTimeleap(home=home, name="hooks", cwd=home)
        self._started = asyncio.Event()
        self._sessions: OrderedDict[str, AgentSession] = OrderedDict()
        self._connections = 0
        self._last = 0.0

    async def run(self) -> None:
        """Listen, and return when nothing has come for long enough.

        Raises:
            sockets.UnsafeError: There is no folder where to listen safely; the message says what to do.
            OSError, StorageFailureError: The record cannot be written.
        """
        loop = asyncio.get_running_loop()
        record = self._home / FOLDER / RECORD
        self._last = loop.time()
        listening = await sockets.listen(self._protocol, os.environ)
        try:
            members = {"address": listening.address, "token": self._token, "pid": os.getpid()}
            durable.atomic_write(record, json.dumps(members).encode(), durable=False)
            try:
                await self._client.start()
            finally:
                self._started.set()  # events that wait are told to the client, which says that it does not run
            while (left := self._last + self._idle - loop.time()) > 0 or self._connections or self._busy():  # noqa: ASYNC110
                await asyncio.sleep(max(left, _PAUSE))
        finally:
            durable.remove_file(record)
            listening.close()
            for session in self._sessions.values():
                await session.finish(self._call)
            await self._client.aclose()

    async def _call(self, event: dict[str, Any]) -> dict[str, Any]:
        await self._started.wait()
        result: dict[str, Any] = await self._client.call("bridge/catchUp", event, within=_CALL_SECONDS)
        return result

    def _busy(self) -> bool:
        return any(session.busy for session in self._sessions.values())

    def _protocol(self) -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=MAX_LINE)
        return asyncio.StreamReaderProtocol(reader, self._attend)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= MAX_CONNECTIONS:
                await self._answer(reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.info("a hook's connection ended: %s", type(error).__name__)
        finally:
            self._connections -= 1
            self._last = asyncio.get_running_loop().time()
            writer.close()
            with contextlib.suppress(OSError):
                os.close(open_log(os.fspath(self._home)))  # which keeps it bounded: what we log goes there, too

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_LINE_SECONDS):
            line = await reader.readuntil(b"\n")
        event = json.loads(line)
        token = event.pop("token", None) if isinstance(event, dict) else None
        if not isinstance(token, str) or not hmac.compare_digest(token.encode(), self._token.encode()):
            raise ValueError("no event of a hook of ours")
        session = self._session(str(event.get("path")))
        first = event.get("event") == "prompt" and not session.prompted
        _write(writer, {"wait": FIRST_SECONDS if first else 0.0})
        if event.get("event") == "prompt":
            # The agent waits, so that the snapshot is of the files as they were. Its hook may give up; this goes on.
            await session.tell(self._call, event)
        else:
            session.tell_later(self._call, event)
        _write(writer, {"done": True})
        await writer.drain()

    def _session(self, path: str) -> AgentSession:
        session = self._sessions.pop(path, None) or AgentSession()
        self._sessions[path] = session
        for old in [name for name, found in self._sessions.items() if not found.busy and found is not session]:
            if len(self._sessions) <= MAX_SESSIONS:
                break
            del self._sessions[old]
        return session


def _write(writer: asyncio.StreamWriter, members: dict[str, Any]) -> None:
    writer.write(json.dumps(members).encode() + b"\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the hooks of a store; ends at once where another process does. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="timeleap-hooks", description="Take events from the hooks of agents.")
    parser.add_argument("--home", type=Path, required=True, help="directory of the store")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds without an event after which it ends")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(levelname)s hooks: %(message)s")
    home: Path = options.home.absolute()
    try:
        durable.make_directory(home / FOLDER)
        os.chdir(home)  # the folder in which the agent works is not kept in use
        lock = FileLock(home / FOLDER / "host.lock")
        until = time.monotonic() + _ENDING_SECONDS
        while not lock.try_acquire():  # by one that serves already; or that is about to end, and takes no more events
            if (home / FOLDER / RECORD).exists() or time.monotonic() > until:
                return 0
            time.sleep(_PAUSE)
        asyncio.run(_serve(home, options.idle))
    except (OSError, StorageFailureError, sockets.UnsafeError, TimeleapClientError) as error:
        log.error("%s", error)
        return 1
    return 0


async def _serve(home: Path, idle: float) -> None:
    await HookHost(home, idle).run()


if __name__ == "__main__":
    sys.exit(main())
