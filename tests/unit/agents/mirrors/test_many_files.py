"""Folders with more in them than anybody expects, and clocks that go back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile

from timeleap_agents.mirrors import folders
from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.folders import look, mirror_id, parent_of, session_key


def subagents(file: ClaudeFile, number: int) -> None:
    folder = file.path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    for each in range(number):
        (folder / f"agent-{each}.jsonl").touch()


def test_sub_agents_beyond_all_measure_take_no_sessions_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 20)
    files = [ClaudeFile(tmp_path / "projects", f"/p{number}") for number in range(15)]
    for file in files:
        file.turn(1)
        subagents(file, 3)
    found = look("claude-code", tmp_path / "projects")
    assert {str(file.path) for file in files} <= found.files.keys()
    assert len(found.files) == 15 + 20
    assert found.problems == ["there are more than 20 files of sub-agents: 25 are left out"]


def test_sub_agents_of_a_workflow_are_below_its_session_and_its_journal_is_none(tmp_path: Path) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.turn(1)
    below = file.path.with_suffix("") / "subagents"
    agents = [below / "agent-1.jsonl", below / "workflows" / "wf_1" / "agent-2.jsonl"]
    agents.append(below / "workflows" / "wf_1" / "deeper" / "agent-3.jsonl")
    others = [below / "workflows" / "wf_1" / "journal.jsonl", file.path.with_suffix("") / "tool-results" / "x.jsonl"]
    for path in (*agents, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert set(look("claude-code", tmp_path / "projects").files) == set(map(str, (file.path, *agents)))
    assert {parent_of("claude-code", path) for path in agents} == {mirror_id("claude-code", file.path)}
    assert session_key("claude-code", agents[2]) == f"{file.session_id}/agent-3"


@pytest.mark.long
def test_a_hundred_thousand_sub_agents_are_looked_at(tmp_path: Path) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.turn(1)
    subagents(file, 100_001)
    found = look("claude-code", tmp_path / "projects")
    assert str(file.path) in found.files
    assert found.problems == ["there are more than 100000 files of sub-agents: 1 are left out"]


def test_a_clock_that_goes_back_leaves_the_order_of_the_file(tmp_path: Path) -> None:
    file = ClaudeFile(tmp_path / "projects")
    for number, hour in enumerate((12, 9, 23, 0)):
        file.asks(f"question {number}", timestamp=f"2026-11-20T{hour:02}:00:00.000Z")
        file.says(f"answer {number}", timestamp="1970-01-01T00:00:00.000Z")
    os.utime(file.path, (0, 0))
    log = ClaudeLog(file.path)
    log.read()
    assert [step.offset for step in log.steps()] == sorted(step.offset for step in log.steps())
    assert len(log.steps()) == 8
    assert (log.created_at, log.updated_at) == ("1970-01-01T00:00:00.000Z", "2026-11-20T23:00:00.000Z")
    with file.path.open("ab") as out:  # grown under a time that is before the last look's
        out.write(file.line(file.record("user", message={"role": "user", "content": "later"})))
    os.utime(file.path, (0, 0))
    log.read()
    assert len(log.steps()) == 9
