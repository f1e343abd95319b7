"""Long reading in short slices: a search through a million messages does not block other requests.

The work is a generator that pauses often. It is run in a thread, a few milliseconds at a time; between two slices the
event loop has the interpreter for itself, and a request that was cancelled stops. One slice runs at a time, whichever
client asked: many searches share what one would take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE: Final = 0.005  # seconds

Work = Generator[tuple[int, int], None, T]
"""Pauses with how much is done, and how much there is; returns the result."""


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
