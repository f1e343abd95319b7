"""Random histories of kimi-cli are read as a model of that program says, with what it set aside."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.kimi_histories import KimiHistory
from tests.support.said import said
from tests.unit.agents.mirrors.reading import messages

from timeleap_agents.mirrors.kimi_log import KimiLog


def check(folder: Path, seed: int) -> None:
    history = KimiHistory(folder / str(seed), seed).grow(12)
    log = KimiLog(history.file.path)
    log.read()
    assert said(messages(log)) == history.log, seed
    assert log.created_at is not None
    shown = [said(messages(log, each.steps)) for each in log.earlier()]
    assert shown == [left for left in history.left if left], seed


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)
