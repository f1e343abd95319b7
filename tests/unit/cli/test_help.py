from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.cli import every_command

from timeleap.cli.app import main
from timeleap.cli.command_table import DAILY, TABLE, CommandEntry
from timeleap.cli.command_text import documentation, summary_of
from timeleap.cli.parameters import Commands, Registered

COMMANDS = dict(every_command())


@pytest.fixture
def told(capsys, monkeypatch):
    """Runs the command line; returns what it printed."""

    def tell(*words, columns="80"):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setattr("sys.argv", ["timeleap", *words])
        assert main() == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return tell


def words_of(overview: str) -> set[str]:
    return {line.split()[0] for line in overview.splitlines() if line.startswith("  ") and line[2] != " "}


@pytest.mark.parametrize("path", sorted(COMMANDS), ids=" ".join)
def test_every_command_teaches_and_takes_the_shared_options(path, told):
    command = COMMANDS[path]
    if path in {("serve",), ("mcp",)}:
        return  # they tell of themselves
    page = told(*path, "--help")
    assert page == told("help", *path)
    assert documentation(command).split()[0] in page
    if not command.raw:
        assert page.startswith(f"Usage: timeleap {' '.join(path)} [OPTIONS]")
        assert "--home DIR" in page
        assert "--json" in page
    if "Example" in documentation(command):
        assert f"timeleap {' '.join(path)}" in page.split("Examples:", 1)[1]
    else:
        assert path[-1] in {"list", "show", "hook"}


def test_brackets_in_help_are_shown(told):
    assert "(default: [redacted])" in " ".join(told("redact", "--help").split())
    assert "[FILE]" in told("export", "--help")


def test_the_overview_of_all_names_every_command_and_the_exit_codes(told):
    overview = told("help", "--all")
    assert set(TABLE) <= words_of(overview)
    assert "Exit codes" in overview


def test_the_short_overview_has_the_commands_of_most_days_and_leads_to_the_rest(told):
    overview = told("--help")
    daily = {entry.name for entry in TABLE.values() if entry.daily}
    assert 12 <= len(daily) <= 18
    assert {entry.daily for entry in TABLE.values()} == {None, *DAILY}
    assert len(DAILY) == 3
    assert words_of(overview) & set(TABLE) == daily
    assert "timeleap help --all" in overview
    assert len(overview.splitlines()) < 45
    assert told("-h") == told("help") == overview


@pytest.mark.parametrize("entry", TABLE.values(), ids=lambda entry: entry.name)
def test_a_command_stands_in_the_table_in_few_words_with_its_module(entry: CommandEntry):
    found = entry.load()
    assert found.name == entry.name
    assert 10 <= len(entry.about) <= 60
    assert entry.about[0].isupper()
    assert not entry.about.endswith(".")


def test_no_command_is_missing_in_the_table():
    loaded = {name.rpartition(".")[2] for name in sys.modules if name.startswith("timeleap.cli.")}
    assert loaded
    modules = {sys.modules[e.module if "." in e.module else f"timeleap.cli.{e.module}"] for e in TABLE.values()}
    assert {member.name for module in modules for member in module.app.members} == set(TABLE)


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_line_is_wider_than_the_terminal(told, columns):
    for words in (("help", "--all"), ("revert", "--help"), ("trash", "--help"), ("new", "--help")):
        text = told(*words, columns=columns).partition("Examples:")[0].partition("First steps:")[0]
        assert all(len(line) <= max(46, int(columns)) for line in text.splitlines() if not line.startswith("Usage"))


def test_groups_list_their_commands(told):
    page = told("trash", "--help")
    assert {"list", "delete", "undelete", "purge", "empty"} <= words_of(page)
    for entry in TABLE.values():
        found = entry.load()
        if isinstance(found, Commands):
            assert found.help
            assert all(summary_of(member) for member in found.members)


def test_without_docstrings_help_has_its_descriptions_as_well():
    """`python -OO` throws docstrings away: help reads them from the source."""
    script = (
        "from timeleap.cli.command_table import TABLE\n"
        "from timeleap.cli.command_text import documentation\n"
        "from timeleap.cli.parameters import Registered\n"
        "for entry in TABLE.values():\n"
        "    found = entry.load()\n"
        "    for each in [found] if isinstance(found, Registered) else found.members:\n"
        "        print(repr(documentation(each)))\n"
    )
    said = [
        subprocess.run([sys.executable, *flags, "-c", script], capture_output=True, text=True, check=True).stdout
        for flags in ((), ("-OO",))
    ]
    assert said[0] == said[1]
    assert "''" not in said[0].splitlines()


def test_every_registered_command_is_one(told):
    assert all(isinstance(command, Registered) for command in COMMANDS.values())
