"""A session store for the Claude Agent SDK: Claude Code runs on a log that can go back.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from timeleap_agents.adapters.claude import ClaudeSessionStore
    from timeleap.client import AsyncTimeleap

    async with AsyncTimeleap(options={"approvals": "ask"}) as timeleap:
        options = ClaudeAgentOptions(session_store=ClaudeSessionStore(timeleap))
        async for message in query(prompt="Fix the login", options=options):
            print(message)

Every transcript is a session, with a checkpoint before each prompt of the person. Whoever has it open can revert and
undo; the next resume of the same session sends the model only what is kept.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final, Literal

from claude_agent_sdk import fold_session_summary

from timeleap.json_value import Json
from timeleap_agents.adapters import claude_entries
from timeleap_agents.adapters.followed_log import FollowedLog, LogMovedError, session_id_of
from timeleap_client import RawTimeleap, method_names

OnStale = Literal["fork", "refuse"]

KIND: Final = "claude-code"
"""The `source.kind` of the sessions; their key is a JSON list: project key, session id and, of a sub-agent, subpath."""
MAX_OPEN: Final = 64
"""Transcripts that are open at a time; the one that was used longest ago is closed for another."""
MAX_BATCH_CHARACTERS: Final = 8 * 1024 * 1024
"""JSON text of one request, which stays below the largest frame; a batch of the SDK is rarely more than 1 MiB."""
_PAGE: Final = 1000
_log = logging.getLogger(__name__)


class StaleAgentError(Exception):
    """An agent goes on from what was reverted under it; nothing of that was stored."""


class RevertedError(Exception):
    """Everything was reverted: there is nothing left that could be resumed."""


@dataclass(frozen=True)
class Continuation:
    """Where what a stale agent said was stored.

    Attributes:
        project_key: Of the agent's session.
        session_id: The agent's session, which stays as it was reverted.
        continued_as: The session id of the new one; it can be resumed like any other.
        title: What it is called.
    """

    project_key: str
    session_id: str
    continued_as: str
    title: str


class _Transcript:
    """The log behind a key of the store, and the entries that it holds by their uuids."""

    def __init__(self, client: RawTimeleap, key: Sequence[str]) -> None:
        self.key = tuple(key)
        self.log = FollowedLog(client, session_id_of("cc", *key), (KIND, json.dumps(list(key))), claude_entries.uuid_of)
        self.turn = asyncio.Lock()
        self.forks: list[_Transcript] = []
        self.route: _Transcript = self
        self.removed: set[str] = set()
        self._live: set[str] = set()
        self._counted: list[str] = []
        self._done = 0  # so many of them are in `_live`
        self._searched: dict[str, frozenset[str]] = {}

    @property
    def live(self) -> set[str]:
        """The uuids in the live log."""
        if self.log.kept is not self._counted:
            self.removed |= self._live
            self._counted, self._done, self._live = self.log.kept, 0, set()
        self._live.update(self._counted[self._done :])
        self._done = len(self._counted)
        return self._live

    async def was_removed(self, entry: str) -> bool:
        """True if the log once had this entry, and has it no more."""
        if entry in self.live:
            return False
        return entry in self.removed or await self.timeline_of(entry) is not None

    async def timeline_of(self, entry: str) -> str | None:
        """The newest timeline that holds an entry."""
        if not self.log.timelines:
            return None
        for timeline in await self.log.timeline_ids():
            if timeline not in self._searched:
                records = await self.log.read(timeline)
                self._searched[timeline] = frozenset(filter(None, map(claude_entries.uuid_of, records)))
            if entry in self._searched[timeline]:
                return timeline
        return None


class ClaudeSessionStore:
    """A session store for `ClaudeAgentOptions(session_store=...)`.

    Args:
        client: A running client; it has to run as long as the store is used.
        on_stale: What to do where an agent still runs whose log was reverted by another window: `fork` stores what it
            says in a new session, `refuse` raises `StaleAgentError`, which the SDK reports. Never is it put into the
            reverted log.
        on_continuation: Called with each new session that `fork` makes.
    """

    def __init__(
        self,
        client: RawTimeleap,
        *,
        on_stale: OnStale = "fork",
        on_continuation: Callable[[Continuation], object] | None = None,
    ) -> None:
        self._client = client
        self._on_stale = on_stale
        self._on_continuation = on_continuation
        self._transcripts: OrderedDict[tuple[str, ...], _Transcript] = OrderedDict()
        self._summaries: dict[str, tuple[str, Json]] = {}

    async def append(self, key: Mapping[str, Any], entries: Sequence[Any]) -> None:
        """Store a batch of entries; those whose uuid is known are left out, since the SDK repeats batches.

        Raises:
            StaleAgentError: See `on_stale`.
            TimeleapClientError: Nothing of the rest was stored; the SDK tries again.
        """
        if not entries:
            return
        transcript = self._transcript(_parts_of(key))
        async with transcript.turn:
            if not transcript.log.is_open:
                await transcript.log.open(create=True, **_traits(entries))
                await transcript.log.refresh()
            await self._append(transcript, entries)
        await self._close_unused()

    async def load(self, key: Mapping[str, Any]) -> list[Any] | None:
        """All entries of the live log; None for a key that was never written, or was deleted.

        Raises:
            RevertedError: Everything was reverted.
        """
        transcript = self._transcript(_parts_of(key))
        async with transcript.turn:
            if not transcript.log.is_open and not await transcript.log.open(create=False):
                self._transcripts.pop(transcript.key, None)
                return None
            transcript.route = transcript
            entries = list(claude_entries.entries_of(await transcript.log.refresh_whole()))
            if transcript.log.timelines and not any(map(_says_something, entries)):
                # Without entries the SDK would resume from its own local copy, which knows of no revert.
                raise RevertedError(
                    f"all of session {key['session_id']} was reverted: start a new one, or undo the revert in Timeleap"
                )
        await self._close_unused()
        return entries or None

    async def list_sessions(self, project_key: str) -> list[Json]:
        """The sessions of a project, sub-agents left out."""
        found = await self._listed(project_key)
        return [
            {"session_id": key[1], "mtime": _milliseconds(info["updatedAt"])} for key, info in found if len(key) == 2
        ]

    async def list_session_summaries(self, project_key: str) -> list[Json]:
        """List the summary of each session that the SDK derives from the stored entries."""
        found: list[Json] = []
        for key, info in await self._listed(project_key):
            if len(key) != 2:
                continue
            known = self._summaries.get(info["sessionId"])
            if known is None or known[0] != info["updatedAt"]:
                entries = await self._entries(key)
                named = {"project_key": key[0], "session_id": key[1]}
                known = (info["updatedAt"], dict(fold_session_summary(None, named, entries)))
                self._summaries[info["sessionId"]] = known
            found.append({**known[1], "mtime": _milliseconds(info["updatedAt"])})
        return found

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Move a session, with its sub-agents, to Timeleap's trash; or the one sub-agent that the key names."""
        wanted = _parts_of(key)
        for found, info in await self._listed(wanted[0]):
            if found == wanted or (len(wanted) == 2 and found[:2] == wanted):
                if (transcript := self._transcripts.pop(found, None)) is not None:
                    await transcript.log.close()
                await self._client.call(method_names.SESSION_DELETE, {"sessionId": info["sessionId"]})

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """The subpaths of a session: its sub-agents."""
        wanted = (key["project_key"], key["session_id"])
        return [found[2] for found, _ in await self._listed(wanted[0]) if len(found) == 3 and found[:2] == wanted]

    async def _append(self, transcript: _Transcript, entries: Sequence[Any]) -> None:
        left = list(entries)
        while left:
            try:
                known = [transcript.live, *(fork.live for fork in transcript.forks)]
                named = [(entry, _uuid(entry)) for entry in left]
                new = [(entry, name) for entry, name in named if not any(name in live for live in known)]
                if any(name for _, name in named) and not any(name for _, name in new):
                    return  # the whole batch is there: the answer to an earlier attempt got lost
                left = [entry for entry, _ in new]
                target, count = await self._target(transcript, left)
                await _write(target.log, left[:count])
                transcript.route = target
                left = left[count:]
            except LogMovedError:
                continue

    async def _target(self, transcript: _Transcript, entries: Sequence[Any]) -> tuple[_Transcript, int]:
        """Where the first of the entries belong, and how many of them go there together."""
        batch: set[str] = set()
        target: _Transcript | None = None
        for count, entry in enumerate(entries):
            parent = claude_entries.parent_of(entry)
            goes_on = parent is None or parent in batch
            home = (target or transcript.route) if goes_on else await self._home(transcript, parent or "")
            if target is not None and home is not target:
                return target, count
            target = home
            if (name := _uuid(entry)) is not None:
                batch.add(name)
        assert target is not None
        return target, len(entries)

    async def _home(self, transcript: _Transcript, parent: str) -> _Transcript:
        """The transcript that an entry with this parent continues.

        Raises:
            StaleAgentError: It is one that was reverted, and that is to be refused.
        """
        for known in (transcript, *transcript.forks):
            if parent in known.live:
                return known
        if not await transcript.was_removed(parent):
            return transcript  # of a past that was never stored here
        if self._on_stale == "refuse":
            raise StaleAgentError(
                f"the agent of session {transcript.key[1]} goes on from what was reverted: stop it, and resume the session"
            )
        fork = await self._fork(transcript, parent)
        transcript.forks.append(fork)
        return fork

    async def _fork(self, transcript: _Transcript, parent: str) -> _Transcript:
        """A new session with the log that an agent goes on from."""
        new_id = str(uuid.uuid4())
        title = f"{transcript.log.title or transcript.key[1]} (continued before revert)"
        fork = _Transcript(self._client, (transcript.key[0], new_id, *transcript.key[2:]))
        await fork.log.open(create=True, title=title)
        await fork.log.refresh()
        timeline = await transcript.timeline_of(parent)
        if timeline is not None:
            await self._append(fork, list(claude_entries.entries_of(await transcript.log.read(timeline))))
        continuation = Continuation(transcript.key[0], transcript.key[1], new_id, title)
        _log.warning(
            "session %s was reverted while its agent ran: what it says goes to session %s", transcript.key[1], new_id
        )
        if self._on_continuation is not None:
            self._on_continuation(continuation)
        return fork

    async def _entries(self, key: tuple[str, ...]) -> list[Any]:
        transcript = self._transcript(key)
        async with transcript.turn:
            if not transcript.log.is_open and not await transcript.log.open(create=False):
                self._transcripts.pop(transcript.key, None)
                return []
            entries = list(claude_entries.entries_of(await transcript.log.read()))
        await self._close_unused()
        return entries

    async def _listed(self, project_key: str) -> list[tuple[tuple[str, ...], Json]]:
        found: list[tuple[tuple[str, ...], Json]] = []
        cursor: str | None = None
        while True:
            where = {"cursor": cursor} if cursor is not None else {}
            asked = {"source": {"kind": KIND}, "limit": _PAGE, "includeArchived": True, **where}
            page = await self._client.call(method_names.SESSION_LIST, asked)
            keys = ((_key_of(info["source"]["key"]), info) for info in page["sessions"])
            found += [(key, info) for key, info in keys if key[:1] == (project_key,)]
            if (cursor := page.get("nextCursor")) is None:
                return found

    def _transcript(self, key: tuple[str, ...]) -> _Transcript:
        transcript = self._transcripts.setdefault(key, _Transcript(self._client, key))
        self._transcripts.move_to_end(key)
        return transcript

    async def _close_unused(self) -> None:
        while len(self._transcripts) > MAX_OPEN:
            # One with forks is not forgotten: what its stale agent says next is known by them.
            unused = (key for key, each in self._transcripts.items() if not each.turn.locked() and not each.forks)
            if (key := next(unused, None)) is None:
                return
            await self._transcripts.pop(key).log.close()


async def _write(log: FollowedLog[str], entries: Sequence[Any]) -> None:
    """Write entries as one step, with the checkpoint of each prompt among them and the tokens that the model reported.

    Raises:
        LogMovedError: They were not written.
    """
    labels = _labels(entries)
    items: list[tuple[Json, int]] = []
    for at, entry in enumerate(entries):
        if at in labels:
            items.append(({"checkpoint": {"label": labels[at]}}, len(labels[at])))
        items += claude_entries.items_of(entry)
    if (tokens := claude_entries.tokens_of(entries)) is not None:
        items.append(({"tokenCount": tokens}, 0))
    for chunk in _chunks(items):
        await log.append(chunk)
    title = next(filter(None, map(claude_entries.title_of, reversed(entries))), log.title or _first_title(labels))
    if title is not None and title != log.title:
        await log.set_title(title)


def _labels(entries: Sequence[Any]) -> dict[int, str]:
    """Labels of the checkpoints before entries, by the entries' numbers.

    Records that the program writes before a prompt go along with it.
    """
    found: dict[int, str] = {}
    start = 0  # where the notes before the next entry begin
    for at, entry in enumerate(entries):
        label = claude_entries.label_of(entry)
        if label is not None:
            found[start] = label
        if label is not None or _says_something(entry) or (start and _uuid(entry) is not None):
            start = at + 1
    return found


def _chunks(items: Sequence[tuple[Json, int]]) -> Iterator[list[Json]]:
    """The items as one request; as several only where a frame could not hold them."""
    chunk: list[Json] = []
    left = MAX_BATCH_CHARACTERS
    for item, size in items:
        if chunk and size > left:
            yield chunk
            chunk, left = [], MAX_BATCH_CHARACTERS
        chunk.append(item)
        left -= size
    yield chunk


def _parts_of(key: Mapping[str, Any]) -> tuple[str, ...]:
    subpath = key.get("subpath")
    return (key["project_key"], key["session_id"], *([subpath] if subpath else []))


def _key_of(text: str) -> tuple[str, ...]:
    """The key that a session's source names; empty where it is none of ours."""
    try:
        parts = json.loads(text)
    except ValueError:
        return ()
    is_key = isinstance(parts, list) and len(parts) in (2, 3) and all(isinstance(part, str) for part in parts)
    return tuple(parts) if is_key else ()


def _traits(entries: Sequence[Any]) -> Json:
    folders = (entry.get("cwd") for entry in entries if isinstance(entry, dict))
    folder = next((folder for folder in folders if isinstance(folder, str) and PurePath(folder).is_absolute()), None)
    workspace = {} if folder is None else {"workspace": PurePath(folder).as_uri()}
    title = _first_title(_labels(entries))
    return workspace if title is None else {**workspace, "title": title}


def _first_title(labels: Mapping[int, str]) -> str | None:
    """The title of a conversation until it has a name: its first prompt."""
    return next((label for label in labels.values() if label != "compacted"), None)


def _uuid(entry: Any) -> str | None:
    name = entry.get("uuid") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _says_something(entry: Any) -> bool:
    return isinstance(entry, dict) and claude_entries.is_message(entry)


def _milliseconds(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
