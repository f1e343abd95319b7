"""The trash, looked after: what has lain in it for too long goes by itself."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from timeleap.errors import StorageFailureError
from timeleap.sessions.purge import PurgeOutcome, PurgeRequest, Trashed

if TYPE_CHECKING:
    from collections.abc import Callable

    from timeleap.service.views import Json
    from timeleap.sessions.store import SessionStore

log = logging.getLogger(__name__)

HOUR = 3600.0
MAX_TOLD = 20
"""Sessions removed for their age that clients are notified of separately."""


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
