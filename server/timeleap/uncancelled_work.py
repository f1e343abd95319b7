"""Work that must not be interrupted: its waiter can be cancelled, the work cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


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


_Jobs = SimpleQueue[Callable[[], None] | None]


class LogThread:
    """The thread in which the blocking work on one log is done, in order, so that a slow disk holds up nobody else. It
    is started when it is needed, and ends when this object is ended or gone.

    A `ThreadPoolExecutor` does the same with twice the locks, and what an append costs is little more than the way to
    its thread and back.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs | None = None

    def __del__(self) -> None:
        self.end()

    def begin(self, work: Callable[[*Ts], T], *args: *Ts) -> Outcome[T]:
        """Let the thread do `work`; it is never torn: a cancellation is put aside."""
        if self._jobs is None:
            jobs: _Jobs = SimpleQueue()
            # A daemon: a log that nobody closed must not keep the program from ending.
            Thread(target=_serve, args=(jobs,), name=self._name, daemon=True).start()
            self._jobs = jobs
        outcome: Outcome[T] = Outcome(taken=True)
        self._jobs.put(lambda: _do(outcome, work, *args))
        return outcome

    async def do(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        return await self.begin(work, *args).result_uncancelled()

    def end(self) -> None:
        """Let the thread go when it has done what it was given. Idempotent."""
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.put(None)


def _serve(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # or it would keep the log alive until the next one


def _do(outcome: Outcome[T], work: Callable[[*Ts], T], *args: *Ts) -> None:
    tell = outcome.get_loop().call_soon_threadsafe
    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        try:
            result = work(*args)
        except BaseException as error:
            tell(outcome.fail, error)
        else:
            tell(outcome.succeed, result)
