"""Forks, lists and the trash."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.unit.sessions.worlds import ANSWER, USER, World, asked, heard, kinds, records, run_child, texts

from timeleap.errors import (
    CheckpointNotFoundError,
    HeadConflictError,
    InvalidInputError,
    SessionExistsError,
    SessionNotFoundError,
    TimelineNotFoundError,
)
from timeleap.sessions.documents.warnings import recovered
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause, Mutation, SessionInfo
from timeleap.storage.durable import list_directory
from timeleap.store.listing import ListRequest
from timeleap.store.store import OpenedSession


async def forkable(world: World) -> Session:
    session = await world.session(title="T", system_prompt="p", workspace="file:///w", auto_checkpoint="turn")
    for number in range(3):
        await session.append([{"role": "user", "content": f"question {number}"}, ANSWER])
    await session.update_token_count(9)
    return session


async def test_a_fork_has_the_history_up_to_and_including_the_checkpoint(world: World) -> None:
    session = await forkable(world)
    await session.archive()
    target = session.find_checkpoint(id=1)
    by_id = (await world.store.fork("s1", checkpoint_id=1, new_session_id="by-id")).session
    by_uid = (await world.store.fork("s1", checkpoint_uid=target.uid)).session
    for fork in (by_id, by_uid):
        assert texts(fork) == ["question 0", "In the drawer."]
        assert [one.uid for one in fork.checkpoints(fork.engine, 0, 9)] == [
            session.find_checkpoint(id=0).uid,
            target.uid,
        ]
        assert fork.meta.parent is not None
        assert (fork.meta.parent.session_id, fork.meta.parent.checkpoint_uid) == ("s1", target.uid)
        assert (fork.facts.title, fork.facts.workspace, fork.facts.auto_checkpoint) == ("T (fork)", "file:///w", "turn")
        assert not fork.facts.archived
        assert recovered(fork.engine) is None
        assert fork.meta.uid != session.meta.uid
        assert fork.head != session.head
        assert fork.engine.timelines() == []
    await by_id.append([{"role": "user", "content": "elsewhere"}])
    assert "elsewhere" not in texts(session)
    fork = await world.reopened("by-id")
    assert texts(fork)[-1] == "elsewhere"
    assert [one["kind"] for one in fork.warnings] == []


async def test_a_fork_without_a_checkpoint_has_everything(world: World) -> None:
    session = await forkable(world)
    fork = (await world.store.fork("s1", title="mine")).session
    assert records(fork) == records(session)
    assert fork.facts.title == "mine"
    assert fork.meta.parent is not None
    assert fork.meta.parent.checkpoint_uid is None
    assert fork.summary().token_count == 9


async def test_a_fork_of_a_timeline_has_its_history(world: World) -> None:
    session = await forkable(world)
    uid = session.find_checkpoint(id=1).uid
    before = session.engine.read(0, session.engine.state.lines)
    await session.revert(checkpoint_id=0)
    await session.append([{"role": "user", "content": "another beginning"}])
    whole = (await world.store.fork("s1", timeline_id="context_1")).session
    part = (await world.store.fork("s1", timeline_id="context_1", checkpoint_uid=uid)).session
    assert whole.engine.read(0, 99) == before
    assert texts(part) == ["question 0", "In the drawer."]
    assert part.meta.parent is not None
    assert (part.meta.parent.session_id, part.meta.parent.checkpoint_uid) == ("s1", uid)
    assert texts(session) == ["another beginning"]
    for at in ({"timeline_id": "context_9"}, {"timeline_id": "context_1", "checkpoint_id": 7}):
        with pytest.raises((TimelineNotFoundError, CheckpointNotFoundError)):
            await world.store.fork("s1", **at)
    assert len((await world.store.list()).sessions) == 3


async def test_a_fork_of_a_session_that_is_not_open_leaves_it_closed(world: World) -> None:
    await forkable(world)
    await world.restart()
    fork = (await world.store.fork("s1")).session
    assert len(texts(fork)) == 6
    session = await world.session()
    assert session.access == "owner"


async def test_other_fields_of_the_state_go_along(world: World) -> None:
    session = await forkable(world)
    await session.put_subagent("a", "b")
    world.put_json("state.json", {**world.json("state.json"), "todos": [1], "additional_dirs": ["/x"]})
    await world.store.fork("s1", new_session_id="s2")
    state = world.json("state.json", "s2")
    assert (state["todos"], state["additional_dirs"]) == ([1], ["/x"])
    assert state["dynamic_subagents"] == [{"name": "a", "system_prompt": "b"}]


async def test_a_fork_that_cannot_be_made_leaves_nothing(world: World) -> None:
    await forkable(world)
    await world.session("taken")
    before = world.tree()
    with pytest.raises(CheckpointNotFoundError):
        await world.store.fork("s1", checkpoint_id=9)
    with pytest.raises(SessionExistsError):
        await world.store.fork("s1", new_session_id="taken")
    with pytest.raises(SessionNotFoundError):
        await world.store.fork("nobody")
    assert world.tree() == before
    assert sorted(os.listdir(world.home / "sessions")) == ["s1", "taken"]
    assert os.listdir(world.home / "staging") == []


async def test_a_fork_while_others_write_is_of_one_moment(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    results = await asyncio.gather(
        world.store.fork("s1", new_session_id="f1"),
        *(session.append([ANSWER]) for _ in range(20)),
        session.clear(),
        world.store.fork("s1", new_session_id="f2"),
    )
    first, second = results[0], results[-1]
    assert isinstance(first, OpenedSession)
    assert isinstance(second, OpenedSession)
    assert texts(first.session) == ["Where is the file?"]
    assert texts(second.session) == []


# Lists


def age(path: Path, seconds: float) -> None:
    """Make a session look unchanged for so long."""
    for name in ("context.jsonl", "state.json", "timeleap.json"):
        if (path / name).exists():
            stamp = os.stat(path / name).st_mtime - seconds
            os.utime(path / name, (stamp, stamp))


async def test_the_list_shows_the_newest_change_first(world: World) -> None:
    for number in range(4):
        session = await world.session(f"s{number}", title=f"Title {number}", workspace=f"file:///{number % 2}")
        await session.append([USER])
        await session.update_token_count(number)
        await session.aclose()
        age(world.path(f"s{number}"), number)
    store = world.store
    page = await store.list()
    assert [one.session_id for one in page.sessions] == ["s0", "s1", "s2", "s3"]
    assert page.next_cursor is None
    first = page.sessions[3]
    assert (first.title, first.message_count, first.token_count) == ("Title 3", 1, 3)
    assert first.workspace == "file:///1"
    assert first.path == world.path("s3")
    assert first.owner is None
    assert first.damaged is None
    assert [one.session_id for one in (await store.list(ListRequest(query="TITLE 2"))).sessions] == ["s2"]
    assert [one.session_id for one in (await store.list(ListRequest(query="S1"))).sessions] == ["s1"]
    assert [one.session_id for one in (await store.list(ListRequest(workspace="file:///1"))).sessions] == ["s1", "s3"]
    assert (await store.list(ListRequest(query="nothing"))).sessions == ()


async def test_pages_follow_each_other_without_gap_or_repeat(world: World) -> None:
    for number in range(7):
        await (await world.session(f"s{number}")).aclose()
        age(world.path(f"s{number}"), number // 2)
    for lister, limit in ((world.store.list, 3), (world.store.list, 1)):
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = await lister(ListRequest(cursor=cursor, limit=limit))
            seen += [one.session_id for one in page.sessions]
            assert len(page.sessions) <= limit
            cursor = page.next_cursor
            if cursor is None:
                break
        assert sorted(seen) == [f"s{number}" for number in range(7)]


@pytest.mark.parametrize("cursor", ["", "x", "é", "W10", "WyJzZXNzaW9uIiwgInMiLCAicyJd", "////"])
async def test_an_unknown_cursor_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        await world.store.list(ListRequest(cursor=cursor))
    with pytest.raises(InvalidInputError, match="cursor"):
        await world.store.trash.page(cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_range_is_refused(world: World, limit: int) -> None:
    with pytest.raises(InvalidInputError, match="limit"):
        await world.store.list(ListRequest(limit=limit))
    with pytest.raises(InvalidInputError, match="limit"):
        await world.store.trash.page(limit=limit)


async def test_archived_sessions_are_listed_only_if_asked_for(world: World) -> None:
    session = await world.session("s1")
    await world.session("s2")
    await session.archive()
    assert [one.session_id for one in (await world.store.list()).sessions] == ["s2"]
    assert len((await world.store.list(ListRequest(include_archived=True))).sessions) == 2
    await session.unarchive()
    assert len((await world.store.list()).sessions) == 2


def by_id(sessions: tuple[SessionInfo, ...]) -> dict[str, SessionInfo]:
    return {one.session_id: one for one in sessions}


async def test_damaged_sessions_do_not_break_the_list(world: World) -> None:
    for name in ("good", "state", "meta", "log", "noindex", "nolog"):
        session = await world.session(name)
        await session.append([USER])
        await session.clear()
        await session.append([USER])
    await world.close()
    (world.path("state") / "state.json").write_text("{" * 100_000)
    (world.path("meta") / "timeleap.json").write_bytes(b"\xff\xfe")
    (world.path("log") / "context.jsonl").unlink()
    os.mkfifo(world.path("log") / "context.jsonl")
    for index in world.path("noindex").glob(".*.idx"):
        index.unlink()
    (world.path("nolog") / "context.jsonl").unlink()
    (world.path("empty")).mkdir()
    (world.path("stray")).mkdir()
    (world.path("stray") / "notes.txt").touch()
    await world.restart()
    listed = by_id((await world.store.list()).sessions)
    assert sorted(listed) == ["good", "log", "meta", "noindex", "nolog", "state"]
    assert listed["log"].damaged is not None
    assert listed["good"].damaged is None
    assert listed["good"].message_count == listed["noindex"].message_count == 1
    assert listed["nolog"].message_count == 0
    assert not list(world.path("noindex").glob(".*.idx"))


async def test_an_unreadable_directory_is_listed_as_damaged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking into the directory is made to fail, because root may look into all."""
    from timeleap.store import listing as info

    await world.session("good")
    await world.session("shut")
    await world.close()

    def refuse(path: Path) -> list[str]:
        if path.name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return list_directory(path)

    monkeypatch.setattr(info, "list_directory", refuse)
    listed = by_id((await world.store.list()).sessions)
    assert sorted(listed) == ["good", "shut"]


# The trash


async def test_a_deleted_session_can_be_brought_back(world: World) -> None:
    session = await world.session(title="T")
    await session.append([USER])
    await session.aclose()
    before = {name: data for name, data in world.tree().items() if name.startswith("sessions")}
    await world.store.delete("s1")
    assert (await world.store.list()).sessions == ()
    assert not world.path().exists()
    listed = (await world.store.trash.page()).sessions
    assert [(one.session_id, one.title, one.message_count) for one in listed] == [("s1", "T", 1)]
    assert listed[0].deleted_at is not None
    with pytest.raises(SessionNotFoundError):
        await world.store.open("s1", create=False)
    await world.store.trash.undelete("s1")
    assert {name: data for name, data in world.tree().items() if name.startswith("sessions")} == before
    assert (await world.store.trash.page()).sessions == ()
    assert texts(await world.session()) == ["Where is the file?"]


async def test_deleting_closes_an_open_session_and_tells_its_listeners(world: World) -> None:
    session = await world.session()
    told = heard(session)
    pending = asyncio.create_task(session.append([USER]))
    await asyncio.sleep(0)
    await world.store.delete("s1", Mutation(cause=Cause("r", "ed")))
    assert (await pending)["messageCount"] == 1
    assert kinds(told) == ["messagesAppended", "deleted"]
    assert told[-1].cause.client == "ed"
    await session.aclose()
    await world.store.trash.undelete("s1")
    assert texts(await world.session()) == ["Where is the file?"]


async def test_the_id_of_a_deleted_session_is_free_and_the_newest_comes_back(world: World) -> None:
    for text in ("old", "new"):
        session = await world.session()
        await session.append([{"role": "user", "content": text}])
        await world.store.delete("s1")
    await world.session()
    with pytest.raises(SessionExistsError):
        await world.store.trash.undelete("s1")
    await world.store.delete("s1")
    for kept in ([], ["new"], ["old"]):
        await world.store.trash.undelete("s1")
        assert texts(await world.session()) == kept
        shutil.rmtree(world.path())
        await world.restart()
    with pytest.raises(SessionNotFoundError):
        await world.store.trash.undelete("s1")


async def test_what_else_lies_in_the_trash_is_left_alone(world: World, tmp_path: Path) -> None:
    await world.session()
    await world.store.delete("s1")
    trash = world.home / "trash"
    (trash / "s2~20261120T093000.000000-abcd").symlink_to(tmp_path)
    (trash / "s3~20261120T093000.000000-abcd").touch()
    (trash / "s4~99999999T999999.000000").mkdir()
    (trash / "whatever").mkdir()
    assert [one.session_id for one in (await world.store.trash.page()).sessions] == ["s1"]
    for name in ("s2", "s3", "s4"):
        with pytest.raises(SessionNotFoundError):
            await world.store.trash.undelete(name)


async def test_the_trash_has_pages(world: World) -> None:
    for number in range(3):
        await world.session(f"s{number}")
        await world.store.delete(f"s{number}")
    first = await world.store.trash.page(limit=2)
    assert [one.session_id for one in first.sessions] == ["s2", "s1"]
    second = await world.store.trash.page(cursor=first.next_cursor, limit=2)
    assert [one.session_id for one in second.sessions] == ["s0"]
    assert second.next_cursor is None


async def test_a_session_outside_the_store_is_not_deleted(world: World, tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.mkdir()
    (path / "context.jsonl").write_text(json.dumps(USER) + "\n")
    session = (await world.store.open(path=path, access="read")).session
    with pytest.raises(InvalidInputError):
        await world.store.delete(session.session_id)
    assert texts(session) == ["Where is the file?"]


async def test_deleting_only_what_is_as_expected(world: World) -> None:
    session = await world.session()
    old = session.head
    await session.append([USER])
    with pytest.raises(HeadConflictError) as caught:
        await world.store.delete("s1", Mutation(expected_head=old))
    assert caught.value.data["head"] == session.head
    assert await world.store.delete("s1", Mutation(expected_head=session.head))


async def test_a_repeated_move_is_done_once(world: World) -> None:
    delete, undelete = asked("d", "session/delete"), asked("u", "session/undelete")
    await world.session()
    assert await world.store.delete("s1", delete)
    assert not await world.store.delete("s1", delete)
    assert await world.store.trash.undelete("s1", undelete)
    await world.restart()
    assert not await world.store.trash.undelete("s1", undelete)
    assert not await world.store.delete("s1", delete)
    assert world.path().exists()
    with pytest.raises(InvalidInputError, match="requestId"):
        await world.store.delete("s1", asked("d", "session/delete", "other"))
    assert await world.store.delete("s1", asked("d2", "session/delete"))
    assert not await world.store.trash.undelete("s1", undelete)


MOVER = """
import asyncio, sys
from pathlib import Path
from timeleap.sessions.shapes import Mutation
from timeleap.store.store import SessionStore

async def main(home, how):
    store = SessionStore(Path(home))
    await getattr(store.trash if how == "undelete" else store, how)("s1", Mutation(request_id="r", method="session/" + how, fingerprint="f"))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.crash
@pytest.mark.parametrize("how", ["delete", "undelete"])
@pytest.mark.parametrize("point", ["store.before_move", "store.moved"])
async def test_killed_anywhere_a_move_sent_again_is_done_once(world: World, how: str, point: str) -> None:
    await world.session()
    await world.close()
    if how == "undelete":
        await world.store.delete("s1")
    assert run_child(MOVER, str(world.home), how, failpoints=f"{point}=kill") == -9
    await world.restart()
    move = world.store.delete if how == "delete" else world.store.trash.undelete
    assert await move("s1", asked("r", f"session/{how}")) is (point == "store.before_move")
    assert not await move("s1", asked("r", f"session/{how}"))
    assert world.path().exists() is (how == "undelete")
    assert len((await world.store.trash.page()).sessions) == (1 if how == "delete" else 0)
