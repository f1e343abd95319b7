"""One conversation with one server process: requests out, replies and notifications in."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from timeleap_client.errors import ConnectionLostError, RequestTimeoutError, TimeleapRpcError
from timeleap_client.frames import BrokenStreamError, Framing, Message, MessageReader, encode
from timeleap_client.process import RunningServer

_log = logging.getLogger(__name__)

Params = dict[str, Any]
OnProgress = Callable[[dict[str, Any]], object]
"""Takes the `value` of each `$/progress`: `kind` begin, report or end, and what comes with it."""
Handler = Callable[[Params], Awaitable[Any]]
"""Serves a request of the server: params in, result out."""
Trace = Callable[[Literal["sent", "received"], Message], object]
"""Sees every message that crosses the wire, in order, as it is."""


def given(values: Mapping[str, Any]) -> Params:
    """Params as they go over the wire: unset (None) ones left out, models as JSON values."""
    return {
        name: value.to_wire() if hasattr(value, "to_wire") else value
        for name, value in values.items()
        if value is not None
    }


@dataclass(slots=True)
class _Pending:
    """A request that waits for its reply."""

    reply: asyncio.Future[Message]
    clock: asyncio.Timeout
    seconds: float | None
    on_progress: OnProgress | None

    def still_alive(self) -> None:
        """The server is at work on it: the time limit starts again."""
        if self.seconds is not None and not self.clock.expired():
            self.clock.reschedule(asyncio.get_running_loop().time() + self.seconds)

    def wait_for_us(self) -> None:
        """The server may be waiting for our part of the work: the time stands still."""
        if not self.clock.expired():
            self.clock.reschedule(None)


class ServerConnection:
    """Speaks JSON-RPC with one server process until either of them ends.

    Args:
        process: The server.
        framing: How to speak to it; it answers in kind.
        on_notification: Called with each notification, in order of arrival, before the replies behind it.
        handlers: Who serves the server's own requests, by method. Looked up at each request.
        trace: Sees every message.
    """

    def __init__(
        self,
        process: RunningServer,
        framing: Framing,
        on_notification: Callable[[str, Params], None],
        handlers: Mapping[str, Handler],
        trace: Trace | None = None,
    ) -> None:
        self.process = process
        self.max_frame_bytes: int | None = None
        """Of the server, once it has announced it: a longer request is refused here, where it can be named."""
        self._framing = framing
        self._on_notification = on_notification
        self._handlers = handlers
        self._trace = trace
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._tokens: dict[str, _Pending] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._loss: ConnectionLostError | None = None
        self._last_words = ""
        self._reader = asyncio.create_task(self._read(), name="timeleap-client-reader")

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        return self._loss is None

    async def lost(self) -> ConnectionLostError:
        """Wait for the end of the conversation; returns why."""
        await asyncio.wait({self._reader})
        assert self._loss is not None
        return self._loss

    async def request(
        self, method: str, params: Params, *, within: float | None, on_progress: OnProgress | None = None
    ) -> Any:
        """Send a request and wait for its result. Requests are sent in the order of the calls.

        Args:
            method: Wire name.
            params: In wire names. With `on_progress` they must hold a string `workDoneToken`.
            within: Seconds to wait since the last sign of work on it; None waits for ever.
            on_progress: Told how far it is.

        Raises:
            TimeleapRpcError: The server answered with an error.
            RequestTimeoutError: No answer in time; it was cancelled.
            ConnectionLostError: The server went away; whether the request took effect is not known.
        """
        request_id = next(self._ids)
        token = params.get("workDoneToken") if on_progress else None
        try:
            async with asyncio.timeout(within) as clock:
                pending = _Pending(asyncio.get_running_loop().create_future(), clock, within, on_progress)
                self._send(self._message(method, params, request_id))
                self._pending[request_id] = pending
                if isinstance(token, str):
                    self._tokens[token] = pending
                reply = await self._reply(pending)
        except (TimeoutError, asyncio.CancelledError) as error:
            if request_id in self._pending and self.alive:
                self.process.write(self._message("$/cancelRequest", {"id": request_id}))
            if isinstance(error, TimeoutError):
                raise RequestTimeoutError(f"no answer to {method} within {within:g} seconds") from None
            raise
        finally:
            self._pending.pop(request_id, None)
            if isinstance(token, str):
                self._tokens.pop(token, None)
        if "error" in reply:
            raise TimeleapRpcError.of(reply["error"])
        return reply.get("result")

    def notify(self, method: str, params: Params) -> None:
        """Send a notification.

        Raises:
            ConnectionLostError: The server went away.
        """
        self._send(self._message(method, params))

    async def shut_down(self, grace: float) -> int:
        """End it in good order: `shutdown`, `exit`, end of input; killed where that takes over `grace` seconds.

        Returns:
            The exit code of the process.
        """
        try:
            async with asyncio.timeout(grace):
                if self.alive:
                    await self.request("shutdown", {}, within=None)
                    self.notify("exit", {})
                    await self.process.drained()
                self.process.close_stdin()
                await self.process.wait()
        except (TimeoutError, ConnectionError, TimeleapRpcError):
            pass
        finally:
            code = await self.process.kill()
            await asyncio.wait({self._reader})
        return code

    async def _reply(self, pending: _Pending) -> Message:
        with contextlib.suppress(ConnectionError):  # as in `_send`
            await self.process.drained()
        return await pending.reply

    def _message(self, method: str, params: Params, request_id: int | None = None) -> bytes:
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        data = self._encode(message)
        if self.max_frame_bytes is not None and len(data) > self.max_frame_bytes:
            why = f"{method} takes {len(data)} bytes; the server reads at most {self.max_frame_bytes}"
            raise TimeleapRpcError(4011, "tooLarge", why, {"kind": "tooLarge", "retryable": False}, retryable=False)
        return data

    def _send(self, data: bytes) -> None:
        if self._loss is not None:
            raise self._loss
        # A server that has stopped reading is on its way out: the reader will meet the end, and tell everybody why.
        self.process.write(data)

    async def _read(self) -> None:
        reader = MessageReader(self._framing)
        why = "the server went away"
        try:
            while data := await self.process.read():
                for message in reader.feed(data):
                    if self._trace is not None:
                        self._trace("received", message)
                    self._take(message)
        except BrokenStreamError as error:
            why = f"the server broke the protocol: {error}"
            await self.process.kill()
        except ConnectionError:
            pass
        await self._lose(why)

    async def _lose(self, why: str) -> None:
        try:
            async with asyncio.timeout(2.0):
                code: int | None = await self.process.wait()
        except TimeoutError:
            # Its output ended and it still runs: of no more use, and maybe still the owner of our sessions.
            code = await self.process.kill()
        tail = self.process.stderr_tail[-2000:]
        said = f"{why} (exit code {code}){self._last_words}"
        self._loss = ConnectionLostError(said + (f":\n{tail}" if tail else ""), code)
        for task in self._serving.values():
            task.cancel()
        for pending in self._pending.values():
            if not pending.reply.done():
                pending.reply.set_exception(ConnectionLostError(str(self._loss), code))

    def _take(self, message: Message) -> None:
        method = message.get("method")
        params = message.get("params")
        if not isinstance(params, dict):
            params = {}
        if not isinstance(method, str):
            self._take_reply(message)
        elif "id" in message:
            self._serve(method, params, message["id"])
        elif method == "$/progress":
            self._take_progress(params)
        elif method == "$/cancelRequest":
            if task := self._serving.get(str(params.get("id"))):
                task.cancel()
        else:
            self._on_notification(method, params)

    def _take_reply(self, message: Message) -> None:
        request_id = message.get("id")
        pending = self._pending.get(request_id) if isinstance(request_id, int) else None
        if pending is None:
            # Answers to cancelled requests come late; one without an id may say why the server ends the connection.
            _log.debug("a reply nobody waits for: %s", message.get("error"))
            error = message.get("error")
            if request_id is None and isinstance(error, dict):
                self._last_words = f", saying: {error.get('message')}"
        elif not pending.reply.done():
            pending.reply.set_result(message)

    def _take_progress(self, params: Params) -> None:
        pending = self._tokens.get(str(params.get("token")))
        value = params.get("value")
        if pending is None or pending.on_progress is None or not isinstance(value, dict):
            return
        pending.still_alive()
        try:
            pending.on_progress(value)
        except Exception:
            _log.exception("a progress callback failed")

    def _serve(self, method: str, params: Params, request_id: Any) -> None:
        for pending in self._pending.values():
            pending.wait_for_us()
        task = asyncio.create_task(self._answer(method, params, request_id), name=f"timeleap-client-{method}")
        self._serving[str(request_id)] = task

    async def _answer(self, method: str, params: Params, request_id: Any) -> None:
        answer: Message = {"jsonrpc": "2.0", "id": request_id}
        handler = self._handlers.get(method)
        try:
            if handler is None:
                answer["error"] = {"code": -32601, "message": f"this client does not serve {method}"}
            else:
                answer["result"] = await handler(params)
            data = self._encode(answer)
        except asyncio.CancelledError:
            data = self._refusal(request_id, -32800, "cancelled")
        except Exception as error:
            _log.exception("serving %s failed", method)
            data = self._refusal(request_id, -32603, f"{type(error).__name__}: {error}")
        finally:
            self._serving.pop(str(request_id), None)
        if not self._serving:
            for pending in self._pending.values():
                pending.still_alive()
        self.process.write(data)

    def _refusal(self, request_id: Any, code: int, why: str) -> bytes:
        return self._encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": why}})

    def _encode(self, message: Message) -> bytes:
        if self._trace is not None:
            self._trace("sent", message)
        return encode(message, self._framing)
