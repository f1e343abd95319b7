"""The Python client against the real server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest
from tests.support.server import DATABASES

from timeleap.client import AsyncTimeleap, ClientClosedError, NothingToUndoError, SyncTimeleap, TimeleapRpcError

pytestmark = pytest.mark.usefixtures("ready_servers")


def kill(client):
    """kill -9 of its server, whichever it is at the moment."""
    with contextlib.suppress(ProcessLookupError):
        if client.pid is not None:
            os.kill(client.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


@pytest.fixture(params=["lsp", "ndjson"])
async def client(request, home: Path):
    env = {"TIMELEAP_KEY_FILE": str(home.with_name("key"))}
    async with AsyncTimeleap(
        home=home, store=DATABASES.get(home), env=env, framing=request.param, name="tester"
    ) as running:
        yield running


async def test_a_day_in_the_life_of_a_session(client):
    async with client.session("day", title="A day", systemPrompt="Be kind.") as session:
        assert session.id == "day"
        assert session.opened.context.system_prompt == "Be kind."
        first = await session.checkpoint("morning")
        result = await session.append("hello", {"role": "assistant", "content": "hi", "x": [1, {"z": 1, "a": 2}]})
        assert (result.first_index, result.message_count) == (0, 2)
        assert result.head == session.head
        await session.update_token_count(50)
        second = await session.checkpoint()
        await session.append("and now?", role="user")
        assert [checkpoint.uid for checkpoint in await session.checkpoints()] == [first.uid, second.uid]

        plan = await session.revert_to(second, dry_run=True)
        assert plan.timeline_id is None
        done = await session.revert_to(second.uid)
        assert done.removed == plan.removed
        assert [message["content"] for message in await session.history()] == ["hello", "hi"]
        (timeline,) = await session.timelines()
        assert timeline.timeline_id == done.timeline_id
        assert len(await session.history(timeline_id=timeline.timeline_id)) == 3

        await session.undo()
        assert [message["content"] for message in await session.history()] == ["hello", "hi", "and now?"]
        assert list((await session.history())[1]["x"][1]) == ["z", "a"]
        assert [entry.index async for entry in session.messages(page=2)] == [0, 1, 2]


async def test_approvals_sub_agents_and_names(client):
    async with client.session() as session:
        assert (await session.set_yolo(True)).yolo
        assert await session.is_approved("anything")
        assert not (await session.set_yolo(False)).yolo
        assert (await session.set_auto_approve("read", True)).auto_approve_actions == ["read"]
        assert [agent.name for agent in await session.put_subagent("critic", "Be harsh.")] == ["critic"]
        assert await session.remove_subagent("critic") == []
        await session.set_title("new name")
        await session.set_system_prompt("later")
        state = await session.state()
        assert (state.title, state.context.system_prompt) == ("new name", "later")
        await session.archive()
        assert (await session.state()).archived
        await session.unarchive()


async def test_dmail_clear_compact_and_fork(client):
    async with client.session("origin") as session:
        await session.append(*[f"message {number} " + "word " * 200 for number in range(8)])
        checkpoint = await session.checkpoint("here")
        await session.append("after")
        assert (await session.send_dmail(checkpoint, "note to self")).checkpoint_uid == checkpoint.uid
        await session.cancel_dmail()
        await session.send_dmail(checkpoint.id, "note to self")
        await session.deliver_dmail()
        assert "note to self" in str((await session.history())[-1])
        async with client.session("another") as another:
            waiting = await session.send_dmail((await another.checkpoint("there")), "news", to="another")
            assert waiting.from_session_id == "origin"
            assert (await session.send_note("another", "more news")).index == 0
            assert [message["role"] for message in await another.history()] == ["user"]
        compacted = await session.compact(summarizer="builtin")
        assert compacted.compacted
        await session.undo()
        assert len(await session.history()) == 9
        forked = await session.fork(session_id="copy")
        async with contextlib.aclosing(_Closing(forked)):
            assert await forked.history() == await session.history()
        await session.clear()
        assert await session.history() == []


class _Closing:
    def __init__(self, session):
        self.aclose = session.close


async def test_a_pinned_session_changes_only_what_was_seen(client):
    async with client.session() as session:
        await session.append("one")
        pinned = session.at(session.head)
        await pinned.append("two")
        await pinned.append("three")
        await session.append("somebody else")
        with pytest.raises(TimeleapRpcError) as caught:
            await pinned.append("four")
        assert caught.value.kind == "contentModified"
        assert len(await session.history()) == 4


async def test_there_may_be_nothing_to_undo(client):
    async with client.session() as session:
        with pytest.raises(LookupError, match="no timeline"):
            await session.undo()
        with pytest.raises(NothingToUndoError) as caught:
            await session.redo()
        assert (caught.value.code, caught.value.kind, caught.value.data["canRedo"]) == (4018, "nothingToRedo", 0)
    with pytest.raises(ClientClosedError, match="not open"):
        _ = session.id


async def test_undo_and_redo_of_several_steps(client):
    async with client.session() as session:
        await session.append("one", "two", "three")
        await session.revert_to_message(2)
        assert (await session.revert_to_message(1, dry_run=True)).context.message_count == 1
        done = await session.revert_to_message(1)
        assert (done.context.can_undo, done.context.can_redo) == (2, 0)
        undone = await session.undo(2)
        assert [step.kind for step in undone.steps] == ["revert", "revert"]
        assert (undone.can_undo, undone.can_redo, len(await session.history())) == (0, 2, 3)
        assert (await session.redo(dry_run=True)).can_undo == 1
        await session.redo()
        assert [one["content"] for one in await session.history()] == ["one", "two"]


async def test_notifications_of_a_session_are_typed(client):
    async with client.session("s") as session, client.session("other") as other:
        heard = session.notifications("context/didChange")
        await other.append("not this")
        await session.append("this")
        change = (await anext(heard)).typed()
        assert change.root.kind == "messagesAppended"
        assert change.root.count == 1
        assert change.root.cause.client == "tester"


async def test_typed_methods_of_the_table(client):
    await client.session_open(session_id="typed")
    page = await client.context_get_history(session_id="typed")
    assert page.messages == []
    assert [info.session_id for info in (await client.session_list()).sessions] == ["typed"]


async def test_killed_at_any_moment_nothing_is_lost_or_doubled(client):
    """Appends in flight while the server is killed twice: each is there once, in the order of the calls."""
    async with client.session("killed") as session:
        tasks = []
        for number in range(60):
            tasks.append(asyncio.create_task(session.append(str(number))))
            await asyncio.sleep(0)
            if number in {10, 40}:
                await tasks[number - 5]
                kill(client)
        await asyncio.gather(*tasks)
        assert [message["content"] for message in await session.history()] == [str(number) for number in range(60)]


async def test_a_rewrite_whose_reply_was_lost_is_not_repeated(client):
    async with client.session() as session:
        checkpoint = await session.checkpoint()
        await session.append("gone")
        request = asyncio.create_task(session.revert_to(checkpoint))
        await asyncio.sleep(0)
        kill(client)
        await request
        assert len(await session.timelines()) == 1
        assert await session.history() == []


def test_the_blocking_client_does_the_same(home):
    with SyncTimeleap(home=home, store=DATABASES.get(home)) as client, client.session("blocking") as session:
        first = session.checkpoint("start")
        session.append("a", "b")
        kill(client)
        session.append("c")
        assert [entry.message["content"] for entry in session.messages(page=2)] == ["a", "b", "c"]
        session.revert_to(first)
        session.undo()
        assert len(session.history()) == 3
        assert len(session.checkpoints()) == 1
        with session.fork(first) as copy:
            assert copy.history() == []
        heard = session.notifications()
        session.set_title("t")
        notification = heard.take(5)
        assert notification is not None
        assert notification.kind == "titleChanged"
        assert session.state().title == "t"
        assert session.at(session.head).append("pinned").message_count == 4
