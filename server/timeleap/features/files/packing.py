"""Keeps the objects of snapshots few and small: borrowed ones are copied, loose ones packed, in the background.

Nothing here takes an object away that a snapshot needs, nor one that a snapshot which is being taken has just written:
what nothing refers to goes only in `Repository.prune`, under the lock.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Final

from timeleap.errors import TimeleapError
from timeleap.features.files.git import GitError
from timeleap.features.files.records import FilesConfig
from timeleap.features.files.repository import Repository
from timeleap.features.files.roots import Root
from timeleap.features.files.seed import own_everything

log = logging.getLogger(__name__)

MOST_LOOSE_BYTES: Final = 8 << 20
MOST_LOOSE: Final = 2000
"""Bytes and number of loose objects from which on they are packed."""

_running: dict[Path, threading.Thread] = {}
_guard: Final = threading.Lock()


def pack_in_background(root: Root) -> threading.Thread | None:
    """Begin what is to be done for a root's repository, unless that is nothing or is being done already."""
    repository = Repository(root, FilesConfig())
    if repository.git.alternate is None and not _many_loose(repository.path):
        return None
    with _guard:
        thread = _running.get(root.repository)
        if thread is None or not thread.is_alive():
            thread = threading.Thread(target=_pack, args=(repository,), name="timeleap-pack", daemon=True)
            _running[root.repository] = thread
            thread.start()
    return thread


def wait_for_packing(repository: Path) -> None:
    """Return when nothing that was begun for this repository by this process is under way."""
    thread = _running.get(repository)
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def _pack(repository: Repository) -> None:
    try:
        pack(repository)
    except (GitError, TimeleapError, OSError) as error:
        log.warning("the snapshots in %s could not be packed: %s", repository.path, error)


def pack(repository: Repository) -> None:
    """Own what is borrowed, and pack what is loose if that is much.

    Raises:
        GitError: Something cannot be read, or there is no space; nothing is lost by it.
    """
    own_everything(repository)
    if _many_loose(repository.path):
        with repository.lock():  # else what is being removed for good meanwhile could get into the new pack
            repository.git.run("repack", "--geometric=2", "-d", "-q", "-n", "--window-memory=64m")


def _many_loose(repository: Path) -> bool:
    count = size = 0
    for number in range(256):
        try:
            with os.scandir(repository / "objects" / f"{number:02x}") as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
        if count > MOST_LOOSE or size > MOST_LOOSE_BYTES:
            return True
    return False
