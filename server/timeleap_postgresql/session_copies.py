"""A store in a database as one process uses it: working copies of its sessions in a folder of its own, and their engines.

Two processes never share a working copy. The folder is removed when its process ends, or swept by a later one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import json

from timeleap import clock
from timeleap.errors import SessionNotFoundError, TimeleapError
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause
from timeleap.storage import durable
from timeleap.storage.lock import FileLock
from timeleap.storage.log_files import state_of
from timeleap.storage.log_notes import Notes
from timeleap.storage.log_values import Access, Durability, LogState, Progress
from timeleap.storage.owner_lock import Endpoint, LockMode
from timeleap.store.backing import LogFacts
from timeleap.store.purging import TrashParts
from timeleap_postgresql import store_rows
from timeleap_postgresql.announcements import Announcements
from timeleap_postgresql.approval_rows import STORE
from timeleap_postgresql.database import Database
from timeleap_postgresql.database_purge import DatabasePurge
from timeleap_postgresql.freshness import marked_when_stale, staleness
from timeleap_postgresql.servers import WatchedConnection
from timeleap_postgresql.shared_log import Announcing, PostgresEngine, open_copy
from timeleap_postgresql.shared_parts import SharedParts
from timeleap_postgresql.store_rows import StoreDocuments, TrashedFiles
from timeleap_postgresql.working_copy import LIVE, WorkingCopy

FOLDER: Final = "copies"
"""Folder of working copies, in the home."""
_SIZES: Final = (
    "SELECT session, coalesce(name, ''), length - shared FROM timeleap_log"
    " UNION ALL SELECT session, name, length(body) FROM timeleap_document WHERE session <> %s"
)
LEFT_KEPT: Final = 4096
"""Number of deleted sessions that are remembered, for lists of a standby that is behind."""
_logger = logging.getLogger(__name__)


class PostgresStore:
    """The sessions in a database, and working copies of those that this process uses.

    Attributes:
        label: The database's URL without user, password and options.
        path: The folder of the working copies.
        reads_standby: Reads may be answered by a standby (see `Database`).
        own: The files that are the store's own.
    """

    copies = True

    def __init__(self, url: str, home: Path) -> None:
        """Nothing is asked of the database yet. Raises InvalidInputError where `url` is none of one."""
        self._database = Database(url)
        self.label, self.reads_standby = self._database.label, self._database.reads_standby
        key = hashlib.blake2b(self.label.encode(), digest_size=8).hexdigest()
        self._folder = home / FOLDER
        self.path = self._folder / f"{key}-{os.getpid()}-{clock.new_uid(8)}"
        self._alive = FileLock(self._folder / f".{self.path.name}.lock")
        self._turn = threading.RLock()
        self._copies: dict[str, WorkingCopy] = {}
        self._open: dict[str, tuple[PostgresEngine, asyncio.AbstractEventLoop]] = {}
        self._opening: set[str] = set()
        self._seen: dict[str, int] = {}  # versions of the documents that are here without their logs
        self._counts: dict[str, LogState] = {}
        self._left: dict[str, int] = {}  # for reads of a standby: sessions that are gone, from which version on
        self._forgot = False  # more of them are than `LEFT_KEPT`
        self._listed = False  # `_counts` has all sessions that the primary had
        self.own = StoreDocuments(self._database, self.path / "store")
        self._announcements: Announcements | None = None
        with durable.storage_errors("make a folder for working copies", self._folder):
            durable.make_directory(self._folder)
            self._sweep()
            self._alive.try_acquire()
            durable.make_directory(self.path / "sessions")

    def _sweep(self) -> None:
        """Remove the folders of processes that are gone."""
        for name in durable.list_directory(self._folder):
            lock_file = self._folder / f".{name}.lock"
            lock = FileLock(lock_file)
            if name.startswith(".") or not lock.try_acquire():
                continue
            try:
                shutil.rmtree(self._folder / name, ignore_errors=True)
                durable.remove_file(lock_file)
            finally:
                lock.release()

    def close(self) -> None:
        """End it, and remove the working copies: all that counts is in the database."""
        if self._announcements is not None:
            self._announcements.close()
        self._database.close()
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            durable.remove_file(self._folder / f".{self.path.name}.lock")
        self._alive.release()

    def location(self, session_id: str, path: Path) -> str:
        """Where a session is said to lie."""
        return f"{self.label}#{session_id}"

    # Bringing sessions here; blocking

    def holds(self, session_id: str) -> bool:
        """True if the database has a session of that id. Raises StorageFailureError."""

        def look(connection: WatchedConnection, stale: bool) -> bool:
            row = connection.execute("SELECT FROM timeleap_session WHERE id = %s", [session_id]).fetchone()
            if row is None and stale and self._known(session_id) < 0:
                raise self._database.behind()
            return row is not None or stale

        return self._database.read(look, staleness())

    def fetch(self, session_id: str) -> None:
        """Bring a working copy here, or up to date; none where there is no such session. An open one sees to that by
        itself.

        Raises:
            StorageFailureError, CorruptedError: It is not here.
        """
        with self._turn:
            if session_id not in self._open and not self._copy(session_id).fetch(staleness()):
                self._drop(session_id)

    @asynccontextmanager
    async def opening(self, session_id: str) -> AsyncIterator[None]:
        """Fetch a session for a block in which it is opened, or made: lists leave its files alone. Raises as `fetch`."""
        self._opening.add(session_id)
        try:
            await asyncio.to_thread(self.fetch, session_id)
            yield
        finally:
            self._opening.discard(session_id)

    def fetch_all(self) -> None:
        """Bring what lists show of all sessions: their documents. Raises StorageFailureError."""
        with self._turn:
            self._database.read(self._take_all, staleness())

    def _take_all(self, connection: WatchedConnection, stale: bool) -> None:
        with self._database.steady(connection):
            rows = connection.execute(
                "SELECT id, version, messages, tokens, pending, date_part('epoch', changed) * 1e9"
                " FROM timeleap_session WHERE id <> %s",
                [STORE],
            ).fetchall()
            newer = []
            for session_id, version, messages, tokens, pending, changed in rows:
                known = self._known(session_id)
                if stale and self._is_behind(session_id, version, known):
                    continue
                self._counts[session_id] = LogState(messages=messages, token_count=tokens, pending_chars=pending)
                if self._in_use(session_id) or version == self._seen.get(session_id):
                    continue
                newer.append((session_id, version, int(changed), known))
            for session_id, version, stamp, known in newer:
                self._copies.pop(session_id, None)
                copy = self._copy(session_id)
                copy.fetch_documents(connection, stamp)
                copy.reading.reached = known
                if not stale:  # the primary may turn out to have another past
                    self._seen[session_id] = version
        if stale:  # it may not have yet what was made, or left its place, meanwhile
            for session_id in {*self._open, *self._copies} - {row[0] for row in rows if row[1] >= self._known(row[0])}:
                self._counts[session_id] = self._state_here(session_id)
            return
        for session_id, version, *_ in rows:
            if version >= self._left.get(session_id, version + 1):
                del self._left[session_id]  # there is one of that id again
        self._listed = True
        for session_id in self._counts.keys() - {row[0] for row in rows}:
            del self._counts[session_id]
            if not self._in_use(session_id):
                self._leave(session_id, self._known(session_id) + 1)

    def _is_behind(self, session_id: str, version: int, known: int) -> bool:
        """True of what a standby has of a session if that is further here, or may be gone. Raises StorageFailureError:
        nobody knows."""
        if version < max(known, self._left.get(session_id, 0)):
            return True
        if self._forgot and not self._listed:
            raise self._database.behind()  # or nobody knows
        return self._forgot and known < 0 and session_id not in self._counts

    def _state_here(self, session_id: str) -> LogState:
        """Messages and tokens of a session as this process has it."""
        if session_id in self._open:
            return self._open[session_id][0].state
        copy, log = self._copies.get(session_id), self._directory(session_id) / LIVE
        return self.counts(session_id) if copy is None or copy.doubtful or not log.exists() else state_of(log)

    def _known(self, session_id: str) -> int:
        """The version of a session up to which this process has shown it, or changed it; -1: none."""
        copy = self._copies.get(session_id)
        return max(self._seen.get(session_id, -1), -1 if copy is None else max(copy.reading.reached, copy.version))

    def _in_use(self, session_id: str) -> bool:
        return session_id in self._open or session_id in self._opening

    async def withdraw(self, session_id: str) -> None:
        """Nothing: the database has it, and a repeat finds it there."""

    @asynccontextmanager
    async def alone(self, path: Path) -> AsyncIterator[None]:
        """Exclude nobody: a move is one transaction."""
        yield

    def to_trash(self, session_id: str, name: str, cause: Cause) -> None:
        """Move a session that is not open here to the trash. Blocking. Raises as `store_rows.move`."""
        self.move(session_id, name, json.encode(cause))

    def from_trash(self, session_id: str, name: str, cause: Cause) -> None:
        """Move a session back from the trash. Blocking. Raises as `store_rows.move`."""
        self.move(name, session_id, json.encode(cause))

    def purge(self, parts: TrashParts) -> DatabasePurge:
        """Make what removes sessions for good."""
        return DatabasePurge(self, parts)

    def move(self, before: str, after: str, cause: bytes) -> None:
        """Give a session that is not open here another id: its name in the trash, or the id that it had. Blocking.
        `cause` and errors as of `store_rows.move`."""
        version = store_rows.move(self._database, before, after, cause)
        with self._turn:
            self._drop(after)
            with suppress(FileNotFoundError):  # lists of a standby show it there
                durable.make_directory(self._directory(after).parent)
                durable.replace_file(self._directory(before), self._directory(after))
            self._counts[after] = self._counts.get(before, LogState())
            self._leave(before, version)

    def remove(self, names: Collection[str]) -> set[str]:
        """Remove sessions in the trash for good; says which were there. Blocking. Raises StorageFailureError."""
        gone = store_rows.remove(self._database, names)
        with self._turn:
            for name in names:
                self._leave(name, sys.maxsize)
        return gone

    def _leave(self, session_id: str, version: int) -> None:
        self._drop(session_id)
        self._counts.pop(session_id, None)
        if not self.reads_standby:
            return
        self._left[session_id] = max(version, self._left.pop(session_id, 0))  # the last one now
        while len(self._left) > LEFT_KEPT:
            del self._left[next(iter(self._left))]
            self._forgot = True

    def _directory(self, session_id: str) -> Path:
        """Directory of the working copy of a session, or of one in the trash."""
        return self.path / ("trash" if STORE in session_id else "sessions") / session_id

    def _parts(self, session_id: str) -> Path:
        """Directory of the parts that logs of a working copy share."""
        return self.path / "parts" / session_id

    def _drop(self, session_id: str) -> None:
        shutil.rmtree(self._directory(session_id), ignore_errors=True)
        SharedParts(self._parts(session_id)).clear()
        self._copies.pop(session_id, None)
        self._seen.pop(session_id, None)

    def counts(self, session_id: str) -> LogState:
        """Messages and tokens of a session, as of the last `fetch_all`."""
        return self._counts.get(session_id, LogState())

    def facts(self, name: str, path: Path, *, made_with_log: bool, in_trash: bool) -> LogFacts:
        """Facts of a list, as of the last `fetch_all`; nobody owns a session alone."""
        return LogFacts(self.location(name, path), self.counts(name))

    @contextmanager
    def files(self, name: str, path: Path) -> Iterator[Path]:
        """A directory with the files of a session, for the time of a block; of one that is not open they are brought
        here, and go again at its end. Blocking.

        Raises:
            SessionNotFoundError: There is none of that id.
            StorageFailureError, CorruptedError: Its files are not here.
        """
        if name in self._open:
            yield self.path / "sessions" / name
            return
        directory = self.path / "read" / f"{name}.{clock.new_uid(8)}"
        try:
            copy = WorkingCopy(self._database, name, directory)
            copy.reading.reached = self._known(name)
            if not copy.fetch(staleness()):
                raise SessionNotFoundError(f"there is no session {name}", sessionId=name)
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @asynccontextmanager
    async def trashed(self, name: str) -> AsyncIterator[tuple[Path, Callable[[], None]]]:
        """The files of a session in the trash for a block, in which others change nothing of it; the function, which
        blocks, takes over what was changed of them. Raises as `TrashedFiles`."""
        folder = self.path / "read" / clock.new_uid(8)
        found = await asyncio.to_thread(TrashedFiles, self._database, name, folder)

        def keep() -> None:
            found.keep()
            with self._turn:
                self._drop(name)  # what lists show of it is as it was before

        try:
            yield found.directory, keep
        finally:
            await asyncio.to_thread(found.close)

    def sizes(self) -> dict[str, list[tuple[str, int]]]:
        """By id: the names of what is stored of each session, and its bytes; a log's are those that it does not share
        with another one, and those that only others begin with have no name. Raises StorageFailureError."""

        def take(connection: WatchedConnection, stale: bool) -> dict[str, list[tuple[str, int]]]:
            found: dict[str, list[tuple[str, int]]] = {}
            if stale:
                there = dict(connection.execute("SELECT id, version FROM timeleap_session").fetchall())
                if any(there.get(name, -1) < self._known(name) for name in {*self._copies, *self._seen}):
                    raise self._database.behind()
            for session_id, name, size in connection.execute(_SIZES, [STORE]):
                found.setdefault(session_id, []).append((name, int(size)))
            return found

        return self._database.read(take, staleness())

    def publish(self, built: Path, session_id: str) -> None:
        """Make a session in the database of a directory, which then is moved to its place. Blocking.

        Raises:
            SessionExistsError: The id is taken.
            StorageFailureError: Nothing was made.
        """
        copy = publish(self._database, session_id, built)
        copy.directory, copy.parts = self.path / "sessions" / session_id, SharedParts(self._parts(session_id))
        with self._turn:
            self._copies[session_id] = copy

    def _copy(self, session_id: str) -> WorkingCopy:
        copy = self._copies.get(session_id)
        if copy is None:
            copy = WorkingCopy(self._database, session_id, self._directory(session_id), self._parts(session_id))
            copy.forget()  # what lies there is not known
            self._copies[session_id] = copy
        copy.reading.reached = max(copy.reading.reached, self._seen.pop(session_id, -1))
        return copy

    def _copy_at_turn(self, session_id: str) -> WorkingCopy:
        with self._turn:
            return self._copy(session_id)

    # Engines

    async def open_engine(
        self,
        path: Path,
        *,
        access: Access,
        durability: Durability,
        lock: LockMode,
        notes: Notes | None,
        progress: Progress | None,
        endpoint: Endpoint | None,
    ) -> PostgresEngine:
        """Open the log of a session that is here (see `fetch`), always to be written to. Raises as
        `open_copy`."""
        session_id, loop = path.parent.name, asyncio.get_running_loop()
        copy = await asyncio.to_thread(self._copy_at_turn, session_id)  # a list may take its time
        if self._announcements is None:
            self._announcements = Announcements(self._database, self._heard)
        engine = await open_copy(path, copy, notes, progress, closed=lambda: self._closed(session_id))
        self._open[session_id] = engine, loop
        return engine

    def others(self, session_id: str) -> Announcing:
        """Carries what is told of changes of a session that is open."""
        return self._open[session_id][0].events

    def reading(self, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """The work of a request that may be answered from a standby's state, whose result is marked then."""
        return marked_when_stale(work) if self.reads_standby else work

    async def catch_up(self, session: Session) -> None:
        """Bring an open session up to date, as far as a standby is: a request that needs fresh data does so itself."""
        if staleness() is not None:
            await session.catch_its_turn()

    def _closed(self, session_id: str) -> None:
        self._open.pop(session_id, None)

    def _heard(self, session_id: str | None, version: int | None) -> None:
        """Another process may have changed a session, or (None) all of them."""
        for name, (engine, loop) in list(self._open.items()):
            if version is None or (name == session_id and version > engine.copy.version):
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._wake, engine, version)

    @staticmethod
    def _wake(engine: PostgresEngine, version: int | None) -> None:
        task = asyncio.get_running_loop().create_task(engine.take_over(version))
        task.add_done_callback(partial(_look_at_end, engine))


def publish(database: Database, session_id: str, directory: Path) -> WorkingCopy:
    """Make a session in a database of a directory, which is its working copy then. Blocking.

    Raises:
        SessionExistsError: The id is taken.
        StorageFailureError: Nothing was made.
    """
    copy = WorkingCopy(database, session_id, directory)
    copy.publish(state_of(directory / LIVE) if (directory / LIVE).exists() else LogState())
    return copy


def _look_at_end(engine: PostgresEngine, task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, SessionNotFoundError):
        engine.end()
    elif isinstance(error, TimeleapError):
        _logger.info("a session could not be brought up to date: %s", type(error).__name__)
    elif error is not None:
        _logger.error("a session could not be brought up to date", exc_info=error)
