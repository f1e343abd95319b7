"""Random histories of Claude Code are read as a model of that program says, at once and line by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.claude_histories import History
from tests.support.said import said
from tests.unit.agents.mirrors.reading import messages, read_in_pieces

from timeleap_agents.mirrors.claude_log import ClaudeLog


def check(folder: Path, seed: int) -> None:
    history = History(folder / "projects", seed).grow(12)
    whole = ClaudeLog(history.file.path)
    whole.read()
    assert said(messages(whole)) == history.log, seed
    assert whole.first_prompt == history.first
    grown, data = ClaudeLog(folder / f"{seed}.jsonl"), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random)
    assert said(messages(grown)) == history.log, seed


@pytest.mark.parametrize("seed", range(30))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)
