"""Random histories of request ids against a model: which are known, and what their answers were.

The bounds are small in most histories, so that all of them are gone beyond many times; one history has the real ones.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.worlds import USER, World, asked

from timeleap.sessions import request_table
from timeleap.sessions.documents import request_file as requests
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.session import Session

Json = dict[str, Any]
Ask = Callable[[Session, Any], Awaitable[Json]]

HISTORIES = 16
STEPS = 120


@dataclass(frozen=True)
class Bounds:
    clients: int
    made: int
    by_one: int


SMALL = Bounds(12, 24, 8)
REAL = Bounds(requests.REMEMBERED, requests.MADE_REMEMBERED, requests.MADE_BY_ONE)


@dataclass
class Past:
    """The requests of one session, oldest first: id, how it is asked, what it was answered with."""

    asked: dict[str, tuple[str, Ask, Json]] = field(default_factory=dict)

    def add(self, request_id: str, method: str, ask: Ask, result: Json) -> None:
        self.asked.pop(request_id, None)
        self.asked[request_id] = (method, ask, result)

    def is_known(self, request_id: str, bounds: Bounds) -> bool | None:
        """None: it may be, or not."""
        names = [name for name in self.asked if name.startswith("timeleap:") is request_id.startswith("timeleap:")]
        if request_id not in names:
            return False
        if not request_id.startswith("timeleap:"):
            return request_id in names[-bounds.clients :]
        window = [name for name in names if requests.window_of(name) == requests.window_of(request_id)]
        if request_id in names[-bounds.made :]:
            return request_id in window[-bounds.by_one :]
        return None


def plain(result: Json) -> Json:
    """A result as JSON has it; the facts of the log are of other tests."""
    found: Json = json.loads(json.dumps(result, default=str))
    found.pop("context", None)
    return found


class History:
    """One random history of sessions that are forked, closed, killed and repeated to."""

    def __init__(self, folder: Path, seed: int, bounds: Bounds) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.bounds = bounds
        self.world = World(folder / "0", durability="os")
        self.pasts: dict[str, Past] = {"s1": Past()}
        self.counter = 0
        self.kills = 0
        self.longest = 0

    async def run(self, steps: int, burst: int) -> None:
        self.longest = burst
        often = (self.append, self.title, self.rewrite, self.repeat)
        for _ in range(steps):
            await self.random.choice((*often, *often, self.restart, self.fork, self.prune, self.burst))()
        for name in self.pasts:
            for _ in range(10):
                await self.repeat(name)
        await self.world.close()

    async def session(self, name: str | None = None) -> tuple[Session, Past]:
        name = name or self.random.choice(list(self.pasts))
        return await self.world.session(name), self.pasts[name]

    def new_id(self) -> str:
        self.counter += 1
        window = self.random.choice([None, None, "a", "b", "c"])
        return f"r{self.counter}" if window is None else f"timeleap:{window}.{self.counter}"

    async def ask(self, session: Session, past: Past, method: str, ask: Ask) -> None:
        request_id = self.new_id()
        result = await ask(session, asked(request_id, method))
        assert "duplicate" not in result, request_id
        past.add(request_id, method, ask, plain(result))

    async def append(self) -> None:
        session, past = await self.session()
        many = [USER] * self.random.choice((1, 1, 3))
        await self.ask(session, past, "context/appendMessage", lambda s, guard: s.append(many, guard))

    async def burst(self) -> None:
        session, past = await self.session()
        for _ in range(self.random.randrange(1, self.longest)):
            await self.ask(session, past, "context/appendMessage", lambda s, guard: s.append([USER], guard))

    async def title(self) -> None:
        session, past = await self.session()
        text = str(self.counter)
        await self.ask(session, past, "session/setTitle", lambda s, guard: s.set_title(text, guard))

    async def rewrite(self) -> None:
        session, past = await self.session()
        timelines = [one.timeline_id for one in session.engine.timelines()]
        checkpoints = session.engine.state.checkpoints
        context = session.summary()
        name = self.random.choice(("clear", "revert", "restore", "restore", "undo", "redo", "checkpoint", "checkpoint"))
        if name == "clear":
            await self.ask(session, past, "context/clear", lambda s, guard: s.clear(guard=guard))
        elif name == "revert" and checkpoints:
            uid = session.checkpoints(session.engine, self.random.randrange(checkpoints), 1)[0].uid
            await self.ask(
                session, past, "context/revertTo", lambda s, guard: s.revert(checkpoint_uid=uid, guard=guard)
            )
        elif name == "restore" and timelines:
            chosen = self.random.choice(timelines)
            await self.ask(session, past, "context/restoreTimeline", lambda s, guard: s.restore_timeline(chosen, guard))
        elif name == "undo" and context.can_undo:
            await self.ask(session, past, "context/undo", lambda s, guard: s.undo(1, guard))
        elif name == "redo" and context.can_redo:
            await self.ask(session, past, "context/redo", lambda s, guard: s.redo(1, guard))
        elif name == "checkpoint":
            await self.ask(session, past, "context/checkpoint", lambda s, guard: s.checkpoint("c", True, guard))

    async def prune(self) -> None:
        session, _ = await self.session()
        timelines = [one.timeline_id for one in session.engine.timelines()]
        if timelines:
            await session.prune(PruneRequest(timeline_ids=(self.random.choice(timelines),)))

    async def fork(self) -> None:
        if len(self.pasts) >= 4:
            return
        session, _ = await self.session()
        name = f"s{len(self.pasts) + 1}"
        await self.world.store.fork(session.session_id, new_session_id=name)
        self.pasts[name] = Past()

    async def restart(self) -> None:
        if self.random.random() < 0.5:
            await self.world.restart()
            return
        # What a killed process leaves: everything it has written, and nothing it would have written at the end.
        self.kills += 1
        killed = World(self.folder / str(self.kills), durability="os")
        await killed.close()
        shutil.copytree(self.world.home, killed.home, dirs_exist_ok=True)
        await self.world.close()
        self.world = World(self.folder / str(self.kills), durability="os")

    async def repeat(self, name: str | None = None) -> None:
        session, past = await self.session(name)
        every = {one: found for each in self.pasts.values() for one, found in each.asked.items()}
        if not every:
            return
        request_id = self.random.choice(list(past.asked or every) if self.random.random() < 0.7 else list(every))
        method, ask, result = every[request_id]
        known = past.is_known(request_id, self.bounds)
        if known is None or (not known and method not in ("context/appendMessage", "session/setTitle")):
            return
        again = self.random.random() < 0.5
        head = session.head
        answer = await ask(
            session, asked(request_id, method, again=again, expected_head=None if not known else "stale")
        )
        if not known:
            assert "duplicate" not in answer, request_id
            past.add(request_id, method, ask, plain(answer))
            return
        result = past.asked[request_id][2]
        assert plain(answer) == (result if again else {**result, "duplicate": True, "head": head}), request_id
        assert session.head == head


@pytest.mark.long
@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_ids_are_known_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for module in (request_table, requests):
        for name, value in (
            ("REMEMBERED", SMALL.clients),
            ("MADE_REMEMBERED", SMALL.made),
            ("MADE_BY_ONE", SMALL.by_one),
            ("FILE_LINES", 2 * SMALL.clients),
            ("FILE_LINES_MADE", 2 * SMALL.made),
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    await History(tmp_path, seed, SMALL).run(STEPS, 10)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.long
async def test_ids_are_known_by_age_beyond_the_real_bounds(tmp_path: Path) -> None:
    history = History(tmp_path, 1, REAL)
    await history.run(200, 900)
    assert history.counter > 2 * REAL.clients
