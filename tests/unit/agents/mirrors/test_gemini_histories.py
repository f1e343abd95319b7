"""Random histories of Gemini CLI are read as a model of that program says, at once and in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.gemini_histories import GeminiHistory, said
from tests.unit.agents.mirrors.reading import read_whole_and_grown

from timeleap_agents.mirrors.gemini_log import GeminiLog


def check(folder: Path, seed: int) -> None:
    history = GeminiHistory(folder / f"{seed}", seed).grow(12)
    copy = history.file.path.with_name("session-copy.jsonl")
    read_whole_and_grown(history, GeminiLog, said, copy, seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)


@pytest.mark.long
def test_long_chains_of_rewinds_take_linear_time(tmp_path: Path) -> None:
    history = GeminiHistory(tmp_path, 1)
    with history.file.path.open("ab") as out:
        for number in range(20_000):
            record = {"id": f"m{number}", "type": "user", "content": f"question {number}"}
            out.write(history.file.line(record))
            if number % 3 == 0:
                out.write(history.file.line({"$rewindTo": f"m{number}"}))
    log = GeminiLog(history.file.path)
    log.read()
    assert len(log.steps()) > 10_000
    assert len(log.earlier()) <= 50
