"""The demo's screen: its scenes on a terminal, and the list of the promises that were compared."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from timeleap.cli.formatting import safe
from timeleap.cli.graph import PLAIN, Graph, draw, glyphs_for
from timeleap.cli.terminal import Terminal
from timeleap.json_value import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

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
        from rich import box

        self.checks: list[Check] = []
        self._terminal = terminal
        self._out = terminal.out
        self._width = min(_WIDTH, self._out.width) if self._out.is_terminal else _WIDTH
        self._out.width = self._width
        self._began = time.monotonic()
        self._scene = ""
        self._scenes = 0
        self._glyphs = glyphs_for(sys.stdout.encoding)
        self._plain = self._glyphs is PLAIN
        self._box = box.ASCII if self._plain else box.ROUNDED

    def title(self, text: str, under: str) -> None:
        from rich.panel import Panel

        self._show(Panel(under, title=text, box=self._box, width=self._width, padding=(1, 2)))

    def scene(self, name: str) -> None:
        from rich.rule import Rule
        from rich.text import Text

        self._scene = name
        self._scenes += 1
        heading = Text(f" {self._scenes}  {name} ", style="bold")
        self._show(Text(), Rule(heading, align="left", characters="-" if self._plain else "─", style="cyan"))

    def say(self, text: str, style: str = "") -> None:
        from rich.padding import Padding
        from rich.text import Text

        self._show(Padding(Text(safe(text), style=style), (0, 0, 0, 1)))

    def wire(self, direction: Literal["sent", "received"], message: Json) -> None:
        """A message that crossed the wire, abridged."""
        from rich.text import Text

        arrows, style = ("->→", "cyan") if direction == "sent" else ("<-←", "green")
        prefix = Text(f" {arrows[:2] if self._plain else arrows[2]} ", style=f"bold {style}")
        body = json.dumps(_abridged(message), ensure_ascii=False)
        for number, line in enumerate(Text(safe(body), style=style).wrap(self._out, self._width - 4)):
            self._show((prefix if number == 0 else Text("   ")) + line)

    def picture(self, graph: Graph) -> None:
        from rich.console import Group
        from rich.panel import Panel

        inside = Group(*draw(graph, self._width - 6, self._glyphs))
        form: Any = {"box": self._box, "width": self._width, "border_style": "dim"}
        self._show(Panel(inside, title="timeleap log", title_align="left", **form))

    def listing(self, lines: Iterable[str]) -> None:
        """Lines as they are, set off."""
        for line in lines:
            self.say(f"   {line}", style="dim")

    def check(self, promise: str, kept: bool, found: str = "") -> None:
        """Note whether a promise was kept, and show it."""
        from rich.text import Text

        self.checks.append(Check(self._scene, promise, kept, found))
        sign = ("ok" if kept else "FAILED") if self._plain else ("✓" if kept else "✗")
        shown = f"  ({found})" if found else ""
        self._show(Text.assemble((f" {sign} ", "bold green" if kept else "bold red"), promise, (safe(shown), "dim")))

    def summary(self, requests: int) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=self._box, title="What was proven", width=self._width)
        table.add_column("scene", style="bold", no_wrap=True)
        table.add_column("promise", ratio=1)
        table.add_column("kept", justify="center")
        scene = ""
        for check in self.checks:
            kept = Text("yes", style="green") if check.kept else Text("NO", style="bold red")
            table.add_row("" if check.scene == scene else check.scene, safe(check.promise), kept)
            scene = check.scene
        kept_all, every = sum(check.kept for check in self.checks), len(self.checks)
        self._show(Text(), table)
        self.say(
            f"{kept_all} of {every} promises kept, {requests} requests, {time.monotonic() - self._began:.1f} seconds",
            "bold green" if kept_all == every else "bold red",
        )

    def _show(self, *what: RenderableType) -> None:
        if not self._terminal.machine:
            for each in what:
                self._out.print(each)


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
