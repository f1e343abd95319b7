"""The way to other processes, as the service sees it: the boundary to the protocol edge, as `call` is for clients.

A session has one owner, the process that holds its lock. The owner can be reached by other processes of the same user;
those reach it through a `Peer`. The protocol edge implements both sides (`timeleap.attach.listener`, `timeleap.attach.peer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from timeleap.call import Client, ReportProgress
    from timeleap.storage.lock import Endpoint


class PeerLostError(Exception):
    """The connection to an owner ended, or could not be made.

    Attributes:
        hung: The owner is there, but does not answer.
        hopeless: Trying again is in vain: it cannot be reached from here, or must not be.
    """

    def __init__(self, why: str, *, hung: bool = False, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hung = hung
        self.hopeless = hopeless


@dataclass(frozen=True, slots=True)
class PeerCallbacks:
    """Callbacks for unsolicited messages of an owner.

    Attributes:
        notified: Called with each notification: its method, and its params as JSON text.
        asked: Answers a request of the owner's.
        lost: Called once, when the connection is over without our having ended it.
    """

    notified: Callable[[str, bytes], None]
    asked: Callable[[str, dict[str, Any]], Awaitable[Any]]
    lost: Callable[[PeerLostError], None]


class Peer(Protocol):
    """A connection of ours to the owner of a session."""

    def send(
        self, method: str, params: Mapping[str, Any], answer: asyncio.Future[Any], progress: ReportProgress | None
    ) -> None:
        """Ask. Requests take effect in the order of the calls.

        Args:
            method: Its wire name.
            params: In wire names.
            answer: Gets the result, as JSON that is spliced into a reply as it is (`msgspec.Raw`), or
                OwnersRefusalError. It is left alone if the connection ends before: the caller may ask another owner.
            progress: Told how far the work is.
        """
        ...

    def forget(self, answer: asyncio.Future[Any]) -> None:
        """The answer is not wanted any more."""
        ...

    def take_back(self, answer: asyncio.Future[Any]) -> None:
        """The request is not wanted any more; its answer says whether it took effect all the same."""
        ...

    def pause(self) -> None:
        """Take in nothing more for now."""
        ...

    def resume(self) -> None:
        """Take in again."""
        ...

    def close(self) -> None:
        """End the connection; nothing more is heard."""
        ...


class Network(Protocol):
    """The way to other processes, and theirs to this one."""

    @property
    def endpoint(self) -> Endpoint | None:
        """How others reach this process, or why they cannot; None while it does not want to be reached."""
        ...

    async def listen(self) -> None:
        """Be reachable from now on, if that can be had; `endpoint` says."""
        ...

    def rest(self) -> None:
        """Be reachable no more; connections stay."""
        ...

    async def aclose(self) -> None:
        """Stop listening, and end the connections of attached processes."""
        ...

    async def connect(self, endpoint: Endpoint, client: Client, callbacks: PeerCallbacks) -> Peer:
        """Connect to another process on behalf of `client`.

        Raises:
            PeerLostError: It cannot be reached, does not answer, or turns us away.
            OwnersRefusalError: It speaks another version of the protocol.
        """
        ...
