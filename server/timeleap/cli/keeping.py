"""Commands that keep the store in order: `archive`, `unarchive`, `trash`, `verify`, `repair`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from timeleap.cli.arguments import DryRun, Session, Yes, complete_session
from timeleap.cli.backend import Backend, Target
from timeleap.cli.command import FAILED, command
from timeleap.cli.looking import list_sessions
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.cli.words import count, one_line, size

app = typer.Typer()
trash = typer.Typer(no_args_is_help=True)
PANEL = "Keep in order"
Json = dict[str, Any]

Ids = Annotated[
    list[str],
    typer.Argument(metavar="SESSION...", help="Ids of sessions.", show_default=False, autocompletion=complete_session),
]


@command(app, rich_help_panel=PANEL)
def archive(terminal: Terminal, sessions: Ids) -> None:
    """Leave sessions out of lists; nothing else changes.

    Example:
        timeleap archive fix-dates
    """
    _each(terminal, "session/archive", sessions, "archived")


@command(app, rich_help_panel=PANEL)
def unarchive(terminal: Terminal, sessions: Ids) -> None:
    """Put archived sessions back into lists.

    Example:
        timeleap unarchive fix-dates
    """
    _each(terminal, "session/unarchive", sessions, "is listed again")


@command(trash, name="list")
def list_trash(terminal: Terminal) -> None:
    """List the sessions in the trash. With --json one line each."""
    with Backend(terminal) as backend:
        found = list(backend.pages("session/listTrash", {"limit": 1000}, "sessions"))
    list_sessions(terminal, found, "deletedAt", "deleted")


@command(trash)
def delete(terminal: Terminal, sessions: Ids) -> None:
    """Move sessions to the trash; their ids are free again.

    Example:
        timeleap trash delete fix-dates
    """
    _each(terminal, "session/delete", sessions, "is in the trash; timeleap trash undelete brings it back")


@command(trash)
def undelete(terminal: Terminal, sessions: Ids) -> None:
    """Take the newest session of that id out of the trash.

    Example:
        timeleap trash undelete fix-dates
    """
    _each(terminal, "session/undelete", sessions, "is back")


def _each(terminal: Terminal, method: str, names: Sequence[str], done: str) -> None:
    with Backend(terminal) as backend:
        for name in names:
            identity = Target.of(name).identity
            if "path" in identity:
                raise UsageError(f"{name} is a path; this works on sessions of the store, by their ids")
            result = backend.call(method, identity)
            if terminal.machine:
                terminal.line({**identity, **result})
            else:
                terminal.say(f"{name} {done}")


app.add_typer(trash, name="trash", help="List, delete and undelete sessions.", rich_help_panel=PANEL)


@command(app, rich_help_panel=PANEL)
def verify(terminal: Terminal, session: Session) -> None:
    """Read and check every byte of a session, and change nothing. Exit code 1 if there is damage.

    Example:
        timeleap verify fix-dates
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        result = opened.call("session/verify", saying="Checking")
    if terminal.machine:
        terminal.document(result)
    else:
        problems = result["problems"]
        found = "no damage" if result["ok"] else _counted(problems)
        terminal.say(f"{opened.id}: {count(result['lines'], 'line')}, {size(result['bytes'])}: {found}")
        _list_problems(terminal, problems)
        for warning in result["warnings"]:
            terminal.say(f"  note: {one_line(warning['message'])}")
        if any("file" not in problem for problem in problems):
            terminal.hint(f"timeleap repair {opened.id} --dry-run says what could be done")
    if not result["ok"]:
        raise typer.Exit(FAILED)


@command(app, rich_help_panel=PANEL)
def repair(terminal: Terminal, session: Session, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Take damaged lines out of a session's log; the log as it was stays as a timeline.

    Examples:
        timeleap repair fix-dates --dry-run

        timeleap repair fix-dates --yes
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        result = opened.call("session/repair", dryRun=True, saying="Checking")
        problems = result["problems"]
        if problems and not dry_run:
            if not terminal.machine:
                _list_problems(terminal, problems)
            terminal.require_consent(f"Take {count(len(problems), 'damaged line')} out?", yes)
            result = opened.call("session/repair", saying="Repairing")
    if terminal.machine:
        terminal.document(result)
    elif not problems:
        terminal.say(f"{opened.id}: no damage, nothing to do")
    elif dry_run:
        _list_problems(terminal, problems)
        terminal.hint("nothing was changed (--dry-run)")
    else:
        terminal.say(f"{opened.id}: {count(result['removedLines'], 'line')} taken out")
        terminal.hint(f"the log as it was is {result.get('timelineId', 'kept')}")


def _counted(problems: Sequence[Json]) -> str:
    files = sum("file" in problem for problem in problems)
    found = (count(len(problems) - files, "damaged line"), count(files, "damaged file"))
    return ", ".join(text for text, number in zip(found, (len(problems) - files, files), strict=True) if number)


def _list_problems(terminal: Terminal, problems: Sequence[Json]) -> None:
    for problem in problems:
        if "file" in problem:
            terminal.say(f"  {problem['file']}: {one_line(problem['message'])} ({problem['kind']})")
            continue
        terminal.say(
            f"  line {problem['line'] + 1:,} (byte {problem['offset']:,}, {size(problem['bytes'])}): "
            f"{one_line(problem['message'])} ({problem['kind']})"
        )
