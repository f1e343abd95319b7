"""Repairing a log without a session: the damaged lines go, as they do in `Session.repair`, but none is taken as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from timeleap import clock
from timeleap.storage.damage import Damage, Recovery
from timeleap.storage.engine import replace_log
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_notes import Notes
from timeleap.storage.log_values import LogState, Progress, Replacement, TimelineFacts


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a repair.

    Attributes:
        recovery: Findings and repairs of opening the log.
        removed: Lines that were left out of the new log.
        timeline_id: Where the old log is, if there is a new one.
        head: The head after it.
    """

    recovery: Recovery
    removed: tuple[Damage, ...]
    timeline_id: str | None
    head: str


async def repair(path: Path, *, notes: Notes | None = None, progress: Progress | None = None) -> Repaired:
    """Mend a log that nobody has open: a torn tail, leftovers, the index, and damaged lines.

    A log with damaged lines is replaced, in one step, by one without them; the old one is kept as a timeline.

    Args:
        path: The log.
        notes: What is remembered beside it.
        progress: Told how far it is.

    Raises:
        As `JsonlEngine.open` and `JsonlEngine.replace`.
    """
    engine = await JsonlEngine.open(path, notes=notes, progress=progress)
    try:
        return await repair_open(engine, progress)
    finally:
        await engine.aclose()


async def repair_open(engine: JsonlEngine, progress: Progress | None = None) -> Repaired:
    """The same for a log that is open."""
    await engine.validate(progress)
    damaged = tuple(damage for damage in engine.damage() if damage.kind in ("damagedRecord", "checksumMismatch"))
    if not damaged:
        return Repaired(engine.recovery, (), None, engine.head)

    def without_damaged_lines(state: LogState) -> Replacement:
        facts = TimelineFacts("unknown", clock.now_iso(), {"repair": len(damaged)})
        return Replacement(facts, keep_lines=state.lines)

    done = await replace_log(engine, without_damaged_lines)
    return Repaired(engine.recovery, damaged, done.timeline_id, done.head)
