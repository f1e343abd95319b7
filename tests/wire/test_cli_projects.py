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
