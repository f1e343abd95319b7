"""Commands that keep the store in order, and remove what is to go for good."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from timeleap.cli.backend import LOSSES, Backend, OpenSession, accept_hint, given, reading, session_identity, writing
from timeleap.cli.command import (
    FAILED,
    DryRun,
    Session,
    Yes,
    command,
    complete_session,
    parse_age,
    parse_size,
    parse_span,
    subcommands,
)
from timeleap.cli.file_changes import path_of
from timeleap.cli.formatting import count, one_line, size
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.session_tables import list_sessions
from timeleap.cli.terminal import Exit, Terminal, UsageError
from timeleap.json_value import Json

app = Commands()
trash = subcommands(app, "trash", "List, delete, undelete and purge sessions.")

_MOST_FILES = 20
"""Files with a secret in them that are named before the rest is only counted."""

Ids = Annotated[list[str], Argument(metavar="SESSION...", help="Ids of sessions.", complete=complete_session)]


def _for_each(group: Commands, name: str, method: str, done: str, text: str) -> None:
    """Register a command that does to each of several sessions what `text` says, and tells that it is `done`."""

    def run(terminal: Terminal, sessions: Ids) -> None:
        with Backend(terminal) as backend:
            for session in sessions:
                identity = session_identity(session)
                if "path" in identity:
                    raise UsageError(f"{session} is a path; this works on sessions of the store, by their ids")
                result = backend.call(method, identity)
                if terminal.machine:
                    terminal.line({**identity, **result})
                else:
                    terminal.say(f"{session} {done}")

    run.__doc__ = f"{text}\n\nExample:\n    timeleap {name} fix-dates"
    command(group, name.rsplit(maxsplit=1)[-1])(run)


_for_each(app, "archive", "session/archive", "archived", "Leave sessions out of lists; nothing else changes.")
_for_each(app, "unarchive", "session/unarchive", "is listed again", "Put archived sessions back into lists.")


@command(trash, "list")
def list_trash(terminal: Terminal) -> None:
    """List the sessions in the trash. With --json one line each."""
    with Backend(terminal) as backend:
        found = list(backend.pages("session/listTrash", {"limit": 1000}, "sessions"))
    list_sessions(terminal, found, "deletedAt", "deleted")


_DELETED = "is in the trash; timeleap trash undelete brings it back"
_for_each(trash, "trash delete", "session/delete", _DELETED, "Move sessions to the trash; their ids are free again.")
_for_each(
    trash, "trash undelete", "session/undelete", "is back", "Take the newest session of that id out of the trash."
)


@command(trash)
def purge(
    terminal: Terminal,
    sessions: Ids,
    *,
    deleted_at: Annotated[
        str | None,
        Option(
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
        str | None, Option("--older-than", metavar="SPAN", help="Only what was deleted before: 30d, 12h, 90m, 2w.")
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

        def purged(entries: Iterable[Json]) -> Json:
            results = [backend.call("session/purge", entry) for entry in entries]
            gone = [each for result in results for each in result["purged"]]
            return {"purged": gone, "bytes": sum(result["bytes"] for result in results)}

        plan = purged({**entry, "dryRun": True} for entry in entries)
        goes = plan["purged"]
        total = f"{count(len(goes), 'session')} from the trash for good: {size(sum(each['bytes'] for each in goes))}"
        terminal.say(f"This removes {total}." if goes else "There is nothing to remove.")
        for each in goes:
            terminal.say(f"  {one_line(each['sessionId'])}  deleted {each['deletedAt']}  {size(each['bytes'])}")
        if not terminal.consents(plan, "Remove for good?", yes=yes, dry_run=dry_run, goes=bool(goes)):
            return
        # What was shown, and nothing that was deleted meanwhile.
        shown = dict.fromkeys((each["sessionId"], each["deletedAt"]) for each in goes)
        done = purged({"sessionId": session_id, "deletedAt": time} for session_id, time in shown)
    terminal.answer(done, f"{count(len(done['purged']), 'session')} removed, {size(done['bytes'])} freed")
    if any(each.get("filesRemain") for each in done["purged"]):
        terminal.hint("it could not be told which snapshots of files were theirs: some may be there still")


@command(app)
def audit(
    terminal: Terminal,
    session: Session,
    *,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 50,
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


@command(app)
def verify(terminal: Terminal, session: Session) -> None:
    """Read and check every byte of a session, and change nothing. Exit code 1 if there is damage, or lines are lost.

    Example:
        timeleap verify fix-dates
    """
    with reading(terminal, session, tell_losses=False) as opened:
        result = opened.call("session/verify", saying="Checking")
    problems = result["problems"]
    files = sum("file" in problem for problem in problems)
    lost = sum(problem["kind"] in LOSSES for problem in problems)
    counts = ((lost, "loss"), (len(problems) - files - lost, "damaged line"), (files, "damaged file"))
    damage = ", ".join(count(number, what) for number, what in counts if number)
    terminal.answer(
        result,
        f"{opened.id}: {count(result['lines'], 'line')}, {size(result['bytes'])}: "
        f"{'no damage' if result['ok'] else damage}",
        *_listed(problems),
        *(f"  note: {one_line(warning['message'])}" for warning in result["warnings"] if warning["kind"] not in LOSSES),
    )
    if lost:
        terminal.hint(accept_hint(opened.id))
    if files + lost < len(problems):
        terminal.hint(f"timeleap repair {opened.id} --dry-run says what could be done")
    if not result["ok"]:
        raise Exit(FAILED)


def _listed(problems: Sequence[Json]) -> Iterator[str]:
    for problem in problems:
        where = problem.get("file")
        if problem["kind"] in LOSSES:
            where = "lost"
        elif where is None:
            where = f"line {problem['line'] + 1:,} (byte {problem['offset']:,}, {size(problem['bytes'])})"
        yield f"  {where}: {one_line(problem['message'])} ({problem['kind']})"


@command(app)
def repair(terminal: Terminal, session: Session, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Take damaged lines out of a session's log; the log as it was stays as a timeline. Lost lines are given up.

    Examples:
        timeleap repair fix-dates --dry-run
        timeleap repair fix-dates --yes
    """
    with writing(terminal, session, dry_run=dry_run, tell_losses=False) as opened:
        plan = opened.call("session/repair", dryRun=True, saying="Checking")
        if not (problems := plan["problems"]):
            terminal.answer(plan, f"{opened.id}: no damage, nothing to do")
            return
        terminal.say(*_listed(problems))
        damaged = sum(problem["kind"] not in LOSSES for problem in problems)
        question = f"Take {count(damaged, 'damaged line')} out?" if damaged else "Go on with the log as it is?"
        if not terminal.consents(plan, question, yes=yes, dry_run=dry_run):
            return
        done = opened.call("session/repair", saying="Repairing")
    if not damaged:
        terminal.answer(done, f"{opened.id}: goes on with the log as it is")
        return
    words = f"{opened.id}: {count(done['removedLines'], 'line')} taken out"
    terminal.answer(done, words, hint=f"the log as it was is {done.get('timelineId', 'kept')}")


@command(app)
def storage(
    terminal: Terminal,
    session: Annotated[
        str | None,
        Argument(metavar="[SESSION]", help="Its id or path: with its files.", complete=complete_session),
    ] = None,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="Sessions to list at most.")] = 50,
) -> None:
    """Show what takes space on disk: all sessions with those in the trash, or the files of one. With --json one document.

    Examples:
        timeleap storage
        timeleap storage fix-dates
    """
    with Backend(terminal) as backend:
        opened = None if session is None else backend.open(session)
        own = {} if opened is None else {"sessionId": opened.id}
        found: Json = {}
        for page in backend.whole_pages("session/storage", {**own, "limit": min(limit, 1000)}, saying="Measuring"):
            found = found or {**page, "sessions": []}
            found["sessions"] += page["sessions"]  # the largest first
            if len(found["sessions"]) >= limit:
                break
    found.pop("nextCursor", None)
    found["sessions"] = found["sessions"][:limit]
    total = f"{size(found['totalBytes'])} altogether"
    if terminal.machine:
        terminal.document(found)
    elif session is not None:
        for each in found["sessions"]:
            files = [(file["file"], file["kind"], size(file["bytes"])) for file in each.get("files", [])]
            terminal.table(("file", "kind", "size"), files, right=("size",))
        terminal.hint(f"{total}; timeleap prune {session} --dry-run says what could go")
        saved = (opened.state.get("files") if opened else None) or {"snapshots": 0}
        if saved["snapshots"]:
            terminal.hint(
                f"and {count(saved['snapshots'], 'snapshot')} of its files: {size(saved['bytes'])} with those of other sessions"
            )
    else:
        sizes = ("bytes", "logBytes", "timelineBytes", "indexBytes", "quarantineBytes", "otherBytes")
        rows = [
            (each["sessionId"], *(size(each[name]) for name in sizes), "in the trash" if "deletedAt" in each else "")
            for each in found["sessions"]
        ]
        columns = ("session", "size", "log", "timelines", "index", "quarantine", "other", "state")
        terminal.table(columns, rows, right=columns[1:-1])
        saved = f", {size(found['filesBytes'])} in snapshots of files" if found.get("filesBytes") else ""
        terminal.hint(f"{total}, {size(found['trashBytes'])} of it in the trash{saved}")


@command(app)
def prune(
    terminal: Terminal,
    session: Session,
    timelines: Annotated[list[str] | None, Argument(metavar="[TIMELINE...]", help="Remove these.")] = None,
    *,
    keep: Annotated[int | None, Option(min=1, help="Keep only so many timelines, the newest.")] = None,
    keep_bytes: Annotated[str | None, Option(help="Keep only so much of timelines, such as 20MB.")] = None,
    older_than: Annotated[str | None, Option(help="Remove those set aside before: 30d, 12h, or a time.")] = None,
    quarantine: Annotated[bool, Option("--quarantine", help="Also what recovery set aside of torn records.")] = False,
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
        removed, files = plan["removed"], plan["quarantine"]
        what = count(len(removed), "timeline") + (f" and {count(len(files), 'quarantine file')}" if files else "")
        goes = bool(removed or files)
        freed = size(plan["freedBytes"])
        terminal.say(f"This removes {what} for good: {freed}." if goes else "There is nothing to remove.")
        for each in (*removed, *files):
            terminal.say(f"  {one_line(each.get('timelineId') or each['file'])}  {size(each['bytes'])}")
        terminal.say(*(f"  {one_line(each['timelineId'])} stays: a fork refers to it" for each in plan["kept"]))
        if not terminal.consents(plan, "Remove for good?", yes=yes, dry_run=dry_run, goes=goes):
            return
        # The head we looked at: what was written meanwhile was not shown.
        done = opened.call("session/prune", **params, expectedHead=plan["head"], saying="Removing")
    terminal.answer(done, f"{size(done['freedBytes'])} freed")


@command(app)
def redact(
    terminal: Terminal,
    session: Session,
    *,
    value_stdin: Annotated[bool, Option("--value-stdin", help="Take out the text on the standard input.")] = False,
    pattern: Annotated[str | None, Option(help="Take out what this regular expression matches.")] = None,
    secrets: Annotated[bool, Option("--secrets", help="Take out what looks like a key or a password.")] = False,
    replacement: Annotated[str | None, Option(help="What stands in its place (default: [redacted]).")] = None,
    deleted_at: Annotated[
        str | None, Option(metavar="TIME", help="Of the session in the trash that was deleted then.")
    ] = None,
    store: Annotated[bool, Option("--store", help="Say which other sessions hold it, too.")] = False,
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
    if value_stdin + (pattern is not None) + secrets > 1:
        raise UsageError("--value-stdin, --pattern and --secrets do not go together")
    named = {"pattern": pattern, "secrets": secrets or None}
    value = None if pattern is not None or secrets else _secret(terminal, value_stdin)
    wanted: Json = {**named, "value": value, "replacement": replacement, "store": store or None}
    wanted["deletedAt"] = deleted_at
    with Backend(terminal) as backend:
        if deleted_at is not None:  # what lies in the trash cannot be opened
            opened = OpenSession(backend, {"sessionId": session})
        else:
            opened = backend.open(session, write=not dry_run)
        plan = opened.call("session/redact", **wanted, dryRun=True, saying="Looking")
        terminal.say(*_where(plan))
        if not terminal.consents(plan, "Take it out for good?", yes=yes, dry_run=dry_run, goes=bool(plan["redacted"])):
            return
        done = opened.call("session/redact", **wanted, expectedHead=plan["head"], saying="Redacting")
    gone = f", and with {count(len(done['snapshots']), 'snapshot')} of files" if done.get("snapshots") else ""
    terminal.answer(
        done, f"taken out of {count(done['records'], 'record')} in {count(len(done['files']), 'file')}{gone}"
    )


def _secret(terminal: Terminal, on_stdin: bool) -> str:
    if on_stdin:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    elif terminal.machine or not terminal.interactive:
        raise UsageError("nobody is there to be asked for the value: --value-stdin, --pattern or --secrets")
    else:
        value = terminal.ask_secret("The text to take out (not shown)")
    if not value:
        raise UsageError("there is nothing to take out: the value is empty")
    return value


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
    if snapshots := plan.get("snapshots"):
        yield f"It also stands in {count(len(snapshots), 'snapshot')} of files, which go as a whole; files on disk stay:"
        yield from (f"  {each['snapshot']} of {one_line(path_of(each['root']))}" for each in snapshots[:_MOST_FILES])
        if (more := len(snapshots) - _MOST_FILES) > 0:
            yield f"  ... and {more:,} more"
    if plan.get("snapshotsUnread"):
        yield f"  snapshots of files were not looked through, and may hold it: {one_line(plan['snapshotsUnread'])}"
    for rule in plan.get("rules", []):
        yield f"  {one_line(rule['rule'])}: {count(rule['values'], 'value')}"
    if plan["kept"]:
        yield f"  {count(plan['kept'], 'place')} stay: they give a record its form"
    if plan["split"]:
        yield f"  {count(plan['split'], 'place')} of these lie over the border of two parts of a message"
    if plan.get("alsoIn"):
        yield f"  other sessions hold it, too: {', '.join(one_line(name) for name in plan['alsoIn'])}"
