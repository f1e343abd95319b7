"""`approval/request`, `approval/respond`, `approval/list`: one process asks, any window answers."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING, TIME, at_least
from tests.support.scene import settle, until
from tests.support.server import Launch, Message, Pending, Server
from tests.support.session import Session

WANTED = {"experimental": {"timeleap": {"approvals": True}}}
REQUESTED, RESOLVED = "approval/didRequest", "approval/didResolve"


@dataclass
class Windows:
    """Processes on one store, each with the session open; those that want to hear of approvals, unless told not to."""

    home: Path
    servers: list[Server]

    def start(self, name: str, *, approvals: bool = True, framing: Any = "lsp") -> Server:
        server = Server(Launch(self.home, framing))
        self.servers.append(server)
        server.initialize(clientInfo={"name": name}, capabilities=WANTED if approvals else {})
        return server

    def open(self, name: str, *, approvals: bool = True, **params: Any) -> Session:
        return Session.open(self.start(name, approvals=approvals), "s", **params)


@pytest.fixture
def windows(home: Path) -> Iterator[Windows]:
    many = Windows(home, [])
    try:
        yield many
    finally:
        for server in many.servers:
            server.dispose()


def ask(session: Session, action: str = "run command", **params: Any) -> Pending:
    return session.start("approval/request", action=action, **params)


def asked(session: Session, since: int = 0) -> Message:
    """Wait until a window is told of a request; returns it."""
    return dict(session.server.heard(REQUESTED, since=since, sessionId=session.id)["approval"])


def resolved(session: Session, approval_id: str, since: int = 0) -> Message:
    return session.server.heard(RESOLVED, since=since, approvalId=approval_id)


def told(session: Session, method: str, since: int = 0) -> list[Message]:
    settle([session])
    return [message["params"] for message in session.server.notifications(since) if message["method"] == method]


def pending(session: Session) -> list[Message]:
    return list(session.call("approval/list")["approvals"])


def audit(session: Session) -> list[Message]:
    """The entries about requests for approvals."""
    entries = [json.loads(line) for line in (session.path / "audit.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["field"] == "approval"]


def verdicts(session: Session) -> list[Any]:
    return [entry["to"] for entry in audit(session)]


def decide(session: Session, approval_id: str, decision: str = "approve", **params: Any) -> Any:
    return session.call("approval/respond", approvalId=approval_id, decision=decision, **params)


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


@pytest.mark.parametrize("leave", GOODBYES, ids=["close", "end of input", "shutdown", "kill"])
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


def test_the_time_it_waited_counts_after_a_hand_over(windows: Windows) -> None:
    owner, asker = windows.open("owner"), windows.open("asker")
    request = ask(asker, timeout=2)
    until(lambda: pending(owner) != [])
    owner.server.kill()
    assert request.error(timeout=20)["code"] == 4027
    assert verdicts(asker) == ["pending", "timedOut"]


def test_what_the_last_owner_left_open_is_cancelled_in_the_audit(windows: Windows) -> None:
    owner = windows.open("owner")
    ask(owner)
    until(lambda: pending(owner) != [])
    owner.server.kill()
    heir = windows.open("heir")
    until(lambda: verdicts(heir) == ["pending", "cancelled"])
    assert heir.get_state()["warnings"] == []


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


# nothing waits for it


@pytest.mark.parametrize("who", ["owner", "attached"])
def test_it_holds_up_nothing(windows: Windows, who: str) -> None:
    names = {name: windows.open(name) for name in ("owner", "attached")}
    window = names[who]
    requests = [ask(window, action=f"a{number}") for number in range(100)]
    window.say("one")
    window.checkpoint()
    window.call("context/revertTo", checkpointId=0)
    window.call("context/clear")
    assert window.texts() == []
    assert len(pending(window)) == 100
    for method in ("session/archive", "session/unarchive", "session/verify"):
        window.call(method)
    refused = window.refuse("approval/request", action="one too many")
    assert (refused["code"], refused["data"]) == (4012, {"kind": "overloaded", "retryable": True})
    assert "100" in refused["message"]
    window.server.notify("$/cancelRequest", id=requests[0].id)
    assert requests[0].error()["code"] == -32800
    last = ask(window, action="there is room again")
    until(lambda: len(pending(window)) == 100)
    window.call("session/setYolo", yolo=True)
    assert last.result()["decision"] == "approve"
    assert {request.result()["decision"] for request in requests[1:]} == {"approve"}


def test_one_connection_cannot_fill_itself_with_waiting(windows: Windows) -> None:
    server = windows.start("greedy")
    sessions = [Session.open(server) for _ in range(3)]
    requests = [ask(session, requestId=f"r{number}") for session in sessions for number in range(100)]
    errors = [request for request in requests[256:] if request.error()["code"] == 4012]
    assert len(errors) == 44
    sessions[0].say("it still works")
    assert server.shut_down() == 0
    assert {request.error()["code"] for request in requests[:256]} == {-32800}


# bounds, and what is kept


def test_what_may_be_asked_is_bounded(windows: Windows) -> None:
    owner = windows.open("owner")
    owner.call("session/setYolo", yolo=True)

    def size_of(detail: Any) -> int:
        return len(json.dumps(detail, separators=(",", ":"), ensure_ascii=False).encode())

    fitting = {"diff": "ü" * ((64 * 1024 - size_of({"diff": ""})) // 2)}
    assert size_of(fitting) in (64 * 1024, 64 * 1024 - 1)
    assert owner.call("approval/request", action="a" * 256, description="d" * 4096, detail=fitting)["automatic"] is True
    deep: Any = {}
    for _ in range(127):
        deep = {"d": deep}
    assert owner.call("approval/request", action="x", detail=deep)["automatic"] is True
    too_much: list[Message] = [{"diff": fitting["diff"] + "üü"}, {"d": deep}, {"d": [[]] * 30_000}]
    for detail in too_much:
        assert owner.refuse("approval/request", action="x", detail=detail)["code"] == 4011
    for params, field in (
        ({"action": ""}, "action"),
        ({"action": "a" * 257}, "action"),
        ({"action": "x", "description": "d" * 4097}, "description"),
        ({"action": "x", "toolCallId": "t" * 1025}, "toolCallId"),
        ({"action": "x", "detail": []}, "detail"),
        ({"action": "x", "detail": "text"}, "detail"),
        ({"action": "x", "timeout": 0}, "timeout"),
        ({"action": "x", "timeout": -1}, "timeout"),
        ({"action": "x", "requestId": "r" * 65}, "requestId"),
    ):
        error = owner.refuse("approval/request", **params)
        assert error["code"] == -32602
        assert [problem["loc"] for problem in error["data"]["errors"]] == [[field]]
    for params, field in (
        ({"approvalId": "x", "decision": "yes"}, "decision"),
        ({"approvalId": "x", "decision": "cancelled"}, "decision"),
        ({"approvalId": "x", "decision": "reject", "reason": "r" * 4097}, "reason"),
        ({"approvalId": "", "decision": "reject"}, "approvalId"),
    ):
        error = owner.refuse("approval/respond", **params)
        assert [problem["loc"] for problem in error["data"]["errors"]] == [[field]]


def test_details_are_kept_nowhere_and_redaction_reaches_the_rest(windows: Windows) -> None:
    owner = windows.open("owner")
    request = ask(owner, description="use hunter2-token", detail={"key": "s3cr3t-detail"}, requestId="r")
    until(lambda: pending(owner) != [])
    decide(owner, pending(owner)[0]["approvalId"], "reject", reason="hunter2-token is secret")
    request.result()
    everything = b"".join(path.read_bytes() for path in owner.path.rglob("*") if path.is_file())
    assert b"s3cr3t-detail" not in everything
    assert b"hunter2-token" in everything
    owner.call("session/redact", value="hunter2-token")
    everything = b"".join(path.read_bytes() for path in owner.path.rglob("*") if path.is_file())
    assert b"hunter2-token" not in everything
    assert verdicts(owner) == ["pending", "reject"]
    assert "hunter2" not in owner.server.stderr() and "s3cr3t" not in owner.server.stderr()


def test_a_long_description_is_cut_in_the_audit(windows: Windows) -> None:
    owner = windows.open("owner")
    owner.call("session/setYolo", yolo=True)
    owner.call("approval/request", action="x", description="d" * 4096)
    assert audit(owner)[0]["description"] == "d" * 200


def test_the_audit_on_the_wire_tells_of_requests_and_decisions(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    request = ask(owner, description="ls", toolCallId="c", requestId="r")
    approval_id = asked(other)["approvalId"]
    decide(other, approval_id, "reject", reason="no")
    request.result()
    entries = other.call("session/listAudit")["entries"]
    common = {"field": "approval", "approvalId": approval_id, "action": "run command", "time": TIME}
    assert entries == [
        {**common, "client": "other", "from": "pending", "to": "reject", "reason": "no"},
        {
            **common,
            "client": "owner",
            "requestId": "r",
            "description": "ls",
            "toolCallId": "c",
            "from": None,
            "to": "pending",
        },
    ]


@pytest.mark.parametrize("who", ["owner", "attached"])
def test_a_fork_and_a_second_opening_do_not_wait_for_it(windows: Windows, who: str) -> None:
    names = {name: windows.open(name) for name in ("owner", "attached")}
    window = names[who]
    window.say("one")
    request = ask(window)
    asked(window)
    forked = window.call("session/fork")
    assert forked["approval"]["autoApproveActions"] == []
    window.reopen(window.server)
    window.call("session/close")
    assert len(pending(window)) == 1  # it is open still: only the last closing ends what was asked
    decide(window, pending(window)[0]["approvalId"])
    assert request.result()["decision"] == "approve"


def test_who_cannot_note_it_neither_asks_nor_decides(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    (owner.path / "audit.jsonl").mkdir()
    assert owner.refuse("approval/request", action="x")["code"] == 4005
    assert pending(other) == [] and told(other, REQUESTED) == []
    (owner.path / "audit.jsonl").rmdir()
    request = ask(owner, requestId="r")
    approval_id = asked(other)["approvalId"]
    (owner.path / "audit.jsonl").rename(owner.path / "aside")
    (owner.path / "audit.jsonl").mkdir()
    assert other.refuse("approval/respond", approvalId=approval_id, decision="approve")["code"] == 4005
    assert len(pending(owner)) == 1 and told(owner, RESOLVED) == []
    (owner.path / "audit.jsonl").rmdir()
    (owner.path / "aside").rename(owner.path / "audit.jsonl")
    decide(other, approval_id)
    assert request.result()["decision"] == "approve"


def test_an_approval_is_not_decided_behind_a_compaction_that_waits(windows: Windows) -> None:
    summarizing = {"experimental": {"timeleap": {"approvals": True, "summarize": True}}}
    server = Server(Launch(windows.home, "lsp"))
    windows.servers.append(server)
    server.initialize(clientInfo={"name": "editor"}, capabilities=summarizing)
    session = Session.open(server, "s")
    session.say(*("a question " * 200 for _ in range(6)))
    compaction = session.start("context/compact", summarizer="client")
    question = server.wait_for(lambda message: message.get("method") == "context/summarize")
    request = ask(session)
    approval_id = asked(session)["approvalId"]
    assert len(pending(session)) == 1
    decide(session, approval_id)
    assert request.result()["decision"] == "approve"
    server.send({"jsonrpc": "2.0", "id": question["id"], "result": {"summary": "much was asked"}})
    compaction.result()


def test_a_key_that_cannot_be_had_leaves_it_undecided(windows: Windows, tmp_path: Path) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    request = ask(owner)
    approval_id = asked(other)["approvalId"]
    key = owner.server.launch.user / "key"
    key.mkdir(parents=True)
    assert other.refuse("approval/respond", approvalId=approval_id, decision="approveForSession")["code"] == 4005
    assert len(pending(owner)) == 1
    assert owner.get_state()["approval"] == at_least({"autoApproveActions": []})
    decide(other, approval_id)
    assert request.result()["decision"] == "approve"
