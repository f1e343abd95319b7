"""`timeleap approvals`, `approve`, `reject`, `afk`: a person at a terminal decides what an agent asks."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import PATIENCE, Cli, Typed

from timeleap.client import SyncSession, SyncTimeleap
from timeleap_protocol.approval import ApprovalDecision

pytestmark = pytest.mark.usefixtures("ready_servers")
Ask = Callable[..., "Future[ApprovalDecision]"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def agent(cli: Cli) -> Iterator[SyncSession]:
    """Another program, whose session `s` is live."""
    with SyncTimeleap(home=cli.home, env=cli.environment(), name="agent") as client, client.session("s") as session:
        yield session


@pytest.fixture
def ask(agent: SyncSession) -> Iterator[Ask]:
    """Ask for an approval in the agent's program; returns when it waits."""
    with ThreadPoolExecutor(10) as pool:

        def ask(action: str, **params: Any) -> Future[ApprovalDecision]:
            before = len(agent.approvals())
            answer = pool.submit(agent.request_approval, action, **params)
            until(lambda: len(agent.approvals()) > before)
            return answer

        yield ask
        for one in agent.approvals():
            agent.respond_approval(one.approval_id, "reject")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_waits_is_listed_approved_and_rejected(cli: Cli, ask: Ask) -> None:
    assert cli.run("approvals", "s").out == ""
    assert cli.json("approvals", "s") == {"approvals": []}
    first = ask("run command", description="rm -r build\nand more")
    listed = cli.run("approvals", "s").out.splitlines()
    (shown,) = cli.json("approvals", "s")["approvals"]
    assert listed[0].split("\t") == ["id", "action", "description", "client", "asked"]
    assert listed[1].split("\t")[:4] == [shown["approvalId"], "run command", "rm -r build and more", "agent"]
    assert "rejected" in cli.run("reject", "s", "--reason", "not today").out
    assert (first.result(PATIENCE).decision, first.result().reason) == ("reject", "not today")
    assert first.result().decided_by.client == "timeleap-cli"
    second, third = ask("a"), ask("b")
    assert "2 requests wait" in cli.run("approve", "s", code=2).err
    by_action = {one["action"]: one["approvalId"] for one in cli.json("approvals", "s")["approvals"]}
    assert cli.json("approve", "s", by_action["b"]) == {"approvalId": by_action["b"], "decision": "approve"}
    assert third.result(PATIENCE).decision == "approve"
    assert "for the session" in cli.run("approve", "s", "--for-session").out
    assert second.result(PATIENCE).decision == "approveForSession"
    assert "no request waits" in cli.run("approve", "s", code=2).err
    assert "does not wait" in cli.run("approve", "s", by_action["b"], code=1).err
    assert "unasked: a" in cli.run("state", "s").out


def test_afk_is_shown_and_switched(cli: Cli, agent: SyncSession) -> None:
    assert cli.run("afk", "s").out == "afk is off\n"
    assert "ON" in cli.run("afk", "s", "on").out
    assert cli.json("afk", "s")["approval"]["afk"] is True
    assert agent.request_approval("x").reason == "afk"
    assert "afk ON" in cli.run("state", "s").out
    cli.run("afk", "s", "off")
    assert cli.json("state", "s")["approval"]["afk"] is False
    cli.run("afk", "s", "maybe", code=2)


def test_a_person_is_asked_about_each(cli: Cli, ask: Ask) -> None:
    answers = [
        ask("run", description="ls -l\n\x1b[2Jrm", detail={"cwd": "/srv", "last": "\x1b[31m!"}),
        ask("write"),
        ask("delete"),
        ask("mail"),
        ask("one more"),
    ]
    typed = Typed("what?\ny\na\nn\nnot that one\ns\n")  # and then the end of the input, which is that of the command
    ran = cli.terminal("approvals", "s", "--watch", input=typed, code=130)
    decided = [answer.result(PATIENCE) for answer in answers[:3]]
    assert [(one.decision, one.reason) for one in decided] == [
        ("approve", None),
        ("approveForSession", None),
        ("reject", "not that one"),
    ]
    assert not answers[3].done() and not answers[4].done()
    assert "\x1b[2J" not in ran.out and "\\x1b[2Jrm" in ran.out
    assert '"cwd": "/srv"' in ran.out and "ls -l" in ran.out
    assert ran.err.count("approve? [y]es, [a]lways, [n]o, [s]kip: ") == 6


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_question_that_another_window_answers_is_ended_at_once(cli: Cli, ask: Ask, agent: SyncSession) -> None:
    import pty

    first = ask("first")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        cli.argv(["approvals", "s", "--watch"]), stdin=theirs, stdout=theirs, stderr=theirs, env=cli.environment()
    )
    os.close(theirs)
    seen = bytearray()

    def sees(text: str, times: int = 1) -> None:
        deadline = time.monotonic() + PATIENCE
        while seen.count(text.encode()) < times:
            assert select.select([ours], [], [], max(0, deadline - time.monotonic()))[0], seen
            seen.extend(os.read(ours, 4096))

    try:
        sees("approve?")
        second = ask("second")
        agent.respond_approval(agent.approvals()[0].approval_id, "approve")
        sees("it was approved meanwhile by agent; Enter goes on")
        assert first.result(PATIENCE).decision == "approve"
        os.write(ours, b"y\n")  # meant for the first: no decision about the second
        sees("approve?", 2)
        assert not second.done()
        os.write(ours, b"a\n")
        assert second.result(PATIENCE).decision == "approveForSession"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_pipe_gets_json_lines_and_decides_nothing(cli: Cli, ask: Ask, agent: SyncSession, option: Any) -> None:
    early = ask("early")
    process = cli.start("approvals", "s", "--watch", *option)
    said: list[Any] = []
    listening = threading.Thread(target=_listen, args=(process, said), daemon=True)
    listening.start()
    try:
        until(lambda: len(said) == 1)
        late = ask("late")
        until(lambda: len(said) == 2)
        for one in agent.approvals():
            agent.respond_approval(one.approval_id, "approve")
        until(lambda: len(said) == 4)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    finally:
        _end(process, listening)
    assert early.result(PATIENCE).decision == late.result(PATIENCE).decision == "approve"
    methods = [line["method"].removeprefix("approval/") for line in said]
    assert methods == ["didRequest", "didRequest", "didResolve", "didResolve"]
    assert [line["params"]["approval"]["action"] for line in said[:2]] == ["early", "late"]


def _listen(process: subprocess.Popen[str], said: list[Any]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        said.extend(map(json.loads, lines))


def _end(process: subprocess.Popen[str], listening: threading.Thread) -> None:
    process.kill()
    process.wait(PATIENCE)
    listening.join(PATIENCE)
    assert process.stderr is not None
    process.stderr.close()


def test_requests_are_told_of_by_tail(cli: Cli, ask: Ask) -> None:
    process = cli.start("tail", "-f", "s")
    said: list[Any] = []
    listening = threading.Thread(target=_listen, args=(process, said), daemon=True)
    assert process.stderr is not None
    assert "Ctrl-C ends" in process.stderr.readline()
    listening.start()
    try:
        answer = ask("run")
        until(lambda: any(line["method"] == "approval/didRequest" for line in said))
        cli.run("approve", "s")
        assert answer.result(PATIENCE).decision == "approve"
        until(lambda: any(line["method"] == "approval/didResolve" for line in said))
    finally:
        _end(process, listening)


def test_call_opens_to_write_what_a_method_needs_to_write(cli: Cli, agent: SyncSession, ask: Ask) -> None:
    answer = ask("run")
    decision = {"sessionId": "s", "approvalId": agent.approvals()[0].approval_id, "decision": "approve"}
    assert cli.run("call", "approval/respond", json.dumps(decision)).json() == {}
    assert answer.result(PATIENCE).decision == "approve"
