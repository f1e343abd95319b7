"""The asynchronous client, typed from the protocol's method table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from timeleap_client._methods_async import AsyncMethods
from timeleap_client.connection import OnProgress
from timeleap_client.raw import RawTimeleap
from timeleap_protocol.base import WireModel, WireRoot

if TYPE_CHECKING:
    from timeleap_client.session import AsyncSession

R = TypeVar("R", bound=WireModel | WireRoot[Any])


class AsyncTimeleap(RawTimeleap, AsyncMethods):
    """A client that starts its own server and keeps it running; see `RawTimeleap` for its arguments and its promises.

    Every method of the protocol is a method here (`session_open`, `context_revert_to` ...), typed from the method
    table; `session()` gives a session with the everyday verbs.

        async with AsyncTimeleap(home="store") as client, client.session("first") as session:
            await session.append("hello")
    """

    @overload
    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        result: None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any: ...

    @overload
    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        result: type[R],
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> R: ...

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        result: type[R] | None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> R | Any:
        """Send a request of any method and wait for its result.

        Args:
            method: Wire name, such as `context/revertTo`.
            params: In wire names.
            result: The model to put the result in; None leaves it as the JSON value it is.
            within: Seconds to wait since the last sign of work; None takes the client's `timeout`.
            on_progress: Told how far a long request is: the `value` of each `$/progress`.

        Raises:
            TimeleapRpcError, RequestTimeoutError, ConnectionLostError, ClientClosedError: As in `RawTimeleap.call`.
        """
        value = await super().call(method, params, within=within, on_progress=on_progress)
        return value if result is None else result.from_wire(value)

    def session(self, session_id: str | None = None, **params: Any) -> AsyncSession:
        """A session that is opened by `async with` (or `open`) and closed at its end.

        Args:
            session_id: Created if there is none of that id; generated if None.
            **params: Further params of `session/open`, in wire names.
        """
        from timeleap_client.session import AsyncSession

        identity = {} if session_id is None else {"sessionId": session_id}
        return AsyncSession(self, {**identity, **params})
