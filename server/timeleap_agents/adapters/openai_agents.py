"""A session for the OpenAI Agents SDK, whose conversation can go back.

    from agents import Agent, Runner
    from timeleap_agents.adapters.openai_agents import TimeleapSession
    from timeleap.client import AsyncTimeleap

    async with AsyncTimeleap(options={"approvals": "ask"}) as timeleap:
        session = TimeleapSession("user-42", timeleap)
        result = await Runner.run(Agent(name="Helper"), "Fix the login", session=session)

Every item is a message of a Timeleap session, with a checkpoint before what a person says. Whoever has it open can
revert and undo; the next run sees only what is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeVar

from timeleap.json_value import Json
from timeleap_agents.adapters.followed_log import FollowedLog, LogMovedError, session_id_of
from timeleap_agents.adapters.json_values import first_line, is_plain, readable, text_of, value_of
from timeleap_client import RawTimeleap, method_names

T = TypeVar("T")

KIND: Final = "openai-agents"
"""The `source.kind` of the sessions; their key is the session id of the SDK."""
MEMBER: Final = "openaiAgents"
"""Member of a message with its item: `item`, as the SDK gave it, or `text`, the item as JSON text."""
MAX_KEY: Final = 4096
"""Characters of a `source.key`; the Timeleap session's id is made of the whole id."""
JOINED: Final = 2.0
"""Seconds within which a pop joins the one before it, so that one undo brings back all of them."""


class StaleRunError(Exception):
    """A run goes on from what was reverted under it; nothing of that was stored."""


class TimeleapSession:
    """A session for `Runner.run(session=...)`.

    Args:
        session_id: The id of the conversation; any text.
        client: A running client; it has to run as long as the session is used.
        on_stale: What to do where the log was rewritten by another window since the run looked at it: `fork` puts what
            the run says into a new session (`continued_as`), `refuse` raises `StaleRunError`. Never is it put into the
            reverted log.
        session_settings: `SessionSettings` of the SDK; of them `limit` counts.

    Attributes:
        continued_as: The Timeleap session with what a stale run said; None while there is none.
    """

    def __init__(
        self,
        session_id: str,
        client: RawTimeleap,
        *,
        on_stale: Literal["fork", "refuse"] = "fork",
        session_settings: Any = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self.continued_as: str | None = None
        self._client = client
        self._on_stale = on_stale
        self._log = FollowedLog(client, session_id_of("oa", session_id), (KIND, session_id[:MAX_KEY] or "-"), _kept)
        self._fork: FollowedLog[Any] | None = None
        self._turn = asyncio.Lock()
        self._popped: tuple[str, float] = ("", 0.0)  # the head after the last pop, and when

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; the newest `limit` of them. A run that begins here sees what is kept now."""
        most = limit if limit is not None else getattr(self.session_settings, "limit", None)
        async with self._turn:
            await self._ready()
            await self._log.refresh()
            self._log.rewritten = False
            self._fork = None
            items = [item for item, _ in self._items()]
        return items if most is None or most < 0 else items[max(0, len(items) - most) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append items as one step.

        Raises:
            StaleRunError: See `on_stale`.
            TimeleapClientError: Nothing was stored.
        """
        if not items:
            return
        messages = [_message(item) for item in items]
        label = next((first_line(readable(_text(item))) or "(no text)" for item in items if _is_prompt(item)), None)
        if label is not None:
            messages.insert(0, {"checkpoint": {"label": label}})
        async with self._turn:
            await self._ready()
            await self._once(lambda: self._add(messages))

    async def pop_item(self) -> Any:
        """Remove the newest item and return it; None if there is none. Pops that follow one another are one step."""
        async with self._turn:
            await self._ready()
            return await self._once(self._pop)

    async def clear_session(self) -> None:
        """Remove all items; the log before becomes a timeline."""
        async with self._turn:
            await self._ready()
            await self._once(lambda: self._log.rewrite(method_names.CONTEXT_CLEAR))
            self._log.rewritten = False

    async def aclose(self) -> None:
        """Close the Timeleap session. It opens again when it is used."""
        async with self._turn:
            await self._log.close()

    async def _ready(self) -> None:
        if not self._log.is_open:
            await self._log.open(create=True, title=first_line(readable(self.session_id)))
            await self._log.refresh()
            self._log.rewritten = False

    async def _once(self, change: Callable[[], Awaitable[T]]) -> T:
        """Make a change on the log as it is; again, if somebody else was faster."""
        while True:
            try:
                return await change()
            except LogMovedError:
                continue

    async def _add(self, messages: list[Json]) -> None:
        log: FollowedLog[Any] = self._log
        if log.rewritten:
            log = self._fork = self._fork or await self._make_fork()
        await log.append(messages)

    async def _make_fork(self) -> FollowedLog[Any]:
        if self._on_stale == "refuse":
            raise self._stale()
        seen = self._log.lost
        timelines = await self._log.timeline_ids()
        for timeline in timelines:  # newest first: the one with all that the run has seen
            kept = [item for record in await self._log.read(timeline) if (item := _kept(record)) is not None]
            if kept[: len(seen)] == seen:
                break
        else:
            raise self._stale()
        title = f"{self._log.title or self.session_id} (continued before revert)"
        asked = {"sessionId": self._log.session_id, "timelineId": timeline, "title": title}
        forked = await self._client.call(method_names.SESSION_FORK, asked)
        self.continued_as = forked["sessionId"]
        fork = FollowedLog(self._client, forked["sessionId"], (KIND, ""), _kept)
        await fork.open(create=False)
        await fork.refresh()
        return fork

    def _stale(self) -> StaleRunError:
        return StaleRunError(f"session {self.session_id} was reverted while a run went on: begin the run again")

    async def _pop(self) -> Any:
        await self._log.refresh()
        items = self._items()
        if not items:
            return None
        item, index = items[-1]
        head, since = self._popped
        if self._log.head == head and time.monotonic() - since < JOINED:
            await self._join(index)
        else:
            await self._log.rewrite(method_names.CONTEXT_REVERT_TO, messageIndex=index)
        self._log.rewritten = False
        self._popped = (self._log.head, time.monotonic())
        return item

    async def _join(self, index: int) -> None:
        """Take back the pop before, and go back further in its place: one timeline, one undo."""
        known = set(await self._log.timeline_ids())
        between = await self._log.rewrite(method_names.CONTEXT_UNDO)
        await self._log.rewrite(method_names.CONTEXT_REVERT_TO, messageIndex=index)
        if (timeline := between.get("timelineId")) is not None and timeline not in known:
            await self._client.call(
                method_names.SESSION_PRUNE, {"sessionId": self._log.session_id, "timelineIds": [timeline]}
            )

    def _items(self) -> list[tuple[Any, int]]:
        """The items with their message indexes."""
        return [(kept[0], index) for index, kept in enumerate(self._log.kept) if kept]


def _kept(record: Json) -> tuple[Any, ...] | None:
    """Return a message's item in a tuple, which is empty if the SDK has no item for it, and None for other records."""
    role = record.get("role", "_")
    if role.startswith("_"):
        return None
    member = record.get(MEMBER)
    if isinstance(member, dict) and isinstance(member.get("text"), str):
        with contextlib.suppress(ValueError):  # else somebody edited the log: the message is what there is
            return (value_of(member["text"]),)
    elif isinstance(member, dict) and "item" in member:
        return (member["item"],)
    # Of another window: a note, a summary, a message that somebody added.
    return (
        ({"role": role, "content": _shown(record.get("content"))},) if role in ("user", "assistant", "system") else ()
    )


def _message(item: Any) -> Json:
    """The message that keeps an item.

    Raises:
        ValueError: It is nested too deeply.
    """
    if not is_plain(item):
        return {"role": "assistant", "content": readable(_text(item)), MEMBER: {"text": text_of(item)}}
    kind = item.get("type") if isinstance(item, dict) else None
    if isinstance(item, dict) and item.keys() == {"role", "content"} and _is_shown_whole(item):
        return dict(item)
    shown: Json = {"role": "assistant", "content": _text(item)}
    if kind == "function_call" and isinstance(item.get("call_id"), str) and isinstance(item.get("name"), str):
        arguments = item.get("arguments")
        function = {
            "name": item["name"],
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        }
        shown["tool_calls"] = [{"type": "function", "id": item["call_id"], "function": function}]
    elif kind == "function_call_output" and isinstance(item.get("call_id"), str):
        shown |= {"role": "tool", "tool_call_id": item["call_id"]}
    elif isinstance(item, dict) and item.get("role") in ("user", "assistant", "system"):
        shown["role"] = item["role"]
    return {**shown, MEMBER: {"item": item}}


def _is_shown_whole(item: Json) -> bool:
    return item["role"] in ("user", "assistant", "system") and isinstance(item["content"], str)


def _is_prompt(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _text(item: Any) -> str:
    """Text of an item, as windows show it."""
    if not isinstance(item, dict):
        return ""
    return _shown(next((item[name] for name in ("content", "output", "summary") if item.get(name)), None))


def _shown(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
