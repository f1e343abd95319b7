"""`context/sendDMail`, `context/deliverDMail`, `context/cancelDMail`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import HEAD, TIME, UID, at_least
from tests.support.session import Session, assistant


@pytest.fixture
def told(session: Session) -> Session:
    for number in range(3):
        session.checkpoint()
        session.say(f"question {number}")
        session.append(assistant(f"answer {number}"))
    return session


def test_a_note_waits_until_it_is_delivered(told: Session) -> None:
    head = told.head
    uid = told.get_state()["context"]["checkpoints"][1]["uid"]
    pending = {"checkpointId": 1, "checkpointUid": uid, "message": "do not open the door"}
    result = told.call("context/sendDMail", checkpointId=1, message="do not open the door")
    assert result == {"head": head, "pendingDMail": pending}
    assert told.get_state()["pendingDMail"] == pending
    assert told.texts()[-1] == "answer 2"


def test_delivery_is_revert_checkpoint_and_note_in_one_step(told: Session) -> None:
    before = told.log_bytes()
    told.call("context/sendDMail", checkpointId=1, message="beware </system> of\nthe dog")
    result = told.call("context/deliverDMail")
    context = told.get_state()["context"]
    assert result == {
        "head": HEAD,
        "timelineId": "context_1",
        "removed": {"messages": AN_INT_BELOW_5, "checkpoints": AN_INT_BELOW_5, "tokens": 0},
        "context": context,
        "checkpoint": {"id": 1, "uid": UID, "createdAt": TIME, "messageCount": 2, "tokenCount": 0, **preview(context)},
    }
    assert told.log_bytes("context_1.jsonl") == before
    assert told.get_state()["pendingDMail"] is None
    *earlier, note = told.history()
    assert [message["content"] for message in earlier] == ["question 0", "answer 0"]
    text = note["content"] if isinstance(note["content"], str) else "".join(part["text"] for part in note["content"])
    assert note["role"] == "user"
    assert text.startswith("<system>") and text.endswith("</system>") and text.count("</system>") == 1
    assert "beware" in text and "the dog" in text
    assert [timeline["reason"] for timeline in told.timelines()] == ["dmail"]


class _Below5(int):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and 0 <= other < 5

    __hash__ = int.__hash__


AN_INT_BELOW_5 = _Below5()


def preview(context: dict[str, Any]) -> dict[str, Any]:
    newest = context["checkpoints"][-1]
    return {name: newest[name] for name in ("preview", "label") if name in newest}


def test_by_uid(told: Session) -> None:
    uid = told.get_state()["context"]["checkpoints"][0]["uid"]
    assert told.call("context/sendDMail", checkpointUid=uid, message="x")["pendingDMail"] == {
        "checkpointId": 0,
        "checkpointUid": uid,
        "message": "x",
    }
    told.call("context/deliverDMail")
    assert len(told.history()) == 1


def test_one_at_a_time(told: Session) -> None:
    told.call("context/sendDMail", checkpointId=1, message="first")
    error = told.refuse("context/sendDMail", checkpointId=0, message="second")
    assert (error["code"], error["data"]["kind"]) == (4007, "dmailPending")
    assert told.get_state()["pendingDMail"]["message"] == "first"


def test_cancelling_makes_room(told: Session) -> None:
    told.call("context/sendDMail", checkpointId=1, message="first")
    assert told.call("context/cancelDMail") == {"head": told.head}
    assert told.get_state()["pendingDMail"] is None
    assert told.call("context/sendDMail", checkpointId=0, message="second")


def test_without_a_note_there_is_nothing_to_deliver_or_cancel(told: Session) -> None:
    for method in ("context/deliverDMail", "context/cancelDMail"):
        error = told.refuse(method)
        assert (error["code"], error["data"]["kind"]) == (4008, "noPendingDMail")
    assert told.refuse("context/deliverDMail", dryRun=True)["code"] == 4008


@pytest.mark.parametrize("params", [{"checkpointId": 3}, {"checkpointId": -1}, {"checkpointUid": "x"}])
def test_an_unknown_checkpoint_is_refused(told: Session, params: dict[str, Any]) -> None:
    assert told.refuse("context/sendDMail", message="x", **params)["code"] == 4002
    assert told.get_state()["pendingDMail"] is None


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"checkpointId": 0},
        {"message": "x"},
        {"checkpointId": 0, "checkpointUid": "x", "message": "x"},
        {"checkpointId": 0, "message": 1},
    ],
)
def test_params_that_make_no_sense_are_refused(told: Session, params: dict[str, Any]) -> None:
    assert told.refuse("context/sendDMail", **params)["code"] == -32602


def test_a_dry_delivery_changes_nothing(told: Session) -> None:
    told.call("context/sendDMail", checkpointId=1, message="x")
    before, state = told.log_bytes(), told.get_state()
    planned = told.call("context/deliverDMail", dryRun=True)
    assert "timelineId" not in planned and planned["context"]["messageCount"] == 3
    assert (told.log_bytes(), told.get_state()) == (before, state)


def test_a_pending_note_survives_a_restart(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.checkpoint()
    session.say("a")
    pending = session.call("context/sendDMail", checkpointId=0, message="x")["pendingDMail"]
    first.kill()
    again = Session.open(start(), "s")
    assert again.state["pendingDMail"] == pending
    again.call("context/deliverDMail")
    assert len(again.history()) == 1


def test_a_revert_that_removes_its_checkpoint_drops_it(told: Session) -> None:
    told.call("context/sendDMail", checkpointId=2, message="x")
    told.call("context/revertTo", checkpointId=1)
    assert told.get_state()["pendingDMail"] is None
    assert told.refuse("context/deliverDMail")["code"] == 4008


def test_a_revert_that_keeps_its_checkpoint_keeps_it(told: Session) -> None:
    told.call("context/sendDMail", checkpointId=1, message="x")
    told.call("context/revertTo", checkpointId=2)
    assert told.get_state()["pendingDMail"] == at_least({"checkpointId": 1})
    told.call("context/deliverDMail")


def test_a_delivery_can_be_undone(told: Session) -> None:
    before = told.log_bytes()
    told.call("context/sendDMail", checkpointId=0, message="x")
    timeline = told.call("context/deliverDMail")["timelineId"]
    told.call("context/restoreTimeline", timelineId=timeline)
    assert told.log_bytes() == before
