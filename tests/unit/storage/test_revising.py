"""A log that is rewritten keeps its lines, its damage and its meaning, and nothing of what went."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.unit.storage.engines import ENGINES
from tests.unit.storage.logs import always, count, keep, mark, restore, said, say, texts

from timeleap.errors import ExternallyModifiedError, ReadOnlyError, StorageFailureError, TimelineNotFoundError
from timeleap.storage import durable
from timeleap.storage.engine import LogEngine
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_values import Edit, RecordKind
from timeleap.storage.record import read_tl
from timeleap.storage.scrub import revise_closed


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[LogEngine]:
    opened = await ENGINES[request.param](tmp_path)
    yield opened
    await opened.aclose()


def without(secret: bytes, instead: bytes = b"*") -> Edit:
    return lambda _, line: line.replace(secret, instead) if secret in line else None


async def revised(engine: LogEngine, edit: Edit, timeline_id: str | None = None) -> int:
    return await engine.run(lambda _: engine.revise(edit, timeline_id))


async def test_only_what_changes_changes(engine: LogEngine) -> None:
    await say(engine, "a secret here", "and here: secret, secret")
    await mark(engine)
    await say(engine, "nothing", role="assistant")
    await count(engine, 7)
    await say(engine, "12345678 secret")
    before, lines, head = engine.state, engine.read(0, 10), engine.head
    numbers: list[int] = []
    drop = without(b"secret", b"")

    def edit(number: int, line: bytes) -> bytes | None:
        numbers.append(number)
        return drop(number, line)

    assert await revised(engine, edit) == 3
    assert numbers == [0, 1, 2, 3, 4, 5]
    after = engine.state
    assert engine.read(0, 10) == [line.replace(b"secret", b"") for line in lines]
    assert texts(engine) == ["a  here", "and here: , ", "nothing", "12345678 "]
    assert (after.lines, after.messages, after.checkpoints, after.token_count) == (6, 4, 1, 7)
    assert (after.length, after.pending_chars) == (before.length - 24, 9)
    assert [read_tl(line).get("b") for line in engine.read(0, 2)] == [read_tl(line).get("b") for line in lines[:2]]
    assert engine.head.rpartition(".")[0] != head.rpartition(".")[0]
    assert engine.timelines() == [] and not engine.recovery.modified
    await say(engine, "and on")
    assert texts(engine)[-1] == "and on" and engine.verify() == []


async def test_where_there_is_nothing_to_change_nothing_changes(engine: LogEngine) -> None:
    assert await revised(engine, without(b"secret")) == 0
    await say(engine, "nothing")
    head = engine.head
    assert await revised(engine, without(b"secret")) == 0
    assert engine.head == head


async def test_a_timeline(engine: LogEngine) -> None:
    await say(engine, "secret", "more")
    done = await keep(engine, 1)
    live, head = engine.read(0, 10), engine.head
    assert await revised(engine, without(b"secret"), done.timeline_id) == 1
    assert texts(engine.timeline(done.timeline_id)) == ["*", "more"]
    assert engine.read(0, 10) == live and engine.head != head
    (listed,) = engine.timelines()
    assert (listed.messages, listed.bytes) == (2, engine.timeline(done.timeline_id).state.length)
    await restore(engine, done.timeline_id)
    assert texts(engine) == ["*", "more"]
    with pytest.raises(TimelineNotFoundError):
        await revised(engine, without(b"secret"), "context_9")


async def test_what_the_edit_raises_changes_nothing(engine: LogEngine) -> None:
    await say(engine, "one", "two")
    before = engine.read(0, 10), engine.head

    def edit(number: int, line: bytes) -> bytes | None:
        if number:
            raise StorageFailureError("no more", path="", errno="")
        return line.replace(b"one", b"1")

    with pytest.raises(StorageFailureError):
        await revised(engine, edit)
    assert (engine.read(0, 10), engine.head) == before
    await say(engine, "three")


async def open_log(log: Path, data: bytes) -> JsonlEngine:
    log.write_bytes(data)
    return await JsonlEngine.open(log)


SAID = [said(text).body for text in ("one secret", "two", "three secret")]


async def test_damaged_lines_and_blank_ones_stay_where_they_are(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    data = b"\n".join([SAID[0], b"{broken secret", b"", SAID[1], b'{"role":"user","content":"last"}'])
    engine = await open_log(log, data)
    assert await revised(engine, without(b"secret")) == 2
    assert log.read_bytes() == data.replace(b"secret", b"*")
    assert [one.kind for one in engine.damage()] == ["damagedRecord"]
    await say(engine, "on")
    await engine.aclose()
    assert log.read_bytes().startswith(data.replace(b"secret", b"*") + b"\n{")


async def test_what_was_silently_damaged_does_not_count_afterwards(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")
    with log.open("r+b") as file:  # behind the engine's back, with the size as it was
        file.write(SAID[0].replace(b"one", b"0ne"))
    assert await revised(engine, without(b"three secret")) == 1
    assert texts(engine) == ["two", "*"]
    assert [one.line for one in engine.damage()] == [0]
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert [entry.kind for entry in again.entries(0, 1)] == [RecordKind.DAMAGED]
    await again.aclose()


async def test_no_checksum_of_what_went_is_left(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")
    await keep(engine, 2)
    crcs = [one.crc.to_bytes(4, "little") for one in engine.timeline("context_1").entries(0, 3)]
    assert any(crcs[0] in path.read_bytes() for path in tmp_path.iterdir())
    await revised(engine, without(b"secret"))
    await revised(engine, without(b"secret"), "context_1")
    for crc in (crcs[0], crcs[2]):
        assert not any(crc in path.read_bytes() for path in tmp_path.iterdir())
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert not again.recovery.index_rebuilt and again.recovery.warnings == ()
    assert texts(again.timeline("context_1")) == ["one *", "two", "three *"]
    await again.aclose()


async def test_a_torn_end_stays_torn(tmp_path: Path) -> None:
    path = tmp_path / "context_1.jsonl"
    path.write_bytes(b"\n".join(SAID) + b'\n{"role":"user","content":"secr et secret')
    assert revise_closed(path, without(b"secret")) == 3
    assert path.read_bytes() == (b"\n".join(SAID) + b'\n{"role":"user","content":"secr et secret').replace(
        b"secret", b"*"
    )
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"")
    assert texts(engine.timeline("context_1")) == ["one *", "two", "three *"]
    await engine.aclose()


async def test_a_log_of_thousands_of_lines(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    bodies = [said(f"{number} " + "x" * 900 + (" secret" if number % 7 == 0 else "")).body for number in range(4000)]
    engine = await open_log(log, b"\n".join(bodies) + b"\n")
    assert await revised(engine, without(b"secret", b"[redacted]")) == 572
    assert log.read_bytes() == (b"\n".join(bodies) + b"\n").replace(b"secret", b"[redacted]")
    assert engine.verify() == [] and engine.read(3500, 3501) == [bodies[3500].replace(b"secret", b"[redacted]")]
    assert engine.state.pending_chars == sum(len(text) for text in texts(engine))
    await engine.aclose()


async def test_a_log_that_another_program_changed_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")
    with log.open("ab") as file:
        file.write(SAID[0] + b"\n")
    with pytest.raises(ExternallyModifiedError):
        await revised(engine, without(b"secret"))
    assert log.read_bytes().count(b"secret") == 3
    await engine.aclose()
    reader = await JsonlEngine.open(log, access="read")
    with pytest.raises(ReadOnlyError):
        await reader.revise(without(b"secret"))
    await reader.aclose()


async def test_a_log_that_another_program_changes_meanwhile_keeps_what_it_wrote(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")

    def edit(number: int, line: bytes) -> bytes | None:
        if number == 1:
            with log.open("ab") as file:
                file.write(said("foreign").body + b"\n")
        return line.replace(b"secret", b"*")

    with pytest.raises(ExternallyModifiedError):
        await revised(engine, edit)
    assert log.read_bytes() == b"\n".join([*SAID, said("foreign").body]) + b"\n"
    await engine.aclose()


async def test_a_follower_sees_it(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")
    follower = await JsonlEngine.open(log, access="read")
    await revised(engine, without(b"secret"))
    assert await follower.refresh()
    assert texts(follower) == texts(engine) == ["one *", "two", "three *"]
    await follower.aclose()
    await engine.aclose()


@pytest.mark.parametrize("point", ["revise.built", "revise.prepared"])
async def test_a_failure_before_the_step_changes_nothing(tmp_path: Path, point: str) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    durable.arm(f"{point}=raise:ENOSPC")
    try:
        with pytest.raises(StorageFailureError):
            await revised(engine, without(b"secret"))
    finally:
        durable.arm("")
    assert log.read_bytes() == b"\n".join(SAID) + b"\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert await revised(engine, without(b"secret")) == 2
    await engine.aclose()


async def test_a_timeline_whose_rewriting_fails_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "context_1.jsonl"
    path.write_bytes(b"\n".join(SAID) + b"\n")
    durable.arm("revise.closed_built=raise:EIO")
    try:
        with pytest.raises(StorageFailureError):
            revise_closed(path, without(b"secret"))
    finally:
        durable.arm("")
    assert os.listdir(tmp_path) == ["context_1.jsonl"] and path.read_bytes() == b"\n".join(SAID) + b"\n"


async def test_a_name_that_may_not_last_makes_the_log_unwritable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "context.jsonl"
    engine = await open_log(log, b"\n".join(SAID) + b"\n")

    def fails(_: Path) -> None:
        raise OSError(5, "the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(durable, "sync_directory", fails)
        with pytest.raises(StorageFailureError):
            await revised(engine, without(b"secret"))
    with pytest.raises(StorageFailureError):
        await engine.append(always(said("more")))
    await engine.aclose()
    assert log.read_bytes() == (b"\n".join(SAID) + b"\n").replace(b"secret", b"*")
