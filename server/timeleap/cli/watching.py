"""The graph of a session on the screen: once, or redrawn with every change."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from timeleap.cli.formatting import now
from timeleap.cli.graph_render import draw, glyphs_for

if TYPE_CHECKING:
    from rich.text import Text

    from timeleap.cli.graph import Graph
    from timeleap.cli.terminal import Terminal

Show = Callable[["Graph", str], None]
"""Shows a graph and what made it so."""

_PIPE_WIDTH = 120


class View:
    """Where graphs are shown: a screen, a pipe, or a program."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._out = terminal.out
        self._glyphs = glyphs_for(sys.stdout.encoding)

    def show(self, graph: Graph) -> None:
        """Show a graph once."""
        if self._terminal.machine:
            self._terminal.document(graph.as_json())
        else:
            self._print(self._lines(graph))

    @contextlib.contextmanager
    def lively(self) -> Iterator[Show]:
        """A function that shows a graph in the place of the one before; for pipes and programs after it."""
        if self._terminal.machine:
            yield lambda graph, _: self._terminal.line(graph.as_json())
        elif not self._out.is_terminal:
            yield lambda graph, what: self._print([*_caption(what), *self._lines(graph)])
        else:
            from rich.console import Group
            from rich.live import Live

            with Live(console=self._out, auto_refresh=False, vertical_overflow="crop") as live:
                yield lambda graph, what: live.update(Group(*_caption(what), *self._lines(graph)), refresh=True)

    def _lines(self, graph: Graph) -> list[Text]:
        return draw(graph, self._out.width if self._out.is_terminal else _PIPE_WIDTH, self._glyphs)

    def _print(self, lines: list[Text]) -> None:
        for line in lines:
            self._out.print(line, soft_wrap=True)
        sys.stdout.flush()


def _caption(what: str) -> list[Text]:
    from rich.text import Text

    return [Text(f"{now()}  {what or 'as it is now'}", style="dim")]
