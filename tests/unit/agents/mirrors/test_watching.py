"""Following a folder: what changes is noticed, told by the system or looked for, and mirrored a few files at a time."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from tests.support.server import PATIENCE
from watchfiles import _rust_notify

from timeleap.errors import SessionLockedError
from timeleap_agents.mirrors import watching
from timeleap_agents.mirrors.folder_events import FolderEvents, is_local
from timeleap_agents.mirrors.folders import FolderNotes
from timeleap_agents.mirrors.watching import AT_ONCE, FolderWatch


class Mirrors:
    """Notes which files were to be mirrored, and which are gone."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.gone: list[str] = []
        self.busy: Counter[str] = Counter()
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.locked = 0
        self.running: asyncio.Task[None] | None = None

    async def catch_up(self, path: str) -> bool:
        self.busy[path] += 1
        self.most = max(self.most, self.busy.total() if self.busy[path] == 1 else 1000)
        with suppress(asyncio.CancelledError):  # as what changes a log puts it aside
            await self.gate.wait()
        self.busy[path] -= 1
        if self.locked:
            self.locked -= 1
            raise SessionLockedError("another process has it")
        self.done.append(Path(path).name)
        return True

    async def saw(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "projects"
    (made / "shop").mkdir(parents=True)
    return made


@pytest.fixture
def mirrors() -> Mirrors:
    return Mirrors()


@pytest.fixture(params=["notifications", "polling"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "polling":
        monkeypatch.setattr(FolderEvents, "follow", lambda *_: False)
    else:  # nothing else is to find the changes
        monkeypatch.setattr(watching, "TOLD_SCAN_SECONDS", 10 * PATIENCE)
    return str(request.param)


@pytest.fixture
async def watch(folder: Path, mirrors: Mirrors, tmp_path: Path, method: str) -> AsyncIterator[FolderWatch]:
    """A folder with one file, followed."""
    (folder / "shop" / "a.jsonl").write_text("1\n")
    notes = FolderNotes(tmp_path / "home", "claude-code", folder)
    made = FolderWatch("claude-code", folder, notes, mirrors.catch_up, mirrors.gone.append)
    running = mirrors.running = asyncio.create_task(made.run())
    await made.started.wait()
    assert made.method == method
    await mirrors.saw(lambda: mirrors.done == ["a.jsonl"])
    yield made
    running.cancel()
    await asyncio.wait([running])


async def test_what_is_added_to_a_file_is_noticed(watch: FolderWatch, mirrors: Mirrors, folder: Path) -> None:
    (folder / "shop" / "a.jsonl").write_text("1\n2\n")
    await mirrors.saw(lambda: mirrors.done == ["a.jsonl", "a.jsonl"])


async def test_a_new_file_and_one_in_a_new_folder_are_noticed(
    watch: FolderWatch, mirrors: Mirrors, folder: Path
) -> None:
    (folder / "shop" / "b.jsonl").write_text("1\n")
    await mirrors.saw(lambda: "b.jsonl" in mirrors.done)
    (folder / "other").mkdir()
    (folder / "other" / "c.jsonl").write_text("1\n")
    await mirrors.saw(lambda: "c.jsonl" in mirrors.done)
    (folder / "other" / "c.jsonl").write_text("1\n2\n")
    await mirrors.saw(lambda: mirrors.done.count("c.jsonl") == 2)


async def test_a_watch_ends_also_where_news_come_together_with_its_end(watch: FolderWatch, mirrors: Mirrors) -> None:
    assert mirrors.running is not None
    await mirrors.saw(lambda: watch.method == "polling" or bool(watch._events.news._waiters))
    watch._events.news.set()
    mirrors.running.cancel()
    done, _ = await asyncio.wait([mirrors.running], timeout=PATIENCE)
    assert done


async def test_a_file_that_is_removed_is_told_as_gone(watch: FolderWatch, mirrors: Mirrors, folder: Path) -> None:
    (folder / "shop" / "a.jsonl").unlink()
    await mirrors.saw(lambda: mirrors.gone == [str(folder / "shop" / "a.jsonl")])


async def test_a_folder_that_is_put_in_the_place_of_another_is_followed(
    watch: FolderWatch, mirrors: Mirrors, folder: Path
) -> None:
    (folder / "shop").rename(folder.parent / "aside")
    (folder / "shop").mkdir()
    (folder / "shop" / "d.jsonl").write_text("1\n")
    await mirrors.saw(lambda: "d.jsonl" in mirrors.done)
    (folder / "shop" / "d.jsonl").write_text("1\n2\n")
    await mirrors.saw(lambda: mirrors.done.count("d.jsonl") == 2)


async def test_a_few_files_are_mirrored_at_once_and_none_twice(
    watch: FolderWatch, mirrors: Mirrors, folder: Path
) -> None:
    mirrors.gate.clear()
    for number in range(10):
        (folder / "shop" / f"{number}.jsonl").write_text("1\n")
    await mirrors.saw(lambda: mirrors.busy.total() == AT_ONCE)
    for path in list(mirrors.busy):
        Path(path).write_text("1\n2\n")  # while it is being mirrored
    mirrors.gate.set()
    await mirrors.saw(lambda: len(set(mirrors.done)) == 11 and len(mirrors.done) >= 11 + AT_ONCE)
    assert mirrors.most == AT_ONCE


@pytest.mark.long
async def test_a_mirror_that_another_process_has_open_is_tried_again(
    watch: FolderWatch, mirrors: Mirrors, folder: Path
) -> None:
    mirrors.locked = 3
    (folder / "shop" / "e.jsonl").write_text("1\n")
    await mirrors.saw(lambda: "e.jsonl" in mirrors.done)


async def test_it_ends_while_a_file_is_being_mirrored(watch: FolderWatch, mirrors: Mirrors, folder: Path) -> None:
    mirrors.gate.clear()
    (folder / "shop" / "f.jsonl").write_text("1\n")
    await mirrors.saw(lambda: mirrors.busy.total() == 1)
    assert mirrors.running is not None
    mirrors.running.cancel()
    assert not (await asyncio.wait([mirrors.running], timeout=PATIENCE))[1]


# What the system tells


@pytest.fixture
async def events() -> AsyncIterator[FolderEvents]:
    made = FolderEvents()
    yield made
    made.close()


def followed(folder: Path) -> dict[str, int]:
    return {str(folder): folder.stat().st_ino}


async def test_links_lead_to_nothing_that_is_told(events: FolderEvents, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    assert events.follow(followed(folder))
    (tmp_path / "outside" / "x.jsonl").write_text("1\n")
    (folder / "shop" / "below.jsonl").write_text("1\n")
    (folder / "here.jsonl").write_text("1\n")
    seen: set[str] = set()
    while str(folder / "here.jsonl") not in seen:
        await asyncio.wait_for(events.news.wait(), PATIENCE)
        seen |= events.taken()
    assert not {path for path in seen if "x.jsonl" in path or "below" in path}


async def test_nothing_is_told_without_watchfiles(
    events: FolderEvents, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    assert not events.follow(followed(folder))


async def test_nothing_is_told_where_the_system_has_no_more_watches(
    events: FolderEvents, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_rust_notify, "RustNotify", refuse)
    assert not events.follow(followed(folder))
    assert not events.folders


async def test_a_watch_that_breaks_is_told_and_followed_no_more(
    events: FolderEvents, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *_: object) -> None: ...

        def watch(self, *_: object) -> None:
            raise RuntimeError("the queue is gone")

    monkeypatch.setattr(_rust_notify, "RustNotify", Broken)
    assert events.follow(followed(folder))
    await asyncio.wait_for(events.news.wait(), PATIENCE)
    assert not events.folders


@pytest.mark.parametrize(
    ("kind", "options", "local"),
    [("ext4", "rw", True), ("nfs4", "rw", False), ("fuse.sshfs", "rw", False), ("9p", "rw", False),
     ("NTFS", "rw,fixed", True), ("NTFS", "rw,remote", False)],
)  # fmt: skip
def test_a_network_is_not_trusted_to_tell(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, local: bool
) -> None:
    root = SimpleNamespace(mountpoint="/", fstype="ext4", opts="rw")
    mount = SimpleNamespace(mountpoint=str(folder.resolve().parent), fstype=kind, opts=options)
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [mount, root])
    assert is_local(str(folder)) is local


async def test_a_folder_on_a_network_is_looked_at(
    events: FolderEvents, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [SimpleNamespace(mountpoint="/", fstype="nfs", opts="")])
    assert not events.follow(followed(folder))
