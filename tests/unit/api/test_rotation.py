"""Names for files set aside: above all that exist, never the same one twice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from timeleap import next_available_rotation


async def test_the_first_name(tmp_path: Path) -> None:
    assert await next_available_rotation(tmp_path / "context.jsonl") == tmp_path / "context_1.jsonl"


async def test_the_name_is_reserved_by_an_empty_file(tmp_path: Path) -> None:
    path = await next_available_rotation(tmp_path / "context.jsonl")
    assert path is not None
    assert path.read_bytes() == b""
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    assert await next_available_rotation(tmp_path / "context.jsonl") == tmp_path / "context_2.jsonl"


async def test_gaps_are_not_filled_and_other_names_do_not_count(tmp_path: Path) -> None:
    for name in ("c_2.jsonl", "c_7.jsonl", "c_9.json", "c_x.jsonl", "cc_11.jsonl", "c_12.jsonl.bak", "c_-13.jsonl"):
        (tmp_path / name).touch()
    assert await next_available_rotation(tmp_path / "c.jsonl") == tmp_path / "c_8.jsonl"


async def test_characters_with_a_meaning_in_patterns(tmp_path: Path) -> None:
    (tmp_path / "a+b(1)_3.log").touch()
    assert await next_available_rotation(tmp_path / "a+b(1).log") == tmp_path / "a+b(1)_4.log"


async def test_a_file_without_a_suffix(tmp_path: Path) -> None:
    assert await next_available_rotation(str(tmp_path / "history")) == tmp_path / "history_1"


async def test_no_directory_no_name(tmp_path: Path) -> None:
    assert await next_available_rotation(tmp_path / "missing" / "context.jsonl") is None
    assert not (tmp_path / "missing").exists()


async def test_callers_at_the_same_time_get_different_names(tmp_path: Path) -> None:
    paths = await asyncio.gather(*(next_available_rotation(tmp_path / "c.jsonl") for _ in range(20)))
    assert len(set(paths)) == 20


async def test_a_name_taken_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c_1.jsonl").touch()
    monkeypatch.setattr(Path, "iterdir", lambda self: iter(()))  # the listing was made before that file
    assert await next_available_rotation(tmp_path / "c.jsonl") == tmp_path / "c_2.jsonl"
