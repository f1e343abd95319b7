"""What a row of the method table says is what the server does: one test a column."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.turns import idle

from timeleap.call import Call, Client
from timeleap.errors import ReadOnlyError, SessionLockedError
from timeleap.rpc.codec import Request
from timeleap.rpc.connection import Connection
from timeleap.rpc.protocol import ClientNotification, EdgeProtocol, Running
from timeleap.service import config, scheduling, service
from timeleap.service.service import Service
from timeleap.sessions.session import Session
from timeleap_protocol.method import IGNORED, Cancel, Forward, Method, Order
from timeleap_protocol.methods import ANSWERED, REQUESTS

NAME = "session/probe"
PROBE = replace(REQUESTS["session/setTitle"], name=NAME)
OTHER = replace(PROBE, name="session/other")
CLIENT = cast("Client", SimpleNamespace(is_peer=False, only_asks=False, name="tests"))

Handler = Callable[[Service, Any, Call], Coroutine[Any, Any, Any]]
MakeService = Callable[..., Service]


def params(session_id: str = "a", **members: Any) -> Any:
    return SimpleNamespace(session_id=session_id, **members)


def call(row: Method = PROBE) -> Call:
    return Call(CLIENT, row.name)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeService:
    def make(handlers: Mapping[Method, Handler], network: Any = None) -> Service:
        table = {**REQUESTS, **{row.name: row for row in handlers}}
        for module in (service, scheduling):
            monkeypatch.setattr(module, "REQUESTS", table)
        made = Service(config.load(tmp_path), lambda _: network)
        made._handlers.update({row.name: handler for row, handler in handlers.items()})
        return made

    return make


async def done(_: Service, params: Any, call: Call) -> Any:
    return {"done": call.method}


def test_handler_each_method_is_answered_by_the_function_its_row_names(tmp_path: Path) -> None:
    handlers = Service(config.load(tmp_path))._handlers
    found = {name: handlers[name] for name in ANSWERED.keys() - {"initialize", "shutdown", "rpc.discover"}}
    named = {name: _name_of(handler) for name, handler in found.items()}
    assert named == {name: REQUESTS[name].handler for name in found}
    assert len(set(named.values())) == len(found)


def _name_of(handler: Any) -> str:
    if isinstance(handler, partial) and "change" not in handler.keywords:
        return _name_of(handler.args[0])  # a part answers it in other formats, or adds to it
    if isinstance(handler, partial):
        return f"Session.{handler.keywords['change']}"
    return f"{handler.__module__}.{handler.__name__}"


@pytest.mark.parametrize("row", [row for row in ANSWERED.values() if (row.handler or "").startswith("Session.")])
def test_handler_a_method_of_the_session_takes_the_params_by_their_names(row: Method) -> None:
    fields = {name: field.is_required() for name, field in row.params_model.model_fields.items()}
    of_its_own = {name: required for name, required in fields.items() if name not in {*IGNORED, "session_id"}}
    signature = inspect.signature(getattr(Session, (row.handler or "").partition(".")[2]))
    signature.bind(None, **of_its_own, guard=None)
    signature.bind(None, **{name: None for name, required in of_its_own.items() if required}, guard=None)


async def test_handler_the_edge_answers_what_has_none() -> None:
    asked: list[str] = []
    service: Any = SimpleNamespace(handle=lambda method, *_: asked.append(method))
    connection = Connection(lambda: service)
    assert connection.accept(PROBE, {"sessionId": "a", "title": "t"})(call()) is None
    assert await connection.accept(replace(OTHER, handler=None), {})(call(OTHER))
    assert asked == [NAME]


@pytest.mark.parametrize(("order", "waits"), [("queue", False), ("ahead", False), ("blocks", True), ("trash", True)])
async def test_order_what_comes_behind_waits_only_for_a_row_that_blocks(
    serve: MakeService, order: Order, waits: bool
) -> None:
    release, told = asyncio.Event(), []

    async def slow(*_: Any) -> None:
        await release.wait()
        told.append("probe")

    async def other(*_: Any) -> None:
        told.append("other")

    ours = serve({replace(PROBE, order=order): slow, OTHER: other})
    work = [
        asyncio.create_task(ours.handle(NAME, params(), call())),
        asyncio.create_task(ours.handle(OTHER.name, params(), call(OTHER))),
    ]
    await idle()
    assert told == ([] if waits else ["other"])
    release.set()
    await asyncio.gather(*work)
    assert told == (["probe", "other"] if waits else ["other", "probe"])


@pytest.mark.parametrize(("order", "passes"), [("queue", False), ("ahead", True)])
async def test_order_what_goes_ahead_passes_what_waits_for_another_party(
    serve: MakeService, order: Order, passes: bool
) -> None:
    release, told = asyncio.Event(), []

    async def elsewhere(ours: Service, _: Any, call: Call) -> None:
        with ours.waiting_elsewhere("a", call):
            await release.wait()
        told.append("probe")

    async def other(*_: Any) -> None:
        told.append("other")

    ours = serve({replace(PROBE, order="blocks"): elsewhere, replace(OTHER, order=order): other})
    work = [
        asyncio.create_task(ours.handle(NAME, params(), call())),
        asyncio.create_task(ours.handle(OTHER.name, params(), call(OTHER))),
    ]
    await idle()
    assert told == (["other"] if passes else [])
    release.set()
    await asyncio.gather(*work)


async def test_order_only_rows_of_the_trash_wait_for_the_trash_as_a_whole(serve: MakeService) -> None:
    release, told = asyncio.Event(), []

    async def slow(*_: Any) -> None:
        await release.wait()

    async def other(_: Service, __: Any, call: Call) -> None:
        told.append(call.method)

    rows = {replace(PROBE, order="trash"): slow, replace(OTHER, order="trash"): other}
    blocking = replace(PROBE, name="session/third", order="blocks")
    ours = serve({**rows, blocking: other})
    whole = SimpleNamespace(session_id=None)
    work = [
        asyncio.create_task(ours.handle(NAME, whole, call())),
        asyncio.create_task(ours.handle(OTHER.name, params("b"), call(OTHER))),
        asyncio.create_task(ours.handle(blocking.name, params("c"), call(blocking))),
    ]
    await idle()
    assert told == [blocking.name]
    release.set()
    await asyncio.gather(*work)
    assert told == [blocking.name, OTHER.name]


@pytest.mark.parametrize(("cancel", "shielded"), [("anytime", False), ("unbegun", True), ("unwritten", False)])
async def test_cancel_only_what_ends_once_begun_is_shielded(cancel: Cancel, shielded: bool) -> None:
    rpc, row = EdgeProtocol(cast("Any", None)), replace(PROBE, cancel=cancel)
    rpc.running[1] = Running(Request(1, NAME, {}, "2.0"), row, 0, began=True)
    work = rpc._request_futures[1] = cast("Any", asyncio.get_running_loop().create_future())
    rpc.handle_message(ClientNotification("$/cancelRequest", {"id": 1}))
    await asyncio.sleep(0)  # a task that has taken over just now is let begin
    assert work.cancelled() is not shielded


@pytest.mark.parametrize(
    ("row", "asked", "refused"),
    [
        (PROBE, {}, True),
        (PROBE, {"dry_run": True}, False),
        (replace(PROBE, access="read"), {}, False),
        (replace(PROBE, mutates=False), {}, True),
    ],
    ids=["write", "a dry run", "read", "write without a change of the log"],
)
async def test_access_what_writes_is_refused_where_the_session_is_only_read(
    serve: MakeService, row: Method, asked: dict[str, Any], refused: bool
) -> None:
    ours = serve({row: done})
    probed = SimpleNamespace(session_id="a", meta=SimpleNamespace(mirrored=False))
    held = SimpleNamespace(session=probed, access="readOnly")
    ours._connection(call()).held["a"] = cast("Any", held)
    if refused:
        with pytest.raises(ReadOnlyError):
            ours.session(call(), params(**asked))
    else:
        assert ours.session(call(), params(**asked)) is held.session
        async with ours.borrowed(call(), params(**asked)) as session:
            assert session is held.session


@pytest.mark.parametrize(
    ("forward", "by"),
    [("never", "here"), ("handler", "here"), ("owner", "owner"), ("attach", "owner"), ("readsAhead", "owner")],
)
async def test_forward_says_who_answers_on_an_attached_session(serve: MakeService, forward: Forward, by: str) -> None:
    async def request(method: str, *_: Any) -> str:
        return "owner"

    async def here(*_: Any) -> str:
        return "here"

    async def answers_reads(_: Call) -> None:
        await asyncio.Event().wait()

    ours = serve({replace(PROBE, forward=forward): here})
    ours.attached(call())["a"] = cast("Any", SimpleNamespace(request=request, answers_reads=answers_reads))
    assert await ours.handle(NAME, params(), call()) == by
    assert await ours.handle(NAME, params(deleted_at="2026-01-01T00:00:00Z"), call()) == "here"
    assert await ours.handle(NAME, params("b"), call()) == "here"


async def test_forward_reads_go_ahead_once_the_owner_answers_one(serve: MakeService) -> None:
    release, told = asyncio.Event(), []

    async def request(method: str, *_: Any) -> None:
        if method == NAME:
            await release.wait()
        told.append(method)

    async def answers_reads(_: Call) -> None:
        return

    reading = replace(OTHER, mutates=False, forward="owner")
    ours = serve({replace(PROBE, order="blocks", forward="readsAhead"): done, reading: done})
    ours.attached(call())["a"] = cast("Any", SimpleNamespace(request=request, answers_reads=answers_reads))
    work = [
        asyncio.create_task(ours.handle(NAME, params(), call())),
        asyncio.create_task(ours.handle(reading.name, params(), call(reading))),
    ]
    await idle()
    assert told == [reading.name]
    release.set()
    await asyncio.gather(*work)


@pytest.mark.parametrize(("forward", "attaches"), [("owner", False), ("attach", True)])
async def test_forward_only_what_attaches_goes_to_the_owner_of_a_session_that_is_not_open(
    serve: MakeService, monkeypatch: pytest.MonkeyPatch, forward: Forward, attaches: bool
) -> None:
    async def locked(*_: Any) -> None:
        raise SessionLockedError("it is live elsewhere")

    async def request(method: str, *_: Any) -> str:
        return f"{method} by its owner"

    owner = SimpleNamespace(request=request)
    attachment = SimpleNamespace(for_one_request=lambda: contextlib.nullcontext(owner))
    monkeypatch.setattr(Service, "attachment", lambda *_, quiet: attachment)
    ours = serve({replace(PROBE, forward=forward): locked}, network=object())
    ours._store = cast("Any", SimpleNamespace(place=lambda *_: None))
    if attaches:
        assert await ours.handle(NAME, params(), call()) == f"{NAME} by its owner"
    else:
        with pytest.raises(SessionLockedError):
            await ours.handle(NAME, params(), call())


@pytest.mark.parametrize("counts", [False, True])
def test_session_id_counts_says_whether_a_repeat_names_the_same_session(serve: MakeService, counts: bool) -> None:
    row = replace(PROBE, session_id_counts=counts)
    serve({row: done})
    read = [PROBE.read_params({"sessionId": session_id, "title": "t", "requestId": "1"}) for session_id in ("a", "b")]
    first, second = map(row.fingerprint, read)
    assert (first != second) is counts
