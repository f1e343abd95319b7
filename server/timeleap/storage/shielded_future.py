"""Result of work that must not be interrupted: its waiter can be cancelled, the work cannot."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


class Outcome(asyncio.Future[T]):
    """The result to come of a piece of work.

    A cancellation that comes before the work was taken up stops it. A later one is put aside: the waiter gets the
    result all the same.

    Attributes:
        taken: The work was taken up.
        unwanted: Somebody asked to stop it after that.
    """

    def __init__(self, *, taken: bool = False) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.taken = taken
        self.unwanted = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop the work if it was not taken up; says whether it was stopped."""
        if self.taken:
            self.unwanted = True
            return False
        return super().cancel(msg)

    async def result_uncancelled(self) -> T:
        """Wait for it."""
        try:
            return await self
        except asyncio.CancelledError:
            if self.cancelled() or not self.done():
                raise
            return self.result()

    def fail(self, error: BaseException) -> None:
        """The work failed, or (an error that is no Exception) the event loop ends. Nothing if it is done."""
        if self.done():
            return
        if isinstance(error, Exception):
            self.set_exception(error)
        else:
            super().cancel()
