"""What every storage engine does, whatever keeps the log."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.turns import idle
from tests.unit.storage.engines import ENGINES
from tests.unit.storage.logs import always, count, keep, mark, records, restore, said, say, texts

from timeleap.errors import ReadOnlyError, TimelineNotFoundError
from timeleap.storage.engine import LogEngine, replace_log
from timeleap.storage.log_values import (
    Appended,
    LogState,
    NewRecord,
    RecordFlag,
    RecordKind,
    Replaced,
    Replacement,
    Role,
    TimelineFacts,
)
from timeleap.storage.record import checkpoint_record, read_tl, system_prompt_record, usage_record


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[LogEngine]:
    opened = await ENGINES[request.param](tmp_path)
    yield opened
    await opened.aclose()


async def test_a_new_log_is_empty(engine: LogEngine) -> None:
    assert engine.state == LogState()
    assert engine.entries(0, 10) == []
    assert engine.read(0, 10) == []
    assert engine.timelines() == []
    assert engine.recovery.warnings == ()
    assert not engine.recovery.modified
    assert engine.find_checkpoint(0) is None


async def test_the_state_counts_what_was_appended(engine: LogEngine) -> None:
    await engine.append(always(system_prompt_record("be brief")))
    await say(engine, "hello")
    await mark(engine)
    await say(engine, "answer", role="assistant")
    await count(engine, 70)
    await say(engine, "12345678")
    state = engine.state
    assert (state.lines, state.messages, state.checkpoints, state.usages) == (6, 3, 1, 1)
    assert (state.token_count, state.pending_chars, state.token_count_with_pending) == (70, 8, 72)
    assert (state.next_checkpoint_id, state.system_prompt_line, state.last_role) == (1, 0, Role.USER)
    assert state.regular
    assert not state.has_damage
    assert records(engine) == [
        {"role": "_system_prompt", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "_checkpoint", "id": 0},
        {"role": "assistant", "content": "answer"},
        {"role": "_usage", "token_count": 70},
        {"role": "user", "content": "12345678"},
    ]


async def test_an_append_says_the_states_around_its_own_records(engine: LogEngine) -> None:
    done = await asyncio.gather(*(say(engine, f"m{i}", "and") for i in range(5)))
    for earlier, later in itertools.pairwise(done):
        assert later.before == earlier.after
        assert later.after.messages == later.before.messages + 2
    assert done[-1].after == engine.state
    assert done[-1].head == engine.head
    assert len({one.head for one in done}) == 5


async def test_appends_take_effect_in_the_order_of_their_calls(engine: LogEngine) -> None:
    await asyncio.gather(*(say(engine, str(i)) for i in range(100)))
    assert texts(engine) == [str(i) for i in range(100)]


async def test_a_plan_sees_the_state_at_its_turn(engine: LogEngine) -> None:
    seen: list[int] = []

    def plan(state: LogState) -> list[NewRecord]:
        seen.append(state.next_checkpoint_id)
        return [checkpoint_record(state.next_checkpoint_id)]

    await asyncio.gather(*(engine.append(plan) for _ in range(20)))
    assert seen == list(range(20))


async def test_what_a_plan_raises_goes_to_its_caller_and_changes_nothing(engine: LogEngine) -> None:
    def refuse(_: LogState) -> list[NewRecord]:
        raise LookupError("no")

    done = await asyncio.gather(say(engine, "a"), engine.append(refuse), say(engine, "b"), return_exceptions=True)
    assert isinstance(done[1], LookupError)
    assert texts(engine) == ["a", "b"]
    head = engine.head
    with pytest.raises(LookupError):
        await engine.append(refuse)
    assert engine.head == head


async def test_no_records_change_nothing(engine: LogEngine) -> None:
    await say(engine, "a")
    head = engine.head
    done = await engine.append(always())
    assert (done.before, done.after, done.head) == (engine.state, engine.state, head)


async def test_several_records_are_marked_as_one_batch(engine: LogEngine) -> None:
    await engine.append(always(said("a", r="request"), usage_record(3), said("c")))
    marks = [read_tl(line) for line in engine.read(0, 3)]
    assert [(tl["i"], tl["n"]) for tl in marks] == [(0, 3), (1, 3), (2, 3)]
    assert len({tl["b"] for tl in marks}) == 1
    assert marks[0]["r"] == "request"
    first, middle, last = engine.entries(0, 3)
    assert first.flags & RecordFlag.BATCH_OPEN and not first.flags & RecordFlag.BATCH_TAIL
    assert middle.flags & RecordFlag.BATCH_OPEN and middle.flags & RecordFlag.BATCH_TAIL
    assert not last.flags & RecordFlag.BATCH_OPEN and last.flags & RecordFlag.BATCH_TAIL
    assert engine.verify() == []


async def test_a_single_record_and_an_unmarked_batch_carry_no_marks(engine: LogEngine) -> None:
    await say(engine, "a")
    await engine.append(always(said("b"), said("c")), mark=False)
    assert [line for line in engine.read(0, 3) if b"_tl" in line] == []
    assert texts(engine) == ["a", "b", "c"]


async def test_request_lines_are_found_newest_first(engine: LogEngine) -> None:
    for i in range(4):
        await engine.append(always(said(f"with {i}", r=f"r{i}")))
        await say(engine, "without")
    assert engine.view.request_lines(3) == [6, 4, 2]


async def test_request_lines_tell_who_made_the_ids(engine: LogEngine) -> None:
    await engine.append(always(*(said("x", r=f"timeleap:w.{i}" if i % 3 else f"r{i}") for i in range(9000))))
    assert engine.view.request_lines(3) == [8999, 8998, 8997]
    assert engine.view.request_lines(3, False) == [8997, 8994, 8991]
    assert engine.view.request_lines(3, True) == [8999, 8998, 8996]
    assert engine.view.request_lines(5000, False) == [i for i in range(8999, -1, -1) if not i % 3]
    assert engine.view.request_lines(9000, True) == [i for i in range(8999, -1, -1) if i % 3]


async def test_messages_checkpoints_and_usages_are_found(engine: LogEngine) -> None:
    for i in range(30):
        await mark(engine)
        await say(engine, f"m{i}")
        await count(engine, i)
    for i in (0, 1, 17, 29):
        assert engine.entries(engine.line_of_message(i), engine.state.lines)[0].state.messages == i + 1
        assert engine.line_of_checkpoint(i) == engine.find_checkpoint(i) == 3 * i
        assert engine.entries(engine.line_of_usage(i), engine.state.lines)[0].value == i
    for missing in (-1, 30):
        with pytest.raises(IndexError):
            engine.line_of_message(missing)
        with pytest.raises(IndexError):
            engine.line_of_checkpoint(missing)
        with pytest.raises(IndexError):
            engine.line_of_usage(missing)
        assert engine.find_checkpoint(missing) is None


async def test_the_first_of_two_checkpoints_of_one_id_is_found(engine: LogEngine) -> None:
    for checkpoint_id in (5, 3, 5, 4):
        await engine.append(always(checkpoint_record(checkpoint_id)))
    assert not engine.state.regular
    assert engine.state.next_checkpoint_id == 5
    assert [engine.find_checkpoint(i) for i in (3, 4, 5, 6)] == [1, 3, 0, None]


async def test_rows_join_entries_and_bytes(engine: LogEngine) -> None:
    await mark(engine)
    await say(engine, "a", "b")
    rows = engine.rows(-5, 99)
    assert [(row.line, row.kind, row.messages_before) for row in rows] == [
        (0, RecordKind.CHECKPOINT, 0),
        (1, RecordKind.MESSAGE, 0),
        (2, RecordKind.MESSAGE, 1),
    ]
    assert [row.body for row in rows] == engine.read(0, 3)
    assert [row.flags for row in rows] == [entry.flags for entry in engine.entries(0, 3)]


async def test_the_state_before_a_line_is_known(engine: LogEngine) -> None:
    steps = (say(engine, "abc"), count(engine, 9), say(engine, "defg"), mark(engine), say(engine, "h"))
    states = [engine.state, *[(await step).after for step in steps]]
    assert [engine.state_before(line) for line in range(6)] == states
    assert engine.state_before(-1) == LogState()
    assert engine.state_before(99) == engine.state


async def test_a_replacement_keeps_the_first_lines_and_sets_the_old_log_aside(engine: LogEngine) -> None:
    await say(engine, "a")
    await mark(engine)
    await say(engine, "b", "c")
    old, before = engine.read(0, 4), engine.state
    done = await keep(engine, 1, said("after"))
    assert (done.before, done.after, done.head) == (before, engine.state, engine.head)
    assert texts(engine) == ["a", "after"]
    assert engine.state.next_checkpoint_id == 0
    (timeline,) = engine.timelines()
    assert (timeline.timeline_id, timeline.file) == (done.timeline_id, f"{done.timeline_id}.jsonl")
    assert (timeline.messages, timeline.checkpoints, timeline.bytes) == (3, 1, before.length)
    assert timeline.facts.reason == "revert"
    kept = engine.timeline(done.timeline_id)
    assert kept.read(0, 9) == old
    assert kept.state == before
    assert kept.verify() == []


async def test_a_restored_timeline_is_the_same_bytes(engine: LogEngine) -> None:
    await say(engine, "a", "b")
    await mark(engine)
    old, before = engine.read(0, 9), engine.state
    reverted = await keep(engine, 0)
    restored = await restore(engine, reverted.timeline_id)
    assert engine.read(0, 9) == old
    assert engine.state == restored.after == before
    assert restored.timeline_id != reverted.timeline_id
    assert [one.timeline_id for one in engine.timelines()] == [restored.timeline_id, reverted.timeline_id]


async def test_a_plan_of_a_replacement_that_raises_changes_nothing(engine: LogEngine) -> None:
    await say(engine, "a")
    head = engine.head
    for wrong in ("context_9", "../context", ""):
        with pytest.raises(TimelineNotFoundError):
            await restore(engine, wrong)

    def refuse(_: LogState) -> Replacement:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await replace_log(engine, refuse)

    def unprepared() -> None:
        with engine.draft(Replacement(TimelineFacts("clear"))):
            raise LookupError("not prepared")

    with pytest.raises(LookupError):
        await engine.run(lambda _: engine.rewrite(unprepared), rewrites=True)
    assert (engine.head, engine.timelines(), texts(engine)) == (head, [], ["a"])
    await say(engine, "b")
    assert texts(engine) == ["a", "b"]


async def test_a_draft_tells_the_timeline_before_it_exists(engine: LogEngine) -> None:
    await say(engine, "a")

    def clear() -> tuple[str, int, Replaced]:
        with engine.draft(Replacement(TimelineFacts("clear"))) as prepared:
            there = len(engine.timelines())
            return prepared.timeline_id, there, engine.commit(prepared)

    before = engine.state
    told, there, done = await engine.run(lambda _: engine.rewrite(clear), rewrites=True)
    assert (told, there) == (done.timeline_id, 0)
    assert (done.before, done.after, done.head) == (before, engine.state, engine.head)


async def test_a_batch_cut_through_on_purpose_is_not_a_batch_any_more(engine: LogEngine) -> None:
    await say(engine, "first")
    await engine.append(always(said("a", r="request"), checkpoint_record(0), said("c")))
    await keep(engine, 2)
    assert [read_tl(line) for line in engine.read(0, 9)] == [{}, {"r": "request"}]
    assert not engine.entries(1, 2)[0].flags & (RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL)
    assert engine.entries(1, 2)[0].flags & RecordFlag.REQUEST
    assert engine.verify() == []
    assert engine.state.length == sum(len(line) + 1 for line in engine.read(0, 9))


async def test_timeline_ids_are_never_used_twice(engine: LogEngine) -> None:
    ids = [(await keep(engine, 0)).timeline_id for _ in range(3)]
    engine.remove_timeline(ids[-1])
    assert [one.timeline_id for one in engine.timelines()] == [ids[1], ids[0]]
    with pytest.raises(TimelineNotFoundError):
        engine.timeline(ids[-1])
    with pytest.raises(TimelineNotFoundError):
        engine.remove_timeline(ids[-1])
    ids.append((await keep(engine, 0)).timeline_id)
    assert len(set(ids)) == 4


async def test_the_head_never_repeats(engine: LogEngine) -> None:
    heads = [engine.head]
    for _ in range(3):
        heads.append((await say(engine, "same")).head)
        heads.append((await keep(engine, 0)).head)
    await engine.reload()
    heads.append(engine.head)
    assert len(set(heads)) == len(heads)


async def test_the_head_of_a_planned_state_is_the_head_it_gets(engine: LogEngine) -> None:
    heads: list[str] = []

    def plan(state: LogState) -> list[NewRecord]:
        heads.append(engine.head_at(state))
        return [said("a")]

    first = await engine.append(plan)
    await engine.append(plan)
    assert heads[1] == first.head


async def test_changes_wait_for_their_turn(engine: LogEngine) -> None:
    order: list[str] = []

    async def job(state: LogState) -> str:
        order.append(f"job begins at {state.messages}")
        await idle()
        order.append("job ends")
        return "done"

    def plan(state: LogState) -> list[NewRecord]:
        order.append(f"append at {state.messages}")
        return [said("x")]

    def clear(state: LogState) -> Replacement:
        order.append(f"clear at {state.messages}")
        return Replacement(TimelineFacts("clear"))

    results = await asyncio.gather(
        engine.append(plan), engine.run(job), engine.append(plan), replace_log(engine, clear), engine.append(plan)
    )
    assert results[1] == "done"
    assert order == ["append at 0", "job begins at 1", "job ends", "append at 1", "clear at 2", "append at 0"]


async def test_what_a_job_raises_goes_to_its_caller(engine: LogEngine) -> None:
    async def job(_: LogState) -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await engine.run(job)
    await say(engine, "goes on")


async def test_a_call_cancelled_while_it_waits_does_nothing(engine: LogEngine) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    async def job(_: LogState) -> str:
        started.set()
        await finish.wait()
        return "finished"

    running = asyncio.create_task(engine.run(job))
    await started.wait()
    waiting = [
        asyncio.create_task(say(engine, "cancelled")),
        asyncio.create_task(keep(engine, 0)),
        asyncio.create_task(engine.run(job)),
    ]
    kept = asyncio.create_task(say(engine, "kept"))
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert all(task.cancelled() for task in waiting)
    running.cancel()
    await asyncio.sleep(0)
    finish.set()
    assert await running == "finished", "what was begun is finished, and says so"
    await kept
    assert texts(engine) == ["kept"]
    assert engine.timelines() == []


async def test_a_closed_engine_refuses_changes_and_closing_twice_is_fine(engine: LogEngine) -> None:
    pending = asyncio.create_task(say(engine, "accepted before"))
    await asyncio.sleep(0)
    await engine.aclose()
    await pending
    await engine.aclose()
    with pytest.raises(ReadOnlyError):
        await say(engine, "b")
    with pytest.raises(ReadOnlyError):
        await keep(engine, 0)


async def test_big_and_strange_texts_come_back_as_they_went_in(engine: LogEngine) -> None:
    strange = ["", "\u2028\u2029\x85", 'quote " and \\ and \n', "😀" * 1000, "x" * 3_000_000, ',"_tl":{"r":"no"}}']
    for text in strange:
        await say(engine, text)
    assert texts(engine) == strange
    assert engine.state.pending_chars == sum(map(len, strange))
    assert engine.verify() == []


async def test_watching_can_be_stopped(engine: LogEngine) -> None:
    called: list[int] = []
    stop = engine.watch(lambda: called.append(1))
    await say(engine, "our own changes are no news")
    stop()
    stop()
    assert called == []


async def test_what_is_added_within_a_job_is_one_batch_and_nothing_comes_in_between(engine: LogEngine) -> None:
    gate = asyncio.Event()

    async def job(_: LogState) -> Appended:
        await gate.wait()
        return await engine.add([said("a"), said("b")])

    await say(engine, "before")
    adding = asyncio.create_task(engine.run(job))
    behind = asyncio.create_task(say(engine, "c"))
    await idle()
    assert texts(engine) == ["before"]
    gate.set()
    done, after = await asyncio.gather(adding, behind)
    assert (done.before.lines, done.after, after.head) == (1, after.before, engine.head)
    assert texts(engine) == ["before", "a", "b", "c"]
    assert [bool(entry.flags & RecordFlag.BATCH_OPEN) for entry in engine.entries(1, 4)] == [True, False, False]


async def test_a_job_that_fails_before_it_adds_writes_nothing_and_stops_nobody(engine: LogEngine) -> None:
    async def job(_: LogState) -> Appended:
        raise LookupError("no such thing")

    both: Any = await asyncio.gather(engine.run(job), say(engine, "b"), return_exceptions=True)
    assert isinstance(both[0], LookupError)
    assert not isinstance(both[1], BaseException)
    assert texts(engine) == ["b"]
