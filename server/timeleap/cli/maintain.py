"""Commands that keep the store in order: `archive`, `unarchive`, `trash`, `audit`, `verify`, `repair`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from timeleap.cli.backend import Backend, given, reading, session_identity, writing
from timeleap.cli.command import FAILED, Group, command
from timeleap.cli.formatting import Json, count, one_line, size
from timeleap.cli.inspect import list_sessions
from timeleap.cli.options import DryRun, Session, Yes, complete_session, parse_span
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer(rich_help_panel="Keep in order")
trash = typer.Typer(cls=Group, no_args_is_help=True)
app.add_typer(trash, name="trash", help="List, delete, undelete and purge sessions.", rich_help_panel="Keep in order")

Ids = Annotated[
    list[str], typer.Argument(metavar="SESSION...", help="Ids of sessions.", autocompletion=complete_session)
]


@command(app)
def archive(terminal: Terminal, sessions: Ids) -> None:
    """Leave sessions out of lists; nothing else changes.

    Example:
        timeleap archive fix-dates
    """
    _each(terminal, "session/archive", sessions, "archived")


@command(app)
def unarchive(terminal: Terminal, sessions: Ids) -> None:
    """Put archived sessions back into lists.

    Example:
        timeleap unarchive fix-dates
    """
    _each(terminal, "session/unarchive", sessions, "is listed again")


@command(trash, "list")
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
        typer.Option(
            "--deleted-at", metavar="TIME", help="Only the one deleted then, as timeleap trash list --json says it."
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove sessions from the trash for good. Says which, and asks first; nothing brings them back.

    Example:
        timeleap trash purge fix-dates
    """
    _purge(terminal, [given(sessionId=name, deletedAt=deleted_at) for name in sessions], yes=yes, dry_run=dry_run)


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
    with Backend(terminal) as backend:
        plan = _merged([backend.call("session/purge", {**entry, "dryRun": True}) for entry in entries])
        terminal.say(*_what_is_purged(plan))
        if not terminal.consents(plan, "Remove for good?", yes=yes, dry_run=dry_run, goes=bool(plan["purged"])):
            return
        # What was shown, and nothing that was deleted meanwhile.
        shown = dict.fromkeys((each["sessionId"], each["deletedAt"]) for each in plan["purged"])
        done = _merged([backend.call("session/purge", {"sessionId": id_, "deletedAt": time}) for id_, time in shown])
    terminal.answer(done, f"{count(len(done['purged']), 'session')} removed, {size(done['bytes'])} freed")


def _merged(results: Sequence[Json]) -> Json:
    purged = [each for result in results for each in result["purged"]]
    return {"purged": purged, "bytes": sum(result["bytes"] for result in results)}


def _what_is_purged(plan: Json) -> Iterator[str]:
    if not (goes := plan["purged"]):
        yield "There is nothing to remove."
        return
    total = size(sum(each["bytes"] for each in goes))
    yield f"This removes {count(len(goes), 'session')} from the trash for good: {total}."
    for each in goes:
        yield f"  {one_line(each['sessionId'])}  deleted {each['deletedAt']}  {size(each['bytes'])}"


@command(app)
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
    with reading(terminal, session) as opened:
        page = opened.call("session/listAudit", limit=1)
        for warning in page.get("warnings", ()):
            terminal.notice(f"not all can be shown: {one_line(warning['message'])}", {"kind": warning["kind"]})
        listed = opened.pages("session/listAudit", "entries", limit=min(limit, 1000))
        entries = list(itertools.islice(listed, limit))
    columns = ("time", "client", "what", "from", "to")
    terminal.records(entries, columns, _audit_row, none="nothing was changed yet")


def _audit_row(entry: Json) -> tuple[str, ...]:
    what = " ".join(filter(None, (entry.get("field"), entry.get("action"))))
    values = (json.dumps(entry[name], ensure_ascii=False) for name in ("from", "to"))
    return (entry.get("time", ""), *map(one_line, (entry.get("client", ""), what, *values)))


def _each(terminal: Terminal, method: str, names: Sequence[str], done: str) -> None:
    with Backend(terminal) as backend:
        for name in names:
            identity = session_identity(name)
            if "path" in identity:
                raise UsageError(f"{name} is a path; this works on sessions of the store, by their ids")
            result = backend.call(method, identity)
            if terminal.machine:
                terminal.line({**identity, **result})
            else:
                terminal.say(f"{name} {done}")


@command(app)
def verify(terminal: Terminal, session: Session) -> None:
    """Read and check every byte of a session, and change nothing. Exit code 1 if there is damage.

    Example:
        timeleap verify fix-dates
    """
    with reading(terminal, session) as opened:
        result = opened.call("session/verify", saying="Checking")
    problems = result["problems"]
    found = "no damage" if result["ok"] else _counted(problems)
    terminal.answer(
        result,
        f"{opened.id}: {count(result['lines'], 'line')}, {size(result['bytes'])}: {found}",
        *_listed(problems),
        *(f"  note: {one_line(warning['message'])}" for warning in result["warnings"]),
    )
    if any("file" not in problem for problem in problems):
        terminal.hint(f"timeleap repair {opened.id} --dry-run says what could be done")
    if not result["ok"]:
        raise typer.Exit(FAILED)


@command(app)
def repair(terminal: Terminal, session: Session, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Take damaged lines out of a session's log; the log as it was stays as a timeline.

    Examples:
        timeleap repair fix-dates --dry-run
        timeleap repair fix-dates --yes
    """
    with writing(terminal, session, dry_run=dry_run) as opened:
        plan = opened.call("session/repair", dryRun=True, saying="Checking")
        if not (problems := plan["problems"]):
            terminal.answer(plan, f"{opened.id}: no damage, nothing to do")
            return
        terminal.say(*_listed(problems))
        question = f"Take {count(len(problems), 'damaged line')} out?"
        if not terminal.consents(plan, question, yes=yes, dry_run=dry_run):
            return
        done = opened.call("session/repair", saying="Repairing")
    words = f"{opened.id}: {count(done['removedLines'], 'line')} taken out"
    terminal.answer(done, words, hint=f"the log as it was is {done.get('timelineId', 'kept')}")


def _counted(problems: Sequence[Json]) -> str:
    files = sum("file" in problem for problem in problems)
    found = (count(len(problems) - files, "damaged line"), count(files, "damaged file"))
    return ", ".join(text for text, number in zip(found, (len(problems) - files, files), strict=True) if number)


def _listed(problems: Sequence[Json]) -> Iterator[str]:
    for problem in problems:
        where = problem.get("file")
        if where is None:
            where = f"line {problem['line'] + 1:,} (byte {problem['offset']:,}, {size(problem['bytes'])})"
        yield f"  {where}: {one_line(problem['message'])} ({problem['kind']})"
