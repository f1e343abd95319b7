"""Questions that a session asks: joined, decided, given up, taken over by the next owner, and cleared of a secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.worlds import World, asked, heard, kinds

from timeleap.errors import ApprovalNotPendingError, OverloadedError, StorageFailureError
from timeleap.features.approvals import requests as asking
from timeleap.features.approvals import switches
from timeleap.features.approvals.questions import ApprovalQuestion
from timeleap.features.approvals.requests import AskedApprovals
from timeleap.features.approvals.switches import asked_in
from timeleap.sessions.documents.audit import FIELD, Audit
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause, Decision, Mutation

QUESTION = ApprovalQuestion("shell", "Delete the folder", {"path": "/x"}, "call-1")
METHOD = "approval/request"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


def guard(request_id: str = "r1") -> Mutation:
    return asked(request_id, METHOD)


async def ask(approvals: AskedApprovals, request: Mutation | None = None, action: str = "shell") -> asyncio.Future[Any]:
    """The answer that a question about `action` waits for."""
    answer = await approvals.ask(ApprovalQuestion(action), request or Mutation())
    assert isinstance(answer, asyncio.Future)
    return answer


async def decide(approvals: AskedApprovals, decision: Decision, number: int = 0) -> None:
    await approvals.decide(approvals.pending[number].approval_id, decision, "because", Cause(client="window"))


def ends_in_audit(world: World) -> list[str]:
    """The newest words on each question, as the audit has them."""
    entries = [json.loads(line) for line in (world.path() / "audit.jsonl").read_bytes().splitlines()]
    return [said["to"] for said in entries if said.get("field") == FIELD]


async def test_a_question_waits_is_joined_and_is_decided_once(world: World) -> None:
    session = await world.session()
    approvals, events = asked_in(session), heard(session)
    first = await approvals.ask(QUESTION, guard())
    second = await approvals.ask(QUESTION, guard())
    assert isinstance(first, asyncio.Future) and isinstance(second, asyncio.Future)
    [pending] = approvals.pending
    assert pending.question == QUESTION and pending.client == "tester"
    await decide(approvals, "approve")
    assert (await first)["decision"] == (await second)["decision"] == "approve"
    assert (await first)["reason"] == "because" and approvals.pending == []
    assert kinds(events) == ["approvalRequested", "approvalResolved"]
    assert ends_in_audit(world) == ["pending", "approve"]
    again = await approvals.ask(QUESTION, guard())
    assert again == {**await first, "duplicate": True}
    with pytest.raises(ApprovalNotPendingError, match="does not wait"):
        await approvals.decide(pending.approval_id, "reject", None, Cause())


@pytest.mark.parametrize(("switch", "decision"), [("yolo", "approve"), ("action", "approve"), ("afk", "reject")])
async def test_standing_approvals_answer_at_once(world: World, switch: str, decision: str) -> None:
    session = await world.session()
    if switch == "yolo":
        await switches.set_yolo(session, True, Mutation())
    elif switch == "action":
        await switches.set_auto_approve(session, "shell", True, Mutation())
    else:
        await switches.set_afk(session, True, Mutation())
    result = await asked_in(session).ask(QUESTION, guard())
    assert isinstance(result, dict) and (result["decision"], result["automatic"]) == (decision, True)
    assert await asked_in(session).ask(QUESTION, guard()) == {**result, "duplicate": True}
    assert ends_in_audit(world) == [decision]


async def test_approval_for_the_session_answers_the_others_of_the_action(world: World) -> None:
    session = await world.session()
    approvals = asked_in(session)
    same, other, chosen = await ask(approvals), await ask(approvals, action="network"), await ask(approvals)
    await decide(approvals, "approveForSession")
    assert (await same)["decision"] == "approveForSession"
    assert (await chosen)["automatic"] is True and not other.done()
    assert switches.is_approved(session, "shell") == (True, "autoApprove")
    await switches.set_yolo(session, True, Mutation())
    assert (await other)["reason"] == "yolo" and approvals.pending == []


@pytest.mark.parametrize("resolution", ["cancelled", "timedOut"])
async def test_the_last_to_leave_gives_the_question_up(world: World, resolution: Any) -> None:
    session = await world.session()
    approvals, events = asked_in(session), heard(session)
    first, second = await ask(approvals, guard()), await ask(approvals, guard())
    await approvals.stop_waiting(first, resolution)
    assert first.cancelled() and len(approvals.pending) == 1
    await approvals.stop_waiting(second, resolution)
    await approvals.stop_waiting(second, resolution)
    assert second.cancelled() and approvals.pending == []
    assert kinds(events) == ["approvalRequested", "approvalResolved"]
    assert ends_in_audit(world) == ["pending", resolution]
    assert not (await ask(approvals, guard())).done()


async def test_no_more_wait_than_may(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_PENDING", 2)
    approvals = asked_in(await world.session())
    waiting = [await ask(approvals), await ask(approvals)]
    with pytest.raises(OverloadedError, match="2 approvals are pending"):
        await ask(approvals)
    await approvals.cancel_all()
    assert all(answer.cancelled() for answer in waiting)


async def end_as_if_killed(world: World, session: Session) -> None:
    """Close the session, and leave its questions open in the audit."""
    for asked_now in list(asked_in(session)._asked.values()):
        for answer in list(asked_now.answers):
            asked_in(session).leave_open(answer)
    await world.restart()


async def test_the_next_owner_takes_over_what_was_left_open(world: World) -> None:
    session = await world.session()
    await ask(asked_in(session), guard())
    [before] = asked_in(session).pending
    await end_as_if_killed(world, session)
    session = await world.session()
    approvals, events = asked_in(session), heard(session)
    deciding = asyncio.ensure_future(approvals.decide(before.approval_id, "reject", None, Cause(client="window")))
    answer = await ask(approvals, guard())
    [again] = approvals.pending
    assert (again.approval_id, again.requested_at) == (before.approval_id, before.requested_at)
    await deciding
    assert (await answer)["decision"] == "reject"
    assert kinds(events) == ["approvalRequested", "approvalResolved"]
    assert ends_in_audit(world) == ["pending", "reject"]


async def test_what_nobody_asks_again_is_cancelled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await world.session()
    await ask(asked_in(session), guard())
    [before] = asked_in(session).pending
    await end_as_if_killed(world, session)
    monkeypatch.setattr(asking, "RETURN_SECONDS", 0.0)
    session = await world.session()
    with pytest.raises(ApprovalNotPendingError):
        await asked_in(session).decide(before.approval_id, "approve", None, Cause())
    assert ends_in_audit(world) == ["pending", "cancelled"]
    [end] = await asked_in(session).ends([before.approval_id])
    assert end["decision"] == "cancelled"
    assert await asked_in(session).ends([]) == []


async def test_a_decision_that_the_last_owner_did_not_note_is_noted_and_told(world: World) -> None:
    session = await world.session()
    answer = await ask(asked_in(session), guard())
    await decide(asked_in(session), "approve")
    await answer
    path = world.path() / "audit.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    await world.restart()
    path.write_bytes(b"".join(line for line in lines if b'"approve"' not in line))
    session = await world.session()
    events = heard(session)
    result = await asked_in(session).ask(ApprovalQuestion("shell"), guard())
    assert isinstance(result, dict) and (result["decision"], result["duplicate"]) == ("approve", True)
    assert kinds(events) == ["approvalResolved"] and ends_in_audit(world) == ["pending", "approve"]


async def test_a_secret_goes_from_what_waits(world: World) -> None:
    session = await world.session()
    approvals = asked_in(session)
    secret = ApprovalQuestion("run hunter2", "with hunter2", {"key": "hunter2"}, "hunter2")
    answer = await approvals.ask(secret, guard("hunter2"))
    plain = await ask(approvals, guard("r2"))
    approvals.redact(lambda text: text.replace("hunter2", "***"))
    assert [pending.question for pending in approvals.pending] == [
        ApprovalQuestion("run ***", "with ***", {"key": "***"}, "***"),
        ApprovalQuestion("shell"),
    ]
    await decide(approvals, "approve")
    await decide(approvals, "reject")
    assert isinstance(answer, asyncio.Future)
    assert (await answer)["decision"] == "approve" and (await plain)["decision"] == "reject"
    # Its id held the value: nothing was noted under it, and the question is asked anew.
    assert isinstance(await approvals.ask(QUESTION, guard("hunter2")), asyncio.Future)


async def test_a_detail_whose_form_was_the_secret_goes(world: World) -> None:
    approvals = asked_in(await world.session())
    await approvals.ask(QUESTION, guard())
    approvals.redact(lambda text: text.replace('"path"', "***"))
    assert approvals.pending[0].question.detail is None


@pytest.mark.parametrize("moment", ["ask", "decide", "cover", "give up"])
async def test_a_full_disk_refuses_and_loses_no_question(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    session = await world.session()
    approvals = asked_in(session)

    def full(*_: Any) -> None:
        raise StorageFailureError("no space left on device")

    answer = None if moment == "ask" else await ask(approvals)
    if moment == "cover":
        await switches.set_afk(session, False, Mutation())
    monkeypatch.setattr(Audit, "append", full)
    if moment == "ask":
        with pytest.raises(StorageFailureError):
            await ask(approvals)
        assert approvals.pending == []
        return
    assert answer is not None
    if moment == "decide":
        with pytest.raises(StorageFailureError):
            await decide(approvals, "approve")
        assert len(approvals.pending) == 1
    elif moment == "cover":
        await session.engine.run(lambda _: approvals._settle_covered(Cause()))
        assert len(approvals.pending) == 1
    else:
        await approvals.stop_waiting(answer, "cancelled")
        assert approvals.pending == []
    monkeypatch.undo()
    if moment != "give up":
        await decide(approvals, "approve")
        assert (await answer)["decision"] == "approve"
