"""The files of a session with the Python client."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.holding import file_time_passes

from timeleap.client import AsyncTimeleap, SyncTimeleap, TimeleapRpcError

pytestmark = pytest.mark.usefixtures("ready_servers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "notes.txt").write_text("Ask Ada.")
    (folder / "src" / "a.py").write_text("a = 1\n")
    return folder


@pytest.fixture
async def session(tmp_path: Path, folder: Path):
    settings = {"mode": "checkpoint"}
    async with (
        AsyncTimeleap(home=tmp_path / "home") as client,
        client.session("s", workspace=folder.as_uri(), files=settings) as opened,
    ):
        yield opened


async def turn(session, folder):
    """A checkpoint, then what an agent does."""
    before = await session.checkpoint("before")
    (folder / "notes.txt").unlink()
    (folder / "src" / "a.py").write_text("a = 2\n")
    await session.append("done", role="assistant")
    return before


async def test_files_go_back_with_the_conversation_and_come_again(session, folder):
    before = await turn(session, folder)
    plan = await session.revert_to(before, restore="both", dry_run=True)
    assert (plan.files.added, plan.files.modified) == (1, 1)
    assert [change.path for change in plan.changes] == ["notes.txt", "src/a.py"]
    done = await session.revert_to(before, restore="both")
    assert (folder / "notes.txt").read_text() == "Ask Ada."
    assert await session.history() == []
    assert done.files.before in [each.snapshot for each in await session.file_snapshots()]
    await session.undo(restore="both")
    assert (folder / "src" / "a.py").read_text() == "a = 2\n"
    assert (await session.redo(restore="files")).files.added == 1
    assert (folder / "notes.txt").exists()


async def test_a_conflict_is_an_error_with_the_paths(session, folder):
    before = await turn(session, folder)
    file_time_passes()
    (folder / "src" / "a.py").write_text("a = 3\n")
    with pytest.raises(TimeleapRpcError) as caught:
        await session.revert_to(before, restore="both")
    assert (caught.value.code, caught.value.data["paths"]) == (4021, ["src/a.py"])
    assert (await session.revert_to(before, restore="both", on_conflict="keep")).files.kept == 1
    assert (folder / "src" / "a.py").read_text() == "a = 3\n"


async def test_snapshots_are_taken_compared_read_and_restored_by_hand(session, folder):
    before = await turn(session, folder)
    made = await session.snapshot_files("by hand")
    assert (made.changed, made.skipped) == (2, [])
    assert [each.label for each in await session.file_snapshots()] == ["by hand", None]
    for after in (None, made.snapshot):
        changes = await session.diff_files(before, after)
        assert [(change.kind, change.path) for change in changes] == [
            ("deleted", "notes.txt"),
            ("modified", "src/a.py"),
        ]
    assert [change.path for change in await session.diff_files(before, path="src")] == ["src/a.py"]
    assert await session.read_file(before.files.snapshot, "notes.txt") == b"Ask Ada."
    assert (await session.restore_files(before, ["src"], dry_run=True)).files.modified == 1
    done = await session.restore_files(before, ["src"])
    assert (folder / "src" / "a.py").read_text() == "a = 1\n"
    assert not (folder / "notes.txt").exists()
    await session.restore_files(done.files.before)
    assert (folder / "src" / "a.py").read_text() == "a = 2\n"


async def test_a_large_file_is_read_in_parts(session, folder):
    large = bytes(range(256)) * 80_000
    (folder / "large.bin").write_bytes(large)
    async with session._client.session("s", files={"mode": "checkpoint", "maxFileBytes": 2 * len(large)}):
        made = await session.snapshot_files()
    assert await session.read_file(made.snapshot, "large.bin") == large


def test_a_program_that_blocks_has_the_same(tmp_path, folder):
    settings = {"mode": "off"}
    with (
        SyncTimeleap(home=tmp_path / "home") as client,
        client.session(workspace=folder.as_uri(), files=settings) as session,
    ):
        before = session.checkpoint(files=True)
        assert session.checkpoint().files is None
        (folder / "notes.txt").write_text("Ask Bob.")
        session.append("done", role="assistant")
        assert [change.path for change in session.diff_files(before)] == ["notes.txt"]
        session.revert_to(before, restore="files")
        assert (folder / "notes.txt").read_text() == "Ask Ada."
        assert len(session.history()) == 1
