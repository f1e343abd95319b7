"""The command that compares two moments of a session: `diff`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timeleap.cli.arguments import Session
from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import count
from timeleap.cli.refs import HELP, Ref, find_point
from timeleap.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.text import Text

app = typer.Typer()
Json = dict[str, Any]

_MOST_LINES = 12
"""Lines of a message before the rest is only counted."""


@command(app, rich_help_panel="Look")
def diff(
    terminal: Terminal,
    session: Session,
    base: Annotated[str, typer.Argument(metavar="A", help=HELP)],
    other: Annotated[str, typer.Argument(metavar="[B]", help="The same; default: present.")] = "present",
    *,
    stat: Annotated[bool, typer.Option("--stat", help="Only counts, no messages.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Cut no long message.")] = False,
) -> None:
    """Compare two moments: what only A has (-), what only B has (+), and how much both begin with.

    Examples:
        timeleap diff fix-dates context_1
        timeleap diff fix-dates 3 "before the rewrite" --stat
        timeleap diff fix-dates context_1:2 context_2 --json | jq '.added | length'
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_read(Target.of(session))
        points = find_point(opened, base), find_point(opened, other)
        found = _compare(opened, *points, all_pages=not stat)
    if terminal.machine:
        terminal.document(found)
    else:
        terminal.say(*_drawn(points, found, stat=stat, most_lines=None if full else _MOST_LINES))


def _compare(opened: OpenSession, base: Ref, other: Ref, *, all_pages: bool) -> Json:
    params: Json = {"sessionId": opened.id, "from": base.params, "to": other.params, "limit": 1000 if all_pages else 1}
    whole: Json = {}
    for page in opened.backend.whole_pages("context/diff", params, saying="Comparing"):
        if not whole:
            whole = {**page, "removed": [], "added": []}
            whole.pop("nextCursor", None)
        if not all_pages:
            break
        whole["removed"] += page["removed"]
        whole["added"] += page["added"]
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
    if not stat:
        yield from _side("-", "red", found["removed"], most_lines)
        yield from _side("+", "green", found["added"], most_lines)


def _side(sign: str, style: str, entries: list[Json], most_lines: int | None) -> Iterator[Text]:
    from rich.text import Text

    from timeleap.cli.messages import render

    for entry in entries:
        for line in render(entry, most_lines):
            yield Text(f"{sign} {line.plain}", style=style)
