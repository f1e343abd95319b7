"""The page on agents, docs/agents.md: its commands, as they stand there, do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli
from tests.support.holding import wait_until

from timeleap_agents.mirrors.folders import mirror_id

pytestmark = [
    pytest.mark.long,  # starts the hooks' process
    pytest.mark.skipif(sys.platform == "win32", reason="hooks are refused there"),
]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
ELSEWHERE = {
    "## Your agent forgets after 30 days": "tests/wire/test_cli_keep.py",
    "## MCP: recall for any agent": "tests/agents/test_mcp_claude_code.py",
}
"""Sections whose commands other tests run."""
PROMPT = "mend the login"


def commands(heading: str) -> list[list[list[str]]]:
    """The commands of a section, block by block, without the name of the program."""
    section = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [[shlex.split(line, comments=True)[1:] for line in block.splitlines()] for block in blocks]


@pytest.fixture
def file(tmp_path: Path) -> ClaudeFile:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "kept.txt").write_text("same\n")
    made = ClaudeFile(tmp_path / ".claude" / "projects", str(tmp_path / "project"))
    made.asks(PROMPT)
    return made


@pytest.fixture
def cli(tmp_path: Path, file: ClaudeFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.chdir(file.workspace)
    cli = Cli(tmp_path / "home", {"HOME": str(tmp_path)})
    yield cli
    if (record := cli.home / "hooks" / "host.json").exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads(record.read_bytes())["pid"], signal.SIGTERM)


def test_each_section_with_commands_is_tried() -> None:
    headings = {f"## {heading}" for heading in re.findall(r"^## (.+)$", PAGE, re.MULTILINE)}
    tried = {"## Undo for your Claude Code in two minutes", "## Sessions of other agents", *ELSEWHERE}
    assert {heading for heading in headings if commands(heading)} == tried


def test_files_of_a_turn_are_undone_as_the_page_says(cli: Cli, file: ClaudeFile, tmp_path: Path) -> None:
    installing, undoing = commands("## Undo for your Claude Code in two minutes")
    for line in installing:
        cli.run(*line, "--yes")
    listed = {each["agent"]: each for each in cli.run("agents", "list", "--json").lines() if each["supported"]}
    assert {line[-1] for line in installing} == {name for name, each in listed.items() if each["user"]["installed"]}
    settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    (hook,) = settings["hooks"]["UserPromptSubmit"][0]["hooks"]
    event = {"hook_event_name": "UserPromptSubmit", "transcript_path": str(file.path), "cwd": file.workspace}

    def tell(**more: str) -> None:
        told = json.dumps({**event, **more}).encode()
        subprocess.run(shlex.split(hook["command"]), input=told, env=cli.environment(), check=True)

    tell()
    session = mirror_id("claude-code", file.path)
    changed = Path(file.workspace, "kept.txt")
    wait_until((cli.home / "sessions" / session).exists)
    wait_until(lambda: "f1" in cli.run("files", "log", session).out)
    file.asks("tidy up", timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.999Z"))
    changed.write_text("changed\n")
    tell(hook_event_name="Stop")
    wait_until(lambda: "tidy up" in cli.run("log", session).out)
    words = {"SESSION": session, "CHECKPOINT": "tidy up"}
    said = {}
    for line in undoing:
        yes = ["--yes"] if line[:2] == ["files", "restore"] else []
        said[" ".join(line[:2])] = cli.run(*(words.get(word, word) for word in line), *yes).out
    assert session in said["sessions"]
    assert PROMPT in said["log SESSION"]
    assert "claude --resume" in said["agents resume"]
    assert "kept.txt" in said["files diff"]
    assert changed.read_text() == "same\n"


def test_sessions_are_followed_without_hooks_as_the_page_says(cli: Cli, file: ClaudeFile) -> None:
    (block,) = commands("## Sessions of other agents")
    watching, listing, searching = block
    process = cli.start(*watching)
    session = mirror_id("claude-code", file.path)
    log = cli.home / "sessions" / session / "context.jsonl"
    wait_until(lambda: log.exists() and PROMPT in log.read_text())
    file.says("the login is mended")
    wait_until(lambda: "is mended" in log.read_text())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert session in cli.run(*listing).out
    assert len(cli.run(*searching, "--json").lines()) == 2
