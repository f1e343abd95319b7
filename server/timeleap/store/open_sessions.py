"""The sessions of a store that are open: one object a directory, opened once and counted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from msgspec import Struct

from timeleap.errors import (
    InvalidInputError,
    SessionLockedError,
    SessionNotFoundError,
    SessionNotOpenError,
    StorageFailureError,
    TimeleapError,
)
from timeleap.sessions.companion import Companion
from timeleap.sessions.documents import session_files
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.documents.warnings import LARGE, SMALL, line_problems
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import WARNING, Event, Retention, Shapes
from timeleap.sessions.transaction import Files, SessionServices, SessionTransactions
from timeleap.storage.durable import Identity, status, storage_errors
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_files import Lease, share
from timeleap.storage.log_values import Durability, Progress
from timeleap.storage.owner_lock import Endpoint
from timeleap.store import listing
from timeleap.store.approvals_port import StoreApprovals
from timeleap.store.backing import SessionBacking
from timeleap.store.home import Home, check_session_id, is_session, is_session_id, new_session_id
from timeleap.store.home_backing import HomeBacking

Asked = Literal["write", "read", "readOnly"]
"""How a session is to be opened; `readOnly` is the contract's word for `read`."""

_CHECK_AFTER_SECONDS = 0.5
"""Seconds before the check of bytes that no client has asked for: the view of the session goes first."""


class SessionLocation(Struct, frozen=True):
    """A session as it is known in this process: by an id of its own, in a directory, which is also its `path` if it is
    not one of the store's own. Another process may know the same directory by another id."""

    session_id: str
    directory: Path
    path: Path | None


class _Entry(Struct):
    """An open session, how often it was opened, and the task that checks its bytes."""

    session: Session
    lease: Lease
    key: Identity
    times: int = 1
    check_later: asyncio.TimerHandle | None = None
    check: asyncio.Task[None] | None = None


_open_directories: set[Identity] = set()
"""Directories that are open in this process: two stores would not know of each other's changes of state."""


class Openings:
    """The open sessions of one store."""

    def __init__(
        self,
        home: Home,
        *,
        durability: Durability,
        shapes: Shapes,
        retention: Retention,
        approvals: StoreApprovals,
        endpoint: Callable[[], Endpoint | None],
        companion: Callable[[SessionTransactions], Companion],
        backing: SessionBacking,
    ) -> None:
        self._home = home
        self._backing, self._in_place = backing, HomeBacking(home)
        self._endpoint = endpoint
        self._durability: Durability = durability
        self._approvals = approvals
        self._around = SessionServices(
            shapes=shapes,
            retention=retention,
            fork_points=self._fork_points,
            release=self._release,
            moved_away=self._moved_away,
            companion=companion,
            approval_requests=approvals.requests,
        )
        self._entries: dict[str, _Entry] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, session_id: str) -> asyncio.Lock:
        """Opening, closing and moving one session come one after the other; sessions do not wait for each other."""
        return self._turns.setdefault(session_id, asyncio.Lock())

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._entries

    def get(self, session_id: str) -> Session | None:
        """The open session of that id."""
        entry = self._entries.get(session_id)
        return entry.session if entry is not None else None

    def sessions(self) -> Iterator[Session]:
        """All that are open."""
        return (entry.session for entry in list(self._entries.values()))

    def place(self, path: Path, wanted: str | None) -> SessionLocation:
        """Where the session in the directory `path` lies, and what it is called here: of the store as its directory,
        else as it is open, `wanted`, its directory's name if that can be had, or a new id.

        Raises:
            InvalidInputError: The path is not absolute, or the id is taken.
            SessionNotFoundError: There is no session.
            StorageFailureError: One cannot look.
        """
        if not path.is_absolute():
            raise InvalidInputError.of("path", "must be absolute")
        own = self._home.contains(path)
        if own is not None:
            return SessionLocation(own, path, None)
        if self._home.is_inside(path):
            raise SessionNotFoundError(f"{path} is no session: what lies in the trash is to be undeleted first")
        with storage_errors(f"look for a session in {path}", path):
            if not path.is_dir() or not is_session(path):
                raise SessionNotFoundError(f"there is no session in {path}", path=str(path))
        open_as = next((name for name, entry in self._entries.items() if _lies_in(entry, path)), None)
        if open_as is not None:
            return SessionLocation(open_as, path, path)
        name = path.name if wanted is None else check_session_id(wanted)
        taken = name in self or not is_session_id(name) or self._home.twin(name) is not None
        if taken and wanted is not None:
            problem = {"loc": ["sessionId"], "msg": "is taken", "type": "sessionId"}
            raise InvalidInputError(f"sessionId: {wanted} is taken", errors=[problem])
        return SessionLocation(new_session_id() if taken else name, path, path)

    def again(self, session_id: str) -> Session | None:
        """Count one more opening of a session, if it is open."""
        entry = self._entries.get(session_id)
        if entry is None:
            return None
        entry.times += 1
        return entry.session

    async def open(self, session_id: str, path: Path | None, access: Asked, progress: Progress | None) -> Session:
        """Open a session that exists, in `path` if that is not in the store, or count one more opening. Call at its
        turn. A session that is only read becomes writable when somebody asks for that."""
        entry = self._entries.get(session_id)
        if entry is not None and path is not None and not _lies_in(entry, path):
            return await self.open(new_session_id(), path, access, progress)  # another one took the name meanwhile
        if entry is None:
            entry = self._entries[session_id] = await self._first(session_id, path, access, progress)
            return entry.session
        if access == "write" and entry.session.access == "readOnly":
            lease, opened = await self._files(session_id, entry.session.path, "write", progress)
            before, entry.lease = entry.lease, lease
            entry.session.adopt(opened)
            await before.aclose()
            await entry.session.companion.recover()
            entry.session.unreachable = self._problem()
            entry.session.emit(Event("accessChanged", entry.session.head, {"access": "owner"}))
        if entry.session.access == "owner" and entry.session.engine.recovery.modified:
            owner = listing.holder_of(entry.session.path).owner
            if owner is not None and owner["pid"] != os.getpid():
                await entry.session.reload()  # refused: what was put in its place is another process's
        entry.times += 1
        return entry.session

    async def join(self, session_id: str, path: Path) -> Session:
        """Count one more opening of the session in `path`; raises SessionNotOpenError where it is not open to be
        written to."""
        async with self.turn(session_id):  # it may be on its way
            entry = self._entries.get(session_id)
            if entry is None or entry.session.access != "owner" or not _lies_in(entry, path):
                raise SessionNotOpenError(f"this process does not own the session in {path}")
            entry.times += 1
            return entry.session

    async def shut(self, session_id: str) -> None:
        """Close a session, however often it was opened. Call at its turn."""
        entry = self._entries.pop(session_id)
        try:
            await entry.session.shut()
            if entry.check_later is not None:
                entry.check_later.cancel()
            if entry.check is not None:
                await asyncio.wait([entry.check])
            await entry.lease.aclose()
        finally:
            _open_directories.discard(entry.key)

    async def shut_all(self) -> None:
        """Close all sessions."""
        for session_id in list(self._entries):
            async with self.turn(session_id):
                if session_id in self._entries:
                    await self.shut(session_id)

    async def _first(self, session_id: str, path: Path | None, access: Asked, progress: Progress | None) -> _Entry:
        directory = path or self._home.locate(session_id)
        key = _identity(directory)
        if key in _open_directories:
            raise SessionLockedError(f"session {session_id} is open in another store of this process")
        lease, opened = await self._files(session_id, directory, access, progress)
        try:
            session = Session(session_id, directory, opened, self._around)
            if path is None:
                session.location = self._backing.location(session_id, directory)
            if opened.others is not None:
                await opened.engine.catch_up()  # what opening completed is for all
            if session.access == "owner":
                await session.companion.recover()
        except BaseException:
            await lease.aclose()
            raise
        _open_directories.add(key)
        if session.access == "owner":
            session.unreachable = self._problem()
        entry = _Entry(session, lease, key)
        entry.check_later = asyncio.get_running_loop().call_later(_CHECK_AFTER_SECONDS, _check, entry)
        return entry

    async def _files(
        self, session_id: str, path: Path, access: Asked, progress: Progress | None
    ) -> tuple[Lease, Files]:
        """Open what a session works on."""
        # A session that is opened by its path lies in a directory, wherever those of the store are.
        backing = self._backing if path.parent == self._home.sessions else self._in_place
        own = access == "write" or backing.open_engine is not None
        meta = Meta(path, "owner" if own else "readOnly")
        lease = await share(
            path / LOG_NAME,
            access="write" if own else "read",
            durability=self._durability,
            lock="hold",
            notes=meta,
            progress=progress,
            endpoint=self._endpoint() if own else None,
            open_engine=backing.open_engine,
        )
        if own and session_files.may_hold_leftovers(path):
            await asyncio.to_thread(session_files.remove_leftovers, path)
        trusted = self._home.contains(path) is not None
        approvals = self._approvals.standing(session_id, meta, StateFile(path), trusted=trusted)
        return lease, Files(lease.engine, meta, approvals, backing.others(session_id))

    def _fork_points(self, session_id: str) -> set[str]:
        self._backing.fetch_all()
        return listing.fork_points(self._home, session_id)

    def _problem(self) -> str | None:
        """Why other processes cannot reach this one, if it was meant to be reached."""
        problem = (self._endpoint() or {}).get("problem")
        return str(problem) if problem is not None else None

    def _entry_of(self, transactions: SessionTransactions) -> _Entry | None:
        entry = self._entries.get(transactions.session_id)
        return entry if entry is not None and entry.session.transactions is transactions else None

    def _moved_away(self, transactions: SessionTransactions) -> bool:
        """True if a session of the store itself is gone; one moved elsewhere may be on a file system that is gone for now."""
        entry = self._entry_of(transactions)
        if entry is None or transactions.path.parent != self._home.sessions:
            return False
        try:
            there = status(transactions.path)
            if there is None:
                return status(self._home.sessions) is not None
            trashed = (status(path) for _, _, path in self._home.trashed())
            return there.identity != entry.key and any(found and found.identity == entry.key for found in trashed)
        except (OSError, StorageFailureError):
            return False  # who knows

    async def _release(self, transactions: SessionTransactions) -> None:
        """Undo one opening of a session."""
        async with self.turn(transactions.session_id):
            entry = self._entry_of(transactions)
            if entry is not None:
                entry.times -= 1
                if entry.times == 0:
                    await self.shut(transactions.session_id)


def _check(entry: _Entry) -> None:
    entry.check = asyncio.get_running_loop().create_task(_check_in_background(entry.session, entry.lease.engine))


class _ClosingError(Exception):
    """The session is being closed."""


async def _check_in_background(session: Session, engine: LogEngine) -> None:
    """Look at what opening left unchecked, and warn of what is found damaged."""

    def go_on(_done: int, _total: int) -> None:
        # Called now and then by the thread that checks the log: closing does not wait for it.
        if session.transactions.closed:
            raise _ClosingError

    try:
        found = await engine.validate_in_background(go_on)
    except _ClosingError:
        return
    except (TimeleapError, OSError) as error:
        session.transactions.warn("notChecked", f"the log could not be checked: {error}")
        return
    for damaged in found:
        text = f"{damaged.message} (line {damaged.line} at byte {damaged.offset})"
        session.emit(Event(damaged.kind, session.head, {"kind": damaged.kind, "message": text}, WARNING))
    for problem in await asyncio.to_thread(lambda: list(line_problems(session.path, LARGE, least=SMALL))):
        session.transactions.warn(problem.kind, problem.message)


def _lies_in(entry: _Entry, path: Path) -> bool:
    """True if a session is the one in a directory, or what was put in its place and is ours."""
    return entry.key == _identity(path) or (path == entry.session.path and not entry.session.engine.recovery.modified)


def _identity(path: Path) -> Identity:
    """Device and inode of a directory: its identity under any path."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise SessionNotFoundError(f"there is no session in {path}", path=str(path)) from None
    return Identity(found.st_dev, found.st_ino)
