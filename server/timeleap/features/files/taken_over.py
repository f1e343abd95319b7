"""Snapshots of a folder that somebody moved in a way that neither device nor inode tells: to another volume, or through a
backup. A person says which folder it is now.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import Counter
from pathlib import Path
from typing import Literal

from msgspec import Struct

from timeleap.features.files import stored
from timeleap.features.files.git import check_version
from timeleap.features.files.records import FilesConfig
from timeleap.features.files.repository import ORIGIN, Repository
from timeleap.features.files.roots import find_root
from timeleap.features.files.tree import FileTree
from timeleap.storage.durable import atomic_write, replace_file, storage_errors

Way = Literal["moved", "copied", "kept"]


class MovedSnapshots(Struct, frozen=True):
    """Snapshots of one folder, and what becomes of them.

    Attributes:
        former: The folder they are of.
        folder: The folder they are to be of.
        way: `moved`: the repository of snapshots as a whole; `copied`: beside those that the folder has; `kept`: the folder has snapshots of
            all these sessions already, so those of the former one stay where they are.
        snapshots: By the uids of the sessions.
    """

    key: str
    former: Path
    folder: Path
    way: Way
    snapshots: dict[str, int]


def moved_path(path: Path, old: Path, new: Path) -> Path | None:
    """Where a path at or below the folder `old` is now that this is `new`; None for any other path."""
    return new / path.relative_to(old) if path.is_relative_to(old) else None


def find_moved_snapshots(home: Path, old: Path, new: Path) -> list[MovedSnapshots]:
    """Find the snapshots that are of the folder `old`, or of one below it, and not of `new`. Blocking.

    Raises:
        FilesUnavailableError: There is no git, or the new folder's files are never kept.
    """
    if not (home / "files").is_dir():
        return []
    check_version(os.environ.get("PATH"))
    found: list[MovedSnapshots] = []
    for repository in stored.repositories(home):
        recorded = repository.recorded_root()
        folder = None if recorded is None else moved_path(Path(recorded), old, new)
        if recorded is None or folder is None or not folder.is_dir():
            continue
        target = find_root(home, folder)
        if target.key == repository.path.name:
            continue
        counts = Counter(snapshot.session_uid for snapshot in repository.snapshots())
        if not counts:
            continue
        way: Way = "moved"
        if target.repository.exists():
            known = Repository(target, FilesConfig())
            new_ones = [uid for uid in counts if not known.numbers(uid)]
            way = "copied" if new_ones else "kept"
        found.append(MovedSnapshots(repository.path.name, Path(recorded), folder, way, dict(counts)))
    return found


def take_over(home: Path, moved: MovedSnapshots) -> None:
    """Make the snapshots those of the folder they are to be of. Blocking.

    Raises:
        FilesBusyError: A snapshot of either folder is being taken or restored.
        StorageFailureError, CorruptedError: Nothing was changed.
    """
    (source,) = (each for each in stored.repositories(home) if each.path.name == moved.key)
    target = find_root(home, moved.folder)
    with source.lock():
        if moved.way == "moved":
            with storage_errors("take over the snapshots of a folder", target.repository):
                members = {**source.read_json(ORIGIN), "root": str(target.path)}
                replace_file(source.path, target.repository)
                atomic_write(target.repository / ORIGIN, json.dumps(members).encode("ascii"))
            return
        place = source.path / f"work-{secrets.token_hex(8)}"
        place.mkdir()
        try:
            for uid in moved.snapshots:
                tree = FileTree.open(home, moved.folder, uid, FilesConfig())
                if not tree.snapshots():
                    records, _ = FileTree(source, uid, FilesConfig()).write_pack(
                        place / f"{uid}.pack", source.git.control
                    )
                    tree.take_pack(place / f"{uid}.pack", records)
        finally:
            shutil.rmtree(place, ignore_errors=True)
