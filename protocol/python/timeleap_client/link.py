"""A connection that comes back: it starts the server, and starts it again when it goes away.

Requests that were not answered are sent again, in the order of their calls, once the sessions are open again. That they
take effect once is the server's promise for repeated request ids; that only such requests are repeated is ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from timeleap_client.connection import Handler, OnProgress, Params, ServerConnection, Trace
from timeleap_client.errors import (
    ClientClosedError,
    ConnectionLostError,
    ProcessOfClient,
    RequestTimeoutError,
    StartFailedError,
    TimeleapRpcError,
)
from timeleap_client.frames import Framing
from timeleap_client.notifications import RECONNECTED, Bus
from timeleap_client.opened import Opened, OpenSessions
from timeleap_client.process import Launch, RunningServer, ServerProcess, StartServer
from timeleap_protocol.limits import PROTOCOL_VERSION

_REOPEN_PATIENCE = 2.0
"""Seconds a restart waits for a session that another process holds; requests on it wait longer."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Restarts:
    """How a server that went away is started again.

    Attributes:
        limit: Starts in a row without `stable` seconds of running between them; then it is given up.
        delay: Seconds before the second start in a row; doubled for each further one, up to `longest`.
        longest: Seconds of the longest pause.
        stable: Seconds a server has to run for its loss to count as the first one again.
        repeats: How often one request is sent at most: it may be what the server cannot stand.
    """

    limit: int = 5
    delay: float = 0.2
    longest: float = 5.0
    stable: float = 10.0
    repeats: int = 3

    def pause(self, start: int) -> float:
        """Seconds to wait before the start of that number (0-based)."""
        return 0.0 if start == 0 else min(self.longest, self.delay * 2 ** (start - 1))


DEFAULT_RESTARTS = Restarts()
NO_RESTARTS = Restarts(limit=0, repeats=1)
"""A server that goes away is an error."""


class Patience:
    """How long to go on with a request where another process owns the session and does not answer.

    It hangs, or hands over: the same request may succeed in a moment.

    Args:
        seconds: Counted from the first refusal.
        within: Seconds the whole request may take; None is no limit.
    """

    def __init__(self, seconds: float, within: float | None) -> None:
        self._seconds = seconds
        self._within = within
        self._begun = time.monotonic()
        self._until: float | None = None
        self._attempts = 0

    @property
    def left(self) -> float | None:
        """Seconds the request may still take: all of its time until it is refused for the first time."""
        if self._within is None or self._until is None:
            return self._within
        return max(0.001, self._begun + self._within - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True when the request has taken all of its time."""
        return self._within is not None and time.monotonic() >= self._begun + self._within

    def pause(self, error: TimeleapRpcError) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            TimeleapRpcError: There is to be none.
        """
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._seconds
            if self._within is not None:
                self._until = min(self._until, self._begun + self._within)
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**self._attempts)
        if error.kind != "sessionLocked" or not error.retryable or now + pause > self._until:
            raise error
        self._attempts += 1
        return pause


@dataclass(frozen=True, slots=True)
class Greeting:
    """What we say of ourselves in `initialize`.

    Attributes:
        name: `clientInfo.name`.
        options: `initializationOptions`.
        timeout: Seconds the handshake may take; None waits for ever.
        process_id: The process with whose end the server is to end; None where that needs no watching.
    """

    name: str
    options: Mapping[str, Any]
    timeout: float | None
    process_id: int | None = None

    def params(self, *, summarize: bool) -> Params:
        """The params of `initialize`."""
        return {
            "processId": self.process_id,
            "clientInfo": {"name": self.name},
            "capabilities": {
                "experimental": {
                    "timeleap": {"protocolVersion": PROTOCOL_VERSION, "summarize": summarize, "approvals": True}
                }
            },
            "initializationOptions": dict(self.options),
        }


class Link:
    """One server at a time, kept running from `start` to `close`.

    Args:
        launch: How to start it.
        framing: How to speak to it.
        greeting: The opening handshake.
        restarts: How to start it again.
        bus: Takes the notifications.
        patience: Seconds to go on where another process owns the session and does not answer.
        trace: Sees every message.
        start_server: How to start a server that is not to be a process of its own.
    """

    def __init__(
        self,
        launch: Launch,
        framing: Framing,
        greeting: Greeting,
        restarts: Restarts,
        bus: Bus,
        *,
        patience: float = 0.0,
        trace: Trace | None = None,
        start_server: StartServer | None = None,
    ) -> None:
        self.handlers: dict[str, Handler] = {}
        self.sessions = OpenSessions()
        self.initialized: Params = {}
        """The result of the latest `initialize`."""
        self._launch = launch
        self._framing = framing
        self._greeting = greeting
        self._restarts = restarts
        self._bus = bus
        self._patience = patience
        self._trace = trace
        self._start_server = start_server
        self._running = False
        self._process = ProcessOfClient()
        self._connection: ServerConnection | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._starts = 0
        self._started_at = 0.0
        self._calls = 0
        self._tickets: list[tuple[int, asyncio.Future[ServerConnection]]] = []
        self._queued = 0

    @property
    def process(self) -> RunningServer | None:
        """The server; None before the start and after the end."""
        return None if self._connection is None else self._connection.process

    async def start(self) -> None:
        """Start the server and shake hands.

        Raises:
            StartFailedError, TimeleapRpcError: It could not be started; it refused our options.
        """
        if self._running:
            self._process.require()
            raise ClientClosedError("the client is running already")
        self._running = True
        self._process = ProcessOfClient()
        try:
            await self._connect()
        except BaseException:
            self._running = False
            raise

    async def close(self, grace: float) -> int | None:
        """End the server in good order, at the latest after `grace` seconds; returns its exit code."""
        if not self._running:
            return None
        self._running = False
        if not self._process.is_this:
            return None  # the server is that of the process that forked this one
        for task in (self._recovery, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        self._refuse_tickets(ClientClosedError("the client was closed"))
        connection, self._connection = self._connection, None
        return await connection.shut_down(grace) if connection is not None else None

    async def request(
        self,
        method: str,
        params: Params,
        *,
        within: float | None,
        on_progress: OnProgress | None,
        repeatable: bool,
    ) -> Any:
        """Send a request until it is answered; over restarts and refusals that pass where it is `repeatable`."""
        self._calls += 1
        number = self._calls
        patience = Patience(self._patience if repeatable and params.get("attach") is not False else 0.0, within)
        sent = 0
        while True:
            connection = await self._connected(number)
            try:
                result = await self._attempt(connection, method, params, patience.left, on_progress)
            except ConnectionLostError:
                sent += 1
                if method == "session/close":
                    result = {}  # what was open on that connection went with it
                elif self._running and repeatable and sent < self._restarts.repeats:
                    continue
                else:
                    raise
            except TimeleapRpcError as error:
                await asyncio.sleep(patience.pause(error))
                if patience.is_over:  # on a busy machine the pause may take all that was left: the refusal says more
                    raise
                continue
            self.sessions.note(method, params, result)
            return result

    async def _attempt(
        self,
        connection: ServerConnection,
        method: str,
        params: Params,
        within: float | None,
        on_progress: OnProgress | None,
    ) -> Any:
        opened = self.sessions.get(params.get("sessionId"))
        if opened is not None and opened.refusal is not None:
            if method == "session/close":
                return {}  # it is not open there
            await self._reopen(connection, opened)
        return await connection.request(method, params, within=within, on_progress=on_progress)

    async def notify(self, method: str, params: Params) -> None:
        """Send a notification, behind the requests that were called before."""
        self._calls += 1
        (await self._connected(self._calls)).notify(method, params)

    async def _connected(self, number: int) -> ServerConnection:
        """The live connection; waits for a recovery that is under way, in the order of the call numbers."""
        if not self._running:
            raise ClientClosedError("the client is not running; use `async with` or call `start` first")
        self._process.require()
        live = self._connection if self._connection is not None and self._connection.alive else None
        if live is not None and not self._queued:
            return live
        loop = asyncio.get_running_loop()
        ticket: asyncio.Future[ServerConnection] = loop.create_future()
        self._tickets.append((number, ticket))
        if live is not None:
            # Others were let go a moment ago and have not sent yet: stay behind them.
            loop.call_soon(self._release_tickets)
        elif self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover(), name="timeleap-client-recovery")
        self._queued += 1
        try:
            return await ticket
        finally:
            self._queued -= 1

    def _release_tickets(self) -> None:
        tickets, self._tickets = sorted(self._tickets, key=lambda ticket: ticket[0]), []
        for _, ticket in tickets:
            if not ticket.done() and self._connection is not None:
                ticket.set_result(self._connection)

    def _refuse_tickets(self, error: Exception) -> None:
        tickets, self._tickets = self._tickets, []
        for _, ticket in tickets:
            if not ticket.done():
                ticket.set_exception(error)

    async def _recover(self) -> None:
        """Start the server again and open the sessions again; then let go who waits."""
        try:
            await self._start_again()
        except Exception as error:
            self._refuse_tickets(error)
            return
        self._bus.publish(RECONNECTED, self.sessions.standing())
        self._release_tickets()

    async def _start_again(self) -> None:
        lost = await self._connection.lost() if self._connection is not None else ConnectionLostError("no server")
        if time.monotonic() - self._started_at >= self._restarts.stable:
            self._starts = 0
        while self._starts < self._restarts.limit:
            await asyncio.sleep(self._restarts.pause(self._starts))
            self._starts += 1
            try:
                await self._connect()
            except ConnectionLostError as error:
                lost = error
            else:
                return
        raise ConnectionLostError(f"{lost}\n(given up after {self._starts} starts in a row)", lost.exit_code)

    async def _connect(self) -> None:
        """A new server, ready, with our sessions open; it becomes `_connection`."""
        process = await (self._start_server or ServerProcess.start)(self._launch)
        connection = ServerConnection(process, self._framing, self._bus.publish, self.handlers, self._trace)
        # While the server starts: with the client itself it took a fifth of the time that importing that takes.
        import_module("timeleap_protocol.methods")
        try:
            await self._shake_hands(connection)
            self.sessions.forget_openings()
            await asyncio.gather(*(self._try_to_reopen(connection, opened) for opened in self.sessions))
        except BaseException:
            await process.kill()
            await connection.lost()
            raise
        self._started_at = time.monotonic()
        self._connection = connection
        self._watching = asyncio.create_task(self._watch(connection), name="timeleap-client-watch")

    async def _shake_hands(self, connection: ServerConnection) -> None:
        params = self._greeting.params(summarize="context/summarize" in self.handlers)
        try:
            self.initialized = await connection.request("initialize", params, within=self._greeting.timeout)
            connection.notify("initialized", {})
        except ConnectionLostError as error:
            raise StartFailedError(f"the server did not start: {error}", error.exit_code) from None
        except RequestTimeoutError as error:
            raise StartFailedError(f"the server did not start: {error}\n{connection.process.stderr_tail}") from None
        announced = timeleap_capabilities(self.initialized)
        _check_version(announced.get("protocolVersion"))
        connection.max_frame_bytes = announced.get("limits", {}).get("maxFrameBytes")

    async def _watch(self, connection: ServerConnection) -> None:
        """Start again even if nobody calls: listeners of a session are to go on hearing."""
        await connection.lost()
        if self._running and len(self.sessions) and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover(), name="timeleap-client-recovery")

    async def _try_to_reopen(self, connection: ServerConnection, opened: Opened) -> None:
        """Open a session again; a refusal waits for the next request on that session and stops no other one."""
        # The lock of a server that was killed is free at once; that of one that still drains is, a little later.
        patience = Patience(_REOPEN_PATIENCE, None)
        try:
            while True:
                try:
                    return await self._reopen(connection, opened)
                except TimeleapRpcError as error:
                    await asyncio.sleep(patience.pause(error))
        except TimeleapRpcError as error:
            opened.refusal = error
        except RequestTimeoutError as error:
            data = {"kind": "sessionLocked", "retryable": True}
            opened.refusal = TimeleapRpcError(4003, "sessionLocked", str(error), data, retryable=True)

    async def _reopen(self, connection: ServerConnection, opened: Opened) -> None:
        async with opened.turn:
            while opened.again < opened.count:
                state = await connection.request("session/open", opened.params, within=self._greeting.timeout)
                opened.again += 1
                opened.head, opened.access = state.get("head"), state.get("access")
            opened.refusal = None


def _check_version(version: Any) -> None:
    if version != PROTOCOL_VERSION:
        said = "no version of the protocol" if version is None else f"version {version} of the protocol"
        why = f"the server speaks {said}, this client version {PROTOCOL_VERSION}"
        raise TimeleapRpcError(4017, "protocolVersion", why, {"kind": "protocolVersion", "retryable": False}, False)


def timeleap_capabilities(initialized: Params) -> Params:
    """`capabilities.experimental.timeleap` of a result of `initialize`."""
    capabilities: Params = initialized.get("capabilities", {}).get("experimental", {}).get("timeleap", {})
    return capabilities
