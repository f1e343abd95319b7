"""The graph of a session: its checkpoints, where timelines leave them, and how that is drawn, newest at the top.

●  now                                 41 messages      5,210 tokens  12.3 KB
│
○  #4  pytest tests                    38 messages      5,010 tokens  12:03:10  +1.4K 1 failed
│
├─◇ context_2  reverted 12:03:09       45 messages      14.1 KB
│    · #4  old attempt                 39 messages
○  #3  look at the code                30 messages      4,100 tokens  12:01:00
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from timeleap.cli.backend import OpenSession
from timeleap.cli.file_changes import mark
from timeleap.cli.formatting import clock, count, now, one_line, size
from timeleap.cli.output import Redrawn
from timeleap.cli.styled_text import StyledText
from timeleap.json_value import Json
from timeleap.message_text import span_name
from timeleap.summaries.names import growth

if TYPE_CHECKING:
    from timeleap.cli.terminal import Terminal

_ENDED_BY = {
    "revert": "set aside by a revert",
    "clear": "set aside by a clear",
    "compact": "as it was before a compaction",
    "fold": "as it was before a fold",
    "restore": "set aside by a restore",
    "dmail": "set aside by a D-Mail",
    "external": "set aside as its program went back",
    "import": "came with an import",
}
_COLUMNS = (14, 15, 18, 12, 17)
"""Widths of the columns of facts, of which those that no row fills are left out; what is left is for the names."""
_ALWAYS = 3
_MOST_LEFT = 6
"""Checkpoints of a timeline that are named; the rest is counted."""
_WINDOW = 1000
"""Checkpoints of a log that are looked at to find where a timeline leaves it: one page."""
_PIPE_WIDTH = 120


class Kin(NamedTuple):
    """Parent (`{sessionId, checkpointUid}`; None: no fork) and forks (SessionInfo of each) of a session."""

    parent: Json | None = None
    forks: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The live log with its newest checkpoints, oldest first, and its newest timelines.

    `branches` are by the uid of the last checkpoint shared with the live log (perhaps one that is omitted), "" where
    none is shared; that uid is their `leavesAfter`, and their `checkpoints` are those after it, oldest first.
    """

    state: Json
    checkpoints: list[Json]
    omitted: int = 0
    branches: dict[str, list[Json]] = field(default_factory=dict)
    timelines_omitted: int = 0
    kin: Kin = Kin()

    def as_json(self) -> Json:
        """For machines: everything, with the place where each timeline leaves the live log."""
        timelines = itertools.chain.from_iterable(self.branches.values())
        return {
            **{name: self.state[name] for name in ("sessionId", "head", "context")},
            "checkpoints": self.checkpoints,
            "checkpointsOmitted": self.omitted,
            "timelines": sorted(timelines, key=lambda timeline: timeline.get("createdAt") or "", reverse=True),
            "timelinesOmitted": self.timelines_omitted,
            "parent": self.kin.parent,
            "forks": self.kin.forks,
        }


def read_kin(session: OpenSession) -> Kin:
    """Read a session's parent and forks: only those among the sessions that changed last are found."""
    newest = session.backend.call("session/list", {"limit": _WINDOW, "includeArchived": True})["sessions"]
    own: Json = next((info for info in newest if info["sessionId"] == session.id), {})
    return Kin(own.get("parent"), [info for info in newest if info.get("parent", {}).get("sessionId") == session.id])


def read_graph(session: OpenSession, checkpoints: int, timelines: int, kin: Kin | None = None) -> Graph:
    """Read the shape of a session, with so many of its newest checkpoints and timelines; `kin` was read before."""
    state = session.call("session/getState")
    live = session.newest("context/listCheckpoints", "checkpoints", max(checkpoints, _WINDOW))
    summary = state["context"]
    shown = live[-checkpoints:]
    omitted = max(0, len(summary["checkpoints"]) + summary["checkpointsOmitted"] - len(shown))
    listed = session.call("context/listTimelines", limit=max(1, timelines))["timelines"][:timelines]
    known = {checkpoint["uid"] for checkpoint in live}
    branches: dict[str, list[Json]] = {}
    for timeline in listed:
        own = session.newest("context/listCheckpoints", "checkpoints", _WINDOW, timelineId=timeline["timelineId"])
        # After the last checkpoint that both have it is on its own.
        shared = next((index for index in range(len(own) - 1, -1, -1) if own[index]["uid"] in known), -1)
        uid = own[shared]["uid"] if shared >= 0 else ""
        branch = {**timeline, "leavesAfter": uid or None, "checkpoints": own[shared + 1 :]}
        branches.setdefault(uid, []).append(branch)
    return Graph(state, shown, omitted, branches, max(0, summary["timelines"] - len(listed)), kin or Kin())


class Glyphs(NamedTuple):
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
        "".join(PRETTY).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return PRETTY


class GraphRow(NamedTuple):
    """A line of the picture: signs, name, and facts in columns."""

    signs: str
    name: str
    facts: Sequence[str] = ()
    style: str = ""
    sign_style: str = "cyan"


def rows(graph: Graph, glyphs: Glyphs = PRETTY) -> Iterator[GraphRow]:
    context = graph.state["context"]
    tokens = count(context["tokenCountWithPending"], "token")
    facts = [count(context["messageCount"], "message"), tokens, size(context["logBytes"])]
    yield GraphRow(f"{glyphs.now}  ", "now", facts, "bold", "bold green")
    drawn = {checkpoint["uid"] for checkpoint in graph.checkpoints}
    mail = graph.state.get("pendingDMail") or {}
    forks: dict[str, list[Json]] = {}  # by the uid of the checkpoint they were made at; "" for those of the whole log
    for fork in graph.kin.forks:
        forks.setdefault(fork["parent"].get("checkpointUid", ""), []).append(fork)
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
    yield from _forks(itertools.chain.from_iterable(forks.values()), glyphs)
    origin = f" of a fork of {one_line(graph.kin.parent['sessionId'])}" if graph.kin.parent else ""
    yield GraphRow(f"{glyphs.end}  ", f"start{origin}", style="dim")
    if graph.timelines_omitted:
        yield GraphRow("   ", f"... {count(graph.timelines_omitted, 'older timeline')} not drawn", style="dim")


def draw(graph: Graph, width: int, glyphs: Glyphs = PRETTY) -> list[StyledText]:
    """The picture as lines of at most `width` columns."""
    lines = []
    drawn = list(rows(graph, glyphs))
    filled = {column for row in drawn for column, fact in enumerate(row.facts) if fact or column < _ALWAYS}
    widths = [width if column in filled else 0 for column, width in enumerate(_COLUMNS)]
    name_width = max(24, min(60, width - sum(widths)))
    for row in drawn:
        line = StyledText(row.signs, style=row.sign_style)
        room = name_width - len(row.signs)
        line.append(one_line(row.name, room).ljust(room) if row.facts else row.name, style=row.style)
        for fact, pad in zip(row.facts, widths, strict=False):
            line.append(fact.rjust(pad), style="dim" if row.style == "dim" else "")
        lines.append(line.truncated(width))
    return lines


def _checkpoint(checkpoint: Json, signs: str, style: str = "") -> GraphRow:
    """Row of a checkpoint: its name, the work after it, and the time and tokens that took."""
    label, summary = one_line(checkpoint.get("label") or ""), checkpoint.get("summary")
    said = one_line(span_name(summary) or checkpoint.get("preview") or "")
    known = not said or label.startswith(said.removesuffix("…")) or (label and said.startswith(label.removesuffix("…")))
    name = f"#{checkpoint['id']}  {label or said if known or not label else f'{label} · {said}'}"
    tokens = count(checkpoint["tokenCount"], "token")
    at = clock(checkpoint.get("createdAt"))
    facts = [count(checkpoint["messageCount"], "message"), tokens, at, mark(checkpoint), growth(summary)]
    return GraphRow(signs, name, facts, "red" if summary and summary.get("errors") and not style else style)


def _branches(timelines: list[Json], glyphs: Glyphs) -> Iterator[GraphRow]:
    for timeline in timelines:
        why = _ENDED_BY.get(timeline["reason"], "an earlier log")
        facts = [count(timeline["messageCount"], "message"), size(timeline["bytes"]), clock(timeline.get("createdAt"))]
        yield GraphRow(f"{glyphs.fork} ", f"{timeline['timelineId']}  {why}", facts, "yellow", "yellow")
        shown, signs = timeline["checkpoints"][-_MOST_LEFT:], f"{glyphs.line}    {glyphs.left} "
        for checkpoint in reversed(shown):
            yield _checkpoint(checkpoint, signs, "dim")
        if hidden := len(timeline["checkpoints"]) - len(shown):
            yield GraphRow(signs, f"... {count(hidden, 'older checkpoint')} of its own", style="dim")


def _forks(forks: Iterable[Json], glyphs: Glyphs) -> Iterator[GraphRow]:
    for fork in forks:
        facts = [count(fork["messageCount"], "message"), "", clock(fork["createdAt"])]
        yield GraphRow(f"{glyphs.away} ", f"{fork['sessionId']}  a fork", facts, "blue", "blue")


@contextlib.contextmanager
def shown(terminal: Terminal, *, again: bool) -> Iterator[Callable[[Graph, str], None]]:
    """A function that shows a graph under a caption that says why; `again` in the place of the one before.

    For pipes and programs each comes after the one before.
    """
    out, glyphs = terminal.out, glyphs_for(sys.stdout.encoding)

    def lines(graph: Graph, why: str) -> list[StyledText]:
        drawn = draw(graph, out.width if out.is_terminal else _PIPE_WIDTH, glyphs)
        return [StyledText(f"{now()}  {why or 'as it is now'}", style="dim"), *drawn] if again else drawn

    def show(graph: Graph, why: str) -> None:
        terminal.say(*lines(graph, why))
        sys.stdout.flush()

    if terminal.machine:
        write = terminal.line if again else terminal.document
        yield lambda graph, _: write(graph.as_json())
    elif not (again and out.is_styled):
        yield show
    else:
        redrawn = Redrawn(out, sys.stdout)
        yield lambda graph, why: redrawn.show(lines(graph, why))
