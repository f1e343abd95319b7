"""Appending: groups, failures, and programs that take no lock."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.crash.storage.faults import faults
from tests.support.holding import Hold
from tests.support.turns import idle
from tests.unit.storage.logs import always, hidden, keep, mark, said, say, texts

from timeleap.errors import (
    CorruptedError,
    ExternallyModifiedError,
    HeadConflictError,
    ReadOnlyError,
    StorageFailureError,
)
from timeleap.storage import appending, durable
from timeleap.storage.appending import GroupWriter, UnwritableError
from timeleap.storage.durable import OpenFile
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_values import Appended, AppendStep, LogState, NewRecord, Plan, RecordFlag
from timeleap.storage.record import checkpoint_record, message_record, usage_record


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


@pytest.fixture
async def engine(log: Path, request: pytest.FixtureRequest) -> AsyncGenerator[JsonlEngine]:
    opened = await JsonlEngine.open(log, durability=getattr(request, "param", "disk"))
    yield opened
    await opened.aclose()


both_ways = pytest.mark.parametrize("engine", ["disk", "os"], indirect=True)
"""By the queue, and in the call that asks for it."""


@pytest.fixture(autouse=True)
def _disarmed() -> object:
    yield
    durable.arm("")


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


def meddle(log: Path, content: bytes) -> None:
    """What a program that takes no lock does."""
    with log.open("ab") as file:
        file.write(content)


class Counter:
    """Counts calls of `durable`'s system calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.threads: set[int] = set()
        monkeypatch.setattr(durable, "os", self)

    def __getattr__(self, name: str) -> object:
        real = getattr(os, name)
        if name not in ("write", "fdatasync", "fsync"):
            return real

        def call(*args: object) -> object:
            self.calls.append(name)
            self.threads.add(threading.get_ident())
            return real(*args)

        return call


async def test_waiting_appends_share_one_write_and_one_sync(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(monkeypatch)
    await asyncio.gather(*(say(engine, str(i)) for i in range(64)))
    assert counter.calls == ["write", "fdatasync"]
    assert counter.threads != {threading.get_ident()}, "not on the event loop"


async def test_appends_that_come_while_a_group_is_written_are_the_next_group(
    engine: JsonlEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(monkeypatch)
    hold = Hold("append.after_write", tmp_path)
    durable.arm(hold.failpoints)
    first = asyncio.create_task(say(engine, "first"))
    await asyncio.to_thread(hold.wait)
    later = [asyncio.create_task(say(engine, str(i))) for i in range(10)]
    await idle()
    hold.release()
    await asyncio.gather(first, *later)
    assert counter.calls == ["write", "fdatasync"] * 2
    assert texts(engine) == ["first", *map(str, range(10))]


async def test_durability_os_syncs_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await JsonlEngine.open(log, durability="os")
    counter = Counter(monkeypatch)
    await say(engine, "a")
    assert counter.calls == ["write"]
    await engine.aclose()


async def test_appends_that_more_follow_are_written_together(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await JsonlEngine.open(log, durability="os")
    counter = Counter(monkeypatch)

    def add(text: str, *, more: bool) -> Coroutine[Any, Any, Appended]:
        return engine.append(lambda _: [message_record({"role": "user", "content": text})], more=more)

    done = await asyncio.gather(add("a", more=True), add("b", more=True), add("c", more=False))
    assert counter.calls == ["write"]
    assert [each.after.messages for each in done] == [1, 2, 3]
    assert texts(engine) == ["a", "b", "c"]
    await engine.aclose()


async def test_nothing_is_written_at_once_before_who_waited_in_the_queue_goes_on(log: Path) -> None:
    engine = await JsonlEngine.open(log, durability="os")
    went_on: list[str] = []
    found: list[list[str]] = []

    async def job(_: LogState) -> None:
        await asyncio.sleep(0)

    async def wait() -> None:
        await engine.append(lambda _: [message_record({"role": "user", "content": "queued"})])
        went_on.append("queued")

    async def watch() -> None:
        while not engine._locked.idle:
            await asyncio.sleep(0)
        found.append(list(went_on))

    busy = asyncio.create_task(engine.run(job))
    await asyncio.sleep(0)
    assert not engine._locked.idle
    watchers = [watch(), watch()]
    await asyncio.gather(watchers[0], wait(), watchers[1], busy)
    assert found == [["queued"], ["queued"]]
    await engine.aclose()


async def test_memory_changes_only_after_the_sync(engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = OpenFile.sync

    def sync(file: OpenFile) -> None:
        seen.append(engine.state.messages)
        real(file)

    monkeypatch.setattr(OpenFile, "sync", sync)
    await say(engine, "a")
    assert seen == [0]
    assert engine.state.messages == 1


class Disk:
    """Says how long syncs take, by a clock of its own, and in which threads they are waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.takes = 0.0
        self.on_loop: list[bool] = []
        real, loop = OpenFile.sync, threading.get_ident()

        def sync(file: OpenFile) -> None:
            self.on_loop.append(threading.get_ident() == loop)
            self.now += self.takes
            real(file)

        monkeypatch.setattr(OpenFile, "sync", sync)

    async def say(self, engine: JsonlEngine, times: int, takes: float = 0.001) -> list[bool]:
        """Append so often, one after the other; returns which syncs were waited for on the event loop."""
        self.takes = takes
        self.on_loop.clear()
        for i in range(times):
            await say(engine, f"m{i}")
        return self.on_loop


@pytest.fixture
def disk(engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(monkeypatch)
    engine._locked._writer = GroupWriter(lambda: disk.now)
    return disk


async def test_a_disk_that_proved_quick_is_waited_for_on_the_event_loop(engine: JsonlEngine, disk: Disk) -> None:
    assert await disk.say(engine, 18) == [False] * 16 + [True] * 2
    assert await disk.say(engine, 1, takes=0.5) == [True], "nobody can know before"
    assert await disk.say(engine, 17) == [False] * 16 + [True]


async def test_a_slow_disk_is_never_waited_for_on_the_event_loop(engine: JsonlEngine, disk: Disk) -> None:
    assert await disk.say(engine, 40, takes=0.002) == [False] * 40


async def test_those_that_wait_together_are_synced_in_the_thread(engine: JsonlEngine, disk: Disk) -> None:
    await disk.say(engine, 16)
    disk.on_loop.clear()
    await asyncio.gather(say(engine, "a"), say(engine, "b"))
    assert disk.on_loop == [False]


@pytest.mark.parametrize("action", ["sleep:0", "hold:nowhere"])
async def test_a_write_that_a_test_holds_up_holds_up_no_other_session(
    engine: JsonlEngine, disk: Disk, action: str
) -> None:
    await disk.say(engine, 16)
    durable.arm(f"some.step={action}")
    assert await disk.say(engine, 1) == [False]
    durable.arm("some.step=kill")
    assert await disk.say(engine, 1) == [True]


async def test_a_group_too_long_is_written_in_parts(engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "GROUP_BYTES", 200)
    monkeypatch.setattr(appending, "GROUP_LIMIT", 7)
    counter = Counter(monkeypatch)
    done = await asyncio.gather(*(say(engine, f"{i}" * 10) for i in range(20)))
    assert counter.calls.count("write") > 3
    assert [one.before.messages for one in done] == list(range(20))
    assert len(texts(engine)) == 20


def refuse_too_big(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a write that says "too big" takes half, and fails."""
    real = OpenFile.append

    def append(file: OpenFile, data: bytes) -> int:
        if b"too big" in data:
            real(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    monkeypatch.setattr(OpenFile, "append", append)


async def test_one_that_fails_does_not_take_its_group_along(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_too_big(monkeypatch)
    results = await asyncio.gather(
        say(engine, "a"),
        engine.append(always(said("b"), said("too big"))),
        say(engine, "c"),
        mark(engine),
        return_exceptions=True,
    )
    assert isinstance(results[1], StorageFailureError)
    assert results[1].data == {"path": str(engine.path), "errno": "ENOSPC"}
    assert results[1].retryable
    assert not isinstance(results[2], BaseException)
    assert results[2].before.messages == 1, "planned anew on what is there"
    assert texts(engine) == ["a", "c"]
    assert engine.state.length == engine.path.stat().st_size
    assert engine.verify() == []


def only_first(text: str) -> Callable[[LogState], list[NewRecord]]:
    """A message that wants to be the first."""

    def plan(state: LogState) -> list[NewRecord]:
        if state.messages:
            raise HeadConflictError("the log has changed", head="")
        return [said(text)]

    return plan


async def test_a_refusal_waits_for_what_it_refers_to(engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = OpenFile.sync

    def sync(file: OpenFile) -> None:
        order.append("synced")
        real(file)

    async def wanted() -> None:
        with pytest.raises(HeadConflictError):
            await engine.append(only_first("b"))
        order.append("refused")

    monkeypatch.setattr(OpenFile, "sync", sync)
    await asyncio.gather(say(engine, "a"), wanted())
    assert order == ["synced", "refused"]


async def test_what_was_refused_because_of_an_append_that_failed_is_looked_at_again(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_too_big(monkeypatch)
    results = await asyncio.gather(
        say(engine, "too big"), engine.append(only_first("b")), engine.append(only_first("c")), return_exceptions=True
    )
    assert [type(one).__name__ for one in results] == ["StorageFailureError", "Appended", "HeadConflictError"]
    assert texts(engine) == ["b"]


class Asked(AppendStep, eq=False):
    """An append whose end is told to `then`."""

    made: Plan
    then: Callable[[Appended | BaseException], None]

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        return self.made(state)

    def end(self, done: Appended | None, error: BaseException | None) -> None:
        assert not self.ended
        self.ended = True
        end = done if error is None else error
        assert end is not None
        self.then(end)


def in_the_call(engine: JsonlEngine, plan: Plan) -> Appended | None:
    """The result of an append that ends in the call that asks for it; None where it waits. Raises as it fails."""
    ends: list[Appended | BaseException] = []
    engine.submit(Asked(plan, ends.append))
    for end in ends:
        if isinstance(end, BaseException):
            raise end
        return end
    return None


async def test_appends_that_are_told_share_one_sync_and_fail_alone(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_too_big(monkeypatch)
    heard: list[tuple[str, str]] = []

    def ask(name: str, plan: Plan) -> None:
        engine.submit(Asked(plan, lambda end: heard.append((name, type(end).__name__))))

    counter = Counter(monkeypatch)
    for text in ("a", "b"):
        ask(text, always(said(text)))
    await engine.at_turn(lambda: None)
    assert (heard, counter.calls) == ([("a", "Appended"), ("b", "Appended")], ["write", "fdatasync"])
    ask("big", always(said("too big")))
    ask("first", only_first("c"))
    ask("second", only_first("d"))
    await engine.at_turn(lambda: None)
    assert heard[2:] == [
        ("big", "StorageFailureError"),
        ("first", "HeadConflictError"),
        ("second", "HeadConflictError"),
    ]
    assert texts(engine) == ["a", "b"]


async def test_what_has_to_wait_is_not_appended_now(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await JsonlEngine.open(log, durability="os")
    counter = Counter(monkeypatch)
    waiting = asyncio.ensure_future(engine.append(always(said("a")), more=True))
    await asyncio.sleep(0)
    assert (in_the_call(engine, always(said("b"))), counter.calls) == (None, [])
    await waiting
    await engine.at_turn(lambda: None)
    await asyncio.sleep(0)  # who waited for the last step goes on before anything is written in the call
    counter.calls.clear()
    done = in_the_call(engine, lambda _: [*map(said, ("c", "d"))])
    assert done is not None
    assert (done.before.lines, done.after.lines, counter.calls) == (2, 4, ["write"])
    assert [entry.flags & RecordFlag.BATCH_OPEN > 0 for entry in engine.entries(1, 4)] == [False, True, False]
    assert texts(engine) == ["a", "b", "c", "d"]
    await engine.aclose()
    with pytest.raises(ReadOnlyError, match="closed"):
        in_the_call(engine, always(said("d")))
    synced = await JsonlEngine.open(log)
    assert in_the_call(synced, always(said("d"))) is None, "the event loop waits for no disk"
    await synced.aclose()


@pytest.mark.parametrize("durability", ["disk", "os"])
async def test_who_waits_hears_of_an_append_before_those_that_are_told_of_the_next(log: Path, durability: Any) -> None:
    engine = await JsonlEngine.open(log, durability=durability)
    heard: list[str] = []

    async def wait(name: str) -> None:
        await engine.append(always(said(name)), more=True)
        heard.append(name)

    waiting = asyncio.ensure_future(wait("a"))
    await asyncio.sleep(0)
    engine.submit(Asked(always(said("b")), lambda _: heard.append("b")))
    engine.submit(Asked(always(said("c")), lambda _: heard.append("c")))
    await engine.at_turn(lambda: None)
    await waiting
    assert heard == texts(engine) == ["a", "b", "c"]
    await engine.aclose()


@both_ways
async def test_a_full_disk_refuses_and_recovers(engine: JsonlEngine) -> None:
    await say(engine, "a")
    before, head = engine.path.read_bytes(), engine.head
    with faults(errno.ENOSPC, 1, onwards=True, calls=("write", "pwrite"), short=True) as faulty:
        faulty._short = True
        faulty._code = errno.ENOSPC
        faulty.begin(2)
        with pytest.raises(StorageFailureError, match="No space left"):
            await full(engine, faulty)
    assert (engine.path.read_bytes(), engine.head) == (before, head)
    await say(engine, "b")
    assert texts(engine) == ["a", "b"]


async def full(engine: JsonlEngine, faulty: object) -> None:
    """The first write takes half, the next one nothing."""
    faulty._short = False  # type: ignore[attr-defined]
    faulty.begin(1)  # type: ignore[attr-defined]
    await say(engine, "x" * 100)


@pytest.mark.crash
async def test_a_really_full_disk_takes_half_a_record_and_gives_it_back(log: Path) -> None:
    import resource

    engine = await JsonlEngine.open(log)
    await say(engine, "a")
    before = log.read_bytes()
    import signal

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(StorageFailureError) as caught:
            await say(engine, "x" * 100)
        assert caught.value.data["errno"] == "EFBIG"
        assert log.read_bytes() == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    await say(engine, "b")
    assert texts(engine) == ["a", "b"]
    assert engine.verify() == []
    await engine.aclose()


async def test_a_failed_sync_is_not_tried_again_and_the_record_is_taken_back(engine: JsonlEngine) -> None:
    await say(engine, "a")
    before, head, descriptor = engine.path.read_bytes(), engine.head, engine.view.file
    with (
        faults(errno.EIO, 1, calls=("fdatasync",)) as faulty,
        pytest.raises(StorageFailureError, match="cannot make the log durable") as caught,
    ):
        await say(engine, "lost")
    assert not isinstance(caught.value, UnwritableError)
    assert faulty.failed == ["fdatasync"]
    assert faulty.passed == 2, "the second one is that of the new descriptor, after the cut"
    assert engine.view.file is not descriptor
    assert (engine.path.read_bytes(), engine.head) == (before, head)
    await say(engine, "b")
    assert texts(engine) == ["a", "b"]


@pytest.mark.parametrize("trouble", ["sync", "cut", "open", "bytes", "index", "size"])
async def test_a_log_whose_end_cannot_be_established_is_only_read(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    await say(engine, "a")
    match trouble:
        case "sync":
            patch = faults(errno.EIO, 1, onwards=True, calls=("fdatasync",))
        case "cut":
            patch = faults(errno.EIO, 1, onwards=True, calls=("fdatasync", "ftruncate"))
        case "open":
            patch = faults(errno.EIO, 1, onwards=True, calls=("fdatasync", "open"))
        case _:
            patch = faults(errno.EIO, 1, calls=("fdatasync",))
    if trouble == "bytes":
        monkeypatch.setattr(appending, "first_difference", lambda *_: 0)
    elif trouble == "index":
        os.truncate(engine.path.parent / ".context.jsonl.idx", 10)
    elif trouble == "size":
        monkeypatch.setattr(OpenFile, "truncate", lambda *_: None)
    with patch, pytest.raises(UnwritableError) as caught:
        await say(engine, "b")
    assert not caught.value.retryable
    for change in (say(engine, "c"), keep(engine, 0)):
        with pytest.raises(UnwritableError):
            await change
    assert texts(engine) == ["a"], "reading goes on"
    monkeypatch.undo()
    await engine.reload()
    await say(engine, "d")
    assert texts(engine)[0::2][0] == "a"
    assert texts(engine)[-1] == "d"
    assert engine.verify() == []


@both_ways
@pytest.mark.parametrize("trouble", ["error", "size"])
async def test_half_a_record_that_cannot_be_cut_off_stops_all_writing(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    await say(engine, "a")
    if trouble == "size":
        monkeypatch.setattr(OpenFile, "truncate", lambda *_: None)
    with faults(errno.EIO, 1, onwards=True, calls=("write", "ftruncate")) as faulty:
        faulty._short = trouble == "size"
        if trouble == "size":
            real = faulty.write  # type: ignore[attr-defined]

            def half_then_none(fd: int, data: bytes) -> int:
                if faulty.failed:
                    faulty._short = False
                return real(fd, data)

            faulty.write = half_then_none  # type: ignore[attr-defined]
        with pytest.raises(UnwritableError, match="half a record"):
            await say(engine, "b")
    with pytest.raises(UnwritableError):
        await say(engine, "c")
    monkeypatch.undo()
    recovery = await engine.reload()
    assert len(recovery.quarantined) == (trouble == "size")
    await say(engine, "d")
    assert texts(engine) == ["a", "d"]


@both_ways
async def test_an_index_that_cannot_be_written_waits_in_memory(engine: JsonlEngine) -> None:
    with faults(errno.ENOSPC, 1, onwards=True, calls=("pwrite",)):
        for i in range(5):
            await say(engine, f"m{i}")
        assert texts(engine) == [f"m{i}" for i in range(5)]
    await say(engine, "m5")
    await engine.aclose()
    again = await JsonlEngine.open(engine.path)
    assert not again.recovery.index_rebuilt
    assert texts(again) == [f"m{i}" for i in range(6)]
    await again.aclose()


# Programs that take no lock


@both_ways
async def test_a_foreign_append_turns_the_session_read_only_until_it_is_reloaded(engine: JsonlEngine) -> None:
    await say(engine, "ours")
    head = engine.head
    meddle(engine.path, line("theirs"))
    assert engine.externally_modified
    for change in (say(engine, "more"), keep(engine, 0)):
        with pytest.raises(ExternallyModifiedError):
            await change
    assert (texts(engine), engine.head) == (["ours"], head)
    await engine.run(lambda _: asyncio.sleep(0))
    recovery = await engine.reload()
    assert recovery.quarantined == ()
    assert not engine.externally_modified
    assert texts(engine) == ["ours", "theirs"]
    assert engine.head.split(".")[0] != head.split(".")[0]
    await say(engine, "more")
    assert texts(engine) == ["ours", "theirs", "more"]


@both_ways
@pytest.mark.parametrize("how", ["replaced", "truncated", "removed", "same size"])
async def test_a_foreign_rewrite_is_noticed_before_the_next_write(engine: JsonlEngine, how: str) -> None:
    await say(engine, "ours")
    content = engine.path.read_bytes()
    match how:
        case "replaced" | "same size":
            durable.atomic_write(engine.path, line("else") if how == "same size" else line("a") * 3)
        case "truncated":
            os.truncate(engine.path, 5)
        case _:
            engine.path.unlink()
    with pytest.raises(ExternallyModifiedError):
        await say(engine, "more")
    assert engine.externally_modified
    if how == "truncated":
        with pytest.raises(CorruptedError):
            texts(engine)
    else:
        assert texts(engine) == ["ours"]
    await engine.reload()
    expected = {"replaced": ["a"] * 3, "same size": ["else"], "truncated": [], "removed": []}[how]
    assert texts(engine) == expected
    await say(engine, "more")
    assert texts(engine) == [*expected, "more"]
    assert how != "removed" or content not in engine.path.read_bytes()


def slip_in(monkeypatch: pytest.MonkeyPatch, log: Path, before: bytes, after: bytes = b"") -> None:
    """Let another program write between our look at the log and our write, and after it."""
    real = OpenFile.append

    def append(file: OpenFile, data: bytes) -> int:
        monkeypatch.setattr(OpenFile, "append", real)
        meddle(log, before)
        end = real(file, data)
        meddle(log, after)
        return end

    monkeypatch.setattr(OpenFile, "append", append)


@pytest.mark.parametrize("after", [b"", line("later theirs")])
@pytest.mark.parametrize("durability", ["disk", "os"])
async def test_a_write_that_slipped_in_before_ours_is_seen_and_ours_is_not_lost(
    log: Path, monkeypatch: pytest.MonkeyPatch, after: bytes, durability: str
) -> None:
    engine = await JsonlEngine.open(log, durability=durability)  # type: ignore[arg-type]
    await say(engine, "first")
    slip_in(monkeypatch, log, line("theirs") + b'{"role": "_usage", "token_count": 7}\n', after)
    waiting = engine.run(lambda _: asyncio.sleep(0))  # so that the two appends are one group, also without a sync
    _, *done = await asyncio.gather(waiting, say(engine, "ours"), say(engine, "ours", "too"))
    expected = ["first", "theirs", "ours", "ours", "too", *(["later theirs"] if after else [])]
    assert texts(engine) == expected
    assert [(one.before.messages, one.after.messages) for one in done] == [(2, 3), (3, 5)]
    assert done[0].before.token_count == 7
    assert engine.externally_modified
    with pytest.raises(ExternallyModifiedError):
        await say(engine, "more")
    await engine.reload()
    await say(engine, "more")
    assert texts(engine) == [*expected, "more"]
    assert engine.verify() == []
    await engine.aclose()


async def test_a_write_that_slipped_in_before_a_record_on_its_own_is_seen(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await JsonlEngine.open(log, durability="os")
    await say(engine, "first")
    slip_in(monkeypatch, log, line("theirs"))
    done = in_the_call(engine, always(said("ours")))
    assert done is not None
    assert (done.before.messages, done.after.messages, done.head) == (2, 3, engine.head)
    assert texts(engine) == ["first", "theirs", "ours"]
    with pytest.raises(ExternallyModifiedError):
        in_the_call(engine, always(said("more")))
    await engine.reload()
    assert texts(engine) == ["first", "theirs", "ours"]
    assert engine.verify() == []
    await engine.aclose()


@both_ways
@pytest.mark.parametrize("after", [b"", b'and the rest"}\n'])
async def test_a_write_into_the_middle_of_which_ours_fell_is_refused(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch, after: bytes
) -> None:
    await say(engine, "first")
    slip_in(monkeypatch, engine.path, b'{"role":"user","content":"half ', after)
    with pytest.raises(ExternallyModifiedError):
        await say(engine, "ours")
    assert texts(engine) == ["first"]
    content = engine.path.read_bytes()
    assert (b"ours" in content) == bool(after), "what nothing follows is taken back"
    assert b'"half ' in content, "what others wrote is not"


async def test_a_sync_that_fails_after_another_program_wrote_stops_all_writing(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slip_in(monkeypatch, engine.path, line("theirs"))
    with faults(errno.EIO, 1, calls=("fdatasync",)), pytest.raises(UnwritableError):
        await say(engine, "ours")
    with pytest.raises(UnwritableError):
        await say(engine, "more")


async def test_a_log_that_appeared_meanwhile_is_not_overwritten(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    log.unlink()
    await engine.reload()
    log.unlink()
    assert engine.externally_modified
    with pytest.raises(ExternallyModifiedError):
        await say(engine, "a")
    await engine.aclose()


async def test_a_log_that_cannot_be_made_is_a_failure(log: Path) -> None:
    (log.parent / "context_1.jsonl").write_bytes(line("a"))
    engine = await JsonlEngine.open(log)
    assert not log.exists()
    with faults(errno.EACCES, 1, onwards=True, calls=("open",)), pytest.raises(StorageFailureError, match="create the"):
        await say(engine, "a")
    with faults(errno.EEXIST, 1, calls=("open",)), pytest.raises(StorageFailureError):
        await say(engine, "a")
    await say(engine, "a")
    assert texts(engine) == ["a"]
    await engine.aclose()


# A lock for each write


async def test_writers_that_take_the_lock_for_each_write_see_each_other(log: Path) -> None:
    one = await JsonlEngine.open(log, lock="per-write")
    two = await JsonlEngine.open(log, lock="per-write")

    def plan(state: LogState) -> list[NewRecord]:
        return [checkpoint_record(state.next_checkpoint_id)]

    for _ in range(5):
        await asyncio.gather(one.append(plan), two.append(plan), one.append(plan))
    await one.append(always(usage_record(1)))
    assert [entry.value for entry in one.entries(0, 15)] == list(range(15))
    assert one.state.regular
    await keep(two, 3)
    await say(one, "after the revert of the other")
    assert texts(one) == ["after the revert of the other"]
    assert one.state.lines == 4
    assert await two.refresh()
    assert two.state == one.state
    assert one.head == two.head
    await one.aclose()
    await two.aclose()


async def test_a_log_changed_by_any_program_is_caught_up_with_under_the_lock(log: Path) -> None:
    engine = await JsonlEngine.open(log, lock="per-write")
    await say(engine, "a")
    meddle(log, line("b") + b'{"torn')
    await say(engine, "c")
    assert texts(engine) == ["a", "b", "c"]
    assert [one.reason for one in engine.recovery.quarantined] == ["tornTail"]
    durable.atomic_write(log, line("a") + line("edited") + line("c"))
    await say(engine, "d")
    assert texts(engine) == ["a", "edited", "c", "d"]
    with log.open("r+b") as file:
        file.seek(-len(line("d")), os.SEEK_END)
        file.write(line("D") + line("more") * 5)
    await say(engine, "e")
    assert texts(engine) == ["a", "edited", "c", "D", *["more"] * 5, "e"]
    assert not engine.externally_modified
    assert engine.verify() == []
    await engine.aclose()
    assert ".context.jsonl.lock" in hidden(log.parent)


@pytest.mark.parametrize("in_place", [True, False])
async def test_another_log_is_not_written_to_under_the_lock_either(log: Path, in_place: bool) -> None:
    engine = await JsonlEngine.open(log, lock="per-write")
    await say(engine, "a")
    if in_place:
        log.write_bytes(line("another") * 2)
    else:
        durable.atomic_write(log, line("another") * 2)
    with pytest.raises(ExternallyModifiedError):
        await say(engine, "b")
    await engine.reload()
    await say(engine, "b")
    assert texts(engine) == ["another", "another", "b"]
    await engine.aclose()
