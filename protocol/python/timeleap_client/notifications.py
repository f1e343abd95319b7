"""What the server tells unasked, and who listens."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from timeleap_client.errors import ProcessOfClient

if TYPE_CHECKING:
    from timeleap_protocol.base import Model

_log = logging.getLogger(__name__)

RECONNECTED = "$/reconnected"
"""Made by the client itself: the server was started again and the sessions are open again. What changed meanwhile was
not notified: resynchronise from the heads in `sessions: [{sessionId, head, access}]`. Those in `refused: [{sessionId,
error}]` could not be opened yet; the next request on one tries it again."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification.

    Attributes:
        method: Wire name, such as `context/didChange`.
        params: As they came, in wire names.
    """

    method: str
    params: dict[str, Any]

    @property
    def session_id(self) -> str | None:
        """The session it is about."""
        return self.params.get("sessionId")

    @property
    def kind(self) -> str | None:
        """What changed, in `context/didChange` and `session/didChange`."""
        return self.params.get("kind")

    def typed(self) -> Model:
        """The params as the model of the method.

        Raises:
            LookupError: The protocol's table does not know the method.
            pydantic.ValidationError: The params are not as the table says.
        """
        from timeleap_protocol.methods import SERVER_NOTIFICATIONS

        return SERVER_NOTIFICATIONS[self.method].params_model.from_wire(self.params)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which notifications somebody wants: those of the methods (none given: all), and of one session or of all."""

    methods: Collection[str] = ()
    session_id: str | None = None

    def includes(self, notification: Notification) -> bool:
        """Whether it is one of them. Ours (`$/reconnected`) must be asked for by name."""
        if notification.method == RECONNECTED:
            return RECONNECTED in self.methods
        if self.methods and notification.method not in self.methods:
            return False
        return self.session_id is None or notification.session_id == self.session_id


class Subscription:
    """An asynchronous iterator over notifications, from its making until `close` or the end of the client.

    It holds at most `capacity` notifications that nobody has taken yet; over that the oldest go, and `lost` counts them.
    """

    def __init__(self, wanted: Wanted, bus: Bus, capacity: int) -> None:
        self.lost = 0
        self._wanted = wanted
        self._bus = bus
        self._waiting: deque[Notification] = deque(maxlen=capacity)
        self._arrived = asyncio.Event()
        self._ended = False
        self._process = ProcessOfClient()

    def offer(self, notification: Notification) -> None:
        """Take it in if it is wanted."""
        if self._wanted.includes(notification):
            self.lost += len(self._waiting) == self._waiting.maxlen
            self._waiting.append(notification)
            self._arrived.set()

    def close(self) -> None:
        """Stop listening; what has arrived can still be taken."""
        self._ended = True
        self._arrived.set()
        self._bus.forget(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        self._process.require()
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Bus:
    """Hands every notification to everybody who wants it, in order of arrival."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._callbacks: list[tuple[Wanted, Callable[[Notification], object]]] = []
        self._running: set[asyncio.Future[Any]] = set()

    def publish(self, method: str, params: dict[str, Any]) -> None:
        """Hand it out. A callback that fails is logged and stops nobody else."""
        notification = Notification(method, params)
        for subscription in list(self._subscriptions):
            subscription.offer(notification)
        for wanted, callback in list(self._callbacks):
            if wanted.includes(notification):
                self._call(callback, notification)

    def subscribe(self, wanted: Wanted, capacity: int) -> Subscription:
        """A new subscription."""
        subscription = Subscription(wanted, self, capacity)
        self._subscriptions.append(subscription)
        return subscription

    def listen(self, wanted: Wanted, callback: Callable[[Notification], object]) -> Callable[[], None]:
        """Call `callback` with what is wanted; returns a function that stops it."""
        entry = (wanted, callback)
        self._callbacks.append(entry)

        def stop() -> None:
            if entry in self._callbacks:
                self._callbacks.remove(entry)

        return stop

    def forget(self, subscription: Subscription) -> None:
        """Offer it nothing more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End all subscriptions."""
        for subscription in list(self._subscriptions):
            subscription.close()

    def _call(self, callback: Callable[[Notification], object], notification: Notification) -> None:
        try:
            outcome = callback(notification)
        except Exception:
            _log.exception("a callback for %s failed", notification.method)
            return
        if inspect.isawaitable(outcome):
            running = asyncio.ensure_future(outcome)
            self._running.add(running)
            running.add_done_callback(self._finished)

    def _finished(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled() and (error := running.exception()) is not None:
            _log.error("a callback failed", exc_info=error)
