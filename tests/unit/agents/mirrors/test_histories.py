"""Random histories of agents are read as models of their programs say: at once, and as the file grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.support import claude_histories, codex_histories, gemini_histories, kimi_code_histories
from tests.support.kimi_histories import KimiHistory
from tests.support.pi_histories import PiHistory
from tests.support.said import said
from tests.unit.agents.mirrors.reading import messages, read_in_pieces, read_whole_and_grown, said_anywhere

from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.gemini_log import GeminiLog
from timeleap_agents.mirrors.kimi_code_log import KimiCodeLog
from timeleap_agents.mirrors.kimi_log import KimiLog
from timeleap_agents.mirrors.pi_log import PiLog


def check_claude_code(folder: Path, seed: int) -> None:
    history = claude_histories.History(folder / "projects", seed).grow(12)
    whole = ClaudeLog(history.file.path)
    whole.read()
    assert said(messages(whole)) == history.log, seed
    assert whole.first_prompt == history.first
    grown, data = ClaudeLog(folder / f"{seed}.jsonl"), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random)
    assert said(messages(grown)) == history.log, seed


def check_codex(folder: Path, seed: int) -> None:
    history = codex_histories.CodexHistory(folder / "sessions", seed).grow(12)
    copy = folder / f"{seed}.jsonl"
    shown, grown = read_whole_and_grown(history, CodexLog, codex_histories.said, copy, seed)
    assert grown == shown, seed


def check_gemini(folder: Path, seed: int) -> None:
    history = gemini_histories.GeminiHistory(folder / f"{seed}", seed).grow(12)
    copy = history.file.path.with_name("session-copy.jsonl")
    read_whole_and_grown(history, GeminiLog, gemini_histories.said, copy, seed)


def check_kimi(folder: Path, seed: int) -> None:
    history = KimiHistory(folder / str(seed), seed).grow(12)
    log = KimiLog(history.file.path)
    log.read()
    assert said(messages(log)) == history.log, seed
    assert log.created_at is not None
    shown = [said(messages(log, each.steps)) for each in log.earlier()]
    assert shown == [left for left in history.left if left], seed


def check_kimi_code(folder: Path, seed: int) -> None:
    history = kimi_code_histories.History(folder, seed).grow(14)
    whole = KimiCodeLog(history.file.path)
    whole.read()
    expected = [(each.who, each.text) for each in history.log]
    assert kimi_code_histories.said(messages(whole)) == expected, seed
    assert whole.first_prompt == history.first
    copy = folder / f"copy-{seed}" / "agents" / "main" / "wire.jsonl"
    copy.parent.mkdir(parents=True)
    grown, data = KimiCodeLog(copy), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random, grown.steps)
    assert kimi_code_histories.said(messages(grown)) == expected, seed
    assert said_anywhere(grown, kimi_code_histories.said) == said_anywhere(whole, kimi_code_histories.said)


def check_pi(folder: Path, seed: int) -> None:
    history = PiHistory(folder / str(seed), seed).grow(12)
    copy = history.file.path.with_name("copy_x.jsonl")
    shown, grown = read_whole_and_grown(history, PiLog, said, copy, seed)
    assert grown == shown, seed


CHECKS: Final[dict[str, tuple[Callable[[Path, int], None], int]]] = {
    "claude-code": (check_claude_code, 30),
    "codex": (check_codex, 12),
    "gemini": (check_gemini, 12),
    "kimi": (check_kimi, 12),
    "kimi-code": (check_kimi_code, 12),
    "pi": (check_pi, 12),
}
"""By agent: the check of a history that grew from a seed, and the number of seeds of the quick test."""


@pytest.mark.parametrize(
    ("agent", "seed"), [(agent, seed) for agent, (_, most) in CHECKS.items() for seed in range(most)]
)
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, agent: str, seed: int) -> None:
    check, _ = CHECKS[agent]
    check(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("agent", CHECKS)
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path, agent: str) -> None:
    check, _ = CHECKS[agent]
    for seed in range(1000, 1500):
        check(tmp_path, seed)


@pytest.mark.long
def test_long_chains_of_rollbacks_and_compactions_of_codex_take_linear_time(tmp_path: Path) -> None:
    file = codex_histories.CodexHistory(tmp_path / "sessions", 1).file
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


@pytest.mark.long
def test_long_chains_of_rewinds_of_gemini_take_linear_time(tmp_path: Path) -> None:
    file = gemini_histories.GeminiHistory(tmp_path, 1).file
    with file.path.open("ab") as out:
        for number in range(20_000):
            out.write(file.line({"id": f"m{number}", "type": "user", "content": f"question {number}"}))
            if number % 3 == 0:
                out.write(file.line({"$rewindTo": f"m{number}"}))
    log = GeminiLog(file.path)
    log.read()
    assert len(log.steps()) > 10_000
    assert len(log.earlier()) <= 50
