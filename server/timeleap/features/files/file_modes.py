"""Permissions of files and folders: which most have, and which are written down."""

from __future__ import annotations

import os
import stat
from collections import Counter

from timeleap.features.files.repository import Details, most_usual
from timeleap.features.files.scanner import RACY_NS


def modes_of(files: dict[str, os.stat_result]) -> dict[str, int]:
    """Return what `st_mode` says of each."""
    return {path: facts.st_mode for path, facts in files.items()}


def usual_modes(files: dict[str, int], folders: dict[str, int]) -> tuple[int, int, int]:
    """The permissions that most have: only others are written down. `files` as `st_mode` has it."""
    plain: Counter[int] = Counter()
    executable: Counter[int] = Counter()
    for mode, count in Counter(files.values()).items():
        if stat.S_ISREG(mode):
            (executable if mode & 0o100 else plain)[stat.S_IMODE(mode)] = count
    return most_usual(plain, 0o644), most_usual(executable, 0o755), most_usual(Counter(folders.values()), 0o755)


def unusual_modes(details: Details, files: dict[str, int]) -> dict[str, int]:
    """Return the permissions of files that have not the usual ones."""
    if os.name != "posix":
        return {}
    odd = {
        mode
        for mode in set(files.values())
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) != details.usual[bool(mode & 0o100)]
    }
    return {path: stat.S_IMODE(mode) for path, mode in files.items() if mode in odd} if odd else {}


def recent_modes_of(files: dict[str, os.stat_result], started: int) -> dict[str, int]:
    """Permissions of those that changed shortly before a look that began at `started` (nanoseconds)."""
    return {
        path: stat.S_IMODE(facts.st_mode)
        for path, facts in files.items()
        if stat.S_ISREG(facts.st_mode) and facts.st_ctime_ns >= started - RACY_NS
    }
