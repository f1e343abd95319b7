"""Every N-th system call fails, once or for good: nothing acknowledged is lost, memory and disk agree, it goes on."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.storage.faults import CHANGING, READING, FaultyOs, faults
from tests.crash.storage.workloads import OPERATIONS, Log, lines_of, prepare
from tests.support.mostly_long import mostly_long
from tests.unit.storage.logs import say

from timeleap.errors import TimeleapError
from timeleap.storage.appending import UnwritableError
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.reader import same_as_live

CODES = [errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EDQUOT, errno.EROFS, errno.EACCES]
LIMIT = 200  # more calls than any operation makes


@pytest.fixture
def folder() -> Iterator[Path]:
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as name:
        yield Path(name)


async def on_disk(log: Path) -> Log:
    """What a reader finds."""
    reader = await JsonlEngine.open(log, access="read")
    lines = lines_of(reader)
    await reader.aclose()
    return lines


async def kept(engine: JsonlEngine) -> set[Log]:
    """The timelines' lines."""
    return {lines_of(engine.timeline(one.timeline_id)) for one in engine.timelines()}  # type: ignore[arg-type]


async def try_one(folder: Path, name: str, faulty: FaultyOs, first: int) -> list[str]:
    """Do an operation whose call number `first` fails; says what is wrong afterwards."""
    log = folder / "context.jsonl"
    engine = await JsonlEngine.open(log)
    before, head = lines_of(engine), engine.head
    faulty.begin(first)
    error: Exception | None = None
    try:
        await OPERATIONS[name](engine)
    except TimeleapError as caught:
        error = caught
    faulty.heal()
    found: list[str] = []
    live = lines_of(engine)
    if error is not None and (live != before or engine.head != head):
        found.append(f"failed with {error}, but changed the log")
    if error is None and live == before and engine.head == head:
        found.append("succeeded, but changed nothing")
    disk = await on_disk(log)
    if error is None and name in ("revert", "clear", "compact", "undo") and before not in await kept(engine):
        found.append("the old log is not kept")
    try:
        await say(engine, "next")
    except UnwritableError as caught:
        if error is None or disk not in (before, await outcome_of(name, folder)):
            found.append(f"the next append failed: {caught}")
        await engine.aclose()
        engine = await JsonlEngine.open(log)
        live = lines_of(engine)  # what could not be taken back is whole
        if live != disk:
            found.append("reopened it is another log")
        await say(engine, "next")
    else:
        if disk != live:
            found.append("memory and disk differ")
    after = lines_of(engine)
    if len(after) != len(live) + 1 or after[:-1] != live:
        found.append("the next append did not just append")
    if engine.verify():
        found.append(f"damage: {engine.verify()}")
    await engine.aclose()
    if await on_disk(log) != after:
        found.append("after going on, memory and disk differ")
    await (await JsonlEngine.open(log)).aclose()
    left = [path.name for path in folder.iterdir() if path.suffix == ".tmp" or path in same_as_live(log)]
    if left:
        found.append(f"left over: {left}")
    return found


async def outcome_of(name: str, folder: Path) -> Log:
    """The log after the operation where nothing fails."""
    log = folder / "undisturbed" / "context.jsonl"
    log.parent.mkdir()
    await prepare(log)
    engine = await JsonlEngine.open(log)
    await OPERATIONS[name](engine)
    await engine.aclose()
    return lines_of(engine)


@pytest.mark.parametrize("code", mostly_long(CODES, every=6), ids=errno.errorcode.__getitem__)
@pytest.mark.parametrize("onwards", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("name", mostly_long(OPERATIONS))
async def test_the_nth_changing_call_fails(folder: Path, name: str, onwards: bool, code: int) -> None:
    found: list[str] = []
    failed: set[str] = set()
    for first in range(1, LIMIT):
        place = folder / f"{first}"
        place.mkdir()
        await prepare(place / "context.jsonl")
        with faults(code, onwards=onwards) as faulty:
            found += [
                f"call {first} ({faulty.failed[:1]}): {text}" for text in await try_one(place, name, faulty, first)
            ]
        failed.update(faulty.failed)
        if not faulty.failed:
            break
    else:
        pytest.fail("the operation never came to its end")
    assert found == []
    assert {"write", "fdatasync"} & failed or {"link", "replace", "fsync"} <= failed


@pytest.mark.parametrize("name", ["append", "batch", "revert"])
async def test_a_write_that_takes_only_half_is_taken_back(folder: Path, name: str) -> None:
    for first in range(1, 30):
        place = folder / f"{first}"
        place.mkdir()
        await prepare(place / "context.jsonl")
        with faults(errno.ENOSPC, short=True, onwards=True, calls=("write", "pwrite")) as faulty:
            assert await try_one(place, name, faulty, first) == []


@pytest.mark.parametrize("name", OPERATIONS)
async def test_the_nth_reading_call_fails(folder: Path, name: str) -> None:
    found: list[str] = []
    for first in range(1, LIMIT):
        place = folder / f"{first}"
        place.mkdir()
        await prepare(place / "context.jsonl")
        with faults(errno.EIO, calls=READING) as faulty:
            found += [
                f"call {first} ({faulty.failed[:1]}): {text}" for text in await try_one(place, name, faulty, first)
            ]
        if not faulty.failed:
            break
    assert found == []


@pytest.mark.parametrize("calls", [CHANGING, READING], ids=["changing", "reading"])
@pytest.mark.parametrize("onwards", [False, True], ids=["once", "for ever"])
async def test_opening_fails_cleanly_and_works_later(folder: Path, onwards: bool, calls: tuple[str, ...]) -> None:
    for first in range(1, LIMIT):
        place = folder / f"{first}"
        place.mkdir()
        log = place / "context.jsonl"
        await prepare(log)
        with log.open("ab") as file:
            file.write(b'{"role":"user","cont')
        with faults(errno.EIO, first, onwards=onwards, calls=calls) as faulty:
            before = await _try_to_open(log)
        engine = await JsonlEngine.open(log)
        assert len(lines_of(engine)) == 5, before
        assert sum(path.stat().st_size for path in place.glob("*.quarantine-*")) % 20 == 0
        await say(engine, "next")
        await engine.aclose()
        if not faulty.failed:
            return
    pytest.fail("opening never came to its end")


async def _try_to_open(log: Path) -> str:
    try:
        engine = await JsonlEngine.open(log)
    except TimeleapError as error:
        return str(error)
    await engine.aclose()
    return "opened"
