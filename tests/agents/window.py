"""A person with a window on the sessions of agents: looks at them, goes back, undoes that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.holding import PATIENCE

from timeleap_client import RawTimeleap


class Window:
    """Another process on the same store; a session is opened when it is first named."""

    def __init__(self, client: RawTimeleap) -> None:
        self.client = client
        self._open: set[str] = set()

    async def sessions(self, kind: str) -> list[dict[str, Any]]:
        """The sessions of a program, newest change first."""
        found: list[dict[str, Any]] = (await self.client.call("session/list", {"source": {"kind": kind}}))["sessions"]
        return found

    async def only(self, kind: str) -> str:
        """The id of the only session of a program."""
        (session,) = await self.sessions(kind)
        return str(session["sessionId"])

    async def call(self, method: str, session_id: str, **params: Any) -> Any:
        """A request on a session."""
        if session_id not in self._open:
            await self.client.call("session/open", {"sessionId": session_id, "create": False})
            self._open.add(session_id)
        return await self.client.call(method, {"sessionId": session_id, **params})

    async def texts(self, session_id: str) -> list[Any]:
        """What is shown of the messages."""
        history = await self.call("context/getHistory", session_id, limit=1000)
        return [entry["message"].get("content") for entry in history["messages"]]

    async def checkpoints(self, session_id: str) -> dict[str, str]:
        """The checkpoints by their labels, oldest first."""
        listed = await self.call("context/listCheckpoints", session_id, order="asc", limit=1000)
        return {checkpoint["label"]: checkpoint["uid"] for checkpoint in listed["checkpoints"]}

    async def revert(self, session_id: str, label: str) -> None:
        """Go back to before what a checkpoint is called after."""
        await self.call("context/revertTo", session_id, checkpointUid=(await self.checkpoints(session_id))[label])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what has to become true."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.05)
