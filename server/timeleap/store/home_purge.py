"""Removal for good of sessions that are kept in the home.

A directory is moved out of the trash in one step; from then on nothing brings it back. Then what the store noted of the
session is taken out of `requests.jsonl`, then the directory is removed. What a crash leaves lies in `staging` under a
name that says so, and is finished by the next purge and by the next start of a server.

What remains: that request ids of deletions were used, without the ids themselves, else a repeat would delete a
namesake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from msgspec.structs import replace

from timeleap.errors import SessionLockedError, StorageFailureError, TimeleapError
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.shapes import Mutation
from timeleap.storage.durable import failpoint
from timeleap.storage.owner_lock import SessionLock
from timeleap.store import purging
from timeleap.store.home import UNTOUCHED_SECONDS, Trashed
from timeleap.store.purging import PurgeOutcome, PurgeRequest, TrashParts, answered, note_answer, noted_sessions


class HomePurge:
    """Removes sessions from the trash of a home (`timeleap.store.backing.Purge`)."""

    def __init__(self, parts: TrashParts) -> None:
        self._parts = parts

    def plan(self, request: PurgeRequest) -> list[Trashed]:
        found = purging.in_trash(self._parts.home, request)
        if not found and request.session_id is not None:
            raise request.not_found()
        return found

    async def carry_out(self, request: PurgeRequest, guard: Mutation, noted: Mapping[str, Any] | None) -> PurgeOutcome:
        home, ledger = self._parts.home, self._parts.ledger
        late: list[Trashed] = []
        with suppress(StorageFailureError):  # raised below, when what is asked for is done
            late = await asyncio.to_thread(self._finish)
        await asyncio.to_thread(home.sweep, untouched=UNTOUCHED_SECONDS)
        found = await asyncio.to_thread(purging.in_trash, home, request)
        if noted is not None:  # it was begun before a crash: what was deleted since then is not meant
            names = {session.name for session in answered(request, noted.get("purging"))}
            found = [session for session in found if session.name in names]
        else:
            found = [*(session for session in late if request.selects(session)), *found]
            if not found and request.session_id is not None:
                raise request.not_found()
            await asyncio.to_thread(ledger.note, guard, {"purging": noted_sessions(request, found)})
        taken = {session.name: await self._condemn(session) for session in found if session not in late}
        kept = [session for session in found if taken.get(session.name) == "inUse"]
        found = [session for session in found if taken.get(session.name) != "gone"]
        ended = await asyncio.to_thread(self._finish)
        remain = {session.name for session in (*late, *ended) if session.remains}
        found = [replace(session, remains=session.name in remain) for session in found]
        gone = tuple(session for session in found if session not in kept)
        if noted is not None:  # also what went before the crash, but nothing that was undeleted since then
            noted = await asyncio.to_thread(ledger.purge, guard) or {}
            gone = answered(request, noted.get("purging"), gone=True)
        if request.session_id is not None and noted is None and not (gone or kept):
            raise request.not_found()  # another process was quicker
        if kept and request.session_id is not None:
            raise SessionLockedError(f"session {request.session_id} in the trash is in use by another process")
        await asyncio.to_thread(note_answer, ledger, request, guard, gone)
        return PurgeOutcome(gone, tuple(kept))

    async def finish(self) -> None:
        with suppress(StorageFailureError):  # it counts as done while the directory is in the trash
            await asyncio.to_thread(self._parts.approvals.finish_deletes)
        await asyncio.to_thread(self._finish)

    def _finish(self) -> list[Trashed]:
        """Remove what was moved out of the trash, by this process or by one that a crash ended, and the snapshots of
        its files; says what. Blocking.

        Raises:
            StorageFailureError: Some of it is still there; the next one finishes it.
        """
        home = self._parts.home
        found = home.condemned()
        if not found:
            return []
        present = {*home.names(), *(session_id for session_id, _, _ in home.trashed())}
        self._parts.ledger.forget_purged(
            {session.name for _, session in found},
            {session.session_id for _, session in found} - present,
            {(session.session_id, made_by) for name, session in found if (made_by := home.made_by(name)) is not None},
        )
        with suppress(StorageFailureError):  # what is noted there counts no more in any case
            self._parts.approvals.forget({session.name for _, session in found})
        failpoint("purge.noted")
        failed: StorageFailureError | None = None
        gone, companions = list[Trashed](), self._parts.find_companions()
        for name, session in found:
            try:
                # While the directory is there: it says what is the session's.
                remain = companions is not None and not companions.forget(home, home.condemned_path(name))
                failpoint("purge.files_forgotten")
                home.remove_condemned(name)
            except StorageFailureError as error:
                failed = error  # the others are to go all the same
            except TimeleapError as error:
                text = f"the snapshots of {session.session_id} are still there: {error}; purge again"
                failed = StorageFailureError(text)
            else:
                gone.append(replace(session, remains=remain))
            failpoint("purge.removed")
        if failed is not None:
            raise failed
        return gone

    async def _condemn(self, trashed: Trashed) -> Literal["condemned", "inUse", "gone"]:
        """Take a session out of the trash, unless another process is using it, or has taken it out itself."""
        async with self._parts.turn(trashed.session_id):
            lock = SessionLock(self._parts.home.trash / trashed.name / LOG_NAME)
            try:
                with suppress(StorageFailureError):  # where no lock can be made, nobody has one
                    await lock.acquire("hold", wait=0)
                moved = await asyncio.to_thread(self._parts.home.condemn, trashed.name)
                failpoint("purge.moved")
                return "condemned" if moved else "gone"
            except SessionLockedError:
                return "inUse"
            finally:
                lock.release()
