"""Snapshots beyond the budget go in the background, never those that checkpoints of the log refer to."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest
from tests.unit.sessions.worlds import World

from timeleap.call import NO_CONTROL
from timeleap.errors import FilesBusyError
from timeleap.features.files import tree
from timeleap.features.files.records import SnapshotBudget
from timeleap.features.files.session_snapshots import FileSnapshots
from timeleap.features.files.tree_port import WorkingTree
from timeleap.features.files.trees import RootsOverBudget, SessionRoot, SessionTrees, trees_below
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation


async def opened(tmp_path: Path) -> tuple[World, Session]:
    world, root = World(tmp_path, companion=partial(FileSnapshots, trees_below(tmp_path / "home"))), tmp_path / "root"
    root.mkdir()
    session = await world.session(workspace=root.as_uri())
    await session.companion.keep({"mode": "checkpoint"})
    return world, session


def tree_of(session: Session) -> WorkingTree:
    tree = session.companion.content()
    assert tree is not None
    return tree


async def numbers(session: Session) -> list[str]:
    await session.companion.wait_for_background()
    return [snapshot.snapshot_id.partition("-")[0] for snapshot in tree_of(session).snapshots()]  # type: ignore[attr-defined]


async def test_what_is_too_much_goes_but_not_what_checkpoints_refer_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "BUDGET", SnapshotBudget(snapshots=3))
    world, session = await opened(tmp_path)
    await session.checkpoint()
    for _ in range(4):
        await session.companion.take(None, Mutation(), NO_CONTROL)
        await session.companion.wait_for_background()
    assert await numbers(session) == ["f5", "f4", "f1"]
    await session.revert(checkpoint_id=0)
    await session.companion.take(None, Mutation(), NO_CONTROL)
    assert await numbers(session) == ["f6", "f5", "f4"]
    await world.close()


async def test_a_busy_folder_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "BUDGET", SnapshotBudget(snapshots=1))
    world, session = await opened(tmp_path)

    def busy(_tree: object, _live: Collection[int]) -> None:
        raise FilesBusyError("another process takes a snapshot")

    monkeypatch.setattr(RootsOverBudget, "shrink", busy)
    for _ in range(3):
        await session.companion.take(None, Mutation(), NO_CONTROL)
    assert await numbers(session) == ["f3", "f2", "f1"]
    await world.close()


async def test_the_roots_are_opened_once_to_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "BUDGET", SnapshotBudget(snapshots=1))
    world, session = await opened(tmp_path)
    await session.companion.take(None, Mutation(), NO_CONTROL)
    await session.companion.wait_for_background()
    monkeypatch.setattr(session.companion, "_shrink_soon", lambda: None)
    await session.companion.take(None, Mutation(), NO_CONTROL)
    opened_roots: list[tuple[SessionRoot, ...]] = []
    open_roots = SessionTrees.roots

    def counted(trees: SessionTrees) -> tuple[SessionRoot, ...]:
        opened_roots.append(open_roots(trees))
        return opened_roots[-1]

    with monkeypatch.context() as counting:
        counting.setattr(SessionTrees, "roots", counted)
        await session.companion._shrink()  # type: ignore[attr-defined]
    assert len(opened_roots) == 1
    assert await numbers(session) == ["f2"]
    await world.close()
