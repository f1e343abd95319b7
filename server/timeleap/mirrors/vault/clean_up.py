"""When an agent's program deletes a session's file by itself, as far as its settings say."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from timeleap import clock
from timeleap.storage.durable import OpenFile

DAYS: Final = 30
"""Claude Code's own default of `cleanupPeriodDays`; at its start it deletes what was not written to for longer."""
LEAST: Final = 1
MOST: Final = 365_000
MAX_SETTINGS: Final = 1 << 20  # bytes
SECONDS: Final = 86_400


def period(kind: str, folder: Path) -> int | None:
    """Days after which a program deletes the sessions below the folder it keeps them in; None: it never does. Blocking."""
    if kind != "claude-code":
        return None
    days: Any = None
    with suppress(OSError, ValueError, AttributeError, RecursionError), closing(_settings(folder)) as file:
        days = json.loads(file.pread(0, MAX_SETTINGS)).get("cleanupPeriodDays")
    return min(max(days, LEAST), MOST) if type(days) is int else DAYS


def _settings(folder: Path) -> OpenFile:
    return OpenFile(folder.parent / "settings.json")


def goes_at(kind: str, path: Path) -> float | None:
    """When a program deletes a session's file, in seconds since 1970, if it is not written to any more; None where it never
    does, or the file is not there. Blocking."""
    folder = next((parent for parent in path.parents if parent.name == "projects"), None)
    days = None if folder is None else period(kind, folder)
    if days is None:
        return None
    with suppress(OSError):
        return path.stat().st_mtime + days * SECONDS
    return None


def goes_at_text(kind: str, path: Path) -> str | None:
    """The same as ISO-8601 UTC."""
    when = goes_at(kind, path)
    return None if when is None else clock.iso(when)
