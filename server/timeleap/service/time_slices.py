"""Long reading in short slices, so that other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeVar

T = TypeVar("T")


SLICE: Final = 0.005  # seconds


WARM_UP: Final = 0.25
"""Seconds from the reply to `initialize`, and from each step of what is done then to the next."""


Work = Generator[tuple[int, int], None, T]
"""Pauses with how much is done, and how much there is; returns the result."""


def step_by_step(steps: Iterator[Callable[[], object]], wanted: Callable[[], bool]) -> None:
    """Do the steps while they are wanted, each in a turn of the loop of its own: a request that comes waits for one at
    most."""

    def next_step() -> None:
        if wanted() and (step := next(steps, None)) is not None:
            step()
            step_by_step(steps, wanted)

    asyncio.get_running_loop().call_later(WARM_UP, next_step)


class Slices:
    """Scheduler of time slices: runs one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Work[T], progress: Callable[[int, int], None] | None = None) -> T:
        """The result of `work`; its exceptions are raised here.

        Args:
            work: The work to do; abandoned if the caller is cancelled.
            progress: Told now and then how far it has come.
        """
        result: list[T] = []
        while True:
            async with self._turn:
                done = await asyncio.to_thread(_one_slice, work, result)
            if done is None:
                return result[0]
            if progress is not None:
                progress(*done)


def _one_slice(work: Work[T], result: list[T]) -> tuple[int, int] | None:
    """Go on with `work` for a moment; returns how far it has come, or None when `result` has its result."""
    end = time.monotonic() + SLICE
    while True:
        try:
            done = next(work)
        except StopIteration as stop:
            result.append(stop.value)
            return None
        if time.monotonic() >= end:
            return done
