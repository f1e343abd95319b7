"""Changes in folders as the operating system tells them, by `watchfiles`.

Nothing is told where not all changes would be: on a network's file system, which other machines write to; where the
system has no more watches to give; without `watchfiles`, an extra. Then the caller has to look by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

STEP_MS: Final = 40
"""Between looks at what the system has told; those of one write are taken together."""
QUIET_STEP_MS: Final = 100
"""Between such looks where nothing has changed for `QUIET_MS`; each wakes the process."""
QUIET_MS: Final = 10_000
JOINED_MS: Final = 60
NETWORK: Final = frozenset(
    {"9p", "afs", "afpfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "prl_fs",
     "smb", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "webdav"}
)  # fmt: skip
"""File systems that others may write to without our system being told; those of `fuse` may be."""

_logger = logging.getLogger(__name__)


class FolderEvents:
    """Says which paths in some folders have changed.

    Attributes:
        folders: Those that are followed, each with its inode; none where changes are not told.
        news: Set when something has changed, or changes are told no more.
    """

    def __init__(self) -> None:
        self.folders: dict[str, int] = {}
        self.news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._paths: set[str] = set()
        self._stop = Event()

    def follow(self, folders: Mapping[str, int]) -> bool:
        """Follow these folders, without those in them, in the place of others; says whether that can be done. What
        changed before is not told. Blocking."""
        stop = Event()
        told = _started(folders) if folders and all(map(is_local, _mounts_of(folders))) else None
        self.close()
        if told is None:
            return False
        self.folders, self._stop = dict(folders), stop
        Thread(target=self._serve, args=(told, stop), name="timeleap folder events", daemon=True).start()
        return True

    def taken(self) -> set[str]:
        """The paths that have changed since this was asked last."""
        self.news.clear()
        paths, self._paths = self._paths, set()
        return paths

    def close(self) -> None:
        """Follow nothing any more."""
        self._stop.set()
        self.folders = {}

    def _serve(self, notifier: Any, stop: Event) -> None:
        problem: Exception | None = None
        try:
            for paths in _told(notifier, stop):
                self._loop.call_soon_threadsafe(self._take, paths)
        except (OSError, RuntimeError) as error:  # of the system, or the loop is closed
            problem = error
        if not stop.is_set() and not self._loop.is_closed():
            _logger.info("changes of folders are not told any more: %s", problem)
            self._loop.call_soon_threadsafe(self._lose, stop)

    def _take(self, paths: set[str]) -> None:
        self._paths |= paths
        self.news.set()

    def _lose(self, stop: Event) -> None:
        if stop is self._stop:
            self.close()
            self.news.set()


def _told(notifier: Any, stop: Event) -> Iterator[set[str]]:
    """The paths that a source of events tells of, until it ends. Blocking."""
    step = STEP_MS
    while True:
        changes = notifier.watch(JOINED_MS, step, QUIET_MS, stop)
        if isinstance(changes, set):
            step = STEP_MS
            yield {path for _, path in changes}
        elif changes == "timeout":
            step = QUIET_STEP_MS
        else:
            return


def _started(folders: Mapping[str, int]) -> Any:
    """Start a source of events; None where the system has none."""
    try:
        from watchfiles._rust_notify import RustNotify
    except ImportError:
        return None
    try:
        # Each folder by itself: below one it would follow links, out of it and for ever.
        return RustNotify(list(folders), False, False, 0, False, True)
    except (OSError, RuntimeError) as error:
        _logger.info("changes of folders are not told: %s", error)
        return None


def _mounts_of(folders: Mapping[str, int]) -> set[str]:
    """Pick a folder of each file system."""
    found: dict[int, str] = {}
    for folder in folders:
        try:
            found.setdefault(os.lstat(folder).st_dev, folder)
        except OSError:
            continue
    return set(found.values())


def is_local(folder: str) -> bool:
    """False where others may write to the folder's file system without our system being told, or that is not known."""
    import psutil  # a twentieth of a second

    path = Path(os.path.realpath(folder))
    kind, options, length = "fuse", "", 0
    for mount in psutil.disk_partitions(all=True):
        point = Path(mount.mountpoint)
        if len(point.parts) >= length and path.is_relative_to(point):
            kind, options, length = mount.fstype.lower(), mount.opts, len(point.parts)
    return kind not in NETWORK and not kind.startswith("fuse") and "remote" not in options.split(",")
