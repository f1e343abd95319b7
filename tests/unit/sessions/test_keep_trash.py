"""The trash is looked after when a server starts and every hour, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from timeleap.errors import StorageFailureError
from timeleap.store import trash as session_trash
from timeleap.store.home import Trashed
from timeleap.store.purging import PurgeOutcome, PurgeRequest
from timeleap.store.trash import Trash

ONE = Trashed("a", "2020-01-01T00:00:00.000Z", "a~20200101T000000.000000", 5)


class FakeTrash:
    """Answers each purge with the next outcome."""

    def __init__(self, *outcomes: PurgeOutcome | Exception) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[PurgeRequest] = []
        self.finished = 0
        self.done = asyncio.Event()

    async def finish_purges(self) -> None:
        self.finished += 1

    async def purge(self, request: PurgeRequest) -> PurgeOutcome:
        self.asked.append(request)
        outcome = self.outcomes.pop(0)
        if not self.outcomes:
            self.done.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def start(fake: FakeTrash, max_age: int | None, told: list[Any]) -> asyncio.Task[None]:
    keeping = session_trash.keep_trash(
        cast("Trash", fake), max_age, lambda method, params: told.append((method, params["sessionId"]))
    )
    return asyncio.get_running_loop().create_task(keeping)


async def stop(keeper: asyncio.Task[None]) -> None:
    keeper.cancel()
    await asyncio.wait([keeper])


async def keep(fake: FakeTrash, max_age: int | None, told: list[Any]) -> asyncio.Task[None]:
    keeper = start(fake, max_age, told)
    await asyncio.wait_for(fake.done.wait(), 30)
    await asyncio.sleep(0)
    return keeper


@pytest.mark.asyncio
async def test_what_is_old_is_removed_again_and_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_trash, "HOUR", 0.001)
    failure = StorageFailureError("no room", path="/", errno="ENOSPC")
    fake = FakeTrash(PurgeOutcome((ONE,)), failure, PurgeOutcome(()), PurgeOutcome((ONE,)))
    told: list[Any] = []
    keeper = await keep(fake, 60, told)
    await stop(keeper)
    assert fake.asked[:4] == [PurgeRequest(older_than=60)] * 4
    assert told == [("session/warning", "a")] * 2


@pytest.mark.asyncio
async def test_of_many_some_are_named():
    fake = FakeTrash(PurgeOutcome((ONE,) * 1000))
    told: list[Any] = []
    keeper = await keep(fake, 60, told)
    await stop(keeper)
    assert len(told) == session_trash.MAX_TOLD


@pytest.mark.asyncio
async def test_without_an_age_only_what_was_begun_is_finished():
    fake = FakeTrash()
    keeper = start(fake, None, [])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await stop(keeper)
    assert (fake.finished, fake.asked) == (1, [])
