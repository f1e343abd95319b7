"""Losses of exports and imports, counted by kind."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

MOST: Final = 100
"""Different losses that are told apart; there may be as many as lines in a file."""


class ExportLoss(Struct, frozen=True):
    """Something that is not carried over: in one word for programs, and for people what is missing and how much."""

    kind: str
    message: str


class LossTally:
    """Counts losses by kind and message."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, message: str, number: int = 1) -> None:
        """Note `number` more of a kind; `message` says what, in words that stand behind a number."""
        known = (kind, message) in self._counts or len(self._counts) < MOST
        self._counts[(kind, message) if known else ("more", "things of other kinds")] += number

    def put(self, kind: str, message: str, number: int) -> None:
        """Note that there are `number` of a kind, instead of what was noted of it before; 0: none."""
        self._counts.pop((kind, message), None)
        if number:
            self.add(kind, message, number)

    def losses(self) -> list[ExportLoss]:
        return [ExportLoss(kind, f"{number} {message}") for (kind, message), number in self._counts.items()]
