"""Losses of a session in a conversion into another form, or out of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST: Final = 100
"""Different losses that are told apart; there may be as many as lines in a file."""


@dataclass(frozen=True, slots=True)
class ExportLoss:
    """Something that is not carried over.

    Attributes:
        kind: What it is, one word for programs.
        message: The same for people: what is missing, and how much of it.
    """

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

    def losses(self) -> list[ExportLoss]:
        """The losses noted, in the order they were first met."""
        return [ExportLoss(kind, f"{number} {message}") for (kind, message), number in self._counts.items()]


def listed(names: Iterable[str], most: int = 5) -> str:
    """Some names, for a sentence."""
    every = sorted(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
