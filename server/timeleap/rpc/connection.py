"""One connection: bytes in, bytes out, and everything between them that is not a method.

A `Connection` is an `asyncio.Protocol`, so whatever is a transport to asyncio can carry one: `StdioTransport` for the
process's own descriptors, a local socket's transport for others. Every connection has its own framing, ids, lifecycle
and limits; the service behind them is shared.

Flow: frames -> messages -> inbox -> at most `max_in_flight` running requests -> replies, collected and written once a
turn of the loop. A client that sends faster than it can be served is slowed down, never refused: as long as something
waits in the inbox, nothing more is read. Answers to requests of ours and cancellations pass by the inbox, and while an
answer is awaited reading goes on within bounds; else a request that waits for its client would wait for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from timeleap.rpc.binding import ServicePort, endpoints
from timeleap.rpc.codec import UnreadableError, decode
from timeleap.rpc.errors import RefusedError
from timeleap.rpc.lifecycle import ExitCode, Lifecycle, Stage
from timeleap.rpc.protocol import CANCEL, ClientNotification, Message, Reply, Request, Server
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.framing import Fault, FrameReader, Framing
from timeleap_protocol.limits import MAX_FRAME_BYTES, MAX_IN_FLIGHT
from timeleap_protocol.methods import ANSWERED

log = logging.getLogger(__name__)

SLICE = 32
"""Requests begun in one turn of the loop: replies that nobody reads show before all of a burst has been worked on."""

MAX_WEIGHT = 64 * 1024 * 1024
"""Bytes that the requests in flight, and the replies expected of them, may hold together before others wait."""

MAX_BACKLOG = 8 * 1024 * 1024
"""Bytes of notifications that may wait for a client that does not read; beyond, it is let go, for the sake of the others."""


class Connection(asyncio.Protocol):
    """One client.

    Args:
        service: What answers.
        max_frame_bytes: A larger frame is passed over.
        max_in_flight: Requests worked on at a time.

    Attributes:
        name: `clientInfo.name`.
        can_summarize: Whether it serves `context/summarize`.
        wants_approvals: Whether it wants to hear of requests for approvals.
        ending: Done once nothing more comes from the client: what may take for ever is then not waited for.
        is_peer: Whether it is another process that attaches to sessions of this one.
        finished: Done when nothing more is taken in and everything accepted is answered.
        ended: Done when nothing of it is left in the service either; set by the code that runs the connection.
        dropped: Whether it was let go because it did not read.
        exit_code: How the process ends if this was its connection.
    """

    is_peer = False

    def __init__(
        self, service: ServicePort, *, max_frame_bytes: int = MAX_FRAME_BYTES, max_in_flight: int = MAX_IN_FLIGHT
    ) -> None:
        self.name: str | None = None
        self.can_summarize = False
        self.wants_approvals = False
        self.ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exit_code = ExitCode.CLEAN
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(max_frame_bytes)
        self._max_parked = max_frame_bytes
        self._max_in_flight = max_in_flight
        self._inbox: deque[tuple[Message, int]] = deque()
        self._parked = 0  # bytes of the frames in the inbox
        self._outbox: list[bytes] = []
        self._flush_due = False
        self._pump_due = False
        self._reading = True
        self._congested = False
        self._backlog = 0  # bytes of notifications queued since it became congested
        self._congestion_watchers: list[Callable[[bool], None]] = []
        self.dropped = False
        self._closing = False
        self._transport: asyncio.Transport | None = None
        self._rpc = Server(self).edge
        self._lifecycle = Lifecycle(self, self._rpc, service)
        for endpoint in [*self._lifecycle.endpoints(), *endpoints(ANSWERED, service)]:
            self._rpc.register(endpoint)

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

    def pause_writing(self) -> None:
        """The client reads too slowly: read nothing more from it, begin nothing more."""
        self._congest(True)
        self._regulate()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._congest(False)
        self._flush()
        self._pump()

    # What the service and the process call

    @property
    def refused_any(self) -> bool:
        """True if any request was answered with an error other than `cancelled`."""
        return self._rpc.refused_any

    def notify(self, method: str, params: Any) -> None:
        """Queue a notification; it leaves before every reply that is queued after it."""
        if self._transport is None or self.dropped or method in self._rpc.unwanted:
            return
        self._rpc.notify(method, params)
        if self._congested:
            self._backlog += len(self._outbox[-1])
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
        """Ask the client something.

        Raises:
            ClientRequestError: It refused, did not answer within `timeout` seconds, or is gone.
        """
        return await self._rpc.request(method, params, timeout=timeout)

    def close_input(self, code: ExitCode = ExitCode.CLEAN) -> None:
        """Take nothing more in; what was accepted is finished and answered, then `finished` is done."""
        self.exit_code = max(self.exit_code, code)
        self.about_to_end()
        if not self._closing:
            self._closing = True
            self._lifecycle.stop()
            self._rpc.client_gone()
            self._regulate()
        self._check_finished()

    # What the protocol and the lifecycle call

    def introduced(self, name: str | None, *, can_summarize: bool, wants_approvals: bool) -> None:
        """Keep what the client said of itself."""
        self.name, self.can_summarize, self.wants_approvals = name, can_summarize, wants_approvals

    def about_to_end(self) -> None:
        if not self.ending.done():
            self.ending.set_result(None)

    def send(self, body: bytes) -> None:
        if self._transport is None or self.dropped:
            return
        self._outbox.append((self._frames.framing or Framing.NDJSON).wrap(body))
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def admit(self, method: str) -> None:
        self._lifecycle.admit(method)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        self._lifecycle.notified(method, params)

    def request_ended(self) -> None:
        """A request was answered: there may be room for the next."""
        if self._inbox:
            self._pump()
        elif self._flush_due and not self._rpc.in_flight:
            self._flush()  # nothing to collect: a client that asks one thing at a time need not wait a turn
        if self._closing:
            self._check_finished()

    def asked(self) -> None:
        """A request of ours was sent: its answer may stand behind what is not read yet."""
        self._regulate()

    def leave(self, code: ExitCode) -> None:
        """The client says that nothing it sent after this counts."""
        self._inbox.clear()
        self._parked = 0
        self.close_input(code)

    # Input

    def _take(self, items: list[bytes | Fault]) -> None:
        for item in items:
            if isinstance(item, Fault):
                self._fault(item)
            else:
                self._take_frame(item)
        self._pump()

    def _fault(self, fault: Fault) -> None:
        kind = ErrorKind.PARSE_ERROR if fault.fatal else ErrorKind.TOO_LARGE
        self._rpc.refuse(None, RefusedError(kind, fault.message))
        if fault.fatal:
            log.error("the protocol stream is lost: %s", fault.message)
            self.close_input(ExitCode.STREAM_LOST)

    def _take_frame(self, body: bytes) -> None:
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
        if isinstance(message, Reply) or (isinstance(message, ClientNotification) and message.method == CANCEL):
            self._pass_by(message)
        else:
            if isinstance(message, Request):
                message.size = len(body)
            self._inbox.append((message, len(body)))
            self._parked += len(body)

    def _pass_by(self, message: Message) -> None:
        """Answers and cancellations concern what came before them, and do not wait behind it."""
        if isinstance(message, ClientNotification):
            unwanted = message.params.get("id")
            for entry in self._inbox:
                waiting = entry[0]
                if isinstance(waiting, Request) and waiting.id == unwanted and type(waiting.id) is type(unwanted):
                    self._inbox.remove(entry)
                    self._parked -= entry[1]
                    self._rpc.refuse(waiting.id, asyncio.CancelledError())
                    return
        self._rpc.handle_message(message)

    def _blocked(self) -> bool:
        return (
            self._rpc.in_flight >= self._max_in_flight
            or self._rpc.weight >= MAX_WEIGHT
            or self._congested
            or self._lifecycle.stage is Stage.INITIALIZING
        )

    def _pump(self) -> None:
        """Begin what waits in the inbox, as far as there is room."""
        for _ in range(SLICE):
            if not self._inbox or self._blocked():
                break
            message, size = self._inbox.popleft()
            self._parked -= size
            self._rpc.handle_message(message)
        if self._inbox and not self._blocked() and not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump_again)
        self._regulate()
        if self._closing:
            self._check_finished()

    def _pump_again(self) -> None:
        self._pump_due = False
        self._pump()

    def _regulate(self) -> None:
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
        if not self._inbox and not self._rpc.in_flight and not self.finished.done():
            self._flush()
            self.finished.set_result(None)

    # Output

    def _flush(self) -> None:
        self._flush_due = False
        if self._congested and not self._closing:
            return  # what waits here can still be taken back
        if self._outbox and self._transport is not None:
            data = self._outbox[0] if len(self._outbox) == 1 else b"".join(self._outbox)
            self._outbox.clear()
            self._transport.write(data)

    def _congest(self, congested: bool) -> None:
        self._congested = congested
        self._backlog = 0
        for watcher in list(self._congestion_watchers):
            watcher(congested)

    def _drop(self) -> None:
        """Let a client go that takes nothing, and leave it word why."""
        message = (
            f"the connection is ended: {MAX_BACKLOG} bytes of notifications were not read. Connect again, open the "
            "sessions again, and read again what has another head than before"
        )
        self._outbox.clear()
        self._rpc.refuse(None, RefusedError(ErrorKind.OVERLOADED, message))
        self.dropped = True
        log.warning("let a client go that does not read its notifications")
        self.close_input(ExitCode.STREAM_LOST)
        self._flush()
