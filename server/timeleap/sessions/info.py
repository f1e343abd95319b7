"""Information about a session for a list, read without opening it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.sessions import session_files
from timeleap.sessions.meta import Meta
from timeleap.sessions.outcomes import Owner, SessionInfo
from timeleap.sessions.statefile import StateFile
from timeleap.storage.durable import list_directory
from timeleap.storage.engine import LogState
from timeleap.storage.lock import OwnerRecord, SessionLock
from timeleap.storage.log_files import state_of

LOG_NAME = session_files.LOG


@dataclass(frozen=True, slots=True)
class Glance:
    """Sort and filter fields of a session in a list, from two small files and the times of three.

    Attributes:
        changed: Nanoseconds since 1970 of the last change.
    """

    session_id: str
    path: Path
    changed: int
    title: str | None
    archived: bool
    workspace: str | None


def last_change(path: Path) -> float:
    """Seconds since 1970 of the last change of a session's log or state; of its directory if it has neither."""
    return last_change_ns(path) / 1e9


def last_change_ns(path: Path) -> int:
    """The same in nanoseconds."""
    found = []
    for name in (LOG_NAME, session_files.STATE, session_files.META):
        try:
            found.append(os.lstat(path / name).st_mtime_ns)
        except OSError:
            continue
    return max(found) if found else os.lstat(path).st_mtime_ns


def glance(session_id: str, path: Path) -> Glance:
    """Look at a session.

    Raises:
        OSError: Its directory cannot be looked into.
    """
    list_directory(path)
    state = StateFile(path).read()
    return Glance(
        session_id=session_id,
        path=path,
        changed=last_change_ns(path),
        title=state.title,
        archived=state.archived,
        workspace=Meta(path, "readOnly").workspace,
    )


def read_info(seen: Glance, deleted_at: str | None = None) -> SessionInfo:
    """All that a list shows of a session; what is damaged is said, never raised."""
    meta = Meta(seen.path, "readOnly")
    log = seen.path / LOG_NAME
    damaged: str | None = None
    state = LogState()
    try:
        # The index knows the counts; without one the log is scanned, which a list of very old sessions can afford once.
        state = state_of(log)
    except OSError as error:
        damaged = str(error)
    return SessionInfo(
        session_id=seen.session_id,
        title=seen.title,
        path=seen.path,
        workspace=seen.workspace,
        created_at=created_at(seen.path, meta),
        updated_at=clock.iso(seen.changed / 1e9),
        archived=seen.archived,
        message_count=state.messages,
        token_count=state.token_count,
        parent=meta.parent,
        owner=owner_of(log) if deleted_at is None else None,
        damaged=damaged,
        deleted_at=deleted_at,
    )


def owner_of(log: Path) -> Owner | None:
    """The process that holds a session's lock, if any does."""
    lock = SessionLock(log)
    record = lock.holder().owner
    try:
        if record is None or not lock.taken():
            return None
    except StorageFailureError:
        return None  # a store that nobody can write to has no owners
    return Owner(record["pid"], record.get("host", ""), record.get("since", ""))


def holder_of(directory: Path) -> OwnerRecord:
    """The process that holds the lock of the session in `directory`, as the lock file names it; None if none does."""
    return SessionLock(directory / LOG_NAME).holder()


def created_at(path: Path, meta: Meta) -> str:
    """ISO-8601 UTC; of a session of the original the time of its directory."""
    return meta.created_at or clock.iso(_created(path))


def _created(path: Path) -> float:
    facts = os.lstat(path)
    return float(getattr(facts, "st_birthtime", facts.st_ctime))
