"""`context/getHistory` with `format`: the whole history as the body of a request to a model's provider, or an error."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.providers import accepted
from tests.support.server import Message
from tests.support.session import Session, assistant, user

BOTH = ("openai", "anthropic")


def calling(call: str) -> Message:
    function = {"name": "look", "arguments": '{"at": "it"}'}
    return {**assistant("I look."), "tool_calls": [{"type": "function", "id": call, "function": function}]}


def result(call: str) -> Message:
    return {"role": "tool", "content": "seen", "tool_call_id": call}


@pytest.fixture
def told(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    session.append(user("one"), calling("a"), result("a"))
    session.checkpoint(addUserMessage=True)
    session.call("context/updateTokenCount", tokenCount=9)
    session.append({**calling("b"), "partial": True, "foo": 1})
    session.call("context/setSystemPrompt", systemPrompt="be brief")
    session.append(user("two"))
    return session


def roles(body: Message) -> list[str]:
    return [message["role"] for message in body["messages"]]


def test_the_whole_history_with_the_prompt_in_force(told: Session) -> None:
    found = told.call("context/getHistory", format="openai")
    assert (found["messages"], found["format"]) == ([], "openai")
    body = accepted("openai", found["body"])
    assert body["messages"][0] == {"role": "system", "content": "be brief"}
    assert roles(body)[1:] == ["user", "assistant", "tool", "user", "assistant", "tool", "user"]
    assert [(loss["index"], loss["kind"]) for loss in found["losses"]] == [(4, "openCall")]
    assert found["lossCount"] == 1
    found = told.call("context/getHistory", format="anthropic", order="asc")
    assert accepted("anthropic", found["body"])["system"] == "be brief"
    assert roles(found["body"]) == ["user", "assistant", "user", "assistant", "user"]


def test_a_part_of_it_has_the_prompt_of_that_time(told: Session) -> None:
    found = told.call("context/getHistory", format="openai", **{"from": 1, "to": 4})
    assert roles(accepted("openai", found["body"])) == ["system", "assistant", "tool", "user"]
    assert found["body"]["messages"][0]["content"] == "be kind"
    assert found["losses"] == []
    uid = told.get_state()["context"]["checkpoints"][0]["uid"]
    found = told.call("context/getHistory", format="anthropic", checkpointUid=uid)
    assert roles(accepted("anthropic", found["body"])) == ["user", "assistant", "user"]
    assert found["body"]["system"] == "be brief"


def test_a_range_that_begins_with_results_has_their_call_missing(told: Session) -> None:
    found = told.call("context/getHistory", format="openai", **{"from": 2, "to": 3})
    assert roles(accepted("openai", found["body"])) == ["system", "user"]
    assert [(loss["index"], loss["kind"]) for loss in found["losses"]] == [(2, "orphanResult")]


@pytest.mark.parametrize("format_", BOTH)
def test_a_timelines(told: Session, format_: str) -> None:
    present = told.call("context/getHistory", format=format_)
    timeline = told.call("context/revertTo", checkpointId=0)["timelineId"]
    assert told.call("context/getHistory", format=format_, timelineId=timeline) == present
    assert told.call("context/getHistory", format=format_) != present
    assert told.refuse("context/getHistory", format=format_, timelineId="context_9")["code"] == 4009


@pytest.mark.parametrize("format_", BOTH)
def test_an_empty_history(session: Session, format_: str) -> None:
    found = session.call("context/getHistory", format=format_)
    accepted(format_, found["body"])
    assert [loss["kind"] for loss in found["losses"]] == ["userAdded"]
    assert "index" not in found["losses"][0]


@pytest.mark.parametrize(
    "params",
    [
        {"format": "gemini"},
        *({"format": "openai", **one} for one in ({"limit": 5}, {"order": "desc"})),
    ],
)
def test_params_that_make_no_sense_are_refused(told: Session, params: dict[str, Any]) -> None:
    error = told.refuse("context/getHistory", **params)
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["loc"] == [list(params)[-1]]


def test_a_cursor_is_refused(told: Session) -> None:
    cursor = told.call("context/getHistory", limit=1)["nextCursor"]
    assert told.refuse("context/getHistory", format="openai", cursor=cursor)["data"]["errors"][0]["loc"] == ["cursor"]


@pytest.mark.parametrize("format_", BOTH)
def test_what_is_larger_than_asked_for_is_refused_not_cut(told: Session, format_: str) -> None:
    whole = told.call("context/getHistory", format=format_)
    for size in (1, 200, 500):
        error = told.refuse("context/getHistory", format=format_, maxBytes=size)
        assert (error["code"], error["data"]["kind"]) == (4011, "tooLarge")
        assert (error["data"]["limit"], error["data"]["maximum"]) == ("maxBytes", size)
    assert told.call("context/getHistory", format=format_, maxBytes=5000) == whole


def test_more_than_a_body_may_have_is_refused_whatever_is_asked_for(session: Session) -> None:
    for _ in range(4):
        session.append(user("x" * (9 << 20)))
    for size in ({}, {"maxBytes": 1 << 40}):
        error = session.refuse("context/getHistory", format="openai", **size)
        assert (error["code"], error["data"]["maximum"]) == (4011, 32 << 20)
    body = session.call("context/getHistory", format="openai", to=3)["body"]
    assert sum(len(message["content"]) for message in body["messages"]) == 27 << 20


def test_through_another_process_and_from_another_programs_log(start: StartServer) -> None:
    owner = Session.open(start(), "s")
    owner.append(user("one"))
    attached = Session.open(start(), "s")
    assert attached.state["access"] == "attached"
    assert attached.call("context/getHistory", format="openai")["body"] == {"messages": [user("one")]}
    owner.call("session/close")
    attached.call("session/close")
    with owner.log.open("ab") as log:
        log.write(b'{"role":"assistant","content":[{"type":"text","text":"\\ud83d"}],"x":NaN}\n')
    again = Session.open(start(), "s")
    assert again.call("context/getHistory", format="openai")["body"]["messages"][1] == assistant("�")


def test_what_is_damaged_is_left_out_and_told(session: Session) -> None:
    session.append(user("one"))
    session.append(user("two"))
    session.call("context/clear")
    timeline = session.path / "context_1.jsonl"
    timeline.write_bytes(timeline.read_bytes().replace(b"one", b"0ne"))
    found = session.call("context/getHistory", format="openai", timelineId="context_1")
    assert found["body"] == {"messages": [{"role": "user", "content": "two"}]}
    assert [one["kind"] for one in found["losses"]] == ["damaged"]
    part = session.call("context/getHistory", format="openai", timelineId="context_1", **{"from": 1})
    assert "damaged" not in [one["kind"] for one in part["losses"]]
