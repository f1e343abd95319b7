"""`context/checkpoint` and `context/listCheckpoints`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.matching import HEAD, TIME, UID
from tests.support.session import Session, assistant, user

EMPTY = {"kind": "empty", "text": "", "messages": 0}


def test_a_checkpoint_has_number_uid_time_and_counts(session: Session) -> None:
    session.say("a", "b")
    session.call("context/updateTokenCount", tokenCount=9)
    result = session.call("context/checkpoint", label="before the storm")
    assert result == {
        "head": HEAD,
        "checkpoint": {
            "id": 0,
            "uid": UID,
            "label": "before the storm",
            "createdAt": TIME,
            "messageCount": 2,
            "tokenCount": 9,
        },
    }
    record = session.lines()[-1]
    assert (record["role"], record["id"]) == ("_checkpoint", 0)
    assert session.history() == [user("a"), user("b")]
    assert session.get_state()["context"]["nCheckpoints"] == 1


def test_ids_count_up_and_uids_differ(session: Session) -> None:
    made = [session.checkpoint() for _ in range(5)]
    assert [checkpoint["id"] for checkpoint in made] == [0, 1, 2, 3, 4]
    assert len({checkpoint["uid"] for checkpoint in made}) == 5


def test_the_user_message_follows_as_one_step(session: Session) -> None:
    session.checkpoint()
    result = session.call("context/checkpoint", addUserMessage=True)
    assert result["checkpoint"]["id"] == 1
    (message,) = session.history()
    assert message["role"] == "user"
    assert message["content"] in (
        "<system>CHECKPOINT 1</system>",
        [{"type": "text", "text": "<system>CHECKPOINT 1</system>"}],
    )
    assert [line["role"] for line in session.lines()] == ["_checkpoint", "_checkpoint", "user"]
    assert {line["_tl"]["b"] for line in session.lines()[1:]} != {None}


def test_the_preview_is_the_beginning_of_the_next_message(session: Session) -> None:
    first = session.checkpoint()
    session.append({"role": "user", "content": [{"type": "text", "text": "é" * 300}]})
    session.checkpoint()
    session.append(assistant("short"))
    last = session.checkpoint()
    listed = session.call("context/listCheckpoints", order="asc")["checkpoints"]
    assert [checkpoint.get("preview") for checkpoint in listed] == ["é" * 120, "short", None]
    assert listed[0] == {**first, "preview": "é" * 120, "summary": listed[0]["summary"], "name": "é" * 199 + "…"}
    assert listed[2] == {**last, "summary": EMPTY}


def test_lists_go_newest_first_unless_asked_otherwise_and_by_pages(session: Session) -> None:
    for number in range(5):
        session.checkpoint(label=str(number))
    ids = lambda page: [checkpoint["id"] for checkpoint in page["checkpoints"]]  # noqa: E731
    assert ids(session.call("context/listCheckpoints")) == [4, 3, 2, 1, 0]
    assert ids(session.call("context/listCheckpoints", order="asc")) == [0, 1, 2, 3, 4]
    for order, expected in (("desc", [4, 3, 2, 1, 0]), ("asc", [0, 1, 2, 3, 4])):
        page = session.call("context/listCheckpoints", order=order, limit=2)
        found = ids(page)
        while "nextCursor" in page:
            page = session.call("context/listCheckpoints", order=order, limit=2, cursor=page["nextCursor"])
            found += ids(page)
        assert found == expected


def test_a_state_holds_the_newest_50_oldest_first(session: Session) -> None:
    for _ in range(60):
        session.checkpoint()
    context = session.get_state()["context"]
    assert [checkpoint["id"] for checkpoint in context["checkpoints"]] == list(range(10, 60))
    assert (context["checkpointsOmitted"], context["nCheckpoints"]) == (10, 60)


def test_checkpoints_of_a_timeline(session: Session) -> None:
    session.checkpoint(label="a")
    session.say("x")
    session.checkpoint(label="b")
    before = session.call("context/listCheckpoints")
    timeline = session.call("context/clear")["timelineId"]
    assert session.call("context/listCheckpoints") == {"checkpoints": []}
    assert session.call("context/listCheckpoints", timelineId=timeline) == before
    assert session.refuse("context/listCheckpoints", timelineId="context_9")["code"] == 4009
    assert session.refuse("context/listCheckpoints", timelineId="../../x")["code"] == 4009


@pytest.mark.parametrize("params", [{"order": "up"}, {"timelineId": 1}, {"cursor": 1}])
def test_params_of_the_wrong_type_are_refused_by_name(session: Session, params: dict[str, Any]) -> None:
    error = session.refuse("context/listCheckpoints", **params)
    assert error["code"] == -32602
    assert [problem["loc"][0] for problem in error["data"]["errors"]] == list(params)


@pytest.mark.parametrize("params", [{"label": 1}, {"addUserMessage": "yes"}, {"addUserMessage": 1}])
def test_a_checkpoint_with_params_of_the_wrong_type_is_not_made(session: Session, params: dict[str, Any]) -> None:
    error = session.refuse("context/checkpoint", **params)
    assert error["code"] == -32602
    assert session.records() == []


def test_uids_survive_a_reopening(session: Session) -> None:
    made = [session.checkpoint(label=str(n)) for n in range(3)]
    session.call("session/close")
    again = session.reopen(session.server)
    listed = again.call("context/listCheckpoints", order="asc")["checkpoints"]
    assert listed == [{**checkpoint, "summary": EMPTY, "name": checkpoint["label"]} for checkpoint in made]
