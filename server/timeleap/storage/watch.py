"""The watch for what other processes do to a log: polled, so that it works on every platform and network file system."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from timeleap.errors import TimeleapError

# Polled, since notifications of changes differ by platform, and do not reach network file systems.
PERIOD_SECONDS: Final = 0.1


class Watch:
    """Calls back on the event loop when `look` says that something changed."""

    def __init__(self, look: Callable[[], Awaitable[bool]]) -> None:
        self._look = look
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._callbacks[key] = callback
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

        def stop() -> None:
            self._callbacks.pop(key, None)
            if not self._callbacks:
                self.close()

        return stop

    def close(self) -> None:
        task, self._task = self._task, None
        self._callbacks.clear()
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    def tell(self) -> None:
        for callback in list(self._callbacks.values()):
            callback()

    async def now(self) -> None:
        """Look at once; when this returns, what was there before the call has been seen and told."""
        async with self._turn:
            try:
                changed = await self._look()
            except (TimeleapError, OSError):
                return  # a log that cannot be read just now may be readable at the next look
            if changed:
                self.tell()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.now()
