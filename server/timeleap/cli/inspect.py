"""Commands that look and change nothing: `state`, `sessions`, `log`, `show`, `tail`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from timeleap.cli.arguments import Session, place
from timeleap.cli.backend import Backend, Changes, OpenSession, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import ago, count, one_line, process, size
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError

app = typer.Typer()
PANEL = "Look"
Json = dict[str, Any]

_LINES_ON_SCREEN = 12
_PAUSE = 0.1
"""Seconds without a change after which it is worth drawing."""


@command(app, rich_help_panel=PANEL)
def state(terminal: Terminal, session: Session) -> None:
    """Show everything about a session but its messages.

    Examples:
        timeleap state fix-dates
        timeleap state fix-dates --json | jq .context.tokenCount
    """
    with Backend(terminal) as backend:
        present = backend.open_to_read(Target.of(session)).call("session/getState")
        owner = None if terminal.machine else _owner(backend, present["sessionId"])
    if terminal.machine:
        terminal.document(present)
    else:
        terminal.say(*_described(present, owner))


def _owner(backend: Backend, session_id: str) -> Json | None:
    """The process that has the session open to write, if there is one."""
    params = {"query": session_id, "includeArchived": True, "limit": 1000}
    found = backend.pages("session/list", params, "sessions")
    return next((info.get("owner") for info in found if info["sessionId"] == session_id), None)


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


@command(app, rich_help_panel=PANEL)
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
    params: Json = {"limit": min(limit, 1000), "includeArchived": everything}
    if query:
        params["query"] = query
    with Backend(terminal) as backend:
        found = _first(backend.pages("session/list", params, "sessions"), limit)
    list_sessions(terminal, found, "updatedAt", "changed")
    if not found:
        terminal.hint("none; timeleap new makes one, timeleap demo shows what can be done with it")


def list_sessions(terminal: Terminal, found: list[Json], stamp: str, stamped: str) -> None:
    """Sessions as a table, or as JSON lines."""
    if terminal.machine:
        for info in found:
            terminal.line(info)
        return
    rows = [
        (
            info["sessionId"],
            info["messageCount"],
            info["tokenCount"],
            ago(info.get(stamp)),
            ", ".join(_standing(info)),
            info["title"],
        )
        for info in found
    ]
    terminal.table(("session", "messages", "tokens", stamped, "state", "title"), rows, right=("messages", "tokens"))


def _standing(info: Json) -> Iterator[str]:
    if info["archived"]:
        yield "archived"
    if "owner" in info:
        yield f"live in {process(info['owner'])}"


@command(app, rich_help_panel=PANEL)
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
    from timeleap.cli.following import describe
    from timeleap.cli.graph import read_graph, read_kin
    from timeleap.cli.watching import View

    view = View(terminal)
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        kin, timelines = (read_kin(opened), timelines) if graph else (None, 0)
        if not watch:
            view.show(read_graph(opened, checkpoints, timelines, kin))
            return
        changes = backend.changes(opened.id)
        terminal.hint(f"watching {opened.id}; Ctrl-C ends")
        with view.lively() as show:
            show(read_graph(opened, checkpoints, timelines, kin), "")
            for notification in changes.bursts(_PAUSE):
                show(read_graph(opened, checkpoints, timelines, kin), describe(notification))


@command(app, rich_help_panel=PANEL)
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
    timeline: Annotated[
        str | None, typer.Option("--timeline", "-t", help="Of this timeline, not the present log.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut no long message.")] = False,
) -> None:
    """Show messages. With --json one line each, `{index, message}`.

    Examples:
        timeleap show fix-dates --last 5
        timeleap show fix-dates --timeline context_2 --from 40
        timeleap show fix-dates --json | jq -r 'select(.message.role=="user") | .message.content'
    """
    _only_one(last=last, range=start if start is not None else end, checkpoint=checkpoint)
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        params: Json = {"from": start, "to": end, "timelineId": timeline, "limit": 200}
        if start is None and end is not None:
            params["from"] = 0
        if checkpoint is not None:
            params["checkpointUid"] = _uid(opened, checkpoint, timeline)
        if last is None:
            _show(terminal, opened.pages("context/getHistory", "messages", **params), full)
        else:
            newest = opened.pages(
                "context/getHistory", "messages", **{**params, "order": "desc", "limit": min(last, 1000)}
            )
            _show(terminal, iter(_first(newest, last)[::-1]), full)


@command(app, rich_help_panel=PANEL)
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
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        following = backend.changes(opened.id) if follow else None
        machine = terminal.machine or (follow and not terminal.out.is_terminal)
        most = last if last is not None else 0 if follow else 10
        if most:
            newest = opened.pages("context/getHistory", "messages", order="desc", limit=min(most, 1000))
            _show(Terminal(terminal.home, machine), iter(_first(newest, most)[::-1]), full=False)
        if following is not None:
            terminal.hint(f"following {opened.id}; Ctrl-C ends")
            _follow(terminal, opened, following, machine)


def _follow(terminal: Terminal, opened: OpenSession, following: Changes, machine: bool) -> None:
    from timeleap.cli.following import TerminalFollower

    follower = TerminalFollower(opened, _LINES_ON_SCREEN)
    for notification in following:
        if machine:
            terminal.line({"method": notification.method, "params": notification.params})
        else:
            terminal.say(*follower.tell(notification))


def _show(terminal: Terminal, entries: Iterator[Json], full: bool) -> None:
    from timeleap.cli.messages import render

    if terminal.machine:
        for entry in entries:
            terminal.line(entry)
        return
    out = terminal.out
    most_lines = None if full or not out.is_terminal else _LINES_ON_SCREEN
    for entry in entries:
        for line in render(entry, most_lines):
            out.print(line, soft_wrap=True)


def _uid(opened: OpenSession, checkpoint: str, timeline: str | None) -> str:
    """The uid of a checkpoint that is named by id or uid."""
    wanted = place(checkpoint)
    if "checkpointUid" in wanted:
        return str(wanted["checkpointUid"])
    for found in opened.pages("context/listCheckpoints", "checkpoints", limit=1000, timelineId=timeline):
        if found["id"] == wanted["checkpointId"]:
            return str(found["uid"])
    data = {"kind": "checkpointNotFound", "retryable": False}
    raise TimeleapRpcError(4002, "checkpointNotFound", f"there is no checkpoint #{wanted['checkpointId']}", data, False)


def _only_one(**options: object) -> None:
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} do not go together".replace("--range", "--from/--to"))


def _first(entries: Iterator[Json], most: int) -> list[Json]:
    found = []
    for entry in entries:
        found.append(entry)
        if len(found) == most:
            break
    return found
