"""The trash of a store: what was deleted, brought back, or removed for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from timeleap.errors import StorageFailureError
from timeleap.json_value import Json
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.shapes import Mutation, SessionPage
from timeleap.sessions.transaction import NOBODY
from timeleap.storage.durable import failpoint
from timeleap.store import listing
from timeleap.store.backing import SessionBacking
from timeleap.store.home import Trashed, trash_name
from timeleap.store.purging import PurgeOutcome, PurgeRequest, TrashParts, answered

log = logging.getLogger(__name__)

HOUR = 3600.0
MAX_TOLD = 20
"""Sessions removed for their age that clients are notified of separately."""


class Trash:
    """The trash of a store."""

    def __init__(self, parts: TrashParts, backing: SessionBacking) -> None:
        self._home, self._ledger, self._approvals, self._turn = parts.home, parts.ledger, parts.approvals, parts.turn
        self._backing, self._purge = backing, backing.purge(parts)

    async def page(self, *, cursor: str | None = None, limit: int = 50) -> SessionPage:
        """A page of deleted sessions, last deleted first."""
        return await asyncio.to_thread(listing.list_trash, self._home, cursor, limit, self._backing)

    def take(self, session_id: str, path: Path, guard: Mutation) -> None:
        """Move a session here that is closed, and whose lock is held. Blocking."""
        uid, name = Meta(path, "readOnly").uid, trash_name(session_id)
        self._approvals.begin_delete(session_id, name, uid)
        self._backing.fetch_all()
        with self._noted_move(name, guard):
            self._backing.to_trash(session_id, name, guard.cause)
            failpoint("store.trashed")
            self._approvals.retire(session_id, name, uid)

    async def undelete(self, session_id: str, guard: Mutation = NOBODY) -> bool:
        """Bring the session of that id back that was deleted last; returns False where the request is a repeat.

        Raises:
            SessionNotFoundError: There is none in the trash.
            SessionExistsError: The id is taken by now.
        """
        async with self._turn(session_id):
            moved = await asyncio.to_thread(self._ledger.moved, guard)
            if moved is not None:
                await asyncio.to_thread(self._revive, session_id, moved)  # a crash may have come in between
                return False
            await asyncio.to_thread(self._give_back, session_id, guard)
        return True

    async def plan_purge(self, request: PurgeRequest) -> PurgeOutcome:
        """A dry run of `purge`. Raises SessionNotFoundError: There is nothing of that id in the trash."""
        return PurgeOutcome(tuple(await asyncio.to_thread(self._purge.plan, request)))

    async def purge(self, request: PurgeRequest, guard: Mutation = NOBODY) -> PurgeOutcome:
        """Remove sessions for good, and finish what a crash cut short.

        Raises:
            SessionNotFoundError: There is nothing of that id in the trash.
            SessionLockedError: Another process is using one of that id; the others are gone.
            StorageFailureError: Some of it may be done; it is finished by asking again.
        """
        noted = await asyncio.to_thread(self._ledger.purge, guard)
        if noted is not None and "purged" in noted:
            return PurgeOutcome(answered(request, noted["purged"]), duplicate=True)
        return await self._purge.carry_out(request, guard, noted)

    async def finish_purges(self) -> None:
        """Finish what a crash cut short of a purge, or of a deletion."""
        await self._purge.finish()

    def _give_back(self, session_id: str, guard: Mutation) -> None:
        self._backing.fetch_all()
        name = self._home.newest_trashed(session_id)
        with self._noted_move(name, guard):
            self._backing.from_trash(session_id, name, guard.cause)
            self._revive(session_id, name)

    def _revive(self, session_id: str, name: str) -> None:
        with suppress(StorageFailureError):  # where it cannot be noted, the approvals stay off
            self._approvals.revive(session_id, name)

    @contextmanager
    def _noted_move(self, name: str, guard: Mutation) -> Iterator[None]:
        self._ledger.note(guard, {"trash": name})
        yield
        failpoint("store.moved")
        self._ledger.note(guard, {"trash": name, "done": True})


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
