"""What arrives behind an opening, a closing or a compaction waits for it, in order."""

from __future__ import annotations

import asyncio

from tests.support.holding import PATIENCE
from tests.support.turns import idle

from timeleap.service.scheduling import RequestOrder


async def test_what_comes_behind_waits_and_keeps_its_order():
    order, told = RequestOrder(), []
    release = asyncio.Event()

    async def opening() -> None:
        async with order.holding_up(["a"]):
            await release.wait()
            told.append("opened")

    async def request(name: str) -> None:
        await order.turn("a")
        told.append(name)

    async def closing() -> None:
        async with order.holding_up(["a"]):
            told.append("closed")

    work = [
        asyncio.create_task(each) for each in (opening(), request("one"), request("two"), closing(), request("late"))
    ]
    await idle()
    assert told == []
    assert "a" in order.blocked
    release.set()
    await asyncio.gather(*work)
    assert told == ["opened", "one", "two", "closed", "late"]
    assert "a" not in order.blocked


async def test_who_comes_while_the_waiting_are_being_woken_does_not_overtake_them():
    order, told = RequestOrder(), []
    release = asyncio.Event()

    async def opening() -> None:
        async with order.holding_up(["a"]):
            await release.wait()

    async def request(name: str) -> None:
        if "a" in order.blocked:
            await order.turn("a")
        told.append(name)

    work = [asyncio.create_task(each) for each in (opening(), request("0"), request("1"))]
    await idle()
    release.set()
    for number in range(2, 40):
        work.append(asyncio.create_task(request(str(number))))
        await asyncio.sleep(0)
    await asyncio.gather(*work)
    assert told == [str(number) for number in range(40)]


async def test_who_is_cancelled_while_waiting_does_not_let_those_behind_it_in():
    order, told = RequestOrder(), []
    release = asyncio.Event()

    async def opening() -> None:
        async with order.holding_up(["a"]):
            await release.wait()
            told.append("opened")

    async def request(name: str) -> None:
        await order.turn("a")
        told.append(name)

    first, cancelled, last = (asyncio.create_task(each) for each in (opening(), request("no"), request("last")))
    await idle()
    cancelled.cancel()
    await idle()
    assert told == []
    release.set()
    await asyncio.gather(first, last)
    assert told == ["opened", "last"]
    assert "a" not in order.blocked


async def test_other_sessions_do_not_wait():
    order = RequestOrder()
    async with order.holding_up(["a"]):
        assert "b" not in order.blocked
        await asyncio.wait_for(order.turn("b"), PATIENCE)


async def test_a_failure_lets_the_next_one_in():
    order = RequestOrder()
    try:
        async with order.holding_up(["a", "b"]):
            raise OSError("no")
    except OSError:
        pass
    assert "a" not in order.blocked
    assert "b" not in order.blocked


async def test_what_begins_now_goes_before_what_has_come_and_not_begun():
    order, told = RequestOrder(), []

    async def request(name: str) -> None:
        if "a" in order.blocked:
            await order.turn("a")
        told.append(name)

    async def left_unanswered(name: str) -> None:
        told.append(name)

    work = [asyncio.create_task(request(name)) for name in ("2", "3")]
    order.hold_up("a")
    work += [asyncio.create_task(left_unanswered(name)) for name in ("0", "1")]
    await asyncio.sleep(0)
    work.append(asyncio.create_task(request("4")))
    await asyncio.gather(*work)
    assert told == ["0", "1", "2", "3", "4"]
    assert "a" not in order.blocked


async def test_where_something_is_held_up_already_it_stays_so():
    order = RequestOrder()
    async with order.holding_up(["a"]):
        order.hold_up("a")
        await idle()
        assert "a" in order.blocked
    assert "a" not in order.blocked
