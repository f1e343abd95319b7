"""The command line as a whole: `timeleap --help`."""

from __future__ import annotations

import importlib
import io
import itertools
import sys
from typing import Annotated

import typer

from timeleap.cli.command import FAILED, MISUSED, Group, Home, Machine
from timeleap.cli.terminal import Terminal, forget_output

_EPILOG = """[bold]First steps[/bold]

[cyan]timeleap demo[/cyan]  a guided tour with a real server, in a store of its own

[cyan]timeleap new fix-dates && timeleap append fix-dates "Why is 1969 wrong?"[/cyan]

[cyan]timeleap checkpoint fix-dates && timeleap log fix-dates[/cyan]

Exit codes: 0 done, 1 an error (in words on the standard error output), 2 a misuse, 130 Ctrl-C."""

_MODULES = {
    "demo": ("demo",),
    "inspect": ("state", "sessions", "log", "show", "tail", "search", "at", "diff"),
    "create": ("new", "append", "checkpoint", "fork"),
    "describing": (*("yolo", "title", "workspace", "system-prompt", "tokens", "usage", "auto-approve", "subagents"),),
    "deciding": ("approvals", "approve", "reject", "afk"),
    "revert": ("revert", "undo", "redo", "restore", "compact", "clear", "pins", "dmail"),
    "maintain": (
        *("export", "import", "archive", "unarchive", "audit", "verify", "repair", "trash"),
        *("storage", "prune", "redact"),
    ),
    "settings": ("config",),
    "calling": ("call", "schema", "serve"),
}
"""The commands of each module, in the order of the overview."""


def application(command: str | None = None) -> typer.Typer:
    """The command line: as far as `command` needs it, so that a person does not wait for all the others; else whole."""
    app = typer.Typer(
        name="timeleap",
        cls=Group,
        help="Durable conversations for AI agents: history, checkpoints, time travel and its undo.",
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(timeleap)
    needed = [name for name, commands in _MODULES.items() if command in commands]
    for name in needed or _MODULES:
        app.add_typer(importlib.import_module(f"timeleap.cli.{name}").app)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"timeleap {version('timeleap')}")
        raise typer.Exit


def timeleap(
    ctx: typer.Context,
    home: Home = None,
    machine: Machine = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """The options that may stand before every command."""
    del version
    ctx.obj = Terminal(home, machine)


def main(command: str | None = None) -> int:
    """Run the command of `sys.argv`, `command` where that is known; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows, or LANG=C: what a message holds must never end a command.
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    app = application(command)
    try:
        if "--json" in itertools.takewhile(lambda word: word != "--", sys.argv[1:]):
            sys.exit(_for_machines(app))
        app(prog_name="timeleap")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    else:
        code = 0
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
    return code


def _for_machines(app: typer.Typer) -> int | None:
    """Run the command line, the parser's own errors told in JSON; returns the exit code."""
    try:
        code: int | None = app(prog_name="timeleap", standalone_mode=False)
    except typer.Abort:
        return FAILED
    except Exception as error:
        # The classes of the parser's errors are at another place in each version of typer.
        formatted = getattr(error, "format_message", None)
        if formatted is None:
            raise
        message = str(formatted())
        Terminal(None, machine=True).fail([message], {"kind": "usage", "message": message})
        return getattr(error, "exit_code", MISUSED)
    return code
