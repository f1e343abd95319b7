"""No command of the command line hands a terminal what a stranger wrote for it to obey."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Cli

from timeleap.cli.app import modules
from timeleap.cli.command import signature_of
from timeleap.cli.parameters import Commands, Registered

HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\r\b\u202eabc\u2066\u200b\u2028x"
FORBIDDEN = ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\r", "\b", "\u202e", "\u2066", "\u200b", "\u2028")
NEVER_ENDING = {"serve", "mcp", "demo", "watch", "tail", "hook", "approvals", "purge", "delete"}
"""Commands that wait for something, or leave no session to try the next one with."""


def commands(found: Commands, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each command that needs no more than a session."""
    for member in found.members:
        if not isinstance(member, Registered):
            yield from commands(member, before if member.name is None else (*before, member.name))
        elif member.name not in NEVER_ENDING and not member.raw:
            taken = signature_of(member.function)
            if taken.takes_session and not taken.required:
                yield (*before, member.name)


COMMANDS = sorted({name for module in modules() for name in commands(module)})


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    folder = tmp_path_factory.mktemp("hostile")
    cli = Cli(folder / "store")
    workspace = folder / HOSTILE
    workspace.mkdir()
    (workspace / HOSTILE).write_text(HOSTILE, "utf-8")
    call = {
        "id": HOSTILE,
        "type": "function",
        "function": {"name": HOSTILE, "arguments": json.dumps({"path": HOSTILE})},
    }
    for method, params in (
        ("session/setTitle", {"title": HOSTILE}),
        ("context/setSystemPrompt", {"systemPrompt": HOSTILE}),
        ("session/setWorkspace", {"workspace": workspace.as_uri()}),
        ("context/setPins", {"pins": [HOSTILE]}),
        ("session/setAutoApprove", {"action": HOSTILE, "enabled": True}),
        ("session/putSubagent", {"name": "n", "systemPrompt": HOSTILE}),
        ("context/appendMessage", {"message": {"role": "user", "content": HOSTILE}}),
        ("context/checkpoint", {"label": HOSTILE}),
        ("context/appendMessage", {"message": {"role": "assistant", "content": HOSTILE, "tool_calls": [call]}}),
        ("context/appendMessage", {"message": {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE}}),
    ):
        if method == "session/setTitle":
            cli.run("new", "s")
        cli.run("call", method, json.dumps({"sessionId": "s", **params}))
    return cli


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_a_terminal_gets_nothing_to_obey(cli: Cli, command: tuple[str, ...], form: tuple[str, ...]) -> None:
    ran = cli.terminal(*command, "s", *form, code=None)
    assert [each for each in FORBIDDEN if each in ran.out + ran.err] == []


@pytest.mark.parametrize(
    "typed",
    [
        ("tail", "s"),
        ("approvals", "s"),
        ("state", HOSTILE),
        ("show", "s", f"--{HOSTILE}"),
        ("show", "s", "--limit", HOSTILE),
        ("show", "s", HOSTILE),
        (HOSTILE,),
        ("files", HOSTILE),
        ("agents", "resume", HOSTILE),
        ("search", HOSTILE),
        ("call", HOSTILE),
        ("call", "session/open", HOSTILE),
        ("revert", "s", HOSTILE),
        ("restore", "s", HOSTILE),
        ("--home", f"/dev/null/{HOSTILE}", "sessions"),
    ],
    ids=lambda typed: "_".join(each for each in typed if each.isprintable()) or "command",
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_what_was_typed_is_not_obeyed_when_it_is_repeated(
    cli: Cli, typed: tuple[str, ...], form: tuple[str, ...]
) -> None:
    ran = cli.terminal(*typed, *form, code=None)
    assert [each for each in FORBIDDEN if each in ran.out + ran.err] == []


def test_an_error_that_quotes_is_safe(cli: Cli) -> None:
    ran = cli.terminal("show", "s", "--from", HOSTILE, code=None)
    assert [each for each in FORBIDDEN if each in ran.out + ran.err] == []


def test_a_pipe_gets_a_title_and_a_prompt_as_they_are(cli: Cli) -> None:
    assert cli.run("system-prompt", "s").out == f"{HOSTILE}\n"
    assert "\x1b]52" in cli.run("title", "s").out


def test_json_for_a_terminal_means_what_it_means_for_a_pipe(cli: Cli, tmp_path: Path) -> None:
    del tmp_path
    assert json.loads(cli.terminal("system-prompt", "s", "--json").out) == cli.json("system-prompt", "s")
