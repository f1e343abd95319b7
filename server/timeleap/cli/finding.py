"""Commands that find something in the past: `search`, `at`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timeleap.cli.arguments import Session, complete_session
from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import clock, one_line, safe
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError

if TYPE_CHECKING:
    from rich.text import Text

app = typer.Typer()
PANEL = "Look"
Json = dict[str, Any]

_ROOM = 100
"""Characters of a matching line that are shown."""
_LEAD = 30
"""Of them before the first match, where the line is longer."""


@command(app, rich_help_panel=PANEL)
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
        return backend.open_to_read(Target.of(session)), query
    except (TimeleapRpcError, UsageError):
        with contextlib.suppress(TimeleapRpcError, UsageError):
            return backend.open_to_read(Target.of(query)), session
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


@command(app, rich_help_panel=PANEL)
def at(
    terminal: Terminal,
    session: Session,
    moment: Annotated[str, typer.Argument(metavar="MOMENT", help="A message's number, or a time: 2026-05-01T10:00.")],
    timeline: Annotated[
        str | None, typer.Option("--timeline", "-t", help="Of this timeline, not the present log.")
    ] = None,
) -> None:
    """Say which checkpoint led to a message or a time, and what the context amounted to there.

    A time without an offset from UTC is local. Without --timeline a time is looked up in the log that was the live one then.

    Examples:
        timeleap at fix-dates 12
        timeleap at fix-dates 2026-05-01T10:00
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        found = opened.call("context/at", **_moment(moment), timelineId=timeline)
    if terminal.machine:
        terminal.document(found)
    else:
        terminal.say(*_described(found))


def _moment(text: str) -> Json:
    if text.isascii() and text.isdigit():
        return {"index": int(text)}
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text} is neither a message's number nor a time, such as 2026-05-01T10:00") from None
    return {"time": (time if time.tzinfo else time.astimezone()).isoformat()}


def _described(found: Json) -> Iterator[str]:
    state = found["state"]
    yield f"in           {found.get('timelineId', 'the present log')}"
    yield f"after        {_named(found['checkpoint'])}"
    yield f"before       {_named(found['nextCheckpoint'])}"
    yield f"messages     {state['messageCount']:,}"
    yield f"tokens       {state['tokenCount']:,}"
    yield f"checkpoints  {state['checkpointCount']:,}"


def _named(checkpoint: Json | None) -> str:
    if checkpoint is None:
        return "no checkpoint"
    label = f"  {one_line(checkpoint['label'], 60)}" if checkpoint.get("label") else ""
    stamp = f", {clock(checkpoint['createdAt'])}" if checkpoint.get("createdAt") else ""
    return f"#{checkpoint['id']}{label} ({checkpoint['uid']}{stamp})"
