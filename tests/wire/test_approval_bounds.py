"""Requests for approvals hold up nothing, are bounded, and leave no more than they should."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
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
    told,
    verdicts,
)
from tests.support.holding import wait_until
from tests.support.matching import TIME, at_least
from tests.support.scene import settle, until
from tests.support.server import Launch, Message, Server
from tests.support.session import Session

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

    def refused() -> set[Any]:
        return {reply["id"] for reply in server.received if reply.get("error", {}).get("code") == 4012}

    wait_until(lambda: len(refused()) == 44)
    sessions[0].say("it still works")
    waiting = [request for request in requests if request.id not in refused()]
    assert len(waiting) == 256
    assert server.shut_down() == 0
    assert {request.error()["code"] for request in waiting} == {-32800}


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


@contextmanager
def nothing_can_be_written(session: Session) -> Iterator[None]:
    """Every write to a file fails in the session's server."""
    process = psutil.Process(session.server.process.pid)
    before = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (0, before[1]))
    yield
    process.rlimit(psutil.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set with prlimit")
def test_who_cannot_note_it_neither_asks_nor_decides(windows: Windows) -> None:
    owner, other = windows.open("owner"), windows.open("other")
    with nothing_can_be_written(owner):
        assert owner.refuse("approval/request", action="x")["code"] == 4005
    assert pending(other) == [] and told(other, REQUESTED) == []
    request = ask(owner, requestId="r")
    approval_id = asked(other)["approvalId"]
    with nothing_can_be_written(owner):
        assert other.refuse("approval/respond", approvalId=approval_id, decision="approve")["code"] == 4005
    assert len(pending(owner)) == 1 and told(owner, RESOLVED) == []
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


@pytest.mark.parametrize("asker", ["owner", "attached"])
def test_a_redaction_reaches_a_question_that_waits(windows: Windows, asker: str) -> None:
    owner, attached = windows.open("owner"), windows.open("attached hunter2")
    named: dict[str, Any] = {"action": "run hunter2", "description": "say hunter2", "toolCallId": "hunter2"}
    request = ask(
        {"owner": owner, "attached": attached}[asker], detail={"a": ["hunter2"]}, requestId="hunter2", **named
    )
    until(lambda: pending(owner) != [])
    owner.call("session/redact", value="hunter2")
    (shown,) = pending(attached)
    assert "hunter2" not in json.dumps(shown)
    assert shown["detail"] == {"a": ["[redacted]"]} and shown["action"] == "run [redacted]"
    again = ask(owner, requestId="hunter2", **named)
    settle([owner])
    assert pending(owner) == [shown]
    decide(owner, shown["approvalId"])
    assert request.result()["decision"] == again.result()["decision"] == "approve"
    everything = b"".join(path.read_bytes() for path in owner.path.rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert verdicts(owner) == ["pending", "approve"]


@pytest.mark.long
def test_a_redaction_reaches_a_question_that_the_last_owner_left(windows: Windows) -> None:
    owner = windows.open("owner")
    ask(owner, action="run hunter2")
    until(lambda: pending(owner) != [])
    owner.server.kill()
    heir = windows.open("heir")
    heir.call("session/redact", value="hunter2")
    until(lambda: verdicts(heir) == ["pending", "cancelled"])
    assert b"hunter2" not in (heir.path / "audit.jsonl").read_bytes()
