"""Documents of an editor: the file that a URI names, and the session whose log it is."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from timeleap.call import Call
from timeleap.errors import ClientRequestError, TimeleapError
from timeleap.json_value import Json
from timeleap.rpc.codec import Pieces, decode, encode
from timeleap.service.service import Service
from timeleap.sessions.session import Session
from timeleap.storage.durable import is_regular
from timeleap_lsp.agent_files import AgentTranscript, recognised
from timeleap_lsp.methods_asked import CLOSE, OPEN
from timeleap_lsp.record_lines import LogTranscript
from timeleap_protocol.folder_uri import folder_of
from timeleap_protocol.method import Method

LOG: Final = re.compile(r"context(?:_[1-9][0-9]{0,17})?\.jsonl")
LIVE: Final = "context.jsonl"
MOST_OPEN: Final = 16
"""Sessions that are kept open for documents; beyond, the one that was asked for longest ago is closed."""


MOST_AGENT_FILES: Final = 4
"""Session files of agents whose lines are kept in mind."""


class Window:
    """A client of the service on behalf of an editor's documents (`timeleap.call.Client`).

    Args:
        heard: Takes each notification.
        name: The client's name in the log of the server and in changes.
    """

    can_summarize = False
    wants_approvals = False
    only_asks = True
    is_peer = False

    def __init__(self, heard: Callable[[str, Any], None], name: str | None, ending: asyncio.Future[None]) -> None:
        self.name = name
        self.ending = ending
        self._heard = heard

    def wants(self, method: str) -> bool:
        """True for the changes of a log."""
        return method.startswith(("context/", "session/"))

    def notify(self, method: str, params: Any) -> None:
        self._heard(method, params)

    async def request(self, method: str, params: dict[str, Any], **_: Any) -> Any:
        """Refuse: there is nobody behind it."""
        raise ClientRequestError("an editor's documents answer no requests", reason="refused")

    def watch_congestion(self, watcher: Callable[[bool], None]) -> Callable[[], None]:
        """Never congested."""
        return lambda: None

    async def finish(self) -> None: ...
    async def end(self) -> None: ...


class AgentFile(Struct):
    """A session file of an agent, which is only shown."""

    uri: str
    path: Path
    known: AgentTranscript

    def transcript(self) -> AgentTranscript:
        """Its lines as they were when the editor asked."""
        return self.known


class LogDocument(Struct):
    """The log of a session, or of one of its timelines.

    Attributes:
        timeline_id: None for the live log.
    """

    uri: str
    path: Path
    session: Session
    timeline_id: str | None

    def transcript(self) -> LogTranscript:
        """Its lines as they are now; blocking. Raises TimeleapError where they cannot be read."""
        engine = self.session.engine
        log = engine.view if self.timeline_id is None else engine.timeline(self.timeline_id)
        return LogTranscript(log)


class Documents:
    """Sessions that an editor looks at, opened to be read when the first document of each is asked for.

    Args:
        changed: Takes the directory of a session whose log was changed.
    """

    def __init__(
        self, service: Service, name: str | None, ending: asyncio.Future[None], changed: Callable[[Path], None]
    ):
        self._service = service
        self._window = Window(self._heard, name, ending)
        self._writer = Window(lambda _method, _params: None, name, ending)
        self._changed = changed
        self._sessions: dict[Path, str] = {}
        self._opening = asyncio.Lock()
        self._agents: dict[Path, AgentTranscript] = {}  # the newest is the last

    def _heard(self, _method: str, params: Any) -> None:
        # What an owner elsewhere tells is passed on as its bytes.
        told = params if isinstance(params, dict) else decode(encode(params))
        session_id = told.get("sessionId")
        for directory, known in list(self._sessions.items()):
            if known == session_id:
                self._changed(directory)

    async def agent_file(self, uri: str) -> AgentFile | None:
        """The session file of an agent that a URI names; None where it names none."""
        path = folder_of(uri)
        if path is None or LOG.fullmatch(path.name):
            return None
        return await asyncio.to_thread(self._agent_file, uri, path)

    def _agent_file(self, uri: str, path: Path) -> AgentFile | None:
        if not _readable(path):
            return None
        try:
            found, known = path.stat(), self._agents.get(path)
            if known is None or known.stamp != (found.st_ino, found.st_size, found.st_mtime_ns):
                if not recognised(path):
                    return None
                known = AgentTranscript(path)
        except OSError:
            return None
        self._agents.pop(path, None)
        self._agents[path] = known
        while len(self._agents) > MOST_AGENT_FILES:
            del self._agents[next(iter(self._agents))]
        return AgentFile(uri, path, known)

    async def find(self, uri: str) -> LogDocument | None:
        """The log that a URI names; None where that names none, or none that can be read."""
        path = folder_of(uri)
        if path is None or not LOG.fullmatch(path.name) or not await asyncio.to_thread(_readable, path):
            return None
        timeline_id = None if path.name == LIVE else path.stem
        try:
            session = await self._session(path.parent)
            return LogDocument(uri, path, session, timeline_id)
        except (TimeleapError, OSError):
            return None

    async def _session(self, directory: Path) -> Session:
        async with self._opening:
            session_id = self._sessions.pop(directory, None)
            held = self._service.opened(self._call(OPEN)).get(session_id or "")
            if held is None:
                state = await self.ask(OPEN, path=str(directory), access="readOnly", create=False)
                session_id = state["sessionId"]
                held = self._service.opened(self._call(OPEN))[session_id]
            assert session_id is not None
            self._sessions[directory] = session_id  # the newest is the last
            while len(self._sessions) > MOST_OPEN:
                await self._close(next(iter(self._sessions)))
            return held.session

    async def close(self, directory: Path) -> None:
        """Close the session of a document that the editor has closed."""
        async with self._opening:
            if directory in self._sessions:
                await self._close(directory)

    async def _close(self, directory: Path) -> None:
        session_id = self._sessions.pop(directory)
        with contextlib.suppress(TimeleapError):
            await self.ask(CLOSE, sessionId=session_id)

    def _call(self, row: Method, window: Window | None = None, params: Json | None = None) -> Call:
        return Call(window or self._window, row.name, None, params or {})

    async def ask(self, row: Method, **params: Any) -> Any:
        """Answer a request of the contract that only reads."""
        return await self._request(self._window, row, params)

    async def _request(self, window: Window, row: Method, params: Json) -> Any:
        read = row.read_params(params)
        result = await self._service.handle(row.name, read, self._call(row, window, params))
        pieces = result.pieces if isinstance(result, Pieces) else [encode(result)]
        return decode(b"".join(pieces))  # as a client gets it: records in it are bytes until then

    @contextlib.asynccontextmanager
    async def writing(self, directory: Path) -> AsyncIterator[tuple[str, Callable[..., Any]]]:
        """A session that is open to be changed, through its owner where another process is that: its id, and a function
        that answers requests on it."""
        opening: Json = {"path": str(directory), "access": "write", "create": False}
        state = await self._request(self._writer, OPEN, opening)
        session_id: str = state["sessionId"]

        async def ask(row: Method, **params: Any) -> Any:
            return await self._request(self._writer, row, {"sessionId": session_id, **params})

        try:
            yield session_id, ask
        finally:
            await self._request(self._writer, CLOSE, {"sessionId": session_id})


def _readable(path: Path) -> bool:
    """True for a regular file; nothing else is opened, for it might not answer."""
    try:
        return is_regular(path)
    except OSError:
        return False
