"""A session that is open here to be read, and what its owner says about it.

What is read comes from disk: that works whatever becomes of the owner. But what has happened, and who did it, only the
owner can say. So a reader attaches to it, too, while there is one, and its notifications stand in for what could be
told from the changed files. They are passed on when this process sees what they tell of.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from timeleap.attach.handover import HandoverNote, note_of
from timeleap.attach.notified import NotifiedApprovals, as_here, read_change
from timeleap.attach.peer import PeerCallbacks, PeerLostError, attach, endpoint_of
from timeleap.rpc.errors import OwnersRefusalError
from timeleap.sessions.shapes import SESSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from timeleap.attach.peer import PeerConnection
    from timeleap.call import Client
    from timeleap.sessions.session import Session

log = logging.getLogger(__name__)

SOON = 0.02
"""Seconds until the second look for a new owner; doubled from one look to the next."""
PERIOD = 0.5
"""Seconds between two looks at most."""
AT_ONCE = 1.0
"""Seconds that opening a session waits for the first attempt."""


class SubscriberList(Protocol):
    """Clients that are told of changes of a session on disk (`timeleap.service.service.Subscribers`)."""

    def join(self, client: Client, notified: NotifiedApprovals | None = None) -> None: ...

    def leave(self, client: Client) -> None: ...


class Watcher:
    """A client's view of a session that is open to be read.

    `audience` tells the client what can be seen on disk, while there is no owner to be asked; `deleted` is called when
    the client was told that the session was deleted: what has its path by then is another one.
    """

    def __init__(self, session: Session, client: Client, audience: SubscriberList, deleted: Callable[[], None]) -> None:
        self._session = session
        self._client = client
        self._audience = audience
        self._deleted = deleted
        self._waiting: list[tuple[str, bytes]] = []
        self._notified = NotifiedApprovals()
        self._owners_id = ""
        self._told_deleted = False
        self._relay: asyncio.Task[None] | None = None
        self._peer: PeerConnection | None = None
        self._lost: asyncio.Future[PeerLostError] | None = None
        self._run: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look for the owner; returns when it was found, or has not answered at once."""
        self._run = asyncio.get_running_loop().create_task(self._watch(first := asyncio.Event()))
        try:
            async with asyncio.timeout(AT_ONCE):
                await first.wait()
        except TimeoutError:
            log.info("the owner of a session that is read has not answered yet")

    @property
    def has_owner(self) -> bool:
        """True while there is an owner, whose notifications the client gets."""
        return self._peer is not None

    async def ask(self, method: str) -> Any | None:
        """The owner's answer to a request about the session; None if there is no owner."""
        peer, lost = self._peer, self._lost
        if peer is None or lost is None:
            return None
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        peer.send(method, {"sessionId": self._owners_id}, answer)
        await asyncio.wait({answer, lost}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None

    def close(self) -> None:
        """Watch no more."""
        for task in (self._run, self._relay):
            if task is not None:
                task.cancel()
        if self._peer is not None:
            self._peer.close()
        if self._lost is not None:
            self._lost.cancel()  # nobody is to wait for an answer that cannot come

    async def _watch(self, first: asyncio.Event) -> None:
        pause = SOON
        while True:
            try:
                await self._attach()
            except (PeerLostError, OwnersRefusalError, OSError) as error:
                log.info("no owner to be heard: %s", error)
            else:
                first.set()
                await self._heard_out()
                pause = SOON
            first.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, PERIOD)

    async def _attach(self) -> None:
        if self._session.access == "owner":
            raise PeerLostError("it is this process")
        endpoint = await asyncio.to_thread(endpoint_of, self._session.path)
        self._lost = lost = asyncio.get_running_loop().create_future()
        callbacks = PeerCallbacks(self._hear, self._refuse, partial(tell_lost, lost))
        params = HandoverNote(approvals=self._notified.known).put_into({"access": "readOnly"})
        peer, state = await attach(endpoint, self._session.path, self._client, callbacks, params)
        try:
            self._owners_id = state["sessionId"]
            await self._session.catch_up()
            self._notified.tell_ends(self._client, self._session.session_id, note_of(state).ended_approvals)
        except BaseException:
            peer.close()
            raise
        self._peer = peer

    async def _heard_out(self) -> None:
        """Let the owner do the talking until it is gone."""
        assert self._lost is not None
        self._audience.leave(self._client)
        try:
            await self._lost
        finally:
            if self._relay is not None:
                await self._relay
            self._peer = None
            self._audience.join(self._client, self._notified)
        if self._session.deleted and not self._told_deleted:  # seen on disk; the owner did not get to say it
            head, session_id = self._session.head, self._session.session_id
            self._client.notify(SESSION, {"sessionId": session_id, "head": head, "kind": "deleted", "cause": {}})
            self._deleted()
        await self._session.catch_up()

    def _hear(self, method: str, params: bytes) -> None:
        self._waiting.append((method, params))
        if self._relay is None or self._relay.done():
            self._relay = asyncio.get_running_loop().create_task(self._pass_on())

    async def _pass_on(self) -> None:
        while self._waiting:
            heard, self._waiting = self._waiting, []
            await self._session.catch_up()
            for method, params in heard:
                if not self._notified.passes(method, params):
                    continue
                change = read_change(params)
                self._client.notify(method, as_here(params, change.session_id, self._session.session_id))
                if method == SESSION and change.kind == "deleted":
                    self._told_deleted = True
                    self._deleted()

    async def _refuse(self, method: str, _: dict[str, Any]) -> Any:
        raise PeerLostError(f"a reader serves no {method}")


def tell_lost(lost: asyncio.Future[PeerLostError], why: PeerLostError) -> None:
    """Tell the one that waits for it that the owner is gone, unless it was cancelled: its session is closed."""
    if not lost.done():
        lost.set_result(why)
