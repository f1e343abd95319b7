"""Opening a log: its index, its end, and what is not a log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.storage.logs import always, count, hidden, keep, mark, names, records, restore, said, say, texts

from timeleap.errors import ExternallyModifiedError, ReadOnlyError, StorageFailureError
from timeleap.storage import durable, opened_log, scan
from timeleap.storage.index import ENTRY_SIZE, HEADER_SIZE, index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_notes import MemoryNotes
from timeleap.storage.log_values import LogState, RecordKind
from timeleap.storage.owner_lock import LockMode
from timeleap.storage.record import message_record


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


async def written(log: Path, *said_texts: str) -> LogState:
    """A closed log with messages."""
    engine = await JsonlEngine.open(log)
    for text in said_texts:
        await say(engine, text)
    await engine.aclose()
    return engine.state


async def test_a_new_log_is_there_at_once_for_its_owner_only(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    assert names(log.parent) == ["context.jsonl"]
    assert hidden(log.parent) == [".context.jsonl.idx", ".context.jsonl.lock"]
    await engine.aclose()
    other = log.parent / "other.jsonl"
    engine = await JsonlEngine.open(other, lock="per-write")
    assert not other.exists()
    await say(engine, "first")
    assert other.read_bytes() == line("first")
    await engine.aclose()


async def test_a_log_may_have_any_name(tmp_path: Path) -> None:
    for name in ("history", "a.b.c.txt", "context_7.jsonl", "[x]*.jsonl"):
        folder = tmp_path / name
        folder.mkdir()
        engine = await JsonlEngine.open(folder / name)
        await say(engine, "a")
        done = await keep(engine, 0)
        await restore(engine, done.timeline_id)
        path = Path(name)
        assert names(folder) == sorted([name, f"{path.stem}_1{path.suffix}", f"{path.stem}_2{path.suffix}"])
        await engine.aclose()


async def test_reading_writes_nothing_and_takes_no_lock(log: Path) -> None:
    for content in (None, b"", line("a"), line("a") + b'{"role":"us', line("a")[:-1]):
        if content is not None:
            log.write_bytes(content)
        before = {path.name: path.read_bytes() for path in log.parent.iterdir()}
        engine = await JsonlEngine.open(log, access="read")
        assert texts(engine) == (["a"] if content else [])
        assert engine.recovery.cut_bytes == 0
        engine.verify()
        await engine.validate_in_background()
        for change in (say(engine, "b"), keep(engine, 0), engine.run(lambda _: pytest.fail("was run"))):
            with pytest.raises(ReadOnlyError):
                await change
        with pytest.raises(ReadOnlyError):
            engine.remove_timeline("context_1")
        await engine.reload()
        await engine.aclose()
        assert {path.name: path.read_bytes() for path in log.parent.iterdir()} == before


@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
@pytest.mark.parametrize("access", ["read", "write"])
async def test_what_is_no_file_is_refused(log: Path, kind: str, access: str) -> None:
    match kind:
        case "link":
            log.symlink_to(log.parent / "elsewhere")
        case "directory":
            log.mkdir()
        case _:
            os.mkfifo(log)
    with pytest.raises(StorageFailureError, match="must be a regular file"):
        await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
    assert not (log.parent / "elsewhere").exists()


async def test_a_lock_that_is_no_file_is_refused(log: Path) -> None:
    os.mkfifo(log.parent / ".context.jsonl.lock")
    with pytest.raises(StorageFailureError, match="must be a regular file"):
        await JsonlEngine.open(log)


async def test_an_index_that_is_no_file_is_left_alone(log: Path) -> None:
    log.write_bytes(line("a"))
    os.mkfifo(index_path(log))
    engine = await JsonlEngine.open(log, access="read")
    assert texts(engine) == ["a"]
    await engine.aclose()


async def test_a_store_that_cannot_be_written_can_be_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await written(log, "a")
    real = durable.open_regular

    def read_only(path: Path, flags: int) -> int:
        if flags & (os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system", str(path))
        return real(path, flags)

    monkeypatch.setattr(durable, "open_regular", read_only)
    with pytest.raises(StorageFailureError, match="Read-only file system") as caught:
        await JsonlEngine.open(log)
    assert caught.value.data["errno"] == "EROFS"
    engine = await JsonlEngine.open(log, access="read")
    assert texts(engine) == ["a"]
    await engine.aclose()


# The end of the log


@pytest.mark.parametrize("cut", range(1, 32))
async def test_a_torn_tail_is_cut_kept_and_reported(log: Path, cut: int) -> None:
    whole, torn = line("whole"), line("x" * 8)[:cut]
    log.write_bytes(whole + torn)
    engine = await JsonlEngine.open(log)
    await say(engine, "next")
    complete = len(torn) == len(line("x" * 8)) - 1
    assert texts(engine) == (["whole", "x" * 8, "next"] if complete else ["whole", "next"])
    if not complete:
        (piece,) = engine.recovery.quarantined
        assert (piece.offset, piece.bytes, piece.reason) == (len(whole), cut, "tornTail")
        assert engine.recovery.cut_bytes == cut
        assert piece.file.startswith(f"context.jsonl.quarantine-{len(whole)}-")
        assert (log.parent / piece.file).read_bytes() == torn
        assert (log.parent / piece.file).stat().st_mode & 0o777 == 0o600
    await engine.aclose()
    assert log.read_bytes().endswith(b"\n" + line("next"))


async def test_a_record_without_line_feed_gets_one_with_the_next_write(log: Path) -> None:
    log.write_bytes(line("a") + line("b")[:-1])
    engine = await JsonlEngine.open(log)
    assert engine.recovery.quarantined == ()
    assert texts(engine) == ["a", "b"]
    assert log.read_bytes() == line("a") + line("b")[:-1], "opening adds nothing"
    done = await say(engine, "c")
    assert (done.before.messages, done.after.messages) == (2, 3)
    assert log.read_bytes() == line("a") + line("b") + line("c")
    assert engine.verify() == []
    state = engine.state
    await engine.aclose()
    index_path(log).unlink()
    again = await JsonlEngine.open(log)
    assert again.state == state
    await again.aclose()


async def test_a_restored_log_without_line_feed_is_not_glued_to(log: Path) -> None:
    log.write_bytes(line("live"))
    (log.parent / "context_4.jsonl").write_bytes(line("a") + line("b")[:-1])
    engine = await JsonlEngine.open(log)
    await restore(engine, "context_4")
    assert log.read_bytes() == line("a") + line("b")[:-1]
    kept = await keep(engine, 9)
    assert log.read_bytes() == line("a") + line("b")[:-1]
    await keep(engine, 9, said("c"))
    assert log.read_bytes() == line("a") + line("b") + line("c")
    assert (log.parent / f"{kept.timeline_id}.jsonl").read_bytes() == line("a") + line("b")[:-1]
    assert engine.verify() == []
    await engine.aclose()


async def test_an_append_of_nothing_leaves_a_log_without_line_feed_as_it_is(log: Path) -> None:
    log.write_bytes(line("a")[:-1])
    engine = await JsonlEngine.open(log)
    done = await engine.append(lambda _: [])
    assert (done.before, done.after, done.head) == (engine.state, engine.state, engine.head)
    assert log.read_bytes() == line("a")[:-1]
    await engine.aclose()


async def test_the_end_that_got_its_line_feed_from_another_is_seen(log: Path) -> None:
    log.write_bytes(line("a")[:-1])
    follower = await JsonlEngine.open(log, access="read")
    with log.open("ab") as file:
        file.write(b"\n" + line("b"))
    assert await follower.refresh()
    assert texts(follower) == ["a", "b"]
    assert follower.state.length == log.stat().st_size
    assert follower.verify() == []
    await follower.aclose()


@pytest.mark.parametrize("present", [1, 2])
async def test_an_incomplete_batch_is_cut_as_one_piece(log: Path, present: int) -> None:
    engine = await JsonlEngine.open(log)
    await say(engine, "before")
    await engine.append(always(said("a"), said("b"), said("c")))
    await engine.aclose()
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: 1 + present]) + b'{"torn')
    for access in ("read", "write"):
        index_path(log).unlink(missing_ok=True)
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        assert texts(engine) == ["before"]
        assert engine.verify() == []
        await engine.aclose()
    (piece,) = engine.recovery.quarantined
    assert piece.reason == "incompleteBatch"
    assert (log.parent / piece.file).read_bytes() == b"".join(lines[1 : 1 + present]) + b'{"torn'


async def test_the_same_bytes_are_quarantined_once(log: Path) -> None:
    for _ in range(2):
        log.write_bytes(line("a") + b'{"torn')
        index_path(log).unlink(missing_ok=True)
        await (await JsonlEngine.open(log)).aclose()
    log.write_bytes(line("a") + b'{"other')
    await (await JsonlEngine.open(log)).aclose()
    assert len(list(log.parent.glob("*.quarantine-*"))) == 2


async def test_what_another_killed_process_left_is_removed(log: Path) -> None:
    await written(log, "a")
    stray = [
        ".context.jsonl.0123456789abcdef.tmp",
        ".context.jsonl.idx.0123456789abcdef.tmp",
        ".context_3.jsonl.0123456789abcdef.tmp",
    ]
    theirs = [
        ".other.jsonl.0123456789abcdef.tmp",
        ".context.jsonl.tmp",
        ".context.jsonl.0123456789abcdeg.tmp",
        "context.tmp",
    ]
    for name in stray + theirs:
        (log.parent / name).write_text("x")
    await (await JsonlEngine.open(log)).aclose()
    left = {path.name for path in log.parent.iterdir()}
    assert left.isdisjoint(stray)
    assert left.issuperset(theirs)


async def test_a_missing_log_with_timelines_is_not_an_empty_session(log: Path) -> None:
    (log.parent / "context_1.jsonl").write_bytes(line("all there was"))
    for access in ("read", "write", "write"):
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        assert [one.kind for one in engine.recovery.warnings] == ["logMissing"]
        assert not log.exists(), "nothing pretends to be the log"
        await engine.aclose()
    engine = await JsonlEngine.open(log)
    await restore(engine, "context_1")
    assert texts(engine) == ["all there was"]
    await engine.aclose()


# The index


async def rebuilt_states(log: Path) -> LogState:
    """The state of a log as a scan finds it."""
    copy = log.parent / "copy"
    copy.mkdir()
    shutil.copy(log, copy / "context.jsonl")
    engine = await JsonlEngine.open(copy / "context.jsonl", access="read")
    await engine.aclose()
    shutil.rmtree(copy)
    return engine.state


async def test_the_index_tells_the_same_as_a_scan(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    for i in range(10):
        await mark(engine)
        await say(engine, f"m{i}", "é" * i)
        await count(engine, i)
    await keep(engine, 25, said("after"))
    assert engine.state == await rebuilt_states(log)
    entries = engine.entries(0, 99)
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert again.entries(0, 99) == entries
    assert not again.recovery.index_rebuilt
    await again.aclose()
    index_path(log).unlink()
    again = await JsonlEngine.open(log)
    assert again.entries(0, 99) == entries
    assert again.recovery.index_rebuilt
    await again.aclose()


@pytest.mark.parametrize(
    "damage", ["empty", "header", "truncated", "half an entry", "garbage", "another log's", "too long"]
)
async def test_a_damaged_index_is_never_believed(log: Path, damage: str) -> None:
    state = await written(log, *(f"message {i}" for i in range(20)))
    index = index_path(log)
    content = index.read_bytes()
    match damage:
        case "empty":
            index.write_bytes(b"")
        case "header":
            index.write_bytes(b"X" + content[1:])
        case "truncated":
            index.write_bytes(content[: HEADER_SIZE + 7 * ENTRY_SIZE])
        case "half an entry":
            index.write_bytes(content[:-30])
        case "garbage":
            index.write_bytes(content[:HEADER_SIZE] + os.urandom(len(content) - HEADER_SIZE))
        case "another log's":
            other = log.parent / "other.jsonl"
            await written(other, *(f"another {i}" for i in range(20)))
            shutil.copy(index_path(other), index)
        case _:
            index.write_bytes(content + content[-ENTRY_SIZE:])
    for access in ("read", "write"):
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        assert engine.state == state
        assert texts(engine) == [f"message {i}" for i in range(20)]
        assert engine.verify() == []
        await engine.aclose()


async def test_an_entry_damaged_while_the_log_is_open_is_mended(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    for i in range(20):
        await say(engine, f"m{i}")
    index = index_path(log)
    content = bytearray(index.read_bytes())
    content[HEADER_SIZE + 5 * ENTRY_SIZE + 40] ^= 1
    with index.open("r+b") as file:
        file.write(content)
    assert texts(engine) == [f"m{i}" for i in range(20)]
    await say(engine, "next")
    state = engine.state
    assert engine.line_of_message(20) == 20
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert again.state == state
    assert not again.recovery.index_rebuilt
    await again.aclose()


async def test_an_index_cut_while_the_log_is_open_is_mended(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    await say(engine, "a")
    await say(engine, "b")
    os.truncate(index_path(log), HEADER_SIZE)
    assert engine.line_of_message(1) == 1
    assert texts(engine) == ["a", "b"]
    await engine.aclose()


async def test_lines_appended_behind_the_index_are_scanned(log: Path) -> None:
    await written(log, "a")
    with log.open("ab") as file:
        file.write(line("b") + b"\n" + line("c"))
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["a", "b", "c"]
    assert not engine.recovery.index_rebuilt
    assert [entry.kind for entry in engine.entries(0, 9)][2] == RecordKind.BLANK
    await engine.aclose()


async def test_a_log_shorter_than_its_index_is_taken_as_it_is_when_somebody_says_so(log: Path) -> None:
    await written(log, "a", "b", "c")
    os.truncate(log, len(line("a")) * 2)
    for access in ("read", "write", "write"):
        engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
        assert texts(engine) == ["a", "b"]
        assert [(one.kind, one.offset, one.bytes) for one in engine.recovery.warnings] == [("linesLost", 60, 30)]
        if access == "write":
            with pytest.raises(ExternallyModifiedError, match=r"lacks 1 message .*session/reload"):
                await say(engine, "d")
        await engine.aclose()
    engine = await JsonlEngine.open(log)
    await engine.reload()
    await say(engine, "d")
    await engine.aclose()
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["a", "b", "d"]
    assert engine.recovery.warnings == ()
    await engine.aclose()


async def test_a_log_with_another_inode_is_scanned(log: Path) -> None:
    await written(log, "aaaa", "bbbb", "cccc")
    content = log.read_bytes().replace(b"bbbb", b"BBBB")
    durable.atomic_write(log, content)
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["aaaa", "BBBB", "cccc"]
    assert engine.recovery.index_rebuilt
    assert engine.recovery.warnings == ()
    await engine.aclose()


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("access", ["read", "write"])
async def test_a_line_that_is_not_what_was_written_is_damaged(
    log: Path, small: bool, access: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(log, *(f"message {i}" for i in range(20)))
    with log.open("r+b") as file:
        content = file.read()
        file.seek(content.index(b"message 3") + 8)
        file.write(b"9")
    if not small:
        monkeypatch.setattr(opened_log, "SMALL", 10)
    engine = await JsonlEngine.open(log, access=access)  # type: ignore[arg-type]
    head = engine.head
    if not small:
        assert engine.recovery.warnings == ()
        with pytest.raises(Exception, match=r"line 3 of context\.jsonl is not what was written"):
            engine.read(0, 20)
        assert engine.read(4, 20)
        assert [one.kind for one in engine.verify()] == ["checksumMismatch"]
        told: list[int] = []
        engine.watch(lambda: told.append(1))
        (found,) = await engine.validate_in_background()
        assert told == [1]
        assert engine.head != head
    else:
        (found,) = engine.recovery.warnings
        assert await engine.validate_in_background() == []
    assert (found.kind, found.line) == ("checksumMismatch", 3)
    assert texts(engine) == [f"message {i}" for i in range(20) if i != 3]
    assert engine.damage() == engine.verify() == [found]
    await engine.aclose()
    monkeypatch.undo()
    again = await JsonlEngine.open(log)
    assert list(again.recovery.warnings) == [found], "it stays so"
    await again.reload()
    assert again.recovery.warnings == ()
    assert "message 9" in texts(again), "a reload takes the log as it is"
    await again.aclose()


async def test_a_large_log_is_validated_behind_the_sessions_back(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_bytes(
        line("a")
        + b'{"role":"user","content":"broken\xff"}\n'
        + line("b")
        + b'{"role":"user","content":"x","name":5}\n{"role":"_usage","token_count":3}\n'
    )
    monkeypatch.setattr(opened_log, "SMALL", 10)
    engine = await JsonlEngine.open(log)
    assert engine.state.messages == 4, "told by its first bytes"
    assert engine.recovery.index_rebuilt
    with pytest.raises(Exception, match="line 1"):
        engine.read(0, 4)
    appended = say(engine, "meanwhile")
    found = await engine.validate_in_background()
    await appended
    assert [(one.kind, one.line) for one in found] == [("damagedRecord", 1), ("notReadableByOriginal", 3)]
    assert await engine.validate() == []
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert again.state.messages == 4
    assert not again.recovery.index_rebuilt
    await again.aclose()


async def test_progress_is_told_of_a_long_scan(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BLOCK", 1000)
    monkeypatch.setattr(scan, "_BUFFER", 500)
    log.write_bytes(line("x" * 100) * 100)
    told: list[tuple[int, int]] = []
    engine = await JsonlEngine.open(log, progress=lambda done, total: told.append((done, total)))
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1] == (log.stat().st_size, log.stat().st_size)
    told.clear()
    engine.verify(lambda done, total: told.append((done, total)))
    assert told[-1] == (log.stat().st_size, log.stat().st_size)
    await engine.aclose()


async def test_the_head_survives_a_restart_and_the_loss_of_the_index(log: Path) -> None:
    notes = MemoryNotes()
    engine = await JsonlEngine.open(log, notes=notes)
    await say(engine, "a")
    await keep(engine, 1)
    await say(engine, "b")
    head = engine.head
    await engine.aclose()
    for _ in range(2):
        engine = await JsonlEngine.open(log, notes=notes)
        assert engine.head == head
        await engine.aclose()
        reader = await JsonlEngine.open(log, access="read", notes=notes)
        assert reader.head == head
        await reader.aclose()
        index_path(log).unlink(missing_ok=True)


async def test_another_past_of_the_same_length_has_another_head(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    first = (await say(engine, "a")).head
    await engine.aclose()
    log.write_bytes(b"")  # as after a power failure that lost what was not synced
    index_path(log).unlink()
    engine = await JsonlEngine.open(log)
    assert (await say(engine, "b")).head != first
    await engine.aclose()


async def test_texts_are_records_and_records_texts(log: Path) -> None:
    log.write_bytes(b'{"role": "user",\t"content": "a\tb"}\r\n{"role":"user","content":"c","x":NaN}\n')
    engine = await JsonlEngine.open(log)
    assert texts(engine) == ["a\tb", "c"]
    assert records(engine)[1] == {"role": "user", "content": "c", "x": None}
    await keep(engine, 9)
    assert log.read_bytes().startswith(b'{"role": "user",\t"content": "a\tb"}\r\n{"role":"user","content":"c","x":NaN}')
    await engine.aclose()


async def test_damage_is_not_accepted_by_a_writer_that_takes_the_lock_for_each_write(log: Path) -> None:
    await written(log, "aaaa", "bbbb", "cccc")
    with log.open("r+b") as file:
        file.write(log.read_bytes().replace(b"bbbb", b"bbxb"))
    engine = await JsonlEngine.open(log, lock="per-write")
    await say(engine, "dddd")
    assert texts(engine) == ["aaaa", "cccc", "dddd"]
    assert [one.kind for one in engine.recovery.warnings] == ["checksumMismatch"]
    await engine.aclose()


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("how", ["missing", "twice", "swapped", "foreign", "zeros", "cut at the end", "cut short"])
async def test_lines_that_are_not_as_they_were_written_are_reported(
    log: Path, small: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(log, *("x" * i + str(i) for i in range(30)))
    lines = log.read_bytes().splitlines(keepends=True)
    match how:
        case "missing":
            del lines[10]
        case "twice":
            lines.insert(10, lines[10])
        case "swapped":
            lines[10], lines[11] = lines[11], lines[10]
        case "foreign":
            lines.insert(10, line("never said"))
        case "zeros":
            lines[10:13] = [b"\0" * len(b"".join(lines[10:13]))]
        case "cut at the end":
            del lines[20:]
        case _:
            lines[20:] = [lines[20][:9]]
    with log.open("r+b") as file:
        file.write(b"".join(lines))
        file.truncate()
    if not small:
        monkeypatch.setattr(opened_log, "SMALL", 16)
    engine = await JsonlEngine.open(log)
    reported = [*engine.recovery.warnings, *await engine.validate_in_background()]
    lost = how in ("missing", "cut at the end", "cut short")
    assert ("linesLost" if lost else "notAsWritten") in [one.kind for one in reported] or (how == "zeros" and reported)
    if lost:
        await engine.reload()
    assert engine.state.length == sum(map(len, lines)) - (9 if how == "cut short" else 0)
    await say(engine, "goes on")
    await engine.aclose()
    again = await JsonlEngine.open(log)
    assert "notAsWritten" not in [one.kind for one in again.recovery.warnings]
    assert not await again.validate()
    await again.aclose()


# What is lost


def older_file(log: Path) -> None:
    """Put an older version of a log in its place, as a sync program does."""
    durable.atomic_write(log, log.read_bytes()[: len(line("a"))])


LOSSES: dict[str, Callable[[Path], object]] = {
    "cut": lambda log: os.truncate(log, len(line("a"))),
    "cut within a line": lambda log: os.truncate(log, len(line("a")) + 9),
    "emptied": lambda log: os.truncate(log, 0),
    "made anew": lambda log: durable.atomic_write(log, b""),
    "an older file": older_file,
    "another end": lambda log: durable.atomic_write(log, line("a") + line("x") + line("y") + line("z")),
    "gone": Path.unlink,
    "moved away": lambda log: log.rename(log.with_name(".context.jsonl.icloud")),
}


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("lock", ["hold", "per-write"])
async def test_a_loss_is_told_until_somebody_accepts_it(log: Path, how: str, lock: LockMode) -> None:
    await written(log, "a", "b", "c")
    LOSSES[how](log)
    there = log.read_bytes() if log.exists() else None
    for _ in range(2):
        reader = await JsonlEngine.open(log, access="read")
        assert reader.recovery.lost is not None
        await reader.aclose()
        engine = await JsonlEngine.open(log, lock=lock)
        for _ in range(2):
            with pytest.raises(ExternallyModifiedError, match="session/reload"):
                await say(engine, "d")
        with pytest.raises(ExternallyModifiedError):
            await keep(engine, 0)
        await engine.aclose()
        assert (log.read_bytes() if log.exists() else None) == there, "nothing is written"
    engine = await JsonlEngine.open(log, lock=lock)
    follower = await JsonlEngine.open(log, access="read")
    assert not await follower.refresh()
    await engine.reload()
    await follower.catch_up()
    assert (engine.recovery.lost, follower.recovery.lost) == (None, None)
    left = texts(engine)
    await say(engine, "d")
    await engine.aclose()
    await follower.aclose()
    engine = await JsonlEngine.open(log)
    assert (texts(engine), engine.recovery.lost, engine.recovery.warnings) == ([*left, "d"], None, ())
    await engine.aclose()


async def test_a_log_that_is_cut_while_an_object_has_it_open_is_not_gone_on_with(log: Path) -> None:
    for lock in ("hold", "per-write"):
        engine = await JsonlEngine.open(log, lock=lock)  # type: ignore[arg-type]
        await say(engine, "a")
        os.truncate(log, 0)
        with pytest.raises(ExternallyModifiedError):
            await say(engine, "b")
        await engine.reload()
        await engine.aclose()


async def test_a_rewrite_of_the_original_is_no_loss(log: Path) -> None:
    await written(log, "a", "b", "c")
    log.rename(log.with_name("context_1.jsonl"))
    log.write_bytes(line("a"))
    engine = await JsonlEngine.open(log)
    assert (texts(engine), engine.recovery.lost, engine.recovery.warnings) == (["a"], None, ())
    await say(engine, "goes on")
    await engine.aclose()


@pytest.mark.parametrize("how", ["edited", "a line before", "another index", "an older index", "spaced"])
async def test_what_is_no_loss_is_not_called_one(log: Path, how: str) -> None:
    await written(log, "a", "b")
    old = index_path(log).read_bytes()
    await written(log, "c")
    match how:
        case "edited":
            durable.atomic_write(log, line("a") + line("a longer one") + line("c"))
        case "a line before":
            durable.atomic_write(log, line("first") + log.read_bytes())
        case "another index":
            other = log.with_name("other.jsonl")
            await written(other, *"defghijk")
            shutil.copy(index_path(other), index_path(log))
        case "an older index":
            index_path(log).write_bytes(old)
        case _:
            durable.atomic_write(log, log.read_bytes().replace(b":", b": "))
    engine = await JsonlEngine.open(log)
    assert engine.recovery.lost is None
    await say(engine, "goes on")
    await engine.aclose()


async def test_without_syncs_a_power_failure_is_told_and_the_log_goes_on(log: Path) -> None:
    engine = await JsonlEngine.open(log, durability="os")
    await say(engine, "a")
    await say(engine, "b")
    await engine.aclose()
    os.truncate(log, len(line("a")))
    engine = await JsonlEngine.open(log, durability="os")
    assert [one.kind for one in engine.recovery.warnings] == ["linesLost"]
    await say(engine, "c")
    await engine.aclose()
