"""How a request for an approval ends without a decision, and how it outlives its owner."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import pytest
from tests.support.approvals import (
    REQUESTED,
    RESOLVED,
    Windows,
    ask,
    asked,
    decide,
    pending,
    resolved,
    told,
    verdicts,
)
from tests.support.matching import at_least
from tests.support.mostly_long import mostly_long
from tests.support.scene import settle, stopped, until
from tests.support.server import Pending
from tests.support.session import Session

# the ends of waiting


@pytest.mark.parametrize("asker", ["owner", "attached"])
def test_time_over(windows: Windows, asker: str) -> None:
    names = {name: windows.open(name) for name in ("owner", "attached")}
    request = ask(names[asker], timeout=0.2)
    error = request.error()
    assert (error["code"], error["data"]) == (4027, {"kind": "approvalTimeout", "retryable": True})
    for window in names.values():
        assert [end["decision"] for end in told(window, RESOLVED)] == ["timedOut"]
        assert told(window, RESOLVED)[0]["cause"] == {}
        assert pending(window) == []
    assert verdicts(names["owner"]) == ["pending", "timedOut"]


def cancel(session: Session, request: Pending) -> None:
    session.server.notify("$/cancelRequest", id=request.id)
    assert request.error()["code"] == -32800


def close(session: Session, request: Pending) -> None:
    session.call("session/close")
    assert request.error()["code"] == -32800


def end_input(session: Session, request: Pending) -> None:
    assert session.server.finish() == 0
    assert request.error()["code"] == -32800


def shut_down(session: Session, request: Pending) -> None:
    assert session.server.shut_down() == 0
    assert request.error()["code"] == -32800


def terminate(session: Session, request: Pending) -> None:
    session.server.signal(signal.SIGTERM)
    assert session.server.wait() == 0
    assert request.error()["code"] == -32800


def kill(session: Session, request: Pending) -> None:
    del request
    session.server.kill()


def delete(session: Session, request: Pending) -> None:
    session.call("session/delete")
    assert request.error()["code"] == -32800


ENDS = [cancel, close, end_input, shut_down, kill, delete]
if sys.platform != "win32":
    ENDS.append(terminate)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("asker", ["owner", "attached"])
@pytest.mark.long
def test_the_end_of_who_asked_cancels_it(windows: Windows, asker: str, end: Any) -> None:
    names = {name: windows.open(name) for name in ("owner", "attached", "other")}
    request = ask(names[asker])
    approval_id = asked(names["other"])["approvalId"]
    end(names[asker], request)
    assert resolved(names["other"], approval_id) == {
        "sessionId": "s",
        "approvalId": approval_id,
        "decision": "cancelled",
        "cause": {},
    }
    if end is delete:
        return
    assert pending(names["other"]) == []
    assert names["other"].refuse("approval/respond", approvalId=approval_id, decision="approve")["code"] == 4026
    assert verdicts(names["other"]) == ["pending", "cancelled"]
    settle([names["other"]])
    assert len(told(names["other"], RESOLVED)) == 1


def test_what_needs_no_person_is_answered_at_the_end_of_input(windows: Windows) -> None:
    owner = windows.open("owner")
    owner.call("session/setAutoApprove", action="yes", enabled=True)
    for window in (windows.open("attached"), owner):
        granted, asked_in_vain = ask(window, action="yes"), ask(window, action="no")
        window.server.close_stdin()
        assert granted.result()["decision"] == "approve"
        assert asked_in_vain.error()["code"] == -32800
        assert window.server.wait() == 0


# hand-over


GOODBYES: list[Any] = [
    lambda owner: owner.call("session/close"),
    lambda owner: owner.server.finish(),
    lambda owner: owner.server.shut_down(),
    lambda owner: owner.server.kill(),
]


@pytest.mark.parametrize("leave", mostly_long(GOODBYES), ids=["close", "end of input", "shutdown", "kill"])
@pytest.mark.parametrize("named", [True, False], ids=["request id", "no request id"])
def test_a_hand_over_keeps_it_waiting(windows: Windows, leave: Any, named: bool) -> None:
    owner, asker, other = windows.open("owner"), windows.open("asker"), windows.open("other")
    request = ask(asker, description="build", timeout=500, **({"requestId": "r"} if named else {}))
    shown = asked(other)
    marks = [len(window.server.received) for window in (asker, other)]
    leave(owner)
    for window, mark in zip((asker, other), marks, strict=True):
        window.server.heard("session/didChange", since=mark, kind="accessChanged")
    until(lambda: pending(other) == [shown])
    late = windows.open("late")
    until(lambda: pending(late) == [shown])
    decide(late, shown["approvalId"], "reject", reason="no")
    assert request.result() == at_least({"decision": "reject", "decidedBy": at_least({"client": "late"})})
    assert "duplicate" not in request.result()
    for window in (asker, other):
        assert len(told(window, REQUESTED)) == 1
        assert [end["decision"] for end in told(window, RESOLVED)] == ["reject"]
    assert verdicts(other) == ["pending", "reject"]


def test_a_decision_that_is_under_way_at_a_hand_over_waits_for_who_asked(windows: Windows) -> None:
    owner, asker, other = windows.open("owner"), windows.open("asker"), windows.open("other")
    request = ask(asker)
    approval_id = asked(other)["approvalId"]
    owner.server.kill()
    assert decide(other, approval_id) == {}
    assert request.result()["decision"] == "approve"


@pytest.mark.long
def test_the_time_it_waited_counts_after_a_hand_over(windows: Windows) -> None:
    owner, asker = windows.open("owner"), windows.open("asker")
    request = ask(asker, timeout=3)
    until(lambda: pending(owner) != [])
    owner.server.kill()
    assert request.error()["code"] == 4027
    assert verdicts(asker) == ["pending", "timedOut"]


@pytest.mark.long
def test_what_the_last_owner_left_open_is_cancelled_in_the_audit(windows: Windows) -> None:
    owner = windows.open("owner")
    ask(owner)
    until(lambda: pending(owner) != [])
    owner.server.kill()
    heir = windows.open("heir")
    until(lambda: verdicts(heir) == ["pending", "cancelled"])
    assert heir.get_state()["warnings"] == []


def test_a_question_is_taken_over_however_much_the_audit_says_since(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    request = ask(other)
    shown = asked(owner)
    fill = json.dumps({"time": "2026-01-01T00:00:00.000Z", "field": "yolo", "from": False, "to": True}) + "\n"
    with (owner.path / "audit.jsonl").open("a") as file:
        file.write(fill * 20_000)  # some 2 MB
    owner.server.kill()
    until(lambda: pending(other) == [shown])
    decide(other, shown["approvalId"])
    assert request.result()["decision"] == "approve"
    assert verdicts(other) == ["pending", "approve"]


def test_who_comes_back_under_the_same_request_id_goes_on(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    ask(owner, requestId="r")
    shown = asked(other)
    owner.server.kill()
    back = windows.open("owner")
    request = ask(back, requestId="r")
    until(lambda: pending(other) == [shown])
    decide(other, shown["approvalId"])
    assert request.result()["decision"] == "approve"
    assert told(other, RESOLVED)[0]["decision"] == "approve"


@pytest.mark.parametrize("point", ["approval.after_requests", "approval.after_audit"])
def test_a_decision_that_nobody_was_told_of_counts(windows: Windows, point: str) -> None:
    windows.open("owner", failpoints=f"{point}=kill")
    asker, other, third = windows.open("asker"), windows.open("other"), windows.open("third")
    request = ask(asker)
    approval_id = asked(other)["approvalId"]
    asked(third)
    late = other.start("approval/respond", approvalId=approval_id, decision="reject", reason="no").reply()
    assert late["error"]["code"] == 4026  # it is decided, by the first of its two attempts
    assert request.result() == at_least({"decision": "reject", "reason": "no", "automatic": False})
    assert "duplicate" not in request.result()
    for window in (asker, other, third):
        end = resolved(window, approval_id)
        assert (end["decision"], end["reason"], end["cause"]) == ("reject", "no", {"client": "other"})
        assert len(told(window, RESOLVED)) == 1
        assert pending(window) == []
    assert verdicts(other) == ["pending", "reject"]


# a window that finds the next owner only after the end

LATE: dict[str, dict[str, Any]] = {"attached": {}, "next owner": {}, "reader": {"access": "readOnly"}}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("late", LATE)
def test_who_finds_the_next_owner_after_the_decision_is_told_of_it(windows: Windows, late: str) -> None:
    owner, asker, window = windows.open("owner"), windows.open("asker"), windows.open("late", **LATE[late])
    request = ask(asker)
    approval_id = asked(window)["approvalId"]
    with stopped(window):
        owner.server.kill()
        decide(asker, approval_id, "reject", reason="no")
        assert request.result()["decision"] == "reject"
        if late == "next owner":
            asker.server.kill()
    assert resolved(window, approval_id) == {
        "sessionId": "s",
        "approvalId": approval_id,
        "decision": "reject",
        "reason": "no",
        "cause": {"client": "asker"},
    }
    assert len(told(window, RESOLVED)) == len(told(window, REQUESTED)) == 1
    assert pending(window) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("late", LATE)
@pytest.mark.long
def test_who_finds_the_next_owner_after_it_was_given_up_is_told_of_it(windows: Windows, late: str) -> None:
    owner, heir, window = windows.open("owner"), windows.open("heir"), windows.open("late", **LATE[late])
    ask(owner)
    approval_id = asked(window)["approvalId"]
    with stopped(window):
        owner.server.kill()
        assert resolved(heir, approval_id)["decision"] == "cancelled"
        if late == "next owner":
            heir.server.kill()
    end = {"sessionId": "s", "approvalId": approval_id, "decision": "cancelled", "cause": {}}
    assert resolved(window, approval_id) == end
    assert len(told(window, RESOLVED)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_what_goes_on_waiting_has_no_end_for_who_finds_the_next_owner_late(windows: Windows) -> None:
    owner, asker, window = windows.open("owner"), windows.open("asker"), windows.open("late")
    request = ask(asker)
    approval_id = asked(window)["approvalId"]
    with stopped(window):
        owner.server.kill()
        until(lambda: pending(asker) != [])
    decide(window, approval_id)
    assert request.result()["decision"] == "approve"
    assert [end["decision"] for end in told(window, RESOLVED)] == ["approve"]
    assert len(told(window, REQUESTED)) == 1
