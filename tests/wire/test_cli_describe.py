"""The commands that show and set what a session is, and the session that is meant where none is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Cli(tmp_path / "store")


def test_title(cli: Cli) -> None:
    cli.run("new", "s")
    assert cli.run("title", "s").out == ""
    assert cli.run("title", "s", "Dates", "before", "1970").out == "title: Dates before 1970\n"
    assert cli.run("title", "s").out == "Dates before 1970\n"
    assert cli.json("title", "s")["title"] == "Dates before 1970"


def test_workspace(cli: Cli, tmp_path: Path) -> None:
    cli.run("new", "s")
    cli.run("workspace", "s", ".")
    assert cli.run("workspace", "s").out == f"{Path.cwd().as_uri()}\n"
    assert cli.json("workspace", "s", "--none")["head"]
    assert cli.json("workspace", "s")["workspace"] is None
    assert "not both" in cli.run("workspace", "s", ".", "--none", code=2).err


def test_system_prompt(cli: Cli) -> None:
    cli.run("new", "s")
    assert cli.json("system-prompt", "s")["systemPrompt"] is None
    Path("prompt.md").write_text("Be terse.\n")
    cli.run("system-prompt", "s", "@prompt.md")
    assert cli.json("system-prompt", "s")["systemPrompt"] == "Be terse.\n"
    cli.run("system-prompt", "s", "-", input="Be kind.")
    assert cli.run("system-prompt", "s").out == "Be kind.\n"


def test_token_count_and_usage(cli: Cli) -> None:
    cli.run("new", "s")
    assert cli.run("usage", "s").out == ""
    cli.run("append", "s", "x" * 40)
    assert cli.run("tokens", "s", "--set", "1200").out == "1,200 tokens\n"
    cli.run("append", "s", "y" * 40)
    cli.run("tokens", "s", "--set", "1300")
    cli.run("append", "s", "z" * 40)
    counted = cli.json("tokens", "s")
    assert (counted["tokenCount"], counted["tokenCountWithPending"]) == (1300, 1310)
    assert cli.run("usage", "s", "--json").lines() == [
        {"index": 1, "tokenCount": 1200},
        {"index": 2, "tokenCount": 1300},
    ]
    assert cli.run("usage", "s").out == "MESSAGES\tTOKENS\n1\t1200\n2\t1300\n"
    assert cli.run("tokens", "s", "--set", "-1", code=2).out == ""


def test_automatic_approvals(cli: Cli) -> None:
    cli.run("new", "s")
    assert cli.run("auto-approve", "s").out == "approved without asking: nothing\n"
    assert cli.run("auto-approve", "s", "run_tests").out == "approved without asking: run_tests\n"
    assert cli.json("auto-approve", "s")["approval"]["autoApproveActions"] == ["run_tests"]
    assert cli.run("auto-approve", "s", "run_tests", "--off").out == "approved without asking: nothing\n"
    assert "ACTION" in cli.run("auto-approve", "s", "--off", code=2).err


def test_subagents(cli: Cli) -> None:
    cli.run("new", "s")
    cli.run("subagents", "put", "s", "reviewer", "--prompt", "Be strict.")
    Path("planner.md").write_text("Plan.")
    cli.run("subagents", "put", "planner", "--prompt", "@planner.md")
    assert cli.run("subagents", "list", "s").out == "NAME\tSYSTEM PROMPT\nreviewer\tBe strict.\nplanner\tPlan.\n"
    assert cli.run("subagents", "remove", "s", "reviewer").out == "reviewer is removed\n"
    assert [agent["name"] for agent in cli.json("subagents", "list")["dynamicSubagents"]] == ["planner"]


def test_clear(cli: Cli) -> None:
    cli.run("new", "s", "--system-prompt", "Be terse.")
    cli.run("append", "s", "one")
    assert "takes 1 message" in cli.run("clear", "s", "--dry-run").out
    assert cli.json("state", "s")["context"]["messageCount"] == 1
    assert "--yes" in cli.run("clear", "s", code=2).err
    assert "timeleap undo s" in cli.run("clear", "s", "--yes").err
    assert cli.json("state", "s")["context"]["messageCount"] == 0
    assert cli.json("system-prompt", "s")["systemPrompt"] == "Be terse."
    cli.run("undo", "s")
    assert cli.json("state", "s")["context"]["messageCount"] == 1
    assert cli.json("clear", "s", "--drop-system-prompt", "--yes")["context"]["systemPrompt"] is None


def messages(cli: Cli, session: str) -> list[Any]:
    return [entry["message"]["content"] for entry in cli.run("show", session, "--json").lines() if "message" in entry]


def test_without_a_session_the_newest_of_the_folder_is_meant(cli: Cli) -> None:
    cli.run("new", "elsewhere", "--workspace", "/")
    cli.run("new", "older", "--workspace", ".")
    cli.run("new", "newer", "--workspace", ".")
    cli.run("append", "elsewhere", "the last change of all")
    ran = cli.run("append", "two words")
    assert ran.out == "appended 1 message to newer\n"
    assert f"newer: the newest session of {Path.cwd()}" in ran.err.replace("\n", " ")
    assert cli.run("checkpoint", ".", "word").out.startswith("checkpoint #0 ")
    assert (
        cli.run("append", input='{"role": "user", "content": "from a pipe"}\n').out == "appended 1 message to newer\n"
    )
    assert cli.json("state")["sessionId"] == "newer"
    cli.run("revert", "0", "--yes")
    assert cli.json("state", ".")["context"]["messageCount"] == 1
    cli.run("restore", "context_1")
    assert "messages     1" in cli.run("at", "0").out
    assert "1 message in common" in cli.run("diff", "0").out
    cli.run("title", "older", "now the newest")
    assert cli.json("state")["sessionId"] == "older"


def test_where_the_folder_has_none_the_newest_without_a_folder_is_meant(cli: Cli) -> None:
    assert "timeleap sessions" in cli.run("log", code=2).err
    cli.run("new", "elsewhere", "--workspace", "/")
    assert cli.run("log", code=2).out == ""
    cli.run("new", "free")
    cli.run("append", "elsewhere", "later")
    assert "free: the newest session without a folder" in cli.run("state").err.replace("\n", " ")


def test_for_machines_it_is_said_in_json(cli: Cli) -> None:
    cli.run("new", "s")
    ran = cli.run("state", "--json")
    assert json.loads(ran.err)["notice"]["sessionId"] == "s"
    assert ran.json()["sessionId"] == "s"


def test_a_dot_in_a_session_s_folder_is_that_folder(cli: Cli) -> None:
    cli.run("new", "s", "--workspace", ".")
    Path("context.jsonl").write_text('{"role": "user", "content": "of another program"}\n')
    assert cli.json("state", ".")["path"] == str(Path.cwd())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["state", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["revert"], "CHECKPOINT"),
        (["sessions", "--limit", "many"], "--limit"),
        (["state", "a", "b"], "b"),
    ],
)
def test_the_parser_s_errors_are_json_for_machines(cli: Cli, arguments: list[str], words: str) -> None:
    for line in (["--json", *arguments], [*arguments, "--json"]):
        ran = cli.run(*line, code=2)
        assert ran.out == ""
        error = json.loads(ran.err)["error"]
        assert error["kind"] == "usage"
        assert words in error["message"]
    assert not cli.run(*arguments, code=2).err.startswith("{")


@pytest.mark.parametrize("role", ["_checkpoint", "_system_prompt", "_mine"])
def test_a_role_of_control_records_is_refused_and_not_left_out(cli: Cli, role: str) -> None:
    cli.run("new", "s")
    assert "timeleap checkpoint" in cli.run("append", "s", "--role", role, "words", code=2).err
    assert (
        cli.json("state", "s")["context"] | {"messageCount": 0, "nCheckpoints": 0} == cli.json("state", "s")["context"]
    )


def test_a_dash_is_the_standard_input_as_one_message(cli: Cli) -> None:
    cli.run("new", "s")
    cli.run("append", "s", "-", input="two\nlines")
    assert [line["message"]["content"] for line in cli.run("show", "s", "--json").lines()] == ["two\nlines"]


@pytest.mark.parametrize("command", ["yolo", "afk"])
def test_a_switch_without_a_session_is_that_of_the_newest_one(cli: Cli, command: str) -> None:
    cli.run("new", "s")
    ran = cli.run(command, "on")
    assert "ON" in ran.out and ran.err.startswith("s: the newest session")
    assert cli.json(command, "off")["approval"][command] is False


def test_what_is_not_in_the_trash_is_not_offered_to_be_made(cli: Cli) -> None:
    ran = cli.run("trash", "undelete", "x", code=1)
    assert "timeleap trash list" in ran.err and "timeleap new" not in ran.err
    assert cli.json("trash", "empty", "--older-than", "0", "--yes")["purged"] == []


def test_text_in_a_pipe_is_told_how_to_become_a_message(cli: Cli) -> None:
    cli.run("new", "s")
    assert "timeleap append SESSION - appends it as one message" in cli.run("append", "s", input="plain\n", code=2).err
