"""The service: what the protocol edge calls, one method of the contract at a time.

It keeps, for each connection, which sessions it has open and how; and, for each open session, who hears of its
changes. What the methods do stands in the modules named in `_HANDLER_MODULES`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from timeleap.errors import ReadOnlyError, SessionNotOpenError
from timeleap.service import config as settings
from timeleap.service.audience import Audience
from timeleap.service.order import HOLDS_UP, Order
from timeleap.service.registry import HANDLERS
from timeleap.service.views import Views
from timeleap.sessions.premises import move_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from timeleap.service.call import Call, Client
    from timeleap.service.config import Config
    from timeleap.sessions.session import Session
    from timeleap.sessions.store import SessionStore

Access = Literal["owner", "readOnly"]

WARM_UP = 0.005
"""Seconds after the reply to `initialize`."""

_HANDLER_MODULES = ("opening", "catalog", "state", "writing", "reading", "timetravel", "compaction", "upkeep")


@dataclass(slots=True)
class Held:
    """A session as one connection has it open."""

    session: Session
    access: Access
    times: int = 1


@dataclass(slots=True)
class _Connection:
    client: Client
    held: dict[str, Held] = field(default_factory=dict)
    order: Order = field(default_factory=Order)


class Service:
    """All methods of the contract, for any number of connections."""

    def __init__(self, config: Config) -> None:
        for module in _HANDLER_MODULES:
            importlib.import_module(f"timeleap.service.{module}")
        self.config = config
        self.views = Views(config.budget)
        self._store: SessionStore | None = None
        self._connections: dict[int, _Connection] = {}
        self._audiences: dict[int, Audience] = {}

    @property
    def methods(self) -> frozenset[str]:
        """The methods that are answered."""
        return frozenset(HANDLERS)

    @property
    def store(self) -> SessionStore:
        """The session store of the configured home; opened at first need."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _open_store(self) -> SessionStore:
        from timeleap.sessions.store import SessionStore

        return SessionStore(
            self.config.home,
            durability=self.config.durability,
            renderers=self.views.renderers(),
            retention=self.config.retention,
        )

    async def initialize(self, client: Client, options: Mapping[str, Any]) -> list[str]:
        """Take over `initializationOptions`, and see that the home can be used.

        The store itself is loaded right after the reply: a client waits for that first.

        Returns:
            Warnings in words: unknown options, odd numbers.

        Raises:
            InvalidInputError: A known option has an unusable value.
            StorageFailureError: The home cannot be used.
        """
        if options and self._store is None:
            self.config = settings.load(self.config.home, options=options, flags=self.config.flags)
            self.views = Views(self.config.budget)
        move_in(self.config.home)
        asyncio.get_running_loop().call_later(WARM_UP, lambda: self.store)
        self._connections[id(client)] = _Connection(client)
        return list(self.config.warnings)

    async def handle(self, method: str, params: Any, call: Call) -> Any:
        """Answer one request with the plain JSON value of its result.

        Raises:
            TimeleapError: What went wrong, in the terms of the contract.
        """
        handler = HANDLERS[method]
        session_id = getattr(params, "session_id", None)
        if session_id is None:
            return await handler(self, params, call)
        order = self._connection(call).order
        if method in HOLDS_UP:
            names = {session_id, getattr(params, "new_session_id", None) or session_id}
            async with order.holding_up(names):
                return await handler(self, params, call)
        if order.held_up(session_id):
            await order.turn(session_id)
        return await handler(self, params, call)

    async def disconnect(self, client: Client) -> None:
        """Close what the connection has open."""
        connection = self._connections.pop(id(client), None)
        for held in list(connection.held.values()) if connection else []:
            await self._release(client, held)

    async def aclose(self) -> None:
        """Finish what was accepted, and close everything."""
        for connection in list(self._connections.values()):
            await self.disconnect(connection.client)
        if self._store is not None:
            await self._store.aclose()

    # What the methods need

    def held(self, call: Call, session_id: str) -> Held:
        """The session as this connection has it open.

        Raises:
            SessionNotOpenError: It exists, but is not open here.
            SessionNotFoundError: There is none of that id.
        """
        held = self._connection(call).held.get(session_id)
        if held is None:
            self.store.locate(session_id)
            raise SessionNotOpenError(f"session {session_id} is not open on this connection: call session/open first")
        return held

    def session(self, call: Call, session_id: str) -> Session:
        """The open session, to look at. Raises as `held`."""
        return self.held(call, session_id).session

    def writable(self, call: Call, session_id: str) -> Session:
        """The open session, to change. Raises as `held`, and ReadOnlyError where it was opened to look at."""
        held = self.held(call, session_id)
        if held.access == "readOnly":
            raise ReadOnlyError(
                f'session {session_id} is open read-only: close it and open it with access "write" to change it'
            )
        return held.session

    def if_held(self, call: Call, session_id: str) -> Held | None:
        """The session as this connection has it open, or None."""
        return self._connection(call).held.get(session_id)

    def held_at(self, call: Call, path: Path) -> Held | None:
        """The session in the directory `path` as this connection has it open, or None."""
        held = self._connection(call).held.values()
        return next((each for each in held if each.session.path == path), None)

    @contextlib.asynccontextmanager
    async def borrowed(self, call: Call, session_id: str, access: Literal["write", "read"]) -> AsyncIterator[Session]:
        """A session for the time of one request, whether this connection has it open or not.

        Raises:
            SessionNotFoundError, SessionLockedError, ReadOnlyError: As opening it would.
        """
        if held := self.if_held(call, session_id):
            yield self.writable(call, session_id) if access == "write" else held.session
            return
        self.store.locate(session_id)
        opened = await self.store.open(session_id, create=False, access=access)
        try:
            yield opened.session
        finally:
            await opened.session.aclose()

    def hold(self, call: Call, session: Session, access: Access) -> Held:
        """Note that this connection has opened `session`; it hears of its changes from now on."""
        held = self._connection(call).held
        known = held.get(session.session_id)
        if known is not None:
            known.times += 1
            return known
        held[session.session_id] = Held(session, access)
        audience = self._audiences.get(id(session))
        if audience is None:
            audience = self._audiences[id(session)] = Audience(session, self.config.budget, self.views)
        audience.join(call.client)
        return held[session.session_id]

    async def let_go(self, call: Call, session_id: str) -> None:
        """Undo one `hold`; the last one closes the session for this connection."""
        held = self.held(call, session_id)
        held.times -= 1
        if held.times == 0:
            del self._connection(call).held[session_id]
            await self._release(call.client, held)

    async def drop(self, call: Call, session_id: str) -> None:
        """Close the session for this connection, however often it was opened."""
        held = self._connection(call).held.pop(session_id, None)
        if held is not None:
            await self._release(call.client, held)

    async def _release(self, client: Client, held: Held) -> None:
        audience = self._audiences.get(id(held.session))
        if audience is not None:
            audience.leave(client)
            if audience.empty:
                audience.close()
                del self._audiences[id(held.session)]
        await held.session.aclose()

    def _connection(self, call: Call) -> _Connection:
        return self._connections.setdefault(id(call.client), _Connection(call.client))
