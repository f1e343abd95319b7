"""The Python client: asking for approvals, deciding them, both flavours."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import DATABASES, runtime_directory

from timeleap.client import AsyncTimeleap, Restarts, SyncTimeleap, TimeleapRpcError

ready = pytest.mark.usefixtures("ready_servers")
PATIENCE = 30
EAGER = Restarts(limit=20, delay=0.01, longest=0.1, stable=0.0, repeats=20)


@pytest.fixture
def arguments(home: Path, tmp_path: Path) -> dict[str, Any]:
    env = {"XDG_RUNTIME_DIR": str(runtime_directory()), "TIMELEAP_KEY_FILE": str(tmp_path / "key")}
    return {"home": home, "store": DATABASES.get(home), "env": env, "restarts": EAGER}


@pytest.fixture
async def two(arguments) -> AsyncIterator[tuple[AsyncTimeleap, AsyncTimeleap]]:
    async with AsyncTimeleap(name="agent", **arguments) as agent, AsyncTimeleap(name="window", **arguments) as window:
        yield agent, window


async def pending(session):
    async with asyncio.timeout(PATIENCE):
        while not (found := await session.approvals()):
            await asyncio.sleep(0.01)
    return found


@ready
async def test_a_handler_decides_what_waits_already_and_what_comes(two):
    agent, window = two
    async with agent.session("s") as asker, window.session("s") as decider:
        waiting = asyncio.create_task(asker.request_approval("run", detail={"command": "ls"}, tool_call_id="c"))
        await pending(decider)
        seen = []

        async def decide(approval):
            seen.append((approval.action, approval.detail, approval.client))
            return "approve" if approval.action == "run" else ("reject", "no")

        stop = decider.on_approval(decide)
        assert (await waiting).decision == "approve"
        rejected = await asker.request_approval("delete")
        assert (rejected.decision, rejected.reason, rejected.decided_by.client) == ("reject", "no", "window")
        assert seen == [("run", {"command": "ls"}, "agent"), ("delete", None, "agent")]
        stop()
        with pytest.raises(TimeleapRpcError) as late:
            await asker.request_approval("run", timeout=0.1)
        assert (late.value.code, late.value.kind) == (4027, "approvalTimeout")
        assert len(seen) == 2


@ready
async def test_a_handler_that_thinks_is_cancelled_when_somebody_else_decides(two):
    agent, window = two
    async with agent.session("s") as asker, window.session("s") as decider:
        thinking, cancelled = asyncio.Event(), asyncio.Event()

        async def think(_approval):
            thinking.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        decider.on_approval(think)
        waiting = asyncio.create_task(asker.request_approval("run"))
        async with asyncio.timeout(PATIENCE):
            await thinking.wait()
            (approval,) = await asker.approvals()
            await asker.respond_approval(approval.approval_id, "approveForSession")
            await cancelled.wait()
        assert (await waiting).decision == "approveForSession"
        assert (await asker.request_approval("run")).automatic
        with pytest.raises(TimeleapRpcError) as late:
            await decider.respond_approval(approval.approval_id, "reject")
        assert late.value.kind == "approvalNotPending"


@ready
async def test_giving_up_waiting_takes_the_question_back(two):
    agent, window = two
    async with agent.session("s") as asker, window.session("s") as decider:
        waiting = asyncio.create_task(asker.request_approval("run"))
        async with decider.notifications("approval/didResolve") as ends:
            await pending(decider)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with asyncio.timeout(PATIENCE):
                assert (await anext(ends)).params["decision"] == "cancelled"


@ready
async def test_nobody_is_there(two):
    agent, window = two
    async with agent.session("s") as asker, window.session("s") as decider:
        assert (await decider.set_afk(True)).afk
        rejected = await asker.request_approval("run")
        assert (rejected.decision, rejected.reason, rejected.automatic) == ("reject", "afk", True)
        assert not (await decider.set_afk(False)).afk


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_server_that_is_killed_while_it_waits_is_asked_again(two):
    agent, window = two
    async with agent.session("s") as asker, window.session("s") as decider:
        waiting = asyncio.create_task(asker.request_approval("run"))
        (before,) = await pending(decider)
        os.kill(agent.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            # A server that comes back late asks anew: the same approval, of a later time.
            while not (found := await decider.approvals()):
                await asyncio.sleep(0.01)
        assert [approval.approval_id for approval in found] == [before.approval_id]
        await decider.respond_approval(before.approval_id, "approve")
        assert (await waiting).decision == "approve"


@ready
async def test_a_short_time_limit_of_the_client_does_not_cut_it_short(arguments):
    async with AsyncTimeleap(**arguments) as client:
        session = client.session("s")
        await session.open()
        client._timeout = 0.1  # not before: starting the server has to be in time
        with pytest.raises(TimeleapRpcError) as late:
            await session.request_approval("run", timeout=1)
        assert late.value.kind == "approvalTimeout"


@ready
def test_the_blocking_client_asks_and_decides(arguments):
    with ExitStack() as stack:
        asker, decider = (
            stack.enter_context(stack.enter_context(SyncTimeleap(name=name, **arguments)).session("s"))
            for name in ("agent", "window")
        )
        threads = []

        def decide(approval):
            threads.append(threading.current_thread().name)
            assert [one.approval_id for one in decider.approvals()] == [approval.approval_id]
            return "reject", f"no {approval.action}"

        stop = decider.on_approval(decide)
        rejected = asker.request_approval("run", description="ls")
        assert (rejected.decision, rejected.reason) == ("reject", "no run")
        assert threads[0] != "timeleap-client"
        stop()
        decider.set_afk(True)
        assert asker.request_approval("run").reason == "afk"
        with pytest.raises(TimeleapRpcError):
            asker.respond_approval("never", "approve")
