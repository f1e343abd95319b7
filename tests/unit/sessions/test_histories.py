"""Histories that once came out wrong; a machine found them (`tests/property/test_session_model.py`)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.compacting import compact
from tests.support.memory_engine import MemoryEngine
from tests.support.plain_shapes import PLAIN
from tests.unit.sessions.worlds import ANSWER, USER, World, asked, heard, kinds, records

from timeleap.errors import StorageFailureError
from timeleap.features.approvals.requests import AskedApprovals
from timeleap.features.approvals.seal import KeyRing
from timeleap.features.approvals.standing import SealedApprovals
from timeleap.features.compaction.decisions import CompactionPlan
from timeleap.features.compaction.prepare import summary_message
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Retention
from timeleap.sessions.transaction import Files, SessionServices, SessionTransactions
from timeleap.storage import durable


async def test_a_rewrite_answers_with_its_own_log_though_the_next_one_waits_already(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    meta = Meta(tmp_path / "s", "owner")
    approvals = SealedApprovals("s", meta, StateFile(tmp_path / "s"), KeyRing(tmp_path / "key"), trusted=True)

    async def release(_: SessionTransactions) -> None:
        return

    around = SessionServices(PLAIN, Retention(), lambda _: set(), release, AskedApprovals)
    session = Session("s", tmp_path / "s", Files(MemoryEngine(), meta, approvals), around)
    told = heard(session)
    await session.set_system_prompt("be brief")
    first, second = await asyncio.gather(session.clear(True), session.clear(False))
    assert first["context"]["systemPrompt"] == "be brief"
    assert (first["context"]["canUndo"], second["context"]["canUndo"]) == (0, 1)  # the first one changes nothing
    assert second["context"]["systemPrompt"] is None
    assert kinds(told) == ["systemPromptSet", "cleared", "cleared"]


async def test_checkpoints_before_turns_begin_with_the_first_message_after_the_setting(world: World) -> None:
    session = await world.session()
    await asyncio.gather(session.set_auto_checkpoint("turn"), session.append([USER]))
    assert [one["role"] for one in records(session)] == ["_checkpoint", "user"]


async def test_a_compaction_that_is_not_worth_it_answers_with_the_context_as_it_is(world: World) -> None:
    session = await world.session()
    await session.append([USER, ANSWER, USER])
    plan = CompactionPlan(session.head, 2, summary_message("longer than what it stands for " * 9), "longer")
    rehearsed = await compact(session, plan, dry_run=True)
    result = await compact(session, plan)
    assert not result["compacted"]
    assert result["context"]["messageCount"] == rehearsed["context"]["messageCount"] == 3
    assert result["context"]["timelines"] == 0


async def test_an_empty_system_prompt_is_foretold_as_one(world: World) -> None:
    session = await world.session()
    await session.set_system_prompt("")
    assert (await session.clear(True, dry_run=True))["context"]["systemPrompt"] == ""
    assert (await session.clear(False, dry_run=True))["context"]["systemPrompt"] is None


async def test_a_repeated_checkpoint_is_answered_as_it_was_though_a_message_followed(world: World) -> None:
    session = await world.session()
    first = await session.checkpoint("c", False, asked("r", "context/checkpoint"))
    await session.append([USER])
    session = await world.reopened()
    again = await session.checkpoint("c", False, asked("r", "context/checkpoint"))
    assert again["duplicate"] is True
    assert again["checkpoint"] == first["checkpoint"]
    assert "preview" not in again["checkpoint"]


async def test_a_log_without_its_last_line_feed_can_be_changed_on_its_head(world: World) -> None:
    await world.session()
    await world.close()
    (world.path() / "context.jsonl").write_bytes(b'{"role":"user","content":"no line feed"}')
    session = await world.reopened()
    head = session.head
    done: Any = await asyncio.gather(
        session.append([ANSWER], asked("r", expected_head=head)),
        session.append([ANSWER], asked("q", expected_head=head)),
        return_exceptions=True,
    )
    one, two = done
    assert one["head"] != head
    assert getattr(two, "kind", "done") == "contentModified"


@pytest.mark.parametrize("crashed", [True, False], ids=["opened again", "asked again"])
async def test_pruning_that_was_cut_short_is_finished(world: World, crashed: bool) -> None:
    session = await world.session()
    for number in range(3):
        await session.append([{"role": "user", "content": str(number)}])
        await session.clear()
    wish, guard = PruneRequest(timeline_ids=("context_1", "context_2")), asked("r", "session/prune")
    durable.arm("prune.noted=raise:EIO")
    try:
        with pytest.raises((StorageFailureError, OSError)):
            await session.prune(wish, guard)
    finally:
        durable.arm("")
    assert len(session.engine.timelines()) == 3
    if crashed:
        session = await world.reopened()
        assert [one.timeline_id for one in session.engine.timelines()] == ["context_3"]
    again = await session.prune(wish, guard)
    assert again["duplicate"] is True
    assert sorted(one["timelineId"] for one in again["removed"]) == ["context_1", "context_2"]
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_3"]
    assert "removing" not in world.json("timeleap.json")
