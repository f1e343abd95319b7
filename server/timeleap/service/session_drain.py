"""Handover of a session: all other processes that have it open are disconnected, after all their requests are answered.

The last request of one of them notifies the others: a process disconnected earlier would miss it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timeleap.service.call import Client
    from timeleap.sessions.session import Session


class SessionDrain:
    """The sessions of this process that are being handed over, by their directories."""

    def __init__(self) -> None:
        self._under_way: dict[Path, asyncio.Future[None]] = {}

    async def drain(self, session: Session, visitors: Sequence[Client]) -> None:
        """Finish what `visitors` and our own client asked for, then end the connections of the visitors."""
        finished = self._under_way[session.path] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.gather(*(visitor.finish() for visitor in visitors))
            await session.at_turn(_nothing)
        finally:
            del self._under_way[session.path]
            finished.set_result(None)
        await asyncio.gather(*(visitor.end() for visitor in visitors))

    def under_way(self, session: Session) -> bool:
        """True if a session is being handed over."""
        return session.path in self._under_way

    async def wait(self, directories: Iterable[Path]) -> None:
        """Return when the processes that have one of these sessions open may go."""
        for finished in [self._under_way[path] for path in directories if path in self._under_way]:
            await asyncio.shield(finished)


def _nothing() -> None:
    """Placeholder: its turn comes when every earlier request is done."""
