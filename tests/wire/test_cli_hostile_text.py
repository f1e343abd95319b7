"""No command of the command line hands a terminal what a stranger wrote for it to obey."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import PATIENCE, Cli, every_command
from tests.support.mostly_long import mostly_long

from timeleap.cli.command import complete_session, signature_of
from timeleap.client import SyncTimeleap

OBEYED = (
    *(
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b[2J",
        "\x1b]8;;http://evil.example\x1b\\",
        "\x1bP1$q\x1b\\",
        "\x9b31m",
        "\x9d0;t\x9c",
        "\x85",
    ),
    *(
        "\r",
        "\b",
        "\x7f",
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
        "\u2028",
        "\ufeff",
        "\u3164",
        "\U000e0041",
        "\x0b",
        "\x0c",
    ),
)
"""What a terminal obeys, or shows as nothing."""
HOSTILE = "a" + "b".join(OBEYED) + "abc\nFORGED\tx"
FORBIDDEN = ("\x1b]", "\x1b[2J", "\x1bP", "\x9b", "\x9d", "\x07", *OBEYED[6:])
NAME = HOSTILE.replace("/", "|")
"""As a file may be called."""

NEVER_ENDING = {"serve", "mcp", "demo", "hook"}
"""Programs of their own, which write no words for a terminal."""
ARGUMENTS: dict[str, list[tuple[str, ...]]] = {
    "approvals": [("s",)],
    "approve": [("s", "unknown"), ("s", HOSTILE)],
    "reject": [("s", "unknown")],
    "merge": [("s", "--into", "m", "--summary", HOSTILE, "--dry-run"), (HOSTILE, "--into", "s", "--yes")],
    "tail": [("s",), ("m",)],
    "show": [("s",), ("s", "--full"), ("m",), ("w",)],
    "state": [("s",), ("m",), ("w",)],
    "log": [("s",), ("m",), ("w",)],
    "verify": [("s",), ("m",), ("w",)],
    "repair": [("w", "--dry-run")],
    "at": [("s", "0"), ("s", HOSTILE)],
    "diff": [("s", "1"), ("s", "0", "1"), ("s", HOSTILE)],
    "search": [("abc",), ("abc", "s"), ("FORGED", "m"), (HOSTILE,)],
    "sessions": [(), ("--all",), (HOSTILE,)],
    "new": [("s",), (HOSTILE,)],
    "append": [("s", HOSTILE)],
    "checkpoint": [("s", HOSTILE)],
    "fork": [("s", HOSTILE), ("m", "m2")],
    "subagents put": [("s", HOSTILE, "--system-prompt", HOSTILE)],
    "subagents remove": [("s", HOSTILE)],
    "dmail send": [("s", "--at", "1", HOSTILE), ("s", "--at", HOSTILE, "x")],
    "revert": [("s", "1", "--dry-run"), ("s", "1", "--dry-run", "--restore", "both"), ("s", HOSTILE)],
    "undo": [("s", "--dry-run")],
    "redo": [("s", "--dry-run")],
    "clear": [("s", "--dry-run")],
    "restore": [("s", HOSTILE), ("s", "context_1", "--dry-run")],
    "workspace": [("s",), ("m",)],
    "title": [("s",), ("m",), ("s", HOSTILE)],
    "files log": [("s",), ("m",)],
    "files diff": [("s", "1"), ("s", "1", "--patch"), ("s", HOSTILE)],
    "files show": [("s", "1", NAME), ("s", HOSTILE, NAME), ("s", "1", "nothing" + NAME)],
    "files snapshot": [("s", HOSTILE)],
    "files restore": [("s", "0", "--dry-run"), ("s", "0", NAME, "--dry-run"), ("s", HOSTILE, "--dry-run")],
    "files mode": [
        ("s",),
        ("s", "checkpoint", "--root", f"/nowhere/{NAME}"),
        ("s", "checkpoint", "--exclude", HOSTILE),
    ],
    "export": [("s", f"/nowhere/{NAME}.md")],
    "import": [(f"/nowhere/{NAME}",)],
    "trash list": [()],
    "trash delete": [(HOSTILE,)],
    "trash undelete": [(HOSTILE,)],
    "trash purge": [(HOSTILE, "--yes")],
    "trash empty": [("--dry-run",)],
    "storage": [(), ("s",), ("w",)],
    "prune": [("s", HOSTILE, "--dry-run")],
    "redact": [
        ("s", "--pattern", "FORGED", "--dry-run"),
        ("s", "--pattern", HOSTILE, "--dry-run"),
        ("m", "--pattern", "abc", "--dry-run"),
    ],
    "archive": [(HOSTILE,)],
    "unarchive": [(HOSTILE,)],
    "config path": [()],
    "config show": [()],
    "config get": [(HOSTILE,)],
    "config set": [(HOSTILE, "1"), ("limits.maxTimelines", HOSTILE)],
    "config unset": [(HOSTILE,)],
    "store init": [(HOSTILE,)],
    "store check": [(HOSTILE,)],
    "store copy": [(f"/nowhere/{NAME}", f"/nowhere/x{NAME}")],
    "agents install": [("claude-code", "--dry-run"), (HOSTILE,)],
    "agents uninstall": [("claude-code", "--dry-run")],
    "agents list": [()],
    "agents watch": [("claude-code", f"/nowhere/{NAME}", "--once"), (HOSTILE,)],
    "agents keep": [("--service", HOSTILE)],
    "agents kept": [("s",), ("m",)],
    "agents restore": [
        ("m", "--dry-run"),
        ("m", "--to", f"/nowhere/{NAME}", "--dry-run"),
        ("m", "--to", f"/nowhere/{NAME}"),
    ],
    "agents resume": [("m",), ("m", HOSTILE), (HOSTILE,)],
    "help": [(HOSTILE,), ("trash", HOSTILE)],
    "call": [(HOSTILE,), ("session/open", HOSTILE), ("context/getHistory", '{"sessionId": "s"}')],
    "schema": [(HOSTILE,)],
}
"""Of each command: what it is tried with; all others with the session `s` alone."""
MISTYPED = [
    *(
        ("state", HOSTILE),
        ("show", "s", f"--{HOSTILE}"),
        ("show", "s", "--limit", HOSTILE),
        ("show", "s", "--from", HOSTILE),
    ),
    *(
        (HOSTILE,),
        ("files", HOSTILE),
        ("--home", f"/dev/null/{NAME}", "sessions"),
        ("[link=http://evil.example]x[/link]",),
    ),
]


def commands() -> Iterator[tuple[str, ...]]:
    for path, member in every_command():
        if path[0] not in NEVER_ENDING:
            yield path
            assert " ".join(path) in ARGUMENTS or signature_of(member.function).takes_session


COMMANDS = sorted(commands())


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A store with hostile text wherever a stranger can put it: sessions `s`, `m` (a mirror) and `w` (with warnings)."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "empty").mkdir()
    cli = Cli(folder / "store", {"HOME": str(folder / "empty"), "CLAUDE_CONFIG_DIR": str(folder / NAME / "claude")})
    workspace = folder / NAME
    (workspace / "claude").mkdir(parents=True)
    (workspace / NAME).write_text(HOSTILE, "utf-8")
    call = {
        "id": HOSTILE,
        "type": "function",
        "function": {"name": HOSTILE, "arguments": json.dumps({"path": HOSTILE})},
    }
    cli.run("new", "s", "--files", "--workspace", str(workspace))
    cli.run("new", "w")
    for method, params in (
        ("session/setTitle", {"title": HOSTILE}),
        ("context/setSystemPrompt", {"systemPrompt": HOSTILE}),
        ("context/setPins", {"pins": [HOSTILE]}),
        ("session/setAutoApprove", {"action": HOSTILE, "enabled": True}),
        ("session/putSubagent", {"name": "n", "systemPrompt": HOSTILE}),
        ("session/putSubagent", {"name": HOSTILE, "systemPrompt": HOSTILE}),
        ("context/appendMessage", {"message": {"role": "user", "content": HOSTILE}}),
        ("context/checkpoint", {"label": HOSTILE}),
        ("context/appendMessage", {"message": {"role": "assistant", "content": HOSTILE, "tool_calls": [call]}}),
        ("context/appendMessage", {"message": {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE}}),
        (
            "context/appendMessage",
            {
                "message": {
                    "role": HOSTILE,
                    "name": HOSTILE,
                    "content": [{"type": HOSTILE}, {"type": "text", "text": HOSTILE}],
                }
            },
        ),
        ("context/sendDMail", {"checkpointId": 0, "message": HOSTILE}),
    ):
        cli.run("call", method, json.dumps({"sessionId": "s", **params}))
    (workspace / NAME).write_text(f"{HOSTILE}changed", "utf-8")
    (workspace / f"new {NAME}").write_text(HOSTILE, "utf-8")
    cli.run("checkpoint", "s", HOSTILE)
    _mirror(cli, folder)
    _warned(cli)
    with (
        SyncTimeleap(home=cli.home, env=cli.environment(), name=HOSTILE[:100]) as client,
        client.session("s") as session,
    ):
        asking = threading.Thread(
            target=lambda: session.request_approval(f"{HOSTILE} it", description=HOSTILE, detail={HOSTILE: HOSTILE}),
            daemon=True,
        )
        asking.start()
        deadline = time.monotonic() + PATIENCE
        while not session.approvals():
            assert asking.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield cli
        for approval in session.approvals():
            session.respond_approval(approval.approval_id, "reject")
        asking.join(PATIENCE)


def _mirror(cli: Cli, folder: Path) -> None:
    program = ClaudeFile(folder / "projects", workspace=str(folder / NAME))
    program.asks(HOSTILE)
    program.calls(HOSTILE)
    program.gets(HOSTILE, HOSTILE)
    program.says(HOSTILE)
    program.write({"type": "summary", "summary": HOSTILE, "leafUuid": HOSTILE})
    program.write({"type": "custom-title", "customTitle": HOSTILE, "sessionId": HOSTILE})
    cli.run("agents", "watch", "claude-code", str(folder / "projects"), "--once")
    found = [json.loads(line) for line in cli.run("sessions", "--json").out.split("\n") if line]
    [mirror] = [each["sessionId"] for each in found if each["sessionId"] not in ("s", "w")]
    (cli.home / "sessions" / mirror).rename(cli.home / "sessions" / "m")


def _warned(cli: Cli) -> None:
    cli.run("append", "w", "hello")
    directory = cli.home / "sessions" / "w"
    (directory / f"context ({NAME[:40]} conflicted copy).jsonl").write_text("{}\n")
    (directory / NAME[:60]).write_text("x")
    with (directory / "context.jsonl").open("ab") as log:
        log.write(b'{"role": "user", "content": \n')
        log.write(json.dumps({"role": HOSTILE, "content": HOSTILE}).encode() + b"\n")
    (directory / "state.json").write_text(json.dumps({"custom_title": [HOSTILE], HOSTILE: HOSTILE}))


def leaks(shown: str) -> list[str]:
    """What of a stranger's text a terminal obeys, and a line that a stranger made."""
    lines = [line for line in shown.split("\n") if line.lstrip().startswith("FORGED")]
    return [*(each for each in FORBIDDEN if each in shown), *lines]


TRIED = [
    (*command, *given)
    for command in COMMANDS
    for given in ARGUMENTS.get(" ".join(command), [("s",)])
    if " ".join(command) not in {"system-prompt", "show", "tail", "search"}
]
MULTILINE = [
    ("system-prompt", "s"),
    *(("show", *given) for given in ARGUMENTS["show"]),
    ("tail", "s"),
    *(("search", *given) for given in ARGUMENTS["search"]),
]
"""Commands that show texts of many lines as they are."""


def _named(typed: tuple[str, ...]) -> str:
    return "_".join(each if each.isprintable() else "HOSTILE" for each in typed)


@pytest.mark.parametrize(
    ("form", "typed"),
    mostly_long(
        [
            pytest.param(form, typed, id=f"{_named(typed)}_{''.join(form)}")
            for typed in TRIED
            for form in ((), ("--json",))
        ],
        every=5,
    ),
)
def test_a_terminal_gets_nothing_to_obey(cli: Cli, typed: tuple[str, ...], form: tuple[str, ...]) -> None:
    ran = cli.terminal(*typed, *form, code=None)
    assert leaks(ran.out + ran.err) == []


@pytest.mark.parametrize("typed", MULTILINE, ids=_named)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_a_text_of_many_lines_has_nothing_to_obey(cli: Cli, typed: tuple[str, ...], form: tuple[str, ...]) -> None:
    ran = cli.terminal(*typed, *form, code=None)
    assert [each for each in leaks(ran.out + ran.err) if "FORGED" not in each] == []
    if typed[0] in ("show", "tail"):  # below the line with its author
        assert [line for line in ran.out.split("\n") if line.startswith("FORGED")] == []


@pytest.mark.parametrize("typed", MISTYPED, ids=_named)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_what_was_typed_is_not_obeyed_when_it_is_repeated(
    cli: Cli, typed: tuple[str, ...], form: tuple[str, ...]
) -> None:
    ran = cli.terminal(*typed, *form, code=None)
    assert [each for each in leaks(ran.out + ran.err) if "FORGED" not in each] == []
    assert "\x1b]8" not in ran.out + ran.err


def test_a_shell_completes_no_name_that_it_would_obey(cli: Cli) -> None:
    made = cli.home / "sessions" / NAME[:60]
    made.mkdir()
    try:
        found = complete_session("", cli.home)
        assert {"m", "s", "w"} <= set(found)
        assert leaks("\n".join(found)) == []
        assert made.name not in found
    finally:
        made.rmdir()


def test_a_real_terminal_gets_nothing_to_obey(cli: Cli) -> None:
    for typed in (("title", "s"), ("approvals", "s")):
        assert leaks(_on_a_terminal(cli, typed)) == []


def _on_a_terminal(cli: Cli, typed: tuple[str, ...]) -> str:
    ours, theirs = pty.openpty()
    environment = {**cli.environment(), "TERM": "xterm"}
    process = subprocess.Popen(cli.argv(typed), stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = bytearray()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and select.select([ours], [], [], PATIENCE)[0]:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # all who had the other end have closed it
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    process.wait(PATIENCE)
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")


def test_a_pipe_gets_a_title_and_a_prompt_as_they_are(cli: Cli) -> None:
    assert cli.run("system-prompt", "s").out == f"{HOSTILE}\n"
    assert "\x1b]52" in cli.run("title", "s").out


def test_json_for_a_terminal_means_what_it_means_for_a_pipe(cli: Cli) -> None:
    assert json.loads(cli.terminal("system-prompt", "s", "--json").out) == cli.json("system-prompt", "s")


def test_a_line_without_end_is_cut_and_counted(cli: Cli) -> None:
    cli.run("new", "long")
    cli.run("append", "long", "--role", "tool", "x" * 100_000)
    ran = cli.terminal("show", "long")
    assert len(ran.out) < 10_000
    assert "96,000 more characters; --full shows them" in ran.out
    assert "x" * 100_000 in cli.terminal("show", "long", "--full").out.replace("\n", "")
