"""The standard streams as what they are: a terminal, with its width and styles, or a pipe."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import Final, TextIO

from timeleap.cli.formatting import Exact, safe
from timeleap.cli.styled_text import StyledText

_OBEYED: Final = re.compile("[\a\b\v\f\r]")
"""Control characters that a line of words has no use for, in a pipe, too."""
_NO_TERMINAL_WIDTH: Final = 80


class Output:
    """A standard stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def is_terminal(self) -> bool:
        """True for a terminal, and for what the environment says is to be taken for one."""
        forced = os.environ.get("FORCE_COLOR")
        if forced is not None:
            return forced != ""
        if os.environ.get("TTY_COMPATIBLE") in ("0", "1"):
            return os.environ["TTY_COMPATIBLE"] == "1"
        return self._stream.isatty()

    @property
    def is_styled(self) -> bool:
        """True for a terminal that knows styles, and the movements of a cursor."""
        return self.is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")

    @property
    def width(self) -> int:
        """Columns of a line."""
        return shutil.get_terminal_size((_NO_TERMINAL_WIDTH, 25)).columns

    def write(self, line: str | StyledText, style: str = "", *, end: str = "\n") -> None:
        """Write a line, at once."""
        self._stream.write(self.shown(line, style) + end)
        self._stream.flush()

    def shown(self, line: str | StyledText, style: str = "") -> str:
        """The characters of a line: a terminal gets nothing that it would obey, a pipe a text of the type `Exact` as it is."""
        if isinstance(line, Exact) and not self.is_terminal:
            return str(line)
        text = StyledText(line, style) if isinstance(line, str) else line
        return text.written(self._prepared, styled=self.is_styled, coloured="NO_COLOR" not in os.environ)

    def _prepared(self, text: str) -> str:
        return (safe(text) if self.is_terminal else _OBEYED.sub("", text)).expandtabs(8)


class Redrawn:
    """Lines at the end of a terminal, which newer ones replace."""

    def __init__(self, output: Output, stream: TextIO) -> None:
        self._output = output
        self._stream = stream
        self._lines = 0

    def show(self, lines: Sequence[str | StyledText]) -> None:
        """Show these lines in the place of those before; as many as the terminal has room for."""
        size = shutil.get_terminal_size()
        fitting = lines[: max(1, size.lines - 1)]
        written = f"\033[{self._lines}A\033[J" if self._lines else ""
        for line in fitting:
            # Made safe before it is cut: a sign without a column takes several when it is escaped.
            text = StyledText(safe(line)) if isinstance(line, str) else line
            written += self._output.shown(text.truncated(size.columns)) + "\n"
        self._stream.write(written)  # as one, so that nothing flickers
        self._stream.flush()
        self._lines = len(fitting)

    def erase(self) -> None:
        """Take the lines away."""
        self.show([])
