"""The blocking client: the asynchronous one, run on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from timeleap_client._methods_sync import SyncMethods
from timeleap_client.client import AsyncTimeleap, R
from timeleap_client.connection import OnProgress, Params, Trace
from timeleap_client.frames import Framing
from timeleap_client.link import DEFAULT_RESTARTS, Restarts
from timeleap_client.loop import LoopThread
from timeleap_client.notifications import Notification
from timeleap_client.raw import Summarize

if TYPE_CHECKING:
    from timeleap_client.sync_session import SyncSession

BlockingSummarize = Callable[[Params], "str | Params"]
"""Serves `context/summarize`; called in a thread of its own."""


class SyncNotifications:
    """A blocking iterator over notifications, until `close` or the end of the client."""

    def __init__(self, capacity: int) -> None:
        self.lost = 0
        """How many were dropped because nobody took them in time."""
        self._waiting: queue.Queue[Notification | None] = queue.Queue(capacity)
        self._stop: Callable[[], None] | None = None

    def begin(self, stop: Callable[[], None]) -> None:
        """Remember how to stop listening."""
        self._stop = stop

    def offer(self, notification: Notification | None) -> None:
        """Take one in; None is the end. Over capacity the oldest goes."""
        while True:
            try:
                return self._waiting.put_nowait(notification)
            except queue.Full:
                with contextlib.suppress(queue.Empty):  # somebody took one in between
                    self._waiting.get_nowait()
                    self.lost += 1

    def take(self, seconds: float | None = None) -> Notification | None:
        """The next one; None at the end, or where none comes within `seconds`."""
        try:
            notification = self._waiting.get(timeout=seconds)
        except queue.Empty:
            return None
        if notification is None:
            self.offer(None)  # the end stays the end
        return notification

    def close(self) -> None:
        """Stop listening; what has arrived can still be taken."""
        if self._stop is not None:
            self._stop()
        self.offer(None)

    def __iter__(self) -> Iterator[Notification]:
        while (notification := self.take()) is not None:
            yield notification

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncTimeleap(SyncMethods):
    """A blocking client; the same as `AsyncTimeleap`, whose arguments it takes. Safe to use from several threads.

        with SyncTimeleap(home="store") as client, client.session("first") as session:
            session.append("hello")

    Its methods are those of `AsyncTimeleap`, without `await`.
    """

    def __init__(
        self,
        *,
        home: str | os.PathLike[str] | None = None,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        framing: Framing | str = Framing.NDJSON,
        options: Mapping[str, Any] | None = None,
        name: str = "timeleap-python",
        timeout: float | None = 60.0,
        summarize: BlockingSummarize | None = None,
        restarts: Restarts = DEFAULT_RESTARTS,
        patience: float = 10.0,
        trace: Trace | None = None,
    ) -> None:
        self._loop = LoopThread()
        self._listening: list[SyncNotifications] = []
        self._client = AsyncTimeleap(
            home=home,
            command=command,
            env=env,
            cwd=cwd,
            framing=framing,
            options=options,
            name=name,
            timeout=timeout,
            summarize=None if summarize is None else _threaded(summarize),
            restarts=restarts,
            patience=patience,
            trace=trace,
        )

    def start(self) -> Self:
        """Start the server and shake hands; see `AsyncTimeleap.start`."""
        try:
            self._loop.run(self._client.start())
        except BaseException:
            self._loop.close()
            raise
        return self

    def close(self, grace: float = 10.0) -> int | None:
        """Let the server finish and end; see `AsyncTimeleap.aclose`."""
        try:
            return self._loop.run(self._client.aclose(grace))
        finally:
            self._loop.close()
            for listening in self._listening:
                listening.offer(None)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def server_info(self) -> Params:
        """`{name, version}` of the server."""
        return self._client.server_info

    @property
    def capabilities(self) -> Params:
        """What the server can: `methods`, `notifications`, `limits` ..."""
        return self._client.capabilities

    @property
    def pid(self) -> int | None:
        """The process id of the server; None while there is none."""
        return self._client.pid

    @property
    def stderr_tail(self) -> str:
        """The last lines the server wrote to its standard error output."""
        return self._client.stderr_tail

    @overload
    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        result: None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any: ...

    @overload
    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        result: type[R],
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> R: ...

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        result: type[R] | None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> R | Any:
        """Send a request of any method and wait for its result; see `AsyncTimeleap.call`."""
        if result is None:
            return self._loop.run(self._client.call(method, params, within=within, on_progress=on_progress))
        return self._loop.run(self._client.call(method, params, result, within=within, on_progress=on_progress))

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._loop.run(self._client.notify(method, params))

    def session(self, session_id: str | None = None, **params: Any) -> SyncSession:
        """A session that is opened by `with` (or `open`) and closed at its end; see `AsyncTimeleap.session`."""
        from timeleap_client.sync_session import SyncSession

        return SyncSession(self, self._client.session(session_id, **params), self._loop)

    def notifications(self, *methods: str, session_id: str | None = None, capacity: int = 10_000) -> SyncNotifications:
        """A blocking iterator over notifications from now on; see `AsyncTimeleap.notifications`."""
        listening = SyncNotifications(capacity)
        listening.begin(self.on(listening.offer, *methods, session_id=session_id))
        self._listening.append(listening)
        return listening

    def on(
        self, callback: Callable[[Notification], object], *methods: str, session_id: str | None = None
    ) -> Callable[[], None]:
        """Call `callback` with each notification, on the client's own thread; returns what stops it."""
        return self._client.on(callback, *methods, session_id=session_id)


def _threaded(summarize: BlockingSummarize) -> Summarize:
    async def serve(params: Params) -> str | Params:
        return await asyncio.to_thread(summarize, params)

    return serve
