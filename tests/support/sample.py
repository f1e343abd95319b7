"""How many random histories the released programs are asked about: some in each run, all with `make histories`."""

from __future__ import annotations

import os
from collections.abc import Iterator

SAMPLE = int(os.environ.get("HISTORIES", "5"))
FIRST = int(os.environ.get("HISTORIES_FROM", "0"))
"""The number of the first history; others are asked about with another one."""
AT_ONCE = 5
"""Histories of one test."""


def firsts() -> range:
    """The first history of each test."""
    return range(FIRST, FIRST + SAMPLE, AT_ONCE)


def seeds(first: int) -> Iterator[int]:
    """The histories of one test."""
    yield from range(first, min(first + AT_ONCE, FIRST + SAMPLE))
