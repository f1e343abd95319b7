"""What is done while it is recorded, and what must be found after a crash."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.storage.recorder import Recorder
from tests.unit.storage.logs import always, count, keep, mark, restore, said, say

from timeleap.storage.engine import replace_log
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_values import Durability, Replacement, TimelineFacts
from timeleap.storage.record import strip_tl

Log = tuple[bytes, ...]


@dataclass
class Expected:
    """What the log and its timelines may be after a number of operations.

    Attributes:
        logs: The log's lines (our marks left out) after each operation.
        timelines: The same of each timeline, by the operation that made it.
    """

    logs: list[Log] = field(default_factory=list)
    timelines: dict[int, Log] = field(default_factory=dict)
    durability: Durability = "disk"

    def durable(self, acked: int) -> int:
        """How many of the acknowledged operations must have survived a power failure."""
        return acked if self.durability == "disk" else 0


def lines_of(engine: JsonlEngine) -> Log:
    """The log's lines without our marks."""
    return tuple(strip_tl(line) for line in engine.read(0, engine.state.lines))


async def append(engine: JsonlEngine) -> None:
    await say(engine, "appended " + "x" * 40)


async def batch(engine: JsonlEngine) -> None:
    await engine.append(always(said("first of three"), said("second"), said("third")))


async def long_append(engine: JsonlEngine) -> None:
    await say(engine, "long " + "x" * 1500)


async def long_batch(engine: JsonlEngine) -> None:
    await say(engine, "first " + "x" * 700, "second " + "y" * 900, "third " + "z" * 700)


async def checkpoint(engine: JsonlEngine) -> None:
    await mark(engine)


async def usage(engine: JsonlEngine) -> None:
    await count(engine, 123)


async def revert(engine: JsonlEngine) -> None:
    await replace_log(engine, lambda state: Replacement(TimelineFacts("revert"), keep_lines=state.lines // 2))


async def clear(engine: JsonlEngine) -> None:
    await keep(engine, 0, reason="clear")


async def compact(engine: JsonlEngine) -> None:
    await keep(engine, 1, said("a summary"), said("kept"), reason="compact")


async def redact(engine: JsonlEngine) -> None:
    await engine.run(
        lambda _: engine.revise(lambda _, line: line.replace(b"one", b"[redacted]") if b"one" in line else None)
    )


async def undo(engine: JsonlEngine) -> None:
    timelines = engine.timelines()
    if timelines:
        await restore(engine, timelines[0].timeline_id)
    else:
        await keep(engine, 1)


OPERATIONS: dict[str, Callable[[JsonlEngine], Awaitable[None]]] = {
    "append": append,
    "batch": batch,
    "checkpoint": checkpoint,
    "usage": usage,
    "revert": revert,
    "clear": clear,
    "compact": compact,
    "undo": undo,
}
LONG: dict[str, Callable[[JsonlEngine], Awaitable[None]]] = {"long append": long_append, "long batch": long_batch}
"""Over several blocks of a disk."""
ANEW: dict[str, Callable[[JsonlEngine], Awaitable[None]]] = {"redact": redact}
"""What keeps no timeline."""
SINGLES = [(name,) for name in OPERATIONS]
PAIRS = list(itertools.product(OPERATIONS, repeat=2))
TRIPLES = list(itertools.product(OPERATIONS, repeat=3))


async def prepare(log: Path) -> None:
    """A log with something in it, closed."""
    engine = await JsonlEngine.open(log)
    await say(engine, "one")
    await checkpoint(engine)
    await say(engine, "two", "three")
    await usage(engine)
    await engine.aclose()


async def run(log: Path, names: tuple[str, ...], recorder: Recorder, durability: Durability = "disk") -> Expected:
    """Do the operations one after the other, noting when each was acknowledged."""
    engine = await JsonlEngine.open(log, durability=durability)
    expected = Expected([lines_of(engine)], durability=durability)
    for number, name in enumerate(names, 1):
        replaces = name in ("revert", "clear", "compact", "undo")
        recorder.note("start")
        await (OPERATIONS | LONG | ANEW)[name](engine)
        recorder.note("ack")
        if replaces:
            expected.timelines[number] = expected.logs[-1]
        expected.logs.append(lines_of(engine))
    await engine.aclose()
    return expected


async def run_group(log: Path, size: int, recorder: Recorder) -> Expected:
    """Do appends together, so that they share a write; each is whole or not there."""
    engine = await JsonlEngine.open(log)
    expected = Expected([lines_of(engine)])
    for _ in range(size):
        recorder.note("start")

    async def one(number: int) -> None:
        await engine.append(always(said(f"group {number} a"), said(f"group {number} b")))
        recorder.note("ack")

    await asyncio.gather(*(one(number) for number in range(size)))
    for number in range(size):
        pair = tuple(said(f"group {number} {which}").body for which in "ab")
        expected.logs.append(expected.logs[-1] + pair)
    await engine.aclose()
    return expected
