"""The order of one connection's requests on one session (G6).

Most requests go straight to the session's own queue and need no more. But some first do something that takes time
before they reach it, or decide whether the session is there at all: opening, closing, deleting, compacting. Requests
that arrive behind such a one wait until it is done, so that a client may send them all at once. Those that leave the log
alone do not wait for one that waits for somebody else (a compaction for its summary): they see the present state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

HOLDS_UP = frozenset(
    {
        "session/open",
        "session/close",
        "session/fork",
        "session/import",
        "session/archive",
        "session/unarchive",
        "session/delete",
        "session/undelete",
        "session/purge",
        "session/reload",
        "session/repair",
        "context/compact",
    }
)
"""Methods that what arrives later on the same session waits for."""


CHANGES_TRASH = frozenset({"session/delete", "session/undelete", "session/purge"})
"""Methods that wait for a purge of the trash as a whole, and that one waits for them."""

WHOLE_TRASH = ""
"""In the place of a session id: all that lies in the trash, and is on its way there or back."""


SHIELDS_ITSELF = frozenset({"context/compact", "session/import"})
"""Changes that can be cancelled after they have begun, as long as nothing is written: they wait for others first."""


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of `work`, which is not cancelled with its caller: what has begun is finished, and answered with its result."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


class RequestOrder:
    """Which sessions of one connection are held up, and by what."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}
        self._elsewhere: set[str] = set()  # sessions held up by what waits for somebody else
        self._readers: dict[str, asyncio.Future[None]] = {}  # done when that begins
        self._in_trash: set[asyncio.Future[None]] = set()  # what changes the trash, or waits to do so
        self._reading: dict[str, list[asyncio.Future[None]]] = {}  # who waits in `turn_to_read`; done when it goes on

    def held_up(self, session_id: str) -> bool:
        """Whether something has to be waited for."""
        return session_id in self._last

    @contextlib.contextmanager
    def waiting_elsewhere(self, session_id: str) -> Iterator[None]:
        """What holds the session up waits for somebody else during the block: those that leave the log alone go ahead."""
        self._elsewhere.add(session_id)
        if (readers := self._readers.pop(session_id, None)) is not None:
            readers.set_result(None)
        try:
            yield
        finally:
            self._elsewhere.discard(session_id)

    async def turn_to_read(self, session_id: str) -> None:
        """As `turn`, but does not wait for who waits for somebody else. Those who take this turn keep their order."""
        ahead = list(self._reading.get(session_id, []))
        if session_id in self._elsewhere and not ahead:
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading.setdefault(session_id, []).append(mine)
        try:
            if session_id in self._elsewhere:  # those ahead are being woken
                await asyncio.wait(ahead)
            else:
                signal = self._readers.setdefault(session_id, asyncio.get_running_loop().create_future())
                async with self.holding_up([session_id], unless=signal):
                    pass
                if session_id not in self._last:
                    self._readers.pop(session_id, None)
        finally:
            self._go_on(session_id, mine)

    async def turn(self, session_id: str) -> None:
        """Return when what holds the session up now is done, and those who waited before have had their turn.

        Who waits holds up those who come later until it goes on: being woken takes a few turns of the loop, in which
        a request that finds nobody in its way would overtake it.
        """
        async with self.holding_up([session_id]):
            pass

    @contextlib.asynccontextmanager
    async def holding_up(
        self, session_ids: Iterable[str], *, unless: asyncio.Future[None] | None = None, in_trash: bool = False
    ) -> AsyncIterator[None]:
        """Take the turn, or go on when `unless` is done, and hold up what arrives later until the end of the block.

        Args:
            session_ids: What is held up; `WHOLE_TRASH` for all that changes the trash.
            unless: Goes on when that is done.
            in_trash: Changes the trash: waits for what is about all of it.
        """
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        names = list(session_ids)
        ahead = {self._last[name] for name in names if name in self._last}
        if WHOLE_TRASH in names:
            ahead |= self._in_trash
        elif in_trash and (whole := self._last.get(WHOLE_TRASH)) is not None:
            ahead.add(whole)
        if in_trash:
            self._in_trash.add(mine)
        self._last.update(dict.fromkeys(names, mine))
        try:
            for turn in ahead:
                if unless is None:
                    await asyncio.shield(turn)
                else:
                    await asyncio.wait({turn, unless}, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            left = [turn for turn in ahead if not turn.done()]
            if left:  # cancelled while it waited, or read: those behind it still wait for what was ahead
                asyncio.gather(*left).add_done_callback(lambda _: self._finish(names, mine))
            else:
                self._finish(names, mine)

    def hold_up_for_now(self, session_id: str) -> None:
        """Let what begins now go first: of those requests that have come, but have not begun, none overtakes it."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        if session_id not in self._last:
            self._last[session_id] = mine
            loop.call_soon(self._finish, [session_id], mine)
        elif session_id in self._elsewhere:
            self._reading.setdefault(session_id, []).append(mine)
            loop.call_soon(self._go_on, session_id, mine)

    def _go_on(self, session_id: str, mine: asyncio.Future[None]) -> None:
        mine.set_result(None)
        reading = self._reading[session_id]
        reading.remove(mine)
        if not reading:
            del self._reading[session_id]

    def _finish(self, names: list[str], mine: asyncio.Future[None]) -> None:
        mine.set_result(None)
        self._in_trash.discard(mine)
        for name in names:
            if self._last.get(name) is mine:
                del self._last[name]
