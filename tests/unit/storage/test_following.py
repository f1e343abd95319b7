"""Locks, followers, and objects that share an engine."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.support.holding import PATIENCE, Hold
from tests.support.turns import idle, until
from tests.unit.storage.logs import always, keep, restore, said, say, texts

from timeleap.errors import SessionLockedError, StorageFailureError
from timeleap.storage import durable, intents, owner_lock
from timeleap.storage import lock as lock_module
from timeleap.storage import watch as watches
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_files import share
from timeleap.storage.log_notes import MemoryNotes
from timeleap.storage.owner_lock import SessionLock
from timeleap.storage.record import message_record
from timeleap.storage.watch import Watch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


# The lock


async def test_a_second_owner_is_told_who_the_first_is(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    with pytest.raises(SessionLockedError, match=f"process {os.getpid()} on") as caught:
        await JsonlEngine.open(log)
    owner = caught.value.data["owner"]
    assert (owner["pid"], owner["host"]) == (os.getpid(), socket.gethostname())
    assert owner["since"].endswith("Z")
    assert caught.value.retryable
    await engine.aclose()
    await (await JsonlEngine.open(log)).aclose()


class Attempts:
    """Counts how often a lock was asked for in vain."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._failed = 0
        real = SessionLock.try_acquire

        def attempt(lock: SessionLock) -> bool:
            taken = real(lock)
            self._failed += not taken
            return taken

        monkeypatch.setattr(SessionLock, "try_acquire", attempt)

    async def more(self, number: int) -> None:
        """Return after so many more."""
        wanted = self._failed + number
        await until(lambda: self._failed >= wanted)


async def test_a_lock_taken_for_a_write_is_waited_for(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = SessionLock(log)
    await lock.acquire("per-write")
    assert lock.held
    attempts = Attempts(monkeypatch)
    opening = asyncio.create_task(JsonlEngine.open(log))
    await attempts.more(5)
    assert not opening.done()
    lock.release()
    engine = await opening
    await engine.aclose()
    await lock.acquire("per-write")
    monkeypatch.setattr(owner_lock, "WAIT_SECONDS", 0.05)
    with pytest.raises(SessionLockedError):
        await SessionLock(log).acquire("hold", wait=0.05)
    lock.release()


async def test_a_write_does_not_wait_for_one_who_holds_the_lock(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionLock.acquire, "__defaults__", (10 * PATIENCE,))  # in vain: the record says so
    owner = await JsonlEngine.open(log)
    other = await JsonlEngine.open(log, lock="per-write")
    with pytest.raises(SessionLockedError):
        await asyncio.wait_for(say(other, "a"), PATIENCE)
    with pytest.raises(SessionLockedError):
        await asyncio.wait_for(keep(other, 0), PATIENCE)
    await owner.aclose()
    await say(other, "a")
    assert texts(other) == ["a"]
    await other.aclose()


async def test_what_is_cancelled_while_it_waits_for_the_lock_is_not_done(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = Attempts(monkeypatch)
    elsewhere = SessionLock(log)
    await elsewhere.acquire("per-write")
    engine = await JsonlEngine.open(log, lock="per-write")
    ran: list[int] = []

    async def job(_: object) -> None:
        ran.append(1)

    for change in (say(engine, "never"), keep(engine, 0), engine.run(job)):
        waiting = asyncio.ensure_future(change)
        await attempts.more(2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        elsewhere.release()
        await engine.run(lambda _: asyncio.sleep(0))  # what waited would have been done before this
        await elsewhere.acquire("per-write")
    elsewhere.release()
    await say(engine, "said")
    assert (texts(engine), engine.timelines(), ran) == (["said"], [], [])
    await engine.aclose()


async def test_a_lock_file_without_a_readable_record_still_locks(log: Path) -> None:
    lock = SessionLock(log)
    await lock.acquire("hold")
    for record in (b"", b"{", b"[]", b"{}"):
        (log.parent / ".context.jsonl.lock").write_bytes(record)
        with pytest.raises(SessionLockedError, match="another process") as caught:
            await SessionLock(log).acquire("hold", wait=0.01)
        assert caught.value.data["owner"] is None
    lock.release()
    assert not SessionLock(log).taken()


async def test_nobody_else_may_read_how_the_owner_is_reached(log: Path) -> None:
    record = log.parent / ".context.jsonl.lock"
    record.write_bytes(b"")
    record.chmod(0o666)
    endpoint = {"address": "/somewhere", "token": "secret", "protocolVersion": 1}
    lock = SessionLock(log, endpoint)
    await lock.acquire("hold")
    assert record.stat().st_mode & 0o777 == 0o600
    assert SessionLock(log).holder().endpoint == endpoint
    assert set(SessionLock(log).holder().owner or {}) == {"pid", "host", "since"}
    lock.release()


async def test_an_owner_that_cannot_leave_a_record_is_still_the_owner(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock_module.FileLock, "write", refuse)
    lock = SessionLock(log)
    await lock.acquire("hold")
    assert SessionLock(log).taken()
    lock.release()


async def test_looking_whether_a_lock_is_taken_makes_nothing(log: Path) -> None:
    assert not SessionLock(log).taken()
    assert list(log.parent.iterdir()) == []


async def test_a_lock_that_cannot_be_made_is_a_storage_failure(log: Path) -> None:
    with pytest.raises(StorageFailureError, match="take the session's lock") as caught:
        await JsonlEngine.open(log.parent / "missing" / "context.jsonl")
    assert caught.value.data["errno"] == "ENOENT"


@pytest.mark.crash
async def test_the_lock_of_a_killed_owner_is_free_at_once(log: Path) -> None:
    environment = {
        **os.environ,
        **Hold("append.before_write", log.parent.parent).environment,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    command = [sys.executable, "-m", "tests.crash.storage.child", str(log), "append"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(SessionLockedError) as caught:
            await JsonlEngine.open(log)
        assert caught.value.data["owner"]["pid"] == child.pid
        child.kill()
        child.wait()
    engine = await JsonlEngine.open(log)
    assert json.loads((log.parent / ".context.jsonl.lock").read_bytes())["pid"] == os.getpid()
    await engine.aclose()


# Followers


async def changed(engine: JsonlEngine) -> asyncio.Event:
    event = asyncio.Event()
    engine.watch(event.set)
    return event


async def news(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), PATIENCE)
    event.clear()


async def test_a_follower_sees_what_the_owner_does(log: Path) -> None:
    notes = MemoryNotes()
    follower = await JsonlEngine.open(log, access="read", notes=notes)
    event = await changed(follower)
    owner = await JsonlEngine.open(log, notes=notes)
    await say(owner, "a")
    await news(event)
    assert texts(follower) == ["a"]
    await owner.append(always(said("b"), said("c")))
    await news(event)
    assert (follower.head, follower.state) == (owner.head, owner.state)
    done = await keep(owner, 1)
    await news(event)
    assert (follower.head, texts(follower)) == (owner.head, ["a"])
    assert [one.timeline_id for one in follower.timelines()] == [done.timeline_id]
    await restore(owner, done.timeline_id)
    await news(event)
    assert (follower.head, texts(follower)) == (owner.head, ["a", "b", "c"])
    assert follower.verify() == []
    await owner.aclose()
    await follower.aclose()


async def test_a_follower_shows_no_half_records_and_no_half_batches(log: Path) -> None:
    owner = await JsonlEngine.open(log.parent / "other.jsonl")
    await owner.append(always(said("a"), said("b")))
    await owner.aclose()
    batch = owner.path.read_bytes()
    log.write_bytes(line("first"))
    follower = await JsonlEngine.open(log, access="read")
    event = await changed(follower)
    for cut in (3, len(batch) // 2, batch.index(b"\n") + 1, len(batch) - 2):
        log.write_bytes(line("first") + batch[:cut])
        assert not await follower.refresh()
        assert texts(follower) == ["first"]
    log.write_bytes(line("first") + batch)
    await news(event)
    assert texts(follower) == ["first", "a", "b"]
    await follower.aclose()


async def test_a_follower_takes_a_log_that_shrank_or_was_written_over(log: Path) -> None:
    log.write_bytes(line("a") + line("b"))
    follower = await JsonlEngine.open(log, access="read")
    os.truncate(log, len(line("a")))
    assert await follower.refresh()
    assert texts(follower) == ["a"]
    log.write_bytes(line("other") + line("text"))
    assert await follower.refresh()
    assert texts(follower) == ["other", "text"]
    assert follower.recovery.warnings == ()
    log.unlink()
    assert await follower.refresh()
    assert texts(follower) == []
    assert not await follower.refresh()
    log.write_bytes(line("again"))
    assert await follower.refresh()
    assert texts(follower) == ["again"]
    await follower.aclose()


async def test_a_follower_keeps_its_view_while_the_log_has_no_name(log: Path) -> None:
    log.write_bytes(line("a"))
    follower = await JsonlEngine.open(log, access="read")
    intents.declare_intent(log, log.parent / "context_1.jsonl", log.parent / "x")
    log.rename(log.parent / "context_1.jsonl")
    assert not await follower.refresh()
    assert texts(follower) == ["a"]
    await follower.aclose()


async def test_a_followers_own_findings_may_be_many(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeleap.storage import index

    monkeypatch.setattr(index, "_MEMORY_LIMIT", 1000)
    monkeypatch.setattr(index, "_STEP", 7)
    owner = await JsonlEngine.open(log)
    await say(owner, "m0")
    follower = await JsonlEngine.open(log, access="read")
    for i in range(1, 60):
        await say(owner, f"m{i}")
        if i % 10 == 0:
            await follower.refresh()
    await follower.refresh()
    assert texts(follower) == [f"m{i}" for i in range(60)]
    assert follower.line_of_message(30) == 30
    os.truncate(log, len(line("m0")) * 5)
    await follower.refresh()
    assert texts(follower) == [f"m{i}" for i in range(5)]
    await follower.aclose()
    await owner.aclose()


class Looks:
    """Makes watches look often, and counts how often they did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._done = 0
        real = Watch.now

        async def look(watch: Watch) -> None:
            await real(watch)
            self._done += 1

        monkeypatch.setattr(Watch, "now", look)
        monkeypatch.setattr(watches, "PERIOD_SECONDS", 0.01)

    async def at_all(self) -> None:
        """Return when what is there now has been looked at: the next look may have begun before."""
        wanted = self._done + 2
        await until(lambda: self._done >= wanted)


async def test_an_owner_is_told_of_programs_that_take_no_lock(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    engine = await JsonlEngine.open(log)
    await say(engine, "a")
    event = await changed(engine)
    for i in range(3):
        await say(engine, f"our own {i}")
        await looks.at_all()
    assert not event.is_set()
    with log.open("ab") as file:
        file.write(line("theirs"))
    await news(event)
    assert engine.externally_modified
    await looks.at_all()
    assert not event.is_set(), "told once"
    await engine.aclose()


async def test_a_watch_survives_errors_and_ends_with_the_engine(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    log.write_bytes(line("a"))
    follower = await JsonlEngine.open(log, access="read")
    event = await changed(follower)
    broken = [True]
    real = durable.status

    def status(path: Path) -> object:
        if broken[0]:
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(durable, "status", status)
    with log.open("ab") as file:
        file.write(line("b"))
    await looks.at_all()
    assert not event.is_set()
    broken[0] = False
    await news(event)
    await follower.aclose()
    with log.open("ab") as file:
        file.write(line("c"))
    await idle()
    assert not event.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_an_engine_is_not_tied_to_one_event_loop(log: Path) -> None:
    engine = asyncio.run(JsonlEngine.open(log))
    for i in range(3):
        asyncio.run(_once(engine, str(i)))
    assert texts(engine) == ["0", "1", "2"]
    asyncio.run(engine.aclose())


async def _once(engine: JsonlEngine, text: str) -> None:
    await say(engine, text)


def test_what_was_begun_is_finished_when_the_loop_ends(log: Path) -> None:
    engine = asyncio.run(JsonlEngine.open(log))

    async def leave() -> None:
        asyncio.get_running_loop().create_task(_once(engine, "begun"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(leave())
    disk = log.read_bytes()
    assert texts(engine) == (["begun"] if disk else [])
    asyncio.run(engine.aclose())


# Sharing


async def test_objects_on_one_file_share_one_engine(log: Path) -> None:
    one = await share(log)
    two = await share(log.parent / ".." / log.parent.name / log.name)
    linked = log.parent.parent / f"link-{log.parent.name}"
    linked.symlink_to(log.parent)
    three = await share(linked / log.name, lock="per-write")
    assert one.engine is two.engine is three.engine
    other = await share(log.parent / "other.jsonl")
    reader = await share(log, access="read")
    assert len({id(lease.engine) for lease in (one, other, reader)}) == 3
    for lease in (one, two, other, reader, one):
        await lease.aclose()
    await say(three.engine, "still open")
    await three.aclose()
    again = await share(log)
    assert again.engine is not one.engine
    assert texts(again.engine) == ["still open"]
    await again.aclose()


async def test_the_lock_is_held_as_long_as_somebody_needs_it_held(log: Path) -> None:
    writer = await share(log, lock="per-write")
    await say(writer.engine, "a")
    assert not SessionLock(log).taken()
    holder = await share(log)
    assert SessionLock(log).taken()
    await say(writer.engine, "under the holder's lock")
    assert SessionLock(log).taken()
    await holder.aclose()
    assert not SessionLock(log).taken()
    await say(writer.engine, "b")
    assert texts(writer.engine) == ["a", "under the holder's lock", "b"]
    await writer.aclose()


async def test_a_shared_engine_is_as_strict_as_its_strictest_user(log: Path) -> None:
    notes = MemoryNotes()
    notes.rotation = 5
    loose = await share(log, durability="os", lock="per-write")
    strict = await share(log, durability="disk", notes=notes)
    assert loose.engine._locked.durability == "disk"
    assert (await keep(loose.engine, 0)).timeline_id == "context_6"
    await strict.aclose()
    await loose.aclose()


async def test_a_new_user_sees_what_others_wrote_meanwhile(log: Path) -> None:
    one = await share(log, lock="per-write")
    log.write_bytes(line("from elsewhere"))
    two = await share(log, lock="per-write")
    assert texts(two.engine) == ["from elsewhere"]
    await one.aclose()
    await two.aclose()


async def test_opening_and_closing_at_once_do_not_meet(log: Path) -> None:
    async def use(number: int) -> None:
        lease = await share(log, lock="hold" if number % 2 else "per-write")
        await say(lease.engine, str(number))
        await lease.aclose()

    await asyncio.gather(*(use(number) for number in range(10)))
    last = await share(log)
    assert sorted(texts(last.engine), key=int) == [str(number) for number in range(10)]
    await last.aclose()


async def test_a_lock_that_is_taken_elsewhere_is_told_to_all(log: Path) -> None:
    elsewhere = SessionLock(log)
    await elsewhere.acquire("hold")
    lease = await share(log, lock="per-write")
    with pytest.raises(SessionLockedError):
        await share(log)
    with pytest.raises(SessionLockedError):
        await say(lease.engine, "a")
    elsewhere.release()
    await say(lease.engine, "a")
    await lease.aclose()


async def test_an_abandoned_engine_is_let_go(log: Path) -> None:
    one = await share(log, lock="per-write")
    two = await share(log, lock="per-write")
    one.abandon()
    one.abandon()
    await say(two.engine, "a")
    two.abandon()
    three = await share(log)
    assert three.engine is not two.engine
    await three.aclose()
