"""Purging beside other processes: what one of them has taken out of the trash meanwhile is not said to be purged."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.sessions.worlds import Json, World, asked, texts

from timeleap.errors import SessionNotFoundError, StorageFailureError
from timeleap.sessions.shapes import Mutation
from timeleap.store import home_purge, purging
from timeleap.store.home import Home, Trashed
from timeleap.store.purging import PurgeOutcome, PurgeRequest


async def deleted(world: World, session_id: str) -> None:
    session = await world.session(session_id)
    await session.append([{"role": "user", "content": "x"}])
    await session.aclose()
    assert await world.store.delete(session_id)


async def test_what_was_undeleted_meanwhile_is_not_purged(world: World, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b"):
        await deleted(world, name)
    found = purging.in_trash(world.store.home, PurgeRequest())
    assert await world.store.trash.undelete("a")
    monkeypatch.setattr(purging, "in_trash", lambda home, request: found)
    outcome = await world.store.trash.purge(PurgeRequest())
    assert [one.session_id for one in outcome.purged] == ["b"]
    assert texts(await world.session("a", create=False)) == ["x"]


async def test_where_that_was_all_of_an_id_there_was_nothing_to_purge(world: World, monkeypatch: pytest.MonkeyPatch):
    await deleted(world, "a")
    found = purging.in_trash(world.store.home, PurgeRequest("a"))
    assert await world.store.trash.undelete("a")
    monkeypatch.setattr(purging, "in_trash", lambda home, request: found)
    with pytest.raises(SessionNotFoundError, match="no session a in the trash"):
        await world.store.trash.purge(PurgeRequest("a"))
    assert texts(await world.session("a", create=False)) == ["x"]


async def test_what_was_purged_meanwhile_is_not_in_the_trash_to_be_undeleted(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    await deleted(world, "a")
    name = world.store.home.newest_trashed("a")
    await world.store.trash.purge(PurgeRequest("a"))
    monkeypatch.setattr(world.store.home, "newest_trashed", lambda session_id: name)
    with pytest.raises(SessionNotFoundError, match="no session a in the trash"):
        await world.store.trash.undelete("a")


async def test_two_purges_at_once_remove_each_session_once(world: World):
    for number in range(5):
        await deleted(world, f"s{number}")
    outcomes = await asyncio.gather(*(world.store.trash.purge(PurgeRequest()) for _ in range(3)))
    purged = {one.session_id for outcome in outcomes for one in outcome.purged}
    assert purged == {f"s{number}" for number in range(5)}
    assert world.store.home.trashed() == [] and world.store.home.condemned() == []


async def test_what_cannot_be_removed_now_is_removed_later(world: World, monkeypatch: pytest.MonkeyPatch):
    await deleted(world, "a")
    await deleted(world, "b")
    real = world.store.home.remove_condemned

    def refusing(name: str) -> None:
        if name.rpartition("-")[0].rpartition("-")[2].startswith("a~"):
            raise StorageFailureError("busy", path=name, errno="EBUSY")
        real(name)

    monkeypatch.setattr(world.store.home, "remove_condemned", refusing)
    with pytest.raises(StorageFailureError):
        await world.store.trash.purge(PurgeRequest())
    assert world.store.home.trashed() == [] and len(world.store.home.condemned()) == 1
    monkeypatch.undo()
    outcome = await world.store.trash.purge(PurgeRequest(session_id="a"))
    assert [(one.session_id, type(one)) for one in outcome.purged] == [("a", Trashed)]
    assert world.store.home.condemned() == []


class Killed(BaseException):
    """The process ends here."""


async def killed(world: World, request: PurgeRequest, guard: Mutation, failpoint: str) -> None:
    """Begin a purge in a process that is killed there."""

    def kill(name: str) -> None:
        if name == failpoint:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home_purge, "failpoint", kill)
        if failpoint == "noted":
            patch.setattr(Home, "condemn", lambda *_: kill("noted"))
        with pytest.raises(Killed):
            await world.store.trash.purge(request, guard)
    await world.restart()


ONE, ALL = PurgeRequest(session_id="a"), PurgeRequest()


@pytest.mark.parametrize("request_", [ONE, ALL])
async def test_a_repeat_does_not_claim_what_was_undeleted_since(world: World, request_: PurgeRequest):
    guard = asked("r", "session/purge")
    await deleted(world, "a")
    await killed(world, request_, guard, "noted")
    assert await world.store.trash.undelete("a")
    for duplicate in (False, True):
        assert await world.store.trash.purge(request_, guard) == PurgeOutcome((), duplicate=duplicate)
    assert texts(await world.session("a", create=False)) == ["x"]


@pytest.mark.parametrize("request_", [ONE, ALL])
@pytest.mark.parametrize("failpoint", ["noted", "purge.moved", "purge.noted", "purge.files_forgotten", "purge.removed"])
@pytest.mark.parametrize("deleted_too", [False, True])
@pytest.mark.parametrize("finished", [False, True])
async def test_a_repeat_is_about_what_was_meant_whatever_has_its_id_by_now(
    world: World, request_: PurgeRequest, failpoint: str, deleted_too: bool, finished: bool
):
    guard = asked("r", "session/purge")
    await deleted(world, "a")
    (first,) = purging.in_trash(world.store.home, request_)
    await killed(world, request_, guard, failpoint)
    if finished:
        await world.store.trash.finish_purges()
    namesake = await world.session("a", create=True)
    await namesake.append([{"role": "user", "content": "new"}])
    if deleted_too:
        await namesake.aclose()
        await world.store.delete("a")
    for duplicate in (False, True):
        outcome = await world.store.trash.purge(request_, guard)
        assert [(one.session_id, one.deleted_at, one.bytes) for one in outcome.purged] == [
            ("a", first.deleted_at, first.bytes)
        ]
        assert outcome.duplicate is duplicate
    if deleted_too:
        assert await world.store.trash.undelete("a")
    assert texts(await world.session("a", create=False)) == ["new"]


async def test_a_repeat_names_what_went_before_the_crash_and_leaves_what_came_back(world: World):
    guard = asked("r", "session/purge")
    for name in ("a", "b"):
        await deleted(world, name)
    await killed(world, ALL, guard, "purge.moved")
    assert [one[0] for one in world.store.home.trashed()] == ["a"]
    assert await world.store.trash.undelete("a")
    await world.store.delete("a")
    assert [one.session_id for one in (await world.store.trash.purge(ALL, guard)).purged] == ["b"]
    assert [one[0] for one in world.store.home.trashed()] == ["a"]


async def test_nothing_of_a_session_is_left_in_a_note_that_nobody_finishes(world: World):
    await deleted(world, "a-session")
    await killed(world, PurgeRequest(session_id="a-session"), asked("r", "session/purge"), "purge.moved")
    await world.store.trash.finish_purges()
    assert not [name for name, data in world.tree().items() if "a-session" in name or b"a-session" in data]


@pytest.mark.parametrize("note", [{}, {"purging": 5}, {"purging": [5, {"name": []}]}, {"purged": {"a": 1}}])
async def test_a_note_that_somebody_edited_removes_nothing(world: World, note: Json):
    guard = asked("r", "session/purge")
    await deleted(world, "a")
    world.store.ledger.note(guard, note)
    assert (await world.store.trash.purge(ALL, guard)).purged == ()
    assert [one[0] for one in world.store.home.trashed()] == ["a"]
