"""session/purge and session/listAudit: deletion for good, by request and by age; audit of approvals and removals."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.service import cursors
from timeleap.service.mutation import guard
from timeleap.sessions import shapes
from timeleap.sessions.audit import Audit
from timeleap.sessions.purge import PurgeOutcome, PurgeRequest, Trashed
from timeleap_protocol.limits import DEFAULT_PAGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.store import SessionStore
    from timeleap_protocol.trash import SessionListAuditParams, SessionPurgeParams

log = logging.getLogger(__name__)

HOUR = 3600.0
MAX_TOLD = 20
"""Sessions removed for their age that clients are notified of separately."""
_TEXTS = frozenset(("time", "who", "requestId", "field", "approvalId", "action", "description", "toolCallId", "reason"))
IN_USE = "another process is using it"


async def purge(service: Service, params: SessionPurgeParams, call: Call) -> Json:
    """Remove sessions from the trash for good."""
    if params.deleted_at is not None and params.session_id is None:
        text = "goes with sessionId"
        raise InvalidInputError(f"deletedAt: {text}", errors=[{"loc": ["deletedAt"], "msg": text, "type": "choice"}])
    request = PurgeRequest(params.session_id, params.deleted_at, params.older_than or 0)
    if params.dry_run:
        return _purged(await service.store.plan_purge(request))
    return _purged(await service.store.purge(request, guard(params, call)))


def _purged(outcome: PurgeOutcome) -> Json:
    kept = [
        {"sessionId": session.session_id, "deletedAt": session.deleted_at, "reason": IN_USE} for session in outcome.kept
    ]
    return {
        "purged": [
            {"sessionId": session.session_id, "deletedAt": session.deleted_at, "bytes": session.bytes}
            for session in outcome.purged
        ],
        "bytes": sum(session.bytes for session in outcome.purged),
        **shapes.set_members(kept=kept or None, duplicate=outcome.duplicate or None),
    }


@dataclass(frozen=True, slots=True)
class _Before:
    """Where a page of the audit ends: at this entry, counted from the oldest."""

    stop: Annotated[int, msgspec.Meta(ge=0)]


async def list_audit(service: Service, params: SessionListAuditParams, call: Call) -> Json:
    """Entries of a session's audit, newest first."""
    if held := service.if_held(call, params.session_id):
        await held.session.catch_its_turn()
        directory = held.session.path
    else:
        directory = service.store.locate(params.session_id)
    stop = cursors.decode_as(params.cursor, call.method, _Before).stop if params.cursor is not None else None
    entries, start = await asyncio.to_thread(_audit, directory, stop, params.limit or DEFAULT_PAGE)
    return {
        "entries": entries,
        **shapes.set_members(nextCursor=cursors.encode(call.method, stop=start) if start else None),
    }


def _audit(directory: Path, stop: int | None, limit: int) -> tuple[list[Json], int]:
    """The newest entries before `stop`, and where the page before them ends."""
    every = Audit(directory).read().documents
    stop = len(every) if stop is None else min(stop, len(every))
    start = max(0, stop - limit)
    return [_entry(entry) for entry in reversed(every[start:stop])], start


def _entry(line: Json) -> Json:
    """An entry in wire form; members of another form than ours, since the file was edited, are left out."""
    shown = {"client" if name == "who" else name: value for name, value in line.items() if _fits(name, value)}
    return {**shown, "from": line.get("from"), "to": line.get("to")}


def _fits(name: str, value: Any) -> bool:
    return isinstance(value, bool) if name == "automatic" else name in _TEXTS and isinstance(value, str)


class TrashKeeper:
    """Removes what has lain in the trash for too long, when a server starts and every hour; and says so.

    Args:
        store: The store.
        max_age: Seconds after which a deleted session is removed; None: never.
        tell: Sends a notification to every client.
    """

    def __init__(self, store: SessionStore, max_age: int | None, tell: Callable[[str, Json], None]) -> None:
        self._store = store
        self._max_age = max_age
        self._tell = tell
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def aclose(self) -> None:
        """Stop; a removal that is under way is finished by the next server."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._store.finish_purges()
                if self._max_age is not None:
                    self._report(await self._store.purge(PurgeRequest(older_than=self._max_age)))
            except StorageFailureError as error:
                log.warning("cannot remove what is old from the trash: %s", error)
            await asyncio.sleep(HOUR)

    def _report(self, outcome: PurgeOutcome) -> None:
        if not outcome.purged:
            return
        size = sum(session.bytes for session in outcome.purged)
        log.warning("removed %d sessions (%d bytes) from the trash for good: trash.maxAge", len(outcome.purged), size)
        for session in outcome.purged[:MAX_TOLD]:
            self._tell("session/warning", _told(session))


def _told(session: Trashed) -> dict[str, Any]:
    message = (
        f"the session was deleted at {session.deleted_at} and is now removed from the trash for good "
        f"({session.bytes} bytes): it was older than trash.maxAge"
    )
    return {"sessionId": session.session_id, "kind": "trashPurged", "message": message}
