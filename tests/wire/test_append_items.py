"""Checkpoints and token counts among the items of an append: one step, one write, one answer when it is asked again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.server import Server
from tests.support.session import Session, assistant, user

TURN: list[dict[str, Any]] = [
    {"checkpoint": {"label": "first"}},
    user("one"),
    assistant("two"),
    {"tokenCount": 120},
    {"checkpoint": {}},
    {"record": {"role": "_mode", "content": ""}},
    user("three"),
]


def append(session: Session, items: list[dict[str, Any]], **params: Any) -> dict[str, Any]:
    return session.call("context/appendMessage", messages=items, **params)


def _place(checkpoint: dict[str, Any]) -> tuple[Any, ...]:
    return checkpoint.get("label"), checkpoint["messageCount"], checkpoint["preview"]


def test_they_are_written_in_one_step_in_their_order_and_told_of(server: Server) -> None:
    session = Session.open(server)
    asked = session.start("context/appendMessage", messages=TURN)
    told = [message["params"] for message in asked.heard()]
    done = asked.reply()["result"]
    assert (done["firstIndex"], done["messageCount"]) == (0, 3)
    roles = ["_checkpoint", "user", "assistant", "_usage", "_checkpoint", "_mode", "user"]
    lines = session.lines()
    assert [line["role"] for line in lines] == roles
    assert len({line["_tl"]["b"] for line in lines}) == 1
    first, second, tokens, appended = told
    assert {(each["kind"], each["head"]) for each in told} == {
        (kind, done["head"]) for kind in ("checkpointCreated", "tokenCountUpdated", "messagesAppended")
    }
    assert [_place(each["checkpoint"]) for each in (first, second)] == [("first", 0, "one"), (None, 2, "three")]
    assert (tokens["tokenCount"], appended["firstIndex"], appended["count"]) == (120, 0, 3)
    state = session.call("session/getState")
    assert (state["context"]["tokenCount"], state["context"]["nCheckpoints"]) == (120, 2)
    listed = session.call("context/listCheckpoints", order="asc")["checkpoints"]
    assert list(map(_place, listed)) == [("first", 0, "one"), (None, 2, "three")]
    assert session.call("session/verify")["ok"] is True


@pytest.mark.parametrize("first", [TURN, TURN[3:], TURN[5:], [{"tokenCount": 7}], [{"checkpoint": {"label": "x"}}]])
def test_a_repeat_gets_the_answer_of_then_also_after_a_restart(server: Server, first: list[dict[str, Any]]) -> None:
    session = Session.open(server)
    append(session, [user("before")])
    done = append(session, first, requestId="r")
    append(session, [user("after")])
    for _ in range(2):
        again = append(session, first, requestId="r")
        assert again.pop("duplicate") is True
        assert {**again, "head": ""} == {**done, "head": ""}
        session.call("session/close")
        session = Session.open(server, session.id)
    assert len(session.lines()) == 2 + len(first)


def test_a_revert_to_one_of_them_takes_what_follows(server: Server) -> None:
    session = Session.open(server)
    append(session, TURN)
    second = session.call("context/listCheckpoints", order="desc")["checkpoints"][0]["uid"]
    session.call("context/revertTo", checkpointUid=second)
    assert session.history() == [user("one"), assistant("two")]
    session.call("context/undo")
    assert session.history() == [user("one"), assistant("two"), user("three")]


def test_with_automatic_checkpoints_each_has_its_own(server: Server) -> None:
    session = Session.open(server, autoCheckpoint="turn")
    append(
        session, [{"tokenCount": 1}, user("one"), {"checkpoint": {"label": "mine"}}, assistant("two"), user("three")]
    )
    listed = session.call("context/listCheckpoints", order="asc")["checkpoints"]
    assert [_place(each)[:2] for each in listed] == [("one", 0), ("mine", 1), ("three", 2)]


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ({"checkpoint": None}, ["checkpoint"]),
        ({"checkpoint": []}, ["checkpoint"]),
        ({"checkpoint": {"label": 5}}, ["checkpoint"]),
        ({"checkpoint": {"id": 1}}, ["checkpoint"]),
        ({"tokenCount": -1}, ["tokenCount"]),
        ({"tokenCount": True}, ["tokenCount"]),
        ({"tokenCount": 1.5}, ["tokenCount"]),
        ({"tokenCount": 2**53}, ["tokenCount"]),
        ({"tokenCount": None}, ["tokenCount"]),
        ({"tokenCount": 1, "checkpoint": {}}, ["role"]),
        ({"other": 1}, ["role"]),
        ({}, ["role"]),
    ],
)
def test_what_is_none_of_them_is_refused_by_its_place(server: Server, item: Any, place: list[str]) -> None:
    session = Session.open(server)
    error = session.refuse("context/appendMessage", messages=[user("go"), item])
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["loc"] == ["messages", 1, *place]
    assert session.lines() == []


def test_a_message_may_have_members_of_their_names(server: Server) -> None:
    session = Session.open(server)
    message = {**user("go"), "checkpoint": {"label": "x"}, "tokenCount": "many"}
    append(session, [message, {"tokenCount": 3}])
    assert session.history() == [message]
    assert [line["role"] for line in session.lines()] == ["user", "_usage"]
