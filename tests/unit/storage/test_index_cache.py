"""The indexes that readers keep in the user's cache folder, for logs with none beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.storage.logs import texts

from timeleap.storage import index_cache, opened_log, scan
from timeleap.storage.index import HEADER_SIZE, index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_values import LogState
from timeleap.storage.record import message_record, usage_record

Scans = list[int]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "foreign" / "context.jsonl"
    path.parent.mkdir()
    path.write_bytes(lines(200))
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, and logs of more than 100 bytes are large."""
    monkeypatch.setattr(index_cache, "directory", lambda: tmp_path / "cache" / "indexes")
    monkeypatch.setattr(opened_log, "SMALL", 100)
    return tmp_path / "cache" / "indexes"


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    """The bytes that were scanned, call by call."""
    found: Scans = []

    def noting(scanning: Callable[..., object]) -> Callable[..., object]:
        def noted(file: object, state: LogState, size: int, *args: object, **options: object) -> object:
            found.append(size - state.length)
            return scanning(file, state, size, *args, **options)

        return noted

    for name in ("thoroughly", "quickly"):
        monkeypatch.setattr(scan, name, noting(getattr(scan, name)))
    return found


def lines(count: int, first: int = 0) -> bytes:
    """Messages, and a record of usage at the end: what comes after the last one is read again, to count it."""
    records = [message_record({"role": "user", "content": f"text {n:06}"}) for n in range(first, first + count)]
    return b"".join(record.body + b"\n" for record in [*records, usage_record(1)])


async def look(log: Path) -> list[str]:
    """What a reader of a log sees; what there is to say about the log is nothing."""
    engine = await JsonlEngine.open(log, access="read")
    try:
        assert engine.recovery.warnings == ()
        return texts(engine)
    finally:
        await engine.aclose()


def said(count: int) -> list[str]:
    return [f"text {n:06}" for n in range(count)]


async def test_a_second_look_is_no_scan_and_leaves_the_directory_alone(log: Path, cache: Path, scans: Scans) -> None:
    assert await look(log) == said(200)
    assert sum(scans) == log.stat().st_size
    scans.clear()
    assert await look(log) == said(200)
    assert sum(scans) == 0
    assert os.listdir(log.parent) == ["context.jsonl"]
    assert len(os.listdir(cache)) == 1


@pytest.mark.parametrize("ticks", [0, 1])
async def test_of_a_log_that_has_grown_only_the_rest_is_scanned(
    log: Path, cache: Path, scans: Scans, ticks: int
) -> None:
    await look(log)
    then = log.stat().st_mtime_ns
    with log.open("ab") as file:
        file.write(lines(50, 200))
    os.utime(log, ns=(then + ticks, then + ticks))
    scans.clear()
    assert await look(log) == said(250)
    assert sum(scans) == len(lines(50, 200))
    scans.clear()
    assert await look(log) == said(250)
    assert sum(scans) == 0


async def test_a_log_written_anew_at_the_same_size_is_scanned(log: Path, cache: Path) -> None:
    await look(log)
    there = log.stat()
    with log.open("r+b") as file:  # the same file, the same size, the same end
        file.write(lines(1, 7).splitlines(keepends=True)[0])
    os.utime(log, ns=(there.st_atime_ns, there.st_mtime_ns + 1))
    assert await look(log) == ["text 000007", *said(200)[1:]]


async def test_a_log_cut_off_by_its_own_program_is_taken_as_it_is(log: Path, cache: Path) -> None:
    await look(log)
    log.write_bytes(lines(90))
    assert await look(log) == said(90)
    log.unlink()
    log.write_bytes(lines(300))
    assert await look(log) == said(300)


async def test_a_damaged_cache_costs_a_scan_and_nothing_else(log: Path, cache: Path) -> None:
    await look(log)
    (kept,) = cache.iterdir()
    whole, there = kept.read_bytes(), kept.stat()
    for at in (0, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 30, len(whole) // 2, len(whole) - 40, len(whole) - 1):
        kept.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        os.utime(kept, ns=(there.st_atime_ns, there.st_mtime_ns))
        assert await look(log) == said(200), at
    for damaged in (b"", whole[:HEADER_SIZE], whole[: len(whole) // 2], whole + b"\0" * 7):
        kept.write_bytes(damaged)
        os.utime(kept, ns=(there.st_atime_ns, there.st_mtime_ns))
        assert await look(log) == said(200)


async def test_where_nothing_can_be_kept_a_look_works(log: Path, cache: Path) -> None:
    cache.parent.write_text("a file in the place of the folder")
    assert await look(log) == said(200)
    assert await look(log) == said(200)


async def test_an_index_beside_the_log_is_enough_and_a_small_log_needs_none(log: Path, cache: Path) -> None:
    engine = await JsonlEngine.open(log)
    await engine.aclose()
    assert index_path(log).exists()
    await look(log)
    small = log.parent / "small.jsonl"
    small.write_bytes(lines(1))
    await look(small)
    assert not cache.exists()


async def test_the_cache_is_bounded_in_files_and_bytes(log: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cache, "FILES", 5)
    cache.mkdir(parents=True)
    stranger = cache / "notes.txt"
    stranger.write_text("not ours")
    for number in range(9):
        copy = log.parent / f"log{number}.jsonl"
        copy.write_bytes(lines(100))
        await look(copy)
    kept = {path.name for path in cache.iterdir()}
    assert len(kept) == 6
    assert stranger.name in kept
    monkeypatch.setattr(index_cache, "BYTES", 30_000)
    await look(log)  # 16 000 bytes, and those of the others 8 000 each
    assert sum(path.stat().st_size for path in cache.iterdir()) <= 30_000
    assert len(list(cache.iterdir())) == 3
