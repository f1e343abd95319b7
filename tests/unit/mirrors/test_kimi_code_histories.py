"""Random histories of kimi-code are read as a model of that program says, at once and line by line, whatever is damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.support.kimi_code_histories import History
from tests.unit.mirrors.reading import read_in_pieces

from timeleap.mirrors.kimi_code_log import KimiCodeLog
from timeleap.mirrors.record_list import RecordList
from timeleap.storage.engine import LogState, RecordKind

Said = tuple[str, str]


def said_in(log: KimiCodeLog, steps: list[Any] | None = None) -> list[Said]:
    """What is said in steps, as a model of the program tells it."""
    records = RecordList(log.file.left_out, LogState())
    for _ in log.write(log.steps() if steps is None else steps, records):
        pass
    found = [json.loads(record.body) for record in records.records if record.kind is RecordKind.MESSAGE]
    return [each for message in found for each in said(message)]


def said(message: dict[str, Any]) -> list[Said]:
    role, text = message["role"], str(message.get("content") or "")
    if role == "tool":
        return [("result", message["tool_call_id"])]
    if role == "assistant":
        calls = [("call", call["id"]) for call in message.get("tool_calls", [])]
        return [*([("assistant", text)] if text else []), *calls]
    if text.startswith("<system-reminder>"):
        return [("reminder", text.splitlines()[1])]
    return [(role, text)]


def everything(log: KimiCodeLog) -> set[Said]:
    """All that is said in the log and in its timelines."""
    branches = [log.steps(), *(each.steps for each in log.earlier())]
    return {each for steps in branches for each in said_in(log, steps)}


def read(path: Path) -> KimiCodeLog:
    log = KimiCodeLog(path)
    log.read()
    return log


def check(folder: Path, seed: int) -> None:
    history = History(folder, seed).grow(14)
    whole = read(history.file.path)
    expected = [(each.who, each.text) for each in history.log]
    assert said_in(whole) == expected, seed
    assert whole.first_prompt == history.first
    copy = folder / f"copy-{seed}" / "agents" / "main" / "wire.jsonl"
    copy.parent.mkdir(parents=True)
    grown, data = KimiCodeLog(copy), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random, grown.steps)
    assert said_in(grown) == expected, seed
    assert everything(grown) == everything(whole)


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        check(tmp_path, seed)


@pytest.mark.parametrize("seed", range(8))
def test_damage_costs_only_the_records_that_it_hits(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(8):
        history.random.choice([history.turn, history.parallel, history.steered, history.compacts])()
    before = everything(read(history.file.path))
    chance, made, gone = random.Random(seed), bytearray(), ""
    for line in history.file.path.read_bytes().splitlines():
        kind = chance.randrange(10)
        if kind == 0 and b"step.begin" not in line and b"tool.call" not in line:
            made += line[: chance.randrange(1, len(line) - 1)] + b"\n"
            gone += line.decode()
        elif kind == 1:
            made += line
        elif kind == 2:
            made += b'{"type": "dream"}\n\0\0\n' + line + b"\n"
        else:
            made += line + b"\n"
    path = history.file.path.with_name("damaged.jsonl")
    path.write_bytes(made)
    lost = before - everything(read(path))
    assert all(text in gone for _, text in lost), (seed, lost)


def test_thousands_of_odd_records_stop_no_reader(tmp_path: Path) -> None:
    chance = random.Random(7)
    history = History(tmp_path, 7).grow(40)
    records = [json.loads(line) for line in history.file.path.read_bytes().splitlines() if line.startswith(b'{"type')]
    values: list[Any] = [None, 5, "", "x", [], {}, [None], {"type": 5}, True, -1, 1e300, {"kind": []}, 10**30]
    with history.file.path.open("ab") as file:
        for _ in range(5000):
            record = json.loads(json.dumps(chance.choice(records)))
            inner = record
            while (below := [each for each in inner.values() if isinstance(each, dict)]) and chance.random() < 0.7:
                inner = chance.choice(below)
            if inner:
                inner[chance.choice([*inner])] = chance.choice(values)
            file.write(json.dumps(record).encode()[: chance.choice([None, None, 40])] + b"\n" * chance.randrange(2))
    log = read(history.file.path)
    log.steps()
    for each in log.earlier():
        said_raw(log, each.steps)
    said_raw(log, log.steps())


def said_raw(log: KimiCodeLog, steps: list[Any]) -> None:
    for _ in log.write(steps, RecordList(log.file.left_out, LogState())):
        pass
