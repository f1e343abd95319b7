"""Random histories of pi are read as a model of that program says, at once and in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.pi_histories import PiHistory
from tests.support.said import said
from tests.unit.agents.mirrors.reading import read_whole_and_grown

from timeleap_agents.mirrors.pi_log import PiLog


def check(folder: Path, seed: int) -> None:
    history = PiHistory(folder / str(seed), seed).grow(12)
    copy = history.file.path.with_name("copy_x.jsonl")
    shown, grown = read_whole_and_grown(history, PiLog, said, copy, seed)
    assert grown == shown, seed


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)
