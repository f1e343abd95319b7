"""Names and ids as providers take them."""

from __future__ import annotations

import re
from typing import Final

LONGEST_TOOL_NAME: Final = 64

_NOT_PLAIN: Final = re.compile(r"[^a-zA-Z0-9_-]")


def plain(name: str) -> str:
    """A tool's name, or a call's id, of letters, digits, `_` and `-` only; never empty."""
    return _NOT_PLAIN.sub("_", name) or "_"


def tool_name(name: str) -> str:
    """A tool's name as it may stand in a call."""
    return plain(name)[:LONGEST_TOOL_NAME]


class Ids:
    """The ids of the calls of one body: each used once, as the provider takes them.

    Args:
        longest: Characters one may have.
        any_character: Whether it may have others than letters, digits, `_` and `-`.
    """

    def __init__(self, longest: int, *, any_character: bool) -> None:
        self._longest = longest
        self._any = any_character
        self._taken: set[str] = set()
        self._again: dict[str, int] = {}

    def of(self, wanted: str) -> str:
        """The id of the next call: the wanted one if that can be had."""
        base = (wanted if self._any and wanted.isprintable() and wanted else plain(wanted))[: self._longest]
        found = base
        while found in self._taken:
            number = self._again[base] = self._again.get(base, 1) + 1
            found = f"{base[: self._longest - 1 - len(str(number))]}_{number}"
        self._taken.add(found)
        return found
