"""One connection in-process: envelope, ids, order, cancellation, back-pressure, lifecycle, requests to the client."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
import pytest
from tests.support.holding import PATIENCE
from tests.support.turns import Clock, idle, until
from tests.unit.rpc.edge import Edge, change, read, request

from timeleap.errors import ClientRequestError
from timeleap.rpc import client_process, codec, protocol
from timeleap.rpc import connection as connection_module
from timeleap.rpc.connection import ExitCode, Stage
from timeleap.rpc.errors import to_wire


@pytest.fixture
async def edge() -> Edge:
    return await Edge().ready()


# Envelope


@pytest.mark.parametrize(
    ("body", "code", "message_id"),
    [
        ("{not json", -32700, None),
        ("[]", -32600, None),
        ('[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600, None),
        ("5", -32600, None),
        ('"x"', -32600, None),
        ("{}", -32600, None),
        ('{"jsonrpc":"1.0","id":7,"method":"session/list"}', -32600, 7),
        ('{"id":7,"method":"session/list"}', -32600, 7),
        ('{"jsonrpc":2.0,"id":7,"method":"session/list"}', -32600, 7),
        ('{"jsonrpc":"2.0","id":null,"method":"session/list"}', -32600, None),
        ('{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600, None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"session/list"}', -32600, None),
        ('{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600, None),
        ('{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7),
        ('{"jsonrpc":"2.0","id":7}', -32600, None),
        ('{"id":7}', -32600, None),
        ('{"jsonrpc":"2.0","id":7,"method":"no/such"}', -32601, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"$/unknown"}', -32601, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"textDocument/hover","params":{}}', -32601, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"session/list","params":[1]}', -32602, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"session/list","params":"x"}', -32602, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"session/list","params":0}', -32602, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"session/list","params":{"nope":1}}', -32602, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"session/list","params":{"x":NaN}}', -32700, None),
        ('{"jsonrpc":"2.0","id":7,"method":"session/list","params":{"x":1e999}}', -32602, 7),
        ('{"jsonrpc":"2.0","id":"é","method":"initialize"}', -32600, "é"),
    ],
)
async def test_bad_input_is_answered_and_the_next_request_works(
    edge: Edge, body: str, code: int, message_id: Any
) -> None:
    edge.raw(body.encode() + b"\n")
    (reply,) = await edge.settle()
    assert set(reply) == {"jsonrpc", "id", "error"}
    assert (reply["error"]["code"], reply["id"]) == (code, message_id)
    assert set(reply["error"]) == {"code", "message", "data"}
    assert {"kind", "retryable"} <= set(reply["error"]["data"])
    if code == -32602:
        assert all(set(entry) == {"loc", "msg", "type"} for entry in reply["error"]["data"]["errors"])
    edge.order("next", "fine")
    assert (await edge.reply("next"))["result"] == {"sessionId": "s", "action": "fine"}


@pytest.mark.parametrize("params", ["", ',"params":null', ',"params":{}', ',"params":[]'])
async def test_no_params_in_all_their_forms(edge: Edge, params: str) -> None:
    edge.raw(b'{"jsonrpc":"2.0","id":1,"method":"session/list"%s}\n' % params.encode())
    assert (await edge.reply(1))["result"] == {}


@pytest.mark.parametrize("message_id", [0, -1, 2**53, 10**40, "", "1", "a\u2028b\n", "x" * 1000])
async def test_ids_come_back_as_they_were(edge: Edge, message_id: Any) -> None:
    edge.order(message_id, "fine")
    reply = await edge.reply(message_id)
    assert type(reply["id"]) is type(message_id)


async def test_one_and_the_string_1_are_two_ids(edge: Edge) -> None:
    edge.send(read(1, "wait"), read("1", "wait"))
    await edge.settle()
    assert edge.received == []
    edge.service.release.set()
    assert len(await edge.settle()) == 2


async def test_a_request_that_quotes_an_rpc_message_is_only_data(edge: Edge) -> None:
    inner = {"jsonrpc": "2.0", "id": 9, "method": "exit", "class": 1, "_x": 2, "type_name": 3, "a-b": 4}
    edge.request(1, "context/appendMessage", {"sessionId": "s", "message": {"role": "user", "content": "", "x": inner}})
    assert (await edge.reply(1))["result"]["message"]["x"] == inner


async def test_notifications_are_never_answered(edge: Edge) -> None:
    edge.notify("textDocument/didOpen", {"textDocument": {"uri": "file:///x", "text": "y"}})
    edge.notify("$/unknown")
    edge.notify("session/setTitle", {"bad": 1})
    edge.notify("$/cancelRequest", {"id": [1]})
    edge.notify("$/cancelRequest")
    edge.notify("$/setTrace", {"value": 7})
    edge.raw(b'{"jsonrpc":"2.0","method":"x","params":[1]}\n')
    edge.raw(b'{"jsonrpc":"2.0","method":"x","params":1e999}\n')
    assert await edge.settle() == []
    edge.order("next", "fine")
    assert "result" in await edge.reply("next")


async def test_a_duplicate_id_in_flight_is_refused_and_the_first_one_answered(edge: Edge) -> None:
    edge.send(read(5, "wait"), read(5, "fine"))
    (refusal,) = await edge.settle()
    assert (refusal["id"], refusal["error"]["code"]) == (5, -32600)
    edge.service.release.set()
    replies = await edge.settle()
    assert replies[1]["result"]["action"] == "wait"
    edge.order(5, "again")
    assert (await edge.settle())[2]["result"]["action"] == "again"


async def test_an_oversized_frame_costs_only_itself() -> None:
    edge = await Edge(max_frame_bytes=1000).ready()
    edge.order(1, "x" * 2000)
    edge.order(2, "fine")
    replies = await edge.settle()
    assert [(reply["id"], reply.get("error", {}).get("code")) for reply in replies] == [(None, 4011), (2, None)]


async def test_a_lost_stream_ends_the_connection_after_what_was_accepted() -> None:
    edge = Edge()
    body = json.dumps(request(1, "initialize")).encode()
    edge.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    await idle()
    body = json.dumps(read(2, "wait")).encode()
    edge.raw(b"Content-Length: %d\r\n\r\n%bContent-Length: x\r\n\r\n" % (len(body), body))
    edge.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    await edge.release()
    assert edge.connection.exit_code == ExitCode.STREAM_LOST
    assert edge.transport.reading is False
    frames = edge.transport.written.split(b"Content-Length: ")[2:]
    assert [json.loads(frame.split(b"\r\n\r\n")[1]).get("id") for frame in frames] == [None, 2]


async def test_what_is_neither_framing_gets_one_error() -> None:
    edge = Edge()
    edge.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    (reply,) = edge.received
    assert (reply["id"], reply["error"]["code"]) == (None, -32700)
    assert edge.connection.exit_code == ExitCode.STREAM_LOST


async def test_a_fault_while_reading_costs_one_message(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(decode: Callable[[bytes], Any], body: bytes) -> Any:
        if b"heavy" in body:
            raise MemoryError(body)
        return decode(body)

    for module, reading in ((connection_module, "decode_request"), (codec, "_decode")):
        monkeypatch.setattr(module, reading, partial(failing, getattr(module, reading)))
    edge.send(read(1, "heavy"), read(2, "fine"))
    replies = await edge.settle()
    assert [(reply["id"], reply.get("error", {}).get("code")) for reply in replies] == [(None, -32603), (2, None)]
    assert "heavy" not in caplog.text


# Replies


async def test_raw_values_are_spliced(edge: Edge) -> None:
    edge.order(1, 'raw:{"a" :  1}')
    await edge.settle()
    assert b'{"spliced":{"a" :  1}}' in edge.transport.written


async def test_a_lone_surrogate_in_a_result_is_kept(edge: Edge) -> None:
    edge.order(1, "surrogate")
    assert (await edge.reply(1))["result"] == {"text": "\ud83d", "raw": {"a": 1}}


async def test_a_result_without_a_json_form_is_an_internal_error(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    edge.order(1, "set")
    error = (await edge.reply(1))["error"]
    assert error["code"] == -32603
    assert error["data"]["incident"] in caplog.text


async def test_an_error_is_answered_where_no_incident_can_be_named(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(length: int) -> str:
        raise NotImplementedError("the system has no random numbers")

    monkeypatch.setattr("timeleap.rpc.errors.new_uid", refuse)
    edge.order(1, "fail:secret")
    edge.order(2, "x")
    assert (await edge.reply(1))["error"]["data"]["kind"] == "internalError"
    assert "result" in await edge.reply(2)
    assert "has lost its details to NotImplementedError" in caplog.text and "secret" not in caplog.text


async def test_an_unexpected_error_leaves_an_incident_and_nothing_else(
    edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    edge.order(1, "fail:secret")
    error = (await edge.reply(1))["error"]
    assert (error["code"], error["data"]["kind"]) == (-32603, "internalError")
    assert "secret" not in json.dumps(error)
    assert "Traceback" not in json.dumps(error)
    assert error["data"]["incident"] in caplog.text
    assert "fake_server.py" in caplog.text
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


async def test_an_error_whose_details_have_no_json_form_is_still_that_error(edge: Edge) -> None:
    edge.order(1, "odd")
    error = (await edge.reply(1))["error"]
    assert error == {"code": -32602, "message": "odd details", "data": {"kind": "invalidParams", "retryable": False}}


async def test_an_error_of_the_operating_system_is_a_storage_failure(edge: Edge) -> None:
    edge.order(1, "oserror")
    error = (await edge.reply(1))["error"]
    assert (error["code"], error["data"]["errno"], error["data"]["path"]) == (4005, "ENOSPC", "somewhere")


async def test_nothing_of_a_message_is_logged(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("pygls").setLevel(logging.WARNING)
    params = {"sessionId": "s", "message": {"role": "user", "content": "confidential"}}
    edge.request(1, "context/appendMessage", params)
    edge.request(2, "context/appendMessage", {**params, "confidential": 1, "message": "confidential"})
    edge.request(3, "confidential/method")
    edge.notify("unknown", {"a": "confidential"})
    edge.raw(b'{"confidential\n')
    edge.raw(b'{"jsonrpc":"2.0","id":4,"method":"x","params":{"a":"confidential","b":1e999}}\n')
    assert len(await edge.settle()) == 5
    assert "confidential" not in caplog.text


async def test_replies_of_one_turn_are_one_write(edge: Edge) -> None:
    edge.transport.writes = 0
    edge.send(*[change(n, "fine") for n in range(20)])
    assert len(await edge.settle()) == 20
    assert edge.transport.writes == 1


# Order


async def test_requests_begin_in_order_of_arrival(edge: Edge) -> None:
    count = 500
    edge.send(*[change(n, f"t{n}") for n in range(count)])
    await edge.settle()
    begun = [order for what, _, order in edge.service.log if what == "begin"]
    assert begun == [f"t{n}" for n in range(count)]


async def test_a_slow_request_does_not_hold_up_others(edge: Edge) -> None:
    edge.send(read(1, "wait"), read(2, "fine"))
    assert [reply["id"] for reply in await edge.settle()] == [2]
    edge.service.release.set()
    assert [reply["id"] for reply in await edge.settle()] == [2, 1]


async def test_a_notification_leaves_before_the_reply_that_follows(edge: Edge) -> None:
    edge.send(read(1, "notify:a"), read(2, "notify:b"))
    received = await edge.settle()
    assert [m.get("id") or m["params"]["sessionId"] for m in received] == ["a", 1, "b", 2]


async def test_requests_may_follow_initialize_at_once() -> None:
    edge = Edge()
    edge.send(
        request(1, "initialize", {"initializationOptions": {"slow": True}}),
        read(2, "fine"),
        {"jsonrpc": "2.0", "method": "initialized"},
        read(3, "fine"),
    )
    assert await edge.settle() == []
    assert edge.service.log == []
    edge.service.release.set()
    assert [reply["id"] for reply in await edge.settle()] == [1, 2, 3]
    assert all("result" in reply for reply in edge.received)


async def test_requests_behind_an_initialize_that_fails_are_refused() -> None:
    edge = Edge()
    edge.send(request(1, "initialize", {"initializationOptions": {"durability": 7}}), read(2, "fine"))
    assert [reply["error"]["code"] for reply in await edge.settle()] == [-32602, -32002]


# Cancellation


async def test_a_read_can_be_cancelled(edge: Edge) -> None:
    edge.order(1, "wait")
    await edge.settle()
    edge.notify("$/cancelRequest", {"id": 1})
    assert (await edge.reply(1))["error"]["code"] == -32800
    assert ("end", "session/isApproved", "wait") in edge.service.log
    edge.order(1, "fine")
    assert "result" in (await edge.settle())[1]


async def test_a_change_cancelled_before_it_begins_does_nothing(edge: Edge) -> None:
    edge.send(request(2, "session/list", {}), change(1, "never"))
    edge.notify("$/cancelRequest", {"id": 1})
    assert len(edge.connection._rpc.running) == 2
    error = (await edge.reply(1))["error"]
    assert (error["code"], error["data"]["kind"]) == (-32800, "cancelled")
    assert not any("never" in line for line in edge.service.log)


async def test_what_can_begin_at_once_does_not_overtake_what_needs_a_task(edge: Edge) -> None:
    edge.send(change(1, "first"), request(2, "session/list", {}), change(3, "third"))
    assert [entry[1] for entry in edge.service.log] == ["session/setTitle", "session/setTitle"]  # begun, and at its end
    await edge.settle()
    begun = [method for what, method, _ in edge.service.log if what == "begin"]
    assert begun == ["session/setTitle", "session/list", "session/setTitle"]


async def test_a_request_that_begins_at_once_can_be_cancelled_in_the_same_turn(edge: Edge) -> None:
    edge.order(1, "wait")  # at work already
    edge.notify("$/cancelRequest", {"id": 1})
    assert (await edge.reply(1))["error"]["code"] == -32800
    assert ("end", "session/isApproved", "wait") in edge.service.log
    assert len(edge.connection._rpc.running) == 0


async def test_a_change_that_has_begun_gets_its_real_result(edge: Edge) -> None:
    edge.send(change(1, "wait"))
    await edge.settle()
    edge.notify("$/cancelRequest", {"id": 1})
    assert await edge.settle() == []
    edge.service.release.set()
    assert (await edge.reply(1))["result"]["title"] == "wait"


@pytest.mark.parametrize("method", ["session/close", "session/reload"])
async def test_what_must_not_be_left_half_done_is_finished(edge: Edge, method: str) -> None:
    edge.service.hold = True
    edge.request(1, method, {"sessionId": "s"})
    await edge.settle()
    edge.notify("$/cancelRequest", {"id": 1})
    assert await edge.settle() == []
    edge.service.release.set()
    assert "result" in await edge.reply(1)


async def test_the_id_of_a_cancellation_has_a_type(edge: Edge) -> None:
    edge.order(1, "wait")
    edge.notify("$/cancelRequest", {"id": "1"})
    assert await edge.settle() == []
    edge.service.release.set()
    assert "result" in await edge.reply(1)


async def test_what_waits_in_the_inbox_can_be_cancelled() -> None:
    edge = await Edge(max_in_flight=1).ready()
    edge.send(change(1, "wait"), change(2, "never"), change(3, "fine"))
    edge.notify("$/cancelRequest", {"id": "3"})
    edge.notify("$/cancelRequest", {"id": 2})
    assert [(reply["id"], reply["error"]["code"]) for reply in await edge.settle()] == [(2, -32800)]
    edge.service.release.set()
    assert {reply["id"] for reply in await edge.settle()} == {1, 2, 3}
    assert ("begin", "session/setTitle", "never") not in edge.service.log


# Back-pressure


async def test_a_fast_client_is_slowed_down_not_refused() -> None:
    edge = await Edge(max_in_flight=4).ready()
    edge.send(*[read(n, "wait") for n in range(50)])
    await edge.settle()
    assert len(edge.service.log) == 4
    assert edge.transport.reading is False
    edge.service.release.set()
    assert len(await edge.settle()) == 50
    assert all("result" in reply for reply in edge.received)
    assert edge.transport.reading is True


async def test_nothing_begins_while_the_client_does_not_read(edge: Edge) -> None:
    edge.connection.pause_writing()
    assert edge.transport.reading is False
    edge.order(1, "fine")
    await edge.settle()
    assert edge.service.log == []
    edge.connection.resume_writing()
    assert "result" in await edge.reply(1)
    assert edge.transport.reading is True


async def test_a_request_is_finished_though_its_client_goes_while_it_begins(edge: Edge) -> None:
    edge.send(read(1, "fine"), read(2, "lose"))
    assert not edge.connection.finished.done()
    edge.service.release.set()
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    assert edge.service.log[-1] == ("end", "session/isApproved", "lose")


async def test_a_burst_begins_in_slices(edge: Edge) -> None:
    edge.send(*[change(n, "fine") for n in range(200)])
    assert len(edge.received) == connection_module.SLICE
    edge.connection.pause_writing()
    await edge.settle()
    assert len(edge.received) < 100
    edge.connection.resume_writing()
    assert len(await edge.settle()) == 200


async def test_an_answer_is_read_though_the_limit_is_reached() -> None:
    edge = await Edge(max_in_flight=2).ready()
    edge.send(change(1, "ask"), change(2, "wait"), change(3, "fine"), change(4, "release"))
    (asked,) = await edge.settle()
    assert asked["method"] == "context/summarize"
    assert edge.transport.reading is True
    edge.send({"jsonrpc": "2.0", "id": asked["id"], "result": "summary"})
    assert (await edge.reply(1))["result"] == "summary"
    assert (await edge.reply(4))["result"]
    assert len(await edge.settle()) == 5


async def test_what_is_read_while_an_answer_is_awaited_is_bounded() -> None:
    edge = await Edge(max_in_flight=1, max_frame_bytes=2000).ready()
    edge.send(change(1, "ask"))
    await edge.settle()
    edge.send(*[change(n, "x" * 100) for n in range(2, 7)])
    assert edge.transport.reading is True
    edge.send(*[change(n, "x" * 100) for n in range(7, 27)])
    assert edge.transport.reading is False
    edge.connection.eof_received()
    await asyncio.wait_for(edge.connection.finished, PATIENCE)


async def test_large_replies_are_begun_a_few_at_a_time(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "MAX_WEIGHT", 8 * protocol.FIRST_GUESS)
    edge.send(*[read(n, "wait") for n in range(100)])
    await edge.settle()
    assert len(edge.service.log) == 8, "nobody knows yet how large these replies are"
    edge.service.release.set()
    assert len(await edge.settle()) == 100
    edge.service.release.clear()
    edge.send(*[read(n, "wait") for n in range(100)])
    await edge.settle()
    assert len(edge.connection._rpc.running) == 100, "small, as it turned out"
    edge.service.release.set()
    await edge.settle()
    assert edge.connection._rpc.weight == 0
    edge.order("big", f"big:{2 * protocol.FIRST_GUESS}")
    await edge.reply("big")
    edge.service.release.clear()
    edge.send(*[read(n, "wait") for n in range(100)])
    await edge.settle()
    assert len(edge.connection._rpc.running) == 4
    edge.service.release.set()
    await edge.settle()


async def test_large_requests_are_begun_a_few_at_a_time(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "MAX_WEIGHT", 10_000)
    edge.send(*[change(n, "wait:" + "x" * 4000) for n in range(10)])
    await edge.settle()
    assert len(edge.connection._rpc.running) == 3
    edge.service.release.set()
    assert len(await edge.settle()) == 10


# Requests to the client


async def test_the_client_is_asked(edge: Edge) -> None:
    edge.order(1, "ask")
    (asked,) = await edge.settle()
    assert asked == {"jsonrpc": "2.0", "id": asked["id"], "method": "context/summarize", "params": {"n": 1}}
    edge.send({"jsonrpc": "2.0", "id": asked["id"], "result": None})
    assert (await edge.reply(1))["result"] is None


async def test_an_id_of_the_clients_is_never_taken_for_ours(edge: Edge) -> None:
    edge.order("a", "ask")
    asked = (await edge.settle())[0]
    edge.order(asked["id"], "fine")
    assert (await edge.settle())[1]["result"]["action"] == "fine"
    edge.send({"jsonrpc": "2.0", "id": asked["id"], "result": 5})
    assert (await edge.reply("a"))["result"] == 5


@pytest.mark.parametrize("error", [{"code": 1, "message": "no model"}, "odd", {}, {"code": "x", "message": 7}])
async def test_a_refusal_of_the_client_reaches_who_asked(edge: Edge, error: Any) -> None:
    task = asyncio.create_task(edge.connection.request("context/summarize", {}, timeout=PATIENCE))
    asked = (await edge.settle())[0]
    edge.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
    with pytest.raises(ClientRequestError) as caught:
        await task
    assert caught.value.data["reason"] == "refused"


async def test_a_late_answer_is_ignored(edge: Edge) -> None:
    with pytest.raises(ClientRequestError) as caught:
        await edge.connection.request("context/summarize", {}, timeout=0.01)
    assert caught.value.data["reason"] == "timeout"
    asked, cancelled = await edge.settle()
    assert cancelled["method"] == "$/cancelRequest"
    assert cancelled["params"] == {"id": asked["id"]}
    edge.send({"jsonrpc": "2.0", "id": asked["id"], "result": 1}, {"jsonrpc": "2.0", "id": "never", "result": 1})
    edge.send({"jsonrpc": "2.0", "id": None, "error": {}}, {"jsonrpc": "2.0", "id": [], "error": {}}, {"result": 1})
    edge.order(1, "fine")
    assert "result" in await edge.reply(1)
    assert len(edge.received) == 3


async def test_who_waits_for_the_client_is_told_when_it_goes(edge: Edge) -> None:
    edge.order(1, "ask")
    await edge.settle()
    edge.connection.eof_received()
    assert (await edge.reply(1))["error"]["code"] == -32603
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    with pytest.raises(ClientRequestError):
        await edge.connection.request("context/summarize", {}, timeout=PATIENCE)


# Progress and trace


def progress(received: list[Any]) -> list[tuple[Any, str]]:
    return [(m["params"]["token"], m["params"]["value"]["kind"]) for m in received if m.get("method") == "$/progress"]


@pytest.mark.parametrize("token", ["t", 7])
async def test_progress_begins_reports_and_ends_before_the_reply(
    edge: Edge, token: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "PROGRESS_INTERVAL", 0.0)
    params = {"sessionId": "s", "title": "progress", "workDoneToken": token}
    edge.request(1, "session/open", params)
    reply = await edge.reply(1)
    assert progress(edge.received) == [(token, kind) for kind in ("begin", "report", "report", "end")]
    assert edge.received[-1] == reply
    assert edge.received[1]["params"]["value"] == {"kind": "report", "message": "half way", "percentage": 50}


async def test_nothing_is_reported_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "PROGRESS_INTERVAL", 0.0)
    told: list[Any] = []
    work = protocol.WorkDone(lambda method, params: told.append(params["value"]["kind"]), "t", "title")
    work.report("in time")
    await asyncio.to_thread(work.report, "on its way when the end comes")
    work.end()
    work.end()
    work.report("late")
    await idle()
    assert told in (["begin", "report", "end"], ["begin", "report", "report", "end"])


async def test_reports_are_not_sent_more_often_than_anybody_can_see(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch)
    edge.request(1, "session/open", {"sessionId": "s", "title": "progress", "workDoneToken": 1})
    await edge.reply(1)
    assert progress(edge.received) == [(1, "begin"), (1, "end")]


async def test_progress_ends_though_the_request_fails(edge: Edge) -> None:
    edge.request(1, "session/open", {"sessionId": "s", "title": "fail", "workDoneToken": 1})
    assert "error" in await edge.reply(1)
    assert progress(edge.received) == [(1, "begin"), (1, "end")]


async def test_no_progress_unless_asked_for_and_announced(edge: Edge) -> None:
    edge.request(1, "session/open", {"sessionId": "s", "title": "progress"})
    edge.request(2, "session/setTitle", {"sessionId": "s", "title": "progress", "workDoneToken": 1})
    await edge.reply(2)
    assert progress(edge.received) == []


async def test_traces_tell_of_methods_and_times_only(edge: Edge) -> None:
    edge.notify("$/setTrace", {"value": "verbose"})
    edge.order(1, "content")
    edge.order(2, "fail")
    traces = [m["params"] for m in await edge.settle() if m.get("method") == "$/logTrace"]
    assert [set(trace) for trace in traces] == [{"message", "verbose"}] * 2
    assert traces[0]["message"].startswith("session/isApproved (1) answered after")
    assert "content" not in json.dumps(traces)
    edge.notify("$/setTrace", {"value": "off"})
    edge.order(3, "fine")
    assert (await edge.settle())[-2].get("id") == 2


# Lifecycle


async def test_before_initialize_only_discover_is_answered() -> None:
    edge = Edge()
    edge.notify("textDocument/didOpen")
    edge.send(read(1, "fine"), request(2, "shutdown"), request(3, "no/such"), request(4, "rpc.discover"))
    replies = {reply["id"]: reply for reply in await edge.settle()}
    assert [replies[n]["error"]["code"] for n in (1, 2, 3)] == [-32002] * 3
    assert replies[4]["result"]["openrpc"]
    await edge.ready()


async def test_initialize_announces_what_there_is() -> None:
    edge = Edge()
    edge.request(1, "initialize", {"initializationOptions": {"xyz": 1}})
    result = (await edge.reply(1))["result"]
    timeleap = result["capabilities"]["experimental"]["timeleap"]
    assert result["serverInfo"]["name"] == "timeleap"
    assert timeleap["protocolVersion"] == 1
    assert "message" in timeleap["methods"]["context/appendMessage"]["params"]
    assert timeleap["limits"]["maxInFlight"] == 1024
    assert timeleap["warnings"] == ["unknown option xyz"]


@pytest.mark.parametrize(
    "params",
    [
        {"capabilities": 7},
        {"capabilities": {"experimental": {"timeleap": {"summarize": "yes", "protocolVersion": "two"}}}},
        {"clientInfo": 7},
        {"clientInfo": {"name": 7}},
        {"trace": "loud"},
        {"processId": None, "rootUri": None, "workspaceFolders": "x", "locale": 5},
        {"initializationOptions": None},
        {"capabilities": {"experimental": {"timeleap": {"protocolVersion": 1.0}}}},
    ],
)
async def test_what_a_client_says_of_itself_is_taken_leniently(params: Any) -> None:
    edge = await Edge().ready(**params)
    assert (edge.connection.name, edge.connection.can_summarize) == (None, False)


async def test_what_a_client_can() -> None:
    capabilities = {"experimental": {"timeleap": {"summarize": True, "protocolVersion": 1}}}
    edge = await Edge().ready(clientInfo={"name": "editor"}, capabilities=capabilities, trace="messages")
    assert (edge.connection.name, edge.connection.can_summarize) == ("editor", True)
    edge.order(1, "fine")
    assert any(m.get("method") == "$/logTrace" for m in await edge.settle())


async def test_another_protocol_version_is_refused_and_may_be_corrected() -> None:
    edge = Edge()
    edge.request(1, "initialize", {"capabilities": {"experimental": {"timeleap": {"protocolVersion": 2}}}})
    assert (await edge.reply(1))["error"]["code"] == 4017
    await edge.ready()


@pytest.mark.parametrize("options", [[1], "x", 7])
async def test_options_that_are_no_object_are_refused(options: Any) -> None:
    edge = Edge()
    edge.request(1, "initialize", {"initializationOptions": options})
    error = (await edge.reply(1))["error"]
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["initializationOptions"])
    await edge.ready()


async def test_an_unusable_home_is_reported_and_ends_the_process() -> None:
    edge = Edge()
    edge.request(1, "initialize", {"initializationOptions": {"home": "unusable"}})
    assert (await edge.reply(1))["error"]["code"] == 4005
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    assert edge.connection.exit_code == ExitCode.STORAGE_FAILURE


async def test_shutdown_waits_for_what_was_accepted(edge: Edge) -> None:
    edge.send(change(1, "wait"), request(2, "shutdown"), read(3, "fine"))
    assert [(reply["id"], reply["error"]["code"]) for reply in await edge.settle()] == [(3, -32600)]
    edge.service.release.set()
    assert [reply["id"] for reply in await edge.settle()] == [3, 1, 2]
    assert edge.received[-1]["result"] is None
    edge.request(4, "shutdown")
    assert (await edge.reply(4))["error"]["code"] == -32600
    edge.notify("exit")
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    assert edge.connection.exit_code == ExitCode.CLEAN


@pytest.mark.parametrize("handshake", [True, False])
async def test_exit_without_shutdown(handshake: bool) -> None:
    edge = Edge()
    if handshake:
        await edge.ready()
    edge.send({"jsonrpc": "2.0", "method": "exit"}, read(1, "fine"))
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    assert edge.connection.exit_code == ExitCode.NO_SHUTDOWN
    assert edge.service.log == []


async def test_exit_waits_for_what_was_accepted(edge: Edge) -> None:
    edge.send(change(1, "wait"), {"jsonrpc": "2.0", "method": "exit"})
    await edge.release()
    assert edge.received[0]["id"] == 1


@pytest.mark.parametrize("at_once", [2, 20])
async def test_the_end_of_input_finishes_what_was_accepted(at_once: int) -> None:
    edge = await Edge(max_in_flight=at_once).ready()
    edge.send(*[change(n, "wait") for n in range(10)])
    edge.raw(json.dumps(change(10, "last line without an end")).encode())
    edge.connection.eof_received()
    await edge.settle()
    assert not edge.connection.finished.done()
    await edge.release()
    assert sorted(reply["id"] for reply in edge.received) == list(range(11))
    assert edge.connection.exit_code == ExitCode.CLEAN


async def test_a_client_that_no_longer_reads_does_not_stop_what_was_accepted(edge: Edge) -> None:
    edge.send(change(1, "wait"))
    edge.connection.pause_writing()
    edge.send(change(2, "last"))
    edge.connection.connection_lost(BrokenPipeError())
    await edge.release()
    assert ("end", "session/setTitle", "last") in edge.service.log
    assert edge.connection.exit_code == ExitCode.STREAM_LOST
    edge.connection.notify("session/didChange", {})


async def test_the_process_of_the_client_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_process, "WATCH_INTERVAL", 0.01)
    seen, look = 0, psutil.Process.is_running

    def looking(process: psutil.Process) -> bool:
        nonlocal seen
        seen += 1
        return look(process)

    monkeypatch.setattr(psutil.Process, "is_running", looking)
    client = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    edge = await Edge().ready(processId=client.pid)
    await until(lambda: seen > 3)
    assert not edge.connection.finished.done()
    client.kill()  # and not waited for: a zombie counts as gone
    await asyncio.wait_for(edge.connection.finished, PATIENCE)
    assert edge.connection.exit_code == ExitCode.CLEAN
    client.communicate()


@pytest.mark.parametrize("process_id", [2**22 - 1, 2**31, 2**53 - 1])
async def test_a_process_that_is_not_seen_here_ends_nothing(monkeypatch: pytest.MonkeyPatch, process_id: int) -> None:
    """It is one of another container or machine, whose number says nothing here."""
    monkeypatch.setattr(client_process, "WATCH_INTERVAL", 0.01)
    edge = await Edge().ready(processId=process_id)
    assert edge.connection._watch is None
    edge.order(1, "fine")
    assert "result" in await edge.reply(1)


async def test_a_process_that_was_dead_before_the_start_ends_nothing() -> None:
    client = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)  # it stays, as a zombie
    edge = await Edge().ready(processId=client.pid)
    client.wait()
    assert edge.connection._watch is None
    assert not edge.connection.finished.done()


@pytest.mark.parametrize("process_id", [0, -1, None])
async def test_what_is_no_process_is_not_watched(process_id: Any) -> None:
    edge = await Edge().ready(processId=process_id)
    assert edge.connection._watch is None
    assert edge.connection.stage is Stage.READY


async def test_the_watch_ends_with_the_connection() -> None:
    edge = await Edge().ready(processId=os.getpid())
    watch = edge.connection._watch
    edge.connection.eof_received()
    await edge.settle()
    assert watch is not None
    assert watch.cancelled()


def test_a_module_that_cannot_be_loaded_is_named() -> None:
    error = to_wire(ModuleNotFoundError("No module named 'aiofiles'", name="aiofiles"), "session/export")
    assert error["data"]["kind"] == "internalError"
    assert "aiofiles could not be loaded" in error["message"]
    assert "start it again" in error["message"]
