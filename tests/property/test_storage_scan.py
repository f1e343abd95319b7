"""The two ways to scan agree, whatever the bytes are; no damage goes unnoticed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support import figures
from tests.support.memory_engine import MemoryFile
from tests.unit.storage.logs import always, said, say

from timeleap.storage import opened_log, scan
from timeleap.storage.index import EntryStore
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_values import LogState, RecordFlag, RecordKind
from timeleap.storage.record import (
    SENDER,
    batch_member,
    checkpoint_record,
    classify,
    message_record,
    usage_record,
    with_tl,
)

REQUEST = {"r": "r1", "h": "0123456789abcdef", "m": "appendMessage", "s": 7, "o": "a588bbd0", "g": "tp86tp.0"}
MADE = {**REQUEST, "r": "timeleap:0123456789ab.7"}
MARKED = [
    with_tl(message_record({"role": "user", "content": "x"}), REQUEST).body,
    with_tl(message_record({"role": "tool", "content": [{"type": "text", "text": "é"}]}), MADE).body,
    with_tl(message_record({"role": "user", "content": "x"}), {SENDER: "another"}).body,
    batch_member(with_tl(message_record({"role": "user", "content": "x"}), REQUEST), "b", 0, 3).body,
    batch_member(with_tl(usage_record(7), MADE), "b", 2, 3).body,
    with_tl(usage_record(12, style="compact"), REQUEST).body,
    with_tl(checkpoint_record(0), {"u": "c0-1", "l": "a label", "t": "2026-01-01T00:00:00.000Z", **REQUEST}).body,
]
"""As they are written here: nothing of them need be parsed."""
SOLID = [
    *MARKED,
    with_tl(checkpoint_record(1), {"u": "c1-1", "l": "é", "t": "now"}).body,
    with_tl(usage_record(3), {**REQUEST, "s": 1 << 62}).body,
    with_tl(message_record({"role": "user", "content": "x"}), {**REQUEST, "r": 'a"b'}).body,
    b'{"role":"user","content":"x","y":{"_tl":1,"_tl":{"r":"1"}}}',
    b'{"role":"user","content":"x","y":{"a":1,"_tl":{"r":"1"}}}',
    b'{"role":"user","content":"x","_tl":{}}',
    b'{"role": "_usage", "token_count": 12,"_tl":{"r":"1"}}',
    b'{"role":"user","content":"abc"}',
    b'{"role": "assistant", "content": "abc"}',
    b'{"role":"tool","content":[{"type":"text","text":"ab"}],"tool_call_id":"c"}',
    b'{"role":"system","content":null}',
    b'{"role": "_usage", "token_count": 12}',
    b'{"role":"_usage","token_count":12}',
    b'{"role": "_usage", "token_count": 1234567890123456789012}',
    b'{"role": "_usage", "token_count": -1}',
    b'{"role": "_checkpoint", "id": 0}',
    b'{"role":"_checkpoint","id":7}',
    b'{"role": "_checkpoint", "id": 1,"_tl":{"u":"c1-1"}}',
    b'{"role":"_system_prompt","content":"x"}',
    b'{"role":"_other","content":""}',
    b"",
    b"  ",
    b"nonsense",
    b'{"role":"user","content":"abc","_tl":{"r":"1"}}',
    batch_member(message_record({"role": "user", "content": "x"}), "b", 0, 2).body,
    batch_member(usage_record(5), "b", 1, 2).body,
    b'{"role":"use","content":""}',
    b'{"content":"abc","role":"user"}',
    '{"role":"user","content":"é漢😀"}'.encode(),
]
OF_MARKS = int(
    RecordFlag.HAS_TL | RecordFlag.REQUEST | RecordFlag.MADE_HERE | RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL
)
LINES = st.one_of(st.sampled_from(SOLID), st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")))


def scanned(data: bytes, *, quick: bool) -> tuple[scan.Scanned, EntryStore]:
    store = EntryStore()
    way = scan.quickly if quick else scan.thoroughly
    return way(MemoryFile(data), LogState(), len(data), store), store


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(LINES, max_size=12), ended=st.booleans())
@example(lines=[b'{"role":"user","content":"abc"}'], ended=False)
@example(lines=[b'{"role":"user","content":"torn'], ended=False)
@example(lines=[b'{"role": "_usage", "token_count": 12}', b'{"role":"user","content":"abc"}'], ended=True)
def test_the_quick_scan_finds_what_the_thorough_one_does(lines: list[bytes], ended: bool) -> None:
    data = b"\n".join(lines) + b"\n" * (ended and bool(lines))
    (thorough, one), (quick, other) = scanned(data, quick=False), scanned(data, quick=True)
    assert (quick.open_ended, quick.torn) == (thorough.open_ended, thorough.torn)
    pairs = [(one.entry(at), other.entry(at)) for at in range(thorough.state.lines)]
    looks = [True] * len(pairs)
    for at, (full, fast) in enumerate(pairs):
        assert fast[:4] == full[:4]
        looks[at] = fast.flags & RecordFlag.VALIDATED > 0
        if looks[at]:
            assert (fast.kind, fast.flags, fast.role, fast.value) == (full.kind, full.flags, full.role, full.value)
        elif full.kind == RecordKind.MESSAGE:
            assert fast.flags & OF_MARKS == full.flags & OF_MARKS
    if all(full.kind != RecordKind.DAMAGED and not full.flags & RecordFlag.UNREADABLE for full, _ in pairs):
        assert quick.state == thorough.state
    assert other.count == quick.state.lines


def test_the_quick_scan_parses_nothing_of_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a client that gives request ids each record has marks: to parse them took ten times as long."""
    monkeypatch.delattr(scan, "classify")
    lines = [*MARKED, b'{"role": "_usage", "token_count": 12}']
    found, store = scanned(b"".join(line + b"\n" for line in lines), quick=True)
    assert found.state.lines == len(lines)
    flags = [RecordFlag(store.entry(at).flags & OF_MARKS) for at in range(5)]
    plain, made = RecordFlag.HAS_TL | RecordFlag.REQUEST, RecordFlag.HAS_TL | RecordFlag.REQUEST | RecordFlag.MADE_HERE
    batched = [plain | RecordFlag.BATCH_OPEN, made | RecordFlag.BATCH_TAIL]
    assert flags == [plain, made, RecordFlag.HAS_TL, *batched]


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(LINES, min_size=1, max_size=12), data=st.data())
def test_a_scan_can_be_taken_up_anywhere(lines: list[bytes], data: st.DataObject) -> None:
    content = b"".join(line + b"\n" for line in lines)
    whole, store = scanned(content, quick=False)
    at = data.draw(st.integers(0, whole.state.lines))
    rest = EntryStore()
    rest.extend(store.raw(0, at))
    again = scan.thoroughly(MemoryFile(content), store.state(at), len(content), rest)
    assert again == whole
    assert rest.raw(0, rest.count) == store.raw(0, store.count)


@settings(max_examples=500, deadline=None)
@given(line=st.one_of(LINES, st.binary(max_size=60)))
def test_no_line_makes_the_classification_raise(line: bytes) -> None:
    record = classify(line)
    assert record.kind in RecordKind
    assert not record.flags & RecordFlag.VALIDATED


async def small_log(log: Path) -> bytes:
    """A log of every kind of record, closed."""
    engine = await JsonlEngine.open(log)
    await say(engine, "one")
    await engine.append(always(said("two"), said("three"), usage_record(9)))
    await say(engine, "é漢😀", role="assistant")
    await engine.aclose()
    return log.read_bytes()


@pytest.mark.parametrize("small", [True, False], ids=["checked at open", "checked behind"])
@pytest.mark.long
async def test_no_flipped_bit_is_accepted_in_silence(
    tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else tmp_path) as name:
        log = Path(name) / "context.jsonl"
        content = await small_log(log)
        index = (log.parent / ".context.jsonl.idx").read_bytes()
        history = await seen(log)
        if not small:
            monkeypatch.setattr(opened_log, "SMALL", 16)
        for bit in range(0, len(content) * 8, 1 if small else 5):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            with log.open("r+b") as file:
                file.write(flipped)
            (log.parent / ".context.jsonl.idx").write_bytes(index)
            engine = await JsonlEngine.open(log)
            reported = [*engine.recovery.warnings, *engine.recovery.quarantined]
            reported += await engine.validate()  # type: ignore[arg-type]
            figures.count(hostile_inputs=1)
            assert reported, f"bit {bit} was flipped and nothing said"
            strange = [
                row.body for row in engine.rows(0, 99) if row.kind == RecordKind.MESSAGE and row.body not in history
            ]
            assert not strange, f"bit {bit} was flipped and became a message"
            await engine.aclose()
            for path in log.parent.glob("*.quarantine-*"):
                path.unlink()


async def seen(log: Path) -> list[bytes]:
    engine = await JsonlEngine.open(log, access="read")
    lines = engine.read(0, engine.state.lines)
    await engine.aclose()
    return lines


async def test_no_flipped_bit_of_an_index_changes_what_is_seen(tmp_path: Path) -> None:
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else tmp_path) as name:
        log = Path(name) / "context.jsonl"
        await small_log(log)
        index = log.parent / ".context.jsonl.idx"
        content, history = index.read_bytes(), await seen(log)
        engine = await JsonlEngine.open(log, access="read")
        state = engine.state
        await engine.aclose()
        for bit in range(0, len(content) * 8, 3):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            index.write_bytes(flipped)
            engine = await JsonlEngine.open(log, access="read")
            figures.count(hostile_inputs=1)
            assert engine.state == state
            assert engine.read(0, 99) == history
            await engine.aclose()


def test_the_checksum_of_a_line_goes_on_with_its_line_feed() -> None:
    line = b'{"role":"user","content":"x"}'
    assert crc32(line + b"\n") == crc32(b"\n", crc32(line))
    assert asyncio.iscoroutinefunction(small_log)


@pytest.mark.timeout(1800)  # some ten thousand opens
@pytest.mark.parametrize("small", [True, False], ids=["checked at open", "checked behind"])
@pytest.mark.long
async def test_a_flipped_bit_costs_the_line_it_is_in_and_no_other(
    tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line feeds included; and what was forgotten of no line makes a second flip acceptable."""
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else tmp_path) as name:
        log = Path(name) / "context.jsonl"
        content = await small_log(log)
        index = (log.parent / ".context.jsonl.idx").read_bytes()
        lines = content.splitlines(keepends=True)
        if not small:
            monkeypatch.setattr(opened_log, "SMALL", 16)
        for bit in range(0, len(content) * 8, 1 if small else 5):
            hit = content[: bit // 8].count(b"\n")
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            (log.parent / ".context.jsonl.idx").write_bytes(index)
            for path in log.parent.glob("*.quarantine-*"):
                path.unlink()
            figures.count(hostile_inputs=2)
            assert await messages(log, bytes(flipped)) == others(lines, hit), f"bit {bit}"
            second = (hit + 1) % len(lines)
            at = sum(len(line) for line in lines[:second]) + 20
            flipped[at] ^= 1
            assert await messages(log, bytes(flipped)) == others(lines, hit, second), f"bits {bit} and {8 * at}"


async def messages(log: Path, content: bytes) -> list[bytes]:
    """The messages of a log whose bytes are changed in place: seen by a reader, then by a writer, which agree."""
    with log.open("r+b") as file:
        file.write(content)
    found = []
    for access in ("read", "write"):
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        await engine.validate()
        assert engine.damage() or engine.recovery.quarantined
        found.append([row.body for row in engine.rows(0, 99) if row.kind == RecordKind.MESSAGE])
        assert engine.verify() == engine.damage()
        await engine.aclose()
    assert found[0] == found[1]
    return found[0]


def others(lines: list[bytes], *hit: int) -> list[bytes]:
    kept = [line[:-1] for at, line in enumerate(lines) if at not in hit]
    return [line for line in kept if not line.startswith(b'{"role": "_usage"')]
