"""Every announced limit, at one less, at it, and at one more; the next good request works."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Framing, dumps
from tests.support.server import Server
from tests.support.session import Session, user

FRAME = 64 << 20
RECORD = 32 << 20


@pytest.fixture(scope="module", autouse=True)
def announced(server: Server) -> None:
    pass


def padded_request(size: int, id: str) -> bytes:
    """A request of exactly `size` bytes."""
    request = {"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {"_meta": {"pad": ""}}}
    request["params"]["_meta"]["pad"] = "x" * (size - len(dumps(request)))  # type: ignore[index]
    body = dumps(request)
    assert len(body) == size
    return body


@pytest.mark.parametrize("size", [FRAME - 1, FRAME])
def test_a_frame_up_to_the_limit_is_served(server: Server, size: int) -> None:
    pending = server.expect("session/list", f"f{size}")
    server.send_body(padded_request(size, pending.id))  # type: ignore[arg-type]
    assert "sessions" in pending.result()


@pytest.mark.parametrize("size", [FRAME + 1, FRAME + 5_000_000])
def test_a_frame_over_the_limit_is_drained_and_answered_with_4011(server: Server, size: int) -> None:
    before = len(server.received)
    server.send_body(padded_request(size, "over"))
    answer = server.wait_for(lambda m: "method" not in m, since=before)
    assert (answer["id"], answer["error"]["code"]) == (None, 4011)
    assert "sessions" in server.call("session/list", limit=1)


def record_of(size: int) -> dict[str, Any]:
    message = user("")
    message["content"] = "x" * (size - len(dumps(message)))
    assert len(dumps(message)) == size
    return message


@pytest.mark.parametrize("size", [RECORD - 1, RECORD])
@pytest.mark.long
def test_a_record_up_to_the_limit_is_stored(server: Server, size: int) -> None:
    session = Session.open(server)
    message = record_of(size)
    assert session.call("context/appendMessage", message=message)["messageCount"] == 1
    assert session.history() == [message]
    server.call("session/delete", sessionId=session.id)


@pytest.mark.long
def test_a_record_over_the_limit_is_refused_and_nothing_written(server: Server, session: Session) -> None:
    error = session.refuse("context/appendMessage", message=record_of(RECORD + 1))
    assert (error["code"], error["data"]["kind"]) == (4011, "tooLarge")
    assert session.refuse("context/appendMessage", messages=[user("a"), record_of(RECORD + 1)])["code"] == 4011
    assert session.get_state()["context"]["messageCount"] == 0
    session.say("next")
    assert session.texts() == ["next"]


def nested(levels: int, kind: str) -> dict[str, Any]:
    """A message whose nesting is `levels`, its own braces included."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value] if kind == "array" else {"a": value}
    return {"role": "user", "content": "x", "deep": value}


@pytest.mark.parametrize("kind", ["array", "object"])
@pytest.mark.parametrize("levels", [127, 128])
def test_nesting_up_to_the_limit_is_stored(session: Session, levels: int, kind: str) -> None:
    message = nested(levels, kind)
    session.append(message)
    assert session.history() == [message]
    assert session.records()[0]["deep"] == message["deep"]


@pytest.mark.parametrize("kind", ["array", "object"])
@pytest.mark.parametrize("levels", [129, 500])
def test_nesting_over_the_limit_is_refused(session: Session, levels: int, kind: str) -> None:
    assert session.refuse("context/appendMessage", message=nested(levels, kind))["code"] == 4011
    assert session.refuse("context/appendMessage", messages=[user("a"), nested(levels, kind)])["code"] == 4011
    assert session.history() == []


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("session/list", {}),
        ("session/listTrash", {}),
        ("context/listUsage", {"session": True}),
        ("context/listCheckpoints", {"session": True}),
        ("context/getHistory", {"session": True}),
        ("context/getRecords", {"session": True}),
        ("context/listTimelines", {"session": True}),
    ],
)
def test_a_page_is_1_to_1000_entries(session: Session, method: str, extra: dict[str, Any]) -> None:
    params = {"sessionId": session.id} if extra else {}
    for limit in (1, 999, 1000):
        assert session.server.call(method, **params, limit=limit)
    for limit in (0, -1, 1001, 10**30):
        error = session.server.refuse(method, **params, limit=limit)
        assert error["code"] == -32602
        assert [problem["loc"] for problem in error["data"]["errors"]] == [["limit"]]


@pytest.mark.parametrize(
    "method",
    [
        "session/list",
        "session/listTrash",
        "context/listUsage",
        "context/listCheckpoints",
        "context/getHistory",
        "context/listTimelines",
    ],
)
@pytest.mark.parametrize("cursor", ["", "x", "0", "-1", "AAAA", "é", "x" * 10_000])
def test_unknown_cursors_are_refused(session: Session, method: str, cursor: str) -> None:
    params = {} if method.startswith("session/") else {"sessionId": session.id}
    error = session.server.refuse(method, **params, cursor=cursor)
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["cursor"]]


def test_a_fast_client_is_slowed_down_and_not_refused(start: StartServer, framing: Framing) -> None:
    server = start(framing, failpoints="append.after_write=sleep:0.2")
    session = Session.open(server)
    appended = [session.start("context/appendMessage", message=user(str(n))) for n in range(3000)]
    assert [pending.result(60)["firstIndex"] for pending in appended] == list(range(3000))
    state = session.get_state()["context"]
    assert state["messageCount"] == 3000


def test_request_ids_are_up_to_64_characters(session: Session) -> None:
    assert session.call("context/appendMessage", message=user("x"), requestId="r" * 64)
    error = session.refuse("context/appendMessage", message=user("x"), requestId="r" * 65)
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["requestId"]]
    assert session.get_state()["context"]["messageCount"] == 1
