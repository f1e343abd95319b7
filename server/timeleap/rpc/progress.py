"""`$/progress` for one request: begin, report, end, under the token the client gave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

Notify = Callable[[str, dict[str, Any]], None]

METHOD = "$/progress"
INTERVAL = 0.1
"""Seconds from the begin to the first report, and between two: more often nobody sees them, and a log of gigabytes
would send thousands. What comes too early is kept, and the latest of it is told when its time has come."""


class WorkDone:
    """Tells a client how far the work of its request has come.

    Args:
        notify: Queues a notification; called on the event loop only.
        token: The request's `workDoneToken`.
        title: What is being done.
    """

    def __init__(self, notify: Notify, token: str | int, title: str) -> None:
        self._notify = notify
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._ended = False
        self._last = self._loop.time()
        self._waiting: tuple[str | None, int | None] = (None, None)
        self._timer: asyncio.TimerHandle | None = None
        self._send({"kind": "begin", "title": title})

    def report(self, message: str | None = None, percentage: int | None = None) -> None:
        """Say where the work stands. May be called from any thread; of too frequent calls the last one counts."""
        if threading.get_ident() != self._thread:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._report, message, percentage)
        else:
            self._report(message, percentage)

    def _report(self, message: str | None, percentage: int | None) -> None:
        if self._ended:
            return
        if self._loop.time() - self._last < INTERVAL:
            self._waiting = (message, percentage)
            if self._timer is None:
                self._timer = self._loop.call_at(self._last + INTERVAL, self._catch_up)
            return
        self._tell(message, percentage)

    def _catch_up(self) -> None:
        self._timer = None
        self._tell(*self._waiting)

    def _tell(self, message: str | None, percentage: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._last = self._loop.time()
        value: dict[str, Any] = {"kind": "report"}
        if message is not None:
            value["message"] = message
        if percentage is not None:
            value["percentage"] = percentage
        self._send(value)

    def end(self) -> None:
        """The work is over, well or not; nothing is reported after it."""
        if not self._ended:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()
            self._send({"kind": "end"})

    def _send(self, value: dict[str, Any]) -> None:
        self._notify(METHOD, {"token": self._token, "value": value})
