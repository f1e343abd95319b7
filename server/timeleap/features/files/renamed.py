"""Snapshots of a folder that was renamed or moved within its file system: they follow it, known by device and inode."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from timeleap.features.files.root_folder import identity_of
from timeleap.features.files.roots import FOLDER, Root, root_key
from timeleap.storage.durable import OpenFile, atomic_write, list_directory, replace_file

ORIGIN = "origin.json"
MAX_ORIGIN = 1 << 16  # bytes


def follow_rename(root: Root) -> None:
    """Give a root without a repository that of the same folder under its former name, where that name is gone, leads here
    now, or is another folder's. Blocking. Raises OSError."""
    if root.identity is None or root.repository.exists():
        return
    folder = root.home / FOLDER
    with suppress(FileNotFoundError):
        for name in list_directory(folder):
            former = _recorded(folder / name)
            if former is None or root_key(root.identity, former) != name:
                continue
            if _is_same(former, root) and Path(os.path.realpath(former)) != root.path:
                continue  # the folder has both names, as a bind mount does, and snapshots under that one
            replace_file(folder / name, root.repository)
            members = _members(root.repository)
            atomic_write(root.repository / ORIGIN, json.dumps({**members, "root": str(root.path)}).encode())
            return


def _is_same(former: Path, root: Root) -> bool:
    try:
        return identity_of(former.stat()) == root.identity
    except OSError:
        return False


def _recorded(repository: Path) -> Path | None:
    root = _members(repository).get("root")
    return Path(root) if isinstance(root, str) and root else None


def _members(repository: Path) -> dict[str, object]:
    try:
        file = OpenFile(repository / ORIGIN)
    except OSError:
        return {}
    try:
        found = json.loads(file.pread(0, MAX_ORIGIN))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        file.close()
    return found if isinstance(found, dict) else {}
