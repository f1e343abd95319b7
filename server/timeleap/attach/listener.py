"""The way between processes: other sidecars' connections to the sessions we own, and ours to theirs.

Who connects has to show first that it can read the owner's record, by the token that stands there; a `TokenHandshake`
sees to that. Behind the door it is a `Connection` like the one over standard input and output.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from timeleap.attach import sockets
from timeleap.attach.peer import PATIENCE, PeerCallbacks, PeerConnection, PeerLostError
from timeleap.attach.sockets import UnsafeError
from timeleap.rpc.codec import MessageId, UnreadableError, decode, encode, is_message_id
from timeleap.rpc.connection import Connection, ServicePort
from timeleap.rpc.errors import OwnersRefusalError, wire_error
from timeleap.rpc.stdio import HIGH_WATER, LOW_WATER
from timeleap_protocol.errors import ERRORS, ErrorKind
from timeleap_protocol.framing import Fault, FrameReader, Framing
from timeleap_protocol.limits import MAX_FRAME_BYTES, PROTOCOL_VERSION

if TYPE_CHECKING:
    from timeleap.call import Client
    from timeleap.storage.lock import Endpoint

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
"""Connections of other processes at a time."""

MAX_AT_THE_DOOR = 128
"""Connections that have not shown a token yet; beyond, the one that has been silent longest is turned away."""

FIRST_FRAME_BYTES = 64 * 1024
FIRST_FRAME_SECONDS = 5.0
LINGER = 30.0
"""Seconds after the end of a connection in which the other side may still take what was written."""

_TOKEN_BYTES = 32


class AttachedConnection(Connection):
    """The connection of another process."""

    is_peer = True

    def data_received(self, data: bytes) -> None:
        """Take bytes; drop requests of a process that has disconnected: its client may have retried elsewhere."""
        if self._transport is not None and sockets.has_left(self._transport):
            log.info("left alone what a process asked for that is gone")
        else:
            super().data_received(data)


class LocalNetwork:
    """The way to other processes, and theirs to this one, over local sockets.
    `endpoint` says how others reach us, or why they cannot; None while we do not listen.
    """

    def __init__(self, service: ServicePort) -> None:
        self.endpoint: Endpoint | None = None
        self._service = service
        self._listening: sockets.Listening | None = None
        self._token = ""
        self._visits: dict[asyncio.Task[None], AttachedConnection] = {}
        self._closed = False
        self._at_the_door: dict[TokenHandshake, None] = {}
        self._turn = asyncio.Lock()

    async def listen(self) -> None:
        """Be reachable from now on, if that can be had; `endpoint` says."""
        async with self._turn:
            if self._listening is not None:
                return
            self._token = secrets.token_hex(_TOKEN_BYTES)
            try:
                self._listening = await sockets.listen(self._handshake, os.environ)
            except (UnsafeError, OSError) as error:
                why = str(error) if isinstance(error, UnsafeError) else f"cannot listen: {error.strerror}"
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
        for keeper in list(self._at_the_door):
            keeper.turn_away("the process ends")
        for visitor in self._visits.values():
            visitor.close_input()
        if self._visits:
            await asyncio.wait(set(self._visits))

    async def connect(self, endpoint: Endpoint, client: Client, callbacks: PeerCallbacks) -> PeerConnection:
        """Connect to another process on behalf of `client`.

        Raises:
            PeerLostError: It cannot be reached, does not answer, or turns us away.
            OwnersRefusalError: It speaks another version of the protocol.
        """
        address, token, version = (endpoint.get(name) for name in ("address", "token", "protocolVersion"))
        if type(version) is not int or version != PROTOCOL_VERSION:
            raise _other_version(version)
        if not isinstance(address, str) or not isinstance(token, str):
            raise PeerLostError("its record does not say how it is reached", hopeless=True)
        try:
            _, peer = await sockets.connect(address, lambda: PeerConnection(callbacks), PATIENCE)
        except UnsafeError as error:
            raise PeerLostError(f"it must not be trusted: {error}", hopeless=True) from None
        except TimeoutError:
            raise PeerLostError("it does not answer", hung=True) from None
        except (OSError, ValueError) as error:
            raise PeerLostError(f"it cannot be reached: {type(error).__name__}") from None
        try:
            await _introduce(peer, client, token)
        except BaseException:
            peer.close()
            raise
        return peer

    def _handshake(self) -> asyncio.Protocol:
        while len(self._at_the_door) >= MAX_AT_THE_DOOR:
            next(iter(self._at_the_door)).turn_away("too many connections")
        full = self._closed or len(self._visits) >= MAX_CONNECTIONS
        keeper = TokenHandshake(self._token, self._admit, lambda door: self._at_the_door.pop(door, None), full=full)
        self._at_the_door[keeper] = None
        return keeper

    def _admit(self, transport: asyncio.Transport) -> Connection:
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        # What a client may just send to its own process has to fit when it is passed on, with the ids that we add.
        visitor = AttachedConnection(self._service, max_frame_bytes=MAX_FRAME_BYTES + FIRST_FRAME_BYTES)
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
        finally:
            visitor.ended.set_result(None)
            transport.close()
            asyncio.get_running_loop().call_later(LINGER, transport.abort)


async def _introduce(peer: PeerConnection, client: Client, token: str) -> None:
    capabilities = {
        "protocolVersion": PROTOCOL_VERSION,
        "summarize": client.can_summarize,
        "approvals": client.wants_approvals,
    }
    params: dict[str, Any] = {
        "capabilities": {"experimental": {"timeleap": capabilities}},
        "initializationOptions": {"token": token},
    }
    if client.name is not None:
        params["clientInfo"] = {"name": client.name}
    try:
        await peer.introduce(params)
    except OwnersRefusalError as refusal:
        if refusal.wire.get("code") == ERRORS[ErrorKind.PROTOCOL_VERSION].code:
            raise
        raise PeerLostError("it turned us away") from None


def _other_version(version: object) -> OwnersRefusalError:
    spoken = f"protocol version {version}" if type(version) is int else "another version of the protocol"
    message = (
        f"the session's owner speaks {spoken}, this process version {PROTOCOL_VERSION}: use the same release "
        'of Timeleap in both, or open the session with access "readOnly" to follow it'
    )
    return OwnersRefusalError(wire_error(ErrorKind.PROTOCOL_VERSION, message, supported=[PROTOCOL_VERSION]))


class TokenHandshake(asyncio.Protocol):
    """Lets in who shows the token in its first message; everybody else gets an error, and the door.

    `admit` makes the connection that takes over; `left` is told when nobody stands at this door any more.
    """

    def __init__(
        self,
        token: str,
        admit: Callable[[asyncio.Transport], Connection],
        left: Callable[[TokenHandshake], object],
        *,
        full: bool,
    ) -> None:
        self._token = token
        self._admit = admit
        self._left = left
        self._full = full
        self._frames = FrameReader(FIRST_FRAME_BYTES)
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(FIRST_FRAME_SECONDS, self._refuse, None, "nothing was said")
        if self._full:
            self._refuse(None, "too many connections")

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._received += data
        for item in self._frames.feed(data):
            problem = _problem(item, self._token)
            if problem is not None:
                self._refuse(*problem)
                return
            self._leave()
            connection = self._admit(transport)
            transport.set_protocol(connection)
            connection.connection_made(transport)
            connection.data_received(bytes(self._received))
            return
        if len(self._received) > FIRST_FRAME_BYTES:
            self._refuse(None, "the first message is too large")

    def eof_received(self) -> bool:
        self._refuse(None, "the first message is incomplete")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._leave()

    def turn_away(self, why: str) -> None:
        self._refuse(None, why)
        self._leave()

    def _leave(self) -> None:
        self._left(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def _refuse(self, message_id: MessageId | None, why: str) -> None:
        transport = self._transport
        if transport is None:
            return
        self._leave()
        message = f"{why}: a connection to an owner begins with initialize and the token of its record"
        error = wire_error(ErrorKind.INVALID_REQUEST, message)
        framing = self._frames.framing or Framing.NDJSON
        transport.write(framing.wrap(encode({"jsonrpc": "2.0", "id": message_id, "error": error})))
        transport.close()
        log.info("turned away a connection: %s", why)


def _problem(item: bytes | Fault, token: str) -> tuple[MessageId | None, str] | None:
    """Under which id, and why, a first message is refused; None where it may enter."""
    if isinstance(item, Fault):
        return None, item.message
    try:
        message = decode(item)
    except UnreadableError as error:
        return error.message_id, str(error)
    if not isinstance(message, dict):
        return None, "the first message is no object"
    message_id = message.get("id")
    known = message_id if is_message_id(message_id) else None
    if message.get("method") != "initialize" or known is None:
        return known, "the first message is no initialize"
    params = message.get("params")
    options = params.get("initializationOptions") if isinstance(params, dict) else None
    shown = options.get("token") if isinstance(options, dict) else None
    if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), token.encode()):
        return known, "the token is missing or wrong"
    return None
