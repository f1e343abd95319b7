"""The turns and the time of an event loop, for tests that run in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.support.holding import PATIENCE

_TURNS = 100_000  # far more than any test takes
_QUIET = (
    3  # turns in which nothing else was ready: one to see what waits, one for the selector, one for what that wakes
)


async def until(condition: Callable[[], object]) -> None:
    """Return when something is so: for what threads, processes and the network bring about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        for _ in range(20):
            await asyncio.sleep(0)
        time.sleep(0.001)  # the loop's own time may stand still


async def idle() -> None:
    """Return when every task of the loop waits for something that does not come from the loop itself.

    What a broken program would have done by then, it would have done at all: there is no time to choose. Threads and
    other processes do not count; for them wait `until`.
    """
    ready: Any = cast("Any", asyncio.get_running_loop())._ready
    quiet = 0
    for _ in range(_TURNS):
        await asyncio.sleep(0)
        quiet = 0 if ready else quiet + 1
        if quiet == _QUIET:
            return
    raise AssertionError("something keeps the loop turning")


class Clock:
    """The time of the running event loop, which stands still from now on.

    Timers and timeouts of the loop come due while a test lets time pass, one after the other, however busy the machine.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self._now: float = self._loop.time()
        patch.setattr(self._loop, "time", lambda: self._now)

    async def advance(self, seconds: float) -> None:
        """Let time pass; each timer finds the loop idle."""
        end = self._now + seconds
        await idle()
        while due := [timer.when() for timer in self._loop._scheduled if not timer.cancelled() and timer.when() <= end]:
            self._now = max(self._now, min(due))
            await idle()
        self._now = end
        await idle()
