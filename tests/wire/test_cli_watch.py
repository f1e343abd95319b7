"""`timeleap agents watch`: sessions of other agents without hooks, listed, found, and told as they grow."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli
from tests.support.codex_file import CodexFile
from tests.support.kimi_file import KimiFile


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    own = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "codex")}
    own |= {"GEMINI_CLI_HOME": str(tmp_path), "KIMI_SHARE_DIR": str(tmp_path / "kimi")}
    return Cli(tmp_path / "home", {"HOME": str(tmp_path), **own})


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeFile:
    """A session of one turn, where Claude Code keeps it."""
    file = ClaudeFile(tmp_path / "claude" / "projects")
    file.turn(1)
    return file


@pytest.fixture
def codex(tmp_path: Path) -> CodexFile:
    """The same of Codex."""
    file = CodexFile(tmp_path / "codex" / "sessions")
    file.turn(1)
    return file


@pytest.fixture
def kimi(tmp_path: Path) -> KimiFile:
    """The same of kimi-cli."""
    file = KimiFile(tmp_path / "kimi")
    file.turn(1)
    return file


@pytest.mark.usefixtures("claude", "codex", "kimi")
def test_sessions_of_all_agents_are_listed_and_found_without_hooks(cli: Cli) -> None:
    ran = cli.run("agents", "watch", "--once")
    rows = [line.split("\t")[:3] for line in ran.out.splitlines()[1:]]
    assert rows == [["claude-code", "1", "1"], ["codex", "1", "1"], ["kimi", "1", "1"]]
    listed = cli.run("sessions", "--json").lines()
    assert sorted(info["source"]["kind"] for info in listed) == ["claude-code", "codex", "kimi"]
    assert len(cli.run("search", "answer 1").out.splitlines()) == 3


def test_one_agent_is_read_in_a_folder_of_ones_own_and_what_cannot_be_read_is_said(
    cli: Cli, claude: ClaudeFile
) -> None:
    elsewhere = claude.folder.rename(claude.folder.with_name("backup"))
    huge = elsewhere / claude.path.parent.name / "huge.jsonl"
    huge.touch()
    os.truncate(huge, 5 << 30)
    (told,) = cli.run("agents", "watch", "claude-code", os.path.relpath(elsewhere), "--once", "--json").lines()
    assert (told["sessions"], told["mirrored"], told["pending"]) == (2, 1, 0)
    assert "huge.jsonl" in told["problem"]
    assert len(cli.run("sessions", "--json").lines()) == 1


def test_a_folder_that_is_not_there_and_none_at_all_are_said(cli: Cli) -> None:
    assert "there is no such folder" in cli.run("agents", "watch", "codex", "--once").out
    assert "no agent that can be read has kept sessions" in cli.run("agents", "watch", "--once").err
    assert "is not one of" in cli.run("agents", "watch", "cursor", code=2).err


def test_what_an_agent_writes_is_told_until_ctrl_c(cli: Cli, codex: CodexFile) -> None:
    process = cli.start("agents", "watch", "codex", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["mirrored"] == 1
    codex.turn(2)
    change = json.loads(process.stdout.readline())
    while cli.run("show", change["sessionId"], "--json").lines()[-1]["message"]["content"] != "answer 2":
        change = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130


@pytest.mark.long
def test_a_server_that_is_gone_is_started_again_and_follows_on(cli: Cli, codex: CodexFile) -> None:
    process = cli.start("agents", "watch", "codex", "--json")
    assert process.stdout is not None
    process.stdout.readline()
    (server,) = psutil.Process(process.pid).children()
    server.kill()
    codex.turn(2)
    assert json.loads(process.stdout.readline())["change"] == "changed"
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
