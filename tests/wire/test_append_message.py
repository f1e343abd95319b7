"""`context/appendMessage`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING, HEAD, at_least
from tests.support.server import Server
from tests.support.session import Session, assistant, user


def test_one_message_is_one_compact_line_and_nothing_more(session: Session) -> None:
    before = session.head
    result = session.call("context/appendMessage", message=user("hello"))
    assert result == {
        "head": HEAD,
        "firstIndex": 0,
        "messageCount": 1,
        "tokenCountWithPending": 1,
        "shouldCompact": False,
    }
    assert result["head"] == session.head != before
    assert session.log.read_bytes() == b'{"role":"user","content":"hello"}\n'


def test_several_messages_are_one_step_marked_on_disk_and_invisible_on_the_wire(session: Session) -> None:
    session.say("zero")
    messages = [assistant("one"), {"role": "tool", "content": "two", "tool_call_id": "c"}, user("three")]
    result = session.append(*messages)
    assert result == at_least({"firstIndex": 1, "messageCount": 4})
    assert session.history() == [user("zero"), *messages]
    lines = session.lines()
    marks = [record.pop("_tl") for record in lines[1:]]
    assert lines == [user("zero"), *messages]
    assert len({mark["b"] for mark in marks}) == 1
    assert [(mark["i"], mark["n"]) for mark in marks] == [(0, 3), (1, 3), (2, 3)]


def test_a_list_of_one_needs_no_mark(session: Session) -> None:
    session.append(user("hello"))
    assert session.log.read_bytes() == b'{"role":"user","content":"hello"}\n'


@pytest.mark.parametrize(
    "params",
    [{}, {"messages": []}, {"message": user("x"), "messages": [user("y")]}, {"message": None}, {"messages": None}],
)
def test_exactly_one_of_message_and_messages(session: Session, params: dict[str, Any]) -> None:
    error = session.refuse("context/appendMessage", **params)
    assert error["code"] == -32602 and "message" in error["message"]
    assert session.history() == []


def test_unknown_members_values_and_key_order_are_kept(session: Session) -> None:
    message = {
        "zeta": [1, 2.5, None, True, {"b": 1, "a": 2}],
        "content": [{"text": "x", "type": "text", "cache_control": {"type": "ephemeral"}}, {"type": "future", "x": []}],
        "role": "assistant",
        "name": None,
        "alpha": {"nested": {"deep": "\u2028"}},
        "tool_calls": [
            {"function": {"arguments": "{}", "name": "f"}, "id": "1", "type": "function", "extras": {"k": 1}}
        ],
    }
    session.append(message)
    kept = session.history()[0]
    assert kept == message and list(kept) == list(message)
    assert list(kept["zeta"][4]) == ["b", "a"] and list(kept["content"][0]) == ["text", "type", "cache_control"]
    assert session.lines() == [message] and list(session.lines()[0]) == list(message)


def test_white_space_of_the_request_is_not_stored(server: Server, session: Session) -> None:
    pending = server.expect("context/appendMessage", "spaced")
    body = '{ "jsonrpc" : "2.0", "id" : "spaced", "method" : "context/appendMessage", "params" : { "sessionId" : "%s",'
    server.send_body((body % session.id + ' "message" : {\t"role" :  "user" , "content":"a  b" } } }').encode())
    assert pending.result()["messageCount"] == 1
    assert session.log.read_bytes() == b'{"role":"user","content":"a  b"}\n'


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": "x"},
        {"role": "", "content": "x"},
        {"role": None, "content": "x"},
        {"role": 1, "content": "x"},
        {"role": ["user"], "content": "x"},
        {"role": "_usage", "token_count": 5},
        {"role": "_checkpoint", "id": 0},
        {"role": "_system_prompt", "content": "x"},
        {"role": "_", "content": "x"},
        {"role": "_anything", "content": "x"},
    ],
)
def test_a_role_is_a_string_that_does_not_begin_with_an_underscore(session: Session, message: dict[str, Any]) -> None:
    error = session.refuse("context/appendMessage", message=message)
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["message", "role"]]
    error = session.refuse("context/appendMessage", messages=[user("a"), message])
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["messages", 1, "role"]]
    assert session.history() == []


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (1, []),
        (True, []),
        ({}, []),
        ({"type": "text"}, []),
        (["x"], [0]),
        ([{"type": "text", "text": "x"}, None], [1]),
        ([{}], [0, "type"]),
        ([{"text": "x"}], [0, "type"]),
        ([{"type": 1}], [0, "type"]),
        ([{"type": None}], [0, "type"]),
        ([[]], [0]),
    ],
)
def test_content_is_text_null_or_a_list_of_parts(session: Session, content: Any, where: list[Any]) -> None:
    error = session.refuse("context/appendMessage", message={"role": "user", "content": content})
    assert error["code"] == -32602
    location = error["data"]["errors"][0]["loc"]
    assert location[: 2 + len(where)] == ["message", "content", *where] or location == [
        "message",
        "content",
        *where[:1],
    ]
    assert session.history() == []


@pytest.mark.parametrize(
    "content", ["", "x", None, [], [{"type": "text", "text": ""}], [{"type": "unheard of", "x": 1}]]
)
def test_content_in_its_allowed_forms_is_kept(session: Session, content: Any) -> None:
    session.append({"role": "user", "content": content})
    assert session.history() == [{"role": "user", "content": content}]


def test_a_message_without_content_is_kept(session: Session) -> None:
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]}
    session.append(message)
    assert session.history() == [message]


@pytest.mark.parametrize("message", [1, "x", [], [user("x")], True])
def test_a_message_is_an_object(session: Session, message: Any) -> None:
    assert session.refuse("context/appendMessage", message=message)["code"] == -32602
    assert session.refuse("context/appendMessage", messages=[message])["code"] == -32602
    assert session.refuse("context/appendMessage", messages=user("x"))["code"] == -32602


def test_the_reserved_key_is_refused(session: Session) -> None:
    error = session.refuse("context/appendMessage", message={**user("x"), "_tl": {"u": "forged"}})
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["message", "_tl"]]
    assert session.refuse("context/appendMessage", messages=[user("a"), {**user("x"), "_tl": 1}])["code"] == -32602
    assert session.history() == []


def test_the_reserved_key_deeper_down_is_data(session: Session) -> None:
    message = {**user('"_tl":{'), "x": {"_tl": {"u": 1}}}
    session.append(message)
    session.append(message, message)
    assert session.history() == [message] * 3


def test_one_bad_message_refuses_the_whole_list(session: Session) -> None:
    session.refuse("context/appendMessage", messages=[user("a"), user("b"), {"role": "_x"}])
    assert session.history() == [] and session.log.read_bytes() == b""


@pytest.mark.parametrize(
    "message",
    [{"role": "robot", "content": "x"}, {"role": "user", "content": [{"type": "hologram"}]}],
)
def test_what_the_original_cannot_read_is_stored_and_reported_once(server: Server, message: dict[str, Any]) -> None:
    session = Session.open(server)
    session.append(message)
    session.append(message)
    assert session.history() == [message, message]
    warnings = [w for w in session.get_state()["warnings"] if w["kind"] == "notReadableByOriginal"]
    assert len(warnings) in (1, 2) and warnings[0] == at_least({"message": A_STRING})
    session.call("session/close")
    again = session.reopen(server)
    assert [w for w in again.state["warnings"] if w["kind"] == "notReadableByOriginal"] == warnings


def test_pending_tokens_are_a_quarter_of_the_characters_of_text_rounded_down_once(session: Session) -> None:
    totals = [
        session.append(message)["tokenCountWithPending"]
        for message in (
            user("abc"),
            assistant("abc"),
            user("😀😀"),
            {"role": "assistant", "content": [{"type": "think", "think": "x" * 400}, {"type": "text", "text": "abcd"}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:" + "x" * 400}}]},
            {"role": "tool", "content": "日本語", "tool_call_id": "1"},
        )
    ]
    assert totals == [0, 1, 2, 3, 3, 3]


def test_pending_tokens_start_again_at_a_usage_record(session: Session) -> None:
    session.say("x" * 400)
    session.call("context/updateTokenCount", tokenCount=50)
    assert session.append(user("x" * 40))["tokenCountWithPending"] == 60


def test_should_compact_speaks_up_at_the_trigger(start: StartServer) -> None:
    server = start(options={"maxContextSize": 1000, "reservedContextSize": 0})
    session = Session.open(server)
    assert session.append(user("x" * 4 * 849))["shouldCompact"] is False
    before = len(server.received)
    assert session.append(user("x" * 4))["shouldCompact"] is True
    assert server.heard("context/compactionSuggested", since=before) == at_least(
        {"sessionId": session.id, "tokenCountWithPending": 850}
    )
    before = len(server.received)
    assert session.append(user("more"))["shouldCompact"] is True
    assert [m["method"] for m in server.notifications(before)] == ["context/didChange"]


def test_compaction_is_not_suggested_for_a_conversation_that_is_compacted_by_its_agent(start: StartServer) -> None:
    server = start(options={"maxContextSize": 1000, "reservedContextSize": 0})
    session = Session.open(server, source={"kind": "claude-code", "key": '["p", "s"]'})
    before = len(server.received)
    assert session.append(user("x" * 4000))["shouldCompact"] is True
    assert [m["method"] for m in server.notifications(before)] == ["context/didChange"]


def test_the_reserve_triggers_too_where_it_is_smaller_than_half(start: StartServer) -> None:
    session = Session.open(start(options={"maxContextSize": 1000, "reservedContextSize": 400}))
    assert session.append(user("x" * 4 * 599))["shouldCompact"] is False
    assert session.append(user("x" * 4))["shouldCompact"] is True


def test_a_small_window_does_not_compact_for_ever(start: StartServer) -> None:
    session = Session.open(start(options={"maxContextSize": 1000}))
    assert session.append(user("x" * 400))["shouldCompact"] is False


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_batches_of_any_size(session: Session, count: int) -> None:
    messages = [user(str(number)) for number in range(count)]
    assert session.append(*messages)["messageCount"] == count
    assert session.history() == messages


def test_large_and_awkward_texts_come_back_exactly(session: Session) -> None:
    texts = ["x" * 3_000_000, "\\" * 1000, '"' * 1000, "\u0000\u0001\u001f", "😀" * 10_000, "\r\n\r\n", "\u2028" * 9]
    session.append(*map(user, texts))
    assert session.texts() == texts
