"""When an agent's program deletes a session's file by itself, as far as its settings say."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from timeleap import clock
from timeleap.sessions.documents.meta import Meta
from timeleap.storage.durable import OpenFile, list_directory
from timeleap_agents.mirrors.folders import is_subagent, is_there, look
from timeleap_agents.mirrors.vault.notes import read_notes

DAYS: Final = 30
"""Claude Code's own default of `cleanupPeriodDays`; at its start it deletes what was not written to for longer."""
MOST: Final = 365_000
MAX_SETTINGS: Final = 1 << 20  # bytes
SECONDS: Final = 86_400


def period(kind: str, folder: Path) -> int | None:
    """Days after which a program deletes the sessions below the folder it keeps them in; None: it never does. Blocking."""
    if kind != "claude-code":
        return None
    days: Any = DAYS
    with suppress(OSError, ValueError, AttributeError, RecursionError), closing(_settings(folder)) as file:
        days = json.loads(file.pread(0, MAX_SETTINGS)).get("cleanupPeriodDays", DAYS)
    # While the setting is of no use, such as 0, the program deletes nothing, and says so.
    return min(days, MOST) if type(days) is int and days > 0 else None


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
    """Return when a file goes (`goes_at`) as ISO-8601 UTC."""
    when = goes_at(kind, path)
    return None if when is None else clock.iso(when)


class Going(NamedTuple):
    """How many sessions a program is about to delete, and the first time at which it does (ISO-8601 UTC)."""

    sessions: int = 0
    first: str | None = None


def going_within(kind: str, folder: Path, days: int) -> Going:
    """The sessions below a program's folder that it deletes within some days, those of sub-agents not counted. Blocking."""
    counted = period(kind, folder)
    if counted is None:
        return Going()
    before = clock.now() + (days - counted) * SECONDS
    files = look(kind, folder).files
    changed = [facts.changed / 1e9 for path, facts in files.items() if not is_subagent(kind, path)]
    going = [each for each in changed if each < before]
    return Going(len(going), clock.iso(min(going) + counted * SECONDS) if going else None)


def deleted_and_kept(home: Path, kind: str) -> int:
    """How many sessions of a program the store keeps whose files are gone. Blocking."""
    number = 0
    sessions = home / "sessions"
    for name in list_directory(sessions):
        if name.startswith(f"{kind}-"):
            source = Meta(sessions / name, "readOnly").source
            if source is not None and source.path is not None and not is_there(Path(source.path)):
                number += bool(read_notes(sessions / name))
    return number
