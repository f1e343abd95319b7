"""Commands about space on disk: `storage`, `prune`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from timeleap.cli.arguments import DryRun, Session, Yes, complete_session
from timeleap.cli.backend import Backend, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import count, one_line, size
from timeleap.cli.removing import Removal, remove
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer()
PANEL = "Keep in order"
Json = dict[str, Any]

_SIZES = {"": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_AGES = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@command(app, rich_help_panel=PANEL)
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
        own = {} if session is None else {"sessionId": backend.open_to_read(Target.of(session)).id}
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


@command(app, rich_help_panel=PANEL)
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
    removal = Removal(
        "session/prune",
        params,
        question="Remove for good?",
        looking="Measuring",
        doing="Removing",
        goes=lambda result: bool(result["removed"] or result["quarantine"]),
        plan=_say_what_goes,
        done=lambda result: f"{size(result['freedBytes'])} freed",
    )
    remove(terminal, session, removal, yes=yes, dry_run=dry_run)


def _say_what_goes(terminal: Terminal, plan: Json) -> None:
    removed, files = plan["removed"], plan["quarantine"]
    what = count(len(removed), "timeline") + (f" and {count(len(files), 'quarantine file')}" if files else "")
    goes = (
        f"This removes {what} for good: {size(plan['freedBytes'])}."
        if removed or files
        else "There is nothing to remove."
    )
    terminal.say(goes)
    for each in removed:
        terminal.say(f"  {one_line(each['timelineId'])}  {size(each['bytes'])}")
    for each in files:
        terminal.say(f"  {one_line(each['file'])}  {size(each['bytes'])}")
    for each in plan["kept"]:
        terminal.say(f"  {one_line(each['timelineId'])} stays: a fork refers to it")


def parse_size(text: str) -> int:
    """Bytes, from `20MB`, `1.5 GB` or `4096`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?b?)", text.strip().lower())
    unit = match[2] if match else "?"
    factor = _SIZES.get(unit if unit in _SIZES else f"{unit}b")
    if match is None or (unit == "b" and "." in match[1]):
        raise UsageError(f"{text} is no size, such as 20MB")
    return int(float(match[1]) * (1 if unit == "b" else factor or 1))


def parse_age(text: str) -> str:
    """An ISO-8601 time, from one or from a time span back from now: `30d`, `12h`, `90m`, `2w`."""
    if match := re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip().lower()):
        return (datetime.now(UTC) - timedelta(**{_AGES[match[2]]: int(match[1])})).isoformat()
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text} is neither a time span, such as 30d, nor a time, such as 2026-05-01") from None
    return (time if time.tzinfo else time.astimezone()).isoformat()
