"""Differences between a provider's request body and the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST: Final = 1000
"""Losses that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A difference between a body and the history.

    Attributes:
        index: Of the message; None where it is about the body as a whole.
        kind: In one word (see `BodyLoss` of the protocol).
        message: In words.
    """

    index: int | None
    kind: str
    message: str


class Losses:
    """All differences of a body.

    Attributes:
        count: Their number, unlisted ones included.
    """

    def __init__(self) -> None:
        self.count = 0
        self._listed: list[Loss] = []

    def add(self, index: int | None, kind: str, message: str) -> None:
        """Note one."""
        self.count += 1
        if len(self._listed) < MOST:
            self._listed.append(Loss(index, kind, message))

    def listed(self) -> list[Loss]:
        """At most `MOST`, by message; what is about none comes last."""
        return sorted(self._listed, key=lambda loss: (loss.index is None, loss.index or 0))
