"""A connection: bytes in, bytes out, and everything between them that is not a method.

A `Connection` is an `asyncio.Protocol`, so whatever is a transport to asyncio can carry one: `StdioTransport` for the
process's own descriptors, a local socket's transport for others. Every connection has its own framing, ids, lifecycle
and limits; the service behind them is shared.

Flow: frames -> messages -> inbox -> at most `max_in_flight` running requests -> replies, collected and written once a
turn of the loop. A client that sends faster than it can be served is slowed down, never refused: as long as something
waits in the inbox, nothing more is read. Answers to requests of ours and cancellations pass by the inbox, and while an
answer is awaited reading goes on within bounds; else a request that waits for its client would wait for ever.

Order of requests: `initialize` -> `initialized` -> ... -> `shutdown` -> `exit`, as in LSP. What the client says of
itself is taken leniently (a capability we do not understand is none of our business); what it asks for is judged
strictly.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum, IntEnum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from timeleap.call import Call, Client
from timeleap.errors import StorageFailureError
from timeleap.kept_modules import KEPT
from timeleap.rpc import client_process
from timeleap.rpc.codec import Request, UnreadableError, decode, decode_request, encode, encode_usual
from timeleap.rpc.errors import RefusedError
from timeleap.rpc.initialization import Accepted, accept_initialize
from timeleap.rpc.protocol import CANCEL, VERSION, Answer, ClientNotification, EdgeProtocol, Reply, Work
from timeleap.rpc.second_face import Face, MakeFace
from timeleap.version import __version__
from timeleap_protocol.capabilities import advertised
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.framing import Fault, FrameReader, framed
from timeleap_protocol.limits import MAX_FRAME_BYTES, MAX_IN_FLIGHT, PROTOCOL_VERSION
from timeleap_protocol.method import Method
from timeleap_protocol.methods import SERVER_NOTIFICATIONS

if TYPE_CHECKING:
    from timeleap_protocol.params import LenientStruct
    from timeleap_protocol.structs.lifecycle import InitializeParams

log = logging.getLogger(__name__)

SLICE = 32
"""Requests begun in one turn of the loop: replies that nobody reads show before all of a burst has been worked on."""

TURNS = 2
"""Turns of the loop that a notification waits for a reply: so many it takes from an owner's answer to ours."""

MAX_COLLECTED = 256 * 1024
"""Bytes of replies collected for one write while requests are begun: beyond, a client that does not read shows."""

SMALL = 1024
"""Bytes of a reply up to which it is not counted for that: a slice of the loop's turn has too few of them to matter."""

MAX_WEIGHT = 64 * 1024 * 1024
"""Bytes that the requests in flight, and the replies expected of them, may hold together before others wait."""

MAX_BACKLOG = 8 * 1024 * 1024
"""Bytes of notifications that may wait for a client that does not read; beyond, it is let go for the others' sake."""

MAX_STRANGE = 10
"""Unknown notifications that are named in warnings."""


class ServicePort(Protocol):
    """The service, as far as connections need it (`timeleap.service.service.Service`)."""

    async def initialize(self, client: Client, options: dict[str, Any]) -> list[str]:
        """Take a client's `initializationOptions`; returns warnings in words."""
        ...

    def capabilities(self) -> dict[str, Any]: ...
    def handle(self, method: str, params: LenientStruct, call: Call) -> Coroutine[Any, Any, Any]: ...
    def begin(
        self, method: str, params: LenientStruct, call: Call, then: Answer
    ) -> Coroutine[Any, Any, Any] | None: ...
    async def disconnect(self, client: Client) -> None: ...
    async def aclose(self) -> None: ...


class ExitCode(IntEnum):
    """How the process ends. Where several apply, the highest counts."""

    CLEAN = 0
    NO_SHUTDOWN = 1
    USAGE = 2
    STREAM_LOST = 3
    STORAGE_FAILURE = 4
    REQUEST_FAILED = 5
    """With `--fail-on-error`, in the place of CLEAN only."""


class Stage(Enum):
    """How far a connection has come."""

    NEW = auto()
    INITIALIZING = auto()
    READY = auto()
    SHUT_DOWN = auto()


# A member of an enum takes longer to look up than the rest of such a comparison.
_READY, _INITIALIZING = Stage.READY, Stage.INITIALIZING


class Connection(asyncio.Protocol):
    """A client and its connection.

    Args:
        service: Makes the service. Where it raises, because of its settings, that is the answer to `initialize`.
        max_frame_bytes: A larger frame is passed over.
        max_in_flight: Requests worked on at a time.
        make_face: Makes its second set of methods.

    Attributes:
        name, can_summarize, wants_approvals, only_asks, ending, is_peer: See `timeleap.call.Client`.
        initialized: True once the service knows of it.
        finished: Done when nothing more is taken in and everything accepted is answered.
        ended: Done when nothing of it is left in the service either; set by the code that runs the connection.
        dropped: True if it was let go because it did not read.
        exit_code: How the process ends if this was its connection.
    """

    is_peer = False

    def __init__(
        self,
        service: Callable[[], ServicePort],
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        make_face: MakeFace = lambda _client, _capabilities: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.name: str | None = None
        self.can_summarize = False
        self.wants_approvals = False
        self.only_asks = False
        self.ending: asyncio.Future[None] = self._loop.create_future()
        self.finished: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.stage = Stage.NEW
        self.initialized = False
        self.exit_code = ExitCode.CLEAN
        self.dropped = False
        self._service = service
        self._make_face = make_face
        self._face: Face | None = None
        self._frames = FrameReader(max_frame_bytes)
        self._max_parked = max_frame_bytes
        self._max_in_flight = max_in_flight
        self._inbox: deque[Request | ClientNotification] = deque()
        self._parked = 0  # bytes of the frames in the inbox
        self._outbox: list[bytes] = []
        self._in_pieces = False  # some of it is long, and not to be put together
        self._collected = 0  # bytes of what is answered while requests are begun, since the last write
        self._flush_due = self._pump_due = self._pumping = False
        self._reading = True
        self._congested = False
        self._backlog = 0  # bytes of notifications queued since it became congested
        self._congestion_watchers: list[Callable[[bool], None]] = []
        self._closing = False
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.Task[None] | None = None
        self._rpc = EdgeProtocol(self)

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._closing:
            self._take(self._frames.feed(data))

    def eof_received(self) -> bool:
        """No more bytes will come: finish what was accepted. The transport stays open for the replies."""
        if not self._closing:
            self._take(self._frames.finish())
            self.close_input()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody reads what we write any more."""
        del exc
        self._transport = None
        self._congest(False)
        self._outbox.clear()
        self.close_input(ExitCode.STREAM_LOST)
        if not self._pumping:
            self._pump()  # what was accepted is finished, though it waited for a reader

    def pause_writing(self) -> None:
        """The client reads too slowly: read nothing more from it, begin nothing more."""
        self._congest(True)
        self.regulate()

    def resume_writing(self) -> None:
        self._congest(False)
        self._flush()
        self._pump()

    # What the service and the process call

    @property
    def refused_any(self) -> bool:
        """True if any request was answered with an error other than `cancelled`."""
        return self._rpc.refused_any

    def wants(self, method: str) -> bool:
        """False for a notification that the client opted out of."""
        return method not in self._rpc.unwanted

    def notify(self, method: str, params: Any) -> None:
        """Queue a notification, unless the client opted out of it; what is queued later leaves later."""
        if method not in self._rpc.unwanted or method == CANCEL:
            size = self.send({"jsonrpc": VERSION, "method": method, "params": params or {}})
            if self._congested and not self.dropped:
                self._backlog += size
                if self._backlog > MAX_BACKLOG:
                    self._drop()

    def watch_congestion(self, watcher: Callable[[bool], None]) -> Callable[[], None]:
        """Have `watcher` called whenever the client stops reading, or reads again; returns what ends that."""
        self._congestion_watchers.append(watcher)
        if self._congested:
            watcher(True)
        return lambda: self._congestion_watchers.remove(watcher)

    async def finish(self) -> None:
        """Take nothing more in; returns when everything accepted is answered."""
        self.close_input()
        await asyncio.shield(self.finished)

    async def end(self) -> None:
        """Finish what was accepted, then have done with it."""
        self.close_input()
        await asyncio.shield(self.ended)

    async def request(self, method: str, params: dict[str, Any], *, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Ask the client something (see `EdgeProtocol.request`)."""
        return await self._rpc.request(method, params, timeout=timeout)

    def close_input(self, code: ExitCode = ExitCode.CLEAN) -> None:
        """Take nothing more in; what was accepted is finished and answered, then `finished` is done."""
        self.exit_code = max(self.exit_code, code)
        self.about_to_end()
        if not self._closing:
            self._closing = True
            if self._watch is not None:
                self._watch.cancel()
            self._rpc.client_gone()
            self.regulate()
        self._check_finished()

    def about_to_end(self) -> None:
        """Nothing more comes from the client: what may take for ever is not waited for."""
        if not self.ending.done():
            self.ending.set_result(None)

    # What the protocol calls

    def send(self, message: Any) -> int:
        """Queue a message; returns how many bytes its JSON has. Raises what `encode` does: then it is not queued."""
        try:
            body = encode_usual(message)
        except UnicodeEncodeError:
            body = encode(message)
        size = len(body)
        if self._transport is None or self.dropped:
            return size
        self._outbox.append(self._frames.form % (size, body))
        if self._pumping:
            if size > SMALL:
                self._collected += size
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_soon, TURNS)
        return size

    def send_pieces(self, pieces: list[bytes]) -> int:
        """Send pieces of JSON that are too long to be put together."""
        size = sum(map(len, pieces))
        if self._transport is not None and not self.dropped:
            self._outbox += framed(self._frames.form, pieces)
            self._in_pieces = True
            self._flush()
        return size

    def request_ended(self) -> None:
        """A request was answered: there may be room for the next."""
        if self._pumping:
            return
        if self._inbox:
            self._pump_soon()  # those whose answers have come just now go on first
        elif self._flush_due and not self._rpc.running:
            self._flush()  # nothing to collect: a client that asks one thing at a time need not wait a turn
        if self._closing:
            self._check_finished()

    # Lifecycle

    def admit(self, method: str) -> None:
        """Raise `RefusedError` for a request that comes too early, too late, or a second time."""
        if self.stage is _READY:
            if method == "initialize":
                raise RefusedError(ErrorKind.INVALID_REQUEST, "initialize was sent before")
        elif self.stage is Stage.SHUT_DOWN:
            raise RefusedError(ErrorKind.INVALID_REQUEST, "after shutdown only exit may follow")
        elif method not in ("initialize", "rpc.discover"):
            raise RefusedError(ErrorKind.NOT_INITIALIZED, "the first request must be initialize")

    def begin(self, row: Method, params: dict[str, Any], then: Answer) -> Coroutine[Any, Any, Any] | None:
        """The steps of a request that is worked on as soon as it is read (`Method.at_once`); None: `then` is told the
        outcome, now or later. As `accept`."""
        if self.stage is not _READY:
            self.admit(row.name)
        if KEPT.waiting:
            KEPT.require()
        call = Call(self, row.name, None, params, False, bool(self._inbox))
        return self._service().begin(row.name, row.read_params(params), call, then)

    def accept(self, row: Method, params: dict[str, Any]) -> Work:
        """Find the work that answers a request. Called in order of arrival; an error that it raises is the reply."""
        if self._face is not None and row.name in self._face.rows:
            return self._face.accept(row.name, params)
        if row.handler is not None:
            if KEPT.waiting:
                KEPT.require()
            return partial(self._service().handle, row.name, row.read_params(params))
        if row.name == "initialize":
            self._refuse_replaced()
            accepted = accept_initialize(row, params)
            self.stage = Stage.INITIALIZING
            return partial(self._initialize, accepted)
        if row.name == "shutdown":
            self.stage = Stage.SHUT_DOWN
            self.about_to_end()
            return self._rpc.others_done
        return _discover

    def _refuse_replaced(self) -> None:
        """End, if another version was installed since this process was started: the parts would not go together."""
        try:
            KEPT.check()
        except StorageFailureError:
            self.close_input(ExitCode.STORAGE_FAILURE)
            raise

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification; unknown ones, and early ones, are ignored as LSP wants it."""
        if method == "exit":  # nothing that the client sent after it counts
            self._inbox.clear()
            self._parked = 0
            self.close_input(ExitCode.CLEAN if self.stage is Stage.SHUT_DOWN else ExitCode.NO_SHUTDOWN)
        elif method == "$/setTrace" and self.stage is Stage.READY:
            self._rpc.set_trace(params.get("value"))
        elif self._face is not None:
            self._face.notified(method, params)

    def second_row(self, method: str) -> Method | None:
        """The row of a request that the second set of methods has."""
        return None if self._face is None else self._face.rows.get(method)

    async def _initialize(self, accepted: Accepted, _: Call) -> Any:
        params: InitializeParams = accepted.known
        experimental = params.capabilities.experimental if params.capabilities else None
        client = experimental.timeleap if experimental else None
        try:
            version = client.protocol_version if client else None
            if version not in (None, PROTOCOL_VERSION):
                message = f"this server speaks protocol version {PROTOCOL_VERSION}, not {version}"
                raise RefusedError(ErrorKind.PROTOCOL_VERSION, message, supported=[PROTOCOL_VERSION])
            self.name = params.client_info.name if params.client_info else None
            self.can_summarize = bool(client and client.summarize)
            self.wants_approvals = bool(client and client.approvals)
            self.only_asks = accepted.only_asks
            self._rpc.set_trace(params.trace)
            warnings = await self._service().initialize(self, accepted.options)
            self._face = self._make_face(self, accepted.capabilities)
        except BaseException as error:
            self.stage = Stage.NEW
            if isinstance(error, StorageFailureError):
                error.retryable = False  # this server ends, and another one meets the same
                self.close_input(ExitCode.STORAGE_FAILURE)
            elif self.is_peer:
                self.close_input()
            raise
        self.stage = Stage.READY
        self.initialized = True
        self._rpc.unwanted = accepted.unwanted
        strange = sorted(accepted.unwanted - SERVER_NOTIFICATIONS.keys())
        warnings += [f"optOutNotifications: there is no notification {name[:100]!r}" for name in strange[:MAX_STRANGE]]
        for warning in warnings:
            log.warning("%s", warning)
        if params.process_id is not None and params.process_id > 0 and client_process.is_alive(params.process_id):
            self._watch = asyncio.create_task(client_process.watch_over(params.process_id, self.close_input))
        more = {} if self._face is None else self._face.capabilities
        announced = advertised() | self._service().capabilities() | ({"warnings": warnings} if warnings else {})
        return {
            "capabilities": {**more, "experimental": {"timeleap": announced}},
            "serverInfo": {"name": "timeleap", "version": __version__},
        }

    # Input

    def _take(self, items: Iterable[bytes | Fault]) -> None:
        inbox = self._inbox
        item: Any
        for item in items:
            try:
                request = decode_request(item)
            except Exception:  # it is none; or out of memory: whoever looks at it again says so
                self._take_unusual(item)
            else:
                request.size = size = len(item)
                self._parked += size
                inbox.append(request)
        self._pump()

    def _take_unusual(self, body: bytes | Fault) -> None:
        if isinstance(body, Fault):
            self._rpc.refuse(None, _refusal(body))
            if body.fatal:
                self.close_input(ExitCode.STREAM_LOST)
            return
        try:
            message = self._rpc.structure_message(decode(body))
        except UnreadableError as error:
            if error.answers is not None:  # nobody need wait for a better answer
                why = {"message": f"its answer cannot be read: {error.refusal.message}"}
                self._rpc.handle_message(Reply(error.answers, None, why))
            if error.wants_reply:
                self._rpc.refuse(error.message_id, error.refusal)
            return
        except Exception as error:  # out of memory, or a fault of ours: the frames after it are still to be read
            self._rpc.refuse(None, error, "reading a message")
            return
        # Answers and cancellations concern what came before them, and do not wait behind it.
        if isinstance(message, Reply):
            self._rpc.handle_message(message)
        elif isinstance(message, ClientNotification) and message.method == CANCEL:
            if not self._cancel_waiting(message.params.get("id")):
                self._rpc.handle_message(message)
        else:
            message.size = len(body)
            self._inbox.append(message)
            self._parked += message.size

    def _cancel_waiting(self, message_id: Any) -> bool:
        """Answer a request of that id that waits in the inbox; returns whether there was one."""
        for waiting in self._inbox:
            if isinstance(waiting, ClientNotification):
                continue
            if waiting.id == message_id and type(waiting.id) is type(message_id):
                self._inbox.remove(waiting)
                self._parked -= waiting.size
                self._rpc.refuse(waiting.id, asyncio.CancelledError())
                return True
        return False

    def _blocked(self) -> bool:
        return (
            self._congested
            or self._rpc.weight >= MAX_WEIGHT
            or len(self._rpc.running) >= self._max_in_flight
            or self.stage is _INITIALIZING
        )

    def _pump(self) -> None:
        """Begin what waits in the inbox, as far as there is room."""
        inbox, rpc, left = self._inbox, self._rpc, SLICE
        self._pumping = True  # those that are answered at once need not begin the next
        try:
            while inbox and left and not self._blocked():
                message, left = inbox.popleft(), left - 1
                self._parked -= message.size
                if isinstance(message, Request):
                    rpc.take_request(message)
                else:
                    rpc.handle_message(message)
                if self._collected > MAX_COLLECTED:
                    self._flush()
        finally:
            self._pumping = False
        if self._outbox and not self._flush_due:
            if rpc.running:
                self._flush_due = True
                self._loop.call_soon(self._flush)
            else:
                self._flush()  # nothing more to collect: a client that waits for them need not wait a turn
        if inbox or self._congested or self._closing or not self._reading:
            if inbox and not self._blocked():
                self._pump_soon()
            self.regulate()
            if self._closing:
                self._check_finished()

    def _pump_soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump_again)

    def _pump_again(self) -> None:
        self._pump_due = False
        self._pump()

    def regulate(self) -> None:
        """Read on only while the client reads, and nothing is left to begin or an answer of the client's is awaited."""
        room = not self._inbox or (self._rpc.waits_for_client and self._parked < self._max_parked)
        reading = room and not self._congested and not self._closing
        if reading is not self._reading and self._transport is not None:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _check_finished(self) -> None:
        if not self._inbox and not self._rpc.running and not self._pumping and not self.finished.done():
            self._flush()
            self.finished.set_result(None)

    # Output

    def _flush_soon(self, turns: int) -> None:
        """Write, but let a reply that is on its way go along: what wakes the client twice costs it more."""
        if turns and self._flush_due and self._rpc.running and not self._congested:
            self._loop.call_soon(self._flush_soon, turns - 1)
        elif self._flush_due:
            self._flush()

    def _flush(self) -> None:
        self._flush_due, self._collected = False, 0
        if self._congested and not self._closing:
            return  # what waits here can still be taken back
        if self._outbox and self._transport is not None:
            outbox, self._outbox, long, self._in_pieces = self._outbox, [], self._in_pieces, False
            if long:
                self._transport.writelines(outbox)
            else:
                self._transport.write(b"".join(outbox))

    def _congest(self, congested: bool) -> None:
        self._congested = congested
        self._backlog = 0
        for watcher in list(self._congestion_watchers):
            watcher(congested)

    def _drop(self) -> None:
        """Let a client go that takes nothing, and leave it word why."""
        self._outbox.clear()
        self._rpc.refuse(None, _unread())
        self.dropped = True
        log.warning("let a client go that does not read its notifications")
        self.close_input(ExitCode.STREAM_LOST)
        self._flush()


def _unread() -> RefusedError:
    message = (
        f"the connection is ended: {MAX_BACKLOG} bytes of notifications were not read. Connect again, open the "
        "sessions again, and read again what has another head than before"
    )
    return RefusedError(ErrorKind.OVERLOADED, message)


def _refusal(fault: Fault) -> RefusedError:
    if fault.fatal:
        log.error("the protocol stream is lost: %s", fault.message)
    return RefusedError(ErrorKind.PARSE_ERROR if fault.fatal else ErrorKind.TOO_LARGE, fault.message)


async def _discover(_: Call) -> Any:
    from timeleap_protocol.generate.openrpc import openrpc_document

    return openrpc_document()
