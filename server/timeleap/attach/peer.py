"""Our connection to the process that owns a session: how it is reached; requests out, replies and notifications in.

What comes back is looked at as little as possible: a reply's result and a notification's params stay the JSON text they
are and are spliced into what our own client gets. That the text is JSON is checked on the way in, all the same.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from timeleap.attach import sockets
from timeleap.errors import SessionLockedError
from timeleap.rpc.codec import encode, plain
from timeleap.rpc.errors import OwnersRefusalError, RefusedError, to_wire, wire_error
from timeleap.storage.owner_lock import Endpoint, boot_id
from timeleap.store.listing import holder_of
from timeleap_protocol.errors import ERRORS, ErrorKind
from timeleap_protocol.framing import Fault, FrameReader, Framing
from timeleap_protocol.limits import PROTOCOL_VERSION
from timeleap_protocol.methods import CLIENT_REQUESTS, SERVER_NOTIFICATIONS
from timeleap_protocol.session_rows import OPEN as OPEN_SESSION

if TYPE_CHECKING:
    from timeleap.call import Client, ReportProgress

PATIENCE = 5.0
"""Seconds an owner may say nothing while something is asked of it."""

MAX_FRAME_BYTES = 512 * 1024 * 1024
"""An owner's replies are bounded by what one reply can hold, not by what one request may."""

_TICK = 0.5  # seconds between two looks at the silence
_READ_A_SECOND = 2 << 20  # bytes that also a busy owner takes in: while it reads a large frame it does not answer
_DOUBT = 2.0  # seconds of silence after which we ask whether anybody is there
_PING = "$/ping"  # no such method: the quickest answer there is
_NOTHING = msgspec.Raw(b"")
_SHARE = (
    f"if the two are containers of one machine, set {sockets.DIRECTORY_VARIABLE} in both to a directory that both see "
    "and that only you can use, such as one on the volume of the store"
)
_SPACES = bytes.maketrans(b"\r\n", b"  ")


class PeerLostError(Exception):
    """The connection to an owner ended, or could not be made.

    Attributes:
        hung: The owner is there, but does not answer.
        hopeless: Trying again is in vain: it cannot be reached from here, or must not be.
    """

    def __init__(self, why: str, *, hung: bool = False, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hung = hung
        self.hopeless = hopeless


def endpoint_of(directory: Path) -> Endpoint:
    """The endpoint of the owner of a session, from its record.

    Raises:
        PeerLostError: The record has no endpoint that can be used here.
    """
    holder = holder_of(directory)
    if holder.endpoint is None:
        raise PeerLostError("it does not say how it is reached")
    if "problem" in holder.endpoint:
        raise PeerLostError(f"it cannot be reached: {holder.endpoint['problem']}", hopeless=True)
    host = (holder.owner or {}).get("host")
    # Containers of one machine have names of their own, and may share the directory with the sockets.
    if host is not None and host != socket.gethostname() and (holder.boot is None or holder.boot != boot_id()):
        raise PeerLostError(f"it runs on {host}, and can only be reached from there", hopeless=True)
    return holder.endpoint


def unreachable(lost: PeerLostError, owner: dict[str, Any] | None) -> SessionLockedError:
    """The refusal for a session whose owner cannot be asked."""
    who = f"process {owner.get('pid')} on {owner.get('host')}" if owner is not None else "another process"
    why = str(lost).rstrip(".")
    message = f'the session is owned by {who}, but {why}. Try again, or open it with access "readOnly" to follow it'
    return SessionLockedError(message, owner=owner)


class PeerCallbacks(Struct, frozen=True):
    """Callbacks for messages that an owner sends unasked.

    Attributes:
        notified: Called with each notification: its method, and its params as JSON text.
        asked: Answers a request of the owner's.
        lost: Called once, when the connection is over without our having ended it.
    """

    notified: Callable[[str, bytes], None]
    asked: Callable[[str, dict[str, Any]], Awaitable[Any]]
    lost: Callable[[PeerLostError], None]


async def attach(
    endpoint: Endpoint, directory: Path, client: Client, callbacks: PeerCallbacks, params: Mapping[str, Any]
) -> tuple[PeerConnection, dict[str, Any]]:
    """Open a session through its owner, on behalf of `client`; returns the connection, and the session's state.

    Raises:
        PeerLostError: The owner cannot be reached, does not answer, or turns us away.
        OwnersRefusalError: It refuses to open the session, or speaks another version of the protocol.
    """
    address, token, version = (endpoint.get(name) for name in ("address", "token", "protocolVersion"))
    if type(version) is not int or version != PROTOCOL_VERSION:
        spoken = f"protocol version {version}" if type(version) is int else "another version of the protocol"
        message = (
            f"the session's owner speaks {spoken}, this process version {PROTOCOL_VERSION}: use the same release "
            'of Timeleap in both, or open the session with access "readOnly" to follow it'
        )
        raise OwnersRefusalError(wire_error(ErrorKind.PROTOCOL_VERSION, message, supported=[PROTOCOL_VERSION]))
    if not isinstance(address, str) or not isinstance(token, str):
        raise PeerLostError("its record does not say how it is reached", hopeless=True)
    try:
        _, peer = await sockets.connect(address, lambda: PeerConnection(callbacks), PATIENCE)
    except sockets.UnsafeError as error:
        raise PeerLostError(f"it must not be trusted: {error}", hopeless=True) from None
    except TimeoutError:
        raise PeerLostError("it does not answer", hung=True) from None
    except FileNotFoundError:
        raise PeerLostError(f"it cannot be reached: its socket is not to be seen from here; {_SHARE}") from None
    except ConnectionRefusedError:
        raise PeerLostError(f"it cannot be reached: nobody listens at its socket; {_SHARE}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "its address is none"
        raise PeerLostError(f"it cannot be reached: {why}") from None
    try:
        await _introduce(peer, client, token)
        state = await peer.ask(OPEN_SESSION.name, {**params, "path": str(directory), "create": False})
        named = isinstance(state, dict) and [state.get("sessionId"), state.get("head")]
        if not named or not all(isinstance(name, str) for name in named):
            raise PeerLostError("the owner broke the protocol: its state of the session is none")
    except BaseException:
        peer.close()
        raise
    return peer, state


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
    if client.only_asks:
        params["initializationOptions"]["approvals"] = "ask"  # an owner of an earlier release ignores it
    if client.name is not None:
        params["clientInfo"] = {"name": client.name}
    try:
        await peer.ask("initialize", params)
    except OwnersRefusalError as refusal:
        if refusal.wire.get("code") == ERRORS[ErrorKind.PROTOCOL_VERSION].code:
            raise
        raise PeerLostError("it turned us away") from None


class _AnyMessage(msgspec.Struct):
    """Any message, its contents left alone."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


_read = msgspec.json.Decoder(_AnyMessage).decode


class _Waiting(Struct):
    """A request that was sent."""

    answer: asyncio.Future[Any]
    progress: ReportProgress | None
    sent: float
    size: int = 0


class PeerConnection(asyncio.Protocol):
    """A connection to an owner."""

    def __init__(self, callbacks: PeerCallbacks) -> None:
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(MAX_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int | str, _Waiting] = {}
        self._answering: dict[int | str, asyncio.Task[None]] = {}
        self._heard = self._looked = self._loop.time()
        self._paused = False
        self._outbox: list[bytes] = []
        self._flush_due = False
        self._unsent = 0
        self._clock: asyncio.TimerHandle | None = None
        self._asking: asyncio.Future[Any] | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        for item in self._frames.feed(data):
            if self._transport is None:
                return
            if isinstance(item, Fault):
                self._lose(PeerLostError(f"the owner broke the protocol: {item.message}"))
            else:
                self._take(item)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._lose(PeerLostError("the connection to the owner ended"))

    # Requests to the owner

    def send(
        self,
        method: str,
        params: Mapping[str, Any],
        answer: asyncio.Future[Any],
        progress: ReportProgress | None = None,
        *,
        followed: bool = False,
    ) -> None:
        """Ask, in wire names. Requests take effect in the order of the calls; one that is `followed` by another in this
        turn of the loop is written with it.

        `answer` gets the result, as JSON that is spliced into a reply as it is (`msgspec.Raw`), or OwnersRefusalError.
        It is left alone if the connection ends before: the caller may ask another owner.
        """
        if self._transport is None:
            return
        number = next(self._numbers)
        waiting = self._waiting[number] = _Waiting(answer, progress, self._loop.time())
        if progress is not None:
            params = {**params, "workDoneToken": number}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        waiting.size = self._write(message, followed=followed)
        if self._clock is None:
            self._looked = waiting.sent
            self._clock = self._loop.call_later(_TICK, self._look)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a request, as a value. Until it is there, only the caller hears of the connection's end.

        Raises:
            OwnersRefusalError: The owner's error.
            PeerLostError: The connection ended, or nobody answers.
        """
        self._asking = answer = self._loop.create_future()
        self.send(method, params, answer)
        try:
            result = await answer if self._transport is not None else None
        finally:
            self._asking = None
        if self._transport is None:
            raise PeerLostError("the connection to the owner ended")
        return plain(result)

    def take_back(self, answer: asyncio.Future[Any]) -> list[int | str]:
        """Cancel a request; its answer says whether it took effect all the same. Returns its number."""
        numbers = [number for number, waiting in self._waiting.items() if waiting.answer is answer]
        for number in numbers:
            self._write({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
        return numbers

    def forget(self, answer: asyncio.Future[Any]) -> None:
        """Cancel a request whose answer is not wanted any more."""
        for number in self.take_back(answer):
            del self._waiting[number]

    def pause(self) -> None:
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        self._paused = False
        self._looked = self._heard = self._loop.time()
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection; nothing more is heard."""
        self._flush()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        if self._clock is not None:
            self._clock.cancel()
        for task in self._answering.values():
            task.cancel()

    # Input

    def _take(self, body: bytes) -> None:
        try:
            if not body.isascii():
                body.decode()  # text that is not looked into is not checked either
            message = _read(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._lose(PeerLostError("the owner broke the protocol: what it says is no message"))
            return
        if message.method is None:
            self._take_answer(message)
            return
        params = bytes(message.params) or b"{}"
        if message.id is None:
            self._take_notification(message.method, params)
        else:
            self._answering[message.id] = self._loop.create_task(self._reply(message.id, message.method, params))

    def _take_answer(self, message: _AnyMessage) -> None:
        error = _object(message.error) if message.error else {}
        if message.id is None:
            self._lose(PeerLostError(f"the owner ended the connection: {error.get('message')}"))
            return
        waiting = self._waiting.pop(message.id, None)
        if waiting is None or waiting.answer.done():
            return
        if message.error:
            code, said, data = (error.get(name) for name in ("code", "message", "data"))
            if type(code) is int and isinstance(said, str) and isinstance(data, dict):
                waiting.answer.set_exception(OwnersRefusalError(error))
            else:
                self._lose(PeerLostError("the owner broke the protocol: an error that is none"))
        elif message.result:
            waiting.answer.set_result(_on_one_line(message.result))
        else:
            self._lose(PeerLostError("the owner broke the protocol: neither a result nor an error"))

    def _take_notification(self, method: str, params: bytes) -> None:
        if method == "$/progress":
            progress = _object(params)
            token, value = progress.get("token"), progress.get("value")
            waiting = self._waiting.get(token) if isinstance(token, int) else None
            if waiting and waiting.progress and isinstance(value, dict) and value.get("kind") == "report":
                waiting.progress(value.get("message"), value.get("percentage"))
        elif method == "$/cancelRequest":
            number = _object(params).get("id")
            if isinstance(number, int | str) and (task := self._answering.get(number)) is not None:
                task.cancel()
        elif method in SERVER_NOTIFICATIONS and not method.startswith("$/") and params.startswith(b"{"):
            self._callbacks.notified(method, bytes(_on_one_line(params)))

    async def _reply(self, number: int | str, method: str, params: bytes) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            if method not in CLIENT_REQUESTS:
                raise RefusedError(ErrorKind.METHOD_NOT_FOUND, "an owner may not ask that")
            asked = _object(params)
            CLIENT_REQUESTS[method].read_params(asked)
            message["result"] = await self._callbacks.asked(method, asked)
        except (Exception, asyncio.CancelledError) as error:
            message["error"] = to_wire(error, method)
        finally:
            self._answering.pop(number, None)
        self._write(message)

    # Output, and the end

    def _write(self, message: dict[str, Any], *, followed: bool = False) -> int:
        """Send a message, with the next if it is `followed` by one; returns how many bytes it has."""
        if self._transport is None or self._transport.is_closing():
            return 0  # it is about to say that it is lost
        frame = Framing.LSP.wrap(encode(message))
        self._outbox.append(frame)
        if not followed:
            self._flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)  # what follows may be for somebody else
        return len(frame)

    def _flush(self) -> None:
        frames, self._outbox, self._flush_due = self._outbox, [], False
        if frames and self._transport is not None and not self._transport.is_closing():
            # Together: each write is a call of the system, and wakes the owner.
            self._transport.writelines(frames)

    def _look(self) -> None:
        """While something is asked: see how long nothing was heard."""
        self._clock = None
        if not self._waiting or self._transport is None:
            return
        now = self._loop.time()
        unsent = self._transport.get_write_buffer_size()
        if self._paused or now - self._looked > _DOUBT or unsent < self._unsent:
            self._heard = now  # we did not listen, or did not run at all ourselves; or the owner goes on reading
        self._unsent = unsent
        self._looked = now
        silence = now - max(self._heard, min(waiting.sent for waiting in self._waiting.values()))
        patience = PATIENCE + sum(waiting.size for waiting in self._waiting.values()) // _READ_A_SECOND
        if silence >= patience:
            self._lose(PeerLostError(f"the owner did not answer for {patience:g} seconds", hung=True))
            return
        if silence >= _DOUBT:
            self._write({"jsonrpc": "2.0", "id": 0, "method": _PING, "params": {}})
        self._clock = self._loop.call_later(_TICK, self._look)

    def _lose(self, why: PeerLostError) -> None:
        if self._transport is None:
            return
        transport = self._transport
        self.close()
        transport.abort()
        if self._asking is None:
            self._callbacks.lost(why)
        elif not self._asking.done():
            self._asking.set_exception(why)


def _object(text: bytes | msgspec.Raw) -> dict[str, Any]:
    value = msgspec.json.decode(text)
    return value if isinstance(value, dict) else {}


def _on_one_line(text: bytes | msgspec.Raw) -> msgspec.Raw:
    """JSON text fit to stand in a message of one line: a line feed in it stands between two values."""
    line = bytes(text)
    return msgspec.Raw(line.translate(_SPACES) if b"\n" in line or b"\r" in line else line)
