"""Random histories of Codex are read as a model of that program says, at once and in pieces, whatever is damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.support.codex_histories import CodexHistory, Said, said
from tests.unit.mirrors.reading import messages, read_in_pieces

from timeleap.mirrors.codex_log import CodexLog


def everything(log: CodexLog) -> set[Said]:
    """All that is said in the log and in its timelines."""
    branches = [log.steps(), *(each.steps for each in log.earlier())]
    return {each for steps in branches for each in said(messages(log, steps))}


def check(folder: Path, seed: int) -> None:
    history = CodexHistory(folder / "sessions", seed).grow(12)
    whole = CodexLog(history.file.path)
    whole.read()
    assert said(messages(whole)) == history.log, seed
    assert whole.first_prompt == history.first
    made = whole.continuation(whole.steps())
    made.path.write_text("".join(json.dumps(record) + "\n" for record in made.records))
    again = CodexLog(made.path)
    again.read()
    assert said(messages(again)) == history.log, seed
    shown = [said(messages(whole, each.steps)) for each in whole.earlier()]
    logs = [history.log, *shown]
    assert all(any(log[: len(left)] == left for log in logs) for left in history.left), seed
    grown, data = CodexLog(folder / f"{seed}.jsonl"), history.file.path.read_bytes()
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


def test_damage_costs_only_the_records_that_it_hits(tmp_path: Path) -> None:
    for seed in range(8):
        history = CodexHistory(tmp_path / "sessions", seed).grow(12)
        undamaged = CodexLog(history.file.path)
        undamaged.read()
        before, chance = everything(undamaged), random.Random(seed)
        made, gone = bytearray(), list[str]()
        for line in filter(None, history.file.path.read_bytes().splitlines()):
            kind = chance.randrange(12)
            if kind == 0:
                made += line[: chance.randrange(1, len(line) + 1)] + b"\n"
                gone.append(line.decode(errors="replace"))
            elif kind == 1:
                made += line  # the next one is on this line, too
            elif kind == 2:
                made += line + b"\n" + line + b"\n"
            elif kind == 3:
                made += b'{"type": "dream", "payload": {}}\n\0\0\n' + line + b"\n"
            else:
                made += line + b"\n"
        path = tmp_path / f"damaged-{seed}.jsonl"
        path.write_bytes(made)
        log = CodexLog(path)
        log.read()
        lost = before - everything(log)
        unhit = {each for each in lost if not any(f'"{each[1]}"' in line for line in gone)}
        # A result whose call was hit goes with no call any more.
        assert all(kind == "result" for kind, _ in unhit), (seed, unhit)
        assert all(any(f'"{call}"' in line for line in gone) for _, call in unhit)


@pytest.mark.long
def test_thousands_of_odd_records_stop_no_reader(tmp_path: Path) -> None:
    chance = random.Random(7)
    history = CodexHistory(tmp_path / "sessions", 7).grow(40)
    records = [
        json.loads(line)
        for line in history.file.path.read_bytes().splitlines()
        if line.startswith(b"{") and line.endswith(b"}")
    ]
    before = CodexLog(history.file.path)
    before.read()
    values = [None, 5, "", "x", [], {}, [None], {"type": 5}, True, "0" * 36, -1, 1 << 70]
    with history.file.path.open("ab") as file:
        for _ in range(10_000):
            record = dict(chance.choice(records))
            inner = record.get("payload")
            if isinstance(inner, dict) and chance.random() < 0.7:
                inner = record["payload"] = dict(inner)
                inner[chance.choice([*inner])] = chance.choice(values)
            else:
                record[chance.choice([*record])] = chance.choice(values)
            if record.get("type") == "compacted" or (isinstance(inner, dict) and "num_turns" in inner):
                continue
            file.write(json.dumps(record).encode()[: chance.choice([None, None, 40])] + b"\n" * chance.randrange(2))
    history.file.write_bytes(b"\n")
    history.file.turn(99_999)
    log = CodexLog(history.file.path)
    log.read()
    assert everything(before) <= everything(log)
    assert said(messages(log))[-2:] == [("user", "question 99999"), ("assistant", "answer 99999")]


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
