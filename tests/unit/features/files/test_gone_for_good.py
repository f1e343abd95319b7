"""What is gone for good is gone from the snapshots of files, too: purged sessions, and what a redaction takes out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import put
from tests.unit.features.files.test_stored import SECRET, only, stored
from tests.unit.sessions.worlds import World, asked

from timeleap.errors import FilesUnavailableError, StorageFailureError
from timeleap.features.files.records import FilesConfig
from timeleap.features.files.stored import SnapshotsOfStore, snapshots_in
from timeleap.features.files.tree import FileTree
from timeleap.features.redaction.matchers import TextMatcher
from timeleap.features.redaction.redaction import RedactionRequest, RedactOutcome, SnapshotStore, plan_redact, redact
from timeleap.sessions.session import Session
from timeleap.storage import durable
from timeleap.store.purging import PurgeRequest


@pytest.fixture
async def world(tmp_path: Path, root: Path) -> AsyncIterator[World]:
    made = World(tmp_path, companions=lambda: SnapshotsOfStore(tmp_path / "home"))
    yield made
    durable.arm("")
    await made.close()


def tree_of(world: World, session: Session, root: Path) -> FileTree:
    return FileTree.open(world.home, root, session.meta.uid, FilesConfig())


async def with_snapshot(world: World, root: Path, session_id: str = "s1") -> Session:
    session = await world.session(session_id)
    tree_of(world, session, root).snapshot()
    return session


async def test_deleting_keeps_the_snapshots_and_purging_removes_them(world: World, root: Path) -> None:
    put(root, a_txt=SECRET)
    uid = (await with_snapshot(world, root)).meta.uid
    await world.store.delete("s1")
    await world.store.trash.undelete("s1")
    assert [each.session_uid for each in snapshots_in(only(world.home))] == [uid]
    await world.store.delete("s1")
    outcome = await world.store.trash.purge(PurgeRequest("s1"))
    assert [session.remains for session in outcome.purged] == [False]
    assert stored(only(world.home)) == b""


async def test_a_purge_that_stops_before_the_snapshots_is_finished_by_the_next(world: World, root: Path) -> None:
    await with_snapshot(world, root)
    await world.store.delete("s1")
    durable.arm("purge.noted=raise:EIO")
    with pytest.raises(OSError, match="Input/output"):
        await world.store.trash.purge(PurgeRequest("s1"))
    durable.arm("")
    await world.store.trash.finish_purges()
    assert snapshots_in(only(world.home)) == []


async def test_what_remains_is_said_in_the_purge(world: World, root: Path) -> None:
    await with_snapshot(world, root)
    await world.store.delete("s1")
    next((world.home / "trash").glob("*/timeleap.json")).write_text("{damaged")
    outcome = await world.store.trash.purge(PurgeRequest("s1"))
    assert [session.remains for session in outcome.purged] == [True]


async def test_snapshots_that_cannot_be_removed_let_the_session_stay_until_the_next_purge(
    world: World, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_snapshot(world, root)
    await world.store.delete("s1")
    with monkeypatch.context() as patch:
        refuse = FilesUnavailableError("busy", reason="noGit")
        patch.setattr(SnapshotsOfStore, "forget", lambda *_: (_ for _ in ()).throw(refuse))
        with pytest.raises(StorageFailureError, match="purge again"):
            await world.store.trash.purge(PurgeRequest("s1"), asked("p", "session/purge"))
    outcome = await world.store.trash.purge(PurgeRequest("s1"), asked("p", "session/purge"))
    assert [session.session_id for session in outcome.purged] == ["s1"]
    assert snapshots_in(only(world.home)) == []


def order(world: World, *, everywhere: bool = False) -> RedactionRequest:
    snapshots = world.store.companions()
    assert isinstance(snapshots, SnapshotStore)
    return RedactionRequest(TextMatcher([SECRET.decode()]), "*", snapshots=snapshots, everywhere=everywhere)


def render(outcome: RedactOutcome) -> dict[str, object]:
    return {"head": outcome.head, "redacted": True, "snapshots": [held.snapshot for held in outcome.snapshots]}


async def two_sessions(world: World, root: Path) -> tuple[Session, list[str], FileTree]:
    """A session with a clean snapshot, one that holds the secret, and another session that has it, too."""
    session, other = await world.session("s1"), await world.session("s2")
    put(root, a_txt="clean")
    tree, others = tree_of(world, session, root), tree_of(world, other, root)
    clean = tree.snapshot().snapshot_id
    put(root, a_txt=SECRET)
    return session, [clean, tree.snapshot().snapshot_id, others.snapshot().snapshot_id], others


async def test_a_redaction_takes_out_the_sessions_snapshots_that_hold_it(world: World, root: Path) -> None:
    session, (clean, held, _), others = await two_sessions(world, root)
    assert [each.snapshot for each in (await plan_redact(session, order(world))).snapshots] == [held]
    done = await redact(session, order(world), render)
    assert done["snapshots"] == [held]
    assert [each.snapshot_id for each in tree_of(world, session, root).snapshots()] == [clean]
    assert len(others.snapshots()) == 1
    assert (root / "a.txt").read_bytes() == SECRET


async def test_with_the_whole_store_it_goes_from_other_sessions_and_from_the_disk(world: World, root: Path) -> None:
    session, _, others = await two_sessions(world, root)
    assert SECRET in stored(only(world.home))
    assert len((await redact(session, order(world, everywhere=True), render))["snapshots"]) == 2
    assert others.snapshots() == []
    assert SECRET not in stored(only(world.home))


async def test_without_git_it_is_said_that_snapshots_were_not_looked_through(
    world: World, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, *_ = await two_sessions(world, root)
    monkeypatch.setenv("PATH", str(root))
    assert "git" in str((await plan_redact(session, order(world))).snapshots_unread)
