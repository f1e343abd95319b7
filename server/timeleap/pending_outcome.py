"""The result to come of work that must not be interrupted: its waiter can be cancelled, the work cannot."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Outcome(asyncio.Future[T]):
    """The result to come of a piece of work.

    A cancellation that comes before the work was taken up stops it. A later one is put aside (`unwanted`): the waiter
    gets the result all the same.
    """

    unwanted = False

    def __init__(self, *, taken: bool = False) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.taken = taken

    def cancel(self, msg: Any | None = None) -> bool:
        if self.taken:
            self.unwanted = True
            return False
        return super().cancel(msg)

    async def result_uncancelled(self) -> T:
        try:
            return await self
        except asyncio.CancelledError:
            if self.cancelled() or not self.done():
                raise
            return self.result()

    def end(self, result: T | None, error: BaseException | None) -> None:
        """Take the result, or why there is none."""
        if error is None:
            self.succeed(cast("T", result))
        else:
            self.fail(error)

    def succeed(self, result: T) -> None:
        if not self.done():
            self.set_result(result)

    def fail(self, error: BaseException) -> None:
        """The work failed, or (an error that is no Exception) the event loop ends."""
        if self.done():
            return
        if isinstance(error, Exception):
            self.set_exception(error)
        else:
            super().cancel()
