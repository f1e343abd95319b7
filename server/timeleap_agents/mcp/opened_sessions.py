"""The sessions of the store as the tools get at them: which one is meant, open to be read, and for a moment to be changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final

from timeleap.json_value import Json
from timeleap_agents.mcp import methods
from timeleap_agents.mcp.secret_masks import SecretMask
from timeleap_agents.mcp.tool_results import ToolFailureError
from timeleap_client import RECONNECTED, Notification, RawTimeleap, canonical_folder_uri

MAX_OPEN: Final = 32
"""Sessions that are open at a time, those that somebody watches left out; the one used longest ago is closed for another."""
MAX_IN_WORKSPACE: Final = 10_000
"""Sessions of a workspace that a search looks at; the newest."""
_PAGE: Final = 1000


class OpenedSessions:
    """The sessions that this process works on, and the only way to the server.

    Args:
        make_client: Makes a client: one that reads, and one that changes. Each is started at its first call and runs until
            `close`.
        callable_methods: What may be called, and nothing else.
        session_id: The session that is meant where none is named; alone it may be changed.
        workspace: Where no session is given: the newest of this folder is meant, or else of no folder, and such may be changed.
        mask: Masks secrets.
    """

    def __init__(
        self,
        make_client: Callable[[], RawTimeleap],
        callable_methods: frozenset[str],
        session_id: str | None,
        workspace: Path,
        mask: SecretMask,
    ) -> None:
        self.session_id = session_id
        self.workspace = canonical_folder_uri(workspace.as_uri())
        self._mask = mask
        self._make_client = make_client
        self._callable = callable_methods
        self._reader: RawTimeleap | None = None
        self._writer: RawTimeleap | None = None
        self._starting = asyncio.Lock()
        self._change_turn = asyncio.Lock()
        self._turns: OrderedDict[str, asyncio.Lock] = OrderedDict()
        self._open: OrderedDict[str, None] = OrderedDict()
        self._used: Counter[str] = Counter()
        self._listeners: list[Callable[[Notification], object]] = []

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a request; params that are None are not sent.

        Raises:
            PermissionError: The method is none of those that this process may call.
            TimeleapClientError: The server refused, or cannot be reached.
        """
        return await self._ask(await self._read_client(), method, params)

    async def change(self, method: str, **params: Any) -> Any:
        """The result of a request on the session that is open to be changed (`changing`); errors are those of `call`."""
        return await self._ask(await self._write_client(), method, params)

    async def _ask(self, client: RawTimeleap, method: str, params: Json) -> Any:
        if method not in self._callable:
            raise PermissionError(f"{method} is not offered")
        return await client.call(method, {name: value for name, value in params.items() if value is not None})

    async def masked(self, value: Any) -> Any:
        """A text or JSON value with its secrets masked."""
        return await asyncio.to_thread(self._mask.masked, value)

    async def masked_excerpt(self, excerpt: str, whole: Any) -> str:
        """A piece of the text of a message, without the secrets that the whole message has."""
        return await asyncio.to_thread(lambda: self._mask.masked_excerpt(excerpt, self._mask.secrets(whole)))

    async def meant(self, named: str | None) -> str:
        """The id of the session that a tool is about.

        Raises:
            ToolFailureError: None was named, and there is none in the workspace.
        """
        if (known := named or self.session_id) is not None:
            return known
        latest = (await self.call(methods.LATEST, workspace=self.workspace))["session"]
        if latest is None:  # as on the command line: the newest one that belongs to no folder
            listed = (await self.call(methods.LIST, limit=_PAGE))["sessions"]
            latest = next((info for info in listed if "workspace" not in info), None)
        if latest is None:
            raise ToolFailureError(
                "noSession", "This folder has no session: name one; search_history with scope all finds them."
            )
        return str(latest["sessionId"])

    async def in_workspace(self) -> list[Json]:
        """The sessions of the workspace, newest change first."""
        found: list[Json] = []
        cursor: str | None = None
        while len(found) < MAX_IN_WORKSPACE:
            page = await self.call(methods.LIST, workspace=self.workspace, limit=_PAGE, cursor=cursor)
            found += page["sessions"]
            if (cursor := page.get("nextCursor")) is None:
                break
        return found

    @contextlib.asynccontextmanager
    async def reading(self, session_id: str) -> AsyncGenerator[str]:
        """Hold a session open to be read, which takes no lock; yields its id.

        Raises:
            TimeleapClientError: It cannot be opened.
        """
        self._used[session_id] += 1
        try:
            async with self._turn(session_id):
                if session_id not in self._open:
                    await self.call(methods.OPEN, sessionId=session_id, create=False, access="readOnly")
                self._open[session_id] = None
                self._open.move_to_end(session_id)
            yield session_id
        finally:
            self._used[session_id] -= 1
            self._used += Counter()  # without the names that are used no more
            await self._close_unused()

    @contextlib.asynccontextmanager
    async def changing(self, session_id: str) -> AsyncGenerator[str]:
        """Open a session to be changed, through its owner where another process is that, and close it again.

        Raises:
            ToolFailureError: It is not one that may be changed.
            TimeleapClientError: It cannot be opened.
        """
        async with self._change_turn:
            state = await self.change(methods.OPEN, sessionId=session_id, create=False)
            try:
                if self.session_id not in (None, session_id):
                    raise ToolFailureError("notAllowed", f"Only session {self.session_id} may be changed.")
                if self.session_id is None and state.get("workspace", self.workspace) != self.workspace:
                    raise ToolFailureError("notAllowed", f"Only sessions of {self.workspace} may be changed.")
                if state["access"] == "readOnly":
                    raise ToolFailureError("readOnly", "The session can only be read at present; call again later.")
                yield session_id
            finally:
                await self.change(methods.CLOSE, sessionId=session_id)

    def listen(self, listener: Callable[[Notification], object]) -> None:
        """Have a function called with every notification, `$/reconnected` as well."""
        self._listeners.append(listener)

    async def close(self) -> None:
        """End the servers, if there are any."""
        for client in (self._reader, self._writer):
            if client is not None:
                await client.aclose()

    async def _read_client(self) -> RawTimeleap:
        async with self._starting:
            if self._reader is None:
                client = await self._make_client().start()
                for method in ("context/didChange", "session/didChange", "files/didSnapshot", RECONNECTED):
                    client.on(self._tell, method)
                self._reader = client
            return self._reader

    async def _write_client(self) -> RawTimeleap:
        # A connection of its own: on the reader's the session would have to be closed first, under tools that read it.
        async with self._starting:
            if self._writer is None:
                self._writer = await self._make_client().start()
            return self._writer

    def _tell(self, notification: Notification) -> None:
        for listener in self._listeners:
            listener(notification)

    def _turn(self, session_id: str) -> asyncio.Lock:
        return self._turns.setdefault(session_id, asyncio.Lock())

    async def _close_unused(self) -> None:
        idle = [session_id for session_id in self._open if not self._used[session_id]]
        for session_id in idle[: max(0, len(self._open) - MAX_OPEN)]:
            async with self._turn(session_id):
                if not self._used[session_id] and session_id in self._open:
                    del self._open[session_id]
                    await self.call(methods.CLOSE, sessionId=session_id)
        for session_id in [each for each in self._turns if each not in self._open and not self._used[each]]:
            if not self._turns[session_id].locked():
                del self._turns[session_id]
