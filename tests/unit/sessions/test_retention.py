"""Timelines beyond the limits go, oldest first; but not the newest, and none that a fork came from (G12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.sessions.worlds import USER, World, heard, kinds, small_retention, texts

from timeleap.errors import StorageFailureError
from timeleap.sessions.past import excess
from timeleap.sessions.shapes import Retention
from timeleap.storage.log_values import LogState, Timeline, TimelineFacts


def timelines(*sizes: int) -> list[Timeline]:
    """Timelines of these sizes, newest first."""
    count = len(sizes)
    return [
        Timeline(f"t{count - at}", f"t{count - at}.jsonl", TimelineFacts(), size, 0, 0) for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "limits", "kept", "going"),
    [
        ((1, 1, 1), Retention(3, 10), (), []),
        ((1, 1, 1), Retention(2, 10), (), ["t1"]),
        ((5, 5, 5), Retention(9, 10), (), ["t1"]),
        ((50, 1), Retention(9, 10), (), ["t1"]),
        ((50,), Retention(0, 0), (), []),
        ((1, 9, 1), Retention(9, 5), (), ["t2"]),
        ((1, 1, 1), Retention(1, 10), ("t1",), ["t2"]),
        ((1, 1, 1), Retention(1, 10), ("t2", "t1"), []),
    ],
)
def test_what_goes(sizes: tuple[int, ...], limits: Retention, kept: tuple[str, ...], going: list[str]) -> None:
    assert [one.timeline_id for one in excess(timelines(*sizes), limits, kept)] == going


@pytest.mark.parametrize(("live", "going"), [(3, []), (2, []), (1, []), (9, ["t1"])])
def test_what_equals_the_log_does_not_count(live: int, going: list[str]) -> None:
    many = [replace(one, bytes=number, chain=number) for number, one in zip((3, 2, 1), timelines(1, 1, 1), strict=True)]
    state = LogState(length=live, chain=live)
    assert [one.timeline_id for one in excess(many, Retention(2, 100), (), state)] == going


@pytest.mark.parametrize(("latest", "going"), [(None, ["t1"]), ("t3", ["t1"]), ("t2", ["t1"]), ("t1", ["t2"])])
def test_the_log_that_was_just_replaced_counts_as_the_newest(latest: str | None, going: list[str]) -> None:
    assert [one.timeline_id for one in excess(timelines(1, 1, 1), Retention(2, 10), (), None, latest)] == going
    assert [one.timeline_id for one in excess(timelines(1, 1), Retention(0, 0), (), None, latest)] == [
        "t2" if latest == "t1" else "t1"
    ]


async def test_a_log_that_equals_the_oldest_timeline_is_kept_as_it(tmp_path: Path) -> None:
    """Beyond the limit too, another one goes: what a change replaces can always be undone."""
    world = World(tmp_path, retention=small_retention(2))
    session = await world.session()
    await session.append([{"role": "user", "content": "0"}])
    await session.clear()
    for number in (1, 2):
        await session.append([{"role": "user", "content": str(number)}])
        if number == 1:
            await session.clear()
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_2", "context_1"]
    await session.restore_timeline("context_1")
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_3", "context_2", "context_1"]
    result = await session.clear()
    assert result["timelineId"] == "context_1"
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_3", "context_1"]
    assert (await session.undo(1))["context"]["messageCount"] == 1
    assert texts(session) == ["0"]
    await world.close()


async def test_pruning_is_reported_and_forgets_the_facts(tmp_path: Path) -> None:
    world = World(tmp_path, retention=small_retention(2))
    session = await world.session()
    told = heard(session)
    for number in range(4):
        await session.append([{"role": "user", "content": str(number)}])
        await session.clear()
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_4", "context_3"]
    assert kinds(told).count("timelinesPruned") == 2
    assert [one["kind"] for one in session.warnings] == ["timelinesPruned"] * 2
    assert "context_2" in session.warnings[-1]["message"]
    assert sorted(world.json("timeleap.json")["timelines"]) == ["context_3", "context_4"]
    session = await world.reopened()
    await session.append([USER])
    await session.clear()
    assert session.engine.timelines()[0].timeline_id == "context_5"
    await world.close()


async def test_the_newest_is_never_pruned(tmp_path: Path) -> None:
    world = World(tmp_path, retention=small_retention(50, size=1))
    session = await world.session()
    for number in range(3):
        await session.append([{"role": "user", "content": f"{number}" * 100}])
        await session.clear()
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_3"]
    await session.restore_timeline("context_3")
    assert texts(session) == ["2" * 100]
    await world.close()


async def test_the_timeline_a_fork_came_from_stays(tmp_path: Path) -> None:
    world = World(tmp_path, retention=small_retention(2))
    session = await world.session()
    await session.checkpoint("here", False)
    await session.append([USER])
    await world.store.fork("s1", checkpoint_id=0, new_session_id="child")
    await world.store.delete("child")
    await session.clear()
    for number in range(4):
        await session.append([{"role": "user", "content": str(number)}])
        await session.clear()
    assert [one.timeline_id for one in session.engine.timelines()] == ["context_5", "context_4", "context_1"]
    await world.close()


async def test_pruning_that_fails_does_not_deny_the_rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, retention=small_retention(1))
    session = await world.session()
    told = heard(session)
    await session.append([USER])
    await session.clear()
    await session.append([USER, USER])

    def refuse(_: str) -> None:
        raise StorageFailureError("cannot remove the timeline", errno="EACCES")

    monkeypatch.setattr(session.engine, "remove_timeline", refuse)
    assert (await session.clear())["timelineId"] == "context_2"
    assert kinds(told)[-2:] == ["cleared", "timelinesNotPruned"]
    await world.close()
