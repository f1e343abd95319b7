"""Answers of a standby: whether a request allows them, and the mark on one that may be out of date."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from types import coroutine
from typing import Any, Final, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Staleness(Struct):
    """Tracker of a request that may be answered from an older state while the store cannot be asked: whether it was."""

    found: bool = False
    ended: bool = False


_STALENESS: Final[ContextVar[Staleness | None]] = ContextVar("staleness", default=None)


def staleness() -> Staleness | None:
    """The current request's staleness tracker, or None if it needs fresh data."""
    found = _STALENESS.get()
    return None if found is None or found.ended else found  # a task that outlives the request has its context still


async def marked_when_stale(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a request that may be answered with less than was committed; it then has `stale`."""
    mark, context = Staleness(), copy_context()
    context.run(_STALENESS.set, mark)
    try:
        result = await _within(context, work)
    finally:
        mark.ended = True
    return result | {"stale": True} if mark.found else result


@coroutine
def _within(context: Context, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Do work in a context without a task of its own: it begins in the call that awaits it."""
    go_on: Callable[[Any], Any] = work.send
    value: Any = None
    try:
        while True:
            awaited = context.run(go_on, value)
            try:
                value, go_on = (yield awaited), work.send
            except BaseException as error:
                value, go_on = error, work.throw
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
