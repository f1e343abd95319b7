"""Sessions that are removed from the trash for good.

A directory is moved out of the trash in one step; from then on nothing brings it back. Then what the store noted of the
session is taken out of `requests.jsonl`, then the directory is removed. What a crash leaves lies in `staging` under a
name that says so, and is finished by the next purge and by the next start of a server: `finish`.

What remains: that request ids of deletions were used, without the ids themselves, else a repeat would delete a namesake.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.failpoints import failpoint
from timeleap.sessions.home import Home, check_session_id
from timeleap.sessions.seal import KeyRing
from timeleap.sessions.session_files import list_files
from timeleap.sessions.store_requests import Gone, Ledger


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """Sessions to remove from the trash: those of one id, or those deleted long ago.

    Attributes:
        session_id: The id; None: `older_than` counts.
        deleted_at: ISO-8601; of the sessions of that id only the one that was deleted then.
        older_than: Seconds since the deletion; 0 is everything.
    """

    session_id: str | None = None
    deleted_at: str | None = None
    older_than: int = 0


@dataclass(frozen=True, slots=True)
class Trashed:
    """One session in the trash.

    Attributes:
        name: Of its directory there.
    """

    session_id: str
    deleted_at: str
    name: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class PurgeOutcome:
    """Sessions that were removed, or would be.

    Attributes:
        kept: Sessions that stay, since another process is using them.
    """

    purged: tuple[Trashed, ...]
    kept: tuple[Trashed, ...] = ()
    duplicate: bool = False


def matching(trashed: Trashed, request: PurgeRequest) -> bool:
    """True if the request selects that session."""
    if request.session_id is None:
        age = clock.now() - datetime.fromisoformat(trashed.deleted_at).timestamp()
        return request.older_than == 0 or age >= request.older_than
    if trashed.session_id != request.session_id:
        return False
    return request.deleted_at is None or same_time(trashed.deleted_at, request.deleted_at)


def same_time(ours: str, given: str) -> bool:
    """True if a text means one of our times, which have milliseconds."""
    if given == ours:
        return True
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        return False
    return time.tzinfo is not None and clock.iso(time.timestamp()) == ours


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
    return [replace(session, bytes=_size(home, session.name)) for session in every if matching(session, request)]


def condemn(home: Home, trashed: Trashed) -> bool:
    """Move a session out of the trash, in one step. Hold its lock. Blocking.

    Returns:
        False where it is not there any more.

    Raises:
        StorageFailureError: It is where it was.
    """
    moved = home.condemn(trashed.name)
    failpoint("purge.moved")
    return moved


def finish(home: Home, ledger: Ledger, keys: KeyRing) -> list[Trashed]:
    """Remove what was moved out of the trash, by this process or by one that a crash ended; says what. Blocking.

    Raises:
        StorageFailureError: Some of it is still there; the next one finishes it.
    """
    condemned = home.condemned()
    if not condemned:
        return []
    found = [(name, Trashed(session_id, deleted_at, trashed)) for name, trashed, session_id, deleted_at in condemned]
    present = {*home.names(), *(session_id for session_id, _, _ in home.trashed())}
    ledger.forget_purged(
        [
            Gone(session.session_id, session.name, home.made_by(name), session.session_id not in present)
            for name, session in found
        ]
    )
    with suppress(StorageFailureError):  # what is noted there counts no more in any case
        keys.forget({session.name for _, session in found})
    failpoint("purge.noted")
    done: list[Trashed] = []
    failed: StorageFailureError | None = None
    for name, session in found:
        try:
            home.remove_condemned(name)
            done.append(session)
        except StorageFailureError as error:
            failed = error  # the others are to go all the same
        failpoint("purge.removed")
    if failed is not None:
        raise failed
    return done


def _size(home: Home, name: str) -> int:
    try:
        return sum(file.bytes for file in list_files(home.trash / name))
    except StorageFailureError:
        return 0  # what cannot be looked into is to go, too
