"""Hooks of agents from the command line: the change is shown, asked for, made, listed, and undone."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli, Typed
from tests.support.fixtures import StartServer

from timeleap_agents.hooks.agents import REFUSED

pytestmark = pytest.mark.skipif("sys.platform == 'win32'", reason="hooks are refused there")
SETTINGS = '{\n  "model": "opus",\n  "hooks": {\n    "Stop": []\n  }\n}\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The folder of Claude Code, with settings."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings.json").write_text(SETTINGS)
    return folder


@pytest.fixture
def cli(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "project").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    own = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(config), "CODEX_HOME": str(tmp_path / "codex")}
    own |= {"PATH": str(tmp_path / "bin"), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    return Cli(tmp_path / "home", own)


def test_install_shows_the_change_asks_and_uninstall_gives_the_very_bytes_back(cli: Cli, config: Path) -> None:
    ran = cli.run("agents", "install", "claude-code", input=Typed("y\n"))
    assert '+    "UserPromptSubmit": [' in ran.out
    assert "Change it?" in ran.err
    handler = json.loads((config / "settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0]
    assert shlex.split(handler["command"])[-4:] == ["--home", str(cli.home), "hook", "claude-code"]
    cli.run("agents", "uninstall", "claude-code", "--yes")
    assert (config / "settings.json").read_text() == SETTINGS


def test_a_person_who_says_no_and_a_machine_that_cannot_be_asked_change_nothing(cli: Cli, config: Path) -> None:
    assert "nothing was changed" in cli.run("agents", "install", "claude-code", input=Typed("n\n"), code=1).err
    assert "--yes" in cli.run("agents", "install", "claude-code", code=2).err
    assert "UserPromptSubmit" in cli.run("agents", "install", "claude-code", "--dry-run").out
    assert (config / "settings.json").read_text() == SETTINGS
    assert not (cli.home / "hooks").exists()


def test_for_machines_the_change_is_one_document(cli: Cli, config: Path) -> None:
    told = cli.run("agents", "install", "claude-code", "--yes", "--json").json()
    assert told["changed"] is True
    assert told["path"] == str(config / "settings.json")
    assert told["diff"].startswith("--- ")
    assert cli.run("agents", "install", "claude-code", "--yes", "--json").json()["changed"] is False


def test_a_project_has_settings_of_its_own(cli: Cli, tmp_path: Path) -> None:
    cli.run("agents", "install", "claude-code", "--project", "--yes")
    local = tmp_path / "project" / ".claude" / "settings.local.json"
    assert "UserPromptSubmit" in json.loads(local.read_text())["hooks"]
    assert (tmp_path / "config" / "settings.json").read_text() == SETTINGS
    cli.run("agents", "uninstall", "claude-code", "--project", "--yes")
    assert not local.parent.exists()


def test_claude_code_waits_at_prompts_and_at_its_end_only(cli: Cli, config: Path) -> None:
    cli.run("agents", "install", "claude-code", "--yes")
    hooks = json.loads((config / "settings.json").read_text())["hooks"]
    own = {event: groups[-1]["hooks"][-1] for event, groups in hooks.items()}
    assert {event for event, handler in own.items() if handler.get("async")} == {
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
    }


def test_codex_has_a_file_of_its_own_for_hooks_and_has_to_be_told_to_trust_them(cli: Cli, tmp_path: Path) -> None:
    assert "/hooks" in cli.run("agents", "install", "codex", "--yes").err
    hooks = json.loads((tmp_path / "codex" / "hooks.json").read_text())["hooks"]
    handlers = {event: group["hooks"][0] for event, (group,) in hooks.items()}
    assert handlers.keys() == {"UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"}
    assert shlex.split(handlers["Stop"]["command"])[-2:] == ["hook", "codex"]
    assert handlers["SessionEnd"]["timeout"] == 3  # Codex warns of more, each time it starts
    cli.run("agents", "install", "codex", "--project", "--yes")
    assert (tmp_path / "project" / ".codex" / "hooks.json").exists()
    for place in ((), ("--project",)):
        cli.run("agents", "uninstall", "codex", *place, "--yes")
    assert not (tmp_path / "codex").exists()
    assert not (tmp_path / "project" / ".codex").exists()


def test_gemini_has_events_and_times_of_its_own(cli: Cli, tmp_path: Path) -> None:
    settings = tmp_path / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    cli.run("agents", "install", "gemini", "--yes")
    hooks = json.loads(settings.read_text())["hooks"]
    timeouts = {event: group["hooks"][0]["timeout"] for event in hooks if event != "Stop" for group in hooks[event]}
    assert timeouts == {"BeforeAgent": 15_000, "AfterTool": 5000, "AfterAgent": 5000, "SessionEnd": 3000}
    assert shlex.split(hooks["AfterTool"][0]["hooks"][0]["command"])[-2:] == ["hook", "gemini"]
    cli.run("agents", "uninstall", "gemini", "--yes")
    assert settings.read_text() == SETTINGS
    elsewhere = Cli(cli.home, {**cli.env, "GEMINI_CLI_HOME": str(tmp_path / "elsewhere")})
    elsewhere.run("agents", "install", "gemini", "--yes")
    assert (tmp_path / "elsewhere" / ".gemini" / "settings.json").exists()


CONFIG = """\
# My models, do not touch.
default_model = "k2"   # the fast one

[[hooks]]  # mine
event = "Stop"
command = "notify-send done"

[models.k2]
provider = "kimi"
max_context_size = 200_000
"""


@pytest.mark.parametrize("text", [CONFIG, CONFIG.replace("\n", "\r\n"), "a = 1", "", "hooks = []\n[x]\n", None])
def test_kimi_code_has_tables_in_its_toml_and_comments_stay(cli: Cli, tmp_path: Path, text: str | None) -> None:
    config = tmp_path / ".kimi-code" / "config.toml"
    if text is not None:
        config.parent.mkdir()
        config.write_bytes(text.encode())
    cli.run("agents", "install", "kimi-code", "--yes")
    known = tomllib.loads(text or "")
    own = tomllib.loads(config.read_text())["hooks"][len(known.get("hooks", [])) :]
    assert [hook["event"] for hook in own] == [
        "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd",
    ]  # fmt: skip
    assert all(set(hook) <= {"event", "matcher", "command", "timeout"} for hook in own)
    assert all(shlex.split(hook["command"])[-2:] == ["hook", "kimi-code"] for hook in own)
    assert all(line in config.read_text() for line in (text or "").splitlines() if not line.startswith("hooks"))
    assert "already" in cli.run("agents", "install", "kimi-code", "--yes").err
    assert "no settings for one folder" in cli.run("agents", "install", "kimi-code", "--project", code=2).err
    cli.run("agents", "uninstall", "kimi-code", "--yes")
    if text is None:
        assert not config.parent.exists()
    else:
        assert config.read_bytes() == text.encode()


def test_kimi_codes_own_changes_stay_when_the_hooks_go(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / ".kimi-code" / "config.toml"
    config.parent.mkdir()
    config.write_text(CONFIG)
    cli.run("agents", "install", "kimi-code", "--yes")
    config.write_text(config.read_text().replace('"k2"   #', '"k3"   #') + '\n[theme]  # new\nname = "dark"\n')
    cli.run("agents", "uninstall", "kimi-code", "--yes")
    left = config.read_text()
    assert tomllib.loads(left) == {**tomllib.loads(CONFIG), "default_model": "k3", "theme": {"name": "dark"}}
    assert "# My models, do not touch." in left and "[theme]  # new" in left and "[[hooks]]  # mine" in left
    for broken in ("a = \n", "hooks = 5\n", "hooks = [1]\n"):
        config.write_text(broken)
        assert "Nothing was written" in cli.run("agents", "install", "kimi-code", "--yes", code=1).err
        assert config.read_text() == broken


@pytest.mark.parametrize(
    ("agent", "user", "project"),
    [
        ("opencode", ".config/opencode/plugin", ".opencode/plugin"),
        ("pi", ".pi/agent/extensions", ".pi/extensions"),
    ],
)
def test_a_plugin_of_ours_is_put_in_and_no_file_of_anybody_else_is_touched(
    cli: Cli, tmp_path: Path, agent: str, user: str, project: str
) -> None:
    folders = (tmp_path / user, tmp_path / "project" / project)
    for folder, place in zip(folders, ((), ("--project",)), strict=True):
        cli.run("agents", "install", agent, *place, "--yes")
        text = (folder / "timeleap.js").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("const COMMAND = ")]
        assert json.loads(line.partition(" = ")[2])[-2:] == ["hook", agent]
        assert "already" in cli.run("agents", "install", agent, *place, "--yes").err
    (told,) = [each for each in cli.run("agents", "list", "--json").lines() if each["agent"] == agent]
    assert (told["user"]["installed"], told["project"]["installed"]) == (True, True)
    for folder, place in zip(folders, ((), ("--project",)), strict=True):
        cli.run("agents", "uninstall", agent, *place, "--yes")
        assert not folder.exists()
    folders[0].mkdir(parents=True)
    (folders[0] / "timeleap.js").write_text("export const Mine = 1\n")
    assert "is not a file of Timeleap's" in cli.run("agents", "install", agent, "--yes", code=1).err
    assert (folders[0] / "timeleap.js").read_text() == "export const Mine = 1\n"


def test_list_says_what_is_installed_where_and_which_version_is_there(cli: Cli, config: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.write_text("#!/bin/sh\necho '2.1.330 (Claude Code)'\n")
    program.chmod(0o755)
    cli.run("agents", "install", "claude-code", "--yes")
    claude, codex, gemini, kimi_code, opencode, pi, *others = cli.run("agents", "list", "--json").lines()
    assert claude["version"] == "2.1.330"
    assert claude["user"] == {"path": str(config / "settings.json"), "installed": True}
    assert claude["project"]["installed"] is False
    assert (codex["supported"], codex["user"]["installed"]) == (True, False)
    assert all(agent["supported"] for agent in (gemini, opencode, pi))
    assert {agent["agent"]: agent["supported"] for agent in others} == dict.fromkeys(REFUSED, False)
    assert kimi_code["project"]["problem"] == "kimi-code has no settings for one folder"
    program.unlink()
    assert next(iter(cli.run("agents", "list", "--json").lines()))["version"] is None
    (config / "settings.json").write_text("{")
    assert "no plain JSON" in cli.run("agents", "list").out


def test_an_agent_that_has_no_hooks_here_is_refused_by_name(cli: Cli) -> None:
    for name, why in REFUSED.items():
        for way in ("install", "uninstall"):
            assert f"{name} is not supported: {why}" in cli.run("agents", way, name, "--yes", code=2).err
    assert "none-of-them is not one of claude-code, " in cli.run("agents", "install", "none-of-them", code=2).err


def test_settings_with_comments_are_left_alone_and_the_text_to_paste_is_shown(cli: Cli, config: Path) -> None:
    text = '{\n  // mine\n  "model": "opus"\n}\n'
    (config / "settings.json").write_text(text)
    ran = cli.run("agents", "install", "claude-code", "--yes", code=1)
    assert "no comments" in ran.err
    assert "Nothing was written" in ran.err
    assert "hooks" in json.loads(ran.err[ran.err.index("\n{") :])
    assert "yourself" in cli.run("agents", "uninstall", "claude-code", "--yes", code=1).err
    assert (config / "settings.json").read_text() == text
    error = json.loads(cli.run("agents", "install", "claude-code", "--yes", "--json", code=1).err)["error"]
    assert json.loads(error["text"])["hooks"].keys() >= {"UserPromptSubmit", "PostToolUse", "Stop"}


def test_nothing_to_take_out_is_said(cli: Cli) -> None:
    assert "no hook of Timeleap's" in cli.run("agents", "uninstall", "claude-code", "--yes").err


def test_an_agents_session_goes_on_from_a_prompt_in_the_agent(cli: Cli, start: StartServer, tmp_path: Path) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.turn(1)
    file.turn(2)
    watching = start(at=cli.home)
    mirror = watching.call("bridge/catchUp", kind="claude-code", path=str(file.path), event="start")["sessionId"]
    before = file.path.read_bytes()
    said = cli.run("revert", mirror, "1", "--yes", code=1).err
    assert f"timeleap agents resume {mirror} CHECKPOINT" in said
    command = cli.run("agents", "resume", mirror, "question 2").out.strip()
    (made,) = set(file.path.parent.glob("*.jsonl")) - {file.path}
    assert command.endswith(f"claude --resume {made.stem}")
    assert ("question 1" in made.read_text(), "question 2" in made.read_text()) == (True, False)
    assert file.path.read_bytes() == before
    told = cli.run("agents", "resume", mirror, "--json").json()
    assert "question 2" in Path(told["path"]).read_text()
    assert "agents resume" not in cli.run("agents", "resume", "none", code=1).err
