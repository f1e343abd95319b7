"""Random histories of pi are read as a model of that program says, at once and in pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.pi_histories import PiHistory
from tests.support.said import said
from tests.unit.mirrors.reading import messages, read_in_pieces

from timeleap.mirrors.pi_log import PiLog


def check(folder: Path, seed: int) -> None:
    history = PiHistory(folder / str(seed), seed).grow(12)
    whole = PiLog(history.file.path)
    whole.read()
    assert said(messages(whole)) == history.log, seed
    assert whole.first_prompt == history.first
    made = whole.continuation(whole.steps())
    made.path.write_text("".join(json.dumps(record) + "\n" for record in made.records))
    again = PiLog(made.path)
    again.read()
    assert said(messages(again)) == history.log, seed
    shown = [said(messages(whole, each.steps)) for each in whole.earlier()]
    logs = [history.log, *shown]
    assert all(any(log[: len(left)] == left for log in logs) for left in history.left), seed
    grown, data = PiLog(history.file.path.with_name("copy_x.jsonl")), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random)
    assert said(messages(grown)) == history.log, seed
    assert [said(messages(grown, each.steps)) for each in grown.earlier()] == shown, seed


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)
