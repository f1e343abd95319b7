"""A reader looks for an owner: often where there has just been one, seldom where nobody comes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from timeleap.attach.peer import PeerLostError
from timeleap.attach.watcher import PERIOD, SOON, Watcher, tell_lost


async def test_it_looks_soon_and_then_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            raise asyncio.CancelledError

    class Lonely(Watcher):
        """Finds an owner, which then is lost, at the ninth look."""

        async def _attach(self) -> None:
            if len(pauses) != 8:
                raise PeerLostError("nobody is there")

        async def _heard_out(self) -> None:
            pass

    monkeypatch.setattr("timeleap.attach.watcher.asyncio.sleep", sleep)
    nothing: Any = None
    with pytest.raises(asyncio.CancelledError):
        await Lonely(nothing, nothing, nothing, nothing)._watch(cast("Any", asyncio.Event()))
    rising = [min(SOON * 2**number, PERIOD) for number in range(8)]
    assert pauses == [*rising, *rising[:4]]
    assert pauses[7] == PERIOD > 10 * SOON


async def test_an_owner_that_goes_when_nobody_waits_for_it_any_more_is_no_error() -> None:
    lost: asyncio.Future[PeerLostError] = asyncio.get_running_loop().create_future()
    lost.cancel()
    tell_lost(lost, PeerLostError("gone"))
    assert lost.cancelled()
