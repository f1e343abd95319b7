"""Random histories of kimi-code are read as a model of that program says, at once and line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.kimi_code_histories import History
from tests.unit.agents.mirrors.reading import read_in_pieces

from timeleap.storage.engine import LogState, RecordKind
from timeleap_agents.mirrors.kimi_code_log import KimiCodeLog
from timeleap_agents.mirrors.record_list import RecordList

Said = tuple[str, str]


def said_in(log: KimiCodeLog, steps: Any = None) -> list[Said]:
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
