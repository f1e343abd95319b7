"""Neovim and Emacs themselves, without a screen: each looks at a log, goes back after a question, and undoes that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT
from tests.support.fixtures import StartServer

pytestmark = [pytest.mark.long]
EXAMPLES = ROOT / "examples"
DRIVERS = Path(__file__).with_name("drivers")
PATIENCE = 240
NEWEST = "2  question 2  (4 messages, 0 tokens)"
LISTED = f"{NEWEST} | 1  question 1  (2 messages, 0 tokens) | 0  question 0  (0 messages, 0 tokens)"
QUESTION = "Go back? 2 messages and 1 checkpoint go. A timeline keeps them, and Undo brings them back."


@pytest.fixture
def log(start_at: StartServer, tmp_path: Path) -> Path:
    """The log of a session of three turns, which nobody has open."""
    server = start_at(tmp_path / "home")
    server.initialize()
    server.call("session/open", sessionId="s")
    for number in range(3):
        server.call("context/checkpoint", sessionId="s")
        messages = [{"role": "user", "content": f"question {number}"}, {"role": "assistant", "content": "ok"}]
        server.call("context/appendMessage", sessionId="s", messages=messages)
    assert server.finish() == 0
    return tmp_path / "home" / "sessions" / "s" / "context.jsonl"


def driven(command: list[str], log: Path, tmp_path: Path) -> list[str]:
    """Run an editor that writes what it saw to a file; returns the lines of that."""
    told, home = tmp_path / "told", tmp_path / "person"
    home.mkdir()
    serve = [sys.executable, "-m", "timeleap", "serve", "--home", str(tmp_path / "home")]
    environ = {**os.environ, "HOME": str(home), "TIMELEAP_TEST_OUT": str(told), "TIMELEAP_TEST_LOG": str(log)}
    environ |= {"TIMELEAP_TEST_COMMAND": "\t".join(serve)}
    environ |= {name: str(home) for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(command, env=environ, cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=False)
    lines = told.read_text("utf-8").splitlines() if told.exists() else []
    assert lines and lines[-1] == "done", (lines, done.stdout[-2000:], done.stderr[-2000:])
    return lines


def editor(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {package}")
    return found


def test_emacs_shows_a_log_and_goes_back(log: Path, tmp_path: Path) -> None:
    before = log.read_bytes()
    program = [editor("emacs", "emacs-nox"), "-Q", "--batch", "-L", str(EXAMPLES / "emacs")]
    lines = driven([*program, "-l", str(DRIVERS / "emacs.el")], log, tmp_path)
    assert lines == [
        *("turn question 0", "turn question 1", "turn question 2"),
        f"choose Checkpoint:  {LISTED}",
        "line 7",
        f"choose Revert to:  {LISTED}",
        f"asked {QUESTION}",
        *("reverted 6", "undone 9", "diagnostics 0"),
        f"choose Compare:  {LISTED}",
        *("compared # Compared with the present", "done"),
    ]
    assert log.read_bytes() == before


def test_neovim_shows_a_log_and_goes_back(log: Path, tmp_path: Path) -> None:
    before = log.read_bytes()
    added = f"set rtp+={EXAMPLES / 'nvim'}"
    program = [editor("nvim", "neovim"), "--headless", "-u", "NONE", "-i", "NONE", "--cmd", added, str(log)]
    lines = driven([*program, "-c", f"luafile {DRIVERS / 'neovim.lua'}"], log, tmp_path)
    assert lines == [
        *("turn question 0", "turn question 1", "turn question 2", "lenses 9"),
        f"choose Checkpoint:  {LISTED}",
        "line 7",
        f"choose Revert to:  {LISTED}",
        f"asked {QUESTION}",
        *("reverted 6", "undone 9", "diagnostics 0"),
        f"choose Compare with the present:  {LISTED}",
        *("compared # Compared with the present", "done"),
    ]
    assert log.read_bytes() == before
