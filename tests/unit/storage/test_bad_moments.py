"""Refusals and cancellations at bad moments: nothing is lost, left over, or held for ever."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.storage.faults import faults
from tests.crash.storage.system import stand_in_for_os
from tests.support.holding import PATIENCE
from tests.support.turns import until
from tests.unit.storage.logs import keep, names, restore, say, texts

from timeleap.errors import StorageFailureError
from timeleap.storage import appending, durable, index, load, opened_log, tail
from timeleap.storage.durable import Identity, OpenFile
from timeleap.storage.index import index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_files import share
from timeleap.storage.owner_lock import SessionLock
from timeleap.storage.record import message_record
from timeleap.uncancelled_work import LogThread


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


USAGE = b'{"role":"_usage","token_count":3}\n'


# File systems


async def test_timelines_are_safe_where_a_file_system_does_not_number_its_files(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unnumbered:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fstat(self, fd: int) -> os.stat_result:
            return unnumbered(os.fstat(fd))

        def lstat(self, path: Any) -> os.stat_result:
            return unnumbered(os.lstat(path))

    def unnumbered(there: os.stat_result) -> os.stat_result:
        return os.stat_result((there.st_mode, 0, *there[2:]), {"st_mtime_ns": there.st_mtime_ns})

    stand_in_for_os(monkeypatch, Unnumbered())
    monkeypatch.setattr(durable, "link_exclusive", lambda *_: False)
    engine = await JsonlEngine.open(log)
    await say(engine, "a")
    await keep(engine, 0)
    await say(engine, "b")
    await engine.aclose()
    engine = await JsonlEngine.open(log)
    assert [one.timeline_id for one in engine.timelines()] == ["context_1"]
    await restore(engine, "context_1")
    assert texts(engine) == ["a"]
    await engine.aclose()
    assert names(log.parent) == ["context.jsonl", "context_1.jsonl", "context_2.jsonl"]


async def test_a_timeline_goes_only_if_it_is_a_second_name(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_bytes(line("a"))
    (log.parent / "context_1.jsonl").write_bytes(line("kept"))
    real = durable._status
    monkeypatch.setattr(durable, "_status", lambda result: real(result)._replace(identity=Identity(1, 7)))
    await (await JsonlEngine.open(log)).aclose()
    assert (log.parent / "context_1.jsonl").exists(), "the same number, but each has one name"


# Full and failing disks


async def test_an_index_that_cannot_be_cut_does_not_undo_an_append(log: Path) -> None:
    log.write_bytes(line("a") + line("b")[:-1])
    engine = await JsonlEngine.open(log)
    with faults(errno.EIO, 1, onwards=True, calls=("ftruncate",)):
        await say(engine, "c")
    assert texts(engine) == ["a", "b", "c"]
    assert log.read_bytes() == line("a") + line("b") + line("c")
    await say(engine, "d")
    assert engine.verify() == []
    await engine.aclose()
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["a", "b", "c", "d"]
    assert engine.recovery.warnings == ()
    await engine.aclose()


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_a_reader_without_room_for_its_findings_keeps_them_in_memory(
    log: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_MEMORY_LIMIT", 100)
    log.write_bytes(b"".join(line(str(number)) for number in range(100)))
    real = tempfile.TemporaryFile

    class Full:
        def __init__(self) -> None:
            self.file = real(buffering=0)
            self.left = 0 if when == "at once" else 4000

        def write(self, data: memoryview) -> int:
            if self.left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = self.file.write(data[: min(len(data), self.left)])
            self.left -= done
            return done

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    monkeypatch.setattr("timeleap.storage.scan._FLUSH", 9)
    engine = await JsonlEngine.open(log, access="read")
    assert texts(engine) == [str(number) for number in range(100)]
    assert engine.line_of_message(70) == 70
    with log.open("ab") as file:
        file.write(line("more"))
    await engine.refresh()
    assert texts(engine)[-2:] == ["99", "more"]
    await engine.aclose()


async def test_a_log_that_could_not_be_made_durably_can_be_made_later(log: Path) -> None:
    engine = await JsonlEngine.open(log, lock="per-write")
    for call, first in (("fsync", 1), ("open", 2), ("open", 3), ("open", 4)):
        with faults(errno.EIO, first, onwards=True, calls=(call,)), pytest.raises(StorageFailureError):
            await say(engine, "a")
        assert not log.exists()
    await say(engine, "a")
    assert texts(engine) == ["a"]
    await engine.aclose()


async def test_a_torn_tail_that_cannot_be_kept_is_not_cut_and_leaves_no_rubbish(log: Path) -> None:
    torn = line("a") + b'{"role":"us'
    for call in ("pwrite", "fdatasync"):
        log.write_bytes(torn)
        with faults(errno.ENOSPC, 1, onwards=True, calls=(call,)), pytest.raises(StorageFailureError, match="No space"):
            await JsonlEngine.open(log)
        assert log.read_bytes() == torn
        assert names(log.parent) == ["context.jsonl"]
    engine = await JsonlEngine.open(log)
    assert len(engine.recovery.quarantined) == 1
    await engine.aclose()


async def test_a_quarantine_file_that_cannot_be_opened_is_passed_over(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = b'{"role":"us'
    log.write_bytes(line("a") + torn)
    (log.parent / f"{log.name}.quarantine-{len(line('a'))}-1").write_bytes(torn)

    def refused(path: Path, **how: bool) -> OpenFile:
        if "quarantine" not in path.name:
            return OpenFile(path, **how)
        assert how == {"writable": True}, "what is opened to be read cannot be synced everywhere"
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(tail, "OpenFile", refused)
    engine = await JsonlEngine.open(log)
    assert len(list(log.parent.glob("*.quarantine-*"))) == 2
    await engine.aclose()


async def test_a_lock_that_could_not_be_kept_is_let_go(log: Path) -> None:
    writer = await share(log, lock="per-write")
    await say(writer.engine, "a")
    index_path(log).unlink()
    with faults(errno.EIO, 1, onwards=True, calls=("pread",)), pytest.raises(StorageFailureError):
        await share(log)
    assert writer.engine._locked.lock_mode == "per-write"
    assert not SessionLock(log).taken()
    await say(writer.engine, "b")
    assert texts(writer.engine) == ["a", "b"]
    await writer.aclose()


# Others at the same time


async def test_what_a_look_found_does_not_hide_what_was_written_meanwhile(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await JsonlEngine.open(log, lock="per-write", durability="os")
    await say(engine, "a")
    log.write_bytes(log.read_bytes() + line("theirs"))
    real, looking, go_on = load.caught_up, threading.Event(), threading.Event()
    asked: list[object] = []

    def slow(shown: object, seen: int) -> opened_log.Loaded | None:
        asked.append(shown)
        found = real(shown, seen)  # type: ignore[arg-type]
        looking.set()
        assert go_on.wait(PATIENCE)
        return found

    monkeypatch.setattr(load, "caught_up", slow)
    look = asyncio.create_task(engine.refresh())
    await asyncio.to_thread(looking.wait, PATIENCE)
    engine._shown.log = engine._shown.log.at(engine._shown.log.state)  # as any write does
    shown = engine._shown.log
    go_on.set()
    assert await look
    assert asked[1:] == [shown], "it looks again from what is shown by now"
    monkeypatch.undo()
    await say(engine, "b")
    assert texts(engine) == ["a", "theirs", "b"]
    await engine.aclose()


async def test_what_a_check_found_does_not_hide_what_others_wrote_meanwhile(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(line("a") + b'{"role":"user","content":"broken\xff"}\n' + line("b") + USAGE)
    monkeypatch.setattr(opened_log, "SMALL", 10)
    engine = await JsonlEngine.open(log, access="read")
    assert engine.damage() == []
    with log.open("ab") as file:
        file.write(line("theirs"))
    real, looking, go_on = load.caught_up, threading.Event(), threading.Event()

    def slow(shown: object, seen: int) -> opened_log.Loaded | None:
        found = real(shown, seen)  # type: ignore[arg-type]
        looking.set()
        assert go_on.wait(PATIENCE)
        return found

    monkeypatch.setattr(load, "caught_up", slow)
    look = asyncio.create_task(engine.refresh())
    await asyncio.to_thread(looking.wait, PATIENCE)
    check = asyncio.create_task(engine.validate())
    await waiting(engine._shown.thread)
    go_on.set()
    assert await look
    assert [one.line for one in await check] == [1]
    assert texts(engine) == ["a", "b", "theirs"]
    assert engine.state.length == log.stat().st_size
    await engine.aclose()


async def test_a_check_that_is_faster_than_the_loop_finds_all_it_looks_at(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await JsonlEngine.open(log)
    await say(engine, "a", "b")
    real = LogThread.begin

    def ended_before_it_returns(self: LogThread, work: Callable[..., object], *args: object) -> object:
        done = threading.Event()

        def worked(*args: object) -> object:
            try:
                return work(*args)
            finally:
                done.set()

        outcome = real(self, worked, *args)
        assert done.wait(PATIENCE)
        return outcome

    monkeypatch.setattr(LogThread, "begin", ended_before_it_returns)
    assert await engine.validate() == []
    await engine.aclose()


async def waiting(thread: LogThread) -> None:
    """Return when more work waits for a thread than it is doing."""
    await until(lambda: thread._jobs is not None and thread._jobs.qsize() > 0)


async def test_closing_that_is_cancelled_is_finished_all_the_same(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = appending.write_group

    def slow(*args: object) -> object:
        begun.set()
        assert go_on.wait(PATIENCE)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(appending, "write_group", slow)
    for way in ("engine", "lease"):
        begun.clear()
        go_on.clear()
        lease = await share(log)
        engine = lease.engine
        write = asyncio.create_task(say(engine, way))
        await asyncio.to_thread(begun.wait, PATIENCE)
        closing = asyncio.create_task(engine.aclose() if way == "engine" else lease.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert SessionLock(log).taken(), "the write goes on"
        go_on.set()
        await write
        await lease.aclose()
        assert not SessionLock(log).taken()
    again = await share(log)
    assert texts(again.engine) == ["engine", "lease"]
    await again.aclose()


async def test_a_thread_that_cannot_be_started_is_started_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    thread = LogThread("timeleap")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="thread"):
            thread.begin(int)
    assert await thread.do(int) == 0
    thread.end()
