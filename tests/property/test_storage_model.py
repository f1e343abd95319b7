"""Both engines against a model of a few lines, through any sequence of operations, restarts, torn tails and meddling."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.memory_engine import MemoryEngine
from tests.unit.storage.logs import always, keep, restore, texts

from timeleap.errors import CancelledError, ExternallyModifiedError
from timeleap.storage.engine import LogEngine
from timeleap.storage.index import index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_notes import MemoryNotes
from timeleap.storage.log_values import LogState, NewRecord, RecordKind
from timeleap.storage.record import checkpoint_record, message_record, system_prompt_record, usage_record

T = TypeVar("T")

CONTENT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ROLES = st.sampled_from(["user", "assistant", "tool", "system"])

Item = tuple[str, Any]  # message, checkpoint, usage or prompt, and its value


def record_of(item: Item) -> NewRecord:
    kind, value = item
    if kind == "message":
        return message_record({"role": value[0], "content": value[1]})
    if kind == "checkpoint":
        return checkpoint_record(value)
    if kind == "usage":
        return usage_record(value)
    return system_prompt_record(value)


ITEMS = st.one_of(
    st.tuples(st.just("message"), st.tuples(ROLES, CONTENT)),
    st.tuples(st.just("usage"), st.integers(0, 10**9)),
    st.tuples(st.just("prompt"), CONTENT),
)


class Model:
    """What the log should be, as plainly as it can be said."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.timelines: dict[str, list[Item]] = {}

    def check(self, state: LogState) -> None:
        kinds = [kind for kind, _ in self.items]
        last_usage = max((at for at, kind in enumerate(kinds) if kind == "usage"), default=-1)
        checkpoints = [value for kind, value in self.items if kind == "checkpoint"]
        pending = [value[1] for kind, value in self.items[last_usage + 1 :] if kind == "message"]
        prompts = [at for at, kind in enumerate(kinds) if kind == "prompt"]
        assert (state.lines, state.messages) == (len(kinds), kinds.count("message"))
        assert (state.checkpoints, state.usages) == (len(checkpoints), kinds.count("usage"))
        assert state.token_count == (self.items[last_usage][1] if last_usage >= 0 else 0)
        assert state.pending_chars == sum(map(len, pending))
        assert state.next_checkpoint_id == (checkpoints[-1] + 1 if checkpoints else 0)
        assert state.system_prompt_line == (prompts[-1] if prompts else -1)

    def texts(self) -> list[str]:
        return [value[1] for kind, value in self.items if kind == "message"]


class LogMachine(RuleBasedStateMachine):
    """The rules that hold for every engine."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.log = self.folder / "context.jsonl"
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.notes = MemoryNotes()
        self.engine: LogEngine = self.run(self.opened())
        self.heads: set[str] = set()

    async def opened(self) -> LogEngine:
        return MemoryEngine()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.run(self.engine.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)

    @initialize(items=st.lists(ITEMS, max_size=5))
    def begin(self, items: list[Item]) -> None:
        self.append(items)

    @rule(items=st.lists(ITEMS, max_size=4))
    def append(self, items: list[Item]) -> None:
        before = self.engine.state
        done = self.run(self.engine.append(always(*map(record_of, items))))
        self.model.items += items
        assert done.before.lines == before.lines
        assert (done.after, done.head) == (self.engine.state, self.engine.head)

    @rule(items=st.lists(st.lists(ITEMS, min_size=1, max_size=2), min_size=2, max_size=6))
    def append_together(self, items: list[list[Item]]) -> None:
        async def all_at_once() -> None:
            await asyncio.gather(*(self.engine.append(always(*map(record_of, some))) for some in items))

        self.run(all_at_once())
        for some in items:
            self.model.items += some

    @rule()
    def checkpoint(self) -> None:
        self.run(self.engine.append(lambda state: [checkpoint_record(state.next_checkpoint_id)]))
        last = [value for kind, value in self.model.items if kind == "checkpoint"]
        self.model.items.append(("checkpoint", last[-1] + 1 if last else 0))

    @rule(data=st.data(), items=st.lists(ITEMS, max_size=2))
    def replace(self, data: st.DataObject, items: list[Item]) -> None:
        lines = data.draw(st.integers(0, len(self.model.items)))
        done = self.run(keep(self.engine, lines, *map(record_of, items)))
        assert done.timeline_id not in self.model.timelines
        self.model.timelines[done.timeline_id] = self.model.items
        self.model.items = [*self.model.items[:lines], *items]

    @precondition(lambda self: self.model.timelines)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.model.timelines)))
        done = self.run(restore(self.engine, chosen))
        self.model.timelines[done.timeline_id] = self.model.items
        self.model.items = list(self.model.timelines[chosen])

    @precondition(lambda self: self.model.timelines)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.model.timelines)[:-1] or sorted(self.model.timelines)))
        if chosen != max(self.model.timelines, key=lambda name: int(name.rpartition("_")[2])):
            self.engine.remove_timeline(chosen)
            del self.model.timelines[chosen]

    @rule()
    def cancel(self) -> None:
        async def cancelled() -> None:
            task = asyncio.ensure_future(self.engine.append(always(record_of(("message", ("user", "never"))))))
            task.cancel()
            with pytest.raises((asyncio.CancelledError, CancelledError)):
                await task

        self.run(cancelled())

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        state = self.engine.state
        if state.messages:
            index = data.draw(st.integers(0, state.messages - 1))
            (row,) = self.engine.rows(*(self.engine.line_of_message(index) + at for at in (0, 1)))
            assert (row.messages_before, row.kind) == (index, RecordKind.MESSAGE)
        ids = [value for kind, value in self.model.items if kind == "checkpoint"]
        for wanted in (0, 1, 5):
            line = self.engine.find_checkpoint(wanted)
            assert (line is None) == (wanted not in ids)
            if line is not None:
                assert self.model.items.index(("checkpoint", wanted)) == line

    @invariant()
    def agrees(self) -> None:
        self.model.check(self.engine.state)
        assert texts(self.engine) == self.model.texts()
        assert {one.timeline_id: one.messages for one in self.engine.timelines()} == {
            name: sum(kind == "message" for kind, _ in items) for name, items in self.model.timelines.items()
        }


class JsonlMachine(LogMachine):
    """The rules of a log on disk: restarts, lost indexes, torn tails, meddling."""

    async def opened(self) -> LogEngine:
        return await JsonlEngine.open(self.log, durability="os", notes=self.notes)

    def reopen(self) -> None:
        head = self.engine.head
        self.run(self.engine.aclose())
        self.engine = self.run(self.opened())
        assert self.engine.head == head
        assert self.engine.recovery.warnings == ()

    @rule(lose_index=st.booleans())
    def restart(self, lose_index: bool) -> None:
        if lose_index:
            index_path(self.log).unlink(missing_ok=True)
        self.reopen()

    @rule(data=st.data())
    def tear(self, data: st.DataObject) -> None:
        record = record_of(data.draw(ITEMS)).body
        torn = record[: data.draw(st.integers(1, len(record) - 1))]
        if self.log.read_bytes()[-1:] not in (b"", b"\n"):
            torn = b"\n" + torn
        with self.log.open("ab") as file:
            file.write(torn)
        self.run(self.engine.aclose())
        self.engine = self.run(self.opened())
        assert self.engine.recovery.cut_bytes == len(torn.lstrip())

    @rule(item=ITEMS, whole=st.booleans())
    def meddle(self, item: Item, whole: bool) -> None:
        missing = self.log.exists() and self.log.read_bytes()[-1:] not in (b"", b"\n")
        with self.log.open("ab") as file:
            file.write(b"\n" * missing + record_of(item).body + b"\n" * whole)
        assert self.engine.recovery.modified
        with pytest.raises(ExternallyModifiedError):
            self.run(self.engine.append(always(record_of(item))))
        self.run(self.engine.reload())
        self.model.items.append(item)

    @rule()
    def follow(self) -> None:
        follower = self.run(JsonlEngine.open(self.log, access="read"))
        assert follower.state == self.engine.state
        assert follower.verify() == []
        self.run(follower.aclose())


class JsonlSharedMachine(LogMachine):
    """The lock taken for each write; another object on the same log writes too, and so do others without a lock."""

    async def opened(self) -> LogEngine:
        return await JsonlEngine.open(self.log, lock="per-write")

    @rule(item=ITEMS)
    def write_elsewhere(self, item: Item) -> None:
        other = self.run(self.opened())
        self.run(other.append(always(record_of(item))))
        self.run(other.aclose())
        self.model.items.append(item)
        assert isinstance(self.engine, JsonlEngine)
        self.run(self.engine.refresh())

    @rule(item=ITEMS, whole=st.booleans())
    def meddle(self, item: Item, whole: bool) -> None:
        missing = self.log.exists() and self.log.read_bytes()[-1:] not in (b"", b"\n")
        with self.log.open("ab") as file:
            file.write(b"\n" * missing + record_of(item).body + b"\n" * whole)
        self.model.items.append(item)
        self.run(self.engine.append(always(record_of(item))))
        self.model.items.append(item)


SETTINGS = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)

TestMemory = LogMachine.TestCase
TestJsonl = JsonlMachine.TestCase
TestJsonlShared = JsonlSharedMachine.TestCase
TestMemory.settings = TestJsonl.settings = TestJsonlShared.settings = SETTINGS
