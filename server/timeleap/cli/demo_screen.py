"""The demo's screen: its scenes on a terminal, and the list of the promises that were compared."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from timeleap.cli.formatting import safe
from timeleap.cli.graph import PLAIN, Graph, draw, glyphs_for
from timeleap.cli.styled_text import StyledText, columns_of, padded
from timeleap.cli.terminal import Terminal
from timeleap.json_value import Json

_CORNERS: Final = (("╭╮╰╯", "─", "│"), ("++++", "-", "|"))
"""Corners and edges of a box; the second is for terminals that know ASCII only."""
_WIDTH = 110
_MOST_TEXT = 72
_MOST_ENTRIES = 2
_MOST_MEMBERS = 9


@dataclass(frozen=True, slots=True)
class Check:
    scene: str
    promise: str
    kept: bool
    found: str


class Screen:
    """Tells the story on a terminal; with `--json` it is silent, and only its checks count."""

    def __init__(self, terminal: Terminal) -> None:
        self.checks: list[Check] = []
        self._terminal = terminal
        self._out = terminal.out
        self._width = min(_WIDTH, self._out.width) if self._out.is_terminal else _WIDTH
        self._began = time.monotonic()
        self._scene = ""
        self._scenes = 0
        self._glyphs = glyphs_for(sys.stdout.encoding)
        self._plain = self._glyphs is PLAIN
        self._corners = _CORNERS[self._plain]

    def title(self, text: str, under: str) -> None:
        lines = [f" {line}" for line in textwrap.wrap(under, self._width - 6)]
        heading = f" {text} ".center(self._width - 4, self._corners[1])
        self._show(*self._boxed(["", *lines, ""], heading))

    def scene(self, name: str) -> None:
        self._scene = name
        self._scenes += 1
        heading = f" {self._scenes}  {name} "
        rule = ("-" if self._plain else "─") * (self._width - columns_of(heading))
        self._show(StyledText(), StyledText.assemble((heading, "bold"), (rule, "cyan")))

    def say(self, text: str, style: str = "") -> None:
        for line in textwrap.wrap(safe(text), self._width - 1, replace_whitespace=False) or [""]:
            self._show(StyledText(f" {line}", style))

    def wire(self, direction: Literal["sent", "received"], message: Json) -> None:
        """A message that crossed the wire, abridged."""
        arrows, style = ("->→", "cyan") if direction == "sent" else ("<-←", "green")
        prefix = f" {arrows[:2] if self._plain else arrows[2]} "
        body = json.dumps(_abridged(message), ensure_ascii=False)
        for line in textwrap.wrap(safe(body), self._width - 4):
            self._show(StyledText.assemble((prefix, f"bold {style}"), (line, style)))
            prefix = "   "

    def picture(self, graph: Graph) -> None:
        self._show(*self._boxed(draw(graph, self._width - 6, self._glyphs), " timeleap log ", "dim"))

    def listing(self, lines: Iterable[str]) -> None:
        """Lines as they are, set off."""
        for line in lines:
            self.say(f"   {line}", style="dim")

    def check(self, promise: str, kept: bool, found: str = "") -> None:
        """Note whether a promise was kept, and show it."""
        self.checks.append(Check(self._scene, promise, kept, found))
        sign = ("ok" if kept else "FAILED") if self._plain else ("✓" if kept else "✗")
        shown = f"  ({found})" if found else ""
        self._show(
            StyledText.assemble((f" {sign} ", "bold green" if kept else "bold red"), promise, (safe(shown), "dim"))
        )

    def summary(self, requests: int) -> None:
        """A table of all checks, and how many promises were kept."""
        self._show(StyledText(), StyledText(" What was proven", "bold"))
        first = max((columns_of(check.scene) for check in self.checks), default=0)
        room = max(20, self._width - first - 10)
        scene = ""
        for check in self.checks:
            name = "" if check.scene == scene else check.scene
            scene = check.scene
            kept = ("yes", "green") if check.kept else ("NO", "bold red")
            begin, *others = textwrap.wrap(safe(check.promise), room) or [""]
            self._show(
                StyledText.assemble((f" {padded(name, first)}  ", "bold"), f"{padded(begin, room)}  ", kept),
                *(StyledText(f" {'':<{first}}  {line}") for line in others),
            )
        kept_all, every = sum(check.kept for check in self.checks), len(self.checks)
        self.say(
            f"{kept_all} of {every} promises kept, {requests} requests, {time.monotonic() - self._began:.1f} seconds",
            "bold green" if kept_all == every else "bold red",
        )

    def _boxed(self, lines: Sequence[str | StyledText], title: str, style: str = "") -> Iterator[StyledText]:
        """Lines in a box with a title in its upper edge."""
        corners, across, down = self._corners
        rest = across * (self._width - 3 - columns_of(title))
        yield StyledText(f"{corners[0]}{across}{title}{rest}{corners[1]}", style)
        for line in lines:
            inside = StyledText(line) if isinstance(line, str) else line
            blanks = " " * max(0, self._width - 4 - columns_of(inside.plain))
            yield StyledText().append(f"{down} ", style).append(inside).append(f"{blanks} {down}", style)
        yield StyledText(f"{corners[2]}{across * (self._width - 2)}{corners[3]}", style)

    def _show(self, *lines: StyledText) -> None:
        if not self._terminal.machine:
            for line in lines:
                self._out.write(line)


def _abridged(value: Any) -> Any:
    """A JSON value short enough to be read: long texts cut, long lists and objects counted."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else f"{value[: _MOST_TEXT - 1]}…"
    if isinstance(value, list):
        entries = [_abridged(each) for each in value[:_MOST_ENTRIES]]
        return entries if len(value) <= _MOST_ENTRIES else [*entries, f"… {len(value) - _MOST_ENTRIES} more"]
    if isinstance(value, dict):
        shown = dict(list(value.items())[: _MOST_MEMBERS if len(value) <= _MOST_MEMBERS else _MOST_ENTRIES])
        rest = {} if len(shown) == len(value) else {"…": f"{len(value) - len(shown)} more"}
        return {name: _abridged(each) for name, each in shown.items()} | rest
    return value
