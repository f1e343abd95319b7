"""Random histories of Codex are read as a model of that program says, at once and in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.codex_histories import CodexHistory, said
from tests.unit.agents.mirrors.reading import read_whole_and_grown

from timeleap_agents.mirrors.codex_log import CodexLog


def check(folder: Path, seed: int) -> None:
    history = CodexHistory(folder / "sessions", seed).grow(12)
    copy = folder / f"{seed}.jsonl"
    shown, grown = read_whole_and_grown(history, CodexLog, said, copy, seed)
    assert grown == shown, seed


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)


@pytest.mark.long
def test_long_chains_of_rollbacks_and_compactions_take_linear_time(tmp_path: Path) -> None:
    history = CodexHistory(tmp_path / "sessions", 1)
    file = history.file
    with file.path.open("ab") as out:
        for number in range(20_000):
            out.write(
                file.line_of("response_item", {"type": "message", "role": "user", "content": f"question {number}"})
            )
            if number % 3 == 0:
                out.write(file.line_of("compacted", {"message": "in short"}))
            if number % 5 == 0:
                out.write(file.line_of("event_msg", {"type": "thread_rolled_back", "num_turns": 1}))
    log = CodexLog(file.path)
    log.read()
    assert len(log.steps()) > 10_000
    assert len(log.earlier()) <= 50
