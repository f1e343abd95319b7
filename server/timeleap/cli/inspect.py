"""Commands that look and change nothing: `state`, `sessions`, `log`, `show`, `tail`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from timeleap.cli.backend import Backend, OpenSession, given, reading
from timeleap.cli.command import command
from timeleap.cli.following import TerminalFollower, describe
from timeleap.cli.formatting import Json, ago, count, one_line, process, render, size
from timeleap.cli.graph import read_graph, read_kin, shown
from timeleap.cli.options import Full, Session, TimelineOption, place
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer(rich_help_panel="Look")

_LINES_ON_SCREEN = 12
_PAUSE = 0.1
"""Seconds without a change after which it is worth drawing."""


@command(app)
def state(terminal: Terminal, session: Session) -> None:
    """Show everything about a session but its messages.

    Examples:
        timeleap state fix-dates
        timeleap state fix-dates --json | jq .context.tokenCount
    """
    with reading(terminal, session) as opened:
        present = opened.call("session/getState")
        owner = None if terminal.machine else _owner(opened)
    terminal.answer(present, *_described(present, owner))


def _owner(opened: OpenSession) -> Json | None:
    """The process that has the session open to write, if there is one."""
    params = {"query": opened.id, "includeArchived": True, "limit": 1000}
    found = opened.backend.pages("session/list", params, "sessions")
    return next((info.get("owner") for info in found if info["sessionId"] == opened.id), None)


def _described(present: Json, owner: Json | None) -> Iterator[str]:
    context, approval = present["context"], present["approval"]
    title = f'  "{one_line(present["title"])}"' if present["title"] else ""
    yield f"{present['sessionId']}{title}{'  (archived)' if present['archived'] else ''}"
    yield f"  path         {present['path']}"
    yield f"  live         {f'in {process(owner)}; changes go through it' if owner else 'in no process'}"
    yield f"  messages     {context['messageCount']:,} in {size(context['logBytes'])}"
    pending = context["tokenCountWithPending"] - context["tokenCount"]
    yield f"  tokens       {context['tokenCount']:,}{f' and about {pending:,} since' if pending else ''}"
    checkpoints = len(context["checkpoints"]) + context["checkpointsOmitted"]
    yield f"  checkpoints  {checkpoints:,}, and {count(context['timelines'], 'timeline')}"
    actions = ", ".join(one_line(action) for action in approval["autoApproveActions"]) or "nothing"
    nobody = "; afk ON: what needs a person is rejected" if approval["afk"] else ""
    yolo = "ON: everything runs unasked" if approval["yolo"] else "off"
    yield f"  approvals    yolo {yolo}; unasked: {actions}{nobody}"
    if present["dynamicSubagents"]:
        yield f"  sub-agents   {', '.join(one_line(agent['name']) for agent in present['dynamicSubagents'])}"
    if (mail := present["pendingDMail"]) is not None:
        yield f"  D-Mail       waits for checkpoint #{mail['checkpointId']}: {one_line(mail['message'], 60)}"
    if context["shouldCompact"]:
        yield "  compaction   is due: timeleap compact"
    yield f"  head         {present['head']}"
    for warning in present["warnings"]:
        yield f"  warning      {one_line(warning['message'])} ({warning['kind']})"


@command(app)
def sessions(
    terminal: Terminal,
    query: Annotated[str | None, typer.Argument(help="Only those with this in title or id.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Archived ones too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
) -> None:
    """List sessions, the newest change first. With --json one line each.

    Examples:
        timeleap sessions
        timeleap sessions --all --json | jq -r .sessionId
    """
    params = given(limit=min(limit, 1000), includeArchived=everything, query=query or None)
    with Backend(terminal) as backend:
        found = list(itertools.islice(backend.pages("session/list", params, "sessions"), limit))
    list_sessions(terminal, found, "updatedAt", "changed")
    if not found:
        terminal.hint("none; timeleap new makes one, timeleap demo shows what can be done with it")


def list_sessions(terminal: Terminal, found: list[Json], stamp: str, stamped: str) -> None:
    """Sessions as a table, or as JSON lines."""

    def row(info: Json) -> tuple[object, ...]:
        counts = info["messageCount"], info["tokenCount"]
        return info["sessionId"], *counts, ago(info.get(stamp)), _standing(info), info["title"]

    columns = ("session", "messages", "tokens", stamped, "state", "title")
    terminal.records(found, columns, row, right=("messages", "tokens"))


def _standing(info: Json) -> str:
    archived = ["archived"] if info["archived"] else []
    return ", ".join([*archived, f"live in {process(info['owner'])}"] if "owner" in info else archived)


@command(app)
def log(
    terminal: Terminal,
    session: Session,
    *,
    checkpoints: Annotated[int, typer.Option("--checkpoints", "-n", min=1, help="Draw so many at most.")] = 200,
    timelines: Annotated[int, typer.Option("--timelines", "-t", min=0, help="Draw so many at most.")] = 20,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Redraw it with every change, until Ctrl-C.")] = False,
    graph: Annotated[bool, typer.Option("--graph/--no-graph", help="Draw timelines and forks, too.")] = True,
) -> None:
    """Draw checkpoints and timelines as a graph, the newest at the top.

    A timeline stands where it leaves the present log, with the checkpoints only it has; so does a fork, and the D-Mail
    that waits for a checkpoint.

    Examples:
        timeleap log fix-dates --graph
        timeleap log fix-dates --watch
    """
    with reading(terminal, session) as opened:
        kin, timelines = (read_kin(opened), timelines) if graph else (None, 0)
        changes = opened.backend.changes(opened.id).bursts(_PAUSE) if watch else ()
        if watch:
            terminal.hint(f"watching {opened.id}; Ctrl-C ends")
        with shown(terminal, again=watch) as show_graph:
            show_graph(read_graph(opened, checkpoints, timelines, kin), "")
            for notification in changes:
                show_graph(read_graph(opened, checkpoints, timelines, kin), describe(notification))


@command(app)
def show(
    terminal: Terminal,
    session: Session,
    *,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, help="Only the newest so many messages.")] = None,
    start: Annotated[int | None, typer.Option("--from", min=0, help="From this message (the first is 0).")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Up to before this message.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", "-c", help="Only from this checkpoint to the next.")
    ] = None,
    timeline: TimelineOption = None,
    full: Full = False,
) -> None:
    """Show messages. With --json one line each, `{index, message}`.

    Examples:
        timeleap show fix-dates --last 5
        timeleap show fix-dates --timeline context_2 --from 40
        timeleap show fix-dates --json | jq -r 'select(.message.role=="user") | .message.content'
    """
    named = {"last": last, "from/--to": end if start is None else start, "checkpoint": checkpoint}
    options = [f"--{name}" for name, value in named.items() if value is not None]
    if len(options) > 1:
        raise UsageError(f"{' and '.join(options)} do not go together")
    with reading(terminal, session) as opened:
        window: Json = {"from": 0 if start is None and end is not None else start, "to": end, "timelineId": timeline}
        if checkpoint is not None:
            window["checkpointUid"] = _uid(opened, checkpoint, timeline)
        if last is None:
            _show(terminal, opened.pages("context/getHistory", "messages", **window, limit=200), full)
        else:
            _show(terminal, opened.newest("context/getHistory", "messages", last, **window), full)


@command(app)
def tail(
    terminal: Terminal,
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with every change, until Ctrl-C.")] = False,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=0, help="Messages to begin with (default: 10, with -f 0).")
    ] = None,
) -> None:
    """Show the newest messages; with -f follow what happens until Ctrl-C, for a pipe as JSON lines.

    Following takes no lock: the program that writes the session goes on, and says who changed what. What another one
    takes over is followed there; what no program has open is followed on disk.

    Examples:
        timeleap tail -f fix-dates
        timeleap tail -f fix-dates | jq -c '{kind: .params.kind, head: .params.head}'
    """
    with reading(terminal, session) as opened:
        changes = opened.backend.changes(opened.id) if follow else ()
        machine = terminal.machine or (follow and not terminal.out.is_terminal)
        if most := last if last is not None else 0 if follow else 10:
            _show(Terminal(terminal.home, machine), opened.newest("context/getHistory", "messages", most), full=False)
        if follow:
            terminal.hint(f"following {opened.id}; Ctrl-C ends")
        follower = TerminalFollower(opened, _LINES_ON_SCREEN)
        for notification in changes:
            if machine:
                terminal.line({"method": notification.method, "params": notification.params})
            else:
                terminal.say(*follower.tell(notification))


def _show(terminal: Terminal, entries: Iterable[Json], full: bool) -> None:
    out = terminal.out
    most_lines = None if full or not out.is_terminal else _LINES_ON_SCREEN
    for entry in entries:
        if terminal.machine:
            terminal.line(entry)
            continue
        for line in render(entry, most_lines):
            out.print(line, soft_wrap=True)


def _uid(opened: OpenSession, checkpoint: str, timeline: str | None) -> str:
    """The uid of a checkpoint that is named by id or uid."""
    if (uid := place(checkpoint).get("checkpointUid")) is not None:
        return str(uid)
    found = opened.checkpoint(checkpoint, timeline)
    return checkpoint if found is None else str(found["uid"])
