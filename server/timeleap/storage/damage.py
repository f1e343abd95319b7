"""Damage of a log: lines that are not part of history, lines that are missing, and what opening found and repaired.

Damage that a timeline got since it was set aside keeps it from being brought back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from timeleap.errors import CorruptedError
from timeleap.storage.log_values import TimelineFacts

DamageKind = Literal[
    "damagedRecord",
    "notReadableByOriginal",
    "checksumMismatch",
    "notAsWritten",
    "linesLost",
    "logMissing",
    "otherLog",
    "timelineCut",
]


LOSSES: Final = ("linesLost", "logMissing", "otherLog")

DAMAGE_LIMIT: Final = 100
"""So many damaged lines a reader lists at most."""
DAMAGED_LINES: Final = "damagedLines"
"""Member of `TimelineFacts.extra`: lines that were damaged when the log was set aside."""


class Quarantined(Struct, frozen=True):
    """Bytes that were cut from a log at open, and where they are kept."""

    file: str  # relative to the session's directory
    offset: int  # in the log they were cut from
    bytes: int
    reason: Literal["tornTail", "incompleteBatch"]


class Damage(Struct, frozen=True):
    """A line that is not part of history, or that only we can read."""

    kind: DamageKind
    message: str
    line: int
    offset: int
    bytes: int

    @property
    def outside_history(self) -> bool:
        """True if the log has the line, and nobody is shown it."""
        return self.kind in ("damagedRecord", "checksumMismatch")


class Recovery(Struct, frozen=True):
    """Findings and repairs of opening the log.

    Attributes:
        lost: Lines that were acknowledged and are not there any more. Nothing is written until `LogEngine.reload`
            accepts that.
        modified: A program that takes no lock has changed the log since the last check (G5).
    """

    quarantined: tuple[Quarantined, ...] = ()
    index_rebuilt: bool = False
    warnings: tuple[Damage, ...] = ()
    lost: Damage | None = None
    modified: bool = False

    @property
    def losses(self) -> tuple[Damage, ...]:
        """Lines that were acknowledged and are not there any more, a missing log, or another one in its place."""
        return tuple(damage for damage in self.warnings if damage.kind in LOSSES)

    @property
    def cut_bytes(self) -> int:
        return sum(cut.bytes for cut in self.quarantined)


def new_damage(damage: Iterable[Damage], before: Collection[int]) -> list[Damage]:
    """The damage of a timeline in lines that were not damaged `before`, when it was the live log."""
    return [each for each in damage if each.kind != "notReadableByOriginal" and each.line not in before]


def damaged_before(facts: TimelineFacts | None) -> frozenset[int]:
    """The lines of a timeline that were damaged already when it was the live log: no reason not to bring it back."""
    lines = facts.extra.get(DAMAGED_LINES) if facts is not None else None
    return frozenset(line for line in lines if isinstance(line, int)) if isinstance(lines, list) else frozenset()


def not_restored(path: Path, offset: int) -> CorruptedError:
    """The refusal to bring back a timeline that is damaged at a byte."""
    message = f"the timeline {path.name} is damaged at byte {offset} and is not restored"
    return CorruptedError(message, path=str(path), offset=offset)
