"""How much of the long programmes a run of `make torture` does: all, or a share, which takes as much less time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

# Read now: tests run without the settings of the one who starts them.
SHARE: Final = float(os.environ.get("TIMELEAP_TORTURE_SHARE") or 1)


def share(count: int) -> int:
    """So many of `count` rounds, seeds or histories; one at least."""
    return max(1, round(count * SHARE))


def some(cases: Sequence[T]) -> list[T]:
    """So many of the cases, from all parts of their list."""
    return [cases[number * len(cases) // share(len(cases))] for number in range(share(len(cases)))]
