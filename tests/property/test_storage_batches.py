"""Whatever single damage the last batch of a log suffers, its sound members stay; whatever a crash cuts short goes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.storage.logs import say

from timeleap.storage.index import index_path
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_values import RecordKind

Damage = Callable[[bytes, int], Iterator[bytes]]

TEXTS = ["before", "one", "two", "three"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else tmp_path) as name:
        yield Path(name) / "context.jsonl"


async def prepared(log: Path) -> tuple[bytes, int, dict[str, bytes | None]]:
    """The content of a log, where its last batch begins, and its index: of all, of what is before the batch, none."""
    engine = await JsonlEngine.open(log)
    await say(engine, TEXTS[0])
    older, begin = index_path(log).read_bytes(), engine.state.length
    await say(engine, *TEXTS[1:])
    await engine.aclose()
    return log.read_bytes(), begin, {"present": index_path(log).read_bytes(), "older": older, "missing": None}


def flipped(content: bytes, begin: int) -> Iterator[bytes]:
    for bit in range(begin * 8, len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)


def shortened(content: bytes, begin: int) -> Iterator[bytes]:
    for at in range(begin, len(content)):
        yield content[:at] + content[at + 1 :]


def lengthened(content: bytes, begin: int) -> Iterator[bytes]:
    for at in range(begin, len(content) + 1):
        for added in (b"\n", b'"', b"{", b"\xff"):
            yield content[:at] + added + content[at:]


@pytest.mark.parametrize("damage", [flipped, shortened, lengthened], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("index", ["present", "older", "missing"])
@pytest.mark.long
async def test_no_single_damage_takes_a_sound_member_along(log: Path, damage: Damage, index: str) -> None:
    content, begin, indexes = await prepared(log)
    lines = content.splitlines()
    known = indexes[index]
    for number, damaged in enumerate(damage(content, begin)):
        with log.open("r+b") as file:
            file.write(damaged)
            file.truncate()
        index_path(log).unlink(missing_ok=True)
        if known is not None:
            index_path(log).write_bytes(known)
        engine = await JsonlEngine.open(log, access="read")
        sound = [line for line in damaged.split(b"\n") if line in lines]
        history = [row.body for row in engine.rows(0, 99) if row.kind == RecordKind.MESSAGE]
        assert set(sound) <= set(history), (number, damaged)
        assert len(sound) >= len(TEXTS) - 2, "one or two lines are damaged, never more"
        await engine.aclose()
