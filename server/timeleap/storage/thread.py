"""Blocking work in a thread of its own, so that a slow disk holds up nobody else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar, TypeVarTuple

from timeleap.storage.shielded_future import Outcome

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_Jobs = SimpleQueue[Callable[[], None] | None]


class LogThread:
    """The thread in which the work on one log is done, in order. It is started when it is needed, and ends when this
    object is ended or gone.

    A `ThreadPoolExecutor` does the same with twice the locks, and what an append costs is little more than the way to
    its thread and back.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs | None = None

    def __del__(self) -> None:
        self.end()

    def begin(self, work: Callable[[*Ts], T], *args: *Ts) -> Outcome[T]:
        """Let the thread do `work`."""
        if self._jobs is None:
            jobs: _Jobs = SimpleQueue()
            # A daemon: a log that nobody closed must not keep the program from ending.
            Thread(target=_serve, args=(jobs,), name=self._name, daemon=True).start()
            self._jobs = jobs
        outcome: Outcome[T] = Outcome(taken=True)
        self._jobs.put(lambda: _do(outcome, work, *args))
        return outcome

    async def do(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Do blocking work in the thread; never torn: a cancellation is put aside."""
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
            tell(_succeed, outcome, result)


def _succeed(outcome: Outcome[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)
