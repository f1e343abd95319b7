"""All there is below a folder, so that two moments can be compared."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def whole_tree(root: Path, *, times: bool = False) -> dict[str, tuple[object, ...]]:
    """Kind, permissions and content of everything below `root`, by path; `times`: also when files were modified.

    The insides of `.git` are left out.
    """
    found: dict[str, tuple[object, ...]] = {}
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *names):
            path = Path(place, name)
            facts = path.lstat()
            time = facts.st_mtime_ns if times and not stat.S_ISDIR(facts.st_mode) else 0
            key = os.fsencode(path.relative_to(root)).decode("utf-8", "surrogateescape")
            found[key] = (stat.S_IFMT(facts.st_mode), _mode(facts), _content(path, facts), time)
    return found


def _mode(facts: os.stat_result) -> int:
    return 0 if stat.S_ISLNK(facts.st_mode) else stat.S_IMODE(facts.st_mode)


def _content(path: Path, facts: os.stat_result) -> bytes:
    if stat.S_ISLNK(facts.st_mode):
        return os.readlink(os.fsencode(path))
    return path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
