"""Functions that answer methods, found by the method table, whose modules are loaded at first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from timeleap.errors import NotSupportedByStoreError
from timeleap_protocol.methods import ANSWERED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timeleap.call import Call
    from timeleap.service.connections import OpenHandle

Handler = Callable[[Any, Any, "Call"], Coroutine[Any, Any, Any]]
Told = Callable[[Any, BaseException | None], None]
"""Takes the result of a request, or why there is none."""


class Handlers(dict[str, Handler]):
    """The handler of each method; its module is loaded when it is asked for.

    Args:
        change_session: Calls a method of a session by its name (`change`), for rows that name one.
    """

    unsupported: Mapping[str, str] = {}  # why, in words

    def __init__(self, change_session: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        super().__init__()
        self._change_session = change_session
        self.begins: dict[str, Callable[[OpenHandle, Any, Call, Told], bool]] = {}  # `Method.begun_by`, loaded

    def __missing__(self, method: str) -> Handler:
        reason = self.unsupported.get(method)
        if reason is not None:
            raise NotSupportedByStoreError(f"a store in a database does not do {method}: {reason}", method=method)
        row = ANSWERED[method]
        handler: Handler = self._loaded(method, row.handler or "")
        if row.begun_by is not None:
            self.begins[method] = self._loaded(method, row.begun_by)
        if row.formats is not None:
            handler = functools.partial(self._by_format, handler, method)
        if row.completed_by is not None:
            with suppress(NotSupportedByStoreError):  # the part is not installed
                handler = functools.partial(_completed, handler, self._loaded(method, row.completed_by))
        self[method] = handler
        return handler

    async def _by_format(self, plain: Handler, method: str, service: Any, params: Any, call: Call) -> Any:
        """Answer a method by its `formats` where a format is named."""
        handler = plain if params.format is None else self._loaded(method, ANSWERED[method].formats or "")
        return await handler(service, params, call)

    def _loaded(self, method: str, place: str) -> Any:
        """The function at a place in the table."""
        module, _, name = place.rpartition(".")
        if module == "Session":
            return functools.partial(self._change_session, change=name)
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Features and packages can be left out of an installation; the other methods go on being served.
            raise NotSupportedByStoreError(f"this installation does not do {method}: {error}", method=method) from error
        return getattr(loaded, name)


async def _completed(plain: Handler, complete: Any, service: Any, params: Any, call: Call) -> Any:
    """Answer a method, and let a part add to the result."""
    result = await plain(service, params, call)
    await complete(service, params, call, result)
    return result
