"""The project that a session belongs to: the repository that its folder lies in, worktrees of it included.

Folders are looked at, and no git is run: a list has to be quick, and a repository is a stranger's.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from timeleap.cli.file_changes import path_of
from timeleap.json_value import Json

_MOST_BYTES: Final = 4096
"""Limit for a file of git's that names a folder."""
_OWN: Final = "timeleap"
"""The program of a session that belongs to no other."""


class SessionProject(NamedTuple):
    """Where a session belongs.

    Attributes:
        project: The repository, or the folder where there is none; empty where the session has no folder.
        folder: The folder of the session.
        worktree: The folder lies in another worktree of the repository.
    """

    project: str
    folder: str
    worktree: bool = False


def place_of(session: Json) -> SessionProject:
    """Tell where a session of a list belongs. Blocking."""
    workspace = session.get("workspace")
    if not workspace:
        return SessionProject("", "")
    return _place(path_of(workspace))


def program_of(session: Json) -> str:
    """Tell which program a session of a list is of."""
    source = session.get("source")
    return str(source["kind"]) if source else _OWN


@cache
def _place(folder: str) -> SessionProject:
    if not Path(folder).is_absolute():
        return SessionProject(folder, folder)
    for parent in (Path(folder), *Path(folder).parents):  # what is gone may still lie in a repository
        mark = parent / ".git"
        try:
            kind = mark.lstat().st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(kind):
            return SessionProject(str(parent), folder)
        if stat.S_ISREG(kind):
            main = _main_repository(mark)
            return SessionProject(str(parent), folder) if main is None else SessionProject(main, folder, worktree=True)
    return SessionProject(folder, folder)


def _main_repository(mark: Path) -> str | None:
    """The main folder of the repository that the file `.git` of a worktree leads to; None where it leads to none, or to a
    submodule."""
    line = _beginning(mark)
    if not line.startswith("gitdir: "):
        return None
    own = Path(os.path.normpath(mark.parent / line.removeprefix("gitdir: ")))
    common = _beginning(own / "commondir")
    shared = Path(os.path.normpath(own / common)) if common else own.parent.parent
    if own.parent.name != "worktrees" or own.parent.parent != shared:
        return None
    return str(shared.parent if shared.name == ".git" else shared)


def _beginning(path: Path) -> str:
    """The first line of a small file; empty where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.fsdecode(os.read(descriptor, _MOST_BYTES)).partition("\n")[0].strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
