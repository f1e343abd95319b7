"""An event loop in a thread of its own, for callers that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from functools import wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from timeleap_client.errors import ClientClosedError, ProcessOfClient

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
_LOOK_SECONDS: Final = 0.5
"""Between looks whether somebody pressed Ctrl-C."""


class LoopThread:
    """Runs coroutines for threads that wait for their results. Started by the first `run`, ended by `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._submitted: set[asyncio.Task[Any]] = set()
        self._process = ProcessOfClient()

    @property
    def forked(self) -> bool:
        """True in a process that was forked since the thread began: it has none."""
        return self._loop is not None and not self._process.is_this

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; a Ctrl-C meanwhile cancels it.

        Raises:
            ClientClosedError: Called on the loop's own thread, which would wait for itself for ever; or in a process that
                was forked since.
        """
        return result_of(self.submit(work))

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` on the loop and do not wait.

        Raises:
            ClientClosedError: As in `run`.
        """
        if self.forked:
            work.close()
            self._process.require()
        if threading.current_thread() is self._thread:
            work.close()
            raise ClientClosedError("a blocking call inside a callback of the same client would wait for itself")
        return asyncio.run_coroutine_threadsafe(self._noted(work), self._started())

    def close(self) -> None:
        """End the loop and its thread. Idempotent."""
        forked = self.forked
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None and not forked:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    async def _noted(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._submitted.add(task)
        try:
            return await work
        finally:
            self._submitted.discard(task)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._process = ProcessOfClient()
            self._loop = asyncio.new_event_loop()
            # A daemon: a program that ends without `close` must not hang; the server sees the end of its input.
            self._thread = threading.Thread(
                target=_run, args=(self._loop, self._submitted), name="timeleap-client", daemon=True
            )
            self._thread.start()
        return self._loop


class Blocking(Generic[A]):
    """Has the methods of an asynchronous object, for callers that block; see `blocking`."""

    def __init__(self, awaited: A, loop: LoopThread) -> None:
        self._async = awaited
        self._loop = loop


def blocking(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Blocking[A], P], T]:
    """The same method, with its parameters, result type and docstring, of the `Blocking` that waits for its result."""

    @wraps(method)
    def wait(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._async, *args, **kwargs))

    return wait


def result_of(future: Future[T]) -> T:
    """Wait for a result on the main thread; a Ctrl-C meanwhile cancels it.

    A signal that comes just before a lock is waited for does not interrupt that: so it is waited for again and again.
    """
    try:
        while not wait_for([future], timeout=_LOOK_SECONDS).done:
            pass
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _run(loop: asyncio.AbstractEventLoop, submitted: set[asyncio.Task[Any]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # What was submitted comes first: to end in good order it may need tasks that it started itself.
        _end(loop, set(submitted))
        _end(loop, asyncio.all_tasks(loop))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if not task.cancelling():  # else it is ending, and a second time would cut that short
            task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
