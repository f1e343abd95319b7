"""Notifications: after the change is durable, before the reply, to everybody who has the session open, with the cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import TIME, UID, at_least
from tests.support.scene import settle
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user
from tests.wire.operations import OPERATIONS, Operation, prepare


def told(session: Session, method: str, **params: object) -> tuple[Message, list[Message]]:
    """The result and the notifications that came before it (method and params)."""
    pending = session.start(method, **params)
    result = pending.result()
    return result, pending.heard()


def newest_span(session: Session) -> Message:
    """What happened since the newest checkpoint, as the list of checkpoints says it."""
    newest = session.call("context/listCheckpoints", limit=1)["checkpoints"][0]
    said = newest["summary"]["text"]  # by a person: its name, where the checkpoint itself may have a label
    return {"checkpointUid": newest["uid"], "summary": newest["summary"], **({"name": said} if said else {})}


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_every_change_is_told_before_its_reply_with_its_head_and_cause(
    server: Server, session: Session, operation: Operation
) -> None:
    prepare(session)
    operation.before(session)
    result, heard = told(session, operation.method, **operation.params, requestId="r-1")
    assert [message["params"]["kind"] for message in heard] == list(operation.kinds)
    for message in heard:
        params = message["params"]
        assert (params["sessionId"], params["cause"]) == (session.id, {"requestId": "r-1", "client": "tests"})
    assert heard[-1]["params"]["head"] == result["head"]
    family = "session/didChange" if not operation.changes_log else "context/didChange"
    assert heard[0]["method"] == family
    assert {message["method"] for message in heard[1:]} <= {family, "session/didChange"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_repeat_and_a_dry_run_tell_nothing(session: Session, operation: Operation) -> None:
    prepare(session)
    operation.before(session)
    if operation.kinds[0] in ("reverted", "cleared", "compacted", "timelineRestored", "dmailDelivered"):
        assert told(session, operation.method, **operation.params, dryRun=True)[1] == []
    told(session, operation.method, **operation.params, requestId="r-1")
    assert told(session, operation.method, **operation.params, requestId="r-1")[1] == []


def test_the_members_of_each_kind(session: Session) -> None:
    prepare(session)
    common = {"sessionId": session.id, "cause": {"client": "tests"}}

    def params(method: str, **given: object) -> tuple[Message, list[Message]]:
        result, heard = told(session, method, **given)
        return result, [message["params"] for message in heard]

    result, heard = params("context/appendMessage", messages=[user("a"), assistant("b")])
    assert heard == [
        {
            **common,
            "head": result["head"],
            "kind": "messagesAppended",
            "firstIndex": result["firstIndex"],
            "count": 2,
            "span": newest_span(session),
        }
    ]
    result, heard = params("context/checkpoint", label="L")
    assert heard == [
        {**common, "head": result["head"], "kind": "checkpointCreated", "checkpoint": result["checkpoint"]}
    ]
    result, heard = params("context/updateTokenCount", tokenCount=5)
    assert heard == [
        {
            **common,
            "head": result["head"],
            "kind": "tokenCountUpdated",
            "tokenCount": 5,
            "span": newest_span(session),
        }
    ]
    result, heard = params("context/setSystemPrompt", systemPrompt="x")
    assert heard == [{**common, "head": result["head"], "kind": "systemPromptSet"}]
    uid = session.get_state()["context"]["checkpoints"][1]["uid"]
    result, heard = params("context/revertTo", checkpointId=1)
    rewrite = lambda: {name: result[name] for name in ("head", "timelineId", "removed", "context")}  # noqa: E731
    assert heard == [{**common, **rewrite(), "kind": "reverted", "checkpointId": 1, "checkpointUid": uid}]
    result, heard = params("context/restoreTimeline", timelineId=result["timelineId"])
    assert heard == [{**common, **rewrite(), "kind": "timelineRestored"}]
    session.append(*[user("x" * 400) for _ in range(5)])
    result, heard = params("context/compact", summary="s")
    assert heard == [
        {
            **common,
            **{name: result[name] for name in ("head", "timelineId", "context")},
            "kind": "compacted",
            "removed": at_least({}),
        }
    ]
    session.checkpoint()
    result, heard = params("context/sendDMail", checkpointId=0, message="x")
    assert heard == [{**common, "head": result["head"], "kind": "dmailChanged", "pendingDMail": result["pendingDMail"]}]
    result, heard = params("context/deliverDMail")
    assert heard[0] == at_least({**common, **rewrite(), "kind": "dmailDelivered"})
    result, heard = params("context/clear")
    assert heard == [{**common, **rewrite(), "kind": "cleared"}]
    result, heard = params("session/setYolo", yolo=True)
    assert heard == [{**common, "head": result["head"], "kind": "approvalChanged", "approval": result["approval"]}]
    for method, kind in (("session/archive", "archived"), ("session/unarchive", "unarchived")):
        result, heard = params(method)
        assert heard == [{**common, "head": result["head"], "kind": kind}]
    _, heard = params("session/delete")
    assert heard == [at_least({**common, "kind": "deleted"})]


def test_an_automatic_checkpoint_is_told_first(server: Server) -> None:
    session = Session.open(server, autoCheckpoint="turn")
    result, heard = told(session, "context/appendMessage", messages=[user("hello world"), assistant("x")])
    first, second = (message["params"] for message in heard)
    assert first == at_least({"kind": "checkpointCreated"})
    assert first["checkpoint"] == at_least(
        {"id": 0, "uid": UID, "createdAt": TIME, "messageCount": 0, "label": "hello world"}
    )
    assert second == at_least({"kind": "messagesAppended", "firstIndex": 0, "count": 2, "head": result["head"]})


def test_a_dropped_note_is_told(session: Session) -> None:
    session.checkpoint()
    session.checkpoint()
    session.call("context/sendDMail", checkpointId=1, message="x")
    _, heard = told(session, "context/revertTo", checkpointId=1)
    kinds = {message["params"]["kind"]: message["params"] for message in heard}
    assert set(kinds) == {"reverted", "dmailChanged"}
    assert kinds["dmailChanged"]["pendingDMail"] is None


def test_notifications_of_pipelined_requests_stand_before_each_own_reply(server: Server, session: Session) -> None:
    before = len(server.received)
    pendings = [session.start("context/appendMessage", message=user(str(n))) for n in range(200)]
    replies = {pending.id: pending.result() for pending in pendings}
    told_up_to = -1
    for message in server.received[before:]:
        if message.get("method") == "context/didChange":
            assert message["params"]["firstIndex"] == told_up_to + 1
            told_up_to += message["params"]["count"]
        elif message.get("id") in replies:
            assert message["result"]["firstIndex"] <= told_up_to


def test_a_session_that_is_not_open_here_tells_nothing(server: Server, session: Session) -> None:
    session.call("session/close")
    before = len(server.received)
    server.call("session/archive", sessionId=session.id)
    server.call("session/fork", sessionId=session.id)
    assert [m for m in server.notifications(before) if m["params"]["sessionId"] == session.id] == []


def test_what_was_told_is_durable(start: StartServer) -> None:
    server = start(failpoints="")
    session = Session.open(server, "s")
    for number in range(50):
        session.start("context/appendMessage", message=user(str(number)))
    server.heard("context/didChange")
    server.kill()
    told_count = sum(m["params"]["count"] for m in server.notifications() if m["method"] == "context/didChange")
    texts = Session.open(start(), "s").texts()
    assert len(texts) >= told_count
    assert texts == [str(number) for number in range(len(texts))]


def test_a_client_without_a_name_is_no_cause(start_at: StartServer, home: object) -> None:
    server = start_at(home)
    server.initialize()
    session = Session.open(server)
    _, heard = told(session, "context/appendMessage", message=user("x"))
    assert heard[0]["params"]["cause"] == {}


def test_nobody_is_told_of_a_refusal(session: Session) -> None:
    before = len(session.server.received)
    session.refuse("context/revertTo", checkpointId=7)
    session.refuse("context/appendMessage", message=user("x"), expectedHead="stale")
    session.refuse("context/cancelDMail")
    assert session.server.notifications(before) == []


def test_notifications_a_client_opts_out_of_are_not_sent_to_it(start: StartServer) -> None:
    unwanted = ["context/didChange", "$/progress", "session/warning"]
    quiet, other = start(options={"optOutNotifications": unwanted}), start()
    mine, theirs = Session.open(quiet, "s"), Session.open(other, "s")
    mine.say("from here")
    theirs.say("from there")
    theirs.call("session/setTitle", title="T")
    mine.call("session/verify", workDoneToken="t")
    mine.call("session/setTitle", title="U")
    settle([mine, theirs])
    assert [(m["method"], m["params"]["kind"]) for m in quiet.notifications()] == [
        ("session/didChange", "titleChanged")
    ] * 2
    assert {m["params"]["kind"] for m in other.notifications()} == {"messagesAppended", "titleChanged"}
    assert (mine.texts(), theirs.texts()) == (["from here", "from there"],) * 2


def test_an_attached_client_can_opt_out(start: StartServer) -> None:
    owner, quiet = start(), start(options={"optOutNotifications": ["context/didChange", "session/didChange"]})
    mine, theirs = Session.open(owner, "s"), Session.open(quiet, "s")
    mine.say("a")
    theirs.say("b")
    owner.kill()
    theirs.say("c")
    assert (theirs.texts(), quiet.notifications()) == (["a", "b", "c"], [])
    assert theirs.get_state()["access"] == "owner"


def test_unknown_names_to_opt_out_of_are_a_warning_and_wrong_types_an_error(start_at: StartServer, home: Path) -> None:
    server = start_at(home)
    for given, places in (("x", [[]]), ([1, "session/warning", None], [[0], [2]]), ({}, [[]])):
        error = server.refuse("initialize", initializationOptions={"optOutNotifications": given})
        assert error["code"] == -32602
        where = ["initializationOptions", "optOutNotifications"]
        assert [problem["loc"] for problem in error["data"]["errors"]] == [[*where, *place] for place in places]
    result = server.initialize(initializationOptions={"optOutNotifications": ["session/warning", "x" * 1000]})
    [warning] = result["capabilities"]["experimental"]["timeleap"]["warnings"]
    assert "x" * 100 in warning and len(warning) < 300
