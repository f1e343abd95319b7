"""The tools that only read."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from timeleap.json_value import Json
from timeleap_agents.mcp import methods
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.secret_masks import without_cut_word
from timeleap_agents.mcp.tool_results import MAX_RESULT_BYTES, ToolFailureError, ToolResult
from timeleap_client import TimeleapRpcError

_CHECKPOINT: Final = re.compile(r"[co]-?[0-9]+-[0-9a-f]+")
_SNAPSHOT: Final = re.compile(r"f[0-9]+-[0-9a-f]+")
PREVIEW_CHARACTERS: Final = 120
"""Characters of the message after a checkpoint, which the server gives."""
_SEARCH_SECONDS: Final = 5.0
"""A search through other workspaces' sessions, too, stops after this, and can be gone on with."""


async def search_history(sessions: OpenedSessions, arguments: Json) -> ToolResult:
    """Find messages by words or a regular expression."""
    scope = arguments.get("scope") or ("workspace" if sessions.session_id is None else "session")
    asked = {"query": arguments["query"], "regex": arguments.get("regex"), "distinct": True, "excerpts": True}
    limit = arguments.get("limit", 10)
    if scope == "session":
        session_id = await sessions.meant(None)
        return await _search_session(sessions, session_id, {**asked, "limit": limit}, None)
    wanted = None
    if scope == "workspace":
        wanted = {info["sessionId"] for info in await sessions.in_workspace()}
        if not wanted:
            return ToolResult("This folder has no session; scope all searches every one.", is_data=False)
    return await _search_store(sessions, wanted, asked, limit, None)


async def _search_session(sessions: OpenedSessions, session_id: str, asked: Json, cursor: str | None) -> ToolResult:
    async with sessions.reading(session_id):
        page = await sessions.call(methods.SEARCH, sessionId=session_id, **asked, cursor=cursor)
    matches = [{"sessionId": session_id, **match} for match in page["matches"]]
    following = page.get("nextCursor")
    more = None if following is None else partial(_search_session, sessions, session_id, asked, following)
    return await _matches(sessions, matches, more)


async def _search_store(
    sessions: OpenedSessions, wanted: set[str] | None, asked: Json, limit: int, cursor: str | None
) -> ToolResult:
    matches: list[Json] = []
    begun = time.monotonic()
    while True:
        page = await sessions.call(methods.SEARCH_STORE, **asked, limit=limit - len(matches), cursor=cursor)
        matches += [match for match in page["matches"] if wanted is None or match["sessionId"] in wanted]
        cursor = page.get("nextCursor")
        if cursor is None or len(matches) >= limit or time.monotonic() - begun > _SEARCH_SECONDS:
            break
    more = None if cursor is None else partial(_search_store, sessions, wanted, asked, limit, cursor)
    return await _matches(sessions, matches, more)


async def _matches(sessions: OpenedSessions, matches: list[Json], more: Any) -> ToolResult:
    lines = list(await asyncio.gather(*(_match(sessions, match) for match in matches)))
    text = "\n".join(lines) or "Nothing was found."
    return ToolResult(text, sorted({match["sessionId"] for match in matches}), more)


async def _match(sessions: OpenedSessions, match: Json) -> str:
    session_id, timeline, index = match["sessionId"], match.get("timelineId"), match["index"]
    where = f"{session_id}#{index}" if timeline is None else f"{session_id}#{index} (taken back, timeline {timeline})"
    try:
        entry = (await _history(sessions, session_id, timeline, **{"from": index, "to": index + 1}))[0]
    except (TimeleapRpcError, IndexError):  # gone since it was found
        return f"{where}: gone since"
    # The whole message says what in it is a secret, of which the excerpt may have a part.
    excerpt = await sessions.masked_excerpt(match.get("excerpt", {}).get("text", ""), entry["message"])
    return f"{where} {_role(entry['message'])}: {_one_line(excerpt)}"


async def read_messages(sessions: OpenedSessions, arguments: Json) -> ToolResult:
    """Messages, whole, from an index on; without one the last ones."""
    session_id, count = await sessions.meant(arguments.get("session")), arguments.get("count", 20)
    most = arguments.get("maxBytes", MAX_RESULT_BYTES)
    where: Json = {"from": arguments["from"]} if "from" in arguments else {"order": "desc"}
    return await _read_page(sessions, session_id, count, most, {"timelineId": arguments.get("timeline"), **where})


async def _read_page(sessions: OpenedSessions, session_id: str, count: int, most: int, where: Json) -> ToolResult:
    async with sessions.reading(session_id):
        page = await sessions.call(methods.HISTORY, sessionId=session_id, limit=count, **where)
    entries = sorted(page["messages"], key=lambda entry: int(entry["index"]))
    text = "\n".join(await _shown(sessions, entries)) or "There are no messages there."
    more = None
    if len(entries) < count and "nextCursor" in page:  # large messages: the server ended the page early
        rest = {"cursor": page["nextCursor"]}
        more = partial(_read_page, sessions, session_id, count - len(entries), most, rest)
    return ToolResult(text, [session_id], more, most=most)


async def list_checkpoints(sessions: OpenedSessions, arguments: Json, cursor: str | None = None) -> ToolResult:
    """Checkpoints, newest first."""
    session_id = await sessions.meant(arguments.get("session"))
    asked: Json = {"order": "desc"} if cursor is None else {"cursor": cursor}
    async with sessions.reading(session_id):
        page = await sessions.call(methods.CHECKPOINTS, sessionId=session_id, limit=arguments.get("limit", 20), **asked)
    lines = [line_of_checkpoint(checkpoint) for checkpoint in await sessions.masked(page["checkpoints"])]
    more = None
    if (following := page.get("nextCursor")) is not None:
        more = partial(list_checkpoints, sessions, {**arguments, "session": session_id}, following)
    return ToolResult("\n".join(lines) or "There are no checkpoints.", [session_id], more)


async def diff(sessions: OpenedSessions, arguments: Json, cursor: str | None = None) -> ToolResult:
    """Compare two states of a conversation."""
    session_id = await sessions.meant(arguments.get("session"))
    points = {name: _point(arguments[name]) for name in ("from", "to")}
    async with sessions.reading(session_id):
        page = await sessions.call(methods.DIFF, sessionId=session_id, **points, limit=50, cursor=cursor)
    tokens = page["tokens"]
    same, removed, added = page["common"], page["removedCount"], page["addedCount"]
    lines = [f"{same} messages are the same, {removed} are only in `from` (-), {added} only in `to` (+)."]
    lines.append(f"{tokens['from']} tokens in `from`, {tokens['to']} in `to`.")
    for sign, member in (("-", "removed"), ("+", "added")):
        lines += [f"{sign} {line}" for line in await _shown(sessions, page[member])]
    more = None
    if (following := page.get("nextCursor")) is not None:
        more = partial(diff, sessions, {**arguments, "session": session_id}, following)
    return ToolResult("\n".join(lines), [session_id], more)


async def context_budget(sessions: OpenedSessions, arguments: Json) -> ToolResult:
    """How full the context is."""
    session_id = await sessions.meant(arguments.get("session"))
    state = await sessions.call(methods.STATE, sessionId=session_id)
    context, budget = state["context"], state["budget"]
    most = budget.get("maxContextSize")
    lines = [f"session {session_id}", f"{context['tokenCount']} tokens, {context['messageCount']} messages"]
    if context["tokenCountWithPending"] != context["tokenCount"]:
        lines.append(
            f"{context['tokenCountWithPending']} tokens with what came since the model counted last (estimated)"
        )
    lines.append("no window is set" if most is None else f"{most} tokens is the window")
    if most is not None:
        reserved = budget.get("reservedContextSize")
        lines.append(f"compaction is due from {budget.get('triggerRatio', 1):.0%}, or with {reserved} tokens left")
    lines.append("compaction is due now" if context["shouldCompact"] else "compaction is not due")
    return ToolResult("\n".join(lines), [session_id], is_data=False)


async def files_changed(sessions: OpenedSessions, arguments: Json, cursor: str | None = None) -> ToolResult:
    """Files that differ from a snapshot; without one from the newest."""
    session_id = await sessions.meant(arguments.get("session"))
    async with sessions.reading(session_id):
        since = arguments.get("since")
        if since is None:
            listed = (await sessions.call(methods.FILES_LIST, sessionId=session_id, limit=1))["snapshots"]
            if not listed:
                raise ToolFailureError("filesUnavailable", "This session has no snapshot of its files.")
            since = listed[0]["snapshot"]
        page = await sessions.call(
            methods.FILES_DIFF, sessionId=session_id, **{"from": files_point(since)}, to={}, limit=200, cursor=cursor
        )
    lines = [f"since {since}:", *map(line_of_change, await sessions.masked(page["changes"]))]
    more = None
    if (following := page.get("nextCursor")) is not None:
        more = partial(files_changed, sessions, {**arguments, "session": session_id, "since": since}, following)
    return ToolResult("\n".join(lines if page["changes"] else ["Nothing changed " + lines[0]]), [session_id], more)


async def _history(sessions: OpenedSessions, session_id: str, timeline: str | None, **asked: Any) -> list[Json]:
    async with sessions.reading(session_id):
        page = await sessions.call(methods.HISTORY, sessionId=session_id, timelineId=timeline, **asked)
    entries: list[Json] = page["messages"]
    return entries


async def messages_text(sessions: OpenedSessions, session_id: str, start: int, end: int) -> str:
    """Messages of the live log as text."""
    entries = await _history(sessions, session_id, None, **{"from": start, "to": end}) if end > start else []
    return "\n".join(await _shown(sessions, entries))


async def _shown(sessions: OpenedSessions, entries: Iterable[Json]) -> list[str]:
    entries = list(entries)
    messages = await sessions.masked([entry["message"] for entry in entries])
    return [
        f"#{entry['index']} {_role(message)}: {_said(message)}"
        for entry, message in zip(entries, messages, strict=True)
    ]


def _role(message: Json) -> str:
    return str(message.get("role"))


def _said(message: Json) -> str:
    """Text of a message: its parts, its tool calls."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    said: list[str] = []
    for part in parts:
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, dict):
            text = part.get("text", part.get("think"))
            said.append(text if isinstance(text, str) else f"[{part.get('type')}]")
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            said.append(f"-> {function.get('name')}({function.get('arguments') or ''})")
    return "\n".join(said)


def line_of_checkpoint(checkpoint: Json) -> str:
    """A checkpoint in a line; its texts may have been cut, and are masked."""
    said = [str(checkpoint["uid"])]
    if label := checkpoint.get("label"):
        said.append(f'"{_one_line(label)}"')
    said.append(str(checkpoint.get("createdAt", "at an unknown time")))
    said.append(f"after {checkpoint['messageCount']} messages, {checkpoint['tokenCount']} tokens")
    if preview := checkpoint.get("preview"):
        said.append(f"before: {_one_line(without_cut_word(preview, PREVIEW_CHARACTERS))}")
    if snapshot := (checkpoint.get("files") or {}).get("snapshot"):
        said.append(f"files {snapshot}")
    return " | ".join(said)


def line_of_change(change: Json) -> str:
    """How a file differs, in a line."""
    sizes = [str(change[side]) for side in ("bytesFrom", "bytesTo") if side in change]
    root = f" in {change['root']}" if "root" in change else ""
    return f"{change['kind']} {_one_line(change['path'])}{root} ({' -> '.join(sizes)} bytes)"


def _point(text: str) -> Json:
    """A side of a comparison of conversations."""
    if text == "now":
        return {}
    return {"checkpointUid": text} if _CHECKPOINT.fullmatch(text) else {"timelineId": text}


def files_point(text: str) -> Json:
    """A state of files: a snapshot, or that of a checkpoint.

    Raises:
        ToolFailureError: It is neither.
    """
    if _SNAPSHOT.fullmatch(text):
        return {"snapshot": text}
    if _CHECKPOINT.fullmatch(text):
        return {"checkpointUid": text}
    raise ToolFailureError(
        "invalidArguments", "That is neither a snapshot (f...) nor a checkpoint (c...): list_checkpoints has both."
    )


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
