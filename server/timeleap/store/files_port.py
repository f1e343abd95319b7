"""The snapshots of the files of all sessions of a store: a port, which a feature fills (or nobody does)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from timeleap.store.home import Home


class HeldSnapshot(Struct, frozen=True):
    """A snapshot that holds something, of any session of a store; `root` is the folder."""

    session_uid: str
    snapshot: str
    root: str


class SnapshotStore(Protocol):
    """The snapshots of the files of all sessions of a store."""

    def holding(self, matches: Callable[[bytes], bool], session_uids: Collection[str] | None) -> list[HeldSnapshot]:
        """The snapshots of these sessions (None: of all) with a file, a path or a label that `matches`.

        Raises:
            TimeleapError: They cannot be looked through.
        """
        ...

    def remove(self, snapshots: Collection[HeldSnapshot]) -> None:
        """Remove snapshots, and from the disk what only they had."""

    def forget(self, home: Home, directory: Path) -> bool:
        """Remove the snapshots of a session of `home` that is about to be removed and lies in a directory; False where
        it cannot be told which are its own, and some may stay. What it raises lets the session stay, too."""
        ...


FindSnapshots = Callable[[], SnapshotStore | None]
"""The snapshots of the files of all sessions; None where this process knows nothing of files."""


def nothing_kept() -> None:
    """Find no snapshots: this process knows nothing of files."""
