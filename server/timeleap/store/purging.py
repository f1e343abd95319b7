"""Removal of sessions from the trash for good: what is asked for, what is noted of it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import SessionNotFoundError, StorageFailureError
from timeleap.sessions.documents.session_files import list_files
from timeleap.sessions.shapes import Mutation
from timeleap.store.approvals_port import StoreApprovals
from timeleap.store.companions_port import FindCompanions
from timeleap.store.home import Home, Trashed, check_session_id
from timeleap.store.store_requests import MAX_ANSWERED, Ledger


class PurgeRequest(Struct, frozen=True):
    """Sessions to remove from the trash: those of one id, or those deleted long ago.

    Attributes:
        session_id: The id; None: `older_than` counts.
        deleted_at: ISO-8601; of the sessions of that id only the one that was deleted then.
        older_than: Seconds since the deletion; 0 is everything.
    """

    session_id: str | None = None
    deleted_at: str | None = None
    older_than: int = 0

    def selects(self, trashed: Trashed) -> bool:
        if self.session_id is None:
            age = clock.now() - datetime.fromisoformat(trashed.deleted_at).timestamp()
            return self.older_than == 0 or age >= self.older_than
        if trashed.session_id != self.session_id:
            return False
        if self.deleted_at is None or trashed.deleted_at == self.deleted_at:
            return True
        try:
            time = datetime.fromisoformat(self.deleted_at)
        except ValueError:
            return False
        return time.tzinfo is not None and clock.iso(time.timestamp()) == trashed.deleted_at  # ours have milliseconds

    def not_found(self) -> SessionNotFoundError:
        when = "" if self.deleted_at is None else f" that was deleted at {self.deleted_at[:40]}"
        message = f"there is no session {self.session_id} in the trash{when}"
        return SessionNotFoundError(message, sessionId=self.session_id)


class PurgeOutcome(Struct, frozen=True):
    """Sessions that were removed, or would be, and those that stay, since another process is using them."""

    purged: tuple[Trashed, ...]
    kept: tuple[Trashed, ...] = ()
    duplicate: bool = False


class TrashParts(Struct, frozen=True):
    """Parts of a store that a purge works on.

    Attributes:
        home: The store's directory.
        ledger: What its requests have done.
        approvals: Notes of the sessions' approvals.
        find_companions: Finds what goes along with sessions.
        turn: By session id: the turn of what moves sessions.
    """

    home: Home
    ledger: Ledger
    approvals: StoreApprovals
    find_companions: FindCompanions
    turn: Callable[[str], AbstractAsyncContextManager[None]]


def in_trash(home: Home, request: PurgeRequest) -> list[Trashed]:
    """The sessions a request would remove, newest first; with sizes. Blocking.

    Raises:
        InvalidSessionIdError: The id cannot be one.
        StorageFailureError: The trash cannot be read, or is a link.
    """
    if request.session_id is not None:
        check_session_id(request.session_id)
    home.refuse_linked_trash()
    every = (Trashed(session_id, deleted_at, path.name) for session_id, deleted_at, path in home.trashed())
    found = [session for session in every if request.selects(session)]
    return [replace(session, bytes=_size(home.trash / session.name)) for session in found]


def _size(path: Path) -> int:
    try:
        return sum(file.bytes for file in list_files(path))
    except StorageFailureError:
        return 0  # what cannot be looked into is to go, too


def noted_sessions(request: PurgeRequest, found: Iterable[Trashed]) -> list[dict[str, Any]]:
    """The notes of sessions that a request removes: without their id, if the request names it."""
    named = request.session_id is not None
    members = ("session_id", "deleted_at", "name", "bytes")
    return [
        {**{name: getattr(session, name) for name in members}, **({"session_id": ""} if named else {})}
        for session in found
    ]


def answered(request: PurgeRequest, noted: Any, *, gone: bool = False) -> tuple[Trashed, ...]:
    """The sessions that a noted request was about, or of these those that are gone; what is no such note has none."""
    found: list[Trashed] = []
    for entry in noted if isinstance(noted, list) else ():
        match entry:
            case {"session_id": str(name), "deleted_at": str(time), "name": str(directory), "bytes": int(size)} if (
                not gone or entry.get("gone") is True
            ):
                found.append(Trashed(request.session_id or name, time, directory, size))
            case _:
                continue
    return tuple(found)


def note_answer(ledger: Ledger, request: PurgeRequest, guard: Mutation, gone: Sequence[Trashed]) -> None:
    """Note what a request is answered with; without the names in the trash, if it names the session."""
    answer = gone[:MAX_ANSWERED]
    if request.session_id is not None:
        answer = [replace(session, name="") for session in answer]
    ledger.note_purged(guard, {"purged": noted_sessions(request, answer)})
