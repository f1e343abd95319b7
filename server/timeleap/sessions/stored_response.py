"""The requests of a session that are known: which, in order of age, and how much is kept of their answers (G12).

Each has a number that counts up with every request of the session, wherever it is kept (in the log, in the journal, in
`requests.jsonl`); requests of earlier releases have none. So it can be said which are the newest, whatever their method.

A result may hold the system prompt, all sub-agents, a summary: megabytes, a thousand times. What is large is left out
of what is stored, and taken from the session as it is when the request is repeated. A client that got no answer asks again at
once: then that is what the answer was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from timeleap.storage.record import MADE_HERE

REMEMBERED = 1000
"""Requests of a session whose ids its clients gave."""
MADE_REMEMBERED = 4096
"""Requests of a session whose ids were made by attached processes, which have use for them until they are answered."""
MADE_BY_ONE = 1024
"""Of them, requests of one window: as many as it may have in flight."""
HIGHEST = 1 << 53
"""No number is higher."""
LARGE = 32 << 10
"""Characters of a member, as JSON, that is not kept."""
LARGE_IN_OLD = 256
LARGE_TOLD = 4 << 10
"""Characters of a notification's members, as JSON, that is not kept: then it is said that something has changed."""
MAX_CHARACTERS = 4 << 20
"""Of all results together; beyond it the older ones keep only what is small."""

_STATE = frozenset(("context", "dynamicSubagents", "approval", "pins"))


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A request that was made.

    Attributes:
        fingerprint: As in `Mutation`.
        method: The last part of the method's name.
        result: What it was answered with, its head that of then; None where it is to be made of the record at `line`.
        line: The record that carries the id.
        left_out: Members of the result that are to be computed again; "a.b" is the member b of the member a.
        size: Characters of `result` as JSON.
        number: Counts the requests of a session; 0 where an earlier release wrote it.
        era: Epoch and generation of the log at the time, for the request of a record; empty where it is not known.
        before: The head before the change; empty where it is not known.
        told: What listeners were told of the change; None where it is not known, or stands in the record at `line`.
    """

    fingerprint: str
    method: str
    result: Mapping[str, Any] | None = None
    line: int = -1
    left_out: tuple[str, ...] = ()
    size: int = 0
    number: int = 0
    era: str = ""
    before: str = ""
    told: tuple[Told, ...] | None = None

    @property
    def members(self) -> set[str]:
        """The names of the result's members, those that are left out included."""
        return _names(self.result or (), self.left_out)


@dataclass(frozen=True, slots=True)
class Told:
    """A notification of a change, as far as the request's result does not say the same.

    Attributes:
        method: The notification's.
        kind: Of the change.
        members: Those that the result does not have.
        same: Names of those that are the result's.
    """

    method: str
    kind: str
    members: Mapping[str, Any]
    same: tuple[str, ...] = ()


def _names(result: Iterable[str], left_out: Iterable[str]) -> set[str]:
    return {*result, *(name.partition(".")[0] for name in left_out)}


def stored(
    fingerprint: str, method: str, result: Mapping[str, Any], large: int = LARGE, left_out: Iterable[str] = ()
) -> StoredResponse:
    """A request with what is kept of its result.

    Args:
        fingerprint: As in `Mutation`.
        method: The last part of the method's name.
        result: What it was answered with.
        large: Characters of a member that is not kept.
        left_out: Members of the result that were left out before.
    """
    names, gone = _names(result, left_out), list(left_out)
    # What a redaction took out is not to be told from what the session is like now.
    shows_state = not _STATE.isdisjoint(names) and "redacted" not in names
    if "pendingDMail" in names:
        result = {name: _cut(value, large) for name, value in result.items()}
    sizes = {name: len(json.dumps(value)) for name, value in result.items()}
    for name in [name for name, size in sizes.items() if size > large and shows_state]:
        # Of the context a large system prompt, which seldom changes: the rest of the answer stays that of then.
        texts = [inner for inner, text in _members(result[name]) if isinstance(text, str) and len(text) > large // 2]
        less = {inner: value for inner, value in _members(result[name]) if inner not in texts}
        size = len(json.dumps(less))
        if less and size <= large:
            result, sizes = {**result, name: less}, {**sizes, name: size}
            gone += [f"{name}.{inner}" for inner in texts]
        else:
            result = {other: value for other, value in result.items() if other != name}
            gone.append(name)
    size = sum(sizes[name] for name in result)
    return StoredResponse(fingerprint, method, result, left_out=tuple(dict.fromkeys(gone)), size=size)


def completed(known: StoredResponse, now: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a request, with the members that were left out of it as they are `now`."""
    result = {**{name: now[name] for name in known.left_out if name in now}, **(known.result or {})}
    for name in {left_out.partition(".")[0] for left_out in known.left_out if "." in left_out}:
        result[name] = {**dict(_members(now.get(name))), **dict(_members(result.get(name)))}
    return result


class Remembered:
    """The newest requests of a session by id: 1 000 of its clients', and apart from them those of attached processes."""

    def __init__(self) -> None:
        self._clients: dict[str, StoredResponse] = {}
        self._windows: dict[str, dict[str, StoredResponse]] = {}
        self._made = 0
        self._size = 0
        self._room = MAX_CHARACTERS

    def __contains__(self, request_id: str) -> bool:
        return self.get(request_id) is not None

    def get(self, request_id: str) -> StoredResponse | None:
        """The stored response of a request, or None."""
        return self._table(request_id).get(request_id)

    def items(self) -> list[tuple[str, StoredResponse]]:
        """All of them, oldest first."""
        many = [*self._clients.items(), *(request for table in self._windows.values() for request in table.items())]
        return sorted(many, key=lambda request: request[1].number)

    def add(self, request_id: str, known: StoredResponse) -> None:
        """Remember a request as the newest; the oldest beyond the bounds are forgotten."""
        table = self._table(request_id)
        if request_id in table:
            self._drop(table, request_id)
        made_here = table is not self._clients
        while len(table) >= (MADE_BY_ONE if made_here else REMEMBERED):
            self._drop(table, next(iter(table)))
        if made_here:
            if self._made >= MADE_REMEMBERED:
                oldest = min(self._windows.values(), key=lambda window: next(iter(window.values())).number)
                self._drop(oldest, next(iter(oldest)))
            self._windows[window_of(request_id)] = table
            self._made += 1
        table[request_id] = known
        self._size += known.size
        if self._size > self._room:
            self._shorten()
            self._room = max(
                MAX_CHARACTERS, self._size + MAX_CHARACTERS // 2
            )  # what is small stays, however much it is

    def _table(self, request_id: str) -> dict[str, StoredResponse]:
        if not request_id.startswith(MADE_HERE):
            return self._clients
        return self._windows.get(window_of(request_id), {})

    def _drop(self, table: dict[str, StoredResponse], request_id: str) -> None:
        self._size -= table.pop(request_id).size
        if table is not self._clients:
            self._made -= 1
            if not table:
                del self._windows[window_of(request_id)]

    def _shorten(self) -> None:
        """Keep the newest whole, up to half of what is allowed; of the others only what is small."""
        room = MAX_CHARACTERS // 2
        for name, known in reversed(self.items()):
            room -= known.size
            if room < 0 and known.result is not None:
                less = stored(known.fingerprint, known.method, known.result, LARGE_IN_OLD, known.left_out)
                self._table(name)[name] = replace(known, result=less.result, left_out=less.left_out, size=less.size)
        self._size = sum(known.size for _, known in self.items())


def window_of(request_id: str) -> str:
    """The attached process that made an id, and the client's opening of the session that it made it for."""
    return request_id[len(MADE_HERE) :].partition(".")[0]


def by_age(kept: Iterable[tuple[str, StoredResponse]], written: Iterable[tuple[str, StoredResponse]]) -> Remembered:
    """The newest requests, of those whose answers are kept in files and those whose records stand in the log.

    Where an id stands in several places, the newest counts; and of one request what was stored, since that is what was
    answered: a record may have lost the rest of its batch since. How requests of earlier releases, which have no number,
    went between one another is not known: the newest of either place are taken for the newest.

    Args:
        kept: Of files, oldest first.
        written: Of the log, oldest first.
    """
    newest: dict[str, StoredResponse] = {}
    for name, known in (*written, *kept):
        before = newest.get(name)
        if before is None or known.number >= before.number:
            newest.pop(name, None)
            newest[name] = known
    numbered = [request for request in newest.items() if request[1].number]
    numbered.sort(key=lambda request: request[1].number)
    ranked: list[tuple[int, tuple[str, StoredResponse]]] = []
    for in_log in (True, False):
        old = [request for request in newest.items() if not request[1].number and (request[1].result is None) is in_log]
        ranked += [(len(old) - at, request) for at, request in enumerate(old)]
    ranked.sort(key=lambda entry: -entry[0])
    found = Remembered()
    for name, known in (*(request for _, request in ranked), *numbered):
        found.add(name, known)
    return found


def _members(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _cut(value: Any, large: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(member, large) for name, member in value.items()}
    return value[:large] if isinstance(value, str) else value
