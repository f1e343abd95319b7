"""`timeleap sessions` lists by project and program, with the worktrees of a repository below it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Sessions of a repository, of its worktree, of another folder, of another program, and of none."""
    cli = Cli(tmp_path / "store")
    shop, tree, other = tmp_path / "shop", tmp_path / "tree", tmp_path / "other"
    (shop / ".git" / "worktrees" / "tree").mkdir(parents=True)
    (shop / ".git" / "worktrees" / "tree" / "commondir").write_text("../..\n")
    for folder in (tree, other):
        folder.mkdir()
    (tree / ".git").write_text(f"gitdir: {shop / '.git' / 'worktrees' / 'tree'}\n")
    program = ClaudeFile(tmp_path / "projects", workspace=str(shop))
    program.asks("hello")
    cli.run("agents", "watch", "claude-code", str(tmp_path / "projects"), "--once")
    for name, folder in (("one", shop), ("two", tree), ("three", other), ("four", shop)):
        cli.run("new", name, "--workspace", str(folder))
    cli.run("new", "five")
    return cli


def test_a_project_is_a_repository_with_its_worktrees(cli: Cli, tmp_path: Path) -> None:
    _, *rows = [line.split("\t") for line in cli.run("sessions").out.splitlines()]
    shop, tree, other = (str(tmp_path / name) for name in ("shop", "tree", "other"))
    mirror = next(row[0] for row in rows if row[0].startswith("claude-code-"))
    assert [(row[0], *row[6:]) for row in rows] == [
        ("five", "timeleap", "", ""),
        ("four", "timeleap", shop, ""),
        ("one", "timeleap", shop, ""),
        (mirror, "claude-code", shop, ""),
        ("two", "timeleap", shop, f"worktree {tree}"),
        ("three", "timeleap", other, ""),
    ]


def test_a_terminal_has_headings(cli: Cli, tmp_path: Path) -> None:
    shown = cli.terminal("sessions").out
    places = [
        shown.index(text) for text in ("no folder", "five", f"{tmp_path / 'shop'}", "four", "worktree ", "two", "three")
    ]
    assert places == sorted(places)


def test_the_newest_comes_first_for_machines_and_where_that_is_asked_for(cli: Cli) -> None:
    newest = ["five", "four", "three", "two", "one"]
    assert [each["sessionId"] for each in cli.run("sessions", "--json").lines()][:5] == newest
    assert [line.split("\t")[0] for line in cli.run("sessions", "--flat").out.splitlines()][1:6] == newest


def test_sub_agents_stand_below_their_session(tmp_path: Path) -> None:
    cli, folder = Cli(tmp_path / "store"), tmp_path / "projects"
    program = ClaudeFile(folder)
    program.asks("hello")
    for number in range(12):
        agent = ClaudeFile(folder, name=f"agent-{number}")
        agent.path = program.path.with_suffix("") / "subagents" / f"agent-{number}.jsonl"
        agent.path.parent.mkdir(parents=True, exist_ok=True)
        agent.asks(f"look into part {number}x", isSidechain=True)
    cli.run("agents", "watch", "claude-code", str(folder), "--once")
    (only,) = cli.run("sessions", "--json").lines()
    fork = cli.json("fork", only["sessionId"])["sessionId"]
    both = cli.run("sessions", "--json").lines()
    mirror = next(each for each in both if each["sessionId"] == only["sessionId"])
    assert sorted(each["title"] for each in mirror["subagents"]) == sorted(f"look into part {n}x" for n in range(12))
    assert [each.get("subagents") for each in both if each["sessionId"] == fork] == [None]
    names = [line.split("\t")[0] for line in cli.run("sessions").out.splitlines()[1:]]
    assert sorted(name[:1] for name in names if name not in (fork, only["sessionId"])) == ["└"] * 10
    shown = cli.run("sessions")
    assert "2 more sub-agents: timeleap sessions --json has them" in shown.err
    (found,) = cli.run("search", "part 7x", "--json").lines()
    (child,) = [each["sessionId"] for each in mirror["subagents"] if each["title"] == "look into part 7x"]
    assert found["sessionId"] == child
    cli.run("export", child, "--output", str(tmp_path / "out.md"), "--format", "markdown")
    assert "look into part 7x" in (tmp_path / "out.md").read_text()
