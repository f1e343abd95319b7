"""Connections of the service: the client of each, and the sessions that it has open or is attached to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from timeleap.service.scheduling import RequestOrder

if TYPE_CHECKING:
    from timeleap.attach.attachment import Attachment
    from timeleap.attach.watcher import Watcher
    from timeleap.call import Client
    from timeleap.sessions.participants import Answer
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Access


class OpenHandle(Struct):
    """A session as one connection has it open.

    Attributes:
        times: How often the connection has opened it and not closed it.
        watcher: Follows the log of a session that is only read here.
        waiting: Requests for approvals of the connection that wait for a decision.
    """

    session: Session
    access: Access
    times: int = 1
    watcher: Watcher | None = None
    waiting: list[Answer] = field(default_factory=list)


class ClientConnection(Struct):
    """A connection.

    Attributes:
        held: The sessions that it has open in this process, by id.
        attached: The sessions that other processes own, by id.
        order: Its requests that have not been answered.
    """

    client: Client
    held: dict[str, OpenHandle] = field(default_factory=dict)
    attached: dict[str, Attachment] = field(default_factory=dict)
    order: RequestOrder = field(default_factory=RequestOrder)
