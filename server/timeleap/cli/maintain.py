"""Commands that keep the store in order: `archive`, `unarchive`, `trash`, `audit`, `verify`, `repair`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from timeleap.cli.arguments import DryRun, Session, Yes, complete_session
from timeleap.cli.backend import Backend, Target
from timeleap.cli.command import FAILED, Group, command
from timeleap.cli.formatting import count, one_line, size
from timeleap.cli.inspect import list_sessions
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer()
trash = typer.Typer(cls=Group, no_args_is_help=True)
PANEL = "Keep in order"
Json = dict[str, Any]
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Ids = Annotated[
    list[str], typer.Argument(metavar="SESSION...", help="Ids of sessions.", autocompletion=complete_session)
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


@command(trash)
def purge(
    terminal: Terminal,
    sessions: Ids,
    *,
    deleted_at: Annotated[
        str | None,
        typer.Option("--deleted-at", metavar="TIME", help="Only the one deleted then (timeleap trash list)."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove sessions from the trash for good. Says which, and asks first; nothing brings them back.

    Example:
        timeleap trash purge fix-dates
    """
    entries = [{"sessionId": name, "deletedAt": deleted_at} for name in sessions]
    _purge(terminal, entries, yes=yes, dry_run=dry_run)


@command(trash)
def empty(
    terminal: Terminal,
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="SPAN", help="Only what was deleted before: 30d, 12h, 90m, 2w."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove everything in the trash for good. Says what, and asks first; nothing brings it back.

    Examples:
        timeleap trash empty --older-than 30d --dry-run
        timeleap trash empty --yes
    """
    seconds = 0 if older_than is None else parse_span(older_than)
    _purge(terminal, [{"olderThan": seconds}], yes=yes, dry_run=dry_run)


def _purge(terminal: Terminal, entries: Sequence[Json], *, yes: bool, dry_run: bool) -> None:
    given = [{name: value for name, value in entry.items() if value is not None} for entry in entries]
    with Backend(terminal) as backend:
        results = [backend.call("session/purge", {**entry, "dryRun": True}) for entry in given]
        goes = [each for result in results for each in result["purged"]]
        if not terminal.machine:
            _say_what_is_purged(terminal, goes)
        if goes and not dry_run:
            terminal.require_consent("Remove for good?", yes)
            # What was shown, and nothing that was deleted meanwhile.
            shown = dict.fromkeys((each["sessionId"], each["deletedAt"]) for each in goes)
            results = [backend.call("session/purge", {"sessionId": id_, "deletedAt": time}) for id_, time in shown]
    done: Json = {
        "purged": [each for result in results for each in result["purged"]],
        "bytes": sum(result["bytes"] for result in results),
    }
    if terminal.machine:
        terminal.document(done)
    elif dry_run or not goes:
        terminal.hint("nothing was changed" + (" (--dry-run)" if dry_run else ""))
    else:
        terminal.say(f"{count(len(done['purged']), 'session')} removed, {size(done['bytes'])} freed")


def _say_what_is_purged(terminal: Terminal, goes: Sequence[Json]) -> None:
    if not goes:
        terminal.say("There is nothing to remove.")
        return
    total = size(sum(each["bytes"] for each in goes))
    terminal.say(f"This removes {count(len(goes), 'session')} from the trash for good: {total}.")
    for each in goes:
        terminal.say(f"  {one_line(each['sessionId'])}  deleted {each['deletedAt']}  {size(each['bytes'])}")


@command(app, rich_help_panel=PANEL)
def audit(
    terminal: Terminal,
    session: Session,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 50,
) -> None:
    """Show who changed what runs without asking, and what was taken out; newest first. With --json one line each.

    Example:
        timeleap audit fix-dates
    """
    entries: list[Json] = []
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        wanted = {"sessionId": opened.id, "limit": min(limit, 1000)}
        for entry in backend.pages("session/listAudit", wanted, "entries"):
            entries.append(entry)
            if len(entries) >= limit:
                break
    if terminal.machine:
        for entry in entries:
            terminal.line(entry)
        return
    if not entries:
        terminal.hint("nothing was changed yet")
        return
    rows = [
        (
            entry.get("time", ""),
            one_line(entry.get("client", "")),
            one_line(" ".join(filter(None, (entry.get("field"), entry.get("action"))))),
            one_line(json.dumps(entry["from"], ensure_ascii=False)),
            one_line(json.dumps(entry["to"], ensure_ascii=False)),
        )
        for entry in entries
    ]
    terminal.table(("time", "client", "what", "from", "to"), rows)


def parse_span(text: str) -> int:
    """Seconds, from `30d`, `12h`, `90m`, `2w` or `3600s`."""
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    if match is None:
        raise UsageError(f"{text} is no time span, such as 30d")
    return int(match[1]) * _SECONDS[match[2]]


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


app.add_typer(trash, name="trash", help="List, delete, undelete and purge sessions.", rich_help_panel=PANEL)


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
