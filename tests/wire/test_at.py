"""`context/at`: the checkpoint that led to a message or a time, and the state there."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.holding import present
from tests.support.matching import at_least
from tests.support.server import Message
from tests.support.session import Session, assistant, user


def plain(checkpoint: Message | None) -> Any:
    return None if checkpoint is None else (checkpoint["uid"], checkpoint["messageCount"])


@pytest.fixture
def told(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    session.append(user("before any checkpoint"))
    for number in range(2):
        session.checkpoint(label=f"turn {number}")
        session.append(user(f"question {number}"), assistant(f"answer {number}"))
        session.call("context/updateTokenCount", tokenCount=10 * (number + 1))
    return session


def test_every_message_has_the_checkpoint_before_it_and_the_one_after_it(told: Session) -> None:
    listed = told.get_state()["context"]["checkpoints"]
    first, second = ({name: one[name] for name in one if name not in ("summary", "name")} for one in listed)
    expected = [(None, first), (first, second), (first, second), (second, None), (second, None)]
    for index, (before, after) in enumerate(expected):
        found = told.call("context/at", index=index)
        assert (found["checkpoint"], found["nextCheckpoint"]) == (before, after)
        assert found["state"]["messageCount"] == index + 1
        assert "timelineId" not in found


def test_the_state_at_a_message_is_what_it_was_then(told: Session) -> None:
    told.call("context/setSystemPrompt", systemPrompt="be brief")
    told.append(user("last"))
    assert told.call("context/at", index=3)["state"] == {
        "messageCount": 4,
        "checkpointCount": 2,
        "tokenCount": 10,
        "systemPrompt": "be kind",
    }
    assert told.call("context/at", index=5)["state"] == at_least({"tokenCount": 20, "systemPrompt": "be brief"})


def test_a_revert_to_the_checkpoint_of_a_message_removes_it_and_no_turn_before_it(told: Session) -> None:
    uid = told.call("context/at", index=4)["checkpoint"]["uid"]
    assert told.call("context/revertTo", checkpointUid=uid)["context"]["messageCount"] == 3


def test_messages_of_a_timeline(told: Session) -> None:
    expected = told.call("context/at", index=4)
    told.call("context/revertTo", checkpointId=0)
    assert told.call("context/at", index=4, timelineId="context_1") == {**expected, "timelineId": "context_1"}
    assert told.refuse("context/at", index=4, timelineId="context_9")["code"] == 4009


def test_a_time_leads_to_the_log_and_the_checkpoint_of_then(session: Session) -> None:
    times = [present()]
    first = session.checkpoint()
    session.append(user("one"))
    times.append(present())
    second = session.checkpoint()
    session.append(user("two"))
    times.append(present())
    session.call("context/revertTo", checkpointId=1)
    times.append(present())
    third = session.checkpoint()
    session.append(user("three"))
    times.append(present())
    session.call("context/clear")
    times.append(present())
    found = [session.call("context/at", time=stamp) for stamp in times]
    assert [one.get("timelineId") for one in found] == ["context_1"] * 3 + ["context_2"] * 2 + [None]
    assert [plain(one["checkpoint"]) for one in found] == [
        None,
        *(plain(one) for one in (first, second, first, third)),
        None,
    ]
    assert [plain(one["nextCheckpoint"]) for one in found] == [
        *(plain(one) for one in (first, second, None, third)),
        None,
        None,
    ]
    # Where nothing was written to a log after a time, its state then is known; of the others, the checkpoint's is.
    assert [one["state"]["messageCount"] for one in found] == [0, 0, 2, 0, 2, 0]
    inside = session.call("context/at", time=times[1], timelineId="context_2")
    assert (inside["timelineId"], plain(inside["checkpoint"])) == ("context_2", plain(first))


def test_after_the_last_change_it_is_the_state_as_it_is(session: Session) -> None:
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    session.append(user("one"), assistant("two"))
    session.call("context/updateTokenCount", tokenCount=7)
    state = {"messageCount": 2, "checkpointCount": 0, "tokenCount": 7, "systemPrompt": "be kind"}
    assert session.call("context/at", time=present())["state"] == state
    assert session.call("context/at", time="2999-01-01T00:00:00Z")["state"] == state
    nothing = {"messageCount": 0, "checkpointCount": 0, "tokenCount": 0, "systemPrompt": None}
    assert session.call("context/at", time="2000-01-01T00:00:00Z")["state"] == nothing


def test_any_offset_from_utc_will_do(session: Session) -> None:
    made = session.checkpoint()
    session.append(user("x"))
    stamp = datetime.fromisoformat(made["createdAt"])
    for zone in ("+00:00", "+05:30", "-08:00"):
        moved = stamp.astimezone(datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo)
        assert session.call("context/at", time=moved.isoformat())["checkpoint"]["uid"] == made["uid"]
    before = (stamp - timedelta(milliseconds=1)).isoformat()
    assert session.call("context/at", time=before)["checkpoint"] is None


def test_checkpoints_without_a_time_count_with_the_next_one_that_has_one(start: StartServer) -> None:
    session = Session.open(start(), "old")
    session.call("session/close")
    lines = [f'{{"role": "_checkpoint", "id": {n}}}\n{{"role": "user", "content": "{n}"}}\n' for n in range(3)]
    session.put_log("".join(lines).encode())
    session = session.reopen(start())
    before = present()
    assert session.call("context/at", time=before)["checkpoint"]["id"] == 2
    made = session.checkpoint()
    assert session.call("context/at", time=present())["checkpoint"]["uid"] == made["uid"]
    assert session.call("context/at", time=before)["checkpoint"] is None, "they may have been written after that"
    assert session.call("context/at", time="2000-01-01T00:00:00Z")["checkpoint"] is None


@pytest.mark.parametrize(
    ("params", "loc"),
    [
        ({}, []),
        ({"index": 0, "time": "2000-01-01T00:00:00Z"}, []),
        ({"index": 5}, ["index"]),
        ({"index": -1}, ["index"]),
        ({"index": 2**60}, ["index"]),
        ({"time": "yesterday"}, ["time"]),
        ({"time": "2000-01-01T00:00:00"}, ["time"]),
        ({"time": ""}, ["time"]),
    ],
)
def test_what_is_no_moment_is_refused_by_name(told: Session, params: dict[str, Any], loc: list[str]) -> None:
    error = told.refuse("context/at", **params)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, loc)


def test_an_empty_log_has_no_moments(session: Session) -> None:
    nothing = {"messageCount": 0, "checkpointCount": 0, "tokenCount": 0, "systemPrompt": None}
    assert session.call("context/at", time=present()) == {"checkpoint": None, "nextCheckpoint": None, "state": nothing}
    assert session.refuse("context/at", index=0)["code"] == -32602
