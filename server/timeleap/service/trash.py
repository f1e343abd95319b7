"""The trash: what has lain in it for longer than the settings allow leaves it by itself."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from timeleap.errors import StorageFailureError
from timeleap.sessions.session_trash import PurgeRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timeleap.sessions.home import Trashed
    from timeleap.sessions.session_trash import Trash
    from timeleap.sessions.shapes import Json

log = logging.getLogger(__name__)

HOUR = 3600.0
MAX_TOLD = 20
"""Sessions removed for their age that clients are notified of separately."""


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
