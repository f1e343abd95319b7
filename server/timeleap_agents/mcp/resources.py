"""Sessions, messages and checkpoints as resources, which can be subscribed to, and the two prompts."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from timeleap.json_value import Json
from timeleap_agents.mcp import methods
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.read_tools import line_of_checkpoint, messages_text
from timeleap_agents.mcp.tool_results import ToolFailureError, ToolResult, cut_once
from timeleap_client import Notification

TEMPLATES: Final = (
    ("session", "timeleap://session/{id}", "A conversation: its state and its newest messages."),
    ("message", "timeleap://session/{id}/message/{index}", "One message."),
    ("checkpoint", "timeleap://session/{id}/checkpoint/{uid}", "A checkpoint, and the messages right before it."),
)
_URI: Final = re.compile(
    r"timeleap://session/(?P<id>[A-Za-z0-9._-]{1,64})(?:/message/(?P<index>[0-9]{1,15})|/checkpoint/(?P<uid>[co]-?[0-9]+-[0-9a-f]+))?"
)
_LISTED: Final = 50
_NEWEST: Final = 10
"""Messages of a session, or before a checkpoint, that are shown."""
_MORE: Final = "There is more: read_messages has it."
_PAUSE: Final = 0.1
"""Seconds in which changes of a resource are told once."""
_APPENDED: Final = frozenset({"messagesAppended", "checkpointCreated", "tokenCountUpdated", "systemPromptSet"})
"""Changes of a log that leave its messages as they are."""

Tell = Callable[[str], Awaitable[None]]


class Resources:
    """The resources behind `timeleap://` addresses.

    Args:
        sessions: The sessions of the store.
    """

    def __init__(self, sessions: OpenedSessions) -> None:
        self._sessions = sessions
        self._watched: Counter[str] = Counter()
        self._held: dict[str, contextlib.AsyncExitStack] = {}
        self._opening = asyncio.Lock()
        self._changed: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._tell: dict[str, Tell] = {}
        sessions.listen(self._note)

    async def listed(self) -> list[tuple[str, str]]:
        """The addresses and titles of the newest sessions: that which is meant, or those of the workspace."""
        if (only := self._sessions.session_id) is not None:
            return [(f"timeleap://session/{only}", only)]
        infos = (await self._sessions.in_workspace())[:_LISTED]
        titles = await self._sessions.masked([info["title"] or info["sessionId"] for info in infos])
        return [(f"timeleap://session/{info['sessionId']}", title) for info, title in zip(infos, titles, strict=True)]

    async def read(self, uri: str) -> tuple[str, str]:
        """The text of a resource, and the session it is of.

        Raises:
            ToolFailureError: There is no such address.
            TimeleapClientError: There is no such session, or it cannot be read.
        """
        place = _place(uri)
        session_id = place["id"]
        if place["index"] is not None:
            index = int(place["index"])
            text = await messages_text(self._sessions, session_id, index, index + 1)
            if not text:
                raise ToolFailureError("notFound", f"Session {session_id} has no message {index}.")
        elif place["uid"] is not None:
            text = await self._checkpoint(session_id, place["uid"])
        else:
            text = await self._session(session_id)
        return cut_once(ToolResult(text, [session_id]), _MORE), session_id

    async def watch(self, uri: str, tell: Tell) -> None:
        """Have `tell` called with the address when the resource has changed.

        Raises:
            ToolFailureError: There is no such address.
            TimeleapClientError: The session cannot be opened.
        """
        session_id = _place(uri)["id"]
        async with self._opening:
            if session_id not in self._held:
                held = contextlib.AsyncExitStack()
                await held.enter_async_context(self._sessions.reading(session_id))
                self._held[session_id] = held
            self._watched[uri] += 1
        self._tell[uri] = tell

    async def unwatch(self, uri: str) -> None:
        """Undo one `watch`."""
        if self._watched[uri] <= 1:
            del self._watched[uri]
            self._tell.pop(uri, None)
            session_id = _place(uri)["id"]
            if not any(_place(other)["id"] == session_id for other in self._watched) and session_id in self._held:
                await self._held.pop(session_id).aclose()
        else:
            self._watched[uri] -= 1

    async def resume_prompt(self, checkpoint: str | None, session: str | None) -> tuple[str, str]:
        """The text of `resume-from-checkpoint`, and the session it is about."""
        session_id = await self._sessions.meant(session)
        uid = checkpoint or (await self._newest_checkpoint(session_id))["uid"]
        text = cut_once(ToolResult(await self._checkpoint(session_id, uid), [session_id]), _MORE)
        ask = f"Go on with the work of session {session_id} from checkpoint {uid}. What was said right before it:"
        return f"{ask}\n\n{text}\n\nread_messages and diff have more. Say first where the work stood.", session_id

    async def _newest_checkpoint(self, session_id: str) -> Json:
        async with self._sessions.reading(session_id):
            page = await self._sessions.call(methods.CHECKPOINTS, sessionId=session_id, order="desc", limit=1)
        if not page["checkpoints"]:
            raise ToolFailureError("checkpointNotFound", f"Session {session_id} has no checkpoint.")
        newest: Json = page["checkpoints"][0]
        return newest

    async def _session(self, session_id: str) -> str:
        state = await self._sessions.call(methods.STATE, sessionId=session_id)
        context = state["context"]
        lines = [f"session {session_id}"]
        if state["title"]:
            lines.append(f"title: {await self._sessions.masked(state['title'])}")
        lines += [f"{context['messageCount']} messages, {context['tokenCount']} tokens", "checkpoints:"]
        lines += map(line_of_checkpoint, await self._sessions.masked(context["checkpoints"][-_NEWEST:]))
        lines.append("newest messages:")
        end = context["messageCount"]
        return "\n".join([*lines, await messages_text(self._sessions, session_id, max(0, end - _NEWEST), end)])

    async def _checkpoint(self, session_id: str, uid: str) -> str:
        cursor: str | None = None
        async with self._sessions.reading(session_id):
            while True:
                page = await self._sessions.call(
                    methods.CHECKPOINTS, sessionId=session_id, order="desc", limit=1000, cursor=cursor
                )
                known = next((each for each in page["checkpoints"] if each["uid"] == uid), None)
                if known is not None or (cursor := page.get("nextCursor")) is None:
                    break
        if known is None:
            raise ToolFailureError("checkpointNotFound", f"Session {session_id} has no checkpoint {uid} (any more).")
        end = known["messageCount"]
        line = line_of_checkpoint(await self._sessions.masked(known))
        return "\n".join([line, await messages_text(self._sessions, session_id, max(0, end - _NEWEST), end)])

    def _note(self, notification: Notification) -> None:
        """Take in what changed; it is told a moment later, once for many changes."""
        changed = {uri for uri in self._watched if _concerns(notification, _place(uri))}
        if not changed:
            return
        self._changed |= changed
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell_changes())

    async def _tell_changes(self) -> None:
        while self._changed:
            await asyncio.sleep(_PAUSE)
            changed, self._changed = self._changed, set()
            for uri in sorted(changed):
                if (tell := self._tell.get(uri)) is not None:
                    with contextlib.suppress(Exception):  # of a client that is gone
                        await tell(uri)


def _place(uri: str) -> dict[str, Any]:
    """Parse an address.

    Raises:
        ToolFailureError: It is none of ours.
    """
    if (match := _URI.fullmatch(uri)) is None:
        raise ToolFailureError(
            "notFound", "No such resource: timeleap://session/ID, with /message/INDEX or /checkpoint/UID."
        )
    return match.groupdict()


def _concerns(notification: Notification, place: dict[str, Any]) -> bool:
    """True if a notification may be about a change of the resource."""
    if notification.session_id is None:
        return True  # $/reconnected: what changed meanwhile was not told
    if notification.session_id != place["id"]:
        return False
    if place["index"] is None and place["uid"] is None:
        return True
    return notification.method == "context/didChange" and notification.kind not in _APPENDED
