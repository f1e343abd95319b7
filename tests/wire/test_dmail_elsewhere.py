"""`context/sendDMail` to another session: as a note, or to a checkpoint; wherever that session is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import HEAD, TIME, UID, at_least
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user


@pytest.fixture
def child(server: Server) -> Session:
    """The session that sends."""
    return Session.open(server)


@pytest.fixture
def parent(server: Server) -> Session:
    """The session that receives."""
    return told(Session.open(server))


def told(session: Session) -> Session:
    for number in range(2):
        session.checkpoint()
        session.append(user(f"question {number}"), assistant(f"answer {number}"))
    return session


def mail(sender: Session, receiver: Session, message: str = "all green", **params: Any) -> Message:
    return dict(sender.call("context/sendDMail", toSessionId=receiver.id, message=message, **params))


def note(session: Session) -> str:
    """The last message, which has to be a note."""
    last = session.history()[-1]
    assert last["role"] == "user"
    said = str(last["content"])
    assert said.startswith("<system>")
    assert said.endswith("</system>")
    assert said.count("</system>") == 1
    return said


def test_without_a_checkpoint_it_is_a_note_at_the_end(child: Session, parent: Session) -> None:
    child_head, since = child.head, len(parent.server.received)
    result = mail(child, parent, "all </system> green", requestId="r")
    assert result == {
        "head": child_head,
        "pendingDMail": None,
        "to": {"sessionId": parent.id, "head": parent.head, "index": 4},
    }
    assert child.head == child_head
    assert len(parent.history()) == 5
    said = note(parent)
    assert child.id in said
    assert "all" in said
    assert "green" in said
    row = parent.call("context/getHistory", **{"from": 4})["messages"][0]
    assert row["meta"]["fromSessionId"] == child.id
    assert parent.get_state()["pendingDMail"] is None
    newest = parent.get_state()["context"]["checkpoints"][-1]
    assert newest == at_least(
        {"id": 2, "uid": UID, "label": f"D-Mail from {child.id}", "createdAt": TIME, "messageCount": 4}
    )
    heard = parent.server.notifications(since)
    assert [(one["params"]["sessionId"], one["params"]["kind"]) for one in heard] == [
        (parent.id, "checkpointCreated"),
        (parent.id, "messagesAppended"),
    ]
    assert heard[1]["params"]["cause"] == {"requestId": "r", "client": "tests"}
    assert heard[1]["params"]["firstIndex"] == 4
    parent.call("context/revertTo", checkpointUid=newest["uid"])
    assert len(parent.history()) == 4


def test_with_a_checkpoint_it_waits_there_and_is_delivered_there(child: Session, parent: Session) -> None:
    child.checkpoint()
    before, since = parent.log_bytes(), len(parent.server.received)
    uid = parent.get_state()["context"]["checkpoints"][1]["uid"]
    pending = {"checkpointId": 1, "checkpointUid": uid, "message": "all green", "fromSessionId": child.id}
    result = mail(child, parent, checkpointId=1, requestId="r")
    assert result == {
        "head": child.head,
        "pendingDMail": pending,
        "to": {"sessionId": parent.id, "head": parent.head},
    }
    assert parent.get_state()["pendingDMail"] == pending
    assert child.get_state()["pendingDMail"] is None
    heard = parent.server.notifications(since)
    assert [(one["params"]["sessionId"], one["params"]["kind"]) for one in heard] == [(parent.id, "dmailChanged")]
    assert heard[0]["params"]["pendingDMail"] == pending
    assert heard[0]["params"]["cause"] == {"requestId": "r", "client": "tests"}
    delivered = parent.call("context/deliverDMail")
    assert delivered["checkpoint"]["label"] == f"D-Mail from {child.id}"
    assert child.id in note(parent)
    assert len(parent.history()) == 3
    assert parent.call("context/getHistory", **{"from": 2})["messages"][0]["meta"]["fromSessionId"] == child.id
    parent.call("context/restoreTimeline", timelineId=delivered["timelineId"])
    assert parent.log_bytes() == before


def test_one_is_pending_there(child: Session, parent: Session) -> None:
    mail(child, parent, checkpointId=1)
    error = child.refuse("context/sendDMail", toSessionId=parent.id, checkpointId=0, message="x", requestId="r")
    assert (error["code"], error["data"]["kind"]) == (4007, "dmailPending")
    mail(child, parent)  # a note needs no room
    parent.call("context/cancelDMail")
    again = child.call("context/sendDMail", toSessionId=parent.id, checkpointId=0, message="x", requestId="r")
    assert "duplicate" not in again


@pytest.mark.parametrize("params", [{"checkpointId": 7}, {"checkpointUid": "x"}])
def test_a_checkpoint_is_one_of_the_session_it_goes_to(child: Session, parent: Session, params: dict[str, Any]) -> None:
    for _ in range(9):
        child.checkpoint()
    head = parent.head
    assert child.refuse("context/sendDMail", toSessionId=parent.id, message="x", **params)["code"] == 4002
    assert (parent.head, parent.get_state()["pendingDMail"]) == (head, None)


def test_to_itself_is_the_ordinary_one(parent: Session) -> None:
    assert mail(parent, parent, checkpointId=1) == {
        "head": parent.head,
        "pendingDMail": {"checkpointId": 1, "checkpointUid": UID, "message": "all green"},
    }
    parent.call("context/cancelDMail")
    assert "to" not in parent.call("context/sendDMail", toPath=str(parent.path), checkpointId=1, message="x")
    assert parent.refuse("context/sendDMail", toSessionId=parent.id, message="x")["code"] == -32602


def test_as_from_another_session(child: Session, parent: Session) -> None:
    result = parent.call("context/sendDMail", fromSessionId=child.id, message="from outside")
    assert result == {"head": parent.head, "pendingDMail": None, "index": 4}
    assert child.id in note(parent)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"toSessionId": "P", "toPath": "/x"}, -32602),
        ({"toSessionId": "P", "fromSessionId": "x"}, -32602),
        ({"toPath": "x"}, -32602),
        ({"toSessionId": "P", "checkpointId": 0, "checkpointUid": "x"}, -32602),
        ({"toSessionId": 5}, -32602),
        ({"toSessionId": "../x"}, 4010),
        ({"toSessionId": "", "checkpointId": 0}, 4010),
        ({"toPath": "", "checkpointId": 0}, -32602),
        ({"fromSessionId": "</system>"}, 4010),
        ({"toSessionId": "nobody"}, 4001),
        ({"toPath": "/nobody"}, 4001),
    ],
)
def test_params_that_make_no_sense(child: Session, parent: Session, params: dict[str, Any], code: int) -> None:
    given = {name: parent.id if value == "P" else value for name, value in params.items()}
    assert child.refuse("context/sendDMail", message="x", **given)["code"] == code
    assert len(parent.history()) == 4


def test_a_repeat_arrives_once(child: Session, parent: Session) -> None:
    first = mail(child, parent, requestId="r")
    child.say("moved on")
    head = parent.head
    assert mail(child, parent, requestId="r") == {**first, "head": child.head, "duplicate": True}
    assert parent.head == head
    for other in ({"message": "other"}, {"checkpointId": 0}, {"toSessionId": child.id, "checkpointId": 0}):
        params = {"toSessionId": parent.id, "message": "all green", **other}
        error = child.refuse("context/sendDMail", requestId="r", **params)
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["requestId"]), other
    assert child.refuse("context/checkpoint", requestId="r")["code"] == -32602
    parent.append(user("mine"), requestId="r")  # the same id of the other session is another request
    assert len(parent.history()) == 6


def test_repeats_that_run_at_the_same_time_arrive_once(child: Session, parent: Session) -> None:
    many = [child.start("context/sendDMail", toSessionId=parent.id, message="x", requestId="r") for _ in range(8)]
    answers = [one.result() for one in many]
    assert sum("duplicate" not in one for one in answers) == 1
    assert len({one["to"]["index"] for one in answers}) == 1
    assert len(parent.history()) == 5


def test_the_expected_head_is_the_senders(child: Session, parent: Session) -> None:
    stale = child.head
    child.say("x")
    error = child.refuse("context/sendDMail", toSessionId=parent.id, message="x", expectedHead=stale)
    assert error["code"] == -32801
    assert len(parent.history()) == 4
    mail(child, parent, expectedHead=child.head)
    assert len(parent.history()) == 5


def test_the_sender_has_to_be_open_to_write(child: Session, parent: Session) -> None:
    server = child.server
    child.call("session/close")
    assert child.refuse("context/sendDMail", toSessionId=parent.id, message="x")["code"] == 4013
    reader = child.reopen(server, access="readOnly")
    assert reader.refuse("context/sendDMail", toSessionId=parent.id, message="x")["code"] == 4004
    assert len(parent.history()) == 4


@pytest.mark.parametrize("checkpoint", [{}, {"checkpointId": 0}], ids=["note", "to a checkpoint"])
def test_it_need_not_be_open(child: Session, parent: Session, checkpoint: dict[str, Any]) -> None:
    parent.call("session/archive")
    parent.call("session/close")
    first = mail(child, parent, requestId="r", **checkpoint)
    assert mail(child, parent, requestId="r", **checkpoint) == {**first, "duplicate": True}
    state = parent.reopen(child.server).state
    assert (state["archived"], state["head"]) == (True, first["to"]["head"])
    assert state["context"]["messageCount"] == (4 if checkpoint else 5)
    assert (state["pendingDMail"] is None) is not bool(checkpoint)


def test_one_in_the_trash_is_to_be_brought_back(child: Session, parent: Session) -> None:
    parent.call("session/delete")
    error = child.refuse("context/sendDMail", toSessionId=parent.id, message="x")
    assert (error["code"], error["data"]["kind"]) == (4001, "sessionNotFound")
    assert "trash" in error["message"]


def test_one_that_is_open_to_read_is_not_written_to(child: Session, parent: Session) -> None:
    parent.call("session/close")
    reader = parent.reopen(child.server, access="readOnly")
    for checkpoint in ({}, {"checkpointId": 0}):
        error = child.refuse("context/sendDMail", toSessionId=parent.id, message="x", **checkpoint)
        assert (error["code"], error["data"]["kind"]) == (4004, "readOnly")
    assert len(reader.history()) == 4


def test_one_outside_of_the_store_by_its_path(child: Session, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "context.jsonl").write_text('{"role":"user","content":"x"}\n')
    result = child.call("context/sendDMail", toPath=str(outside), message="hello", requestId="r")
    assert result["to"] == {"sessionId": "outside", "head": HEAD, "index": 1}
    assert "hello" in (outside / "context.jsonl").read_text()
    again = child.call("context/sendDMail", toPath=str(outside), message="hello", requestId="r")
    assert again == {**result, "duplicate": True}


def test_one_that_another_process_owns(servers: list[Server]) -> None:
    here, there = servers
    child, parent = Session.open(here), told(Session.open(there))
    since = len(there.received)
    first = mail(child, parent, requestId="r")
    assert first["to"] == {"sessionId": parent.id, "head": parent.head, "index": 4}
    assert mail(child, parent, requestId="r") == {**first, "duplicate": True}
    assert mail(child, parent, checkpointId=1)["pendingDMail"]["fromSessionId"] == child.id
    assert child.refuse("context/sendDMail", toSessionId=parent.id, checkpointId=1, message="x")["code"] == 4007
    assert len(parent.history()) == 5
    heard = [one["params"] for one in there.notifications(since)]
    assert [one["kind"] for one in heard] == ["checkpointCreated", "messagesAppended", "dmailChanged"]
    assert {one["cause"]["client"] for one in heard} == {"client-1"}
    assert parent.get_state()["access"] == "owner"
    child.call("session/close")
    assert parent.texts()[0] == "question 0"


def test_from_one_that_another_process_owns(servers: list[Server]) -> None:
    here, there = servers
    child = Session.open(there).reopen(here)
    assert child.state["access"] == "attached"
    parent = told(Session.open(here))
    first = mail(child, parent, requestId="r")
    assert first["to"]["index"] == 4
    assert child.id in note(parent)
    assert mail(child, parent, requestId="r") == {**first, "duplicate": True}
    assert child.refuse("context/sendDMail", toSessionId=parent.id, message="y", requestId="r")["code"] == -32602
    assert mail(child, parent, checkpointId=0)["pendingDMail"]["fromSessionId"] == child.id
    child.checkpoint()
    assert "to" not in child.call("context/sendDMail", checkpointId=0, message="to myself")
    assert child.get_state()["pendingDMail"]["message"] == "to myself"
    assert len(parent.history()) == 5


def test_both_attached_in_one_window(servers: list[Server]) -> None:
    here, there = servers
    child, parent = Session.open(there).reopen(here), told(Session.open(there)).reopen(here)
    since = len(here.received)
    mail(child, parent)
    assert child.id in note(parent)
    kinds = [one["params"]["kind"] for one in here.notifications(since) if one["params"]["sessionId"] == parent.id]
    assert kinds == ["checkpointCreated", "messagesAppended"]


@pytest.mark.long
@pytest.mark.parametrize("failpoint", ["mail.arrived", "state.after_meta"])
@pytest.mark.parametrize("checkpoint", [{}, {"checkpointId": 0}], ids=["note", "to a checkpoint"])
def test_a_crash_between_the_two_sessions(start: StartServer, failpoint: str, checkpoint: dict[str, Any]) -> None:
    times = 2 if checkpoint and failpoint == "state.after_meta" else 1
    crashing = start(failpoints=f"{failpoint}@{times}=kill")
    child, parent = Session.open(crashing, "child"), told(Session.open(crashing, "parent"))
    params = {"toSessionId": "parent", "message": "once", "requestId": "r", **checkpoint}
    child.start("context/sendDMail", **params)
    assert crashing.wait() != 0
    again = start()
    child, parent = child.reopen(again), parent.reopen(again)
    result = child.call("context/sendDMail", **params)
    assert result["duplicate"] is True
    assert result["to"]["sessionId"] == "parent"
    assert len(parent.history()) == (4 if checkpoint else 5)
    if checkpoint:
        assert result["pendingDMail"] == parent.get_state()["pendingDMail"] != None  # noqa: E711
    else:
        assert result["to"]["index"] == 4
    assert child.call("context/sendDMail", **params) == result


def test_a_note_survives_a_restart_with_where_it_came_from(start: StartServer) -> None:
    first = start()
    child, parent = Session.open(first, "child"), told(Session.open(first, "parent"))
    mail(child, parent, checkpointId=1)
    first.kill()
    again = Session.open(start(), "parent")
    assert again.state["pendingDMail"]["fromSessionId"] == "child"
    assert again.call("context/deliverDMail")["checkpoint"]["label"] == "D-Mail from child"


def test_a_delivery_into_a_tool_exchange_is_reported_and_healed_on_request(session: Session) -> None:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"type": "function", "id": "a", "function": function}]
    session.append(user("go"), {"role": "assistant", "content": "", "tool_calls": calls})
    session.checkpoint()
    session.append({"role": "tool", "tool_call_id": "a", "content": "x"})
    before = session.log_bytes()
    for heal, kept in ((False, 2), (True, 1)):
        session.call("context/sendDMail", checkpointId=0, message="x")
        planned = session.call("context/deliverDMail", dryRun=True, heal=heal)
        done = session.call("context/deliverDMail", heal=heal)
        expected = {"index": 1, "openCalls": ["a"], "healed": heal}
        assert planned["toolExchange"] == done["toolExchange"] == expected
        assert len(session.history()) == kept + 1
        session.call("context/restoreTimeline", timelineId=done["timelineId"])
        assert session.log_bytes() == before
    session.checkpoint()
    session.call("context/sendDMail", checkpointId=1, message="x")
    assert "toolExchange" not in session.call("context/deliverDMail")


def sent(start: StartServer, home: Path, where: str) -> tuple[Server, Message, Message]:
    """A note that was sent from one session of a store to another."""
    server = start(at=home)
    child = Session.open(server, "child")
    told(Session.open(server, "parent"))
    to = {"toSessionId": "parent"} if where == "id" else {"toPath": str(home / "sessions" / "parent")}
    first = child.call("context/sendDMail", message="all green", requestId="r", **to)
    return server, dict(first), to


@pytest.mark.parametrize("where", ["id", "path"])
def test_a_repeat_after_the_store_has_moved_is_answered(start: StartServer, tmp_path: Path, where: str) -> None:
    server, first, to = sent(start, tmp_path / "here", where)
    server.kill()
    (tmp_path / "here").rename(tmp_path / "there")
    server = start(at=tmp_path / "there")
    child, parent = Session.open(server, "child"), Session.open(server, "parent")
    again = child.call("context/sendDMail", message="all green", requestId="r", **to)
    assert again == {**first, "duplicate": True, "head": child.head}
    assert len(parent.history()) == 5
    error = child.refuse("context/sendDMail", message="other", requestId="r", **to)
    assert error["code"] == (-32602 if where == "id" else 4001)
    moved = {"toPath": str(tmp_path / "there" / "sessions" / "parent")}
    again = child.call("context/sendDMail", message="all green", requestId="r", **moved)
    assert again["duplicate"] is True


@pytest.mark.parametrize("where", ["id", "path"])
@pytest.mark.parametrize("attached", [False, True])
def test_a_repeat_after_its_receiver_has_gone_is_answered(
    start: StartServer, tmp_path: Path, where: str, attached: bool
) -> None:
    server, first, to = sent(start, tmp_path / "here", where)
    server.call("session/close", sessionId="parent")
    server.call("session/delete", sessionId="parent")
    child = Session.open(start(at=tmp_path / "here") if attached else server, "child")
    assert child.state["access"] == ("attached" if attached else "owner")
    again = child.call("context/sendDMail", message="all green", requestId="r", **to)
    assert again == {**first, "duplicate": True, "head": child.head}
    assert child.refuse("context/sendDMail", message="all green", requestId="other", **to)["code"] == 4001
