"""Disk usage: the files of a session's directory, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from timeleap.errors import StorageFailureError
from timeleap.sessions import session_files
from timeleap.sessions.home import Home

Kind = Literal["log", "timeline", "index", "quarantine", "other"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file; `name` is relative to the session's directory, with slashes."""

    name: str
    kind: Kind
    bytes: int


@dataclass(frozen=True, slots=True)
class Space:
    """The files of one session, largest first.

    Attributes:
        deleted_at: ISO-8601 UTC; only in the trash.
    """

    session_id: str
    files: tuple[StoredFile, ...]
    deleted_at: str | None = None

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.bytes for file in self.files)

    def bytes_of(self, kind: Kind) -> int:
        """Of the files of one kind together."""
        return sum(file.bytes for file in self.files if file.kind == kind)

    def number_of(self, kind: Kind) -> int:
        """How many files of a kind there are."""
        return sum(file.kind == kind for file in self.files)


def measure(session_id: str, path: Path, deleted_at: str | None = None) -> Space:
    """Look at a session's directory. Links are not followed; what vanishes meanwhile does not count.

    Raises:
        StorageFailureError: The directory cannot be read.
    """
    found = [StoredFile(file.name, _kind(file.kind), file.bytes) for file in session_files.list_files(path)]
    return Space(session_id, tuple(sorted(found, key=lambda file: (-file.bytes, file.name))), deleted_at)


def measure_store(home: Home) -> list[Space]:
    """All sessions of a store, those in the trash included, largest first; what cannot be looked at is left out."""
    places = [(name, home.sessions / name, None) for name in home.names()]
    found: list[Space] = []
    for session_id, path, deleted_at in [*places, *((name, path, time) for name, time, path in home.trashed())]:
        try:
            if not path.is_symlink() and path.is_dir():
                found.append(measure(session_id, path, deleted_at))
        except (OSError, StorageFailureError):
            continue
    return sorted(found, key=lambda space: (-space.bytes, space.session_id, space.deleted_at or ""))


def _kind(kind: session_files.Kind) -> Kind:
    return cast("Kind", kind) if kind in get_args(Kind) else "other"
