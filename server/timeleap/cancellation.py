"""Work that is finished although its waiter is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Awaitable[T], cancelled: Callable[[], object] = lambda: None) -> T:
    """The outcome of `work`, which is not cancelled with its waiter: `cancelled` is called instead, each time."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled()
    return task.result()
