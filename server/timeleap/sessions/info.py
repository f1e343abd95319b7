"""What a list says of a session without opening it."""

from __future__ import annotations

import os
from pathlib import Path

LOG_NAME = "context.jsonl"


def last_change(path: Path) -> float:
    """Seconds since 1970 of the last change of a session's log or state; of its directory if it has neither."""
    found = []
    for name in (LOG_NAME, "state.json", "timeleap.json"):
        try:
            found.append(os.lstat(path / name).st_mtime)
        except OSError:
            continue
    return max(found) if found else os.lstat(path).st_mtime
