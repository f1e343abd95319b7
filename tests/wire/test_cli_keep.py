"""`timeleap agents keep`, `kept`, `restore`, and what `agents list` says of files that agents delete."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli, Typed
from tests.support.scene import until

from timeleap_agents.mirrors.folders import mirror_id

pytestmark = pytest.mark.skipif("sys.platform != 'linux'", reason="the service is one of systemd")
DAY = 86_400
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$HOME/asked"
case "$*" in *is-active*) grep -q enable "$HOME/asked" ;; esac
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    own = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "codex")}
    own |= {"GEMINI_CLI_HOME": str(tmp_path), "KIMI_SHARE_DIR": str(tmp_path / "kimi")}
    own |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return Cli(tmp_path / "home", {"HOME": str(tmp_path), **own})


@pytest.fixture
def file(tmp_path: Path) -> ClaudeFile:
    """A session that Claude Code will delete within five days."""
    made = ClaudeFile(tmp_path / "claude" / "projects")
    made.turn(1)
    os.utime(made.path, (time.time() - 25 * DAY,) * 2)
    return made


def test_a_session_that_is_deleted_is_listed_shown_and_given_back(cli: Cli, file: ClaudeFile) -> None:
    claude = cli.run("agents", "list", "--json").lines()[0]
    assert (claude["deletesSoon"], claude["deletedKept"]) == (1, 0)
    day = time.strftime("%Y-%m-%d", time.gmtime(file.path.stat().st_mtime + 30 * DAY))
    assert claude["deletesFrom"].startswith(day)
    assert f"claude-code deletes 1 sessions within 7 days, the first on {day}" in cli.run("agents", "list").err
    cli.run("agents", "watch", "claude-code", "--once")
    session, before = mirror_id("claude-code", file.path), file.path.read_bytes()
    file.path.unlink()
    claude = cli.run("agents", "list", "--json").lines()[0]
    assert (claude["deletesSoon"], claude["deletedKept"]) == (0, 1)
    (only,) = cli.run("agents", "kept", session, "--json").lines()
    assert (only["bytes"], only["ended"]) == (len(before), "gone")
    assert "gone" in cli.run("agents", "kept", session).out
    assert cli.run("agents", "restore", session, "--dry-run").out.strip() == str(file.path)
    assert not file.path.exists()
    ran = cli.run("agents", "restore", session)
    assert (file.path.read_bytes(), ran.out.strip()) == (before, str(file.path))
    assert f"cd /shop && claude --resume {file.session_id}" in ran.err
    file.path.write_text("{}\n")
    assert "is not written over" in cli.run("agents", "restore", session, code=1).err
    elsewhere = file.folder / "elsewhere.jsonl"
    cli.run("agents", "restore", session, "--generation", "1", "--to", str(elsewhere))
    assert elsewhere.read_bytes() == before
    assert "there are 1" in cli.run("agents", "restore", session, "--generation", "9", code=1).err


def test_keep_says_what_it_does_until_ctrl_c(cli: Cli, file: ClaudeFile) -> None:
    process = cli.start("agents", "keep", "--json")
    assert process.stdout is not None
    source = json.loads(process.stdout.readline())
    assert (source["kind"], source["mirrored"], source["deletesSoon"]) == ("claude-code", 1, 1)
    while '"gone"' not in (line := process.stdout.readline()):
        if file.path.exists():
            file.path.unlink()
    assert json.loads(line)["sessionId"] == mirror_id("claude-code", file.path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)


def test_the_commands_of_the_page_do_what_it_says(cli: Cli, file: ClaudeFile, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
    section = page.split("## Your agent forgets after 30 days\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    ending, others = [[shlex.split(line, comments=True)[1:] for line in block.splitlines()] for block in blocks]
    assert ending == [["agents", "keep"], ["agents", "keep", "--service", "install"]]
    (settings,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    cli.home.mkdir()
    (cli.home / "config.toml").write_text(settings)
    process = cli.start(*ending[0])
    session = mirror_id("claude-code", file.path)
    until((cli.home / "sessions" / session / "kept_1.bytes").exists)
    until(lambda: '"answer 1"' in (cli.home / "sessions" / session / "context.jsonl").read_text())
    file.path.unlink()
    until((cli.home / "sessions" / session / "kept_1.xz").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    cli.run(*ending[1], "--yes")
    said = {line[1]: cli.run(*(session if word == "SESSION" else word for word in line)).out for line in others}
    assert said["kept"].splitlines()[1].split("\t")[-1] == "gone"
    assert said["restore"].strip() == str(file.path)
    assert "claude --resume" in said["resume"]
    assert "claude-code" in said["list"]


def test_the_service_is_shown_asked_for_and_undone_byte_for_byte(cli: Cli, tmp_path: Path) -> None:
    unit = tmp_path / "config" / "systemd" / "user" / "timeleap-keep.service"
    assert "nothing was changed" in cli.run("agents", "keep", "--service", "install", input=Typed("n\n"), code=1).err
    assert not unit.exists()
    ran = cli.run("agents", "keep", "--service", "install", input=Typed("y\n"))
    assert "+ExecStart=" in ran.out
    assert f'"--home" "{cli.home}" "agents" "keep"\n' in unit.read_text()
    assert f'Environment="CODEX_HOME={tmp_path}/codex"\n' in unit.read_text()
    status = cli.run("agents", "keep", "--service", "status", "--json").json()
    assert status == {"path": str(unit), "installed": True, "running": True}
    assert cli.run("agents", "keep", "--service", "install", "--yes", "--json").json()["changed"] is False
    cli.run("agents", "keep", "--service", "uninstall", "--yes")
    assert not (tmp_path / "config").exists()
    asked = (tmp_path / "asked").read_text()
    assert "--user daemon-reload\n--user enable --now timeleap-keep.service\n" in asked
    assert "--user disable --now timeleap-keep.service\n" in asked


def test_a_unit_that_was_there_before_is_there_again(cli: Cli, tmp_path: Path) -> None:
    unit = tmp_path / "config" / "systemd" / "user" / "timeleap-keep.service"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"[Unit]\r\n# mine\n")
    cli.run("agents", "keep", "--service", "install", "--yes")
    cli.run("agents", "keep", "--service", "uninstall", "--yes")
    assert unit.read_bytes() == b"[Unit]\r\n# mine\n"


def test_a_unit_that_was_changed_since_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    unit = tmp_path / "config" / "systemd" / "user" / "timeleap-keep.service"
    cli.run("agents", "keep", "--service", "install", "--yes")
    unit.write_text(unit.read_text() + "Nice=19\n")
    assert "was changed since" in cli.run("agents", "keep", "--service", "uninstall", "--yes", code=1).err
    assert unit.read_text().endswith("Nice=19\n")


def test_without_systemd_the_file_is_written_and_the_rest_is_said(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho 'no bus' >&2\nexit 1\n")
    ran = cli.run("agents", "keep", "--service", "install", "--yes")
    assert "no bus" in ran.err
    assert "systemctl --user enable --now timeleap-keep.service" in ran.err
    assert cli.run("agents", "keep", "--service", "status", "--json").json()["running"] is False
    until((tmp_path / "config" / "systemd" / "user" / "timeleap-keep.service").exists)
