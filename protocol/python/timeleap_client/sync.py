"""The blocking client and its sessions: the asynchronous ones, run on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

from timeleap_client import _models as models
from timeleap_client._methods_sync import SyncMethods
from timeleap_client.approvals import Verdict
from timeleap_client.client import AsyncSession, AsyncTimeleap, Place, R
from timeleap_client.connection import OnProgress, Params, Trace
from timeleap_client.errors import ProcessOfClient
from timeleap_client.frames import Framing
from timeleap_client.link import DEFAULT_RESTARTS, Restarts
from timeleap_client.loop import Blocking, LoopThread, blocking
from timeleap_client.notifications import Notification
from timeleap_client.raw import Summarize

BlockingSummarize = Callable[[Params], "str | Params"]
"""Serves `context/summarize`; called in a thread of its own."""


class SyncNotifications:
    """A blocking iterator over notifications, until `close` or the end of the client."""

    def __init__(self, capacity: int) -> None:
        self.lost = 0
        """How many were dropped because nobody took them in time."""
        self._waiting: queue.Queue[Notification | None] = queue.Queue(capacity)
        self._stop: Callable[[], None] | None = None
        self._process = ProcessOfClient()

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
        """The next one; None at the end, or where none comes within `seconds`. Raises ClientClosedError in a process
        that was forked since."""
        self._process.require()
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
        store: str | os.PathLike[str] | None = None,
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
        self._listening: list[SyncNotifications] = []
        self._client = AsyncTimeleap(
            home=home,
            store=store,
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
        super().__init__(self._client, LoopThread())

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
        if self._loop.forked:
            self._loop.close()  # the server is that of the process that forked this one
            return None
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


class SyncSession(Blocking[AsyncSession]):
    """A session of a blocking client; made by `SyncTimeleap.session`, opened and closed by `with`."""

    def __init__(self, client: SyncTimeleap, session: AsyncSession, loop: LoopThread) -> None:
        super().__init__(session, loop)
        self._client = client

    def open(self) -> Self:
        """Open it; see `session/open`."""
        self._loop.run(self._async.open())
        return self

    close = blocking(AsyncSession.close)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        if not self._loop.forked:  # else it is open in the process that forked this one
            self.close()

    @property
    def id(self) -> str:
        """The session id."""
        return self._async.id

    @property
    def head(self) -> str:
        """The head after our last change (others may have moved it since)."""
        return self._async.head

    @property
    def opened(self) -> models.shapes.SessionState:
        """The state at the time it was opened."""
        return self._async.opened

    def at(self, head: str) -> SyncSession:
        """The same open session, whose changes only take effect while `head` is the present one."""
        return SyncSession(self._client, self._async.at(head), self._loop)

    append = blocking(AsyncSession.append)
    update_token_count = blocking(AsyncSession.update_token_count)
    set_system_prompt = blocking(AsyncSession.set_system_prompt)
    history = blocking(AsyncSession.history)
    state = blocking(AsyncSession.state)
    checkpoint = blocking(AsyncSession.checkpoint)
    checkpoints = blocking(AsyncSession.checkpoints)
    timelines = blocking(AsyncSession.timelines)
    revert_to = blocking(AsyncSession.revert_to)
    restore = blocking(AsyncSession.restore)
    revert_to_message = blocking(AsyncSession.revert_to_message)
    undo = blocking(AsyncSession.undo)
    redo = blocking(AsyncSession.redo)
    snapshot_files = blocking(AsyncSession.snapshot_files)
    file_snapshots = blocking(AsyncSession.file_snapshots)
    diff_files = blocking(AsyncSession.diff_files)
    read_file = blocking(AsyncSession.read_file)
    restore_files = blocking(AsyncSession.restore_files)
    clear = blocking(AsyncSession.clear)
    compact = blocking(AsyncSession.compact)
    send_dmail = blocking(AsyncSession.send_dmail)
    send_note = blocking(AsyncSession.send_note)
    deliver_dmail = blocking(AsyncSession.deliver_dmail)
    cancel_dmail = blocking(AsyncSession.cancel_dmail)
    set_yolo = blocking(AsyncSession.set_yolo)
    set_auto_approve = blocking(AsyncSession.set_auto_approve)
    is_approved = blocking(AsyncSession.is_approved)
    set_afk = blocking(AsyncSession.set_afk)
    request_approval = blocking(AsyncSession.request_approval)
    approvals = blocking(AsyncSession.approvals)
    respond_approval = blocking(AsyncSession.respond_approval)
    put_subagent = blocking(AsyncSession.put_subagent)
    remove_subagent = blocking(AsyncSession.remove_subagent)
    set_title = blocking(AsyncSession.set_title)
    set_workspace = blocking(AsyncSession.set_workspace)
    archive = blocking(AsyncSession.archive)
    unarchive = blocking(AsyncSession.unarchive)
    reload = blocking(AsyncSession.reload)

    def on_approval(self, handler: Callable[[models.approval.ApprovalRequest], Verdict]) -> Callable[[], None]:
        """Have `handler`, called in a thread of its own, decide requests for approvals; returns what stops it."""

        async def threaded(approval: models.approval.ApprovalRequest) -> Verdict:
            return await asyncio.to_thread(handler, approval)

        async def begin() -> Callable[[], None]:
            return self._async.on_approval(threaded)

        stop = self._loop.run(begin())

        async def end() -> None:
            stop()

        return lambda: self._loop.run(end())

    def messages(self, *, timeline_id: str | None = None, page: int = 1000) -> Iterator[models.shapes.HistoryMessage]:
        """The messages with their indexes, oldest first, fetched by pages of `page`."""
        messages = self._async.messages(timeline_id=timeline_id, page=page)
        while (message := self._loop.run(_next(messages))) is not None:
            yield message

    def fork(
        self, checkpoint: Place | None = None, *, session_id: str | None = None, title: str | None = None
    ) -> SyncSession:
        """Copy the history, whole or up to and including a checkpoint, into a new session, which comes open."""
        forked = self._loop.run(self._async.fork(checkpoint, session_id=session_id, title=title))
        return SyncSession(self._client, forked, self._loop)

    def notifications(self, *methods: str) -> SyncNotifications:
        """A blocking iterator over the notifications about this session from now on."""
        return self._client.notifications(*methods, session_id=self.id)

    def on(self, callback: Callable[[Notification], object], *methods: str) -> Callable[[], None]:
        """Call `callback` with each notification about this session; returns what stops it."""
        return self._client.on(callback, *methods, session_id=self.id)


def _threaded(summarize: BlockingSummarize) -> Summarize:
    async def serve(params: Params) -> str | Params:
        return await asyncio.to_thread(summarize, params)

    return serve


async def _next(messages: AsyncIterator[models.shapes.HistoryMessage]) -> models.shapes.HistoryMessage | None:
    return await anext(messages, None)
