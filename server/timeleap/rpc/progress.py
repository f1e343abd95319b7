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
would send thousands."""


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
        self._send({"kind": "begin", "title": title})

    def report(self, message: str | None = None, percentage: int | None = None) -> None:
        """Say where the work stands. May be called from any thread; too frequent calls are dropped."""
        if threading.get_ident() != self._thread:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._report, message, percentage)
        else:
            self._report(message, percentage)

    def _report(self, message: str | None, percentage: int | None) -> None:
        now = self._loop.time()
        if self._ended or now - self._last < INTERVAL:
            return
        self._last = now
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
            self._send({"kind": "end"})

    def _send(self, value: dict[str, Any]) -> None:
        self._notify(METHOD, {"token": self._token, "value": value})
