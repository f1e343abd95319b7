"""The check of a whole log behind a session's back."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest
from tests.crash.storage.faults import faults
from tests.support.holding import PATIENCE
from tests.support.turns import until
from tests.unit.storage.logs import always, hidden, keep, said, say, texts

from timeleap.errors import StorageFailureError
from timeleap.storage import index, opened_log, scan, validation
from timeleap.storage.durable import OpenFile
from timeleap.storage.index import HEADER_SIZE, index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.record import message_record


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that counts as large, told by its first bytes only."""
    monkeypatch.setattr(opened_log, "SMALL", 16)
    monkeypatch.setattr(scan, "BLOCK", 64)
    monkeypatch.setattr(scan, "_BUFFER", 64)
    monkeypatch.setattr(index, "_AT_ONCE", 64)
    monkeypatch.setattr(index, "_LINES_AT_ONCE", 7)
    path = tmp_path / "context.jsonl"
    path.write_bytes(line("a") * 40 + line("b")[:-3] + b'\xff"}\n{"role":"_usage","token_count":1}\n')
    return path


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


def temporaries(log: Path) -> list[str]:
    return [name for name in hidden(log.parent) if name.endswith(".tmp")]


class Gate:
    """Holds a validation up until the test has done something meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real = validation.continue_to

        def held(*args: object) -> None:
            real(*args)  # type: ignore[arg-type]
            if not self.reached.is_set():
                self.reached.set()
                self.open.wait(PATIENCE)

        monkeypatch.setattr(validation, "continue_to", held)

    async def wait(self) -> None:
        await asyncio.to_thread(self.reached.wait, 10)


async def test_what_is_appended_meanwhile_is_in_the_new_index(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await JsonlEngine.open(log)
    gate = Gate(monkeypatch)
    checking = asyncio.create_task(engine.validate_in_background())
    await gate.wait()
    await say(engine, "meanwhile")
    await engine.append(always(said("one"), said("two")))
    gate.open.set()
    assert [one.line for one in await checking] == [40]
    assert texts(engine) == ["a"] * 40 + ["meanwhile", "one", "two"]
    state = engine.state
    await say(engine, "later")
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert again.state_before(state.lines) == state
    assert not again.recovery.index_rebuilt
    assert again.verify() == list(again.recovery.warnings)
    await again.aclose()


async def test_a_line_feed_that_came_meanwhile_makes_no_line(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_bytes(log.read_bytes()[:-1])
    engine = await JsonlEngine.open(log)
    gate = Gate(monkeypatch)
    checking = asyncio.create_task(engine.validate())
    await gate.wait()
    await say(engine, "meanwhile")
    gate.open.set()
    await checking
    assert engine.state.lines == 43
    assert engine.state.length == log.stat().st_size
    assert texts(engine)[-1] == "meanwhile"
    await engine.aclose()


@pytest.mark.parametrize("access", ["read", "write"])
async def test_a_log_replaced_meanwhile_is_left_alone(log: Path, access: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
    gate = Gate(monkeypatch)
    checking = asyncio.create_task(engine.validate())
    await gate.wait()
    if access == "write":
        await keep(engine, 3)
    else:
        other = await JsonlEngine.open(log)
        await keep(other, 3)
        await other.aclose()
        await engine.refresh()
    gate.open.set()
    assert await checking == []
    assert texts(engine) == ["a"] * 3
    assert temporaries(log) == []
    await engine.aclose()


@pytest.mark.parametrize("how", ["cancelled", "closed", "cancelled late", "closed late"])
async def test_a_check_nobody_wants_any_more_ends_and_leaves_nothing(
    log: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await JsonlEngine.open(log)
    going, go_on = threading.Event(), threading.Event()
    steps: list[int] = []

    def progress(done: int, total: int) -> None:
        steps.append(done)
        if (done == total) if how.endswith("late") else len(steps) == 2:
            going.set()
            go_on.wait(PATIENCE)

    checking = asyncio.create_task(engine.validate_in_background(progress))
    await asyncio.to_thread(going.wait, 10)
    before = index_path(log).read_bytes()
    if how.startswith("cancelled"):
        checking.cancel()
        await asyncio.sleep(0)
    else:
        await engine.aclose()
    go_on.set()
    if how.startswith("cancelled"):
        with pytest.raises(asyncio.CancelledError):
            await checking
    else:
        assert await checking == []
    assert len(steps) < 10 or how.endswith("late")
    assert temporaries(log) == []
    assert index_path(log).read_bytes() == before
    await engine.aclose()


@pytest.mark.parametrize("first", range(1, 6))
async def test_a_check_that_fails_says_so_and_can_be_repeated(log: Path, first: int) -> None:
    engine = await JsonlEngine.open(log)
    with faults(errno.EIO, first, calls=("open", "replace", "unlink", "pwrite")) as faulty:
        try:
            await engine.validate()
        except StorageFailureError:
            assert faulty.failed
    assert temporaries(log) == []
    await engine.validate()
    assert texts(engine) == ["a"] * 40
    await engine.aclose()


async def test_a_log_that_cannot_be_read_now_is_no_damage(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await JsonlEngine.open(log)
    await engine.validate()

    def refuse(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(OpenFile, "pread", refuse)
        with pytest.raises(StorageFailureError):
            await engine.validate()
        with pytest.raises(StorageFailureError):
            engine.read(0, 1)
    assert texts(engine) == ["a"] * 40
    await engine.aclose()


async def test_a_damaged_index_is_made_anew_by_a_check(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    await engine.validate()
    index = index_path(log)
    content = bytearray(index.read_bytes())
    content[HEADER_SIZE + 200] ^= 1
    with index.open("r+b") as file:
        file.write(content)
    assert await engine.validate() == []
    assert await engine.validate() == []
    assert texts(engine) == ["a"] * 40
    await engine.aclose()


async def test_there_is_nothing_to_check_without_a_log(tmp_path: Path) -> None:
    engine = await JsonlEngine.open(tmp_path / "none.jsonl", access="read")
    assert await engine.validate() == []
    await engine.aclose()


async def test_a_check_stands_back_while_somebody_waits_for_the_log(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    holding, looking = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    done: list[str] = []

    def work() -> None:
        loop.call_soon_threadsafe(looking.set)
        holding.wait(PATIENCE)
        done.append("work")

    working = asyncio.create_task(engine._shown.in_thread(work))
    await looking.wait()
    stood_back = threading.Event()
    stand_back = engine._shown._stand_back

    def note() -> bool:
        stood_back.set()
        return stand_back()

    engine._shown._stand_back = note  # type: ignore[method-assign]
    checking = asyncio.create_task(engine.validate(lambda *_: None))
    await until(stood_back.is_set)
    checking.add_done_callback(lambda _: done.append("check"))
    holding.set()
    await asyncio.gather(working, checking)
    assert done == ["work", "check"]
    await engine.aclose()
