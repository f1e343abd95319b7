"""Indexes that readers keep in the user's cache folder, for logs with none beside them: there readers write nothing.

One file a log, named by a digest of its path, with the format of the index beside a log (`index.py`). Its time of change
is that of the log it was made for: of a log of the same size and another time it says nothing. Losing it costs a scan.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap import user_folders
from timeleap.storage import durable
from timeleap.storage.durable import FileStatus
from timeleap.storage.index import EntryStore, IndexDamagedError, open_index, save

FILES: Final = 64
BYTES: Final = 256 << 20
"""Limit on the cache; the indexes kept longest ago go."""

_OURS: Final = re.compile(r"[0-9a-f]{32}\.idx|\.[0-9a-f]{32}\.idx\.[0-9a-f]{16}\.tmp")


def directory() -> Path | None:
    """Where the cache is; it need not exist. None where the user has no place for one."""
    caches = user_folders.folder("cache")
    return None if caches is None else caches / "indexes"


def find(log: Path, there: FileStatus) -> tuple[EntryStore, bool] | None:
    """The index kept for a log, whose file is `there` now, and whether every line was parsed for it."""
    path = _path(log)
    if path is None:
        return None
    try:
        known = durable.status(path)
        found = open_index(log, there.identity.inode, writable=False, found=path)
        if known is None or found is None:
            return None
        same = found[0].state(found[0].count).length == there.size
    except (OSError, IndexDamagedError):
        return None
    return None if same and known.modified_ns != there.modified_ns else found


def keep(log: Path, there: FileStatus, store: EntryStore, *, parsed: bool) -> None:
    """Keep the entries of a log, whose file is `there`. What cannot be written is not kept."""
    path = _path(log)
    if path is None:
        return
    with suppress(OSError):
        # Of the same time and shorter is the index of a log that has grown within one tick of the clock.
        known = find(log, there)
        if known is not None and known[0].state(known[0].count).length == there.size:
            return
        durable.make_directory(path.parent)
        with suppress(IndexDamagedError):
            save(store, log, there.identity.inode, parsed=parsed, target=path)
            os.utime(path, ns=(there.modified_ns, there.modified_ns))
        _trim(path.parent)


def _path(log: Path) -> Path | None:
    place = directory()
    name = hashlib.blake2b(os.fsencode(os.path.realpath(log)), digest_size=16).hexdigest()
    return None if place is None else place / f"{name}.idx"


def _trim(place: Path) -> None:
    """Remove what is more than the cache may hold, and what killed processes left; nothing that has no name of ours."""
    kept = []
    for name in durable.list_directory(place):
        if _OURS.fullmatch(name):
            with suppress(OSError):
                there = os.lstat(place / name)
                kept.append((there.st_ctime_ns, there.st_size, place / name))
    held = 0
    for number, (_, size, path) in enumerate(sorted(kept, reverse=True), 1):
        held += size
        if number > FILES or (held > BYTES and number > 1):
            with suppress(OSError):
                durable.remove_file(path)
