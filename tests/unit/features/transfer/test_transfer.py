"""Work that is given up has stopped before what it wrote is removed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.holding import PATIENCE
from tests.support.turns import idle, until

from timeleap.features.transfer.handlers import _heed_cancellation, _run
from timeleap.service.time_slices import Slices


class Work:
    """Slices that take as long as the test likes."""

    def __init__(self) -> None:
        self.begun = 0
        self.under_way = False
        self.stopped = False
        self.go_on = threading.Event()

    def slices(self) -> Generator[tuple[int, int], None, None]:
        try:
            while True:
                self.begun, self.under_way = self.begun + 1, True
                assert self.go_on.wait(PATIENCE)
                self.under_way = False
                yield 0, 0
        finally:
            self.stopped = True


async def test_what_is_cancelled_in_the_middle_of_a_slice_has_stopped_before_that_is_told() -> None:
    work = Work()
    service = cast("Any", SimpleNamespace(slices=Slices()))
    running = asyncio.ensure_future(_run(service, work.slices(), None))
    await until(lambda: work.under_way)
    running.cancel()
    await idle()
    assert not running.done()
    work.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (work.stopped, work.under_way) == (True, False)


async def test_what_fails_is_told_as_it_is() -> None:
    def failing() -> Generator[tuple[int, int], None, None]:
        yield 0, 0
        raise ValueError("no")

    service = cast("Any", SimpleNamespace(slices=Slices()))
    with pytest.raises(ValueError, match="no"):
        await _run(service, failing(), None)


async def test_a_cancellation_that_a_turn_has_put_aside_is_heeded_behind_it() -> None:
    behind: list[str] = []

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            behind.append("put aside")  # as the turn of a session does
        _heed_cancellation()
        behind.append("went on")

    running = asyncio.ensure_future(request())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert behind == ["put aside"]
    _heed_cancellation()  # nobody has cancelled this one
