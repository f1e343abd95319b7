"""Undo and redo against their definition, through thousands of random histories: two stacks of the log's bytes.

The model knows nothing of the product but what the log says after each step. It is told which operation was asked for, and
says what undo and redo must bring back, byte for byte, how many steps there are, and how many timelines. In between the
session is closed and opened by others, loses its indexes, is killed in the middle of a change, is asked again, forked,
imported from an archive, pruned and changed by another program.

`TIMELEAP_HISTORIES=5000 pytest -m torture tests/property/test_undo_histories.py` runs as many; a history that fails names
its number, under which `TIMELEAP_HISTORY=<number>` runs it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.crash.storage.faults import CHANGING, faults
from tests.support import figures
from tests.support.compacting import compact
from tests.support.plain_shapes import PLAIN
from tests.support.session_seen import guard_of
from tests.support.torture import share

from timeleap.errors import TimeleapError
from timeleap.features.approvals.requests import AskedApprovals
from timeleap.features.approvals.seal import KeyRing
from timeleap.features.approvals.standing import SealedApprovals
from timeleap.features.approvals.store_approvals import in_files
from timeleap.features.compaction.decisions import CompactionPlan
from timeleap.features.compaction.prepare import summary_message
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation, Retention
from timeleap.sessions.transaction import Files, SessionServices, SessionTransactions
from timeleap.storage.index import index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.store.store import SessionStore

Json = dict[str, Any]
Request = Callable[[Session, Mutation], Awaitable[Any]]

# Read now: tests run without the settings of the one who starts them.
HISTORIES = int(os.environ.get("TIMELEAP_HISTORIES") or share(5_000))
ONE = os.environ.get("TIMELEAP_HISTORY")
STEPS = 25
MANY = 1000
WORDS = ("one", "two", "three")


@dataclass
class Stacks:
    """The model: the live log, and the states that undo and redo go to. States whose timelines are gone end a stack.

    Attributes:
        kept: Every log that was set aside, as it has to be found again.
    """

    live: bytes = b""
    undo: list[bytes] = field(default_factory=list)
    redo: list[bytes] = field(default_factory=list)
    kept: set[bytes] = field(default_factory=set)

    def stepped(self, after: bytes) -> None:
        """Revert, clear, compact, restore, D-Mail."""
        if after != self.live:
            self.undo.append(self.live)
            self.redo = []
            self._go(after)

    def appended(self, after: bytes) -> None:
        """Every other change of the log."""
        if after != self.live:
            self.redo = []
            self.live = after

    def moved(self, direction: str, steps: int) -> None:
        """Undo or redo; there must be as many steps."""
        source, target = (self.undo, self.redo) if direction == "undo" else (self.redo, self.undo)
        before = self.live
        for _ in range(steps):
            state = source.pop()
            if state != self.live:
                target.append(self.live)
            self.live = state
        after, self.live = self.live, before
        self._go(after)

    def pruned(self, left: set[bytes]) -> None:
        """Only these logs are left of what was set aside."""
        self.kept &= left
        for stack in (self.undo, self.redo):
            for at in range(len(stack), 0, -1):
                if stack[at - 1] and stack[at - 1] not in self.kept:
                    del stack[:at]
                    break

    def copy(self) -> Stacks:
        return Stacks(self.live, list(self.undo), list(self.redo), set(self.kept))

    def _go(self, after: bytes) -> None:
        if after != self.live and self.live:
            self.kept.add(self.live)
        self.live = after


class History:
    """One random history.

    Args:
        number: What it is made of; the same number is the same history.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.dice = random.Random(number)
        self.folder = folder
        # Most keep everything; in some the past is short.
        self.max_timelines = self.dice.choice((MANY, MANY, MANY, 3, 6))
        self.model = Stacks()
        self.name = "s"
        self.asked: list[tuple[Mutation, Request, Any]] = []
        self.heads: list[str] = []
        self.told: list[str] = []
        self.requests = 0

    async def run(self) -> None:
        await self.open()
        for _ in range(STEPS):
            step = self.dice.choices(list(CHOICES), weights=list(CHOICES.values()))[0]
            self.told.append(step.__name__)
            await step(self)
            self.agrees()
        await self.store.aclose()

    async def open(self) -> None:
        self.store = SessionStore(
            self.folder / "home",
            durability="os",
            shapes=PLAIN,
            retention=Retention(self.max_timelines),
            approvals=in_files(self.folder / "key"),
        )
        self.session = (await self.store.open(self.name)).session

    def agrees(self) -> None:
        session, model = self.session, self.model
        assert self.log() == model.live
        there = [one.timeline_id for one in session.engine.timelines()]
        found = [(session.path / f"{name}.jsonl").read_bytes() for name in there]
        assert len(set(found)) == len(found), "a log was set aside twice"
        assert b"" not in found, "an empty log was set aside"
        if self.max_timelines == MANY:
            assert set(found) == model.kept
        else:
            model.pruned(set(found))
        summary = session.summary()
        assert (summary.can_undo, summary.can_redo) == (len(model.undo), len(model.redo))
        assert summary.timelines == len(there)

    def log(self) -> bytes:
        return (self.session.path / "context.jsonl").read_bytes()

    def head_moved(self, changed: bool) -> None:
        """A head belongs to one state of the log, for ever."""
        head = self.session.head
        if changed:
            assert head not in self.heads, "a head was used again"
        self.heads.append(head)

    async def do(self, name: str, args: Json, request: Request, *, step: bool) -> Any:
        """Ask for a change, and let the model follow; None where it was refused."""
        guard = self.guard(name, args)
        before = self.log()
        try:
            result = await request(self.session, guard)
        except TimeleapError:
            assert self.log() == before
            return None
        after = self.log()
        (self.model.stepped if step else self.model.appended)(after)
        self.head_moved(after != before)
        if guard.request_id is not None:
            self.asked.append((guard, request, result))
        return result

    def guard(self, name: str, args: Json) -> Mutation:
        if self.dice.random() < 0.5:
            return guard_of(name, args, None, None)
        self.requests += 1
        return guard_of(name, {**args, "n": self.requests}, f"r{self.requests}", None)

    # What happens

    async def append(self) -> None:
        messages = [{"role": "user", "content": self.dice.choice(WORDS)} for _ in range(self.dice.choice((1, 1, 2)))]
        await self.do("append", {}, lambda session, guard: session.append(messages, guard), step=False)

    async def note(self) -> None:
        label, count = self.dice.choice((None, "here")), self.dice.randrange(100)
        request: Request = self.dice.choice(
            (
                lambda session, guard: session.checkpoint(label, False, guard),
                lambda session, guard: session.update_token_count(count, guard),
                lambda session, guard: session.set_system_prompt("be brief", guard),
            )
        )
        await self.do("checkpoint", {}, request, step=False)

    async def revert(self) -> None:
        count = self.session.engine.state.messages
        index, heal = self.dice.randrange(count + 1), self.dice.random() < 0.2
        await self.do(
            "revert", {}, lambda session, guard: session.revert(message_index=index, heal=heal, guard=guard), step=True
        )

    async def revert_to_checkpoint(self) -> None:
        count = self.session.engine.state.next_checkpoint_id
        number = self.dice.randrange(count + 1)
        await self.do("revert", {}, lambda session, guard: session.revert(checkpoint_id=number, guard=guard), step=True)

    async def clear(self) -> None:
        keep = self.dice.random() < 0.5
        await self.do("clear", {}, lambda session, guard: session.clear(keep, guard), step=True)

    async def compact(self) -> None:
        state, head = self.session.engine.state, self.session.head
        plan = CompactionPlan(
            head, self.dice.randrange(state.messages + 1), summary_message("s"), "s", summary_tokens=0
        )
        await self.do("compact", {}, lambda session, guard: compact(session, plan, guard), step=True)

    async def restore(self) -> None:
        names = [one.timeline_id for one in self.session.engine.timelines()]
        name = self.dice.choice([*names, "context_999"])
        await self.do("restore_timeline", {}, lambda session, guard: session.restore_timeline(name, guard), step=True)

    async def deliver(self) -> None:
        checkpoints = self.session.summary().checkpoints
        if not checkpoints:
            return
        uid = self.dice.choice(checkpoints).uid
        if self.session.facts.pending_dmail is None:
            await self.session.send_dmail("look in the drawer", checkpoint_uid=uid)
        await self.do("deliver_dmail", {}, lambda session, guard: session.deliver_dmail(guard), step=True)

    async def to_and_fro(self) -> None:
        for _ in range(self.dice.choice((1, 1, 2, 4))):
            await self.move(self.dice.choice(("undo", "redo")), self.dice.choice((1, 1, 1, 2, 3)))
            self.agrees()

    async def move(self, direction: str, steps: int) -> None:
        model, session = self.model, self.session
        many = len(model.undo if direction == "undo" else model.redo)
        guard = self.guard(direction, {})
        if steps > many:
            with pytest.raises(TimeleapError) as refused:
                await getattr(session, direction)(steps, guard)
            assert refused.value.kind == f"nothingTo{direction.title()}"
            assert refused.value.data == {"canUndo": len(model.undo), "canRedo": len(model.redo)}
            return
        before = model.live
        planned = await getattr(session, direction)(steps, dry_run=True)
        assert self.log() == before
        result = await getattr(session, direction)(steps, guard)
        model.moved(direction, steps)
        assert self.log() == model.live
        kept = (session.path / f"{result['timelineId']}.jsonl").read_bytes() if "timelineId" in result else b""
        assert kept == before
        assert len(result["steps"]) == steps
        assert [*result["steps"]] == [*planned["steps"]]
        assert planned["context"]["messageCount"] == result["context"]["messageCount"] == session.engine.state.messages
        if self.max_timelines == MANY:
            context = result["context"]
            assert (context["canUndo"], context["canRedo"]) == (len(model.undo), len(model.redo))
            assert (planned["context"]["canUndo"], planned["context"]["canRedo"]) == (
                len(model.undo),
                len(model.redo),
            )
        self.head_moved(before != model.live)
        if guard.request_id is not None:
            self.asked.append((guard, lambda session, again: getattr(session, direction)(steps, again), result))

    async def ask_again(self) -> None:
        """A repeat changes nothing, and is answered as the first time."""
        if not self.asked:
            return
        guard, request, result = self.dice.choice(self.asked)
        before = self.log()
        again = await request(self.session, guard)
        assert again["duplicate"] is True
        assert again.get("timelineId") == result.get("timelineId")
        assert self.log() == before

    async def restart(self) -> None:
        await self.store.aclose()
        if self.dice.random() < 0.3:
            for log in self.session.path.glob("context*.jsonl"):
                index_path(log).unlink(missing_ok=True)
        await self.open()

    async def hand_over(self) -> None:
        """Another process shows the session, and owns it when the first one has gone."""
        follower = await self.followed()
        for moving in (False, True):
            if moving and self.model.undo:
                await self.move("undo", 1)
                self.agrees()
                await follower.catch_up()
            summary = follower.summary()
            assert (summary.can_undo, summary.can_redo) == (len(self.model.undo), len(self.model.redo))
            assert follower.head == self.session.head
        await self.store.aclose()
        await follower.aclose()
        await self.open()

    async def followed(self) -> Session:
        """The session as a process has it that only reads (a store opens a session once in a process)."""
        path = self.session.path
        meta = Meta(path, "readOnly")
        approvals = SealedApprovals(self.name, meta, StateFile(path), KeyRing(self.folder / "key"), trusted=True)
        engine = await JsonlEngine.open(path / "context.jsonl", access="read", notes=meta)

        async def release(_: SessionTransactions) -> None:
            await engine.aclose()

        around = SessionServices(PLAIN, Retention(self.max_timelines), lambda _: set(), release, AskedApprovals)
        return Session(self.name, path, Files(engine, meta, approvals), around)

    async def fork(self) -> None:
        """A fork has a past of its own: none. The history goes on in it, or in the session it came from."""
        self.requests += 1
        forked = (await self.store.fork(self.name, new_session_id=f"s{self.requests}")).session
        summary = forked.summary()
        assert (summary.can_undo, summary.can_redo, summary.timelines) == (0, 0, 0)
        if self.dice.random() < 0.5:
            await forked.aclose()
            return
        await self.session.aclose()
        self.session, self.name = forked, forked.session_id
        self.model, self.heads, self.asked = Stacks(live=self.log()), [], []

    async def prune(self) -> None:
        names = [one.timeline_id for one in self.session.engine.timelines()]
        if not names:
            return
        going = self.dice.choice(names)
        gone = (self.session.path / f"{going}.jsonl").read_bytes()
        await self.session.prune(PruneRequest(timeline_ids=(going,)))
        if not (self.session.path / f"{going}.jsonl").exists():
            self.model.pruned(self.model.kept - {gone})

    async def meddle(self) -> None:
        """Another program appends a line."""
        before = self.log()
        line = json.dumps({"role": "user", "content": "theirs"}).encode() + b"\n"
        missing = b"\n" if before and not before.endswith(b"\n") else b""
        (self.session.path / "context.jsonl").write_bytes(before + missing + line)
        await self.session.reload()
        self.model.appended(self.log())
        self.heads.append(self.session.head)

    async def die(self) -> None:
        """Killed in the midst of a change: it was done or not, and so were its consequences."""
        before, model = self.model.live, self.model
        undone = model.copy()
        if self.dice.random() < 0.5 and model.undo:
            direction, steps = "undo", self.dice.randrange(len(model.undo)) + 1
            undone.moved(direction, steps)
            work: Awaitable[Any] = self.session.undo(steps)
        elif self.dice.random() < 0.7 and model.redo:
            direction, steps = "redo", self.dice.randrange(len(model.redo)) + 1
            undone.moved(direction, steps)
            work = self.session.redo(steps)
        else:
            direction, work = "clear", self.session.clear(False)
            undone.stepped(b"")
        with faults(first=self.dice.randrange(1, 30), onwards=True, short=False, calls=(*CHANGING, "mkdir", "chmod")):
            with contextlib.suppress(TimeleapError, OSError):
                await work
            for _ in range(2):
                try:
                    await self.store.aclose()
                    break
                except OSError:
                    continue
        await self.open()
        after = self.log()
        assert after in (before, undone.live), direction
        summary = self.session.summary()
        if after != before or (summary.can_undo, summary.can_redo) != (len(model.undo), len(model.redo)):
            self.model = undone
        self.heads.append(self.session.head)


CHOICES: dict[Callable[[History], Awaitable[None]], int] = {
    History.append: 8,
    History.note: 4,
    History.revert: 6,
    History.revert_to_checkpoint: 3,
    History.clear: 2,
    History.compact: 2,
    History.restore: 3,
    History.deliver: 1,
    History.to_and_fro: 12,
    History.ask_again: 2,
    History.restart: 1,
    History.hand_over: 1,
    History.fork: 1,
    History.prune: 1,
    History.meddle: 1,
    History.die: 1,
}


def play(number: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="undo-histories-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    history = History(number, folder)
    figures.count(histories=1)
    try:
        asyncio.run(history.run())
    except BaseException as error:
        error.add_note(f"history {number}, up to {history.told}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def numbers(many: int) -> range:
    return range(many) if ONE is None else range(int(ONE), int(ONE) + 1)


@pytest.mark.long
def test_undo_and_redo_are_what_their_definition_says() -> None:
    for number in numbers(60):
        play(number)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_through_thousands_of_histories() -> None:
    for number in numbers(HISTORIES):
        play(number)
