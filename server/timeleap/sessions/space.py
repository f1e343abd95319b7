"""What takes space: the files of a session's directory, by what they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal

from timeleap.errors import StorageFailureError
from timeleap.sessions.home import Home
from timeleap.sessions.info import LOG_NAME
from timeleap.storage.timelines import names

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
        return sum(one.bytes for one in self.files)

    def bytes_of(self, kind: Kind) -> int:
        """Of the files of one kind together."""
        return sum(one.bytes for one in self.files if one.kind == kind)

    def number_of(self, kind: Kind) -> int:
        """How many files of a kind there are."""
        return sum(one.kind == kind for one in self.files)


def measure(session_id: str, path: Path, deleted_at: str | None = None) -> Space:
    """Look at a session's directory. Links are not followed; what vanishes meanwhile does not count.

    Raises:
        StorageFailureError: The directory cannot be read.
    """
    try:
        timelines = {one.file for one in names(path / LOG_NAME)}
        found = [StoredFile(name, _kind(name, timelines), size) for name, size in _files(path)]
    except OSError as error:
        raise StorageFailureError.of(error, "look at the session's files", path) from error
    return Space(session_id, tuple(sorted(found, key=lambda one: (-one.bytes, one.name))), deleted_at)


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
    return sorted(found, key=lambda one: (-one.bytes, one.session_id, one.deleted_at or ""))


def quarantine_files(path: Path) -> Iterator[tuple[str, int]]:
    """Names and sizes of what recovery kept beside a log."""
    return ((one.name, one.bytes) for one in measure("", path).files if one.kind == "quarantine")


def _kind(name: str, timelines: set[str]) -> Kind:
    if name == LOG_NAME:
        return "log"
    if name in timelines:
        return "timeline"
    if name.startswith(".") and name.endswith(".idx"):
        return "index"
    return "quarantine" if name.startswith(f"{LOG_NAME}.quarantine-") else "other"


def _files(path: Path, within: str = "") -> Iterator[tuple[str, int]]:
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if S_ISDIR(facts.st_mode):
                yield from _files(Path(entry.path), f"{within}{entry.name}/")
            elif S_ISREG(facts.st_mode):
                yield f"{within}{entry.name}", facts.st_size
