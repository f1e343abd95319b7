"""Reading a stored log: verification, damage, and what happens when files cannot be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.crash.storage.faults import faults
from tests.support.memory_engine import MemoryEngine
from tests.unit.storage.logs import always, keep, said, say, texts

from timeleap.errors import CorruptedError, StorageFailureError
from timeleap.storage import opened_log, reader, scan
from timeleap.storage.damage import Damage
from timeleap.storage.durable import OpenFile
from timeleap.storage.index import ENTRY_SIZE, HEADER_SIZE, EntryStore, fresh_store, index_path, save
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_files import fork_log
from timeleap.storage.log_notes import MemoryNotes
from timeleap.storage.log_values import LogState, RecordFlag
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import after_record, batch_member, message_record, usage_record


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


def member(text: str, batch: str, position: int, size: int) -> bytes:
    return batch_member(message_record({"role": "user", "content": text}), batch, position, size).body + b"\n"


def kinds(found: list[Damage]) -> list[tuple[str, int]]:
    return [(one.kind, one.line) for one in found]


WRONG = [
    (b'{"role":"user","content":"\xff"}\n', "not UTF-8: byte 26"),
    (b"{nonsense\n", "not JSON"),
    (b"[1]\n", "not an object"),
    (b'{"content":""}\n', "no role"),
    (b'{"role":"_usage","token_count":"x"}\n', "a _usage record without a usable value"),
    (b'{"role":"user","content":"","x":' + b"9" * 5000 + b"}\n", "not JSON: Exceeds the limit"),
]


@pytest.mark.parametrize("small", [True, False])
async def test_verifying_says_what_is_wrong_with_each_line(
    tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "context.jsonl"
    content = line("a") + b"".join(wrong for wrong, _ in WRONG) + b'{"role":"oracle","content":""}\n'
    log.write_bytes(content + b'{"role":"_usage","token_count":1}\n')
    if not small:
        monkeypatch.setattr(opened_log, "SMALL", 16)
    engine = await JsonlEngine.open(log)
    found = engine.verify()
    assert kinds(found) == [*(("damagedRecord", i) for i in range(1, 7)), ("notReadableByOriginal", 7)]
    for one, (_, reason) in zip(found, WRONG, strict=False):
        assert one.message.startswith(reason)
    if not small:
        assert len(engine.damage()) < 7, "some look like messages"
        await engine.validate()
    assert engine.damage() == engine.verify() == found
    monkeypatch.setattr(reader, "DAMAGE_LIMIT", 3)
    assert engine.damage() == found[:3]
    await engine.aclose()


@pytest.mark.parametrize(
    ("middle", "expected"),
    [
        (member("a", "x", 0, 2) + member("b", "x", 1, 2), []),
        (member("a", "x", 0, 2), [1]),
        (member("b", "x", 1, 2), [1]),
        (member("a", "x", 0, 3) + member("b", "x", 1, 3), [1]),
        (member("a", "x", 0, 2) + member("c", "y", 0, 2) + member("d", "y", 1, 2), [1]),
        (member("a", "x", 0, 3) + member("c", "x", 2, 3), [2]),
        (member("a", "x", 0, 3) + b"nonsense\n" + member("c", "x", 2, 3), []),
        (b"nonsense\n" + member("b", "x", 1, 3) + member("c", "x", 2, 3), []),
        (member("a", "x", 0, 3) + member("b", "x", 1, 3) + b"nonsense\n", []),
        (b"nonsense\n" + line("between") + member("b", "x", 1, 2), [3]),
        (member("a", "x", 0, 2) + b"\n" + member("b", "x", 1, 2), []),
    ],
)
async def test_a_batch_that_lacks_members_is_damage(middle: bytes, expected: list[int]) -> None:
    engine = MemoryEngine(line("before") + middle + line("after"))
    found = [one for one in engine.verify() if "batch" in one.message]
    assert [one.line for one in found] == expected
    ended = MemoryEngine(line("before") + middle)
    assert [one.line for one in ended.verify() if "batch" in one.message] == expected


async def test_each_look_at_lines_compares_them_with_what_was_written(tmp_path: Path) -> None:
    engine = await JsonlEngine.open(tmp_path / "context.jsonl")
    told = [f"{number:03}" for number in range(300)]
    await say(engine, *told)
    assert texts(engine) == texts(engine) == told
    written = engine.path.read_bytes()
    for text in (b"001", b"130", b"299"):
        engine.path.write_bytes(written.replace(b'"%b"' % text, b'"x01"'))
        with pytest.raises(CorruptedError, match=f"line {int(text)} "):
            engine.rows(0, 300)
        engine.path.write_bytes(written)
    assert texts(engine) == told
    await engine.aclose()


async def test_of_blocks_found_sound_so_many_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeleap.storage.reader._REMEMBERED", 2)
    engine = await JsonlEngine.open(tmp_path / "context.jsonl")
    told = [f"{number:03}" for number in range(5 * 128)]
    await say(engine, *told)
    for _ in range(2):
        assert texts(engine) == told
        assert 0 < len(engine._shown.log.store.sound) <= 2
    await engine.aclose()


async def test_lines_that_are_gone_are_not_taken_for_those_in_their_place(tmp_path: Path) -> None:
    file, store = OpenFile(tmp_path / "log", writable=True, create=True), EntryStore()
    gone = b"".join(line(f"{number:04}") for number in range(256))
    present = gone.replace(b'"0', b'"1')

    def log_of(content: bytes) -> StoredLog:
        file.pwrite(content, 0)
        store.truncate(0)
        return StoredLog(file.path, file, store, scan.thoroughly(file, LogState(), len(content), store).state)

    assert b"\n".join([*log_of(gone).read(0, 256), b""]) == gone
    log = log_of(present)
    file.pwrite(gone, 0)
    with pytest.raises(CorruptedError):
        log.read(0, 256)
    file.pwrite(present, 0)
    assert b"\n".join([*log.read(0, 256), b""]) == present


async def test_a_log_that_shrinks_while_it_is_read_is_corrupted(tmp_path: Path) -> None:
    engine = await JsonlEngine.open(tmp_path / "context.jsonl")
    await say(engine, "a")
    await say(engine, "b")
    os.truncate(engine.path, 40)
    with pytest.raises(CorruptedError):
        engine.read(0, 2)
    assert engine.read(0, 1)
    assert kinds(engine.verify()) == [("checksumMismatch", 1)]
    os.truncate(index_path(engine.path), 70)
    with pytest.raises(CorruptedError, match="shorter than it was"):
        engine.entries(0, 2)
    await engine.aclose()


async def test_what_cannot_be_listed_or_looked_at_is_a_storage_failure(tmp_path: Path) -> None:
    engine = await JsonlEngine.open(tmp_path / "context.jsonl")
    done = await keep(engine, 0)
    with faults(errno.EIO, 1, onwards=True, calls=("listdir",)):
        for ask in (
            engine.timelines,
            lambda: engine.timeline("context_1"),
            lambda: engine.remove_timeline("context_1"),
        ):
            with pytest.raises(StorageFailureError):
                ask()
    with faults(errno.EACCES, 1, onwards=True, calls=("open",)):
        with pytest.raises(StorageFailureError, match="read the timeline"):
            engine.timeline(done.timeline_id)
        assert engine.timelines()[0].messages == 0, "counts are a courtesy"
    with faults(errno.EACCES, 1, onwards=True, calls=("unlink",)), pytest.raises(StorageFailureError, match="remove"):
        engine.remove_timeline(done.timeline_id)
    engine.remove_timeline(done.timeline_id)
    assert engine.timelines() == []
    await engine.aclose()


async def test_an_index_of_a_timeline_that_cannot_be_kept_is_no_failure(tmp_path: Path) -> None:
    engine = await JsonlEngine.open(tmp_path / "context.jsonl")
    (tmp_path / "context_3.jsonl").write_bytes(line("a"))
    with faults(errno.ENOSPC, 1, onwards=True, calls=("pwrite", "replace")):
        assert engine.timelines()[0].messages == 1
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]
    with faults(errno.ENOSPC, 1, onwards=True, calls=("pwrite",)), pytest.raises(OSError, match="No space"):
        save(EntryStore(), tmp_path / "x", 5, parsed=True)
    await engine.aclose()


async def test_an_index_that_cannot_be_made_is_kept_in_memory(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    log.write_bytes(line("a"))
    with faults(errno.ENOSPC, 1, onwards=True, calls=("replace",)):
        engine = await JsonlEngine.open(log)
        await say(engine, "b")
        assert texts(engine) == ["a", "b"]
        await engine.aclose()
    assert not index_path(log).exists()
    with faults(errno.ENOSPC, 1, onwards=True, calls=("pwrite",)):
        engine = await JsonlEngine.open(log)
        await say(engine, "c")
        assert texts(engine) == ["a", "b", "c"]
        await engine.aclose()
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["a", "b", "c"]
    await engine.aclose()


async def test_a_fork_that_fails_leaves_nothing(tmp_path: Path) -> None:
    engine = await JsonlEngine.open(tmp_path / "context.jsonl")
    await say(engine, "a")
    target = tmp_path / "fork"
    target.mkdir()
    for first in range(1, 20):
        with faults(
            errno.ENOSPC, first, calls=("open", "pwrite", "copy_file_range", "replace", "fsync", "fdatasync")
        ) as faulty:
            try:
                fork_log(engine.view, 1, target / "log.jsonl")
            except StorageFailureError:
                assert list(target.iterdir()) == []
        if not faulty.failed:
            break
        for left in target.iterdir():  # what failed was only the index
            left.unlink()
    assert first > 4
    assert (target / "log.jsonl").read_bytes() == line("a")
    await engine.aclose()


def test_the_state_after_a_planned_record_is_the_state_it_gets() -> None:
    async def check() -> None:
        engine = MemoryEngine()
        for record in (said("abc"), usage_record(5), said("d", role="assistant")):
            planned = after_record(engine.state, record)
            await engine.append(always(record))
            assert engine.state == planned
        assert engine.entries(0, 1)[0].flags == RecordFlag.VALIDATED
        assert MemoryEngine(access="read").recovery.modified is False

    import asyncio

    asyncio.run(check())


def test_notes_in_memory_keep_the_highest_number() -> None:
    notes = MemoryNotes()
    notes.remember(rotation=5)
    notes.remember(rotation=3)
    assert (notes.rotation, notes.epoch, notes.facts("context_1")) == (5, 0, None)


def test_entries_that_are_put_replace_those_from_there_on(tmp_path: Path) -> None:
    def entries(*numbers: int) -> bytes:
        return b"".join(bytes([number]) * ENTRY_SIZE for number in numbers)

    store = fresh_store(tmp_path / "log")
    store.put(0, entries(1, 2))
    assert store.raw(1, 2) == entries(2), "which is remembered, with its neighbours"
    store.put(2, entries(3))
    store.put(1, entries(4, 5))
    assert store.count == 3
    assert store.raw(0, 3) == entries(1, 4, 5)
    assert store.raw(1, 2) == entries(4)
    assert index_path(tmp_path / "log").stat().st_size == HEADER_SIZE + 3 * ENTRY_SIZE


def test_names_of_timelines_are_told_from_others_like_them(tmp_path: Path) -> None:
    ours = ["context_1.jsonl", "context_01.jsonl", f"context_{'9' * 18}.jsonl"]
    seeds = ["context.jsonl.3"]
    others = [
        "context_.jsonl",
        "context_\uff11.jsonl",
        f"context_{'9' * 19}.jsonl",
        "context_-1.jsonl",
        "context_1_2.jsonl",
    ]
    others += [
        "context_1.jsonl.3",
        "context.jsonl.",
        "context.jsonl",
        ".context_1.jsonl.idx",
        "context_1",
        "xcontext_1.jsonl",
    ]
    for name in ours + seeds + others:
        (tmp_path / name).touch()
    found = reader.timeline_names(tmp_path / "context.jsonl")
    assert sorted(name.path.name for name in found if not name.foreign) == sorted(ours)
    assert [(name.path.name, name.number) for name in found if name.foreign] == [("context.jsonl.3", 3)]
    assert [name.number for name in found] == [10**18 - 1, 1, 1, 3]
