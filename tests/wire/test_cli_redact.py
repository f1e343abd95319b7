"""The command that takes a secret out of everything a session keeps: `redact`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli, Typed

SECRET = "hunter2-hunter2"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def session(cli: Cli) -> str:
    """Session `s`, whose log has the secret in one message, and whose timeline has it in two."""
    cli.run("new", "s")
    cli.run("append", "s", f"The password is {SECRET}.")
    cli.run("checkpoint", "s")
    cli.run("append", "s", f"I try {SECRET} again.")
    cli.run("revert", "s", "0", "--yes")
    return "s"


def everything(cli):
    return b"".join(file.read_bytes() for file in cli.home.rglob("*") if file.is_file()).decode(errors="replace")


def test_a_session_in_the_trash_is_redacted(cli, session):
    cli.run("trash", "delete", "s")
    (deleted,) = cli.run("trash", "list", "--json").lines()
    at = ("--deleted-at", deleted["deletedAt"])
    assert "in the trash" in cli.run("redact", "s", *at, "--pattern", SECRET, "--dry-run").out
    assert SECRET in everything(cli)
    cli.run("redact", "s", *at, "--pattern", SECRET, "--yes")
    assert SECRET not in everything(cli)


def test_a_value_is_asked_for_unseen_shown_where_it_stands_and_taken_out(cli, session, monkeypatch):
    asked = []

    def unseen(prompt):
        asked.append(prompt)
        return SECRET

    monkeypatch.setattr("getpass.getpass", unseen)
    refused = cli.run("redact", session, input=Typed("n\n"), code=1)
    assert "nothing was changed" in refused.err
    assert SECRET in everything(cli)
    done = cli.run("redact", session, input=Typed("y\n"))
    assert len(asked) == 2
    assert "The text to take out (not shown)" in done.err
    assert "It stands in 3 places in 3 records of 2 files." in done.out
    assert "context.jsonl  1 place" in done.out
    assert "context_1.jsonl  2 places" in done.out
    assert "taken out of 3 records in 2 files" in done.out
    assert SECRET not in everything(cli) + done.out + done.err
    assert "The password is [redacted]." in cli.run("show", session).out


def test_a_value_comes_from_a_pipe_and_consent_from_an_option(cli, session):
    assert "nobody is there to be asked" in cli.run("redact", session, "--value-stdin", input=SECRET, code=2).err
    dry = cli.run("redact", session, "--value-stdin", "--dry-run", input=SECRET + "\n")
    assert "nothing was changed (--dry-run)" in dry.err
    assert SECRET in everything(cli)
    cli.run("redact", session, "--value-stdin", "--yes", "--replacement", "***", input=SECRET + "\n")
    assert "The password is ***." in cli.run("show", session).out
    assert SECRET not in everything(cli)


def test_a_pattern_is_taken_out_and_other_sessions_are_named(cli, session):
    cli.run("fork", session, "copy")
    result = cli.json("redact", session, "--pattern", "hunter[0-9]", "--store", "--yes")
    assert result["occurrences"] == 6
    assert "hunter2" in everything(cli)
    told = cli.run("redact", "copy", "--pattern", "hunter[0-9]", "--store", "--dry-run").out
    assert "other sessions hold it" not in told
    dry = cli.run("redact", session, "--pattern", "hunter[0-9]", "--store", "--dry-run")
    assert "It stands nowhere in the session." in dry.out
    assert "other sessions hold it, too: copy" in dry.out


def test_what_cannot_be_meant_is_refused(cli, session):
    assert "nobody is there to be asked for the value" in cli.run("redact", session, code=2).err
    assert "the value is empty" in cli.run("redact", session, "--value-stdin", input="\n", code=2).err
    both = cli.run("redact", session, "--secrets", "--pattern", "x", code=2)
    assert "do not go together" in both.err
    assert cli.run("redact", session, "--pattern", "(", "--yes", code=1).err.startswith("error: ")
    assert "nothing was changed" in cli.run("redact", session, "--pattern", "nowhere-to-be-found", "--yes").err
