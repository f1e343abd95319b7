"""Notes of a log that live in memory only."""

from __future__ import annotations

from timeleap.storage.engine import TimelineFacts, highest_noted


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
