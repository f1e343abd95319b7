"""Work that is finished although its waiter is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from timeleap.call import to_its_end


async def test_what_has_begun_is_done_to_its_end_whoever_is_cancelled():
    going, done = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        going.set()
        await done.wait()
        return "written"

    told: list[str] = []
    asking = asyncio.create_task(to_its_end(work(), lambda: told.append("unwanted")))
    await going.wait()
    for _ in range(3):
        asking.cancel()
        await asyncio.sleep(0)
    done.set()
    assert await asking == "written"
    assert told == ["unwanted"] * 3


async def test_what_fails_at_its_end_fails():
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await to_its_end(work())


async def test_work_that_is_cancelled_itself_is_cancelled():
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await to_its_end(work)
