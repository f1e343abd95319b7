"""The service: what the protocol edge calls, one method of the contract at a time.

It keeps, for each connection, which sessions it has open and how; and, for each open session, who hears of its
changes. What the methods do stands in their handlers, which the method table names.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal

from timeleap.attach.handover import SessionDrain, note_of
from timeleap.attach.notified import NotifiedApprovals
from timeleap.call import Call, Client
from timeleap.errors import SessionLockedError, SessionNotOpenError, TimeleapError
from timeleap.kept_modules import KEPT
from timeleap.service import config as settings
from timeleap.service.connections import ClientConnection, OpenHandle
from timeleap.service.dispatch import Handlers, Told
from timeleap.service.scheduling import WHOLE_TRASH, refuse_change, refuse_decision, until_cancelled
from timeleap.service.time_slices import Slices, step_by_step
from timeleap.sessions.documents.warnings import recovered
from timeleap.sessions.shapes import (
    APPROVAL_REQUESTED,
    APPROVAL_RESOLVED,
    CONTEXT,
    RECOVERED,
    SESSION,
    WARNING,
    Access,
    Budget,
    Cause,
    Event,
    Mutation,
    Shapes,
    unguarded,
)
from timeleap.storage.durable import modes_refused
from timeleap.storage.record import MADE_HERE
from timeleap.store.home_directory import move_in
from timeleap.store.parts import StoreParts
from timeleap.store.store import SessionStore
from timeleap.store.trash import keep_trash
from timeleap_protocol.method import IGNORED_IN_SESSION
from timeleap_protocol.methods import ANSWERED, REQUESTS
from timeleap_protocol.session_rows import OPEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timeleap.attach.attachment import Attachment
    from timeleap.attach.listener import LocalNetwork
    from timeleap.call import WorkControl
    from timeleap.json_value import Json
    from timeleap.service.config import Config
    from timeleap.sessions.session import Session
    from timeleap.storage.engine import LogEngine
    from timeleap.storage.log_values import Progress
    from timeleap.store.open_sessions import SessionLocation
    from timeleap.store.store import OpenedSession
    from timeleap_protocol.method import Method


WITHOUT_CAUSE = frozenset({RECOVERED, WARNING, APPROVAL_REQUESTED, APPROVAL_RESOLVED})
"""Notifications that do not say why."""


def guard(params: Any, call: Call) -> Mutation:
    """The guard under which a mutating request makes its change.

    A request for an approval, which is no change of the log, expects no head.
    """
    request_id, client = params.request_id, call.client
    expected_head = getattr(params, "expected_head", None)
    if request_id is None and expected_head is None and not (call.again or client.is_peer):
        return unguarded(call.method, client.name, call.followed)
    row, again = REQUESTS[call.method], call.again or (client.is_peer and note_of(call.params).again)
    cause = Cause(None if request_id is None or request_id.startswith(MADE_HERE) else request_id, client.name)
    mine, earlier = row.fingerprint(params) if request_id else "", functools.partial(row.earlier_fingerprints, params)
    return Mutation(expected_head, request_id, row.name, mine, cause, again, earlier, call.followed)


async def _change_session(service: Service, params: Any, call: Call, *, change: str) -> Json:
    """Call the method `change` of the session with the params by their names, those that were given."""
    arguments = params.given(IGNORED_IN_SESSION)
    async with service.borrowed(call, params) as session:
        if call.progress is not None and not arguments.get("dry_run"):  # methods with progress copy a log
            call.progress("rewriting the log", None)
        made_under, method = guard(params, call), getattr(session, change)
        if not session.meta.accompanied or REQUESTS[call.method].cancel != "unwritten":
            return await method(**arguments, guard=made_under)  # type: ignore[no-any-return]
        result: Json = await service.until_cancelled(
            call, params.session_id, lambda control: method(**arguments, guard=made_under, control=control)
        )
        return result


class Subscribers:
    """The connections that have one session open: each event of it is passed on, in order, before the reply to the
    request that caused it. `deleted` is called when it was said that the session, which is only read here, was deleted.
    """

    def __init__(self, session: Session, budget: Budget, deleted: Callable[[], None]) -> None:
        self._session, self._session_id = session, session.session_id
        self._budget = budget
        self._deleted = deleted
        self._clients: dict[int, tuple[Client, NotifiedApprovals]] = {}
        self._told: tuple[Client, ...] = ()  # the same
        self._over = budget.should_compact(session.engine.state.token_count_with_pending)
        self.close = session.listen(self._hear)

    def join(self, client: Client, notified: NotifiedApprovals | None = None) -> None:
        """Subscribe `client`; `notified` are the requests for approvals that it knows."""
        self._clients[id(client)] = client, notified or NotifiedApprovals()
        self._note_clients()

    def leave(self, client: Client) -> None:
        self._clients.pop(id(client), None)
        self._note_clients()

    def _note_clients(self) -> None:
        self._told = tuple(client for client, _ in self._clients.values())
        # Summing up the newest span takes a tenth of an append: spared where nobody would be sent it.
        self._session.transactions.newest_span.wanted = any(client.wants(CONTEXT) for client in self._told)

    @property
    def empty(self) -> bool:
        return not self._clients

    def _hear(self, event: Event) -> None:
        method, params = event.method, notification_params(event, self._session_id)
        if method in (APPROVAL_REQUESTED, APPROVAL_RESOLVED):
            for client, notified in tuple(self._clients.values()):  # who subscribes to them, of what is new to it
                if client.wants_approvals and notified.adds(method, params):
                    client.notify(method, params)
            return
        for client in self._told:
            client.notify(method, params)
        if event.kind == "deleted" and self._session.deleted:
            self._deleted()
        elif self._budget.max_context_size is not None and method == CONTEXT:
            tokens = self._session.engine.state.token_count_with_pending
            before, self._over = self._over, self._budget.should_compact(tokens)
            if self._over and not before and not self._session.meta.compacted_by_agent:  # once for each crossing
                about = {"sessionId": self._session.session_id, "tokenCountWithPending": tokens, **self._budget.wire()}
                for client in self._told:
                    client.notify("context/compactionSuggested", about)


def notification_params(event: Event, session_id: str) -> Json:
    """Params of the notification of an event."""
    method, cause = event.method, event.cause.wire()
    if method is CONTEXT or method in (CONTEXT, SESSION):
        return {"sessionId": session_id, "head": event.head, "kind": event.kind, "cause": cause, **event.members}
    members = {"sessionId": session_id, **event.members}
    if method not in WITHOUT_CAUSE:
        members["cause"] = cause
    return members


def tell_recovery(client: Client, engine: LogEngine, session_id: str) -> None:
    """Report what opening repaired, to the client for whom the session was opened."""
    event = recovered(engine)
    if event is not None:
        client.notify(event.method, notification_params(event, session_id))


class Service:
    """All methods of the contract, for any number of connections.

    Args:
        config: Settings.
        make_network: Makes the way to other processes, for a service; without one, this process keeps to itself.
        make_parts: Makes the parts of the store that are outside the core; without it there are none.
    """

    def __init__(
        self,
        config: Config,
        make_network: Callable[[Service], LocalNetwork] | None = None,
        make_parts: Callable[[Config], StoreParts] = lambda _: StoreParts(),
    ) -> None:
        self._handlers = Handlers(_change_session)
        self.config = config
        self.shapes = Shapes(config.budget)
        self.slices = Slices()
        self._store: SessionStore | None = None
        self._connections: dict[int, ClientConnection] = {}
        self._subscribers: dict[int, Subscribers] = {}
        self._dropping: set[asyncio.Task[None]] = set()
        self._make_network = make_network
        self._make_parts = make_parts
        self._network: LocalNetwork | None = None
        self.background: dict[str, asyncio.Task[None]] = {}  # what goes on until the process ends, by name
        self._opening = 0  # sessions that are on their way to be ours
        self.drain = SessionDrain()

    @property
    def network(self) -> LocalNetwork | None:
        """The way to other processes, if there is to be one; made at first need."""
        if self.config.database is None:
            self._network = self._network or (self._make_network and self._make_network(self))
        return self._network

    @property
    def store(self) -> SessionStore:
        """The session store of the configured home; opened at first need."""
        if self._store is None:
            parts = self._make_parts(self.config)
            self._store = SessionStore(
                parts.home or self.config.home,
                durability=self.config.durability,
                shapes=self.shapes,
                retention=self.config.retention,
                endpoint=lambda: self._network.endpoint if self._network is not None else None,
                companion=parts.companion,
                companions=parts.companions,
                backing=parts.backing,
                approvals=parts.approvals,
            )
        return self._store

    async def initialize(self, client: Client, options: Mapping[str, Any]) -> list[str]:
        """Take over `initializationOptions`, and see that the home can be used; returns warnings in words.

        What the first open needs is loaded here: nearly every client opens a session right after, and it is 8 ms of 180.

        Raises:
            InvalidInputError: A known option has an unusable value.
            StorageFailureError: The home cannot be used.
        """
        if not client.is_peer:
            if options and self._store is None:
                self.config = settings.load(self.config.home, options=options, flags=self.config.flags)
                self.shapes = Shapes(self.config.budget)
            settings.require_home(self.config.home)
            move_in(self.config.home)
            _ = self._handlers[OPEN.name], OPEN.read_params({}), self.network
            step_by_step(iter((KEPT.keep, self._keep_trash)), lambda: bool(self._connections))
        self._connections[id(client)] = ClientConnection(client)
        if client.is_peer:
            return []
        return [*self.config.warnings, *([modes_refused.message] if modes_refused.message else [])]

    def capabilities(self) -> Json:
        """Members of what `initialize` announces that depend on the settings."""
        rows = sorted(ANSWERED.items()) if self.config.database is not None else ()
        self._handlers.unsupported = reasons = {name: row.needs_directory for name, row in rows if row.needs_directory}
        kind = "postgresql" if rows else "directory"
        return {"store": {"kind": kind, "unsupported": [*reasons], **({"reasons": reasons} if reasons else {})}}

    def _keep_trash(self) -> None:
        if "trash" not in self.background and not KEPT.waiting:  # else its modules are of another version
            keeping = keep_trash(self.store.trash, self.config.trash_max_age, self._tell_all)
            self.background["trash"] = asyncio.get_running_loop().create_task(keeping)

    def _tell_all(self, method: str, params: Mapping[str, Any]) -> None:
        for connection in self._connections.values():
            if not connection.client.is_peer:
                connection.client.notify(method, params)

    def handle(self, method: str, params: Any, call: Call) -> Coroutine[Any, Any, Any]:
        """Answer one request, as soon as it is awaited, with the plain JSON value of its result.

        Raises:
            TimeleapError: What went wrong, in the terms of the contract.
        """
        if call.client.only_asks:
            refuse_decision(REQUESTS[method], call.client)
        return self._marked(REQUESTS[method], params, self._at_its_turn(REQUESTS[method], params, call))

    def begin(self, method: str, params: Any, call: Call, then: Told) -> Coroutine[Any, Any, Any] | None:
        """Begin a request that is worked on as soon as it is read (`Method.at_once`). None: `then` is told the
        result, or what went wrong, now or later."""
        if call.client.only_asks:
            refuse_decision(REQUESTS[method], call.client)
        connection, session_id = self._connections.get(id(call.client)) or self._connection(call), params.session_id
        held, blocked = connection.held.get(session_id), session_id in connection.order.blocked
        if held is None and not blocked and (attachment := connection.attached.get(session_id)) is not None:
            return attachment.request(method, params, call)
        if held is None or blocked:
            return self.handle(method, params, call)
        begins = self._handlers.begins.get(method)
        if begins is not None and begins(held, params, call, then):
            return None
        return self._marked(REQUESTS[method], params, self._handlers[method](self, params, call))

    def _marked(self, row: Method, params: Any, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        return self.store.backing.reading(work) if row.may_be_stale(params) else work

    async def _at_its_turn(self, row: Method, params: Any, call: Call) -> Any:
        method, order, session_id = row.name, self._connection(call).order, getattr(params, "session_id", None)
        in_trash = row.order == "trash" or getattr(params, "deleted_at", None) is not None
        session_id = session_id or (WHOLE_TRASH if in_trash else None)
        if session_id is None:
            return await self.act(method, params, call)
        if in_trash or row.order == "blocks":
            names = {session_id, getattr(params, "new_session_id", None) or session_id}
            async with order.holding_up(names, in_trash=in_trash):
                return await self.act(method, params, call)
        if session_id in order.blocked:
            await (order.turn_to_read if row.leaves_log_alone(params) else order.turn)(session_id)
        return await self.act(method, params, call)

    async def act(self, method: str, params: Any, call: Call) -> Any:
        """Answer a request when its turn has come: here, or by the owner of the session."""
        attached = self._connection(call).attached
        forward = REQUESTS[method].forward if getattr(params, "deleted_at", None) is None else "never"
        attachment = None if forward in {"never", "handler"} else attached.get(getattr(params, "session_id", ""))
        if attachment is not None:
            if forward == "readsAhead":
                return await self._reads_ahead(attachment, params, call)
            return await attachment.request(method, params, call)
        try:
            return await self._handlers[method](self, params, call)
        except SessionNotOpenError:
            session_id = getattr(params, "session_id", None)
            if session_id:
                await asyncio.to_thread(self.store.locate, session_id)  # raises where there is none
            raise
        except SessionLockedError:
            if forward != "attach" or self.network is None:
                raise
        place = self.store.place(params.session_id, None)
        async with self.attachment(call, place, quiet=True).for_one_request() as attachment:
            if attachment is not None:
                return await attachment.request(method, params, call)
        return await self._handlers[method](self, params, call)  # the owner went just now

    async def _reads_ahead(self, attachment: Attachment, params: Any, call: Call) -> Any:
        """Have the owner answer. Meanwhile changes wait here, so that they keep their order if the owner changes.

        Whether the owner waits for another party (a compaction for its summary) only the owner knows: it does, if a
        read behind the request is answered first.
        """
        with contextlib.ExitStack() as until_answered:

            async def let_reads_ahead() -> None:
                try:
                    await attachment.answers_reads(call)
                except (TimeleapError, OSError):  # of an earlier release, or gone: the request itself tells
                    return
                if self.attached(call).get(params.session_id) is attachment:
                    until_answered.enter_context(self.waiting_elsewhere(params.session_id, call))

            reading = asyncio.create_task(let_reads_ahead())  # begins when the request was sent
            try:
                return await attachment.request(call.method, params, call)
            finally:
                reading.cancel()

    def waiting_elsewhere(self, session_id: str, call: Call) -> contextlib.AbstractContextManager[None]:
        """Let requests that leave the log alone go ahead: the one that blocks the session waits for another party."""
        return self._connection(call).order.waiting_elsewhere(session_id)

    async def until_cancelled(
        self, call: Call, session_id: str, work: Callable[[WorkControl], Coroutine[Any, Any, Any]]
    ) -> Any:
        """The outcome of long work on a session (see `scheduling.until_cancelled`); later requests stay behind it."""
        order = self._connection(call).order
        return await until_cancelled(call, work, functools.partial(order.hold_up, session_id))

    async def disconnect(self, client: Client) -> None:
        """Close what the connection has open."""
        connection = self._connections.get(id(client))
        if connection is None:
            return
        if client.is_peer:
            await self.drain.wait(held.session.path for held in connection.held.values())
        while connection.attached:
            _, attachment = connection.attached.popitem()
            await attachment.close()
        while connection.held:
            _, held = connection.held.popitem()
            await self._close(connection, held)
        self._connections.pop(id(client), None)

    async def aclose(self) -> None:
        """Finish what was accepted, and close everything."""
        for task in self.background.values():
            task.cancel()
        await asyncio.gather(*self.background.values(), return_exceptions=True)
        for connection in list(self._connections.values()):
            if connection.client.is_peer:
                await connection.client.end()
            await self.disconnect(connection.client)
        if self._store is not None:
            await self._store.aclose()
        if self._network is not None:
            await self._network.aclose()

    # What the methods need

    def held(self, call: Call, session_id: str) -> OpenHandle:
        """The session as this connection has it open.

        Raises:
            SessionNotOpenError: It is not open here, and `act` looks whether it exists.
        """
        connection = self._connections.get(id(call.client)) or self._connection(call)
        held = connection.held.get(session_id)
        if held is not None:
            return held
        raise SessionNotOpenError(f"session {session_id} is not open on this connection: call session/open first")

    def session(self, call: Call, params: Any) -> Session:
        """The open session that a request is about.

        Raises:
            ReadOnlyError: The request changes it, and it was opened to look at.
            TimeleapError: As `held`.
        """
        held = self.held(call, params.session_id)
        if held.access == "readOnly" or held.session.transactions.meta.mirrored:
            refuse_change(held.session, held.access, call, params)
        return held.session

    def opened(self, call: Call) -> dict[str, OpenHandle]:
        """By id: what this connection has open here."""
        return self._connection(call).held

    def attached(self, call: Call) -> dict[str, Attachment]:
        """By id: what this connection has open through their owners."""
        return self._connection(call).attached

    @contextlib.asynccontextmanager
    async def borrowed(self, call: Call, params: Any) -> AsyncIterator[Session]:
        """The session that a request is about, for its time; opened for it where its method takes any session.

        Raises:
            TimeleapError: As `session`, or as opening it would.
        """
        if REQUESTS[call.method].scope == "open" or params.session_id in self.opened(call):
            yield self.session(call, params)
            return
        access: Literal["write", "read"] = "write" if REQUESTS[call.method].writes(params) else "read"
        async with self.store.borrowed(params.session_id, access) as session:
            refuse_change(session, "owner", call, params)
            yield session

    def asking(self, call: Call, session_id: str) -> contextlib.AbstractContextManager[None]:
        """A request for an approval is under way (see `RequestOrder.asking`)."""
        return self._connection(call).order.asking(session_id)

    # Sessions that are ours, and sessions that are another process's

    async def own(self, place: SessionLocation, progress: Progress | None = None) -> OpenedSession:
        """Open a session that exists, as its owner.

        Raises:
            SessionLockedError: Another process is.
            TimeleapError: As `SessionStore.open`.
        """
        async with self.reachable():
            return await self.store.open(
                place.session_id, path=place.path, create=False, access="write", progress=progress
            )

    @contextlib.asynccontextmanager
    async def reachable(self) -> AsyncIterator[None]:
        """Listen before the session is opened, so that other processes can attach at once."""
        self._opening += 1
        try:
            if self.network is not None:
                await self.network.listen()
            yield
        finally:
            self._opening -= 1
            asyncio.get_running_loop().call_soon(self._rest)

    def _rest(self) -> None:
        """Listen no longer than there is something to be reached for."""
        if self._network is not None and not self._opening and not self._subscribers:
            self._network.rest()

    def attachment(self, call: Call, place: SessionLocation, *, quiet: bool = False) -> Attachment:
        """A session that another process owns, for this client to be attached to; `quiet`: for one request."""
        from timeleap.attach.attachment import Attachment

        return Attachment(self, call.client, place, quiet=quiet)

    def forget(self, client: Client, attachment: Attachment) -> None:
        """An attached session is gone for good."""
        connection = self._connections.get(id(client))
        if connection is not None and connection.attached.get(attachment.place.session_id) is attachment:
            del connection.attached[attachment.place.session_id]

    def replace(self, client: Client, attachment: Attachment, session: Session) -> None:
        """A session that was attached to is ours now; what the last owner has not answered is about to be done here."""
        connection = self._connections[id(client)]
        connection.order.hold_up(attachment.place.session_id)
        connection.attached.pop(attachment.place.session_id, None)
        connection.held[attachment.place.session_id] = OpenHandle(session, "owner", attachment.times)
        self._subscribers_of(session).join(client, attachment.notified_approvals)
        tell_recovery(client, session.engine, session.session_id)

    # What each connection has open here

    async def hold(self, call: Call, session: Session, access: Access) -> OpenHandle:
        """Note that this connection has opened `session`; it is notified of its changes from now on. The store counts
        one opening for a connection, however often that has it open."""
        held = self._connection(call).held
        known = held.get(session.session_id)
        if known is not None:
            known.times += 1
            await session.aclose()
            return known
        made = held[session.session_id] = OpenHandle(session, access)
        self._subscribers_of(session).join(call.client)
        return made

    async def watch(self, call: Call, held: OpenHandle) -> None:
        """Pass the notifications of the session's owner to a reader, now and whenever there is an owner."""
        if self.network is None or held.session.access == "owner" or held.watcher is not None:
            return
        from timeleap.attach.watcher import Watcher

        gone = functools.partial(self._drop_soon, self._connection(call), held)
        held.watcher = Watcher(held.session, call.client, self._subscribers_of(held.session), gone)
        await held.watcher.start()

    def _subscribers_of(self, session: Session) -> Subscribers:
        found = self._subscribers.get(id(session))
        if found is None:
            deleted = functools.partial(self._drop_readers, session)
            found = self._subscribers[id(session)] = Subscribers(session, self.config.budget, deleted)
        return found

    def has(self, session: Session) -> bool:
        """True if a client of our own has the session open, or it is a mirror; else it is being handed over."""
        return session.meta.mirrored or bool(self._clients_of(session, peers=False))

    def _clients_of(self, session: Session, *, peers: bool) -> list[Client]:
        """The clients, of our own or other processes, that have a session open here."""
        return [
            connection.client
            for connection in self._connections.values()
            if connection.client.is_peer is peers and any(held.session is session for held in connection.held.values())
        ]

    async def let_go(self, call: Call, session_id: str) -> None:
        """Undo one `hold`; the last one closes the session for this connection."""
        held = self.held(call, session_id)
        held.times -= 1
        if held.times == 0:
            del self.opened(call)[session_id]
            await self._close(self._connection(call), held)

    async def drop(self, session_id: str) -> None:
        """Close a session that is gone, for every connection that has it open."""
        for connection in list(self._connections.values()):
            held = connection.held.get(session_id)
            if held is not None:
                await self._drop(connection, held)

    def _drop_readers(self, session: Session) -> None:
        """Close a deleted session for all who read it; those whom its owner tells of the deletion are dropped then."""
        for connection in self._connections.values():
            held = connection.held.get(session.session_id)
            if held is not None and held.session is session and not (held.watcher and held.watcher.has_owner):
                self._drop_soon(connection, held)

    def _drop_soon(self, connection: ClientConnection, held: OpenHandle) -> None:
        task = asyncio.get_running_loop().create_task(self._drop(connection, held))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    async def _drop(self, connection: ClientConnection, held: OpenHandle) -> None:
        if connection.held.get(held.session.session_id) is held:
            del connection.held[held.session.session_id]
            await self._close(connection, held, deleted=True)

    async def _close(self, connection: ClientConnection, held: OpenHandle, *, deleted: bool = False) -> None:
        """Close a session for a connection; after the last of our own, other processes get it, unless it is gone."""
        client, session = connection.client, held.session
        if not deleted:
            if not self.drain.under_way(session):
                for request in list(held.waiting):
                    await session.approval_requests.stop_waiting(request, "cancelled")
            if not client.is_peer and not self.has(session) and (peers := self._clients_of(session, peers=True)):
                await self.drain.drain(session, peers)
        if held.watcher is not None:
            held.watcher.close()
        subscribers = self._subscribers_of(session)
        subscribers.leave(client)
        if subscribers.empty:
            subscribers.close()
            del self._subscribers[id(session)]
        await session.aclose()
        self._rest()

    def _connection(self, call: Call) -> ClientConnection:
        key = id(call.client)
        return self._connections.get(key) or self._connections.setdefault(key, ClientConnection(call.client))
