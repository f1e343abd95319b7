"""JSON-RPC 2.0 on one connection: pygls' dispatcher under our own envelope, ids, cancellation and errors.

Written against pygls 2.1 (pinned in `pyproject.toml`); `tests/unit/rpc/test_pygls_contract.py` fails when a name changes
that is overridden or called. From pygls come the registry of handlers (`fm`, `_get_handler`), their execution as tasks (`_execute_handler`) and the
table of running ones (`_request_futures`). Overridden, each for a reason:

- `structure_message`: pygls turns params into named tuples, which renames keys, and drops what it cannot structure
  without a reply. Params stay the JSON they were; an envelope that is wrong is answered.
- `handle_message`: told apart by class, without asking runtime protocols about every attribute.
- `_handle_request`: duplicate ids, the gate of the lifecycle, params validated in order of arrival, our errors.
- `_handle_notification`: one that cannot be understood is dropped, never answered, never a traceback.
- `_handle_cancel_notification`: a change that has begun is not cancelled; its reply is its real result.
- `_handle_response`, `notify`: requests of ours live in a table of their own, so that an id of the client's can never be
  taken for one; a late answer is ignored (pygls #621).
- `_send_handler_result`, `_send_response`, `_send_data`: our encoder and `to_wire`; the reply is encoded before any of
  it is sent, and no payload reaches a log.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, cast

from cattrs import Converter

from timeleap.call import Call, Client
from timeleap.errors import ClientRequestError
from timeleap.rpc.binding import Endpoint
from timeleap.rpc.codec import MessageId, UnreadableError, encode, is_message_id
from timeleap.rpc.errors import RefusedError, WireError, refused_value, to_wire, wire_error
from timeleap.rpc.lsptypes import standing_in
from timeleap_protocol.errors import ErrorKind, code_of
from timeleap_protocol.limits import SESSION_ID_PATTERN

with standing_in():
    from pygls.exceptions import JsonRpcMethodNotFound
    from pygls.protocol.json_rpc import JsonRPCProtocol
    from pygls.server import JsonRPCServer

log = logging.getLogger(__name__)

VERSION = "2.0"
CANCEL = "$/cancelRequest"
PROGRESS = "$/progress"
Trace = Literal["off", "messages", "verbose"]

FIRST_GUESS = 4 * 1024 * 1024
"""Bytes a reply to a read may have, before one was seen: what a page of history has at most unless asked for more."""

PROGRESS_INTERVAL = 0.1
"""Seconds from the begin to the first report, and between two: more often nobody sees them, and a log of gigabytes
would send thousands. What comes too early is kept, and the latest of it is told when its time has come."""


@dataclass(slots=True)
class Request:
    """A request of the client's."""

    id: MessageId
    method: str
    params: dict[str, Any]
    size: int = 0
    """Bytes of its frame."""


@dataclass(slots=True)
class ClientNotification:
    """A notification of the client's."""

    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Reply:
    """The client's answer to a request of ours, or what looks like one. `error` is None where it succeeded."""

    id: Any
    result: Any
    error: Any


Message = Request | ClientNotification | Reply


class WorkDone:
    """Tells a client how far the work of its request has come: `$/progress` with begin, report, end under its token.

    Args:
        notify: Queues a notification; called on the event loop only.
        token: The request's `workDoneToken`.
        title: What is being done.
    """

    def __init__(self, notify: Callable[[str, dict[str, Any]], None], token: str | int, title: str) -> None:
        self._notify = notify
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._ended = False
        self._last = self._loop.time()
        self._waiting: tuple[str | None, int | None] = (None, None)
        self._timer: asyncio.TimerHandle | None = None
        self._send({"kind": "begin", "title": title})

    def report(self, message: str | None = None, percentage: int | None = None) -> None:
        """Say where the work stands. May be called from any thread; of too frequent calls the last one counts."""
        if threading.get_ident() != self._thread:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._report, message, percentage)
        else:
            self._report(message, percentage)

    def _report(self, message: str | None, percentage: int | None) -> None:
        if self._ended:
            return
        if self._loop.time() - self._last < PROGRESS_INTERVAL:
            self._waiting = (message, percentage)
            if self._timer is None:
                self._timer = self._loop.call_at(self._last + PROGRESS_INTERVAL, self._catch_up)
            return
        self._tell(message, percentage)

    def _catch_up(self) -> None:
        self._timer = None
        self._tell(*self._waiting)

    def _tell(self, message: str | None, percentage: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._last = self._loop.time()
        value: dict[str, Any] = {"kind": "report"}
        if message is not None:
            value["message"] = message
        if percentage is not None:
            value["percentage"] = percentage
        self._send(value)

    def end(self) -> None:
        """The work is over, well or not; nothing is reported after it."""
        if not self._ended:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()
            self._send({"kind": "end"})

    def _send(self, value: dict[str, Any]) -> None:
        self._notify(PROGRESS, {"token": self._token, "value": value})


@dataclass(slots=True)
class Running:
    """A request that was taken and is not answered yet."""

    endpoint: Endpoint
    call: Call
    weight: int
    size: int = 0
    began: bool = False
    work_done: WorkDone | None = None
    received: float = field(default_factory=time.perf_counter)


class ConnectionPort(Client, Protocol):
    """The connection, as far as the protocol needs it."""

    def send(self, body: bytes) -> None:
        """Queue one message."""
        ...

    def admit(self, method: str) -> None:
        """Raise `RefusedError` if a request of that method cannot be taken now."""
        ...

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """A notification that is the connection's own business."""
        ...

    def request_ended(self) -> None:
        """A request was answered."""
        ...

    def asked(self) -> None:
        """A request of ours was sent."""
        ...


class Server(JsonRPCServer):
    """The object pygls wants to stand behind a protocol; one a connection, without pygls' own I/O."""

    def __init__(self, link: ConnectionPort) -> None:
        self.link = link
        super().__init__(EdgeProtocol, Converter)

    @property
    def edge(self) -> EdgeProtocol:
        """The protocol, as what it is."""
        return cast("EdgeProtocol", self.protocol)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Report a fault that pygls caught; only the type is logged, since texts may quote a message."""
        log.error("%s: %s", getattr(source, "__name__", source), type(error).__qualname__)


class EdgeProtocol(JsonRPCProtocol):
    """One connection's requests, in both directions.

    Attributes:
        trace: What `$/setTrace` asked for.
        unwanted: Notifications that the client opted out of.
        refused_any: Whether anything was answered with an error other than `cancelled`.
    """

    def __init__(self, server: Server, converter: Converter) -> None:
        super().__init__(server, converter)
        self.trace: Trace = "off"
        self.unwanted: frozenset[str] = frozenset()
        self.refused_any = False
        self._link = server.link
        self._endpoints: dict[str, Endpoint] = {}
        self._running: dict[MessageId, Running] = {}
        self._weight = 0
        self._reply_sizes: dict[str, int] = {}
        self._asked: dict[MessageId, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._client_gone = False

    def register(self, endpoint: Endpoint) -> None:
        """Make a method callable."""
        self._endpoints[endpoint.name] = endpoint
        self.fm.add_builtin_feature(endpoint.name, self._run)

    @property
    def in_flight(self) -> int:
        """Requests taken and not answered yet."""
        return len(self._running)

    @property
    def weight(self) -> int:
        """Bytes that the requests in flight hold, and that their replies are expected to have.

        A thousand pages asked for at once would fill the memory before the first one is read. What a method's replies
        are like is learnt: reads start from a careful guess, which halves with every smaller reply.
        """
        return self._weight

    @property
    def waits_for_client(self) -> bool:
        """True if a request of ours is waiting for its answer."""
        return bool(self._asked)

    # What comes in

    def structure_message(self, data: Any) -> Message:
        """Check an envelope.

        Raises:
            UnreadableError: It is none; says what to answer, and whether.
        """
        if not isinstance(data, dict):
            what = "batches are not supported" if isinstance(data, list) else "a message is a JSON object"
            raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, what))
        message_id = data.get("id")
        if "method" not in data:
            return _reply(data, message_id)
        known = message_id if is_message_id(message_id) else None
        if data.get("jsonrpc") != VERSION:
            raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, 'jsonrpc must be "2.0"'), known)
        method = data["method"]
        if not isinstance(method, str):
            raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, "method must be a string"), known)
        if "id" in data and known is None:
            raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, "id must be a string or an integer"))
        params = data.get("params")
        if params is None or params == []:
            params = {}
        elif not isinstance(params, dict):
            errors = [refused_value([], "params must be one object", "object_type")]
            refusal = RefusedError(ErrorKind.INVALID_PARAMS, "invalid params: params must be one object", errors=errors)
            raise UnreadableError(refusal, known, wants_reply="id" in data)
        return ClientNotification(method, params) if known is None else Request(known, method, params)

    def handle_message(self, message: Any) -> None:
        """Take a message that `structure_message` let pass."""
        if isinstance(message, Request):
            self._handle_request(message.id, message.method, message.params, message.size)
        elif isinstance(message, ClientNotification):
            self._handle_notification(message.method, message.params)
        else:
            self._handle_response(message.id, message.result, message.error)

    def refuse(self, message_id: MessageId | None, error: BaseException, where: str = "") -> str:
        """Answer with an error, under `id: null` where the id is not known; returns its kind."""
        wire = to_wire(error, where)
        self._send_response(message_id, error=wire)
        return str(wire.get("data", {}).get("kind", wire["code"]))

    def _handle_request(self, msg_id: MessageId, method_name: str, params: Any, size: int = 0) -> None:
        try:
            if msg_id in self._running:
                raise RefusedError(ErrorKind.INVALID_REQUEST, "a request of this id is in flight")
            self._link.admit(method_name)
            handler = self._get_handler(method_name)
            endpoint = self._endpoints[method_name]
            accepted = endpoint.accept(params)
        except JsonRpcMethodNotFound:
            kind = self.refuse(msg_id, RefusedError(ErrorKind.METHOD_NOT_FOUND, f"no method {_shown(method_name)}"))
            log.debug("- - %s %d B in", kind, size)  # not its name: it may hold anything
        except Exception as error:
            kind = self.refuse(msg_id, error, method_name)
            log.debug("%s - %s %d B in", method_name, kind, size)
        else:
            work_done = self._work_done(endpoint, params)
            call = Call(self._link, method_name, work_done.report if work_done else None, params)
            weight = size + self._expected_reply(endpoint)
            running = self._running[msg_id] = Running(endpoint, call, weight, size, work_done=work_done)
            self._weight += weight
            self._execute_handler(
                msg_id, handler, partial(self._send_handler_result, msg_id=msg_id), args=(msg_id, running, accepted)
            )

    def _work_done(self, endpoint: Endpoint, params: dict[str, Any]) -> WorkDone | None:
        token = params.get("workDoneToken")
        if not endpoint.reports_progress or token is None:
            return None
        return WorkDone(self.notify, token, endpoint.name)

    async def _run(self, msg_id: MessageId, running: Running, accepted: Any) -> None:
        """Do the work of a request and answer it from within the task: a callback would cost a turn of the loop."""
        running.began = True
        try:
            result = await running.endpoint.run(accepted, running.call)
        except (Exception, asyncio.CancelledError) as error:
            self._answer(msg_id, None, error)
        else:
            self._answer(msg_id, result, None)

    def _handle_notification(self, method_name: str, params: Any) -> None:
        try:
            if method_name == CANCEL:
                self._handle_cancel_notification(params.get("id"))
            else:
                self._link.notified(method_name, params)
        except Exception as error:
            log.warning("ignoring a notification %s: %s", _shown(method_name), type(error).__qualname__)

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        running = self._running.get(msg_id) if is_message_id(msg_id) else None
        if running is None or (running.began and running.endpoint.shielded):
            return
        # Not `super()`: it forgets the request, which is still to be answered and waited for.
        self._request_futures[msg_id].cancel()

    def _handle_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        answer = self._asked.pop(msg_id, None) if is_message_id(msg_id) else None
        if answer is None or answer.done():
            log.info("ignoring an answer to a request that is not waiting for one")
        elif error is None:
            answer.set_result(result)
        else:
            code = error.get("code") if isinstance(error, dict) else None
            said = error.get("message") if isinstance(error, dict) else None
            refusal = f"the client refused: {said if isinstance(said, str) else 'no reason given'}"
            answer.set_exception(ClientRequestError(refusal[:500], reason="refused", code=code))

    # What goes out

    def _send_handler_result(self, future: Any, *, msg_id: MessageId) -> None:
        """Called when the task of a request is over: answer for it if it was cancelled before it began."""
        if future.cancelled():
            self._answer(msg_id, None, asyncio.CancelledError())

    def _answer(self, msg_id: MessageId, result: Any, error: BaseException | None) -> None:
        running = self._running.pop(msg_id)
        self._request_futures.pop(msg_id, None)
        self._weight -= running.weight
        if running.work_done is not None:
            running.work_done.end()
        if self.trace != "off":
            self._log_trace(msg_id, running, error)
        if error is None:
            body, fault = _reply_body(msg_id, result, None)
            self._note(fault)
            self._link.send(body)
            self._reply_sizes[running.endpoint.name] = max(len(body), self._expected_reply(running.endpoint) >> 1)
            _log_request(running, "ok" if fault is None else "internalError", result, len(body))
        else:
            _log_request(running, self.refuse(msg_id, error, running.endpoint.name))
        self._link.request_ended()

    def _expected_reply(self, endpoint: Endpoint) -> int:
        # Of what waits for a person many may wait at once, and hold up nothing else.
        small = endpoint.shielded or endpoint.waits
        return self._reply_sizes.get(endpoint.name, 0 if small else FIRST_GUESS)

    def _log_trace(self, msg_id: MessageId, running: Running, error: BaseException | None) -> None:
        took = (time.perf_counter() - running.received) * 1000
        outcome = "answered" if error is None else "refused"
        params: dict[str, Any] = {"message": f"{running.endpoint.name} ({msg_id}) {outcome} after {took:.1f} ms"}
        if self.trace == "verbose":
            params["verbose"] = f"{len(self._running)} more in flight"
        self.notify("$/logTrace", params)

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        body, said = _reply_body(msg_id, result, error)
        self._note(said)
        self._link.send(body)

    def _note(self, error: WireError | None) -> None:
        if error is not None and error["code"] != code_of(ErrorKind.CANCELLED):
            self.refused_any = True

    def _send_data(self, data: Any) -> None:
        self._link.send(encode(data))

    def notify(self, method: str, params: Any = None) -> None:
        """Queue a notification, unless the client opted out of it; what is queued later leaves later."""
        if method in self.unwanted and method != CANCEL:
            return
        self._send_data({"jsonrpc": VERSION, "method": method, "params": params or {}})

    async def request(self, method: str, params: dict[str, Any], *, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Ask the client and wait for its answer.

        Args:
            method: A method of the client's.
            params: Its params.
            timeout: Seconds after which the answer is no longer wanted; None: the caller cancels.

        Raises:
            ClientRequestError: It refused, did not answer in time, or is gone.
        """
        if self._client_gone:
            raise ClientRequestError("the client is gone", reason="gone")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._send_data({"jsonrpc": VERSION, "id": number, "method": method, "params": params})
            self._link.asked()
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            self.notify(CANCEL, {"id": number})
            raise ClientRequestError(f"no answer to {method} in {timeout:g} s", reason="timeout") from None
        except asyncio.CancelledError:
            self.notify(CANCEL, {"id": number})
            raise
        finally:
            self._asked.pop(number, None)

    def set_trace(self, value: Any) -> None:
        """How much `$/logTrace` is to tell; other values are ignored."""
        if value in ("off", "messages", "verbose"):
            self.trace = value

    def client_gone(self) -> None:
        """No answer can come any more: fail those who wait for one."""
        self._client_gone = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ClientRequestError("the client is gone", reason="gone"))

    async def others_done(self) -> None:
        """Wait until every request but the calling one is answered."""
        mine: Any = asyncio.current_task()
        futures: dict[Any, Any] = self._request_futures
        while others := [future for future in futures.values() if future is not mine]:
            await asyncio.wait(others)


def _reply(data: dict[str, Any], message_id: Any) -> Reply:
    if "result" in data or "error" in data:
        return Reply(message_id, data.get("result"), data.get("error"))
    # Not under its id: there is no telling that it was meant as a request's, which may be in flight.
    raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, "neither a request nor a reply: no method"))


def _shown(method: str) -> str:
    """A method name that is not ours, fit to be repeated: it may be long, or hold anything."""
    return repr(method[:100])


def _log_request(running: Running, outcome: str, result: Any = None, sent: int = 0) -> None:
    """One line for a request: a change at `info`, all others at `debug`; never anything of what it carries."""
    endpoint, params = running.endpoint, running.call.params
    level = logging.INFO if endpoint.changes and params.get("dryRun") is not True else logging.DEBUG
    if log.isEnabledFor(level):
        took = (time.perf_counter() - running.received) * 1000
        made = result.get("sessionId") if isinstance(result, dict) else None
        named = str(params.get("sessionId") or made or "")
        session = named if re.fullmatch(SESSION_ID_PATTERN, named) else "-"  # else it may be anything
        log.log(level, "%s %s %s %.1f ms %d B in %d B out", endpoint.name, session, outcome, took, running.size, sent)


def _reply_body(msg_id: MessageId | None, result: Any, error: WireError | None) -> tuple[bytes, WireError | None]:
    """The one reply to a request, and the error in it. A result that has no JSON form becomes an internal error, an error loses its details."""
    try:
        if error is None:
            return encode({"jsonrpc": VERSION, "id": msg_id, "result": result}), None
        return encode({"jsonrpc": VERSION, "id": msg_id, "error": error}), error
    except Exception as fault:
        if error is None:
            error = to_wire(fault, "encoding a result")
        else:
            error = wire_error(ErrorKind(error["data"]["kind"]), error["message"])
        return encode({"jsonrpc": VERSION, "id": msg_id, "error": error}), error
