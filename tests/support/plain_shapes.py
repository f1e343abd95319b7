"""Outcomes as they are, so that tests of sessions need not know the contract's members."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from timeleap.sessions.events import Event
from timeleap.sessions.outcomes import Outcome
from timeleap.sessions.shapes import Shapes


class PlainShapes(Shapes):
    """Results with the names of the outcome's fields; of an event nothing is told but its kind."""

    def result(self, outcome: Outcome) -> dict[str, Any]:
        return asdict(outcome)

    def notification(self, event: Event) -> tuple[str, str, dict[str, Any]]:
        return "", event.kind, {}


PLAIN = PlainShapes()
