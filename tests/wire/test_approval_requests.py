"""`approval/request`, `approval/respond`, `approval/list`: one process asks, any window answers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.approvals import (
    REQUESTED,
    RESOLVED,
    Windows,
    ask,
    asked,
    audit,
    decide,
    pending,
    resolved,
    told,
    verdicts,
)
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING, TIME, at_least
from tests.support.scene import settle, until
from tests.support.server import Message
from tests.support.session import Session

# who asks, who decides

WAYS = [
    ("owner", "owner"),
    ("owner", "attached"),
    ("attached", "owner"),
    ("attached", "attached"),
    ("attached", "other"),
]


@pytest.mark.parametrize(("asker", "decider"), WAYS)
def test_whichever_process_asks_any_window_decides(windows: Windows, asker: str, decider: str) -> None:
    names = {name: windows.open(name) for name in ("owner", "attached", "other")}
    before = names["owner"].head
    request = ask(
        names[asker],
        description="rm -r build",
        detail={"command": "rm -r build", "n": 1.5, "ü": [None]},
        toolCallId="call-7",
    )
    shown = asked(names[decider])
    assert shown == {
        "approvalId": A_STRING,
        "action": "run command",
        "description": "rm -r build",
        "detail": {"command": "rm -r build", "n": 1.5, "ü": [None]},
        "toolCallId": "call-7",
        "requestedAt": TIME,
        "client": asker,
    }
    for window in names.values():
        assert asked(window) == shown
        assert pending(window) == [shown]
    assert decide(names[decider], shown["approvalId"], "reject", reason="Not that one.") == {}
    assert request.result() == {
        "decision": "reject",
        "reason": "Not that one.",
        "decidedBy": {"client": decider, "at": TIME},
        "automatic": False,
    }
    for window in names.values():
        assert told(window, RESOLVED) == [
            {
                "sessionId": "s",
                "approvalId": shown["approvalId"],
                "decision": "reject",
                "reason": "Not that one.",
                "cause": {"client": decider},
            }
        ]
        assert pending(window) == []
    assert names["owner"].head == before
    assert [(entry["who"], entry["from"], entry["to"]) for entry in audit(names["owner"])] == [
        (asker, None, "pending"),
        (decider, "pending", "reject"),
    ]


def test_windows_are_told_before_asker_and_decider_are_answered(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    request = ask(owner)
    approval_id = asked(other)["approvalId"]
    answer = other.start("approval/respond", approvalId=approval_id, decision="approve")
    assert [message["method"] for message in answer.heard()] == [RESOLVED]
    assert [message["method"] for message in request.heard()] == [REQUESTED, RESOLVED]


def test_only_who_declared_it_hears_of_approvals(windows: Windows) -> None:
    owner, other, deaf = windows.open("owner"), windows.open("other"), windows.open("deaf", approvals=False)
    request = ask(deaf)
    approval_id = asked(owner)["approvalId"]
    assert asked(other)["client"] == "deaf"
    decide(deaf, approval_id)  # it may decide all the same
    request.result()
    settle([deaf])
    assert not [message for message in deaf.server.notifications() if message["method"].startswith("approval/")]


def test_it_is_announced(windows: Windows) -> None:
    hello = windows.start("x").hello["capabilities"]["experimental"]["timeleap"]
    assert hello["approvals"] is True
    assert {REQUESTED, RESOLVED} <= set(hello["notifications"])
    assert {"approval/request", "approval/respond", "approval/list", "session/setAfk"} <= set(hello["methods"])


def test_a_window_that_opens_later_finds_it_in_the_list(windows: Windows) -> None:
    owner = windows.open("owner")
    first, second = ask(owner, description="1"), ask(owner, action="other", description="2")
    late = windows.open("late")
    shown = pending(late)
    assert [one["description"] for one in shown] == ["1", "2"]
    for one in reversed(shown):
        decide(late, one["approvalId"])
    assert [one.result()["decision"] for one in (first, second)] == ["approve", "approve"]
    assert len(told(late, RESOLVED)) == 2


# readers


@pytest.mark.parametrize("who", ["same process", "other process"])
def test_a_reader_sees_what_is_asked_and_may_not_decide(windows: Windows, who: str) -> None:
    owner = windows.open("owner")
    if who == "same process":
        server = owner.server
        owner.call("session/close")
        owner = windows.open("another")
        reader = Session.open(server, "s", access="readOnly")
    else:
        reader = windows.open("reader", access="readOnly")
    request = ask(owner)
    shown = asked(reader)
    assert pending(reader) == [shown]
    assert reader.refuse("approval/respond", approvalId=shown["approvalId"], decision="approve")["code"] == 4004
    assert reader.refuse("approval/request", action="x")["code"] == 4004
    assert reader.refuse("session/setAfk", afk=True)["code"] == 4004
    decide(owner, shown["approvalId"])
    assert request.result()["decision"] == "approve"
    assert resolved(reader, shown["approvalId"])["decision"] == "approve"
    assert pending(reader) == []


def test_a_reader_without_an_owner_sees_nothing_pending(windows: Windows) -> None:
    windows.open("owner").call("session/close")
    assert pending(windows.open("reader", access="readOnly")) == []


def test_a_session_that_is_not_open_is_no_place_to_ask(windows: Windows) -> None:
    server = windows.open("owner").server
    Session.open(server, "closed").call("session/close")
    cases: list[tuple[str, Message]] = [
        ("approval/request", {"action": "x"}),
        ("approval/respond", {"approvalId": "x", "decision": "approve"}),
        ("approval/list", {}),
    ]
    for method, params in cases:
        assert server.refuse(method, sessionId="closed", **params)["code"] == 4013
        assert server.refuse(method, sessionId="nowhere", **params)["code"] == 4001


# the first decision counts


def test_of_two_deciders_the_second_is_too_late(windows: Windows) -> None:
    owner, one, two = windows.open("owner"), windows.open("one"), windows.open("two")
    for number in range(20):
        _race(owner, one, two, f"race {number}")
    assert len(verdicts(owner)) == 40


def _race(owner: Session, one: Session, two: Session, action: str) -> None:
    windows = (owner, one, two)
    marks = [len(window.server.received) for window in windows]
    request = ask(owner, action=action)
    ids = [asked(window, mark)["approvalId"] for window, mark in zip(windows, marks, strict=True)]

    def choose(window: Session, decision: str) -> Message:
        return window.start("approval/respond", approvalId=ids[0], decision=decision).reply()

    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(choose, (one, two), ("approve", "reject")))
    (refused,) = [reply["error"] for reply in replies if "error" in reply]
    assert (refused["code"], refused["data"]["kind"]) == (4026, "approvalNotPending")
    winner = "approve" if "result" in replies[0] else "reject"
    assert request.result()["decision"] == winner
    for window, mark in zip(windows, marks, strict=True):
        assert [end["decision"] for end in told(window, RESOLVED, mark)] == [winner]


def test_what_does_not_wait_cannot_be_decided(windows: Windows) -> None:
    owner = windows.open("owner")
    for approval_id in ("never", "a0123456789abcdef", "x" * 100_000):
        error = owner.refuse("approval/respond", approvalId=approval_id, decision="approve")
        assert error["code"] == 4026 and len(error["message"]) < 300
    request = ask(owner)
    approval_id = asked(owner)["approvalId"]
    decide(owner, approval_id)
    request.result()
    assert owner.refuse("approval/respond", approvalId=approval_id, decision="approve")["code"] == 4026


# automatic ones


def test_yolo_and_automatic_approvals_answer_at_once(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    owner.call("session/setAutoApprove", action="run tests", enabled=True)
    expected = {"decision": "approve", "decidedBy": {"at": TIME}, "automatic": True}
    assert other.call("approval/request", action="run tests") == {**expected, "reason": "autoApprove"}
    owner.call("session/setYolo", yolo=True)
    assert other.call("approval/request", action="anything") == {**expected, "reason": "yolo"}
    assert told(owner, REQUESTED) == told(other, REQUESTED) == []
    assert [(entry["from"], entry["to"], entry["automatic"]) for entry in audit(owner)] == [(None, "approve", True)] * 2


def test_nobody_is_there(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    head = owner.head
    on = other.call("session/setAfk", afk=True, requestId="r")
    assert on == {
        "head": head,
        "approval": at_least({"afk": True, "yolo": False, "sealed": True, "changedBy": "other"}),
    }
    assert owner.server.heard("session/didChange", kind="approvalChanged")["approval"]["afk"] is True
    rejected = owner.call("approval/request", action="x")
    assert rejected == {"decision": "reject", "reason": "afk", "decidedBy": {"at": TIME}, "automatic": True}
    owner.call("session/setAutoApprove", action="x", enabled=True)
    assert owner.get_state()["approval"]["afk"] is True
    assert owner.call("approval/request", action="x")["decision"] == "approve"  # that needs no person
    assert owner.call("session/isApproved", action="y") == {"approved": False, "reason": "notApproved"}
    assert other.call("session/setAfk", afk=True, requestId="r")["duplicate"] is True
    assert owner.call("session/setAfk", afk=False)["approval"]["afk"] is False
    request = ask(owner, action="y")
    decide(other, asked(other)["approvalId"])
    assert request.result()["automatic"] is False
    entries = [json.loads(line) for line in (owner.path / "audit.jsonl").read_text().splitlines()]
    changes = [(entry["who"], entry["from"], entry["to"]) for entry in entries if entry["field"] == "afk"]
    assert changes == [("other", False, True), ("owner", True, False)]


def test_afk_survives_a_restart_and_is_not_believed_unsealed(start: StartServer) -> None:
    first = Session.open(start(), "s")
    first.call("session/setAfk", afk=True)
    assert first.server.finish() == 0
    second = first.reopen(start())
    assert second.get_state()["approval"]["afk"] is True
    second.call("session/setAfk", afk=False)
    assert second.server.finish() == 0
    state = json.loads((second.path / "state.json").read_text())
    state["approval"]["afk"] = True
    (second.path / "state.json").write_text(json.dumps(state))
    third = second.reopen(start())
    assert third.get_state()["approval"]["afk"] is False
    assert [warning["kind"] for warning in third.get_state()["warnings"]] == ["approvalSealBroken"]


@pytest.mark.parametrize(
    ("method", "params", "covered", "decision", "reason"),
    [
        ("session/setYolo", {"yolo": True}, ["a", "b"], "approve", "yolo"),
        ("session/setAutoApprove", {"action": "a", "enabled": True}, ["a"], "approve", "autoApprove"),
        ("session/setAfk", {"afk": True}, ["a", "b"], "reject", "afk"),
    ],
)
def test_switching_one_on_answers_what_waits_and_is_covered(
    windows: Windows, method: str, params: Any, covered: list[str], decision: str, reason: str
) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    requests = {name: ask(owner, action=name, requestId=name) for name in ("a", "b")}
    until(lambda: len(pending(other)) == 2)
    change = other.start(method, **params)
    heard = [message["method"] for message in change.heard()]
    assert heard == ["session/didChange", *[RESOLVED] * len(covered)]
    for name in covered:
        assert requests[name].result() == {
            "decision": decision,
            "reason": reason,
            "decidedBy": {"client": "other", "at": TIME},
            "automatic": True,
        }
    left = [one["action"] for one in pending(owner)]
    assert left == [name for name in requests if name not in covered]
    for name in covered:
        assert owner.call("approval/request", action=name, requestId=name)["duplicate"] is True


def test_approve_for_session_is_sealed_and_covers_what_waits(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    first, second, third = ask(owner, action="run"), ask(other, action="run"), ask(owner, action="write")
    until(lambda: len(pending(other)) == 3)
    chosen = next(one for one in pending(other) if one["action"] == "run")
    answer = other.start("approval/respond", approvalId=chosen["approvalId"], decision="approveForSession")
    heard = answer.heard()
    assert [message["method"] for message in heard] == ["session/didChange", RESOLVED, RESOLVED]
    assert heard[0]["params"] == at_least({"kind": "approvalChanged", "cause": {"client": "other"}})
    assert heard[0]["params"]["approval"] == at_least(
        {"autoApproveActions": ["run"], "sealed": True, "changedBy": "other"}
    )
    assert [message["params"]["decision"] for message in heard[1:]] == ["approveForSession", "approve"]
    decisions = {(one.result()["decision"], one.result()["automatic"]) for one in (first, second)}
    assert decisions == {("approveForSession", False), ("approve", True)}
    assert owner.call("approval/request", action="run")["automatic"] is True
    assert [one["action"] for one in pending(owner)] == ["write"]
    entries = [json.loads(line) for line in (owner.path / "audit.jsonl").read_text().splitlines()]
    assert [(e["who"], e["from"], e["to"]) for e in entries if e["field"] == "autoApprove:run"] == [
        ("other", False, True)
    ]
    decide(owner, pending(owner)[0]["approvalId"], "reject")
    assert third.result()["decision"] == "reject"
    owner.server.kill()
    until(lambda: other.get_state()["access"] == "owner")
    assert other.get_state()["approval"] == at_least({"autoApproveActions": ["run"], "sealed": True})


# repeats


def test_a_repeat_joins_what_waits_or_gets_its_decision(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    first = ask(owner, requestId="r", detail={"x": 1})
    shown = asked(other)
    again = ask(other, requestId="r", detail={"x": 1}, timeout=1000)
    settle([other])
    assert pending(other) == [shown]
    assert other.refuse("approval/request", action="another", requestId="r")["code"] == -32602
    assert (
        other.refuse("context/appendMessage", message={"role": "user", "content": "x"}, requestId="r")["code"] == -32602
    )
    decide(owner, shown["approvalId"])
    assert first.result() == again.result()
    assert len(told(other, REQUESTED)) == len(told(other, RESOLVED)) == 1
    for window in (owner, other):
        assert window.call("approval/request", action="run command", requestId="r", detail={"x": 1}) == {
            **first.result(),
            "duplicate": True,
        }
    assert other.refuse("approval/request", action="another", requestId="r")["code"] == -32602
    assert verdicts(owner) == ["pending", "approve"]


def test_a_decision_is_known_after_a_restart(start: StartServer) -> None:
    first = Session.open(start(), "s")
    request = ask(first, requestId="r")
    until(lambda: pending(first) != [])
    decide(first, pending(first)[0]["approvalId"], "reject", reason="no")
    automatic = first.call("session/setYolo", yolo=True) and first.call(
        "approval/request", action="y", requestId="auto"
    )
    first.server.kill()
    second = first.reopen(start())
    repeated = second.call("approval/request", action="run command", requestId="r")
    assert repeated == {**request.result(), "duplicate": True}
    second.call("session/setYolo", yolo=False)
    repeated = second.call("approval/request", action="y", requestId="auto")
    assert repeated == {**automatic, "duplicate": True}


def test_what_was_given_up_is_asked_anew(windows: Windows) -> None:
    owner = windows.open("owner")
    first = ask(owner, requestId="r", timeout=0.05)
    assert first.error()["code"] == 4027
    again = ask(owner, requestId="r")
    until(lambda: pending(owner) != [])
    decide(owner, pending(owner)[0]["approvalId"])
    assert "duplicate" not in again.result()
    assert verdicts(owner) == ["pending", "timedOut", "pending", "approve"]


def test_of_two_who_wait_for_one_decision_one_may_leave(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    first = ask(owner, requestId="r")
    until(lambda: pending(other) != [])
    impatient = ask(other, requestId="r", timeout=0.05)
    assert impatient.error()["code"] == 4027
    second = ask(other, requestId="r")
    settle([other])
    owner.server.notify("$/cancelRequest", id=first.id)
    assert first.error()["code"] == -32800
    assert len(pending(other)) == 1 and told(other, RESOLVED) == []
    decide(other, pending(other)[0]["approvalId"])
    assert second.result()["decision"] == "approve"


def test_what_is_switched_behind_a_request_comes_too_late_for_it(windows: Windows) -> None:
    window = windows.open("agent")
    switches = [("session/setYolo", "yolo"), ("session/setAfk", "afk")]
    decisions = []
    for method, member in switches * 5:
        window.start(method, **{member: True})
        decisions.append(ask(window))
        window.start(method, **{member: False})
    assert [one.result()["decision"] for one in decisions] == ["approve", "reject"] * 5
    waiting = ask(window)
    window.start("session/setYolo", yolo=True)
    assert asked(window)["action"]  # it was asked, though the switch is what decides it then
    decision = waiting.result()
    assert (decision["decision"], decision["reason"], decision["automatic"]) == ("approve", "yolo", True)
