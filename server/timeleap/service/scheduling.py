"""The order of one connection's requests on one session (G6).

Most requests go straight to the session's own queue and need no more. But some first do something that takes time
before they reach it, or decide whether the session is there at all: opening, closing, deleting, compacting. Requests
that arrive behind such a one wait until it is done, so that a client may send them all at once. Those that leave the
log alone do not wait for one that waits for somebody else (a compaction for its summary): they see the present state.

A search through a million messages does not block other requests: it is a generator that pauses often, and is run in
a thread, a few milliseconds at a time. Between two slices the event loop has the interpreter for itself, and a request
that was cancelled stops. One slice runs at a time, whichever client asked: many searches share what one would take.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from timeleap.call import WorkControl, to_its_end
from timeleap.errors import OverloadedError, ReadOnlyError
from timeleap_protocol.methods import REQUESTS

if TYPE_CHECKING:
    from timeleap.call import Call, Client
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Access
    from timeleap_protocol.method import Method

T = TypeVar("T")


MAX_ASKING: Final = 256
"""Requests for approvals of one connection that may wait: far fewer than may be in flight, so that there is room."""


WHOLE_TRASH = ""
"""In the place of a session id: all that lies in the trash, and is on its way there or back."""


def refuse_change(session: Session, access: Access, call: Call, params: Any) -> None:
    """Refuse a change of what is open read-only, or of what another program writes: of that only files go back, and what the
    method table allows on mirrors."""
    allowed = REQUESTS[call.method].on_mirrors or getattr(params, "restore", None) == "files"
    mirrored = session.meta.mirrored and not allowed
    if (mirrored or access == "readOnly") and REQUESTS[call.method].writes(params):
        how = 'open read-only: close it and open it with access "write" to change it'
        if mirrored:
            how = f"a mirror: {_program(session)} writes it; fork it, or let that program go on with bridge/adopt"
        raise ReadOnlyError(f"session {session.session_id} is {how}", **({"reason": "mirrored"} if mirrored else {}))


def refuse_decision(row: Method, client: Client) -> None:
    """Refuse to switch approvals, or to answer a request for one, on a connection that said it only asks."""
    if row.decides and client.only_asks:
        message = (
            f"{row.name} decides about approvals, and this connection only asks for them (initializationOptions.approvals "
            'is "ask"): decide on another connection, such as in a terminal with `timeleap approvals --watch`'
        )
        raise ReadOnlyError(message, reason="onlyAsks")


def _program(session: Session) -> str:
    """The program that writes a mirror, and the file that it writes."""
    source = session.meta.source
    if source is None:
        return "another program"
    return f"{ascii(source.kind)[1:-1][:40]} ({source.path})"


async def until_cancelled(
    call: Call, work: Callable[[WorkControl], Coroutine[Any, Any, T]], hold_up: Callable[[], None] = lambda: None
) -> T:
    """The outcome of long work, which reports how far it is and is told when it is not wanted any more: then it stops
    where it can, and nothing was written; what it has done by then is answered with its result. `hold_up` keeps later
    requests from overtaking it before it has begun."""
    unwanted = threading.Event()

    def report(text: str, done: int, total: int | None) -> None:
        if call.progress is not None:
            call.progress(text, min(100, done * 100 // total) if total else None)

    task = asyncio.ensure_future(work(WorkControl(report, unwanted.is_set)))
    hold_up()
    try:
        return await to_its_end(task, unwanted.set)
    except Exception as error:
        if unwanted.is_set():
            raise asyncio.CancelledError from error
        raise


class RequestOrder:
    """Queues of the requests that block later requests on the same session of a connection."""

    def __init__(self) -> None:
        self.blocked: dict[str, asyncio.Future[None]] = {}  # sessions, and the end of the last request that blocks them
        self._elsewhere: set[str] = set()  # sessions held up by what waits for somebody else
        self._readers: dict[str, asyncio.Future[None]] = {}  # done when that begins
        self._in_trash: set[asyncio.Future[None]] = set()  # what changes the trash, or waits to do so
        self._reading: dict[str, list[asyncio.Future[None]]] = {}  # who waits in `turn_to_read`; done when it goes on
        self._asking = 0  # requests for approvals that wait

    @contextlib.contextmanager
    def waiting_elsewhere(self, session_id: str) -> Iterator[None]:
        """Let requests that leave the log alone pass during the block: the blocking request waits for another party."""
        self._elsewhere.add(session_id)
        readers = self._readers.pop(session_id, None)
        if readers is not None:
            readers.set_result(None)
        try:
            yield
        finally:
            self._elsewhere.discard(session_id)

    async def turn_to_read(self, session_id: str) -> None:
        """Wait for a turn to read, passing requests that wait for another party. Callers keep their order."""
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
                if session_id not in self.blocked:
                    self._readers.pop(session_id, None)
        finally:
            self._go_on(session_id, mine)

    async def turn(self, session_id: str) -> None:
        """Return when the request that blocks the session is done, and earlier waiters have had their turn.

        A waiter blocks later requests until it continues: being woken takes a few turns of the loop, in which a
        request that finds the session free would overtake it.
        """
        async with self.holding_up([session_id]):
            pass

    @contextlib.asynccontextmanager
    async def holding_up(
        self, session_ids: Iterable[str], *, unless: asyncio.Future[None] | None = None, in_trash: bool = False
    ) -> AsyncIterator[None]:
        """Wait for the turn, or until `unless` is done, and block later requests until the end of the block.

        Args:
            session_ids: Sessions to block; `WHOLE_TRASH` for all changes of the trash.
            unless: Ends the wait when it is done.
            in_trash: Changes the trash: waits for requests on the trash as a whole.
        """
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        names = list(session_ids)
        ahead = {self.blocked[name] for name in names if name in self.blocked}
        if WHOLE_TRASH in names:
            ahead |= self._in_trash
        elif in_trash and (whole := self.blocked.get(WHOLE_TRASH)) is not None:
            ahead.add(whole)
        if in_trash:
            self._in_trash.add(mine)
        self.blocked.update(dict.fromkeys(names, mine))
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

    @contextlib.contextmanager
    def asking(self, session_id: str) -> Iterator[None]:
        """A request for an approval is under way: it may take for ever, and not many may.

        What it does in the loop's next turn precedes all later requests on its connection.

        Raises:
            OverloadedError: Too many requests of this connection wait for decisions already.
        """
        if self._asking >= MAX_ASKING:
            raise OverloadedError(f"{MAX_ASKING} requests for approvals of this connection wait already")
        self._asking += 1
        self.hold_up(session_id)
        try:
            yield
        finally:
            self._asking -= 1

    def hold_up(self, session_id: str) -> None:
        """Let the current request go first: no request that has arrived, but has not begun, overtakes it."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        if session_id not in self.blocked:
            self.blocked[session_id] = mine
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
            if self.blocked.get(name) is mine:
                del self.blocked[name]
