"""Obstacles to git: pipes, endless files and the like in a workspace, where it reads files of patterns.

Git opens `.gitignore` and `.gitattributes` of each folder, and a few files of the repositories within the root, whatever
they are: it waits for a pipe's writer, and takes the whole length of a file in memory. To look at all folders first would
take as long as git needs. So the folders that are visited anyway are judged meanwhile, and all of them once a look takes
long; if there is an obstacle git is ended, and `careful` does its work.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap.features.files.bounded import LARGEST, UnfitFileError, is_fit, read_bounded
from timeleap.features.files.records import Control, to_text

PATTERNS: Final = (".gitignore", ".gitattributes")
PATIENCE: Final = 3.0
"""Seconds after which all folders are looked through."""
_OF_REPOSITORY: Final = ("HEAD", "commondir", "packed-refs")


def is_obstacle(place: str, folder: str, *, is_root: bool) -> bool:
    """True if a folder has something that git would wait for, or read however long it is."""
    for name in PATTERNS:
        try:
            facts = os.lstat(f"{place}/{folder}/{name}")
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode):
            if facts.st_size > LARGEST:
                return True
        elif not (stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
            return True
    return not is_root and _is_hostile_repository(f"{place}/{folder}")


def _is_hostile_repository(folder: str) -> bool:
    """True for a folder whose `.git` has a pipe, or the like, where git looks whether it is a repository."""
    try:
        mode = os.lstat(f"{folder}/.git").st_mode
        repository = Path(folder, ".git")
        if stat.S_ISLNK(mode):
            mode = repository.stat().st_mode
        if stat.S_ISREG(mode):
            named = read_bounded(repository, limit=4096) or b""
            repository = Path(folder, to_text(named.removeprefix(b"gitdir:").strip()))
        elif not stat.S_ISDIR(mode):
            return False  # git takes nothing else for a repository
    except (OSError, UnfitFileError):
        return False
    return not all(is_fit(repository / name, limit=64 << 20) for name in _OF_REPOSITORY)


class ObstacleWatch:
    """Watches one look at a workspace.

    Args:
        place: The root, as this process reaches it.
        control: Of the look.
        known: The folder that had an obstacle in the last look, if one had.

    Attributes:
        control: For the commands of git: it ends them when there is an obstacle, too.
        found: The folder that has one; empty for the root, None for none.
    """

    def __init__(self, place: str, control: Control, known: str | None) -> None:
        self._place = place
        self._of_look = control
        self._until = time.monotonic() + PATIENCE
        self._looking = threading.Lock()
        self._ended = False
        self.found: str | None = None
        self.control = Control(control.progress, self._is_over)
        if known is not None:
            self.judge(known)

    def judge(self, folder: str) -> None:
        """Look whether a folder, which is visited anyway, has an obstacle."""
        if self.found is None and is_obstacle(self._place, folder, is_root=not folder):
            self.found = folder

    def end(self) -> None:
        """The look is over."""
        self._ended = True

    def look(self) -> bool:
        """Look through all folders; True if there is an obstacle."""
        with suppress(OSError):
            self._search(self._place)
        return self.found is not None

    def _is_over(self) -> bool:
        if self.found is None and time.monotonic() > self._until and self._looking.acquire(blocking=False):
            own = os.open(self._place, os.O_RDONLY | os.O_DIRECTORY) if hasattr(os, "O_DIRECTORY") else None
            threading.Thread(target=self._look_apart, args=(own,), name="timeleap-obstacles", daemon=True).start()
        return self.found is not None or self._of_look.cancelled()

    def _look_apart(self, own: int | None) -> None:
        """Look through all folders by a descriptor of our own: the look that is watched may be over before."""
        try:
            by_descriptor = own is not None and Path("/proc/self/fd").is_dir()
            with suppress(OSError):
                self._search(f"/proc/self/fd/{own}/." if by_descriptor else self._place)
        finally:
            if own is not None:
                os.close(own)

    def _search(self, place: str) -> None:
        waiting = [""]
        while waiting and self.found is None and not self._ended:
            folder = waiting.pop()
            if is_obstacle(place, folder, is_root=not folder):
                self.found = folder
            with suppress(OSError), os.scandir(f"{place}/{folder}") as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                waiting += [f"{folder}/{name}" if folder else name for name in names if name != ".git"]
