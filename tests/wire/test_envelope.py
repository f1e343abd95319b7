"""The JSON-RPC envelope: ids, params, batches, unknown members, duplicates in flight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Framing
from tests.support.holding import Hold
from tests.support.matching import A_LIST, A_STRING, at_least, containing
from tests.support.server import Server
from tests.support.session import Session, user


def answer_to(server: Server, message: Any) -> Any:
    """The next message after sending `message`, whatever its id."""
    before = len(server.received)
    server.send(message)
    return server.wait_for(lambda reply: "method" not in reply, since=before)


def invalid_request(id: Any = None) -> Any:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "error": {
            "code": -32600,
            "message": A_STRING,
            "data": at_least({"kind": "invalidRequest", "retryable": False}),
        },
    }


@pytest.mark.parametrize(
    "id", [0, 1, -1, 2**31, 2**53 + 1, -(2**63), 10**30, "", "1", "a b", "日本", "x" * 1000, "\u2028"]
)
def test_the_id_comes_back_verbatim(server: Server, id: Any) -> None:
    assert server.start_with("session/list", {}, id=id).reply() == {
        "jsonrpc": "2.0",
        "id": id,
        "result": {"sessions": A_LIST},
    }


def test_string_and_integer_ids_are_different(server: Server) -> None:
    number, string = server.start_with("session/list", {}, id=70), server.start_with("session/list", {}, id="70")
    assert number.reply()["id"] == 70 and string.reply()["id"] == "70"


@pytest.mark.parametrize("id", [None, True, False, 1.5, [], [1], {}, {"a": 1}])
def test_an_id_that_is_no_string_or_integer_is_refused(server: Server, id: Any) -> None:
    assert answer_to(server, {"jsonrpc": "2.0", "id": id, "method": "session/list"}) == invalid_request()
    assert server.call("session/list", limit=1)


@pytest.mark.parametrize(
    "message",
    [
        [],
        [1, 2],
        [{"jsonrpc": "2.0", "id": 1, "method": "session/list"}],
        [{"jsonrpc": "2.0", "method": "initialized"}],
    ],
)
def test_batches_are_refused_as_a_whole(start: StartServer, framing: Framing, message: Any) -> None:
    server = start(framing)
    assert answer_to(server, message) == invalid_request()
    assert server.call("session/list") == {"sessions": []}


@pytest.mark.parametrize("message", [1, "x", None, True, 1.5])
def test_scalars_are_refused(start: StartServer, framing: Framing, message: Any) -> None:
    server = start(framing)
    assert answer_to(server, message) == invalid_request()
    assert server.call("session/list") == {"sessions": []}


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"id": 7},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "id": 7},
        {"id": 7, "method": "session/list"},
        {"jsonrpc": "1.0", "id": 7, "method": "session/list"},
        {"jsonrpc": 2.0, "id": 7, "method": "session/list"},
        {"jsonrpc": None, "id": 7, "method": "session/list"},
        {"jsonrpc": "2.0", "id": 7, "method": 1},
        {"jsonrpc": "2.0", "id": 7, "method": None},
        {"jsonrpc": "2.0", "id": 7, "method": {"a": 1}},
        {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": 1},
        {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": "x"},
        {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": True},
    ],
)
def test_a_broken_envelope_is_refused_under_its_id_where_that_is_usable(server: Server, message: Any) -> None:
    reply = answer_to(server, message)
    assert reply["error"]["code"] in (-32600, -32602)
    assert reply["id"] in (None, message.get("id"))
    if "method" in message and "id" in message:
        assert reply["id"] == 7
    assert server.call("session/list", limit=1)


@pytest.mark.parametrize("params", ["missing", None, {}, []])
def test_no_params_in_any_form_mean_none(server: Server, params: Any) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": f"none {params}", "method": "session/list"}
    pending = server.expect("session/list", message["id"])
    server.send(message if params == "missing" else {**message, "params": params})
    assert pending.result() == {"sessions": A_LIST} or "nextCursor" in pending.result()


@pytest.mark.parametrize("params", ["missing", None, {}, []])
def test_a_required_param_that_is_missing_is_named(server: Server, params: Any) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": f"required {params}", "method": "session/getState"}
    pending = server.expect("session/getState", message["id"])
    server.send(message if params == "missing" else {**message, "params": params})
    error = pending.error()
    assert error["code"] == -32602 and error["message"] == containing("sessionId")
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["sessionId"]]


@pytest.mark.parametrize("params", [["s"], [1], [None], [{}], [[]]])
def test_positional_params_are_refused(server: Server, params: Any) -> None:
    assert server.start_with("session/list", params).error()["code"] == -32602


def test_unknown_members_of_the_envelope_do_no_harm(server: Server) -> None:
    message = {"jsonrpc": "2.0", "id": "extra", "method": "session/list", "params": {}, "trace": 1, "meta": {"a": []}}
    pending = server.expect("session/list", "extra")
    server.send(message)
    assert pending.result() == at_least({"sessions": A_LIST})


@pytest.mark.parametrize(
    "method", ["no/such", "session/Open", "session/open ", "", "__class__", "textDocument/hover", "$/x"]
)
def test_an_unknown_request_is_methodNotFound(server: Server, method: str) -> None:
    error = server.refuse(method)
    assert error == {
        "code": -32601,
        "message": A_STRING,
        "data": at_least({"kind": "methodNotFound", "retryable": False}),
    }


@pytest.mark.parametrize(
    "method", ["no/such", "$/unheard", "textDocument/didOpen", "$/setTrace", "$/progress", "exit2"]
)
def test_unknown_notifications_are_ignored(server: Server, method: str) -> None:
    before = len(server.received)
    server.notify(method, anything=[1, {"a": None}])
    assert server.call("session/list", limit=1)
    assert len(server.received) == before + 1


def test_a_notification_is_never_answered_even_when_it_is_wrong(server: Server) -> None:
    before = len(server.received)
    server.notify("session/open", access="sideways")
    server.notify("$/cancelRequest")
    server.notify("$/cancelRequest", id={"a": 1})
    server.notify("$/cancelRequest", id="never sent")
    server.notify("initialized", a=1)
    server.send({"jsonrpc": "2.0", "method": "initialized", "params": [1]})
    assert server.call("session/list", limit=1)
    assert [message.get("id") for message in server.received[before:-1] if "method" not in message] == []


def test_replies_nobody_asked_for_are_ignored(server: Server) -> None:
    before = len(server.received)
    server.send({"jsonrpc": "2.0", "id": 12345, "result": {}})
    server.send({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "x"}})
    server.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}})
    assert server.call("session/list", limit=1)
    assert len(server.received) == before + 1


def test_an_id_already_in_flight_is_refused_and_the_first_is_answered(
    start: StartServer, framing: Framing, tmp_path: Path
) -> None:
    hold = Hold("append.after_write", tmp_path)
    server = start(framing, failpoints=hold.failpoints)
    session = Session.open(server)
    before = len(server.received)
    first = session.server.start_with(
        "context/appendMessage", {"sessionId": session.id, "message": user("1")}, id="same"
    )
    hold.wait()
    server.start_with("context/appendMessage", {"sessionId": session.id, "message": user("2")}, id="same")
    refused = server.wait_for(lambda m: m.get("id") == "same" and "error" in m, since=before)
    hold.release()
    answered = server.wait_for(lambda m: m.get("id") == "same" and "result" in m, since=before)
    assert refused["error"]["code"] == -32600
    assert answered["result"]["messageCount"] == 1
    assert first.id == "same"
    assert server.call("session/list")["sessions"][0]["messageCount"] == 1


def test_an_id_is_free_again_after_its_reply(server: Server) -> None:
    for _ in range(3):
        assert server.start_with("session/list", {"limit": 1}, id="again").reply()["id"] == "again"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/list", {"limt": 5}),
        ("session/open", {"sessionID": "x"}),
        ("session/open", {"session_id": "x"}),
        ("context/appendMessage", {"sessionId": "x", "message": {"role": "user"}, "mesage": 1}),
        ("context/getHistory", {"sessionId": "x", "From": 1}),
        ("context/getHistory", {"sessionId": "x", "from_": 1}),
        ("session/listTrash", {"__proto__": {}}),
    ],
)
def test_an_unknown_param_is_refused_by_name(server: Server, method: str, params: dict[str, Any]) -> None:
    unknown = next(name for name in params if name not in ("sessionId", "message"))
    error = server.refuse(method, **params)
    assert error["code"] == -32602 and error["message"] == containing(unknown)
    assert [unknown] in [problem["loc"] for problem in error["data"]["errors"]]


def test_tokens_and_meta_are_accepted_by_every_method(server: Server) -> None:
    tokens = {"workDoneToken": "w", "partialResultToken": 7, "_meta": {"any": [1, {"x": None}]}}
    methods = server.call("rpc.discover")["methods"]
    for method in methods:
        name = method["name"]
        if name in ("initialize", "shutdown", "exit", "initialized"):
            continue
        reply = server.start_with(name, tokens).reply()
        locations = [problem["loc"] for problem in reply.get("error", {}).get("data", {}).get("errors", [])]
        assert not [loc for loc in locations if loc[:1] and loc[0] in tokens], (name, reply)


@pytest.mark.parametrize("number", ["3.0", "3e0", "30e-1", "3", "0.3e1"])
def test_integers_may_be_written_like_fractions(server: Server, number: str) -> None:
    pending = server.expect("session/list", f"n{number}")
    server.send_body(
        f'{{"jsonrpc":"2.0","id":"n{number}","method":"session/list","params":{{"limit":{number}}}}}'.encode()
    )
    assert pending.result() == at_least({"sessions": A_LIST})


def test_1e15_counts_as_an_integer(server: Server, session: Session) -> None:
    pending = server.expect("context/updateTokenCount", "1e15")
    server.send_body(
        f'{{"jsonrpc":"2.0","id":"1e15","method":"context/updateTokenCount",'
        f'"params":{{"sessionId":"{session.id}","tokenCount":1e15}}}}'.encode()
    )
    assert pending.result()["tokenCount"] == 10**15
    assert session.lines() == [{"role": "_usage", "token_count": 10**15}]


@pytest.mark.parametrize("limit", [3.5, "3", True, [3], {}])
def test_what_is_no_integer_is_refused_where_one_is_asked_for(server: Server, limit: Any) -> None:
    reply = server.start_with("session/list", {"limit": limit}).reply()
    assert reply["error"]["code"] == -32602
    assert [problem["loc"] for problem in reply["error"]["data"]["errors"]] == [["limit"]]


def test_a_trace_tells_of_requests_while_it_is_on(server: Server) -> None:
    for value, traced in (("messages", 1), ("verbose", 1), ("off", 0), ("sideways", 0)):
        server.notify("$/setTrace", value=value)
        pending = server.start("session/list", limit=1)
        assert [message["method"] for message in pending.heard()] == ["$/logTrace"] * traced, value
