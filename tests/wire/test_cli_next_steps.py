"""`timeleap` alone at a terminal says what to do next, by what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli, Typed


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Cli(tmp_path / "home")


def test_without_a_session_it_leads_to_the_first(cli: Cli) -> None:
    told = cli.terminal(input=Typed("")).out
    assert "timeleap demo" in told
    assert "timeleap agents install" in told
    assert not (cli.home / "sessions").exists() or not list((cli.home / "sessions").iterdir())


def test_it_lists_the_newest_three_of_this_folder(cli: Cli, tmp_path: Path) -> None:
    names = ("oldest", "older", "newer", "newest-of-all")
    for name in names:
        cli.run("new", name, "--workspace", ".")
    cli.run("new", "elsewhere", "--workspace", str(tmp_path))
    told = cli.terminal(input=Typed("")).out
    assert [name for name in (*names, "elsewhere") if name in told] == ["older", "newer", "newest-of-all"]
    assert "timeleap log" in told


def test_in_another_folder_it_leads_to_all_sessions(cli: Cli, tmp_path: Path) -> None:
    cli.run("new", "other", "--workspace", str(tmp_path))
    told = cli.terminal(input=Typed("")).out
    assert "This folder has no session yet" in told
    assert "timeleap sessions" in told


def test_a_store_that_cannot_be_used_is_an_error_in_words(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = cli.terminal("--home", str(tmp_path / "file" / "below"), input=Typed(""), code=1)
    assert "error: " in failed.err
    assert str(tmp_path / "file") in failed.err


def test_for_programs_the_overview_stays_and_is_a_misuse(cli: Cli) -> None:
    assert "timeleap help --all" in cli.run(code=2).out
    assert cli.run("--json", code=2).out == ""
