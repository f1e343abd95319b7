"""A client without models: one server, kept running; requests and results are the JSON values they are.

It loads no model and not pydantic, which counts where a process makes one request and ends, as on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

from timeleap_client.connection import Handler, OnProgress, Params, Trace
from timeleap_client.frames import Framing
from timeleap_client.link import DEFAULT_RESTARTS, Greeting, Link, Restarts, timeleap_capabilities
from timeleap_client.notifications import Bus, Notification, Subscription, Wanted
from timeleap_client.process import Launch, StartServer, default_command
from timeleap_protocol.limits import DEFAULT_APPROVAL_TIMEOUT

_AFTER_A_DECISION = 30.0
"""Seconds for an answer that waits for a person to arrive once it is due."""

Summarize = Callable[[Params], Awaitable["str | Params"]]
"""Serves `context/summarize`: its params in wire names, to the summary, or to `{summary, usage}`."""


class RawTimeleap:
    """Starts a server and keeps it running.

    Requests are sent in the order of the calls. A request that changes something carries a `requestId`; when the server
    goes away it is started again, the sessions are opened again, and what was not answered is sent again, in the same
    order: it takes effect once.

    Args:
        home: The store's directory; None leaves it to the server (`TIMELEAP_HOME`, the platform's directory).
        store: Where the sessions are: a directory, or `postgresql://...`, whose password stands in `~/.pgpass`, a service
            file or `PGPASSWORD`; None leaves it to the server (`TIMELEAP_STORE`, `store` of `config.toml`, the home).
            With `?timeleap_read=standby` a result that may lack the newest changes has `stale`.
        command: What to start instead of the server of this installation.
        env: Variables for the server on top of our own environment.
        cwd: Working directory of the server.
        framing: How to speak: `ndjson` or `lsp`.
        options: `initializationOptions`, sent at every start of the server. `{"approvals": "ask"}` makes a client that can ask for
            approvals, but is refused (4004) when it decides about them: for agents.
        name: What we are called in notifications and audits (`clientInfo.name`).
        timeout: Seconds to wait for an answer since the last sign of work; None waits for ever.
        summarize: Serves `context/summarize`; the server then asks us for summaries.
        restarts: How to start a server again that went away (`NO_RESTARTS`: not at all).
        patience: Seconds to go on trying, within the timeout, where another process owns the session and does not
            answer (`sessionLocked`, retryable): it hangs, or hands over.
        trace: Sees every message that is sent or received; for tests, logs and demonstrations.
    """

    _start_server: StartServer | None = None
    """How to start a server that is not to be a process of its own."""

    def __init__(
        self,
        *,
        home: str | os.PathLike[str] | None = None,
        store: str | os.PathLike[str] | None = None,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        framing: Framing | str = Framing.NDJSON,
        options: Mapping[str, Any] | None = None,
        name: str = "timeleap-python",
        timeout: float | None = 60.0,
        summarize: Summarize | None = None,
        restarts: Restarts = DEFAULT_RESTARTS,
        patience: float = 10.0,
        trace: Trace | None = None,
    ) -> None:
        launch = Launch(
            command=tuple(command or default_command()),
            home=None if home is None else _absolute(home),
            env=dict(env or {}),
            cwd=None if cwd is None else os.fspath(cwd),
        )
        self._timeout = timeout
        self._bus = Bus()
        # Not an argument of the command: others on this machine can read those.
        given = dict(options or {}) if store is None else {**(options or {}), "store": _store_place(store)}
        greeting = Greeting(name, given, timeout, None if self._start_server else os.getpid())
        self._link = Link(
            launch,
            Framing(framing),
            greeting,
            restarts,
            self._bus,
            patience=patience,
            trace=trace,
            start_server=self._start_server,
        )
        if summarize is not None:
            self.serve("context/summarize", _summarizing(summarize))

    async def start(self) -> Self:
        """Start the server and shake hands.

        Raises:
            StartFailedError: It could not be started.
            TimeleapRpcError: It refused our options.
        """
        await self._link.start()
        return self

    async def aclose(self, grace: float = 10.0) -> int | None:
        """Let the server finish what it accepted and end; it is killed where that takes over `grace` seconds.

        Returns:
            The exit code of the server; None where there was none.
        """
        try:
            return await self._link.close(grace)
        finally:
            self._bus.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def server_info(self) -> Params:
        """`{name, version}` of the server."""
        info: Params = self._link.initialized.get("serverInfo", {})
        return info

    @property
    def capabilities(self) -> Params:
        """What the server can: `methods`, `notifications`, `limits` ..."""
        return timeleap_capabilities(self._link.initialized)

    @property
    def pid(self) -> int | None:
        """The process id of the server; None while there is none."""
        process = self._link.process
        return None if process is None or process.exit_code is not None else process.pid

    @property
    def stderr_tail(self) -> str:
        """The last lines the server wrote to its standard error output."""
        return "" if self._link.process is None else self._link.process.stderr_tail

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Send a request of any method and wait for its result, the JSON value it is.

        Args:
            method: Wire name, such as `context/revertTo`.
            params: In wire names.
            within: Seconds to wait since the last sign of work; None takes the client's `timeout`.
            on_progress: Told how far a long request is: the `value` of each `$/progress`.

        Raises:
            TimeleapRpcError: The server refused.
            RequestTimeoutError: No answer in time; the request was cancelled.
            ConnectionLostError: The server went away, and repeating the request was not possible or did not help.
            ClientClosedError: The client is not running.
        """
        from timeleap_protocol.methods import REQUESTS

        row = REQUESTS.get(method)
        sent = dict(params or {})
        if row is not None and (row.mutates or row.waits) and sent.get("requestId") is None:
            sent["requestId"] = os.urandom(16).hex()
        if row is not None and row.waits and within is None:
            within = (sent.get("timeout") or DEFAULT_APPROVAL_TIMEOUT) + _AFTER_A_DECISION
        if on_progress is not None:
            sent["workDoneToken"] = f"progress-{os.urandom(6).hex()}"
        return await self._link.request(
            method,
            sent,
            within=within or self._timeout,
            on_progress=on_progress,
            repeatable=row is not None,  # what changes something carries a request id, the rest changes nothing
        )

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self._link.notify(method, dict(params or {}))

    def notifications(self, *methods: str, session_id: str | None = None, capacity: int = 10_000) -> Subscription:
        """An asynchronous iterator over notifications from now on.

        Args:
            *methods: Only these; none given: all.
            session_id: Only those about this session.
            capacity: How many may wait to be taken; over that the oldest are dropped and counted.
        """
        return self._bus.subscribe(Wanted(methods, session_id), capacity)

    def on(
        self, callback: Callable[[Notification], object], *methods: str, session_id: str | None = None
    ) -> Callable[[], None]:
        """Call `callback` (a function or a coroutine function) with each notification; returns what stops it."""
        return self._bus.listen(Wanted(methods, session_id), callback)

    def serve(self, method: str, handler: Handler) -> None:
        """Answer requests of the server: `handler` takes the params and returns the result."""
        self._link.handlers[method] = handler


def _absolute(path: str | os.PathLike[str]) -> str:
    """The same for a server that runs in another directory."""
    # Not by pathlib, which is a part of the time that the import of this takes.
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118


def _store_place(store: str | os.PathLike[str]) -> str:
    is_url = isinstance(store, str) and store.startswith(("postgresql://", "postgres://", "file:"))
    return str(store) if is_url else _absolute(store)


def _summarizing(summarize: Summarize) -> Handler:
    async def serve(params: Params) -> Params:
        summary = await summarize(params)
        return {"summary": summary} if isinstance(summary, str) else summary

    return serve
