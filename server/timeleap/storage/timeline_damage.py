"""Damage of a timeline: damage that came since it was set aside keeps it from being brought back."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from timeleap.errors import CorruptedError
from timeleap.storage.engine import Damage, LogReader, RecordKind, TimelineFacts

DAMAGED_LINES: Final = "damagedLines"  # a member of `TimelineFacts.extra`


def new_damage(log: LogReader, before: Collection[int]) -> list[Damage]:
    """Damage in lines of a timeline that were not damaged `before`, when it was the live log."""
    return [damage for damage in log.damage() if damage.kind != "notReadableByOriginal" and damage.line not in before]


def damaged_before(facts: TimelineFacts | None) -> frozenset[int]:
    """The lines of a timeline that were damaged already when it was the live log: no reason not to bring it back."""
    lines = facts.extra.get(DAMAGED_LINES) if facts is not None else None
    return frozenset(line for line in lines if isinstance(line, int)) if isinstance(lines, list) else frozenset()


def not_restored(path: Path, offset: int) -> CorruptedError:
    """The refusal to bring back a timeline that is damaged at a byte."""
    message = f"the timeline {path.name} is damaged at byte {offset} and is not restored"
    return CorruptedError(message, path=str(path), offset=offset)


def damaged_lines(log: LogReader) -> int:
    """How many lines of a log are not part of history."""
    if not log.state.has_damage:
        return 0
    steps = range(0, log.state.lines, 4096)
    return sum(entry.kind == RecordKind.DAMAGED for start in steps for entry in log.entries(start, start + 4096))
