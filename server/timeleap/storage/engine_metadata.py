"""Engine metadata kept outside the log: the interface of its store, and a store in memory.

The log is the truth; these facts only explain it (why a timeline was set aside, and when) or keep promises over time
(a timeline number is never used twice, a head never means two things). Sessions keep them in `timeleap.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from timeleap.storage.engine import TimelineFacts

MAX_ROTATION: Final = 10**15 - 1
"""No log is set aside so often: a higher number of a timeline is not one of ours, and none is counted on from it."""


def highest_noted(timeline_ids: Iterable[str]) -> int:
    """The highest number among timeline ids such as `context_3`; 0 where there is none."""
    suffixes = (timeline_id.rpartition("_")[2] for timeline_id in timeline_ids)
    numbers = (int(text) for text in suffixes if text.isdecimal() and text.isascii() and len(text) <= 15)
    return max(numbers, default=0)


class Notes(Protocol):
    """Where an engine keeps what the log's own bytes cannot say."""

    @property
    def epoch(self) -> int:
        """Counts the times the log's meaning changed without its bytes being appended to."""
        ...

    @property
    def rotation(self) -> int:
        """The highest timeline number ever used, as far as remembered."""
        ...

    @property
    def noted(self) -> int:
        """The highest timeline number facts were noted for, also where the timeline never came to be, or is gone."""
        ...

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        """The facts known about a timeline, or None."""
        ...

    def refresh(self) -> None:
        """Look again at the next use: somebody else may have written."""
        ...

    def bump_epoch(self) -> None:
        """Count `epoch` up, durably."""
        ...

    def remember(
        self, *, rotation: int | None = None, counts: Mapping[str, tuple[int, int, int]] | None = None
    ) -> None:
        """Keep facts, durably before returning.

        Args:
            rotation: The highest timeline number used up to now.
            counts: By timeline id: its bytes, messages and checkpoints. May be dropped; they can be derived.
        """
        ...


class MemoryNotes:
    """Notes for logs that have nothing beside them; forgotten with the object."""

    def __init__(self) -> None:
        self.epoch = 0
        self.rotation = 0
        self._facts: dict[str, TimelineFacts] = {}
        self._counts: dict[str, tuple[int, int, int]] = {}

    @property
    def noted(self) -> int:
        """The highest timeline number facts were noted for."""
        return highest_noted(self._facts)

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        """The facts known about a timeline, or None."""
        return self._facts.get(timeline_id)

    def note(self, timeline_id: str, facts: TimelineFacts) -> None:
        """Remember why a timeline was set aside."""
        self._facts[timeline_id] = facts

    def refresh(self) -> None:
        """Nobody else writes here."""

    def bump_epoch(self) -> None:
        """Count `epoch` up."""
        self.epoch += 1

    def remember(
        self, *, rotation: int | None = None, counts: Mapping[str, tuple[int, int, int]] | None = None
    ) -> None:
        """Keep facts for as long as this object lives."""
        if rotation is not None:
            self.rotation = max(self.rotation, rotation)
        self._counts.update(counts or {})
