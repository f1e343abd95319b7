"""How much is kept of agents' files, and of which none is: `agents.keep` of the settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap import user_folders
from timeleap.sessions.documents.meta import Meta
from timeleap.storage.durable import list_directory, remove_file
from timeleap_agents.mirrors.folders import is_there
from timeleap_agents.mirrors.vault.notes import NOTES_NAME, read_all, row_of

_FILE: Final = re.compile(r"kept_[0-9]{1,9}\.(?:bytes|xz)")


class Removed(Struct, frozen=True):
    """A generation that was removed; `was_last`: nothing is left of a file that is gone."""

    session_id: str
    number: int
    bytes: int
    was_last: bool


class _Candidate(Struct, frozen=True, order=True):
    """A generation that may be removed; the least one goes first."""

    rank: int
    last_seen: str
    session_id: str
    number: int
    path: Path
    bytes: int


def is_excluded(path: Path, folder: str | None, patterns: Collection[str]) -> bool:
    """True if a program's file, or the folder that its session is about, is one of which nothing is kept. A pattern with
    `*` is one of the whole path; another one names a folder, and stands for all below it, too."""
    places = [str(path), *([folder] if folder is not None else [])]
    for pattern in patterns:
        in_home = user_folders.expanded(pattern) if pattern.startswith("~") else None
        wanted = str(in_home or pattern).rstrip("/")
        for place in places:
            if fnmatch(place, wanted) or place == wanted or place.startswith(f"{wanted}/"):
                return True
    return False


def remove_all(directory: Path) -> None:
    """Keep nothing of a mirror's file any more. Blocking. Raises OSError."""
    for name in list_directory(directory):
        if _FILE.fullmatch(name) or name == NOTES_NAME:
            remove_file(directory / name)


def enforce(home: Path, max_bytes: int) -> list[Removed]:
    """Remove generations that have ended until no more than `max_bytes` are kept in a store, or only those are left that
    may grow. The oldest of files that are still there go first, the last ones of files that are gone come last. Blocking."""
    total, candidates = 0, list[_Candidate]()
    for size, found in _kept(home / "sessions"):
        total += size
        candidates += found
    removed = []
    for each in sorted(candidates):
        if total <= max_bytes:
            break
        with suppress(OSError):
            remove_file(each.path)
            total -= each.bytes
            removed.append(Removed(each.session_id, each.number, each.bytes, each.rank == 2))
    return removed


def _kept(sessions: Path) -> Iterator[tuple[int, list[_Candidate]]]:
    """Each mirror's kept bytes on the disk, and the generations of it that may be removed."""
    for name in list_directory(sessions):
        directory = sessions / name
        sizes: dict[str, int] = {}
        with suppress(OSError):
            for entry in list_directory(directory):
                if _FILE.fullmatch(entry):
                    sizes[entry] = (directory / entry).stat().st_size
        if not sizes:
            continue
        source = Meta(directory, "readOnly").source
        is_gone = source is None or source.path is None or not is_there(Path(source.path))
        known = read_all(directory)
        last = {row_of(each.number): each for each in known}
        found = []
        for generation in known:
            if generation.packed:
                rank = 0 if not is_gone else 2 if generation is last[row_of(generation.number)] else 1
                size = sizes.get(generation.name, 0)
                place = directory / generation.name
                found.append(_Candidate(rank, generation.last_seen, name, generation.number, place, size))
        yield sum(sizes.values()), found
