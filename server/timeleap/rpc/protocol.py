"""JSON-RPC 2.0 on one connection: pygls' dispatcher under our own envelope, ids, cancellation and errors.

Written against pygls 2.1 (pinned in `pyproject.toml`); `tests/unit/rpc/test_pygls_contract.py` fails when a name
changes that is overridden or called. From pygls come the execution of handlers as tasks
(`_execute_handler`) and the table of running ones (`_request_futures`). How it takes messages in and answers
them is not used: it makes named tuples of params, with other keys, and what it cannot read or write gets no reply.
Here params stay the JSON they were until their model judges them, in order of arrival; every request gets one reply,
encoded before any of it is sent; a change that has begun is not cancelled; requests of ours have a table of their own,
so that an id of the client's is never taken for one, and a late answer is ignored (pygls #621); logs carry no payload.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol, cast

import msgspec
from cattrs import Converter

from timeleap.call import Call, Client
from timeleap.errors import ClientRequestError
from timeleap.rpc.codec import MessageId, Pieces, Request, UnreadableError, encode, is_message_id
from timeleap.rpc.errors import RefusedError, WireError, refused_value, to_wire, wire_error
from timeleap_protocol.errors import ErrorKind, code_of
from timeleap_protocol.limits import SESSION_ID_PATTERN
from timeleap_protocol.method import Method
from timeleap_protocol.methods import ANSWERED


class _Placeholder(type):
    """The class of a stand-in for `lsprotocol.types` and for everything in it: can be named, but not used."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Placeholder(name, (), {})

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        raise TypeError(f"{cls.__name__} is a placeholder; what imports pygls after us gets the real one")


@contextmanager
def without_lsp() -> Generator[None]:
    """Have pygls imported without `lsprotocol.types`: 155 of the 240 ms it takes, where this was measured.

    That module describes the whole Language Server Protocol; the half of pygls used here only names parts of it. What
    is imported meanwhile is forgotten, so that another import of pygls in this process is one with the real module.
    """
    before = set(sys.modules)
    if before & {"pygls", "lsprotocol"}:
        yield
        return
    sys.modules["lsprotocol.types"] = cast("Any", _Placeholder("lsprotocol.types", (), {}))
    try:
        yield
    finally:
        for name in sys.modules.keys() - before:
            if name.partition(".")[0] in ("pygls", "lsprotocol"):
                del sys.modules[name]


with without_lsp():
    from pygls.protocol.json_rpc import JsonRPCProtocol

log = logging.getLogger(__name__)

VERSION: Final = "2.0"
CANCEL = "$/cancelRequest"

FIRST_GUESS = 4 * 1024 * 1024
"""Bytes a reply to a read may have, before one was seen: what a page of history has at most unless asked for more."""

PROGRESS_INTERVAL = 0.1
"""Seconds from the begin to the first report, and between two: more often nobody sees them, and a log of gigabytes
would send thousands. What comes too early is kept, and the latest of it is told when its time has come."""


Work = Callable[[Call], Coroutine[Any, Any, Any]]
"""The work that answers a request, once it is called with the circumstances."""

Answer = Callable[[Any, BaseException | None], None]
"""Takes the result of a request, or why there is none."""


class ClientNotification(msgspec.Struct):
    """A notification of the client's; `size`: bytes of its frame."""

    method: str
    params: dict[str, Any]
    size: int = 0


class Reply(msgspec.Struct):
    """The client's answer to a request of ours, or what looks like one. `error` is None where it succeeded."""

    id: Any
    result: Any
    error: Any


class _Success(msgspec.Struct, tag_field="jsonrpc", tag=VERSION):
    """A reply as it goes over the wire."""

    id: MessageId
    result: Any

    def to_wire(self) -> dict[str, Any]:
        return {"jsonrpc": VERSION, "id": self.id, "result": self.result}


class WorkDone:
    """Tells a client how far the work of its request has come: `$/progress` with begin, report, end under its token.

    `notify` queues a notification; it is called on the event loop only.
    """

    def __init__(self, notify: Callable[[str, dict[str, Any]], object], token: str | int, title: str) -> None:
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
                self._loop.call_soon_threadsafe(self.report, message, percentage)
        elif not self._ended:
            self._waiting = (message, percentage)
            if self._loop.time() - self._last >= PROGRESS_INTERVAL:
                self._tell()
            elif self._timer is None:
                self._timer = self._loop.call_at(self._last + PROGRESS_INTERVAL, self._tell)

    def _tell(self) -> None:
        self._stop_timer()
        self._last = self._loop.time()
        message, percentage = self._waiting
        told = {"message": message, "percentage": percentage}
        self._send({"kind": "report", **{name: value for name, value in told.items() if value is not None}})

    def end(self) -> None:
        """The work is over, well or not; nothing is reported after it."""
        if not self._ended:
            self._ended = True
            self._stop_timer()
            self._send({"kind": "end"})

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, value: dict[str, Any]) -> None:
        self._notify("$/progress", {"token": self._token, "value": value})


class Running(msgspec.Struct):
    """A request that was taken and is not answered yet; `weight`: bytes it holds, and its reply is expected to have, from
    when it waits: what is answered in the call that reads it is never listed."""

    message: Request
    row: Method
    weight: int = -1
    work_done: WorkDone | None = None
    began: bool = False
    answered: bool = False
    received: float = msgspec.field(default_factory=time.perf_counter)


class ConnectionPort(Client, Protocol):
    """Interface of a connection for its requests (`timeleap.rpc.connection.Connection`)."""

    def send(self, message: Any) -> int: ...
    def send_pieces(self, pieces: list[bytes]) -> int: ...
    def admit(self, method: str) -> None: ...
    def begin(self, row: Method, params: dict[str, Any], then: Answer) -> Coroutine[Any, Any, Any] | None: ...
    def accept(self, row: Method, params: dict[str, Any]) -> Work: ...
    def notified(self, method: str, params: dict[str, Any]) -> None: ...
    def second_row(self, method: str) -> Method | None: ...
    def request_ended(self) -> None: ...
    def regulate(self) -> None: ...


class EdgeProtocol(JsonRPCProtocol):
    """The requests of a connection, in both directions.

    Attributes:
        trace: The level that `$/setTrace` asked for: off, messages, verbose.
        unwanted: Notifications that the client opted out of.
        refused_any: True if anything was answered with an error other than `cancelled`.
        running: Requests taken and not answered yet.
        weight: Bytes that the requests in flight hold, and that their replies are expected to have: a thousand pages
            asked for at once would fill the memory before the first one is read. What a method's replies are like is
            learnt: reads start from a careful guess, which halves with every smaller reply.
    """

    def __init__(self, link: ConnectionPort) -> None:
        # pygls reports faults of handlers to its server; ours have none that `_run` does not catch.
        super().__init__(cast("Any", None), Converter())
        self.trace = "off"
        self.unwanted: frozenset[str] = frozenset()
        self.refused_any = False
        self.weight = 0
        self.running: dict[MessageId, Running] = {}
        self._link = link
        self._reply_sizes: dict[str, int] = {}
        self._asked: dict[MessageId, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._client_gone = False
        self._unbegun = 0  # requests whose tasks have not begun
        self._answered: asyncio.Future[None] | None = None  # done with the next answer, where one is waited for

    @property
    def waits_for_client(self) -> bool:
        """True if a request of ours is waiting for its answer."""
        return bool(self._asked)

    # What comes in

    def structure_message(self, data: Any) -> Request | ClientNotification | Reply:
        """Check an envelope.

        Raises:
            UnreadableError: It is none; says what to answer, and whether.
        """
        if not isinstance(data, dict):
            what = "batches are not supported" if isinstance(data, list) else "a message is a JSON object"
            raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, what))
        message_id = data.get("id")
        if "method" not in data:
            if "result" in data or "error" in data:
                return Reply(message_id, data.get("result"), data.get("error"))
            # Not under its id: there is no telling that it was meant as a request's, which may be in flight.
            raise UnreadableError(RefusedError(ErrorKind.INVALID_REQUEST, "neither a request nor a reply: no method"))
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
        return ClientNotification(method, params) if known is None else Request(known, method, params, VERSION)

    def handle_message(self, message: Any) -> None:
        """Take an answer or a notification that `structure_message` let pass; for a request see `take_request`."""
        if isinstance(message, Reply):
            self._take_answer(message)
        else:
            try:
                if message.method == CANCEL:
                    self._cancel(message.params.get("id"))
                else:
                    self._link.notified(message.method, message.params)
            except Exception as error:
                log.warning("ignoring a notification %s: %s", _shown(message.method), type(error).__qualname__)

    def take_request(self, message: Request) -> None:
        """Begin a request, and answer it in this very call if it need not wait."""
        message_id, method, params = message.id, message.method, message.params
        try:
            if message_id in self.running:
                raise RefusedError(ErrorKind.INVALID_REQUEST, "a request of this id is in flight")
            row = ANSWERED.get(method) or self._link.second_row(method)
            if row is None:
                self._link.admit(method)
                kind = self.refuse(message_id, RefusedError(ErrorKind.METHOD_NOT_FOUND, f"no method {_shown(method)}"))
                log.debug("- - %s %d B in", kind, message.size)  # not its name: it may hold anything
                return
            running = Running(message, row)
            if not row.at_once or self._unbegun or (row.progress and "workDoneToken" in params):
                self._link.admit(method)
                self._begin_task(running, self._link.accept(row, params))
                return
            steps = self._link.begin(row, params, partial(self._answer, running))
        except Exception as error:
            kind = self.refuse(message_id, error, method)
            log.debug("%s - %s %d B in", method, kind, message.size)
            return
        if steps is not None:
            self._go_on(running, steps)
        elif not running.answered:
            running.began = True
            self._list(running)

    def _begin_task(self, running: Running, work: Work) -> None:
        self._list(running)
        message_id, method, params = running.message.id, running.row.name, running.message.params
        token = params.get("workDoneToken") if running.row.progress else None
        work_done = running.work_done = None if token is None else WorkDone(self._link.notify, token, method)
        call = Call(self._link, method, work_done.report if work_done else None, params)

        def ended(task: asyncio.Future[Any]) -> None:
            if not running.began:  # it was cancelled: nobody has answered
                self._unbegun -= 1
                self._answer(running, None, asyncio.CancelledError())

        self._unbegun += 1
        self._execute_handler(message_id, cast("Any", self._run), cast("Any", ended), args=(running, work, call))

    def _list(self, running: Running) -> None:
        """A request has to wait: it counts from now on."""
        message, row = running.message, running.row
        weight = message.size + (self._reply_sizes.get(row.name) or self._expected_reply(row))
        running.weight = weight
        self.weight += weight
        self.running[message.id] = running

    def _go_on(self, running: Running, steps: Coroutine[Any, Any, Any], waited_for: object = None) -> None:
        """Do the work of a request in this very call, until it waits. Where it waits once, for a future, as most do, it
        goes on in the future's callback; else a task goes on with it."""
        try:
            awaited = steps.send(None)
        except StopIteration as done:
            self._answer(running, done.value, None)
        except (Exception, asyncio.CancelledError) as error:
            self._answer(running, None, error)
        else:
            if running.weight < 0:
                running.began = True
                self._list(running)
            if waited_for is None and isinstance(awaited, asyncio.Future):
                awaited._asyncio_future_blocking = False  # as a task does that takes it over
                awaited.add_done_callback(partial(self._go_on, running, steps))
            else:
                rest: Any = _rest(steps, awaited, partial(self._answer, running))
                awaited = asyncio.get_running_loop().create_task(rest)
            self._request_futures[running.message.id] = cast("Any", awaited)

    async def _run(self, running: Running, work: Work, call: Call) -> None:
        """Do the work of a request and answer it from within the task: a callback would cost a turn of the loop."""
        running.began = True
        self._unbegun -= 1
        try:
            result = await work(call)
        except (Exception, asyncio.CancelledError) as error:
            self._answer(running, None, error)
        else:
            self._answer(running, result, None)

    def _cancel(self, message_id: Any) -> None:
        running = self.running.get(message_id) if is_message_id(message_id) else None
        if running is None:
            return
        if not running.began:
            self._request_futures[message_id].cancel()
        elif running.row.cancel != "unbegun" and message_id in self._request_futures:  # else it is being written
            # A task that was made just now has to take the request over first.
            asyncio.get_running_loop().call_soon(self._request_futures[message_id].cancel)

    def _take_answer(self, reply: Reply) -> None:
        answer = self._asked.pop(reply.id, None) if is_message_id(reply.id) else None
        if answer is None or answer.done():
            log.info("ignoring an answer to a request that is not waiting for one")
        elif reply.error is None:
            answer.set_result(reply.result)
        else:
            error = reply.error if isinstance(reply.error, dict) else {}
            said = error.get("message")
            refusal = f"the client refused: {said if isinstance(said, str) else 'no reason given'}"
            answer.set_exception(ClientRequestError(refusal[:500], reason="refused", code=error.get("code")))

    # What goes out

    def refuse(self, message_id: MessageId | None, error: BaseException, where: str = "") -> str:
        """Answer with an error, under `id: null` where the id is not known; returns its kind.

        An error whose details have no JSON form loses them.
        """
        refusal: WireError = to_wire(error, where)
        envelope: dict[str, Any] = {"jsonrpc": VERSION, "id": message_id}
        try:
            self._link.send({**envelope, "error": refusal})
        except Exception:
            refusal = wire_error(ErrorKind(refusal["data"]["kind"]), refusal["message"])
            self._link.send({**envelope, "error": refusal})
        self.refused_any |= refusal["code"] != code_of(ErrorKind.CANCELLED)
        return str(refusal.get("data", {}).get("kind", refusal["code"]))  # the error of an owner may have no kind

    def _answer(self, running: Running, result: Any, error: BaseException | None) -> None:
        message_id, name, weight = running.message.id, running.row.name, running.weight
        running.answered = True
        if weight >= 0:
            del self.running[message_id]
            self.weight -= weight
            if running.work_done is not None:
                running.work_done.end()
            if self._request_futures:
                self._request_futures.pop(message_id, None)
        if self.trace != "off":
            self._trace_answer(running, error)
        if error is None:
            try:
                sent = self._send_result(message_id, result)
            except Exception as fault:
                kind, sent = self.refuse(message_id, fault, "encoding a result"), 0
            else:
                kind = "ok"
                if self._reply_sizes.get(name) != sent:
                    known = self._reply_sizes.get(name) or self._expected_reply(running.row)
                    self._reply_sizes[name] = max(known >> 1, sent)
        else:
            kind, sent = self.refuse(message_id, error, name), 0
        if log.isEnabledFor(logging.INFO):
            _log_answer(running, result, kind, sent)
        if weight >= 0:
            if self._answered is not None and not self._answered.done():
                self._answered.set_result(None)
            self._link.request_ended()

    def _send_result(self, message_id: MessageId, result: Any) -> int:
        if type(result) is not Pieces:
            return self._link.send(_Success(message_id, result))
        begin = b'{"jsonrpc":"2.0","id":%b,"result":' % encode(message_id)
        return self._link.send_pieces([begin, *result.pieces, b"}"])

    def _trace_answer(self, running: Running, error: BaseException | None) -> None:
        took = (time.perf_counter() - running.received) * 1000
        outcome = "answered" if error is None else "refused"
        trace = {"message": f"{running.row.name} ({running.message.id}) {outcome} after {took:.1f} ms"}
        more = {"verbose": f"{len(self.running)} more in flight"} if self.trace == "verbose" else {}
        self._link.notify("$/logTrace", {**trace, **more})

    def _expected_reply(self, row: Method) -> int:
        # Of what waits for a person many may wait at once, and hold up nothing else.
        small = row.cancel == "unbegun" or row.waits
        return self._reply_sizes.get(row.name, 0 if small else FIRST_GUESS)

    async def request(self, method: str, params: dict[str, Any], *, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Ask the client and wait for its answer, at most `timeout` seconds (None: until the caller cancels).

        Raises:
            ClientRequestError: It refused, did not answer in time, or is gone.
        """
        if self._client_gone:
            raise ClientRequestError("the client is gone", reason="gone")
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._link.send({"jsonrpc": VERSION, "id": number, "method": method, "params": params})
            self._link.regulate()  # the answer may stand behind what is not read yet
            async with asyncio.timeout(timeout):
                return await answer
        except (TimeoutError, asyncio.CancelledError) as error:
            self._link.notify(CANCEL, {"id": number})
            if isinstance(error, TimeoutError):
                raise ClientRequestError(f"no answer to {method} in {timeout:g} s", reason="timeout") from None
            raise
        finally:
            self._asked.pop(number, None)

    def set_trace(self, value: Any) -> None:
        """Set how much `$/logTrace` is to tell; values that it does not know are ignored."""
        if value in ("off", "messages", "verbose"):
            self.trace = value

    def client_gone(self) -> None:
        """Fail those who wait for an answer of the client's: none can come any more."""
        self._client_gone = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ClientRequestError("the client is gone", reason="gone"))

    async def others_done(self, _: Call) -> None:
        """Wait until every request but the calling one is answered."""
        while len(self.running) > 1:
            self._answered = asyncio.get_running_loop().create_future()
            await self._answered


@types.coroutine
def _rest(steps: Coroutine[Any, Any, Any], awaited: Any, answer: Answer) -> Generator[Any, Any, None]:
    """Run the rest of `steps`, which waits for `awaited`, in a task, which takes over as if it had begun it. It
    answers from within the task: a callback would cost a turn of the loop."""
    try:
        if isinstance(awaited, asyncio.Future) and awaited.done():  # a turn more would let later requests overtake it
            awaited._asyncio_future_blocking = False
            awaited = steps.send(None)
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                awaited = steps.throw(error)
            else:
                awaited = steps.send(sent)
    except StopIteration as done:
        answer(done.value, None)
    except (Exception, asyncio.CancelledError) as error:
        answer(None, error)


def _log_answer(running: Running, result: Any, kind: str, sent: int) -> None:
    """Log a line for a request: a change at `info`, all others at `debug`; never anything of its contents."""
    message, row = running.message, running.row
    level = logging.INFO if row.mutates and message.params.get("dryRun") is not True else logging.DEBUG
    took = (time.perf_counter() - running.received) * 1000
    made = result.get("sessionId") if isinstance(result, dict) else None
    named = str(message.params.get("sessionId") or made or "")
    session = named if re.fullmatch(SESSION_ID_PATTERN, named) else "-"  # else it may be anything
    log.log(level, "%s %s %s %.1f ms %d B in %d B out", row.name, session, kind, took, message.size, sent)


def _shown(method: str) -> str:
    """A method name that is not ours, fit to be repeated: it may be long, or hold anything."""
    return repr(method[:100])
