"""Texts with styles, and the columns that they take on a terminal."""

from __future__ import annotations

import itertools
import operator
import unicodedata
from collections.abc import Callable
from typing import Final, Self

_ATTRIBUTES: Final = {"bold": "1", "dim": "2", "italic": "3"}
_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}


class StyledText:
    """A text whose parts have styles, such as `bold red`; the style of the whole holds for a part that says no other.

    Attributes:
        parts: Each part with its style.
        style: The style of the whole.
    """

    __slots__ = ("parts", "style")

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts = [(text, "")] if text else []
        self.style = style

    @classmethod
    def assemble(cls, *parts: str | StyledText | tuple[str, str]) -> Self:
        """The parts one after the other, each alone or with its style."""
        made = cls()
        for part in parts:
            if isinstance(part, tuple):
                made.append(*part)
            else:
                made.append(part)
        return made

    def append(self, text: str | StyledText, style: str = "") -> Self:
        """Add a part at the end."""
        if isinstance(text, StyledText):
            self.parts += [(part, f"{text.style} {own}".strip()) for part, own in text.parts]
        else:
            self.parts.append((text, style))
        return self

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self.parts)

    def truncated(self, width: int) -> StyledText:
        """The text in at most so many columns, without blanks at its end; an ellipsis stands where it is cut."""
        text = self.plain.rstrip()
        if columns_of(text) > width:
            text = cut(text, width)
        made = StyledText(style=self.style)
        left = len(text)
        for part, style in self.parts:
            if left:
                made.append(part[:left], style)
                left -= len(part[:left])
        if text.endswith("…") and not self.plain.startswith(text):
            last, style = made.parts[-1]
            made.parts[-1] = (f"{last[:-1]}…", style)
        return made

    def written(self, prepare: Callable[[str], str], *, styled: bool, coloured: bool) -> str:
        """The text as a terminal takes it.

        Args:
            prepare: Makes a part fit to be written.
            styled: The terminal knows styles.
            coloured: Its user wants colours.
        """
        if not styled:
            return "".join(prepare(text) for text, _ in self.parts)
        shown = ""
        coded = ((_codes(f"{self.style} {style}", coloured), text) for text, style in self.parts if text)
        for codes, parts in itertools.groupby(coded, key=operator.itemgetter(0)):
            text = "".join(prepare(part) for _, part in parts)
            shown += f"\033[{codes}m{text}\033[0m" if codes else text
        return shown


def _codes(style: str, coloured: bool) -> str:
    words = style.split()
    found = [code for name, code in _ATTRIBUTES.items() if name in words]
    colours = [_COLOURS[word] for word in words if word in _COLOURS]
    if coloured and colours:
        found.append(colours[-1])
    return ";".join(found)


def columns_of(text: str) -> int:
    """The columns of a text: wide characters take two, and marks on the character before them none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def cut(text: str, width: int) -> str:
    """The beginning of a text, with an ellipsis, in at most so many columns."""
    taken = 0
    for at, character in enumerate(text):
        taken += _columns(character)
        if taken > width - 1:
            return text[:at] + "…"
    return text


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns, cut or with blanks."""
    if columns_of(text) > width:
        text = cut(text, width)
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
