"""Removal for good of sessions that a database keeps: one transaction, which is not cut short, also if they are in use."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.shapes import Mutation
from timeleap.store.home import Trashed
from timeleap.store.purging import (
    PurgeOutcome,
    PurgeRequest,
    TrashParts,
    answered,
    in_trash,
    note_answer,
    noted_sessions,
)


class TrashRows(Protocol):
    """Sessions of a database, as a purge asks for them. Blocking. All raise StorageFailureError."""

    def fetch_all(self) -> None: ...
    def sizes(self) -> dict[str, list[tuple[str, int]]]: ...
    def remove(self, names: Collection[str]) -> set[str]: ...


class DatabasePurge:
    """Removes sessions from the trash of a database (`timeleap.store.backing.Purge`)."""

    def __init__(self, store: TrashRows, parts: TrashParts) -> None:
        self._store, self._parts = store, parts

    def plan(self, request: PurgeRequest) -> list[Trashed]:
        self._store.fetch_all()
        found = in_trash(self._parts.home, request)
        if not found and request.session_id is not None:
            raise request.not_found()
        sizes = self._store.sizes()
        return [replace(session, bytes=sum(size for _, size in sizes.get(session.name, ()))) for session in found]

    async def carry_out(self, request: PurgeRequest, guard: Mutation, noted: Mapping[str, Any] | None) -> PurgeOutcome:
        return await asyncio.to_thread(self._carry_out, request, guard, noted)

    def _carry_out(self, request: PurgeRequest, guard: Mutation, noted: Mapping[str, Any] | None) -> PurgeOutcome:
        home, ledger = self._parts.home, self._parts.ledger
        if noted is None:
            found = self.plan(request)
            ledger.note(guard, {"purging": noted_sessions(request, found)})
        else:  # what was deleted since then is not meant
            found = list(answered(request, noted.get("purging")))
        made_by = {session: Meta(home.trash / session.name, "readOnly").get("createdBy") for session in found}
        gone = self._store.remove({session.name for session in found})
        left = {*home.names(), *(session_id for session_id, _, path in home.trashed() if path.name not in gone)}
        ledger.forget_purged(
            gone,
            {session.session_id for session in found if session.name in gone} - left,
            {(session.session_id, str(made["r"])) for session, made in made_by.items() if made is not None},
        )
        if noted is None:
            found = [session for session in found if session.name in gone]
        note_answer(ledger, request, guard, found)
        return PurgeOutcome(tuple(found))

    async def finish(self) -> None:
        """Nothing is ever cut short."""
