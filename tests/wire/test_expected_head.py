"""`expectedHead`: a stale one changes nothing and tells the present one (G7)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING
from tests.support.mostly_long import mostly_long
from tests.support.session import Session, user
from tests.wire.operations import OPERATIONS, Operation, prepare


def files(session: Session) -> dict[str, bytes]:
    state = session.path / "state.json"
    return {"log": session.log_bytes(), **({"state": state.read_bytes()} if state.exists() else {})}


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=1), ids=str)
def test_a_stale_head_changes_nothing_and_the_present_one_goes_through(session: Session, operation: Operation) -> None:
    prepare(session)
    stale = session.head
    session.say("meanwhile")
    operation.before(session)
    before, state, present = files(session), session.get_state(), session.head
    error = session.refuse(operation.method, **operation.params, expectedHead=stale)
    assert error == {
        "code": -32801,
        "message": A_STRING,
        "data": {"kind": "contentModified", "retryable": error["data"]["retryable"], "head": present},
    }
    assert (files(session), session.get_state()) == (before, state)
    result = session.call(operation.method, **operation.params, expectedHead=present)
    assert (result["head"] != present) is operation.changes_log
    assert result["head"] == session.head


DRY = [
    operation
    for operation in OPERATIONS
    if operation.name in ("revert", "clear", "restore", "compact", "deliver D-Mail")
]


@pytest.mark.parametrize("operation", [*DRY, Operation("prune", "session/prune")], ids=str)
def test_a_dry_run_meets_a_stale_head_like_the_request_itself(session: Session, operation: Operation) -> None:
    prepare(session)
    stale = session.head
    session.say("meanwhile")
    operation.before(session)
    error = session.refuse(operation.method, **operation.params, dryRun=True, expectedHead=stale)
    assert (error["code"], error["data"]["head"]) == (-32801, session.head)
    assert session.call(operation.method, **operation.params, dryRun=True, expectedHead=session.head)


@pytest.mark.parametrize("head", ["", "x", "0", "999999", "é", "\u0000", "x" * 100_000])
def test_a_head_that_never_was_is_a_conflict(session: Session, head: str) -> None:
    assert session.refuse("context/appendMessage", message=user("x"), expectedHead=head)["code"] == -32801
    assert session.history() == []


@pytest.mark.parametrize("head", [1, [], {}])
def test_a_head_is_a_string(session: Session, head: Any) -> None:
    error = session.refuse("context/appendMessage", message=user("x"), expectedHead=head)
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["expectedHead"]]


def test_of_two_pipelined_requests_with_one_head_one_wins(session: Session) -> None:
    head = session.head
    pendings = [session.start("context/appendMessage", message=user(str(n)), expectedHead=head) for n in range(20)]
    replies = [pending.reply() for pending in pendings]
    assert ["result" in reply for reply in replies] == [True] + [False] * 19
    assert {reply["error"]["code"] for reply in replies[1:]} == {-32801}
    assert session.texts() == ["0"]


def test_a_head_never_comes_back(session: Session) -> None:
    heads = [session.head]
    for number in range(3):
        session.checkpoint()
        heads.append(session.head)
        session.say(f"{number}")
        heads.append(session.head)
        timeline = session.call("context/revertTo", checkpointId=0)["timelineId"]
        heads.append(session.head)
        session.call("context/restoreTimeline", timelineId=timeline)
        heads.append(session.head)
        session.call("context/clear")
        heads.append(session.head)
    assert len(set(heads)) == len(heads)


def test_a_head_survives_restart_and_loss_of_the_index(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    prepare(session)
    head = session.head
    first.kill()
    second = start()
    assert Session.open(second, "s").head == head
    assert second.finish() == 0
    for index in session.path.glob("*.idx"):
        index.unlink()
    third = Session.open(start(), "s")
    assert third.head == head
    assert third.call("context/appendMessage", message=user("x"), expectedHead=head)


def test_a_checkpoint_uid_never_comes_back(session: Session) -> None:
    uids = []
    for _ in range(20):
        uids.append(session.checkpoint()["uid"])
        session.call("context/revertTo", checkpointId=0)
    assert len(set(uids)) == 20
