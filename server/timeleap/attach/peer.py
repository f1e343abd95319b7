"""Our connection to the process that owns a session: how it is reached; requests out, replies and notifications in.

What comes back is looked at as little as possible: a reply's result and a notification's params stay the JSON text they
are and are spliced into what our own client gets. That the text is JSON is checked on the way in, all the same.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from timeleap.errors import SessionLockedError
from timeleap.rpc.codec import encode
from timeleap.rpc.errors import OwnersRefusalError, RefusedError, to_wire
from timeleap.sessions.listing import holder_of
from timeleap.storage.lock import Endpoint
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.framing import Fault, FrameReader, Framing
from timeleap_protocol.methods import CLIENT_REQUESTS, SERVER_NOTIFICATIONS

if TYPE_CHECKING:
    from timeleap.call import ReportProgress

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds an owner may say nothing while something is asked of it."""

MAX_FRAME_BYTES = 512 * 1024 * 1024
"""An owner's replies are bounded by what one reply can hold, not by what one request may."""

_TICK = 0.5  # seconds between two looks at the silence
_READ_A_SECOND = 2 << 20  # bytes that also a busy owner takes in: while it reads a large frame it does not answer
_DOUBT = 2.0  # seconds of silence after which we ask whether anybody is there
_PING = "$/ping"  # no such method: the quickest answer there is
_NOTHING = msgspec.Raw(b"")
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
    host = (holder.owner or {}).get("host")
    if host is not None and host != socket.gethostname():
        raise PeerLostError(f"it runs on {host}, and can only be reached from there", hopeless=True)
    if holder.endpoint is None:
        raise PeerLostError("it does not say how it is reached")
    if "problem" in holder.endpoint:
        raise PeerLostError(f"it cannot be reached: {holder.endpoint['problem']}", hopeless=True)
    return holder.endpoint


def unreachable(lost: PeerLostError, owner: dict[str, Any] | None) -> SessionLockedError:
    """The refusal for a session whose owner cannot be asked."""
    who = f"process {owner.get('pid')} on {owner.get('host')}" if owner is not None else "another process"
    why = str(lost).rstrip(".")
    message = f'the session is owned by {who}, but {why}. Try again, or open it with access "readOnly" to follow it'
    return SessionLockedError(message, owner=owner)


def plain(result: Any) -> Any:
    """A result as a value, whether it is one already or still text."""
    return msgspec.json.decode(result) if isinstance(result, msgspec.Raw) else result


@dataclass(frozen=True, slots=True)
class PeerCallbacks:
    """What an owner says unasked.

    Attributes:
        notified: Called with each notification: its method, and its params as JSON text.
        asked: Answers a request of the owner's.
        lost: Called once, when the connection is over without our having ended it.
    """

    notified: Callable[[str, bytes], None]
    asked: Callable[[str, dict[str, Any]], Awaitable[Any]]
    lost: Callable[[PeerLostError], None]


class _AnyMessage(msgspec.Struct):
    """Any message, its contents left alone."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


_read = msgspec.json.Decoder(_AnyMessage).decode


@dataclass(slots=True)
class _Waiting:
    """A request that was sent."""

    answer: asyncio.Future[Any]
    sent: float
    token: str | None = None
    size: int = 0


class PeerConnection(asyncio.Protocol):
    """One connection to an owner."""

    def __init__(self, callbacks: PeerCallbacks) -> None:
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(MAX_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._progress: dict[str, ReportProgress] = {}
        self._answering: dict[int | str, asyncio.Task[None]] = {}
        self._heard = self._looked = self._loop.time()
        self._paused = False
        self._unsent = 0
        self._clock: asyncio.TimerHandle | None = None
        self._introduction: asyncio.Future[Any] | None = None

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

    # What the service calls

    def send(
        self,
        method: str,
        params: Mapping[str, Any],
        answer: asyncio.Future[Any],
        progress: ReportProgress | None = None,
    ) -> None:
        """Ask, in wire names. Requests take effect in the order of the calls.

        `answer` gets the result, as JSON that is spliced into a reply as it is (`msgspec.Raw`), or OwnersRefusalError.
        It is left alone if the connection ends before: the caller may ask another owner.
        """
        if self._transport is None:
            return
        number = next(self._numbers)
        waiting = self._waiting[number] = _Waiting(answer, self._loop.time())
        if progress is not None:
            waiting.token = secrets.token_hex(8)
            self._progress[waiting.token] = progress
            params = {**params, "workDoneToken": waiting.token}
        waiting.size = self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if self._clock is None:
            self._looked = waiting.sent
            self._clock = self._loop.call_later(_TICK, self._look)

    async def introduce(self, params: Mapping[str, Any]) -> None:
        """Say who we are, before anything else; until that has succeeded nobody hears of the connection's end.

        Raises:
            OwnersRefusalError: It turns us away.
            PeerLostError: The connection ended, or nobody answers.
        """
        self._introduction = answer = self._loop.create_future()
        self.send("initialize", params, answer)
        try:
            await answer
        finally:
            self._introduction = None

    def forget(self, answer: asyncio.Future[Any]) -> None:
        """The answer is not wanted any more; the request is taken back."""
        for number in self._numbers_of(answer):
            self._settle(number)
            self._cancel(number)

    def take_back(self, answer: asyncio.Future[Any]) -> None:
        """The request is not wanted any more; its answer says whether it took effect all the same."""
        for number in self._numbers_of(answer):
            self._cancel(number)

    def _numbers_of(self, answer: asyncio.Future[Any]) -> list[int]:
        return [number for number, waiting in self._waiting.items() if waiting.answer is answer]

    def _cancel(self, number: int) -> None:
        self._write({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})

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
        elif message.id is None:
            self._take_notification(message.method, bytes(message.params) or b"{}")
        else:
            task = self._loop.create_task(self._reply(message.id, message.method, bytes(message.params) or b"{}"))
            self._answering[message.id] = task

    def _take_answer(self, message: _AnyMessage) -> None:
        if message.id is None:
            reason = msgspec.json.decode(message.error or b"{}")
            said = reason.get("message") if isinstance(reason, dict) else None
            self._lose(PeerLostError(f"the owner ended the connection: {said}"))
            return
        waiting = self._settle(message.id)
        if waiting is None or waiting.answer.done():
            return
        if bytes(message.error):
            error = _object(message.error)
            if _is_error(error):
                waiting.answer.set_exception(OwnersRefusalError(error))
                return
            problem = "an error that is none"
        elif bytes(message.result):
            waiting.answer.set_result(_on_one_line(message.result))
            return
        else:
            problem = "neither a result nor an error"
        self._lose(PeerLostError(f"the owner broke the protocol: {problem}"))

    def _settle(self, number: int | str) -> _Waiting | None:
        waiting = self._waiting.pop(number, None) if isinstance(number, int) else None
        if waiting is not None and waiting.token is not None:
            self._progress.pop(waiting.token, None)
        return waiting

    def _take_notification(self, method: str, params: bytes) -> None:
        if method == "$/progress":
            self._take_progress(_object(params))
        elif method == "$/cancelRequest":
            number = _object(params).get("id")
            task = self._answering.get(number) if isinstance(number, int | str) else None
            if task is not None:
                task.cancel()
        elif method in SERVER_NOTIFICATIONS and not method.startswith("$/") and params.startswith(b"{"):
            self._callbacks.notified(method, bytes(_on_one_line(params)))

    def _take_progress(self, params: dict[str, Any]) -> None:
        report = self._progress.get(str(params.get("token")))
        value = params.get("value")
        if report is not None and isinstance(value, dict) and value.get("kind") == "report":
            report(value.get("message"), value.get("percentage"))

    async def _reply(self, number: int | str, method: str, params: bytes) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            if method not in CLIENT_REQUESTS:
                raise RefusedError(ErrorKind.METHOD_NOT_FOUND, "an owner may not ask that")
            asked = _object(params)
            CLIENT_REQUESTS[method].params_model.from_wire(asked)
            message["result"] = await self._callbacks.asked(method, asked)
        except (Exception, asyncio.CancelledError) as error:
            message["error"] = to_wire(error, method)
        finally:
            self._answering.pop(number, None)
        self._write(message)

    # Output, and the end

    def _write(self, message: dict[str, Any]) -> int:
        """Send a message; returns how many bytes it has."""
        if self._transport is None or self._transport.is_closing():
            return 0  # it is about to say that it is lost
        frame = Framing.LSP.wrap(encode(message))
        self._transport.write(frame)
        return len(frame)

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
        if self._introduction is None:
            self._callbacks.lost(why)
        elif not self._introduction.done():
            self._introduction.set_exception(why)


def _object(text: bytes | msgspec.Raw) -> dict[str, Any]:
    value = msgspec.json.decode(text)
    return value if isinstance(value, dict) else {}


def _is_error(error: dict[str, Any]) -> bool:
    """True if it has the form of an error that a client may get."""
    code, message, data = (error.get(name) for name in ("code", "message", "data"))
    return type(code) is int and isinstance(message, str) and isinstance(data, dict)


def _on_one_line(text: bytes | msgspec.Raw) -> msgspec.Raw:
    """JSON text fit to stand in a message of one line: a line feed in it stands between two values."""
    return msgspec.Raw(bytes(text).translate(_SPACES))
