"""Random histories of Gemini CLI are read as a model of that program says, at once and in pieces, whatever is damaged."""

from __future__ import annotations

import json
import random
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


def test_damage_costs_only_the_records_that_it_hits(tmp_path: Path) -> None:
    for seed in range(8):
        history = GeminiHistory(tmp_path / str(seed), seed).grow(12)
        undamaged = GeminiLog(history.file.path)
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
            elif kind == 3:
                made += b'{"dream": 1}\n\0\0\n' + line + b"\n"
            else:
                made += line + b"\n"
        history.file.path.write_bytes(made)
        log = GeminiLog(history.file.path)
        log.read()
        lost = before - everything(log)
        texts = {text for _, text in lost}
        assert all(any(text in line for line in gone) for text in texts), (seed, lost)


@pytest.mark.long
def test_thousands_of_odd_records_stop_no_reader(tmp_path: Path) -> None:
    chance = random.Random(7)
    history = GeminiHistory(tmp_path / "7", 7).grow(40)
    lines = [
        line for line in history.file.path.read_bytes().splitlines() if line.startswith(b"{") and line.endswith(b"}")
    ]
    records = [json.loads(line) for line in lines]
    values = [None, 5, "", "x", [], {}, [None], {"type": 5}, [{"functionCall": 5}], True, -1, 1 << 70]
    before = GeminiLog(history.file.path)
    before.read()
    with history.file.path.open("ab") as file:
        for number in range(10_000):
            record = dict(chance.choice(records))
            if "$rewindTo" in record or "messages" in (record.get("$set") or {}):
                continue
            record |= {"id": f"odd-{number}"} if "id" in record else {}
            record[chance.choice([*record])] = chance.choice(values)
            file.write(json.dumps(record).encode()[: chance.choice([None, None, 40])] + b"\n" * chance.randrange(2))
    history.file.write_bytes(b"\n")
    history.file.turn(99_999)
    log = GeminiLog(history.file.path)
    log.read()
    assert everything(before) <= everything(log)
    assert said(messages(log))[-2:] == [("user", "question 99999"), ("assistant", "answer 99999")]


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
