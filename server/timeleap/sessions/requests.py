"""The request ids of a session: what makes a mutating request safe to send again (G8).

An id must become known in the same atomic step as its effect, else a crash in between repeats or loses one of them:

- What appends records carries the id in the `_tl` of its first record. Nothing else is stored: the outcome is
  reconstructed from the index, and rendered again (`timeleap.sessions.request_replay`). The record names the session,
  too: in a fork, and whatever becomes of the log there, the parent's ids are none of its own.
- What replaces the log, or changes state beside it, puts id and result into the `journal` of `timeleap.json`. The
  journal of a replacement names the timeline that makes it true: until that exists, it says nothing. It also takes over
  the ids of the records that the new log does not have any more.

Wherever it is kept, a request has a number that counts up with each of them (those of earlier releases have none): so
the newest 1 000 are known by age (`by_age`), and `RequestTable` is the one place that says whether an id is known and
what the answer was.

The journal has room for one step. Before the next one its lines are moved to `requests.jsonl`, so that file holds only
what did happen, and a crash between the two leaves a line twice, which does no harm.

A result may hold the system prompt, all sub-agents, a summary: megabytes, a thousand times (G12). What is large is left
out of what is stored, and taken from the session as it is when the request is repeated. A client that got no answer
asks again at once: then that is what the answer was.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from timeleap.errors import HeadConflictError, InvalidInputError, StorageFailureError
from timeleap.sessions import files
from timeleap.sessions.outcomes import Mutation
from timeleap.sessions.session_files import REQUESTS_NAME
from timeleap.storage.durable import atomic_write, is_regular, status
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
FILE_LINES = 2 * REMEMBERED
"""With ids that clients gave; of those that attached processes made there may be `FILE_LINES_MADE`."""
FILE_LINES_MADE = 2 * MADE_REMEMBERED
FILE_BYTES = 2 * MAX_CHARACTERS
_STATE = frozenset(("context", "dynamicSubagents", "approval", "pins"))


@dataclass(frozen=True, slots=True)
class Told:
    """A notification of a change, as far as the request's result does not say the same: `same` are the names of the
    members that are the result's, `members` the others."""

    method: str
    kind: str
    members: Mapping[str, Any]
    same: tuple[str, ...] = ()


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
        return {*(self.result or ()), *(name.partition(".")[0] for name in self.left_out)}


def stored(
    fingerprint: str, method: str, result: Mapping[str, Any], large: int = LARGE, left_out: Sequence[str] = ()
) -> StoredResponse:
    """A request with what is kept of its result: no member of more than `large` characters; some were `left_out`
    before."""
    names, gone = StoredResponse("", "", result, left_out=tuple(left_out)).members, list(left_out)
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


def _members(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _cut(value: Any, large: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(member, large) for name, member in value.items()}
    return value[:large] if isinstance(value, str) else value


class Remembered:
    """The newest requests of a session by id: 1 000 of its clients', and apart from them those of attached
    processes."""

    def __init__(self) -> None:
        self._clients: dict[str, StoredResponse] = {}
        self._windows: dict[str, dict[str, StoredResponse]] = {}
        self._made = 0
        self._size = 0
        self._room = MAX_CHARACTERS

    def __contains__(self, request_id: str) -> bool:
        return self.get(request_id) is not None

    def get(self, request_id: str) -> StoredResponse | None:
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
            # What is small stays, however much it is.
            self._room = max(MAX_CHARACTERS, self._size + MAX_CHARACTERS // 2)

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
    """The newest requests, of those whose answers are kept in files and those whose records stand in the log, each
    oldest first.

    Where an id stands in several places, the newest counts; and of one request what was stored, since that is what was
    answered: a record may have lost the rest of its batch since. How requests of earlier releases, which have no number,
    went between one another is not known: the newest of either place are taken for the newest.
    """
    newest: dict[str, StoredResponse] = {}
    for name, known in (*written, *kept):
        before = newest.get(name)
        if before is None or known.number >= before.number:
            newest.pop(name, None)
            newest[name] = known
    ranked: list[tuple[int, tuple[str, StoredResponse]]] = []
    for in_log in (True, False):
        old = [request for request in newest.items() if not request[1].number and (request[1].result is None) is in_log]
        ranked += [(at - len(old), request) for at, request in enumerate(old)]
    ranked.sort(key=lambda entry: entry[0])
    numbered = sorted((request for request in newest.items() if request[1].number), key=lambda each: each[1].number)
    found = Remembered()
    for name, known in (*(request for _, request in ranked), *numbered):
        found.add(name, known)
    return found


class RepeatedError(Exception):
    """A request id that is known; `result` (with the head right after the change) is None while the `first` request is
    still on its way."""

    def __init__(self, result: Mapping[str, Any] | None, first: asyncio.Future[None] | None = None) -> None:
        super().__init__("the request was made before")
        self.result = result
        self.first = first


@dataclass(frozen=True, slots=True)
class _Begun:
    """A request on its way to the disk; `done` is for those that ask again meanwhile."""

    guard: Mutation
    done: asyncio.Future[None]
    number: int


class RequestTable:
    """The newest requests of one session, and those on their way to the disk. `load` finds what is known, at the first
    request that carries an id; `origin` names the session in the records of its requests."""

    def __init__(
        self,
        load: Callable[[], Remembered],
        answer: Callable[[StoredResponse], Mapping[str, Any]],
        origin: Callable[[], str],
    ) -> None:
        self._load = load
        self._answer = answer
        self._origin = origin
        self._known: Remembered | None = None
        self._under_way: dict[str, _Begun] = {}
        self._last = 0
        self._redacted: set[str] = set()

    def forget(self) -> None:
        """Load again before the next use: a rewrite moves the records that carry ids."""
        self._known = None

    def forget_fingerprints(self) -> None:
        """A redaction begins: requests on their way (for an approval, which may take long) match any params, too."""
        self._redacted |= self._under_way.keys()

    def admit(self, guard: Mutation, head: str) -> None:
        """Let a request pass that is new and made on the present head. Call again if its turn comes a second time.

        Raises:
            RepeatedError: The id is known (asked first: a repeat of what moved the head must not conflict with itself).
            InvalidInputError: The id is known for another request.
            HeadConflictError: The head is not the expected one.
        """
        if guard.request_id is not None:
            self._check_id(guard, guard.request_id)
        if guard.expected_head is not None and guard.expected_head != head:
            raise HeadConflictError(
                f"the log has changed: its head is {head}, not {guard.expected_head[:80]}; look at it and try again",
                head=head,
            )

    def _check_id(self, guard: Mutation, request_id: str) -> None:
        table = self._loaded()
        begun = self._under_way.get(request_id)
        if begun is not None:
            if begun.guard is guard:
                return
            check_same(guard, self._fingerprint(begun.guard))
            raise RepeatedError(None, begun.done)
        known = table.get(request_id)
        if known is not None:
            check_same(guard, known.fingerprint)
            # Answered at once: the record the answer is made of may move before the caller gets to it.
            raise RepeatedError(self._answer(known))

    def marks(self, guard: Mutation, era: str) -> dict[str, str | int]:
        """Members of `_tl` for a request that has been admitted and will begin; none where it carries no id. `era` is
        the epoch and generation of the log: what the head is made of beside the record itself."""
        if guard.request_id is None:
            return {}
        number = min(self._last + 1, HIGHEST)
        request: dict[str, str | int] = {"r": guard.request_id, "h": guard.fingerprint, "m": short(guard.method)}
        return {**request, "s": number, "o": self._origin(), "g": era}

    def begin(self, guard: Mutation) -> None:
        """The request has passed all checks and is on its way to the disk: it has a number from now on."""
        if guard.request_id is not None:
            self._last = min(self._last + 1, HIGHEST)
            begun = self._under_way.get(guard.request_id)
            done = asyncio.get_running_loop().create_future() if begun is None else begun.done
            self._under_way[guard.request_id] = _Begun(guard, done, self._last)

    def line(
        self, guard: Mutation, result: Mapping[str, Any], before: str, told: Sequence[Told] | None
    ) -> dict[str, Any] | None:
        """The journal line of a request that has begun; None where it carries no id. `result` has the head right after
        the change, `before` is the head before it."""
        known = self._made(guard, result, before, told)
        return None if known is None or guard.request_id is None else encode(guard.request_id, known)

    def finish(
        self, guard: Mutation, result: Mapping[str, Any], before: str = "", told: Sequence[Told] | None = None
    ) -> None:
        """The request is done, as `line` said."""
        self._done(guard, self._made(guard, result, before, told))

    def appended(self, guard: Mutation, head: str, line: int) -> None:
        """The request is done, and the record at `line` that carries its id says all there is to say: nothing else is
        kept. `head` is that right after it."""
        begun = self._under_way.get(guard.request_id or "")
        era = head.rpartition(".")[0]
        known = StoredResponse(guard.fingerprint, short(guard.method), line=line, era=era)
        self._done(guard, replace(known, number=begun.number) if begun is not None else None)

    def _done(self, guard: Mutation, known: StoredResponse | None) -> None:
        if guard.request_id is not None:
            if self._known is not None and known is not None:
                self._known.add(guard.request_id, known)
            self.abandon(guard)

    def abandon(self, guard: Mutation) -> None:
        """The request is not on its way any more; its waiters look again."""
        if guard.request_id is not None:
            begun = self._under_way.get(guard.request_id)
            if begun is not None and begun.guard is guard:
                del self._under_way[guard.request_id]
                self._redacted.discard(guard.request_id)
                begun.done.set_result(None)

    def known(self, request_ids: Iterable[str]) -> list[tuple[str, StoredResponse]]:
        """Those of some requests that are known, oldest first."""
        table = self._loaded()
        found = [(name, known) for name in request_ids if (known := table.get(name)) is not None]
        return sorted(found, key=lambda request: request[1].number)

    def _made(
        self, guard: Mutation, result: Mapping[str, Any], before: str, told: Sequence[Told] | None
    ) -> StoredResponse | None:
        begun = self._under_way.get(guard.request_id or "")
        if begun is None:
            return None
        known = stored(self._fingerprint(guard), short(guard.method), result)
        return replace(known, number=begun.number, before=before, told=None if told is None else tuple(told))

    def _fingerprint(self, guard: Mutation) -> str:
        """Of a request on its way."""
        return "" if guard.request_id in self._redacted else guard.fingerprint

    def _loaded(self) -> Remembered:
        if self._known is None:
            self._known = self._load()
            self._last = max(self._last, *(known.number for _, known in self._known.items()), 0)
        return self._known


class RequestFile:
    """The `requests.jsonl` of one directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / REQUESTS_NAME
        self._listed: list[tuple[str, int]] | None = None

    def read(self) -> list[tuple[str, StoredResponse]]:
        """All requests in the file, oldest first."""
        found = list(decode(files.read_lines(self.path).documents))
        self._listed = [(name, known.number) for name, known in found]
        return found

    def names(self) -> list[tuple[str, int]]:
        """The ids in the file, and the numbers of the requests."""
        if self._listed is None:
            self.read()
        return self._listed or []

    def rewrite(
        self, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None], more: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Rewrite every request, as `change` gives it (None: not at all), and `more` behind them, in one step.

        Raises:
            OSError: The file is as it was.
        """
        found = files.read_lines(self.path).documents
        after = [*(new for document in found if (new := change(document)) is not None), *more]
        if found or more or is_regular(self.path):  # lines that are no requests go
            atomic_write(self.path, b"".join(files.encode_line(document) for document in after))
        self._listed = None

    def append(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Note requests, durably; a file of too many lines, or 8 MiB, is rewritten with those that are known.

        Raises:
            StorageFailureError: They could not be noted.
        """
        names = [*self.names(), *((str(document.get("r")), number_of(document)) for document in documents)]
        try:
            made = sum(name.startswith(MADE_HERE) for name, _ in names)
            there = status(self.path)
            large = there is not None and there.size > FILE_BYTES
            if large or len(names) - made > FILE_LINES or made > FILE_LINES_MADE:
                before = files.read_lines(self.path, is_request_line)
                kept = by_age(decode([*before.documents, *documents]), ()).items()
                if before.problem is not None:
                    files.move_aside(self.path)
                atomic_write(self.path, b"".join(files.encode_line(encode(*request)) for request in kept))
                names = [(name, known.number) for name, known in kept]
            else:
                files.append_lines(self.path, documents)
        except OSError as error:
            raise StorageFailureError.of(error, "note requests", self.path) from error
        self._listed = names


def encode(request_id: str, known: StoredResponse) -> dict[str, Any]:
    """A request as the journal and the file keep it."""
    line: dict[str, Any] = {"r": request_id, "h": known.fingerprint, "m": known.method, "v": dict(known.result or {})}
    if known.left_out:
        line["x"] = list(known.left_out)
    if known.number:
        line["s"] = known.number
    if known.before:
        line["b"] = known.before
    if known.told is not None:
        line["n"] = [[event.method, event.kind, dict(event.members), list(event.same)] for event in known.told]
    return line


def decode(documents: Iterable[Any]) -> Iterator[tuple[str, StoredResponse]]:
    """The requests of journal or file lines; what is none is left out."""
    for document in documents:
        if not isinstance(document, dict) or not is_request_line(document):
            continue
        gone, before = document.get("x"), document.get("b")
        left_out = [member for member in gone if isinstance(member, str)] if isinstance(gone, list) else []
        known = stored(document["h"], document["m"], document["v"], left_out=left_out)
        before = before if isinstance(before, str) else ""
        yield (
            document["r"],
            replace(known, number=number_of(document), before=before, told=_told(document.get("n"))),
        )


def number_of(members: Mapping[str, Any]) -> int:
    """The number of a request, from a line or from `_tl`; 0 where it has none that could be one."""
    number = members.get("s")
    return number if type(number) is int and 0 < number <= HIGHEST else 0


def _told(many: Any) -> tuple[Told, ...] | None:
    if not isinstance(many, list):
        return None
    found: list[Told] = []
    for notification in many:
        match notification:
            case [str(method), str(kind), dict(members), list(same)]:
                found.append(Told(method, kind, members, tuple(name for name in same if isinstance(name, str))))
            case _:
                return None
    return tuple(found)


def told(method: str, kind: str, members: Mapping[str, Any], result: Mapping[str, Any]) -> Told | None:
    """The stored form of a notification of a change whose result is `result`; None if it is too large."""
    same = tuple(name for name, value in members.items() if name in result and result[name] == value)
    rest = {name: value for name, value in members.items() if name not in same}
    return Told(method, kind, rest, same) if len(json.dumps(rest)) <= LARGE_TOLD else None


def is_request_line(document: Mapping[str, Any]) -> bool:
    """True if a line of the file, or of the journal, has the form of a request."""
    texts = all(isinstance(document.get(name), str) for name in ("r", "h", "m"))
    return texts and isinstance(document.get("v"), dict)


def short(method: str) -> str:
    """The last part of a method's wire name: what records carry."""
    return method.rpartition("/")[2]


def check_same(guard: Mutation, fingerprint: str) -> None:
    """Refuse, with InvalidInputError, a request whose id was used for another one, with this fingerprint."""
    # A redaction leaves no fingerprint, and any fits: who guesses what was taken out could try it.
    if fingerprint and fingerprint not in (guard.fingerprint, *guard.earlier):
        message = f"requestId {guard.request_id!r} was used for another request; choose a new one for each"
        raise InvalidInputError(
            message, errors=[{"loc": ["requestId"], "msg": "used for another request", "type": "request_id"}]
        )
