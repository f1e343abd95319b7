"""Stores that sessions are copied from and to: directories and databases."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Protocol

from timeleap.errors import SessionNotFoundError
from timeleap.service.config import place_of
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME, list_files
from timeleap.sessions.documents.statefile import StateFile, approval_members
from timeleap.sessions.shapes import Approval
from timeleap.storage.durable import OpenFile
from timeleap.storage.owner_lock import SessionLock
from timeleap.store.home import Home
from timeleap_postgresql.database import Database
from timeleap_postgresql.session_copies import publish
from timeleap_postgresql.working_copy import WorkingCopy

NOT_COPIED = ("index", "lock", "intent", "temporary", "snapshots")
"""Kinds of files: derived, of a moment, or of the store that they are in."""


class CopyPlace(Protocol):
    """A store that sessions are copied from, or to."""

    label: str

    def ids(self) -> list[str]: ...
    async def read(self, session_id: str, directory: Path) -> None:
        """Write a session's files into an empty directory."""

    def add(self, session_id: str, directory: Path) -> None:
        """Make a session of such a directory. Raises SessionExistsError."""

    def scratch(self) -> Path:
        """Where such a directory can be made."""
        ...


class DirectoryPlace:
    """A home's sessions, those in its trash left out."""

    def __init__(self, home: Path) -> None:
        self._home = Home(home)
        self.label = str(self._home.path)

    def ids(self) -> list[str]:
        return sorted(self._home.names())

    async def read(self, session_id: str, directory: Path) -> None:
        """While it is copied nobody writes to it. Raises SessionLockedError where somebody has it open to write."""
        path = self._home.locate(session_id)
        lock = SessionLock(path / LOG_NAME)
        await lock.acquire("hold", wait=0)
        try:
            for file in list_files(path):
                if "/" not in file.name and file.kind not in NOT_COPIED:
                    shutil.copy2(path / file.name, directory / file.name)
        finally:
            lock.release()

    def add(self, session_id: str, directory: Path) -> None:
        for path in directory.iterdir():
            OpenFile(path, writable=True).sync()
        self._home.publish(directory, session_id)

    def scratch(self) -> Path:
        staging = self._home.path / "staging"
        staging.mkdir(mode=0o700, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="copy-", dir=staging))


class DatabasePlace:
    """The sessions of a database."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self.label = self._database.label

    def ids(self) -> list[str]:
        with self._database.connection() as connection:
            rows = connection.execute("SELECT id FROM timeleap_session WHERE id NOT LIKE '%~%' ORDER BY id").fetchall()
        return [str(row[0]) for row in rows]

    async def read(self, session_id: str, directory: Path) -> None:
        if not WorkingCopy(self._database, session_id, directory).fetch():
            raise SessionNotFoundError(f"there is no session {session_id} in {self.label}", sessionId=session_id)

    def add(self, session_id: str, directory: Path) -> None:
        publish(self._database, session_id, directory)

    def scratch(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="timeleap-copy-"))


def copy_place(named: str) -> CopyPlace:
    """The store of that name: a URL, or a directory. Raises InvalidInputError, StorageFailureError."""
    home, url = place_of(Path(), named)
    return DirectoryPlace(home) if url is None else DatabasePlace(url)


def without_approvals(directory: Path) -> None:
    """Approvals count for the session that they were given to, not for a copy of it."""
    meta, state = Meta(directory, "readOnly"), StateFile(directory)
    if meta.get("seals"):
        meta.write({"seals": None})
    if state.read().approval.anything_on:
        state.write({"approval": approval_members(Approval())})
