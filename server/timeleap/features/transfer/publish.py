"""Giving a session that was built aside its place in the store, once for each request id (G8)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from timeleap.sessions import creation
from timeleap.sessions.names import check_session_id
from timeleap.sessions.outcomes import Mutation
from timeleap.sessions.store import OpenedSession, SessionStore
from timeleap.sessions.store_requests import Ledger


class Admission:
    """One request to make a session.

    Args:
        store: Where it is to be.
        guard: The request.
    """

    def __init__(self, store: SessionStore, guard: Mutation) -> None:
        self._store = store
        self.guard = guard
        self._ledger = Ledger(store.home)
        self._announced: str | None = None

    async def repeated(self) -> OpenedSession | None:
        """The session that this very request has made before, opened; None where it is new, or made nothing.

        Raises:
            InvalidInputError: The request id was used for another session.
        """
        announced, exists = await asyncio.to_thread(self._ledger.making, self.guard)
        self._announced = announced
        if exists and announced is not None:
            return replace(await self._store.open(announced, create=False), duplicate=True)
        return None

    def session_id(self, wanted: str | None) -> str:
        """The id the session is to have: `wanted`, or a new one. Blocking.

        Raises:
            InvalidSessionIdError, SessionExistsError: It cannot be had.
        """
        chosen = self._announced if wanted is None else check_session_id(wanted)
        return creation.free_id(self._store.home, chosen)

    async def put_in_place(self, directory: Path, session_id: str) -> OpenedSession:
        """Give what was built in `directory` (see `Home.building`) its place, durably and in one step, and open it.

        Raises:
            SessionExistsError: Somebody has taken the id meanwhile.
            StorageFailureError: It could not be moved.
        """
        await asyncio.to_thread(self._publish, directory, session_id)
        return await self._store.open_made(session_id)

    def _publish(self, directory: Path, session_id: str) -> None:
        self._ledger.note(self.guard, {"sessionId": session_id})
        self._store.publish(directory, session_id)
