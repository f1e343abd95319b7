"""How a log ends: what a crash cut short goes as a whole, what was damaged later stays where it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.repaired import repair
from tests.unit.storage.logs import keep, say, texts

from timeleap.errors import ExternallyModifiedError
from timeleap.storage import opened_log
from timeleap.storage.index import index_path
from timeleap.storage.jsonl import JsonlEngine

BLOCK = 512
INDEXES = ["present", "missing", "older"]
ACCESSES = ["read", "write"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


async def with_batch(log: Path, index: str, *members: str, before: str = "before") -> list[bytes]:
    """A closed log that ends in a batch; returns its lines. The index knows the batch if it is `present`."""
    engine = await JsonlEngine.open(log)
    await say(engine, before)
    older = index_path(log).read_bytes()
    await say(engine, *members)
    await engine.aclose()
    if index == "missing":
        index_path(log).unlink()
    if index == "older":
        index_path(log).write_bytes(older)
    return log.read_bytes().splitlines(keepends=True)


def rewritten(log: Path, content: bytes) -> None:
    """Other bytes in the same file, as damage leaves them."""
    with log.open("r+b") as file:
        file.write(content)
        file.truncate()


Damage = Callable[[list[bytes]], bytes]


def of_line(number: int, change: Callable[[bytes], bytes]) -> Damage:
    return lambda lines: b"".join(change(line) if at == number else line for at, line in enumerate(lines))


DAMAGES: dict[str, tuple[Damage, list[str]]] = {
    "a byte of the first": (of_line(1, lambda line: b"x" + line[1:]), ["before", "bbbb", "cccc"]),
    "a byte of the middle one": (of_line(2, lambda line: line.replace(b"bb", b"b\xff")), ["before", "aaaa", "cccc"]),
    "a byte of the last": (of_line(3, lambda line: b"x" + line[1:]), ["before", "aaaa", "bbbb"]),
    "a shorter first": (of_line(1, lambda line: line[9:]), ["before", "bbbb", "cccc"]),
    "a shorter middle one": (of_line(2, lambda line: line[9:]), ["before", "aaaa", "cccc"]),
    "a shorter last": (of_line(3, lambda line: line[9:]), ["before", "aaaa", "bbbb"]),
    "a longer first": (of_line(1, lambda line: b"xx" + line), ["before", "bbbb", "cccc"]),
    "a longer middle one": (of_line(2, lambda line: b"xx" + line), ["before", "aaaa", "cccc"]),
    "a longer last": (of_line(3, lambda line: b"xx" + line), ["before", "aaaa", "bbbb"]),
    "a split first": (of_line(1, lambda line: line[:9] + b"\n" + line[9:]), ["before", "bbbb", "cccc"]),
    "a split middle one": (of_line(2, lambda line: line[:9] + b"\n" + line[10:]), ["before", "aaaa", "cccc"]),
    "a split last": (of_line(3, lambda line: line[:9] + b"\n" + line[9:]), ["before", "aaaa", "bbbb"]),
    "the first glued to what is before": (of_line(0, lambda line: line[:-1]), ["bbbb", "cccc"]),
    "the first glued to the middle one": (of_line(1, lambda line: line[:-1]), ["before", "cccc"]),
    "the middle one glued to the last": (of_line(2, lambda line: line[:-1]), ["before", "aaaa"]),
    "another byte for the last line feed": (of_line(3, lambda line: line[:-1] + b"J"), ["before", "aaaa", "bbbb"]),
    "something after the last": (lambda lines: b"".join(lines) + b"xx", ["before", "aaaa", "bbbb", "cccc"]),
    "zeros within the middle one": (of_line(2, lambda line: line[:9] + bytes(20) + line[29:]), ["before", "aaaa", "cccc"]),
    "two of three": (lambda lines: lines[0] + b"x" + lines[1][1:] + lines[2] + b"x" + lines[3][1:], ["before", "bbbb"]),
}  # fmt: skip


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_in_the_last_batch_costs_only_the_damaged_lines(log: Path, damage: str, index: str) -> None:
    lines = await with_batch(log, index, "aaaa", "bbbb", "cccc")
    change, left = DAMAGES[damage]
    damaged = change(lines)
    rewritten(log, damaged)
    for access in ("read", "write", "read", "write"):
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        assert texts(engine) == left
        assert log.read_bytes() == damaged, "it stays where it is"
        assert engine.recovery.quarantined == ()
        assert {one.kind for one in engine.recovery.warnings} <= {"damagedRecord", "notAsWritten"}
        known = engine.damage()
        assert known
        assert engine.verify() == known, "no sound line is called damaged"
        await engine.aclose()
    index_path(log).unlink()
    engine = await JsonlEngine.open(log)
    assert texts(engine) == left, "the index is not needed for that"
    await say(engine, "next")
    assert texts(engine) == [*left, "next"]
    await engine.aclose()


async def test_a_rewrite_leaves_the_damaged_member_out_and_no_batch_in_halves(log: Path) -> None:
    lines = await with_batch(log, "missing", "aaaa", "bbbb", "cccc")
    rewritten(log, lines[0] + lines[1] + b"xx" + lines[2] + lines[3])
    mended = await repair(log)
    assert [one.line for one in mended.removed] == [2]
    index_path(log).unlink()
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before", "aaaa", "cccc"]
    assert engine.verify() == []
    assert b'"b":' not in log.read_bytes(), "its members are no batch any more"
    await engine.aclose()


async def test_a_batch_that_is_cut_through_loses_its_marks(log: Path) -> None:
    await with_batch(log, "present", "aaaa", "bbbb", "cccc")
    engine = await JsonlEngine.open(log)
    await keep(engine, 3)
    assert texts(engine) == ["before", "aaaa", "bbbb"]
    assert engine.verify() == []
    await engine.aclose()
    index_path(log).unlink()
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before", "aaaa", "bbbb"]
    await engine.aclose()


@pytest.mark.parametrize("index", ["missing", "older"])
async def test_a_torn_batch_goes_as_a_whole_wherever_it_is_torn(log: Path, index: str) -> None:
    lines = await with_batch(log, index, "a", "b")
    whole = b"".join(lines)
    known = index_path(log).read_bytes() if index != "missing" else None
    for size in range(len(lines[0]), len(whole) - 1):
        rewritten(log, whole[:size])
        index_path(log).unlink(missing_ok=True)
        if known is not None:
            index_path(log).write_bytes(known)
        for access in ("read", "write"):
            engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
            assert texts(engine) == ["before"], size
            await engine.aclose()
            if access == "write":
                assert log.read_bytes() == lines[0]
                assert engine.recovery.cut_bytes == size - len(lines[0])
        for kept in log.parent.glob("*.quarantine-*"):
            assert kept.read_bytes() == whole[len(lines[0]) : size]
            kept.unlink()


async def test_a_batch_that_was_synced_stays_as_far_as_it_is_there_and_the_rest_is_told(log: Path) -> None:
    lines = await with_batch(log, "present", "a", "b", "c")
    whole, known = b"".join(lines), index_path(log).read_bytes()
    ends = [len(b"".join(lines[:number])) for number in range(1, 5)]
    for size in range(len(lines[0]), len(whole) - 1):
        rewritten(log, whole[:size])
        index_path(log).write_bytes(known)
        left = ["before", "a", "b", "c"][: sum(end <= size or end - 1 == size for end in ends)]
        for access in ("read", "write"):
            engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
            assert engine.recovery.lost is not None, size
            assert texts(engine) == left, size
            if access == "write":
                with pytest.raises(ExternallyModifiedError):
                    await say(engine, "d")
                assert log.read_bytes() == whole[:size], "nothing is cut off, and nothing written"
                await engine.reload()
                await say(engine, "d")
                assert texts(engine) == [*left, "d"]
            await engine.aclose()


async def test_a_damaged_member_of_a_torn_batch_does_not_save_it(log: Path) -> None:
    lines = await with_batch(log, "missing", "aaaa", "bbbb", "cccc")
    rewritten(log, lines[0] + lines[1] + b"x" + lines[2] + lines[3][:20])
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before"]
    assert [one.reason for one in engine.recovery.quarantined] == ["incompleteBatch"]
    assert log.read_bytes() == lines[0]
    await engine.aclose()


# Zeros: blocks that never reached the disk, or that it lost


def holed(content: bytes, start: int, stop: int) -> bytes:
    return content[:start] + bytes(stop - start) + content[stop:]


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("index", INDEXES)
async def test_blocks_of_zeros_in_the_last_batch_are_a_crash_unless_the_index_knows_better(
    log: Path, index: str, access: str
) -> None:
    said_texts = ["a" * 900, "b" * 900, "c" * 900]
    lines = await with_batch(log, index, *said_texts)
    whole = b"".join(lines)
    known = index_path(log).read_bytes() if index != "missing" else None
    for start in [len(lines[0]), *range(BLOCK, len(whole), BLOCK)]:
        stop = min(len(whole), (start // BLOCK + 1) * BLOCK)
        content = holed(whole, start, stop)
        rewritten(log, content)
        index_path(log).unlink(missing_ok=True)
        if known is not None:
            index_path(log).write_bytes(known)
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        sound = [text for text, line in zip(said_texts, lines[1:], strict=True) if line in content.splitlines(True)]
        assert texts(engine) == ["before", *(sound if index == "present" else [])], start
        if access == "write" and index != "present":
            assert log.read_bytes() == lines[0]
            assert {one.reason for one in engine.recovery.quarantined} <= {"incompleteBatch", "tornTail"}
        await engine.aclose()


async def test_a_hole_over_two_batches_takes_both_and_nothing_that_was_acknowledged(log: Path) -> None:
    lines = await with_batch(log, "older", "a" * 300, "b" * 300, before="x" * 100)
    engine = await JsonlEngine.open(log)
    await say(engine, "c" * 300, "d" * 300)
    await engine.aclose()
    index_path(log).unlink()
    whole = log.read_bytes()
    second = len(b"".join(lines))
    rewritten(log, holed(whole, second - 50, (second // BLOCK + 1) * BLOCK))
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["x" * 100]
    assert log.read_bytes() == lines[0]
    assert engine.recovery.quarantined[0].reason == "incompleteBatch"
    await engine.aclose()


async def test_a_batch_before_a_holed_record_stays(log: Path) -> None:
    await with_batch(log, "present", "aaaa", "bbbb")
    batch = log.read_bytes()
    engine = await JsonlEngine.open(log)
    await say(engine, "c" * 900)
    await engine.aclose()
    index_path(log).unlink()
    rewritten(log, holed(log.read_bytes(), BLOCK, 2 * BLOCK))
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before", "aaaa", "bbbb"]
    assert log.read_bytes() == batch, "a last record with blocks missing is a torn one"
    assert [one.reason for one in engine.recovery.quarantined] == ["tornTail"]
    assert engine.verify() == []
    await engine.aclose()


async def test_zeros_behind_a_whole_batch_are_not_its_own(log: Path) -> None:
    lines = await with_batch(log, "missing", "aaaa", "bbbb")
    whole = b"".join(lines)
    rewritten(log, whole + bytes(BLOCK - len(whole)) + b"x\nnonsense\n")
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before", "aaaa", "bbbb"]
    assert len(engine.recovery.warnings) == 2
    await engine.aclose()


async def test_what_the_index_knows_stays_whatever_is_put_behind_it(log: Path) -> None:
    lines = await with_batch(log, "present", "aaaa", "bbbb", "cccc")
    rewritten(log, b"".join(lines[:3]) + bytes(len(lines[3])))
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before", "aaaa", "bbbb"]
    assert [one.reason for one in engine.recovery.quarantined] == ["tornTail"]
    await engine.aclose()
    rewritten(log, b"".join(lines[:3]) + b'nonsense\n{"torn')
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["before", "aaaa", "bbbb"]
    await engine.aclose()


async def test_zeros_in_the_middle_of_a_log_stay_where_they_are(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    for number in range(9):
        await say(engine, str(number) * 300)
    await engine.aclose()
    index_path(log).unlink()
    damaged = holed(log.read_bytes(), BLOCK, 2 * BLOCK)
    rewritten(log, damaged)
    engine = await JsonlEngine.open(log)
    assert texts(engine) == [str(number) * 300 for number in (0, *range(4, 9))]
    assert log.read_bytes() == damaged
    await engine.aclose()


# A tail that is no beginning of a record


@pytest.mark.parametrize("small", [True, False])
async def test_a_damaged_last_line_without_line_feed_stays_and_is_not_glued_to(
    log: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await JsonlEngine.open(log)
    await say(engine, "a")
    await say(engine, "b")
    await engine.aclose()
    damaged = log.read_bytes()[:-1] + b"J"
    rewritten(log, damaged)
    os.unlink(index_path(log))
    if not small:
        monkeypatch.setattr(opened_log, "SMALL", 16)
    for _ in range(2):
        engine = await JsonlEngine.open(log)
        assert texts(engine) == ["a"]
        assert [(one.kind, one.line) for one in engine.recovery.warnings] == [("damagedRecord", 1)]
        assert log.read_bytes() == damaged
        await engine.aclose()
    engine = await JsonlEngine.open(log)
    await say(engine, "c")
    assert log.read_bytes() == damaged + b'\n{"role":"user","content":"c"}\n'
    assert texts(engine) == ["a", "c"]
    assert engine.verify() == engine.damage()
    assert await engine.validate() == []
    state = engine.state
    await engine.aclose()
    index_path(log).unlink()
    monkeypatch.undo()
    engine = await JsonlEngine.open(log)
    assert engine.state == state
    await engine.aclose()
