"""The command that takes a secret out of everything a session keeps: `redact`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from timeleap.cli.arguments import DryRun, Session, Yes
from timeleap.cli.command import command
from timeleap.cli.formatting import count, one_line
from timeleap.cli.removing import Removal, remove
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer()
Json = dict[str, Any]

_MOST_FILES = 20


@command(app, rich_help_panel="Keep in order")
def redact(
    terminal: Terminal,
    session: Session,
    *,
    value_stdin: Annotated[
        bool, typer.Option("--value-stdin", help="Take out the text on the standard input.")
    ] = False,
    pattern: Annotated[str | None, typer.Option(help="Take out what this regular expression matches.")] = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="Take out what looks like a key or a password.")] = False,
    replacement: Annotated[str | None, typer.Option(help=r"What stands in its place (default: \[redacted]).")] = None,
    deleted_at: Annotated[
        str | None,
        typer.Option("--deleted-at", metavar="TIME", help="Of the session in the trash that was deleted then."),
    ] = None,
    store: Annotated[bool, typer.Option("--store", help="Say which other sessions hold it, too.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Take a secret out of a session's log, of every timeline and of all else it keeps, for good.

    Asks for the value without showing it; on a command line it would stay in the shell's history and in the list of
    processes. Says where it stands and asks first: nothing brings it back, not even `timeleap undo`.

    Examples:
        timeleap redact fix-dates --dry-run
        pass show api-key | timeleap redact fix-dates --value-stdin --yes
        timeleap redact fix-dates --secrets
    """
    wanted = _wanted(terminal, value_stdin=value_stdin, pattern=pattern, secrets=secrets)
    wanted |= {"replacement": replacement, "store": store or None, "deletedAt": deleted_at}
    removal = Removal(
        "session/redact",
        wanted,
        question="Take it out for good?",
        looking="Looking",
        doing="Redacting",
        goes=lambda result: bool(result["redacted"]),
        plan=_say_where,
        done=lambda result: (
            f"taken out of {count(result['records'], 'record')} in {count(len(result['files']), 'file')}"
        ),
    )
    remove(terminal, session, removal, yes=yes, dry_run=dry_run)


def _wanted(terminal: Terminal, *, value_stdin: bool, pattern: str | None, secrets: bool) -> Json:
    """The text to remove, as params."""
    if value_stdin + (pattern is not None) + secrets > 1:
        raise UsageError("--value-stdin, --pattern and --secrets do not go together")
    if pattern is not None:
        return {"pattern": pattern}
    if secrets:
        return {"secrets": True}
    if value_stdin:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    elif terminal.machine or not terminal.interactive:
        raise UsageError("nobody is there to be asked for the value: --value-stdin, --pattern or --secrets")
    else:
        value = typer.prompt("The text to take out (not shown)", hide_input=True, err=True)
    if not value:
        raise UsageError("there is nothing to take out: the value is empty")
    return {"value": value}


def _say_where(terminal: Terminal, plan: Json) -> None:
    places = f"{count(plan['occurrences'], 'place')} in {count(plan['records'], 'record')}"
    where = f"in {places} of {count(len(plan['files']), 'file')}" if plan["occurrences"] else "nowhere in the session"
    terminal.say(f"It stands {where}.")
    for file in plan["files"][:_MOST_FILES]:
        trash = f", in the trash: {one_line(file['trash'])}" if file.get("trash") else ""
        linked = "; the file has another name besides, and stays as it is there" if file.get("linked") else ""
        terminal.say(f"  {one_line(file['file'])}  {count(file['occurrences'], 'place')}{trash}{linked}")
    if (more := len(plan["files"]) - _MOST_FILES) > 0:
        terminal.say(f"  ... and {count(more, 'more file')}")
    for rule in plan.get("rules", []):
        terminal.say(f"  {one_line(rule['rule'])}: {count(rule['values'], 'value')}")
    if plan["kept"]:
        terminal.say(f"  {count(plan['kept'], 'place')} stay: they give a record its form")
    if plan["split"]:
        terminal.say(f"  {count(plan['split'], 'place')} of these lie over the border of two parts of a message")
    if plan.get("alsoIn"):
        terminal.say(f"  other sessions hold it, too: {', '.join(one_line(name) for name in plan['alsoIn'])}")
