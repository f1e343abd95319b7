"""The order of requests over a recovery, in the interleavings that a real process shows once in a thousand times."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from timeleap_client.errors import ConnectionLostError
from timeleap_client.frames import Framing
from timeleap_client.link import Greeting, Link, Restarts
from timeleap_client.notifications import RECONNECTED, Bus, Wanted
from timeleap_client.process import Launch


class Wire:
    """A connection that answers at once, or that is lost when told."""

    def __init__(self, answers: bool) -> None:
        self.alive = True
        self.sent: list[str] = []
        self.end = asyncio.get_running_loop().create_future()
        self._answers = answers

    async def request(self, method: str, params: dict[str, Any], **_: Any) -> None:
        self.sent.append(method)
        if not self._answers:
            await asyncio.shield(self.end)

    async def lost(self) -> ConnectionLostError:
        return ConnectionLostError("lost")

    def lose(self) -> None:
        self.alive = False
        self.end.set_exception(ConnectionLostError("lost"))


class OnWires(Link):
    """A link whose servers are wires: the first one answers nothing."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(Launch(), Framing.NDJSON, Greeting("t", {}, 1.0), Restarts(), bus)
        self.wires: list[Wire] = []

    async def _connect(self) -> None:
        self.wires.append(Wire(answers=bool(self.wires)))
        self._connection = self.wires[-1]  # type: ignore[assignment]

    def begin(self, name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(self.request(name, {}, within=None, on_progress=None, repeatable=True))


@pytest.fixture
async def link():
    running = OnWires(Bus())
    await running.start()
    return running


async def test_a_call_that_comes_at_the_moment_of_the_loss_stays_behind_those_before_it(link):
    before = link.begin("before")
    await asyncio.sleep(0)
    after = link.begin("after")  # starts in the same turn of the loop in which "before" learns of the loss, and first
    link.wires[0].lose()
    await asyncio.gather(before, after)
    assert link.wires[0].sent == ["before"]
    assert link.wires[1].sent == ["before", "after"]


async def test_a_call_that_comes_at_the_moment_of_the_recovery_stays_behind_those_that_wait(link):
    tasks = [link.begin("first"), link.begin("second")]
    await asyncio.sleep(0)
    link._bus.listen(Wanted((RECONNECTED,)), lambda _: tasks.append(link.begin("late")))
    link.wires[0].lose()
    await asyncio.wait(tasks)
    await asyncio.gather(*tasks)
    assert link.wires[1].sent == ["first", "second", "late"]
