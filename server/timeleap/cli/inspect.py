"""Commands that look and change nothing: `state`, `sessions`, `log`, `show`, `tail`, `search`, `at`, `diff`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

from timeleap.cli.backend import Backend, OpenSession, given, reading
from timeleap.cli.command import Full, Session, TimelineOption, command, complete_session, parse_time, place
from timeleap.cli.following import TerminalFollower, describe
from timeleap.cli.formatting import clock, count, one_line, process, render, safe, size
from timeleap.cli.graph import read_graph, read_kin, shown
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.session_tables import add_subagents, list_by_project, list_sessions
from timeleap.cli.styled_text import StyledText
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError

app = Commands()

_MOST_LINES = 12
"""Lines of a message before the rest is only counted."""
_PAUSE = 0.1
"""Seconds without a change after which it is worth drawing."""
_ROOM = 100
"""Characters of a matching line that are shown."""
_LEAD = 30
"""Characters before the first match, where the line is longer."""
_FILES = {"checkpoint": "saved at each checkpoint", "turn": "saved at each checkpoint and end of a turn"}
_POINT = "present; a timeline (context_2); a checkpoint's number, label or uid; one of a timeline (context_2:3)."


@command(app)
def state(terminal: Terminal, session: Session) -> None:
    """Show everything about a session but its messages.

    Examples:
        timeleap state fix-dates
        timeleap state fix-dates --json | jq .context.tokenCount
    """
    with reading(terminal, session) as opened:
        present = opened.call("session/getState")
        owner = None
        if not terminal.machine:
            params = {"query": opened.id, "includeArchived": True, "limit": 1000}
            found = opened.backend.pages("session/list", params, "sessions")
            owner = next((info.get("owner") for info in found if info["sessionId"] == opened.id), None)
    terminal.answer(present, *_described(present, owner))


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
    if (files := present.get("files")) and (files["mode"] != "off" or files["snapshots"]):
        problem = f"; {one_line(files['problem']['message'])}" if files.get("problem") else ""
        taken = f"{count(files['snapshots'], 'snapshot')}, {size(files['bytes'])}"
        yield f"  files        {_FILES.get(files['mode'], 'not saved')}: {taken}{problem}"
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
    query: Annotated[str | None, Argument(help="Only those with this in title or id.")] = None,
    everything: Annotated[bool, Option("--all", "-a", help="Archived ones too.")] = False,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    flat: Annotated[bool, Option("--flat", help="One list, whatever they belong to.")] = False,
) -> None:
    """List sessions by project and program, the newest change first. With --json one line each, the newest first of all.

    A project is a git repository with its worktrees, or else a folder. Sub-agents stand below the session they work for;
    with --json in its `subagents`.

    Examples:
        timeleap sessions
        timeleap sessions --flat
        timeleap sessions --all --json | jq -r .sessionId
    """
    params = given(limit=min(limit, 1000), includeArchived=everything, query=query or None)
    with Backend(terminal) as backend:
        found = list(itertools.islice(backend.pages("session/list", params, "sessions"), limit))
        add_subagents(backend, found)
    if flat or terminal.machine:
        list_sessions(terminal, found, "updatedAt", "changed")
    else:
        list_by_project(terminal, found)
    if not found:
        terminal.hint("none; timeleap new makes one, timeleap demo shows what can be done with it")


@command(app)
def log(
    terminal: Terminal,
    session: Session,
    *,
    checkpoints: Annotated[int, Option("--checkpoints", "-n", min=1, help="Draw so many at most.")] = 200,
    timelines: Annotated[int, Option("--timelines", "-t", min=0, help="Draw so many at most.")] = 20,
    watch: Annotated[bool, Option("--watch", "-w", help="Redraw it with every change, until Ctrl-C.")] = False,
    graph: Annotated[bool, Option("--graph/--no-graph", help="Draw timelines and forks, too.")] = True,
) -> None:
    """Draw checkpoints and timelines as a graph, the newest at the top.

    A checkpoint's row tells what happened after it: the prompt, or the call that failed, or else the first one, and what
    that took, such as +1.4K tokens; it is red where a call failed.

    A timeline stands where it leaves the present log, with the checkpoints only it has; so does a fork, and the D-Mail
    that waits for a checkpoint.

    Examples:
        timeleap log fix-dates --graph
        timeleap log fix-dates --watch
    """
    with reading(terminal, session, follow=watch) as opened:
        kin, timelines = (read_kin(opened), timelines) if graph else (None, 0)
        changes = opened.backend.changes(opened.id, _PAUSE) if watch else ()
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
    last: Annotated[int | None, Option("--last", "-n", min=1, help="Only the newest so many messages.")] = None,
    start: Annotated[int | None, Option("--from", min=0, help="From this message (the first is 0).")] = None,
    end: Annotated[int | None, Option("--to", min=0, help="Up to before this message.")] = None,
    checkpoint: Annotated[
        str | None, Option("--checkpoint", "-c", help="Only from this checkpoint to the next.")
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
            window["checkpointUid"] = place(checkpoint).get("checkpointUid") or opened.uid(checkpoint, timeline)
        if last is None:
            _show(terminal, opened.pages("context/getHistory", "messages", **window, limit=200), full)
        else:
            _show(terminal, opened.newest("context/getHistory", "messages", last, **window), full)


@command(app)
def tail(
    terminal: Terminal,
    session: Session,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on with every change, until Ctrl-C.")] = False,
    last: Annotated[
        int | None, Option("--last", "-n", min=0, help="Messages to begin with (default: 10, with -f 0).")
    ] = None,
) -> None:
    """Show the newest messages; with -f follow what happens until Ctrl-C, for a pipe as JSON lines.

    Following takes no lock: the program that writes the session goes on, and says who changed what. What another one
    takes over is followed there; what no program has open is followed on disk.

    Examples:
        timeleap tail -f fix-dates
        timeleap tail -f fix-dates | jq -c '{kind: .params.kind, head: .params.head}'
    """
    with reading(terminal, session, follow=follow) as opened:
        changes = opened.backend.changes(opened.id) if follow else ()
        machine = terminal.machine or (follow and not terminal.out.is_terminal)
        if most := last if last is not None else 0 if follow else 10:
            _show(Terminal(terminal.home, machine), opened.newest("context/getHistory", "messages", most), full=False)
        if follow:
            terminal.hint(f"following {opened.id}; Ctrl-C ends")
        follower = TerminalFollower(opened, _MOST_LINES)
        for notification in changes:
            if machine:
                terminal.line({"method": notification.method, "params": notification.params})
            else:
                terminal.say(*follower.tell(notification))


def _show(terminal: Terminal, entries: Iterable[Json], full: bool) -> None:
    most_lines = None if full or not terminal.out.is_terminal else _MOST_LINES
    for entry in entries:
        if terminal.machine:
            terminal.line(entry)
        else:
            terminal.say(*render(entry, most_lines))


@command(app)
def search(
    terminal: Terminal,
    query: Annotated[str, Argument(metavar="TEXT", help="What is looked for.")],
    session: Annotated[
        str | None,
        Argument(
            metavar="[SESSION]",
            help="Its id or path; default: every session of the store.",
            complete=complete_session,
        ),
    ] = None,
    *,
    regex: Annotated[bool, Option("--regex", "-E", help="TEXT is a regular expression.")] = False,
    ignore_case: Annotated[bool, Option("--ignore-case", "-i", help="A is a.")] = False,
    live: Annotated[bool, Option("--live", help="Leave timelines out.")] = False,
    repeats: Annotated[bool, Option("--repeats", help="Also what a timeline shares with the log.")] = False,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most so many messages.")] = 50,
) -> None:
    """Find messages in a session, in its timelines, or in the whole store. With --json one line each.

    A line says where the message is, as `SESSION:INDEX`, or `SESSION@TIMELINE:INDEX` for one that is not in the log any
    more; then what the match stands in.

    Examples:
        timeleap search 1969 fix-dates
        timeleap search -i -E "error: .*timeout"
        timeleap search TODO fix-dates --live --json | jq .index
    """
    wanted: Json = {"query": query, "timelines": not live, "distinct": not repeats, "excerpts": True}
    wanted |= {"limit": min(limit, 1000), "regex": regex, "ignoreCase": ignore_case}
    left, more = limit, False
    with Backend(terminal) as backend:
        if session is None:
            method, own = "session/search", {}
        else:
            opened, wanted["query"] = _opened(backend, query, session)
            method, own = "context/search", {"sessionId": opened.id}
        for page in backend.whole_pages(method, wanted | own, saying="Searching"):
            for match in page["matches"][:left]:
                if terminal.machine:
                    terminal.line(own | match)
                else:
                    terminal.say(_matching(own | match))
            for unread in page.get("unread", []):
                terminal.hint(f"not searched: {_where(own | unread)}: {one_line(unread['message'])}")
            more = "nextCursor" in page or len(page["matches"]) > left
            left -= min(left, len(page["matches"]))
            if not left:
                break
    if left == limit:
        terminal.hint("nothing found")
    elif more and not left:
        terminal.hint(f"there may be more: --limit {limit * 10}")


def _opened(backend: Backend, query: str, session: str) -> tuple[OpenSession, str]:
    """The session and the query; the session is also accepted first, as in other commands."""
    try:
        return backend.open(session), query
    except (TimeleapRpcError, UsageError):
        with contextlib.suppress(TimeleapRpcError, UsageError):
            return backend.open(query), session
        raise


def _matching(match: Json) -> StyledText:
    hits = len(match["ranges"])
    more = f"  ({hits:,} matches{' and more' if match.get('moreRanges') else ''})" if hits > 1 else ""
    return StyledText.assemble((f"{_where(match)}:{match['index']}: ", "cyan"), _line(match), (more, "dim"))


def _where(place: Json) -> str:
    timeline = f"@{place['timelineId']}" if place.get("timelineId") else ""
    return one_line(f"{place['sessionId']}{timeline}")


def _line(match: Json) -> StyledText:
    """The line of the message that the first match begins in, with all matches in it standing out."""
    excerpt = match.get("excerpt")
    if excerpt is None:
        return StyledText()
    text = excerpt["text"]
    ranges = [tuple(_offset(text, units - excerpt["start"]) for units in each) for each in match["ranges"]]
    begin, end = _window(text, *ranges[0])
    shown, at = StyledText("…" if begin and text[begin - 1] != "\n" else ""), begin
    for start, stop in ranges:
        first, last = max(start, at), min(stop, end)
        if first < last:
            shown.append(_flat(text[at:first])).append(_flat(text[first:last]), style="bold red")
            at = last
    return shown.append(_flat(text[at:end])).append("…" if end < len(text) and text[end] != "\n" else "")


def _window(text: str, start: int, end: int) -> tuple[int, int]:
    """The part of `text` that is shown for a match: its line, or what is around it where that is long."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    if last - first > _ROOM:
        first = max(first, start - _LEAD)
        last = min(last, max(first + _ROOM, end))
    return first, min(last, first + 5 * _ROOM)


def _flat(text: str) -> str:
    return safe(text.replace("\n", " ").replace("\t", " "))


def _offset(text: str, units: int) -> int:
    """A place in `text`, given in UTF-16 units as the wire counts."""
    if text.isascii():
        return min(max(units, 0), len(text))
    cut = text.encode("utf-16-le", "surrogatepass")[: 2 * max(units, 0)]
    return len(cut.decode("utf-16-le", "surrogatepass"))


@command(app)
def at(
    terminal: Terminal,
    session: Session,
    moment: Annotated[str, Argument(metavar="MOMENT", help="A message's number, or a time: 2026-05-01T10:00.")],
    timeline: TimelineOption = None,
) -> None:
    """Say which checkpoint led to a message or a time, and what the context amounted to there.

    A time without an offset from UTC is local. Without --timeline a time is looked up in the log that was the live one then.

    Examples:
        timeleap at fix-dates 12
        timeleap at fix-dates 2026-05-01T10:00
    """
    with reading(terminal, session) as opened:
        found = opened.call("context/at", **_moment(moment), timelineId=timeline)
    state = found["state"]
    terminal.answer(
        found,
        f"in           {found.get('timelineId', 'the present log')}",
        f"after        {_named(found['checkpoint'])}",
        f"before       {_named(found['nextCheckpoint'])}",
        f"messages     {state['messageCount']:,}",
        f"tokens       {state['tokenCount']:,}",
        f"checkpoints  {state['checkpointCount']:,}",
    )


def _moment(text: str) -> Json:
    if text.isascii() and text.isdigit():
        return {"index": int(text)}
    return {"time": parse_time(text, f"{text} is neither a message's number nor a time, such as 2026-05-01T10:00")}


def _named(checkpoint: Json | None) -> str:
    if checkpoint is None:
        return "no checkpoint"
    label = f"  {one_line(checkpoint['label'], 60)}" if checkpoint.get("label") else ""
    stamp = f", {clock(checkpoint['createdAt'])}" if checkpoint.get("createdAt") else ""
    return f"#{checkpoint['id']}{label} ({checkpoint['uid']}{stamp})"


@command(app)
def diff(
    terminal: Terminal,
    session: Session,
    base: Annotated[str, Argument(metavar="A", help=_POINT)],
    other: Annotated[str, Argument(metavar="[B]", help="The same, or SESSION:B; default: present.")] = "present",
    *,
    stat: Annotated[bool, Option("--stat", help="Only counts, no messages.")] = False,
    full: Full = False,
) -> None:
    """Compare two moments: what only A has (-), what only B has (+), and how much both begin with.

    Examples:
        timeleap diff fix-dates context_1
        timeleap diff fix-dates 3 "before the rewrite" --stat
        timeleap diff fix-dates context_1:2 context_2 --json | jq '.added | length'
        timeleap diff fix-dates present other-try:present
    """
    with reading(terminal, session) as opened:
        points = [_find_point(opened, base), _find_any_point(opened, other)]
        names, places = zip(*points, strict=True)
        params = {"sessionId": opened.id, "from": places[0], "to": places[1], "limit": 1 if stat else 1000}
        found: Json = {}
        for page in opened.backend.whole_pages("context/diff", params, saying="Comparing"):
            found = found or {**page, "removed": [], "added": []}
            if stat:
                break
            found["removed"] += page["removed"]
            found["added"] += page["added"]
        found.pop("nextCursor", None)
    terminal.answer(found, *_compared(names, found, stat=stat, most_lines=None if full else _MOST_LINES))


def _find_any_point(opened: OpenSession, name: str) -> tuple[str, Json]:
    """The moment of that name, of this session or (`SESSION:B`) of another one."""
    session_id, colon, rest = name.partition(":")
    if not colon or session_id in {timeline["timelineId"] for timeline in opened.timelines()}:
        return _find_point(opened, name)
    wanted: Json = {"query": session_id, "limit": 1000, "includeArchived": True}
    sessions = opened.backend.call("session/list", wanted)["sessions"]
    if session_id not in {session["sessionId"] for session in sessions}:
        return _find_point(opened, name)
    said, place = _find_point(opened.backend.open(session_id), rest or "present")
    return f"{session_id}:{said}", {**place, "sessionId": session_id}


def _find_point(opened: OpenSession, name: str) -> tuple[str, Json]:
    """The moment of that name (`present`, a timeline, a checkpoint's number, label or uid) in words, and as params."""
    if name in {"present", "now"}:
        return "present", {}
    timelines = {timeline["timelineId"] for timeline in opened.timelines()}
    if name in timelines:
        return name, {"timelineId": name}
    log, _, rest = name.partition(":")
    timeline = log if log in timelines else None
    found = opened.checkpoint(rest if timeline else name, timeline)
    if found is None:
        return name, {"checkpointUid": name}  # the server knows those of timelines as well
    label = f" {one_line(found['label'], 40)}" if found.get("label") else ""
    where = f"{timeline}:" if timeline else ""
    return f"{where}#{found['id']}{label}", {"checkpointUid": found["uid"]}


def _compared(names: Iterable[str], found: Json, *, stat: bool, most_lines: int | None) -> Iterator[StyledText]:
    for sign, name, side in zip(("---", "+++"), names, ("from", "to"), strict=True):
        facts = f"{count(found['state'][side]['messageCount'], 'message')}, {count(found['tokens'][side], 'token')}"
        yield StyledText(f"{sign} {name}  ({facts})", style="bold")
    if found["state"]["from"]["systemPrompt"] != found["state"]["to"]["systemPrompt"]:
        yield StyledText("the system prompt is another one", style="yellow")
    if not (found["removedCount"] or found["addedCount"]):
        yield StyledText(f"the same {count(found['common'], 'message')}")
        return
    changed = f"-{found['removedCount']:,} +{found['addedCount']:,}"
    yield StyledText(f"@@ {count(found['common'], 'message')} in common, then {changed} @@", style="cyan")
    sides = () if stat else (("-", "red", found["removed"]), ("+", "green", found["added"]))
    for sign, style, entries in sides:
        for entry in entries:
            for line in render(entry, most_lines):
                yield StyledText(f"{sign} {line.plain}", style=style)
