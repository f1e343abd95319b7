"""Where other processes reach the sessions that this one owns.

Who connects has to show first that it can read the owner's record, by the token that stands there; a `TokenHandshake`
sees to that. Behind the door it is a `Connection` like the one over standard input and output.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from timeleap.attach import sockets
from timeleap.rpc.codec import MessageId, UnreadableError, decode, encode, is_message_id
from timeleap.rpc.connection import Connection, ServicePort
from timeleap.rpc.errors import wire_error
from timeleap.rpc.stdio import HIGH_WATER, LOW_WATER
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.framing import Fault, FrameReader, Framing
from timeleap_protocol.limits import MAX_FRAME_BYTES, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from timeleap.storage.owner_lock import Endpoint

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
"""Connections of other processes at a time."""

MAX_AT_THE_DOOR = 128
"""Connections that have not shown a token yet; beyond, the one that has been silent longest is turned away."""

FIRST_FRAME_BYTES = 64 * 1024
FIRST_FRAME_SECONDS = 5.0
LINGER = 30.0
"""Seconds after the end of a connection in which the other side may still take what was written."""

PAUSE = 10
"""How many times the processor time that a write of notifications to all windows took nothing more is written for their
sake: a write to each of twenty costs several times what the append did that they hear of."""

LONGEST_PAUSE = 0.002
"""Seconds: what happens meanwhile is told together."""

_TOKEN_BYTES = 32


class SharedNotifications:
    """Notifications to several connections: framed once for all, and written together where they come fast."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._params: Any = None
        self._frames: dict[bytes, bytes] = {}
        self._waiting: dict[AttachedConnection, None] = {}
        self._next = 0.0  # on the loop's clock: when the next may be written

    def frame(self, form: bytes, method: str, params: Any) -> bytes:
        """The frame of a notification in that form; that of the same params as before is there already."""
        if params is not self._params:
            self._params = params
            self._frames = {}
        frame = self._frames.get(form)
        if frame is None:
            body = encode({"jsonrpc": "2.0", "method": method, "params": params})
            frame = self._frames[form] = form % (len(body), body)
        return frame

    def write_soon(self, connection: AttachedConnection) -> None:
        """Have a connection write what it has collected: in the next turn of the loop, or when the pause is over."""
        if not self._waiting:
            self._loop.call_at(self._next, self._write)
        self._waiting[connection] = None

    def _write(self) -> None:
        began = time.thread_time()
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.write_collected()
        self._next = self._loop.time() + min(PAUSE * (time.thread_time() - began), LONGEST_PAUSE)


class AttachedConnection(Connection):
    """The connection of another process."""

    is_peer = True

    def __init__(self, service: Callable[[], ServicePort], shared: SharedNotifications) -> None:
        # What a client may just send to its own process has to fit when it is passed on, with the ids that we add.
        super().__init__(service, max_frame_bytes=MAX_FRAME_BYTES + FIRST_FRAME_BYTES)
        self._shared = shared

    def notify(self, method: str, params: Any) -> None:
        """Queue a notification; it leaves before every reply that is queued after it, or a little later by itself."""
        if self._congested:
            super().notify(method, params)
        elif self._transport is not None and not self.dropped and method not in self._rpc.unwanted:
            self._outbox.append(self._shared.frame(self._frames.form, method, params))
            if len(self._outbox) == 1 and not self._pumping:  # else it goes along with what waits there, or a reply
                self._shared.write_soon(self)

    def write_collected(self) -> None:
        """Write what is queued, unless it was written with a reply."""
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Take bytes; drop requests of a process that has disconnected: its client may have retried elsewhere."""
        if self._transport is not None and sockets.has_left(self._transport):
            log.info("left alone what a process asked for that is gone")
        else:
            super().data_received(data)


class LocalNetwork:
    """The connections of other processes, over local sockets.
    `endpoint` says how others reach us, or why they cannot; None while we do not listen.
    """

    def __init__(self, service: ServicePort) -> None:
        self.endpoint: Endpoint | None = None
        self.at_the_door: dict[TokenHandshake, None] = {}
        self._service = service
        self._shared = SharedNotifications()
        self._listening: sockets.Listening | None = None
        self._token = ""
        self._visits: dict[asyncio.Task[None], AttachedConnection] = {}
        self._closed = False
        self._turn = asyncio.Lock()

    async def listen(self) -> None:
        """Be reachable from now on, if that can be had; `endpoint` says."""
        async with self._turn:
            if self._listening is not None:
                return
            self._token = secrets.token_hex(_TOKEN_BYTES)
            try:
                self._listening = await sockets.listen(self._handshake, os.environ)
            except (sockets.UnsafeError, OSError) as error:
                why = str(error) if isinstance(error, sockets.UnsafeError) else f"cannot listen: {error.strerror}"
                self.endpoint = {"problem": why}
                log.warning("other processes cannot attach to sessions of this one: %s", why)
                return
            address = self._listening.address
            self.endpoint = {"address": address, "token": self._token, "protocolVersion": PROTOCOL_VERSION}

    def rest(self) -> None:
        """Be reachable no more; connections stay."""
        listening, self._listening = self._listening, None
        self.endpoint = None
        if listening is not None:
            listening.close()

    async def aclose(self) -> None:
        """Be reachable no more, and have done with everybody who came."""
        self._closed = True
        self.rest()
        for handshake in list(self.at_the_door):
            handshake.turn_away("the process ends")
        for visitor in self._visits.values():
            visitor.close_input()
        if self._visits:
            await asyncio.wait(set(self._visits))

    def _handshake(self) -> asyncio.Protocol:
        while len(self.at_the_door) >= MAX_AT_THE_DOOR:
            next(iter(self.at_the_door)).turn_away("too many connections")
        full = self._closed or len(self._visits) >= MAX_CONNECTIONS
        handshake = TokenHandshake(self, self._token, full=full)
        self.at_the_door[handshake] = None
        return handshake

    def admit(self, transport: asyncio.Transport) -> Connection:
        """The connection that takes over from a handshake."""
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        visitor = AttachedConnection(lambda: self._service, self._shared)
        visit = asyncio.get_running_loop().create_task(self._attend(visitor, transport))
        self._visits[visit] = visitor
        visit.add_done_callback(self._visits.pop)
        if self._closed:
            visitor.close_input()
        return visitor

    async def _attend(self, visitor: AttachedConnection, transport: asyncio.Transport) -> None:
        try:
            await visitor.finished
            await self._service.disconnect(visitor)
            visitor.write_collected()
        finally:
            visitor.ended.set_result(None)
            transport.close()
            asyncio.get_running_loop().call_later(LINGER, transport.abort)


class TokenHandshake(asyncio.Protocol):
    """Lets in who shows the token in its first message; everybody else gets an error, and the door."""

    def __init__(self, network: LocalNetwork, token: str, *, full: bool) -> None:
        self._network = network
        self._token = token
        self._full = full
        self._frames = FrameReader(FIRST_FRAME_BYTES)
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(FIRST_FRAME_SECONDS, self.turn_away, "nothing was said")
        if self._full:
            self.turn_away("too many connections")

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._received += data
        for item in self._frames.feed(data):
            problem = _problem(item, self._token)
            if problem is not None:
                self.turn_away(*problem)
                return
            self._leave()
            connection = self._network.admit(transport)
            transport.set_protocol(connection)
            connection.connection_made(transport)
            connection.data_received(bytes(self._received))
            return
        if len(self._received) > FIRST_FRAME_BYTES:
            self.turn_away("the first message is too large")

    def eof_received(self) -> bool:
        self.turn_away("the first message is incomplete")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._leave()

    def turn_away(self, why: str, message_id: MessageId | None = None) -> None:
        """Say why, in answer to the first message, and close the connection."""
        transport = self._transport
        self._leave()
        if transport is None:
            return
        message = f"{why}: a connection to an owner begins with initialize and the token of its record"
        error = wire_error(ErrorKind.INVALID_REQUEST, message)
        framing = self._frames.framing or Framing.NDJSON
        transport.write(framing.wrap(encode({"jsonrpc": "2.0", "id": message_id, "error": error})))
        transport.close()
        log.info("turned away a connection: %s", why)

    def _leave(self) -> None:
        self._network.at_the_door.pop(self, None)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()


def _problem(item: bytes | Fault, token: str) -> tuple[str, MessageId | None] | None:
    """Why a first message is refused, and under which id; None where it may enter."""
    if isinstance(item, Fault):
        return item.message, None
    try:
        message = decode(item)
    except UnreadableError as error:
        return error.refusal.message, error.message_id
    if not isinstance(message, dict):
        return "the first message is no object", None
    message_id = message.get("id")
    known = message_id if is_message_id(message_id) else None
    if message.get("method") != "initialize" or known is None:
        return "the first message is no initialize", known
    params = message.get("params")
    options = params.get("initializationOptions") if isinstance(params, dict) else None
    shown = options.get("token") if isinstance(options, dict) else None
    if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), token.encode()):
        return "the token is missing or wrong", known
    return None
