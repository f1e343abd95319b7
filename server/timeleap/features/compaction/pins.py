"""Pins: strings a compaction must not lose. What the summary does not say by itself is put behind it, word for word."""

from __future__ import annotations

from collections.abc import Iterable

MAX_PINS = 100
MAX_PIN = 2_000
"""Characters of one pin."""


def with_pins(summary: str, pins: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """A summary that has every pin in it.

    Args:
        summary: The summary.
        pins: What must stand in it.

    Returns:
        The summary, and the pins that had to be added to it.
    """
    missing = tuple(dict.fromkeys(pin for pin in pins if pin not in summary))
    if not missing:
        return summary, ()
    return "\n".join([summary, "", "<pinned>", *missing, "</pinned>"]), missing
