"""Commands that find something in the past, or compare it with the present: `search`, `at`, `diff`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from timeleap.cli.backend import Backend, OpenSession, reading, session_identity
from timeleap.cli.command import command
from timeleap.cli.formatting import Json, clock, count, one_line, render, safe
from timeleap.cli.options import Full, Session, TimelineOption, complete_session, parse_time
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError

if TYPE_CHECKING:
    from rich.text import Text

app = typer.Typer(rich_help_panel="Look")

_ROOM = 100
"""Characters of a matching line that are shown."""
_LEAD = 30
"""Of them before the first match, where the line is longer."""
_MOST_LINES = 12
"""Lines of a message in a comparison before the rest is only counted."""
_POINT = "present; a timeline (context_2); a checkpoint's number, label or uid; one of a timeline (context_2:3)."


@command(app)
def search(
    terminal: Terminal,
    query: Annotated[str, typer.Argument(metavar="TEXT", help="What is looked for.")],
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]",
            help="Its id or path; default: every session of the store.",
            autocompletion=complete_session,
        ),
    ] = None,
    *,
    regex: Annotated[bool, typer.Option("--regex", "-E", help="TEXT is a regular expression.")] = False,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="A is a.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Leave timelines out.")] = False,
    repeats: Annotated[bool, typer.Option("--repeats", help="Also what a timeline shares with the log.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many messages.")] = 50,
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
                _tell(terminal, own | match)
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
        return backend.open(session_identity(session), write=False), query
    except (TimeleapRpcError, UsageError):
        with contextlib.suppress(TimeleapRpcError, UsageError):
            return backend.open(session_identity(query), write=False), session
        raise


def _tell(terminal: Terminal, match: Json) -> None:
    if terminal.machine:
        terminal.line(match)
        return
    from rich.text import Text

    place = Text(f"{_where(match)}:{match['index']}: ", style="cyan")
    hits = len(match["ranges"])
    more = f"  ({hits:,} matches{' and more' if match.get('moreRanges') else ''})" if hits > 1 else ""
    terminal.say(Text.assemble(place, _line(match), (more, "dim")))


def _where(place: Json) -> str:
    timeline = f"@{place['timelineId']}" if place.get("timelineId") else ""
    return one_line(f"{place['sessionId']}{timeline}")


def _line(match: Json) -> Text:
    """The line of the message that the first match begins in, with all matches in it standing out."""
    from rich.text import Text

    excerpt = match.get("excerpt")
    if excerpt is None:
        return Text()
    text = excerpt["text"]
    ranges = [tuple(_offset(text, units - excerpt["start"]) for units in each) for each in match["ranges"]]
    begin, end = _window(text, *ranges[0])
    shown, at = Text("…" if begin and text[begin - 1] != "\n" else ""), begin
    for start, stop in ranges:
        first, last = max(start, at), min(stop, end)
        if first < last:
            shown.append(_flat(text[at:first]))
            shown.append(_flat(text[first:last]), style="bold red")
            at = last
    shown.append(_flat(text[at:end]))
    return shown.append("…" if end < len(text) and text[end] != "\n" else "")


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
    if units <= 0:
        return 0
    if text.isascii():
        return min(units, len(text))
    cut = text.encode("utf-16-le", "surrogatepass")[: 2 * units]
    return len(cut.decode("utf-16-le", "surrogatepass"))


@command(app)
def at(
    terminal: Terminal,
    session: Session,
    moment: Annotated[str, typer.Argument(metavar="MOMENT", help="A message's number, or a time: 2026-05-01T10:00.")],
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
    try:
        return {"time": parse_time(text)}
    except ValueError:
        raise UsageError(f"{text} is neither a message's number nor a time, such as 2026-05-01T10:00") from None


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
    base: Annotated[str, typer.Argument(metavar="A", help=_POINT)],
    other: Annotated[str, typer.Argument(metavar="[B]", help="The same; default: present.")] = "present",
    *,
    stat: Annotated[bool, typer.Option("--stat", help="Only counts, no messages.")] = False,
    full: Full = False,
) -> None:
    """Compare two moments: what only A has (-), what only B has (+), and how much both begin with.

    Examples:
        timeleap diff fix-dates context_1
        timeleap diff fix-dates 3 "before the rewrite" --stat
        timeleap diff fix-dates context_1:2 context_2 --json | jq '.added | length'
    """
    with reading(terminal, session) as opened:
        points = _find_point(opened, base), _find_point(opened, other)
        found = _compare(opened, *points, all_pages=not stat)
    terminal.answer(found, *_drawn(points, found, stat=stat, most_lines=None if full else _MOST_LINES))


@dataclass(frozen=True, slots=True)
class Ref:
    """A moment of a session.

    Attributes:
        name: Its name for people.
        params: As `context/diff` takes it.
    """

    name: str
    params: Json


def _find_point(opened: OpenSession, name: str) -> Ref:
    """The moment of that name: `present`, a timeline, or a checkpoint's number, label or uid."""
    if name in {"present", "now"}:
        return Ref("present", {})
    timelines = {each["timelineId"] for each in opened.pages("context/listTimelines", "timelines", limit=1000)}
    if name in timelines:
        return Ref(name, {"timelineId": name})
    log, _, rest = name.partition(":")
    timeline = log if log in timelines else None
    found = opened.checkpoint(rest if timeline else name, timeline)
    if found is None:
        return Ref(name, {"checkpointUid": name})  # the server knows those of timelines as well
    label = f" {one_line(found['label'], 40)}" if found.get("label") else ""
    where = f"{timeline}:" if timeline else ""
    return Ref(f"{where}#{found['id']}{label}", {"checkpointUid": found["uid"]})


def _compare(opened: OpenSession, base: Ref, other: Ref, *, all_pages: bool) -> Json:
    params: Json = {"sessionId": opened.id, "from": base.params, "to": other.params, "limit": 1000 if all_pages else 1}
    whole: Json = {}
    for page in opened.backend.whole_pages("context/diff", params, saying="Comparing"):
        whole = whole or {**page, "removed": [], "added": []}
        if not all_pages:
            break
        whole["removed"] += page["removed"]
        whole["added"] += page["added"]
    whole.pop("nextCursor", None)
    return whole


def _drawn(points: tuple[Ref, Ref], found: Json, *, stat: bool, most_lines: int | None) -> Iterator[Text]:
    from rich.text import Text

    for sign, point, side in zip(("---", "+++"), points, ("from", "to"), strict=True):
        facts = f"{count(found['state'][side]['messageCount'], 'message')}, {count(found['tokens'][side], 'token')}"
        yield Text(f"{sign} {point.name}  ({facts})", style="bold")
    prompts = found["state"]["from"]["systemPrompt"], found["state"]["to"]["systemPrompt"]
    if prompts[0] != prompts[1]:
        yield Text("the system prompt is another one", style="yellow")
    if not (found["removedCount"] or found["addedCount"]):
        yield Text(f"the same {count(found['common'], 'message')}")
        return
    yield Text(
        f"@@ {count(found['common'], 'message')} in common, then -{found['removedCount']:,} +{found['addedCount']:,} @@",
        style="cyan",
    )
    sides = () if stat else (("-", "red", found["removed"]), ("+", "green", found["added"]))
    for sign, style, entries in sides:
        for entry in entries:
            for line in render(entry, most_lines):
                yield Text(f"{sign} {line.plain}", style=style)
