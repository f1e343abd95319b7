"""Commands about what takes space, and what is to go for good: `storage`, `prune`, `redact`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from timeleap.cli.backend import Backend, OpenSession, session_identity, writing
from timeleap.cli.command import command
from timeleap.cli.formatting import Json, count, one_line, size
from timeleap.cli.options import DryRun, Session, Yes, complete_session, parse_age, parse_size
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer(rich_help_panel="Keep in order")

_MOST_FILES = 20
"""Files with a secret in them that are named before the rest is only counted."""


@command(app)
def storage(
    terminal: Terminal,
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="Its id or path: with its files.", autocompletion=complete_session),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Sessions to list at most.")] = 50,
) -> None:
    """Show what takes space on disk: all sessions with those in the trash, or the files of one. With --json one document.

    Examples:
        timeleap storage
        timeleap storage fix-dates
    """
    with Backend(terminal) as backend:
        own = {} if session is None else {"sessionId": backend.open(session_identity(session), write=False).id}
        found = _taken(backend, own, limit)
    if terminal.machine:
        terminal.document(found)
        return
    if session is not None:
        for each in found["sessions"]:
            files = [(file["file"], file["kind"], size(file["bytes"])) for file in each.get("files", [])]
            terminal.table(("file", "kind", "size"), files, right=("size",))
        terminal.hint(f"{size(found['totalBytes'])} altogether; timeleap prune {session} --dry-run says what could go")
        return
    sizes = ("logBytes", "timelineBytes", "indexBytes", "quarantineBytes", "otherBytes")
    rows = [
        (
            each["sessionId"],
            *(size(each[name]) for name in ("bytes", *sizes)),
            "in the trash" if "deletedAt" in each else "",
        )
        for each in found["sessions"]
    ]
    columns = ("session", "size", "log", "timelines", "index", "quarantine", "other", "state")
    terminal.table(columns, rows, right=columns[1:-1])
    terminal.hint(f"{size(found['totalBytes'])} altogether, {size(found['trashBytes'])} of it in the trash")


def _taken(backend: Backend, own: Json, limit: int) -> Json:
    """Disk usage, with at most so many sessions, the largest first."""
    whole: Json = {}
    for page in backend.whole_pages("session/storage", {**own, "limit": min(limit, 1000)}, saying="Measuring"):
        whole = whole or {**page, "sessions": []}
        whole["sessions"] += page["sessions"]
        if len(whole["sessions"]) >= limit:
            break
    whole.pop("nextCursor", None)
    return {**whole, "sessions": whole["sessions"][:limit]}


@command(app)
def prune(
    terminal: Terminal,
    session: Session,
    timelines: Annotated[list[str] | None, typer.Argument(metavar="[TIMELINE...]", help="Remove these.")] = None,
    *,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="Keep only so many timelines, the newest.")] = None,
    keep_bytes: Annotated[
        str | None, typer.Option("--keep-bytes", help="Keep only so much of timelines, such as 20MB.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="Remove those set aside before: 30d, 12h, or a time.")
    ] = None,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Also what recovery set aside of torn records.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove timelines for good, to free space. Says exactly which, and asks first; nothing brings them back.

    Without a selection: those beyond the limits of the configuration (timeleap config show).

    Examples:
        timeleap prune fix-dates --keep 5 --dry-run
        timeleap prune fix-dates --older-than 30d --yes
        timeleap prune fix-dates context_1 context_2
    """
    params: Json = {
        "timelineIds": timelines or None,
        "maxTimelines": keep,
        "maxTimelineBytes": None if keep_bytes is None else parse_size(keep_bytes),
        "olderThan": None if older_than is None else parse_age(older_than),
        "quarantine": quarantine or None,
    }
    with writing(terminal, session, dry_run=dry_run) as opened:
        plan = opened.call("session/prune", **params, dryRun=True, saying="Measuring")
        terminal.say(*_what_goes(plan))
        goes = bool(plan["removed"] or plan["quarantine"])
        if not terminal.consents(plan, "Remove for good?", yes=yes, dry_run=dry_run, goes=goes):
            return
        # The head we looked at: what was written meanwhile was not shown.
        done = opened.call("session/prune", **params, expectedHead=plan["head"], saying="Removing")
    terminal.answer(done, f"{size(done['freedBytes'])} freed")


def _what_goes(plan: Json) -> Iterator[str]:
    removed, files = plan["removed"], plan["quarantine"]
    what = count(len(removed), "timeline") + (f" and {count(len(files), 'quarantine file')}" if files else "")
    if removed or files:
        yield f"This removes {what} for good: {size(plan['freedBytes'])}."
    else:
        yield "There is nothing to remove."
    for each in (*removed, *files):
        yield f"  {one_line(each.get('timelineId') or each['file'])}  {size(each['bytes'])}"
    for each in plan["kept"]:
        yield f"  {one_line(each['timelineId'])} stays: a fork refers to it"


@command(app)
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
    with Backend(terminal) as backend:
        if deleted_at is not None:  # what lies in the trash cannot be opened
            opened = OpenSession(backend, {"sessionId": session})
        else:
            opened = backend.open(session_identity(session), write=not dry_run)
        plan = opened.call("session/redact", **wanted, dryRun=True, saying="Looking")
        terminal.say(*_where(plan))
        if not terminal.consents(plan, "Take it out for good?", yes=yes, dry_run=dry_run, goes=bool(plan["redacted"])):
            return
        done = opened.call("session/redact", **wanted, expectedHead=plan["head"], saying="Redacting")
    terminal.answer(done, f"taken out of {count(done['records'], 'record')} in {count(len(done['files']), 'file')}")


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


def _where(plan: Json) -> Iterator[str]:
    places = f"{count(plan['occurrences'], 'place')} in {count(plan['records'], 'record')}"
    where = f"in {places} of {count(len(plan['files']), 'file')}" if plan["occurrences"] else "nowhere in the session"
    yield f"It stands {where}."
    for file in plan["files"][:_MOST_FILES]:
        trash = f", in the trash: {one_line(file['trash'])}" if file.get("trash") else ""
        linked = "; the file has another name besides, and stays as it is there" if file.get("linked") else ""
        yield f"  {one_line(file['file'])}  {count(file['occurrences'], 'place')}{trash}{linked}"
    if (more := len(plan["files"]) - _MOST_FILES) > 0:
        yield f"  ... and {count(more, 'more file')}"
    for rule in plan.get("rules", []):
        yield f"  {one_line(rule['rule'])}: {count(rule['values'], 'value')}"
    if plan["kept"]:
        yield f"  {count(plan['kept'], 'place')} stay: they give a record its form"
    if plan["split"]:
        yield f"  {count(plan['split'], 'place')} of these lie over the border of two parts of a message"
    if plan.get("alsoIn"):
        yield f"  other sessions hold it, too: {', '.join(one_line(name) for name in plan['alsoIn'])}"
