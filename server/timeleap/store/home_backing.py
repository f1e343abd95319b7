"""Sessions that are kept in the home itself: a directory each, which processes lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.errors import SessionLockedError, StorageFailureError
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.storage.lock import locked
from timeleap.storage.log_files import state_and_loss
from timeleap.storage.log_values import LogState
from timeleap.storage.owner_lock import SessionLock
from timeleap.store.backing import LogFacts
from timeleap.store.home import Home, discard
from timeleap.store.home_purge import HomePurge
from timeleap.store.listing import owner_of

if TYPE_CHECKING:
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Cause
    from timeleap.store.purging import TrashParts


class HomeFiles:
    """Files of the store itself, in its home."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self) -> None:
        """They are read where they are."""

    def changing(self) -> AbstractContextManager[None]:
        return locked(self.directory / ".requests.lock")


class HomeBacking:
    """Keeps sessions in a home (`timeleap.store.backing.SessionBacking`)."""

    copies = False
    open_engine = None

    def __init__(self, home: Home) -> None:
        self._home = home
        self.own = HomeFiles(home.path)

    def holds(self, session_id: str) -> bool:
        return False

    def fetch(self, session_id: str) -> None:
        """It is here."""

    def fetch_all(self) -> None:
        """They are here."""

    @asynccontextmanager
    async def opening(self, session_id: str) -> AsyncIterator[None]:
        yield

    def facts(self, name: str, path: Path, *, made_with_log: bool, in_trash: bool) -> LogFacts:
        log = path / LOG_NAME
        owner = None if in_trash else owner_of(log)
        try:
            # The index knows the counts; without one the log is scanned, which a list of very old sessions can afford once.
            state, lost = state_and_loss(log, expected=made_with_log)
        except OSError as error:
            return LogFacts(path, LogState(), str(error), owner)
        return LogFacts(path, state, None if lost is None else lost.message, owner)

    def location(self, session_id: str, path: Path) -> str:
        return str(path)

    def files(self, name: str, path: Path) -> AbstractContextManager[Path]:
        return nullcontext(path)

    @asynccontextmanager
    async def trashed(self, name: str) -> AsyncIterator[tuple[Path, Callable[[], None]]]:
        yield self._home.trash / name, lambda: None

    def sizes(self) -> None:
        """The files have them."""

    def others(self, session_id: str) -> None:
        """They attach to the one that has its lock."""

    def reading(self, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        return work

    async def catch_up(self, session: Session) -> None:
        """It always is."""

    def publish(self, built: Path, session_id: str) -> None:
        """The home publishes it."""

    async def withdraw(self, session_id: str) -> None:
        lock = SessionLock(self._home.sessions / session_id / LOG_NAME)
        try:
            await lock.acquire("hold", wait=0)
        except SessionLockedError:
            return  # another process has it
        except StorageFailureError:
            if not lock.untried():
                return  # who knows
        try:
            left = await asyncio.to_thread(self._home.withdraw, session_id)
        finally:
            lock.release()  # before the rest, which needs the descriptor
        if left is not None:
            await asyncio.to_thread(discard, left)

    @asynccontextmanager
    async def alone(self, path: Path) -> AsyncIterator[None]:
        lock = SessionLock(path / LOG_NAME)
        await lock.acquire("hold", wait=0)
        try:
            yield
        finally:
            lock.release()

    def to_trash(self, session_id: str, name: str, cause: Cause) -> None:
        self._home.to_trash(session_id, name)

    def from_trash(self, session_id: str, name: str, cause: Cause) -> None:
        self._home.from_trash(session_id, name)

    def purge(self, parts: TrashParts) -> HomePurge:
        return HomePurge(parts)

    def close(self) -> None:
        """Nothing is open."""
