"""What a client has open, so that it can be opened again on a new server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from timeleap_client.errors import TimeleapRpcError

Params = dict[str, Any]

_KEPT_PARAMS = ("path", "access", "attach")


@dataclass(slots=True)
class Opened:
    """A session that is open.

    Attributes:
        session_id: Its id.
        params: Of the `session/open` that opens it again.
        count: How many times it is open.
        again: How many times it has been opened again on the present server.
        refusal: Why it could not be opened again after the last restart; None if it could.
        head, access: As they were when it was opened again.
        turn: Who opens it again; requests on it wait for that.
    """

    session_id: str
    params: Params
    count: int = 0
    again: int = 0
    refusal: TimeleapRpcError | None = None
    head: str | None = None
    access: str | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class OpenSessions:
    """The open sessions of one client, counted as the server counts them."""

    def __init__(self) -> None:
        self._sessions: dict[str, Opened] = {}

    def __iter__(self) -> Iterator[Opened]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: object) -> Opened | None:
        """The session of that id, if it is open."""
        return self._sessions.get(session_id) if isinstance(session_id, str) else None

    def forget_openings(self) -> None:
        """There is a new server, which has nothing open."""
        for opened in self:
            opened.again = 0

    def standing(self) -> Params:
        """What was opened again, at which heads, and what could not be: the params of `$/reconnected`."""
        back = [
            {"sessionId": opened.session_id, "head": opened.head, "access": opened.access}
            for opened in self
            if opened.refusal is None
        ]
        refused = [
            {
                "sessionId": opened.session_id,
                "error": {"code": why.code, "message": why.message, "data": dict(why.data)},
            }
            for opened in self
            if (why := opened.refusal) is not None
        ]
        return {"sessions": back, "refused": refused}

    def note(self, method: str, params: Params, result: Any) -> None:
        """Take in that a request succeeded."""
        from timeleap_protocol.methods import REQUESTS

        row = REQUESTS.get(method)
        if row is None or row.opens is None:
            return
        if row.opens == "opens":
            if isinstance(result, dict):
                session_id = result["sessionId"]
                opened = self._sessions.setdefault(session_id, Opened(session_id, _reopening(session_id, params)))
                opened.count += 1
        elif (known := self.get(params.get("sessionId"))) is not None:
            known.count = known.count - 1 if row.opens == "closes" else 0
            if known.count <= 0:
                del self._sessions[known.session_id]


def _reopening(session_id: str, params: Params) -> Params:
    # The id goes with a path: a directory whose name is no id was given one, and is to have the same again.
    return {"sessionId": session_id, "create": False, **{name: params[name] for name in _KEPT_PARAMS if name in params}}
