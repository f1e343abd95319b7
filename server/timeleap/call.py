"""The call of a client, as the service sees it: the boundary to the protocol edge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")
ReportProgress = Callable[[str | None, int | None], None]
"""Takes a message and a percentage (0 to 100), either of them None where unknown."""


class Client(Protocol):
    """A connection, as the service sees it. The protocol edge implements it.

    Attributes:
        name: `clientInfo.name` of `initialize`.
        can_summarize: It declared that it serves `context/summarize`.
        wants_approvals: It subscribes to requests for approvals.
        only_asks: It declared that it never decides about approvals, and is held to that.
        ending: Done once nothing more comes from it: what may take for ever is then not waited for.
        is_peer: Another process that attaches to sessions of this one: it may use what this process owns.
    """

    @property
    def name(self) -> str | None: ...
    @property
    def can_summarize(self) -> bool: ...
    @property
    def wants_approvals(self) -> bool: ...
    @property
    def only_asks(self) -> bool: ...
    @property
    def ending(self) -> asyncio.Future[None]: ...
    @property
    def is_peer(self) -> bool: ...

    def wants(self, method: str) -> bool:
        """False for a notification that the client opted out of."""
        ...

    def notify(self, method: str, params: Any) -> None:
        """Queue a notification; it leaves before every reply that is queued after it."""

    async def request(self, method: str, params: dict[str, Any], *, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Ask the client something and wait for its answer, at most `timeout` seconds (None: until cancelled)."""

    def watch_congestion(self, watcher: Callable[[bool], None]) -> Callable[[], None]:
        """Have `watcher` called whenever it stops reading, or reads again; returns what ends that."""
        ...

    async def finish(self) -> None:
        """Take nothing more in; returns when everything accepted is answered."""

    async def end(self) -> None:
        """Finish what was accepted, then end the connection; returns when nothing of it is left."""


class WorkControl(Struct, frozen=True):
    """How long work is followed, and stopped.

    Attributes:
        progress: Takes what is being done, how much of it is done, and of how much.
        cancelled: True once nobody wants it any more.
    """

    progress: Callable[[str, int, int | None], None] = lambda _text, _done, _total: None
    cancelled: Callable[[], bool] = lambda: False


NO_CONTROL: Final = WorkControl()


class Call(Struct, frozen=True):
    """The circumstances of one request.

    Attributes:
        client: Its sender.
        method: Its wire name.
        progress: Where the client wants to be told of progress.
        params: Its params as they came.
        again: Its answer got lost with the owner of the session: the client has asked once.
        followed: More requests of its client have arrived, which are begun right after it.
    """

    client: Client
    method: str
    progress: ReportProgress | None = None
    params: Mapping[str, Any] = {}
    again: bool = False
    followed: bool = False

    def say(self, message: str) -> None:
        """Tell the client what is being done, if it asked for progress."""
        if self.progress is not None:
            self.progress(message, None)

    def byte_progress(self, message: str) -> Callable[[int, int], None] | None:
        """A progress callback in bytes that reports `message` with the percentage, or None where nobody asked."""
        report = self.progress
        if report is None:
            return None
        return lambda done, total: report(message, min(100, done * 100 // max(1, total)))


async def to_its_end(work: Awaitable[T], cancelled: Callable[[], object] = lambda: None) -> T:
    """The outcome of `work`, which is not cancelled with its waiter: `cancelled` is called instead, each time."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled()
    return task.result()
