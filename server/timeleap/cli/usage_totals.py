"""Tokens of all sessions together: each call of a model once, in however many sessions it stands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from timeleap.cli.backend import Backend
from timeleap.cli.projects import program_of
from timeleap.cli.terminal import Terminal
from timeleap.errors import TimeleapError
from timeleap.json_value import Json
from timeleap_agents.mirrors.model_calls import ModelCall, calls_in_file, fuller
from timeleap_agents.mirrors.vault.given_back import readable_copy
from timeleap_client.errors import TimeleapRpcError

_COUNTS = ("input", "cache_read", "cache_write", "output", "total")
_NAMES = {
    "input": "inputTokens",
    "cache_read": "cacheReadTokens",
    "cache_write": "cacheCreationTokens",
    "output": "outputTokens",
    "total": "totalTokens",
}


def say_usage_of_all(terminal: Terminal) -> None:
    """Print the tokens of all sessions, by program."""
    with Backend(terminal) as backend:
        params = {"includeArchived": True, "includeSubagents": True, "limit": 1000}
        sessions = list(backend.pages("session/list", params, "sessions"))
        programs: dict[str, Json] = {}
        known: dict[tuple[str, ...], tuple[str, ModelCall]] = {}
        repeated = 0
        recorded = _RecordedCounts(backend, sessions)
        for session in sorted(sessions, key=lambda each: (each["createdAt"], each["sessionId"])):
            program = program_of(session)
            tally = programs.setdefault(program, {"sessions": 0, "calls": 0, **dict.fromkeys(_COUNTS, 0)})
            tally["sessions"] += 1
            for call in _calls(session, recorded):
                repeated += call.key in known
                first, told = known.get(call.key, (program, None))
                known[call.key] = first, fuller(told, call)
    for program, call in known.values():
        programs[program]["calls"] += 1
        for name in _COUNTS:
            programs[program][name] += getattr(call, name)
    rows: list[Json] = [{"program": program, **_wire(tally)} for program, tally in sorted(programs.items())]
    whole = {name: sum(row[name] for row in rows) for name in ("sessions", "calls", *_NAMES.values())}
    if terminal.machine:
        terminal.document({**whole, "repeatedCalls": repeated, "programs": rows})
        return
    columns = ("program", "sessions", "calls", "input", "cache read", "cache written", "output", "total")
    shown = [*rows, {"program": "all", **whole}]
    terminal.table(columns, [tuple(row.values()) for row in shown], right=columns[1:])
    terminal.hint(f"{repeated:,} calls stand in several sessions, and count once")


def _wire(tally: Json) -> Json:
    return {"sessions": tally["sessions"], "calls": tally["calls"], **{_NAMES[name]: tally[name] for name in _COUNTS}}


def _calls(session: Json, recorded: _RecordedCounts) -> Iterable[ModelCall]:
    """The calls that a session tells of: of a mirror by the program's own file, or what is kept of it; else as recorded."""
    source = session.get("source") or {}
    if path := source.get("path"):
        with contextlib.suppress(TimeleapError, OSError):
            found = calls_in_file(source["kind"], Path(path))
            if found is not None:
                return found
        with contextlib.suppress(TimeleapError, OSError), readable_copy(Path(session["path"]), Path(path)) as copy:
            found = calls_in_file(source["kind"], copy)
            if found is not None:
                return found
    return recorded.calls(session["sessionId"])


class _RecordedCounts:
    """Token counts in logs. What a fork's log begins with is its parent's."""

    def __init__(self, backend: Backend, sessions: list[Json]) -> None:
        self._backend = backend
        self._parents = {each["sessionId"]: (each.get("parent") or {}).get("sessionId") for each in sessions}
        self._read: dict[str, list[tuple[int, int]]] = {}

    def calls(self, session_id: str) -> Iterator[ModelCall]:
        own = self._counts(session_id)
        parent = self._parents.get(session_id)
        before = self._counts(parent) if parent is not None and parent in self._parents else []
        shared = 0
        while shared < min(len(own), len(before)) and own[shared] == before[shared]:
            shared += 1
        for number, (index, count) in enumerate(own[shared:], shared):
            yield ModelCall(("recorded", session_id, str(number), str(index)), total=count)

    def _counts(self, session_id: str) -> list[tuple[int, int]]:
        if session_id not in self._read:
            self._read[session_id] = []
            with contextlib.suppress(TimeleapRpcError):
                opened = self._backend.open({"sessionId": session_id}, tell_losses=False)
                entries = opened.pages("context/listUsage", "usage", limit=1000)
                self._read[session_id] = [(each["index"], each["tokenCount"]) for each in entries]
                self._backend.call("session/close", {"sessionId": session_id})
        return self._read[session_id]
