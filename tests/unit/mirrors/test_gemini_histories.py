"""Random histories of Gemini CLI are read as a model of that program says, at once and in pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.gemini_histories import GeminiHistory, Said, said
from tests.unit.mirrors.reading import messages, read_in_pieces

from timeleap.mirrors.gemini_log import GeminiLog


def everything(log: GeminiLog) -> set[Said]:
    """All that is said in the log and in its timelines."""
    branches = [log.steps(), *(each.steps for each in log.earlier())]
    return {each for steps in branches for each in said(messages(log, steps))}


def check(folder: Path, seed: int) -> None:
    history = GeminiHistory(folder / f"{seed}", seed).grow(12)
    whole = GeminiLog(history.file.path)
    whole.read()
    assert said(messages(whole)) == history.log, seed
    assert whole.first_prompt == history.first
    made = whole.continuation(whole.steps())
    made.path.write_text("".join(json.dumps(record) + "\n" for record in made.records))
    again = GeminiLog(made.path)
    again.read()
    assert said(messages(again)) == history.log, seed
    shown = [said(messages(whole, each.steps)) for each in whole.earlier()]
    logs = [history.log, *shown]
    assert all(any(log[: len(left)] == left for log in logs) for left in history.left), seed
    grown, data = GeminiLog(history.file.path.with_name("session-copy.jsonl")), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random)
    assert said(messages(grown)) == history.log, seed


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
