"""Random histories of Claude Code are read as a model of that program says, at once and line by line, whatever is damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.support.claude_histories import History
from tests.support.said import said
from tests.unit.mirrors.reading import messages, read_in_pieces

from timeleap.mirrors.claude_log import ClaudeLog


def everything(log: ClaudeLog) -> set[tuple[str, str]]:
    """All that is said in the log and in its timelines."""
    branches = [log.steps(), *(each.steps for each in log.earlier())]
    return {each for steps in branches for each in said(messages(log, steps))}


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


def damaged(history: History, chance: random.Random) -> tuple[bytes, set[str]]:
    """The file with torn, joined, repeated and unknown records; and the texts that went with torn ones."""
    lines = history.file.path.read_bytes().splitlines()
    made, gone = bytearray(), set[str]()
    for line in lines:
        kind = chance.randrange(12)
        if kind == 0:
            made += line[: chance.randrange(1, len(line) - 1)] + b"\n"
            gone.add(line.decode())
        elif kind == 1:
            made += line
        elif kind == 2:
            made += line + b"\n" + line + b"\n"
        elif kind == 3:
            made += b'{"type": "dream", "uuid": "x"}\n\0\0\n' + line + b"\n"
        else:
            made += line + b"\n"
    return bytes(made), gone


@pytest.mark.parametrize("seed", range(20))
def test_damage_costs_only_the_records_that_it_hits(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "projects", seed).grow(12)
    undamaged = ClaudeLog(history.file.path)
    undamaged.read()
    before = everything(undamaged)
    data, gone = damaged(history, random.Random(seed))
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(data)
    log = ClaudeLog(path)
    log.read()
    lost = {(kind, text) for kind, text in before - everything(log) if kind in ("user", "assistant")}
    assert {text for _, text in lost} <= {text for _, text in before if any(f'"{text}"' in line for line in gone)}


def test_thousands_of_odd_records_stop_no_reader(tmp_path: Path) -> None:
    chance = random.Random(7)
    history = History(tmp_path / "projects", 7).grow(40)
    records = [json.loads(line) for line in history.file.path.read_bytes().splitlines() if line.startswith(b'{"parent')]
    values = [None, 5, "", "x", [], {}, [None], {"type": 5}, True, "0" * 36, records[0]["uuid"], records[-1]["uuid"]]
    with history.file.path.open("ab") as file:
        for _ in range(5000):
            record = dict(chance.choice(records))
            record[chance.choice([*record])] = chance.choice(values)
            file.write(json.dumps(record).encode()[: chance.choice([None, None, 40])] + b"\n" * chance.randrange(2))
    log = ClaudeLog(history.file.path)
    log.read()
    assert messages(log)
    log.earlier()
