"""Long work in slices: it takes turns, can be left, and tells how far it has come."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator

import pytest

from timeleap.service import time_slices as module
from timeleap.service.time_slices import SLICE, Slices


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a slice."""
    monkeypatch.setattr(module, "SLICE", -1.0)


def counting(steps: int) -> Generator[tuple[int, int], None, str]:
    for done in range(steps):
        yield done, steps
    return "done"


async def test_the_result_comes_when_all_is_done_and_progress_before_it() -> None:
    told: list[tuple[int, int]] = []
    assert await Slices().run(counting(5), lambda done, total: told.append((done, total))) == "done"
    assert told == [(done, 5) for done in range(5)]


async def test_work_without_a_pause_is_one_slice() -> None:
    def at_once() -> Generator[tuple[int, int], None, int]:
        yield from ()
        return threading.get_ident()

    assert await Slices().run(at_once()) != threading.get_ident(), "not in the thread of the event loop"


async def test_what_it_raises_goes_to_the_caller() -> None:
    def failing() -> Generator[tuple[int, int], None, None]:
        yield 0, 1
        raise KeyError("x")

    slices = Slices()
    with pytest.raises(KeyError):
        await slices.run(failing())
    assert await slices.run(counting(1)) == "done"


async def test_work_that_was_cancelled_is_not_gone_on_with() -> None:
    slices, steps = Slices(), 0

    def endless() -> Generator[tuple[int, int], None, None]:
        nonlocal steps
        while True:
            steps += 1
            time.sleep(SLICE)
            yield steps, 0

    task = asyncio.create_task(slices.run(endless()))
    while steps < 3:
        await asyncio.sleep(SLICE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await slices.run(counting(1)) == "done"
    seen = steps
    assert await slices.run(counting(5)) == "done", "they take turns: the other one had five"
    assert steps == seen


async def test_several_share_what_one_would_take() -> None:
    slices, running, most = Slices(), 0, 0

    def busy() -> Generator[tuple[int, int], None, int]:
        nonlocal running, most
        for step in range(5):
            running += 1
            most = max(most, running)
            time.sleep(2 * SLICE)
            running -= 1
            yield step, 5
        return 1

    async with asyncio.timeout(30):
        assert sum(await asyncio.gather(*(slices.run(busy()) for _ in range(4)))) == 4
    assert most == 1


async def test_the_loop_goes_on_while_there_is_work() -> None:
    task = asyncio.create_task(Slices().run(counting(20)))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 20
