"""Notes of a log: what its own bytes cannot say.

The log is the truth; these facts only explain it (why a timeline was set aside, and when) or keep promises over time
(a timeline number is never used twice, a head never means two things). Sessions keep them in `timeleap.json`.
"""

from __future__ import annotations

from typing import Protocol

from timeleap.storage.log_values import TimelineFacts, highest_noted


class Notes(Protocol):
    """A place where an engine keeps its notes.

    Attributes:
        epoch: Counts the times the log's meaning changed without its bytes being appended to.
        rotation, noted: The highest timeline number ever used, as far as remembered; and that facts were ever noted for.
    """

    @property
    def epoch(self) -> int: ...
    @property
    def rotation(self) -> int: ...
    @property
    def noted(self) -> int: ...
    @property
    def existing(self) -> bool:
        """True if there are notes, so there was a log."""
        ...

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        """The facts known about a timeline, or None."""

    def refresh(self) -> None:
        """Look again at the next use: somebody else may have written."""

    def bump_epoch(self) -> None:
        """Count `epoch` up, durably."""

    def remember(self, *, rotation: int) -> None:
        """Keep the highest timeline number used up to now, durably before returning."""


class MemoryNotes:
    """Notes for logs that have nothing beside them; forgotten with the object."""

    def __init__(self) -> None:
        self.epoch = 0
        self.rotation = 0
        self.existing = False
        self._facts: dict[str, TimelineFacts] = {}

    @property
    def noted(self) -> int:
        return highest_noted(self._facts)

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        return self._facts.get(timeline_id)

    def note(self, timeline_id: str, facts: TimelineFacts) -> None:
        self._facts[timeline_id] = facts

    def refresh(self) -> None:
        return

    def bump_epoch(self) -> None:
        self.epoch += 1

    def remember(self, *, rotation: int) -> None:
        self.rotation = max(self.rotation, rotation)
