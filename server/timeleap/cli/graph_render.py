"""The graph of a session, drawn: the newest at the top, each timeline at the place where it leaves the live log.

●  now                                 41 messages      5,210 tokens  12.3 KB
│
○  #4  try the fix                     38 messages      5,010 tokens  12:03:10
│
├─◇ context_2  reverted 12:03:09       45 messages      14.1 KB
│    · #4  old attempt                 39 messages
○  #3  look at the code                30 messages      4,100 tokens  12:01:00
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from timeleap.cli.formatting import clock, count, one_line, size
from timeleap.cli.graph import Graph, TimelineBranch

if TYPE_CHECKING:
    from rich.text import Text

Json = dict[str, Any]

_ENDED_BY = {
    "revert": "set aside by a revert",
    "clear": "set aside by a clear",
    "compact": "as it was before a compaction",
    "restore": "set aside by a restore",
    "dmail": "set aside by a D-Mail",
    "import": "came with an import",
}
_COLUMNS = (14, 15, 18)
"""Widths of the columns of facts; what is left is for the names."""
_MOST_LEFT = 6
"""Checkpoints of a timeline that are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs a picture is made of."""

    now: str
    checkpoint: str
    line: str
    fork: str
    left: str
    end: str
    away: str


PRETTY = Glyphs("●", "○", "│", "├─◇", "·", "┴", "├─▷")
PLAIN = Glyphs("@", "o", "|", "|-*", ".", "+", "|->")
"""For terminals that know ASCII only."""


def glyphs_for(encoding: str | None) -> Glyphs:
    """The signs an output of that encoding can show."""
    try:
        "".join(astuple(PRETTY)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return PRETTY


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One line of the picture: signs, name, and facts in columns."""

    signs: str
    name: str
    facts: Sequence[str] = ()
    style: str = ""
    sign_style: str = "cyan"


def rows(graph: Graph, glyphs: Glyphs = PRETTY) -> Iterator[GraphRow]:
    """The lines of the picture, newest first."""
    context = graph.state["context"]
    yield GraphRow(
        f"{glyphs.now}  ",
        "now",
        [
            count(context["messageCount"], "message"),
            _tokens(context["tokenCountWithPending"]),
            size(context["logBytes"]),
        ],
        "bold",
        "bold green",
    )
    drawn = {checkpoint["uid"] for checkpoint in graph.checkpoints}
    mail = graph.state.get("pendingDMail") or {}
    forks = _by_checkpoint(graph.kin.forks)
    yield from _forks(forks.pop("", []), glyphs)
    for checkpoint in reversed(graph.checkpoints):
        uid = checkpoint["uid"]
        yield from _branches(graph.branches.get(uid, []), glyphs)
        yield from _forks(forks.pop(uid, []), glyphs)
        if mail.get("checkpointUid") == uid:
            yield GraphRow(f"{glyphs.line}    ", f"a D-Mail waits: {one_line(mail['message'], 60)}", style="magenta")
        yield _checkpoint(checkpoint, f"{glyphs.checkpoint}  ")
    if graph.omitted:
        yield GraphRow(f"{glyphs.line}  ", f"... {count(graph.omitted, 'older checkpoint')}", style="dim")
        for uid, branches in graph.branches.items():
            yield from _branches(branches if uid and uid not in drawn else [], glyphs)
    yield from _branches(graph.branches.get("", []), glyphs)
    for of_what_is_not_drawn in forks.values():
        yield from _forks(of_what_is_not_drawn, glyphs)
    origin = f" of a fork of {one_line(graph.kin.parent['sessionId'])}" if graph.kin.parent else ""
    yield GraphRow(f"{glyphs.end}  ", f"start{origin}", style="dim")
    if graph.timelines_omitted:
        yield GraphRow("   ", f"... {count(graph.timelines_omitted, 'older timeline')} not drawn", style="dim")


def draw(graph: Graph, width: int, glyphs: Glyphs = PRETTY) -> list[Text]:
    """The picture as lines of at most `width` columns."""
    from rich.text import Text

    lines = []
    name_width = max(24, min(60, width - sum(_COLUMNS)))
    for row in rows(graph, glyphs):
        line = Text(row.signs, style=row.sign_style)
        room = name_width - len(row.signs)
        line.append(one_line(row.name, room).ljust(room) if row.facts else row.name, style=row.style)
        for fact, pad in zip(row.facts, _COLUMNS, strict=False):
            line.append(fact.rjust(pad), style="dim" if row.style == "dim" else "")
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return lines


def _checkpoint(checkpoint: Json, signs: str, style: str = "") -> GraphRow:
    what = checkpoint.get("label") or checkpoint.get("preview") or ""
    facts = [count(checkpoint["messageCount"], "message"), _tokens(checkpoint["tokenCount"])]
    return GraphRow(
        signs, f"#{checkpoint['id']}  {one_line(what)}", [*facts, clock(checkpoint.get("createdAt"))], style
    )


def _branches(branches: list[TimelineBranch], glyphs: Glyphs) -> Iterator[GraphRow]:
    for branch in branches:
        timeline = branch.timeline
        why = _ENDED_BY.get(timeline["reason"], "an earlier log")
        facts = [count(timeline["messageCount"], "message"), size(timeline["bytes"]), clock(timeline.get("createdAt"))]
        yield GraphRow(f"{glyphs.fork} ", f"{timeline['timelineId']}  {why}", facts, "yellow", "yellow")
        shown = branch.checkpoints[-_MOST_LEFT:]
        for checkpoint in reversed(shown):
            yield _checkpoint(checkpoint, f"{glyphs.line}    {glyphs.left} ", "dim")
        if hidden := len(branch.checkpoints) - len(shown):
            yield GraphRow(
                f"{glyphs.line}    {glyphs.left} ", f"... {count(hidden, 'older checkpoint')} of its own", style="dim"
            )


def _by_checkpoint(forks: list[Json]) -> dict[str, list[Json]]:
    """Forks by the uid of the checkpoint they were made at; "" for those of the whole log."""
    found: dict[str, list[Json]] = {}
    for fork in forks:
        found.setdefault(fork["parent"].get("checkpointUid", ""), []).append(fork)
    return found


def _forks(forks: list[Json], glyphs: Glyphs) -> Iterator[GraphRow]:
    for fork in forks:
        facts = [count(fork["messageCount"], "message"), "", clock(fork["createdAt"])]
        yield GraphRow(f"{glyphs.away} ", f"{fork['sessionId']}  a fork", facts, "blue", "blue")


def _tokens(number: int) -> str:
    return count(number, "token")
