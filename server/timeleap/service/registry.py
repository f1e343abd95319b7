"""Registry of the methods' handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Service

Handler = Callable[["Service", Any, "Call"], Awaitable[Any]]

HANDLERS: dict[str, Handler] = {}


def handles(method: str) -> Callable[[Handler], Handler]:
    """Register the decorated `async def (service, params, call)` for a method of the contract."""

    def register(handler: Handler) -> Handler:
        if method in HANDLERS:
            raise ValueError(f"{method} has two handlers")
        HANDLERS[method] = handler
        return handler

    return register
