"""Figures of `make torture` for docs/reliability.md: how many crash states were looked at, processes killed, calls made to fail.

They are counted where `TIMELEAP_FIGURES` names a file, and nowhere else.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Final

# Read now: tests run without the settings of the one who starts them.
_FILE: Final = os.environ.get("TIMELEAP_FIGURES")


def count(**figures: int) -> None:
    """Add to figures. Several processes may do it at once: each adds a line."""
    if _FILE:
        with open(_FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")


def counted(file: Path) -> Counter[str]:
    """The sums of all that was counted."""
    sums: Counter[str] = Counter()
    for line in file.read_text("utf-8").splitlines():
        sums.update(json.loads(line))
    return sums
