"""The trash of a store: what was deleted, brought back, or removed for good.

To purge, a directory is moved out of the trash in one step; from then on nothing brings it back. Then what the store noted of the
session is taken out of `requests.jsonl`, then the directory is removed. What a crash leaves lies in `staging` under a
name that says so, and is finished by the next purge and by the next start of a server: `_finish`.

What remains: that request ids of deletions were used, without the ids themselves, else a repeat would delete a
namesake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, json
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import SessionLockedError, SessionNotFoundError, StorageFailureError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME, list_files
from timeleap.sessions.shapes import Cause, Mutation, SessionPage
from timeleap.sessions.transaction import NOBODY
from timeleap.storage.durable import failpoint
from timeleap.storage.owner_lock import SessionLock
from timeleap.store import listing
from timeleap.store.approvals_port import StoreApprovals
from timeleap.store.backing import SharedStore
from timeleap.store.files_port import FindSnapshots
from timeleap.store.home import UNTOUCHED_SECONDS, Home, Trashed, check_session_id, trash_name
from timeleap.store.open_sessions import Openings
from timeleap.store.store_requests import MAX_ANSWERED, Ledger

log = logging.getLogger(__name__)

HOUR = 3600.0
MAX_TOLD = 20
"""Sessions removed for their age that clients are notified of separately."""


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


class Trash:
    """The trash of a store.

    Args:
        home: The store's directory.
        openings: What is open of it in this process.
        ledger: What its requests have done.
        approvals: Notes of the sessions' approvals.
        find_snapshots: The snapshots of files.
        shared: Where the sessions are, if not in that directory.
    """

    def __init__(
        self,
        home: Home,
        openings: Openings,
        ledger: Ledger,
        approvals: StoreApprovals,
        find_snapshots: FindSnapshots,
        *,
        shared: SharedStore | None,
    ) -> None:
        self._home, self._openings, self._ledger, self._approvals = home, openings, ledger, approvals
        self._find_snapshots, self._shared = find_snapshots, shared

    async def page(self, *, cursor: str | None = None, limit: int = 50) -> SessionPage:
        """A page of deleted sessions, last deleted first."""
        return await asyncio.to_thread(listing.list_trash, self._home, cursor, limit, self._shared)

    def take(self, session_id: str, path: Path, guard: Mutation) -> None:
        """Move a session here that is closed, and whose lock is held. Blocking."""
        uid, name = Meta(path, "readOnly").uid, trash_name(session_id)
        if self._shared is None:
            self._approvals.announce_delete(session_id, name, uid)
        else:  # its seals are at home in no place
            self._shared.fetch_all()
        with self._noted_move(name, guard):
            self._move(self._home.to_trash, session_id, name, guard.cause)
            failpoint("store.trashed")
            if self._shared is None:
                self._approvals.retire(session_id, name, uid)

    async def undelete(self, session_id: str, guard: Mutation = NOBODY) -> bool:
        """Bring the session of that id back that was deleted last; returns False where the request is a repeat.

        Raises:
            SessionNotFoundError: There is none in the trash.
            SessionExistsError: The id is taken by now.
        """
        async with self._openings.turn(session_id):
            moved = await asyncio.to_thread(self._ledger.moved, guard)
            if moved is not None:
                await asyncio.to_thread(self._revive, session_id, moved)  # a crash may have come in between
                return False
            await asyncio.to_thread(self._give_back, session_id, guard)
        return True

    async def plan_purge(self, request: PurgeRequest) -> PurgeOutcome:
        """A dry run of `purge`. Raises SessionNotFoundError: There is nothing of that id in the trash."""
        return PurgeOutcome(tuple(await asyncio.to_thread(self._selected, request)))

    async def purge(self, request: PurgeRequest, guard: Mutation = NOBODY) -> PurgeOutcome:
        """Remove sessions for good, and finish what a crash cut short.

        Raises:
            SessionNotFoundError: There is nothing of that id in the trash.
            SessionLockedError: Another process is using one of that id; the others are gone.
            StorageFailureError: Some of it may be done; it is finished by asking again.
        """
        home, ledger = self._home, self._ledger
        noted = await asyncio.to_thread(ledger.purge, guard)
        if noted is not None and "purged" in noted:
            return PurgeOutcome(_answered(request, noted["purged"]), duplicate=True)
        if self._shared is not None:
            return await asyncio.to_thread(self._purge_shared, self._shared, request, guard, noted)
        late: list[Trashed] = []
        with suppress(StorageFailureError):  # raised below, when what is asked for is done
            late = await asyncio.to_thread(self._finish)
        await asyncio.to_thread(home.sweep, untouched=UNTOUCHED_SECONDS)
        found = await asyncio.to_thread(in_trash, home, request)
        if noted is not None:  # it was begun before a crash: what was deleted since then is not meant
            names = {session.name for session in _answered(request, noted.get("purging"))}
            found = [session for session in found if session.name in names]
        else:
            found = [*(session for session in late if request.selects(session)), *found]
            if not found and request.session_id is not None:
                raise request.not_found()
            await asyncio.to_thread(ledger.note, guard, {"purging": _noted(request, found)})
        taken = {session.name: await self._condemn(session) for session in found if session not in late}
        kept = [session for session in found if taken.get(session.name) == "inUse"]
        found = [session for session in found if taken.get(session.name) != "gone"]
        ended = await asyncio.to_thread(self._finish)
        remain = {session.name for session in (*late, *ended) if session.files_remain}
        found = [replace(session, files_remain=session.name in remain) for session in found]
        gone = tuple(session for session in found if session not in kept)
        if noted is not None:  # also what went before the crash, but nothing that was undeleted since then
            noted = await asyncio.to_thread(ledger.purge, guard) or {}
            gone = _answered(request, noted.get("purging"), gone=True)
        if request.session_id is not None and noted is None and not (gone or kept):
            raise request.not_found()  # another process was quicker
        if kept and request.session_id is not None:
            raise SessionLockedError(f"session {request.session_id} in the trash is in use by another process")
        await asyncio.to_thread(self._note_answer, request, guard, gone)
        return PurgeOutcome(gone, tuple(kept))

    def _purge_shared(
        self, shared: SharedStore, request: PurgeRequest, guard: Mutation, noted: Mapping[str, Any] | None
    ) -> PurgeOutcome:
        """Remove sessions of a shared store from the trash, in one step, also if they are in use; `noted` where the
        request was cut short. Blocking."""
        home, ledger = self._home, self._ledger
        if noted is None:
            found = self._selected(request)
            ledger.note(guard, {"purging": _noted(request, found)})
        else:  # what was deleted since then is not meant
            found = list(_answered(request, noted.get("purging")))
        made_by = {session: Meta(home.trash / session.name, "readOnly").get("createdBy") for session in found}
        gone = shared.remove({session.name for session in found})
        left = {*home.names(), *(session_id for session_id, _, path in home.trashed() if path.name not in gone)}
        ledger.forget_purged(
            gone,
            {session.session_id for session in found if session.name in gone} - left,
            {(session.session_id, str(made["r"])) for session, made in made_by.items() if made is not None},
        )
        if noted is None:
            found = [session for session in found if session.name in gone]
        self._note_answer(request, guard, found)
        return PurgeOutcome(tuple(found))

    def _selected(self, request: PurgeRequest) -> list[Trashed]:
        """The sessions a request would remove, newest first; with sizes. Blocking. Raises SessionNotFoundError: There
        is nothing of that id in the trash."""
        if (shared := self._shared) is not None:
            shared.fetch_all()
        found = in_trash(self._home, request)
        if not found and request.session_id is not None:
            raise request.not_found()
        if shared is None:
            return found
        sizes = shared.sizes()
        return [replace(session, bytes=sum(size for _, size in sizes.get(session.name, ()))) for session in found]

    def _note_answer(self, request: PurgeRequest, guard: Mutation, gone: Sequence[Trashed]) -> None:
        """Note what a request is answered with; without the names in the trash, if it names the session."""
        answer = gone[:MAX_ANSWERED]
        if request.session_id is not None:
            answer = [replace(session, name="") for session in answer]
        self._ledger.note_purged(guard, {"purged": _noted(request, answer)})

    async def finish_purges(self) -> None:
        """Finish what a crash cut short of a purge, or of a deletion."""
        if self._shared is not None:
            return  # a transaction is not cut short
        with suppress(StorageFailureError):  # it counts as done while the directory is in the trash
            await asyncio.to_thread(self._approvals.finish_deletes)
        await asyncio.to_thread(self._finish)

    def _finish(self) -> list[Trashed]:
        """Remove what was moved out of the trash, by this process or by one that a crash ended, and the snapshots of
        its files; says what. Blocking.

        Raises:
            StorageFailureError: Some of it is still there; the next one finishes it.
        """
        home = self._home
        found = home.condemned()
        if not found:
            return []
        present = {*home.names(), *(session_id for session_id, _, _ in home.trashed())}
        self._ledger.forget_purged(
            {session.name for _, session in found},
            {session.session_id for _, session in found} - present,
            {(session.session_id, made_by) for name, session in found if (made_by := home.made_by(name)) is not None},
        )
        with suppress(StorageFailureError):  # what is noted there counts no more in any case
            self._approvals.forget({session.name for _, session in found})
        failpoint("purge.noted")
        failed: StorageFailureError | None = None
        gone, snapshots = list[Trashed](), self._find_snapshots()
        for name, session in found:
            try:
                # While the directory is there: it says which snapshots are the session's.
                remain = snapshots is not None and not snapshots.forget(home, home.condemned_path(name))
                failpoint("purge.files_forgotten")
                home.remove_condemned(name)
            except StorageFailureError as error:
                failed = error  # the others are to go all the same
            except TimeleapError as error:
                text = f"the snapshots of {session.session_id} are still there: {error}; purge again"
                failed = StorageFailureError(text)
            else:
                gone.append(replace(session, files_remain=remain))
            failpoint("purge.removed")
        if failed is not None:
            raise failed
        return gone

    async def _condemn(self, trashed: Trashed) -> Literal["condemned", "inUse", "gone"]:
        """Take a session out of the trash, unless another process is using it, or has taken it out itself."""
        async with self._openings.turn(trashed.session_id):
            lock = SessionLock(self._home.trash / trashed.name / LOG_NAME)
            try:
                with suppress(StorageFailureError):  # where no lock can be made, nobody has one
                    await lock.acquire("hold", wait=0)
                moved = await asyncio.to_thread(self._home.condemn, trashed.name)
                failpoint("purge.moved")
                return "condemned" if moved else "gone"
            except SessionLockedError:
                return "inUse"
            finally:
                lock.release()

    def _give_back(self, session_id: str, guard: Mutation) -> None:
        if self._shared is not None:
            self._shared.fetch_all()
        name = self._home.newest_trashed(session_id)
        with self._noted_move(name, guard):
            self._move(self._home.from_trash, session_id, name, guard.cause)
            self._revive(session_id, name)

    def _move(self, move: Callable[[str, str], None], session_id: str, name: str, cause: Cause) -> None:
        """Move a session to the trash or back, where it is called `name`."""
        if self._shared is None:
            move(session_id, name)
        elif move == self._home.to_trash:
            self._shared.move(session_id, name, json.encode(cause))
        else:
            self._shared.move(name, session_id, json.encode(cause))

    def _revive(self, session_id: str, name: str) -> None:
        with suppress(StorageFailureError):  # where it cannot be noted, the approvals stay off
            self._approvals.revive(session_id, name)

    @contextmanager
    def _noted_move(self, name: str, guard: Mutation) -> Iterator[None]:
        self._ledger.note(guard, {"trash": name})
        yield
        failpoint("store.moved")
        self._ledger.note(guard, {"trash": name, "done": True})


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


def _noted(request: PurgeRequest, found: Iterable[Trashed]) -> list[dict[str, Any]]:
    """The notes of sessions that a request removes: without their id, if the request names it."""
    named = request.session_id is not None
    members = ("session_id", "deleted_at", "name", "bytes")
    return [
        {**{name: getattr(session, name) for name in members}, **({"session_id": ""} if named else {})}
        for session in found
    ]


def _answered(request: PurgeRequest, noted: Any, *, gone: bool = False) -> tuple[Trashed, ...]:
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


async def keep_trash(trash: Trash, max_age: int | None, tell: Callable[[str, Json], None]) -> None:
    """Remove what has lain in the trash for more than `max_age` seconds (None: for ever), at once and every hour, and
    notify every client of it by `tell`. Cancelled, a removal that is under way is finished by the next server."""
    while True:
        try:
            await trash.finish_purges()
            if max_age is not None:
                _report((await trash.purge(PurgeRequest(older_than=max_age))).purged, tell)
        except StorageFailureError as error:
            log.warning("cannot remove what is old from the trash: %s", error)
        await asyncio.sleep(HOUR)


def _report(purged: Sequence[Trashed], tell: Callable[[str, Json], None]) -> None:
    if purged:
        size = sum(session.bytes for session in purged)
        log.warning("removed %d sessions (%d bytes) from the trash for good: trash.maxAge", len(purged), size)
    for session in purged[:MAX_TOLD]:
        message = (
            f"the session was deleted at {session.deleted_at} and is now removed from the trash for good "
            f"({session.bytes} bytes): it was older than trash.maxAge"
        )
        tell("session/warning", {"sessionId": session.session_id, "kind": "trashPurged", "message": message})
