"""The server behind a command: started as a child, asked over the wire, gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from timeleap.cli.arguments import LATEST
from timeleap.cli.terminal import Json, Progress, Terminal, UsageError
from timeleap_client.connection import Trace
from timeleap_client.loop import LoopThread
from timeleap_client.notifications import RECONNECTED, Notification, Subscription
from timeleap_client.raw import RawTimeleap
from timeleap_protocol.limits import SESSION_ID_PATTERN
from timeleap_protocol.methods import REQUESTS

_LOG_NAME = "context.jsonl"
_NO_LIMIT_WITHIN = 3600.0
"""Seconds without a sign of work after which even a long command gives up."""
_LONGEST_BURST = 1.0
_FIRST_ONLY = frozenset({"from", "to", "checkpointUid"})
"""Params of lists that say where the first page begins and ends; a cursor says it for the others."""


@dataclass(frozen=True, slots=True)
class Target:
    """A session as the user named it.

    Attributes:
        name: The user's words, for messages.
        identity: `sessionId` or `path`, as `session/open` takes it; empty: the newest session of this folder.
    """

    name: str
    identity: Json

    @classmethod
    def of(cls, name: str) -> Target:
        """From a session id, or a path to a session's directory or its `context.jsonl`.

        Raises:
            UsageError: It is neither.
        """
        if name == LATEST and not Path(_LOG_NAME).is_file():
            return cls(name, {})
        if re.fullmatch(SESSION_ID_PATTERN, name) and not (name == _LOG_NAME and Path(name).exists()):
            return cls(name, {"sessionId": name})
        path = Path(name).expanduser()
        if path.is_dir():
            return cls(name, {"path": str(path.absolute())})
        if path.name == _LOG_NAME and path.is_file():
            return cls(name, {"path": str(path.absolute().parent)})
        if path.is_file():
            raise UsageError(f"{name} is no session: give its directory, or the {_LOG_NAME} in it")
        if "/" in name or "\\" in name:
            raise UsageError(f"there is no session at {name}")
        # Not a valid id: the server says what an id looks like, in the same words everywhere.
        return cls(name, {"sessionId": name})


class Backend:
    """A running server, for callers that block. Shows a progress bar where work takes over a second."""

    def __init__(
        self, terminal: Terminal, trace: Trace | None = None, name: str = "timeleap-cli", patience: float = 0.0
    ) -> None:
        """Make it, not started yet.

        Args:
            terminal: The user's terminal.
            trace: Sees every message.
            name: Our client name in notifications and audits.
            patience: Seconds to go on where the owner of a session does not answer: a person would rather be told.
        """
        self._terminal = terminal
        self._loop = LoopThread()
        self.client = RawTimeleap(home=terminal.home, name=name, trace=trace, patience=patience)

    def start(self) -> None:
        """Start the server."""
        try:
            self._loop.run(self.client.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> int | None:
        """End the server in good order; returns its exit code."""
        try:
            return self._loop.run(self.client.aclose())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, params: Json | None = None, *, saying: str = "Working") -> Any:
        """The result of a request."""
        progress = Progress()
        row = REQUESTS.get(method)
        reports = row is not None and row.progress
        work = self.client.call(method, params, within=_NO_LIMIT_WITHIN, on_progress=progress.take if reports else None)
        return self._terminal.wait(self._loop.submit(work), progress, saying)

    def open_to_read(self, target: Target) -> OpenSession:
        """Open a session without taking its lock: reading never stands in an agent's way, and works while one runs."""
        return self._open(target, "readOnly")

    def open_to_write(self, target: Target, *, dry_run: bool = False) -> OpenSession:
        """Open a session that exists, to change it; or only to say what a change would do."""
        return self._open(target, "readOnly" if dry_run else "write")

    def pages(self, method: str, params: Json, member: str) -> Iterator[Json]:
        """The entries of a list, page by page."""
        for page in self.whole_pages(method, params, first_only=_FIRST_ONLY):
            yield from page[member]

    def whole_pages(
        self, method: str, params: Json, *, first_only: frozenset[str] = frozenset(), saying: str = "Working"
    ) -> Iterator[Json]:
        """The pages of a list as they are; those after the first are asked for without the params of `first_only`."""
        asked = dict(params)
        while True:
            page: Json = self.call(method, asked, saying=saying)
            yield page
            if "nextCursor" not in page:
                return
            asked = {name: value for name, value in params.items() if name not in first_only}
            asked["cursor"] = page["nextCursor"]

    def changes(self, session_id: str) -> Changes:
        """Subscribe to the notifications about a session; `$/reconnected` as well."""
        from timeleap_protocol.methods import SERVER_NOTIFICATIONS

        names = (*SERVER_NOTIFICATIONS, RECONNECTED)
        return Changes(self._loop, self.client.notifications(*names, session_id=session_id))

    def _open(self, target: Target, access: str) -> OpenSession:
        params = {**(target.identity or self._latest()), "create": False, "access": access}
        return OpenSession(self, self.call("session/open", params, saying="Opening"))

    def _latest(self) -> Json:
        """The newest session of this folder; where there is none, the newest one that belongs to no folder."""
        folder = Path.cwd()
        info = self.call("session/latest", {"workspace": folder.as_uri()})["session"]
        which = f"the newest session of {folder}"
        if info is None:
            sessions = self.pages("session/list", {"limit": 200}, "sessions")
            info = next((session for session in sessions if "workspace" not in session), None)
            which = "the newest session without a folder"
        if info is None:
            raise UsageError(
                f"no session was named, and {folder} has none. Usage: name a SESSION; timeleap sessions lists all"
            )
        self._terminal.notice(f"{info['sessionId']}: {which}", {"sessionId": info["sessionId"]})
        return {"sessionId": info["sessionId"]}


def read_state(terminal: Terminal, session: str, member: str) -> Json:
    """One member of a session's state, with the head."""
    with Backend(terminal) as backend:
        state: Json = backend.open_to_read(Target.of(session)).call("session/getState")
    return {"head": state["head"], member: state.get(member)}


def change_session(terminal: Terminal, session: str, method: str, **params: Any) -> Json:
    """The result of a method that changes a session; params that are None are sent, too."""
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session))
        result: Json = backend.call(method, {"sessionId": opened.id, **params})
    return result


class OpenSession:
    """A session that is open on the server behind a command."""

    def __init__(self, backend: Backend, state: Json) -> None:
        self.backend = backend
        self.state = state
        self.id: str = state["sessionId"]

    def call(self, method: str, *, saying: str = "Working", **params: Any) -> Json:
        """The result of a request on this session; params that are None are not sent."""
        given = {name: value for name, value in params.items() if value is not None}
        result: Json = self.backend.call(method, {"sessionId": self.id, **given}, saying=saying)
        return result

    def close(self) -> None:
        """Close it before the end of the command."""
        self.call("session/close")

    def pages(self, method: str, member: str, **params: Any) -> Iterator[Json]:
        """The entries of a list of this session; params that are None are not sent."""
        given = {name: value for name, value in params.items() if value is not None}
        return self.backend.pages(method, {"sessionId": self.id, **given}, member)


class Changes:
    """Notifications about a session, for callers that block."""

    def __init__(self, loop: LoopThread, subscription: Subscription) -> None:
        self._loop = loop
        self._subscription = subscription

    def __iter__(self) -> Iterator[Notification]:
        while (notification := self._loop.run(_next(self._subscription))) is not None:
            yield notification

    def bursts(self, pause: float) -> Iterator[Notification]:
        """The last of each burst: of notifications with less than `pause` seconds between them, a second at most."""
        while (notification := self._loop.run(_last(self._subscription, pause))) is not None:
            yield notification


async def _next(notifications: Subscription) -> Notification | None:
    return await anext(notifications, None)


async def _last(notifications: Subscription, pause: float) -> Notification | None:
    latest = await anext(notifications, None)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_BURST):
            while latest is not None:
                following = await asyncio.wait_for(anext(notifications, None), pause)
                if following is None:
                    break
                latest = following
    return latest
