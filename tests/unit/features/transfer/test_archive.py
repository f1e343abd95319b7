"""The native form: what an export promises while files change, and the bounds of an import."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.sessions.worlds import USER, World

from timeleap.errors import InvalidInputError, StorageFailureError, TooLargeError
from timeleap.features.transfer import archive
from timeleap.features.transfer.archive import unpack, write_archive
from timeleap.features.transfer.exhibit import Exhibit, exhibit_of
from timeleap.features.transfer.export_file import NewFile, check_target
from timeleap.features.transfer.sanitize import Arrival
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Retention
from timeleap.storage import durable
from timeleap.storage.durable import OpenFile


async def told(world: World, turns: int = 2) -> Session:
    """A session with a timeline."""
    session = await world.session()
    for number in range(turns):
        await session.checkpoint(None, False)
        await session.append([{**USER, "content": f"{number} " * 500}])
    await session.revert(checkpoint_id=1)
    return session


def packed(seen: Exhibit) -> bytes:
    return b"".join(write_archive(seen))


def unpacked(path: Path, directory: Path) -> Arrival:
    directory.mkdir()
    work = unpack(OpenFile(path), directory)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            found: Arrival = stop.value
            return found


async def test_nothing_that_happens_later_shows(world: World, tmp_path: Path) -> None:
    session = await told(world)
    before = {path.name: path.read_bytes() for path in world.path().glob("context*.jsonl")}
    seen = await exhibit_of(session)
    await session.append([USER])
    await session.clear()
    (tmp_path / "all.zip").write_bytes(packed(seen))
    unpacked(tmp_path / "all.zip", tmp_path / "there")
    assert {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()} == before


async def test_a_file_that_changes_under_the_readers_eyes_ends_the_export(world: World) -> None:
    seen = await exhibit_of(await told(world))
    path = world.path() / "context_1.jsonl"
    pieces = write_archive(seen)
    next(piece for piece in pieces if piece)  # the checksums are made: the archive has begun
    path.write_bytes(path.read_bytes()[:-9] + b'changed"}')
    with pytest.raises(StorageFailureError, match=r"context_1.jsonl changed while it was exported"):
        list(pieces)


async def test_a_timeline_that_is_gone_meanwhile_ends_the_export(world: World) -> None:
    session = await told(world)
    seen = await exhibit_of(session)
    session.engine.remove_timeline("context_1")
    with pytest.raises(StorageFailureError, match="context_1"):
        packed(seen)


async def test_a_reader_that_the_owner_overtakes_takes_no_later_timeline(world: World) -> None:
    session = await told(world)
    view = session.engine.view
    await session.clear()
    await session.append([USER])
    await session.clear()
    later = session.engine.timelines()
    assert [one.timeline_id for one in later] == ["context_3", "context_2", "context_1"]
    assert [one.timeline_id for one in session.engine.timelines(view)] == ["context_1"]


async def test_many_timelines_do_not_use_up_the_descriptors(tmp_path: Path) -> None:
    world = World(tmp_path, retention=Retention(10_000, 1 << 40))
    session = await world.session()
    for number in range(40):
        await session.append([{"role": "user", "content": str(number)}])
        await session.clear()
    seen = await exhibit_of(session)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert sum(len(list(one.messages())) for one in seen.timelines) == 40
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after - before <= 24
    await world.close()


async def test_a_session_of_too_many_timelines_is_not_packed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = await exhibit_of(await told(world))
    monkeypatch.setattr(archive, "MAX_MEMBERS", 4)
    with pytest.raises(TooLargeError, match="prune it first"):
        packed(seen)


async def test_an_import_needs_room_on_the_disk(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all.zip").write_bytes(packed(await exhibit_of(await told(world))))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=archive.SPARE))
    with pytest.raises(StorageFailureError, match="no room") as caught:
        unpacked(tmp_path / "all.zip", tmp_path / "there")
    assert caught.value.data["errno"] == "ENOSPC"
    assert list((tmp_path / "there").iterdir()) == []


def test_a_long_table_of_contents_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for number in range(1500):
            target.writestr(f"context_{number}.jsonl", b"")
    (tmp_path / "all.zip").write_bytes(buffer.getvalue())
    monkeypatch.setattr(archive, "MAX_DIRECTORY", 66_000)
    with pytest.raises(TooLargeError, match="table of contents"):
        unpacked(tmp_path / "all.zip", tmp_path / "there")


def test_bytes_beyond_what_is_declared_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should `zipfile` ever hand out more than it said: our own count holds."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("context.jsonl", b"x" * 10)
    opened = OpenFile(path)
    with zipfile.ZipFile(path) as zipped:
        info = zipped.getinfo("context.jsonl")
        for said, why in ((9, "longer"), (11, "shorter")):
            (tmp_path / why).mkdir()
            with pytest.raises(Exception, match=why):
                list(archive._unpack(zipped, info, archive.Listed("context.jsonl", said, ""), tmp_path / why))
            assert (tmp_path / why / "context.jsonl").stat().st_size <= 10
    opened.close()


# Files outside of the store


async def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    for umask in (0, 0o277):
        before = os.umask(umask)
        try:
            path = tmp_path / f"file-{umask}"
            async with NewFile(path, overwrite=False) as file:
                await file.write(b"x")
                await file.finish()
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 2


async def test_a_file_whose_opening_is_cancelled_is_not_left_behind(tmp_path: Path) -> None:
    async def begin() -> None:
        async with NewFile(tmp_path / "file", overwrite=False):
            pass

    begun = asyncio.create_task(begin())
    await asyncio.sleep(0)  # the opening is on its way to a thread
    begun.cancel()
    await asyncio.wait([begun])
    assert begun.cancelled()
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    for links in (True, False):
        if not links:
            monkeypatch.setattr(durable, "link_exclusive", lambda *_: False)
        async with NewFile(path, overwrite=False) as file:
            await file.write(b"ours")
            path.write_text("theirs")
            with pytest.raises(InvalidInputError, match="by now"):
                await file.finish()
        assert path.read_text() == "theirs"
        assert [one.name for one in tmp_path.iterdir()] == ["file"]


async def test_without_hard_links_a_new_file_comes_to_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "link_exclusive", lambda *_: False)
    async with NewFile(tmp_path / "file", overwrite=False) as file:
        await file.write(b"ours")
        await file.finish()
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"file": "ours"}


async def test_a_file_that_is_not_finished_is_not_there(tmp_path: Path) -> None:
    async with NewFile(tmp_path / "file", overwrite=True) as file:
        await file.write(b"half")
    assert list(tmp_path.iterdir()) == []


async def test_nothing_is_written_into_a_store_or_over_a_session(world: World, tmp_path: Path) -> None:
    await told(world)
    home = world.store.home
    link = tmp_path / "door"
    link.symlink_to(world.path())
    for path in (world.path() / "x.md", link / "x.md", world.home / "x.md"):
        with pytest.raises(InvalidInputError, match="in the store"):
            check_target(home, path, overwrite=True)
    foreign = tmp_path / "foreign"
    shutil.copytree(world.path(), foreign)
    for name in ("context.jsonl", "context_9.jsonl", "state.json"):
        with pytest.raises(InvalidInputError, match="session's directory"):
            check_target(home, foreign / name, overwrite=True)
