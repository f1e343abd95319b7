"""Purging beside other processes: what one of them has taken out of the trash meanwhile is not said to be purged."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.sessions.worlds import World, texts

from timeleap.errors import StorageFailureError
from timeleap.sessions import purge
from timeleap.sessions.purge import PurgeRequest, Trashed


async def deleted(world: World, session_id: str) -> None:
    session = await world.session(session_id)
    await session.append([{"role": "user", "content": "x"}])
    await session.aclose()
    assert await world.store.delete(session_id)


async def test_what_was_undeleted_meanwhile_is_not_purged(world: World, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b"):
        await deleted(world, name)
    found = purge.in_trash(world.store.home, PurgeRequest())
    assert await world.store.undelete("a")
    monkeypatch.setattr(purge, "in_trash", lambda home, request: found)
    outcome = await world.store.purge(PurgeRequest())
    assert [one.session_id for one in outcome.purged] == ["b"]
    assert texts(await world.session("a", create=False)) == ["x"]


async def test_two_purges_at_once_remove_each_session_once(world: World):
    for number in range(5):
        await deleted(world, f"s{number}")
    outcomes = await asyncio.gather(*(world.store.purge(PurgeRequest()) for _ in range(3)))
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
        await world.store.purge(PurgeRequest())
    assert world.store.home.trashed() == [] and len(world.store.home.condemned()) == 1
    monkeypatch.undo()
    outcome = await world.store.purge(PurgeRequest(session_id="a"))
    assert [(one.session_id, type(one)) for one in outcome.purged] == [("a", Trashed)]
    assert world.store.home.condemned() == []
