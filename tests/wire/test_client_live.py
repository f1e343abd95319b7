"""The Python client on sessions that are live in several processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import runtime_directory
from tests.support.turns import until

from timeleap.client import RECONNECTED, AsyncTimeleap, Restarts, SyncTimeleap, TimeleapRpcError

CHANGE = ("context/didChange", "session/didChange")
WINDOW_PATIENCE = 30
EAGER = Restarts(limit=20, delay=0.01, longest=0.1, stable=0.0, repeats=20)


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, object]:
    env = {"XDG_RUNTIME_DIR": str(runtime_directory()), "TIMELEAP_KEY_FILE": str(tmp_path / "key")}
    return {"home": tmp_path / "home", "env": env, "restarts": EAGER}


@pytest.fixture
async def two(arguments) -> AsyncIterator[tuple[AsyncTimeleap, AsyncTimeleap]]:
    """Two clients of one store, each with a server of its own."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncTimeleap(name="first", **arguments))
        second = await stack.enter_async_context(AsyncTimeleap(name="second", **arguments))
        yield first, second


async def kill(client):
    async with asyncio.timeout(WINDOW_PATIENCE):
        while client.pid is None:  # the last one was killed just now
            await asyncio.sleep(0.01)
    os.kill(client.pid, signal.SIGKILL)


async def heard(subscription, kind):
    """What was notified up to the first of that kind."""
    async with asyncio.timeout(WINDOW_PATIENCE):
        changes = []
        async for notification in subscription:
            changes.append(notification)
            if notification.kind == kind:
                return changes
    raise AssertionError("the subscription ended")


async def contents(session):
    return [message["content"] for message in await session.history()]


async def test_both_act_on_the_session_and_hear_the_same(two):
    first, second = two
    async with first.session("live") as mine, second.session("live") as theirs:
        assert (mine.opened.access, theirs.opened.access) == ("owner", "attached")
        subscriptions = [session.notifications(*CHANGE) for session in (mine, theirs)]
        checkpoint = await mine.checkpoint("before the idea")
        await mine.append("an idea")
        pinned = mine.at(mine.head)
        await theirs.revert_to(checkpoint.uid)
        with pytest.raises(TimeleapRpcError) as caught:
            await pinned.append("on top of the idea")
        assert (caught.value.kind, caught.value.data["head"]) == ("contentModified", theirs.head)
        await mine.append("another idea")
        await theirs.set_title("done")
        one, other = [await heard(each, "titleChanged") for each in subscriptions]
        assert one == other
        assert [(change.kind, change.params["cause"]["client"]) for change in one] == [
            ("checkpointCreated", "first"),
            ("messagesAppended", "first"),
            ("reverted", "second"),
            ("messagesAppended", "first"),
            ("titleChanged", "second"),
        ]
        assert await contents(mine) == await contents(theirs) == ["another idea"]


@pytest.mark.long
async def test_owners_are_killed_under_load_and_nothing_is_lost_or_doubled(two):
    async with two[0].session("live") as one, two[1].session("live") as other:
        tasks = []
        for number in range(80):
            tasks += [
                asyncio.create_task(session.append(f"{name}{number}")) for name, session in (("a", one), ("b", other))
            ]
            if number in {20, 40, 60}:
                await tasks[-20]
                await kill(two[number // 20 % 2])
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        found = await contents(one)
        assert len(found) == 160
        for name in "ab":
            assert [text for text in found if text.startswith(name)] == [f"{name}{number}" for number in range(80)]
        assert {(await session.state()).access for session in (one, other)} == {"owner", "attached"}


async def test_who_takes_over_is_told_and_who_was_killed_comes_back_attached(two):
    first, second = two
    async with first.session("live") as mine, second.session("live") as theirs:
        await mine.append("one")
        taking_over = theirs.notifications("session/didChange")
        back = first.notifications(RECONNECTED)
        await kill(first)
        assert (await heard(taking_over, "accessChanged"))[-1].params["access"] == "owner"
        told = (await asyncio.wait_for(anext(back), WINDOW_PATIENCE)).params
        assert told == {"sessions": [{"sessionId": "live", "head": mine.head, "access": "attached"}], "refused": []}
        await mine.append("two")
        assert await contents(theirs) == ["one", "two"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
@pytest.mark.long
async def test_an_owner_that_hangs_for_a_while_is_waited_for_and_the_request_takes_effect_once(two, monkeypatch):
    first, second = two
    refused: list[TimeleapRpcError] = []
    of = TimeleapRpcError.of

    def noting(error: Any) -> TimeleapRpcError:
        refused.append(of(error))
        return refused[-1]

    monkeypatch.setattr(TimeleapRpcError, "of", noting)
    async with first.session("live"), second.session("live") as theirs:
        os.kill(first.pid or 0, signal.SIGSTOP)
        try:
            appended = asyncio.create_task(theirs.append("patiently"))
            await until(lambda: refused)  # a server does not wait for an owner as long as its client does
            assert refused[0].kind == "sessionLocked"
            assert not appended.done()
        finally:
            os.kill(first.pid or 0, signal.SIGCONT)
        await appended
        assert await contents(theirs) == ["patiently"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
@pytest.mark.long
async def test_an_owner_that_hangs_for_good_is_an_error_and_the_session_can_be_watched(arguments):
    owner, other = AsyncTimeleap(**arguments), AsyncTimeleap(**arguments, patience=0.0)
    async with owner as first, other as second, first.session("live") as session:
        await session.append("one")
        os.kill(first.pid or 0, signal.SIGSTOP)
        try:
            with pytest.raises(TimeleapRpcError) as caught:
                await second.session("live").open()
            assert (caught.value.kind, caught.value.data["owner"]["pid"]) == ("sessionLocked", first.pid)
            async with second.session("live", access="readOnly") as watched:
                assert await contents(watched) == ["one"]
        finally:
            os.kill(first.pid or 0, signal.SIGCONT)


@pytest.mark.long
async def test_a_client_that_does_not_read_is_dropped_and_comes_back_to_the_present_head(two):
    first, second = two
    async with first.session("live") as mine, second.session("live") as theirs:
        back = first.notifications(RECONNECTED)
        pid = first.pid
        assert first._link.process is not None
        output = first._link.process._process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
        output.pause_reading()
        for number in range(30):  # more than the 8 MiB that may wait for it, and what the pipe takes
            await theirs.set_title(f"{number} {'x' * 500_000}")
        output.resume_reading()
        told = (await asyncio.wait_for(anext(back), WINDOW_PATIENCE)).params["sessions"]
        assert told == [{"sessionId": "live", "head": theirs.head, "access": "attached"}]
        assert first.pid != pid
        await theirs.set_title("short again")
        assert (await mine.state()).title == "short again"


async def test_a_session_in_a_folder_whose_name_is_no_id_keeps_the_id_it_was_given(arguments, tmp_path):
    async with AsyncTimeleap(**arguments) as client:
        async with client.session("original") as original:
            await original.append("one")
            folder = Path(original.opened.path)
        moved = folder.rename(tmp_path / "a folder, of somebody's")
        async with client.session(path=str(moved), access="write") as session:
            await kill(client)
            await session.append("two")
            assert await contents(session) == ["one", "two"]


def test_the_blocking_client_does_the_same(arguments):
    one, other = SyncTimeleap(**arguments), SyncTimeleap(**arguments)
    with one as first, other as second, first.session("live") as mine, second.session("live") as theirs:
        assert theirs.opened.access == "attached"
        listening = theirs.notifications("session/didChange")
        mine.append("one")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        taken = listening.take(WINDOW_PATIENCE)
        assert taken is not None
        assert taken.params["access"] == "owner"
        mine.append("two")
        assert [entry.message["content"] for entry in theirs.messages()] == ["one", "two"]
