"""The request ids of a session: what makes a mutating request safe to send again (G8).

An id must become known in the same atomic step as its effect, else a crash in between repeats or loses one of them:

- What appends records carries the id in the `_tl` of its first record. Nothing else is stored: the outcome is
  reconstructed from the index, and rendered again (`timeleap.sessions.request_table`). The record names the session,
  too: in a fork, and whatever becomes of the log there, the parent's ids are none of its own.
- What replaces the log, or changes state beside it, puts id and result into the `journal` of `timeleap.json`. The
  journal of a replacement names the timeline that makes it true: until that exists, it says nothing. It also takes over
  the ids of the records that the new log does not have any more.

Wherever it is kept, a request has a number that counts up with each of them (those of earlier releases have none): so
the newest 1 000 are known by age (`by_age`).

The journal has room for one step. Before the next one its lines are moved to `requests.jsonl`, so that file holds only
what did happen, and a crash between the two leaves a line twice, which does no harm.

A result may hold the system prompt, all sub-agents, a summary: megabytes, a thousand times (G12). What is large is left
out of what is stored (`fitted`), and taken from the session as it is when the request is repeated. A client that got no
answer asks again at once: then that is what the answer was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from timeleap.errors import CorruptedError, InvalidInputError, StorageFailureError, TimelineNotFoundError
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.session_files import REQUESTS_NAME
from timeleap.sessions.shapes import Event, Mutation, camel_case
from timeleap.storage.durable import atomic_write, is_regular, status, storage_errors
from timeleap.storage.engine import LogEngine
from timeleap.storage.record import MADE_HERE
from timeleap.summaries.log_spans import without_spans

LARGE_TOLD = 4 << 10
"""Characters of a notification's members, as JSON, that is not kept: then it is said that something has changed."""
REMEMBERED = 1000
"""Requests of a session whose ids its clients gave."""
MADE_REMEMBERED = 4096
"""Requests of a session whose ids were made by attached processes, which have use for them until they are answered."""
MADE_BY_ONE = 1024
"""Remembered requests of one window: as many as it may have in flight."""
HIGHEST = 1 << 53
"""No number is higher."""
LARGE = 32 << 10
"""Characters of a member, as JSON, that is not kept."""
LARGE_IN_OLD = 256
MAX_CHARACTERS = 4 << 20
"""Limit on all results together; beyond it the older ones keep only small members."""
FILE_LINES = 2 * REMEMBERED
"""With ids that clients gave; of those that attached processes made there may be `FILE_LINES_MADE`."""
FILE_LINES_MADE = 2 * MADE_REMEMBERED
FILE_BYTES = 2 * MAX_CHARACTERS
_BY_NUMBER = attrgetter("number")
_PLAIN = frozenset((int, bool, type(None)))  # Python writes them with as many characters as JSON
_PENDING_DMAIL = camel_case("pending_dmail")
_STATE = frozenset(("context", camel_case("dynamic_subagents"), "approval", "pins"))

Told = tuple[str, str, dict[str, Any], list[str]]
"""A notification of a change: method, kind, members, and the names of further members, which are the result's."""


class StoredResponse(Struct, frozen=True):
    """A request that was made."""

    request_id: str
    fingerprint: str  # as in `Mutation`; empty where a redaction took it out
    method: str  # the last part of the method's name
    result: Mapping[str, Any] | None = None  # its head that of then; None: to be made of the record at `line`
    line: int = -1  # the record that carries the id
    left_out: tuple[str, ...] = ()  # members of the result to compute again; "a.b" is the member b of the member a
    size: int = 0  # characters of `result` as JSON
    number: int = 0  # counts the requests of a session; 0 where an earlier release wrote it
    era: str = ""  # epoch and generation of the log at the time, for the request of a record, if they are known
    before: str = ""  # the head before the change; empty where it is not known
    told: list[Told] | None = None  # None where it is not known, or stands in the record at `line`

    @property
    def members(self) -> set[str]:
        """The names of the result's members, those that are left out included."""
        return {*(self.result or ()), *(name.partition(".")[0] for name in self.left_out)}


def fitted(known: StoredResponse, large: int = LARGE) -> StoredResponse:
    """Drop the members of a result that have more than `large` characters and can be told from the
    session."""
    result, gone = dict(known.result or {}), list(known.left_out)
    if _PENDING_DMAIL in known.members:
        result = {name: _cut(value, large) for name, value in result.items()}
    sizes = {name: len(repr(value) if type(value) in _PLAIN else json.dumps(value)) for name, value in result.items()}
    # What a redaction took out is not to be told from what the session is like now.
    shows_state = not _STATE.isdisjoint(known.members) and "redacted" not in known.members
    for name in [name for name, size in sizes.items() if size > large and shows_state]:
        # Of the context a large system prompt, which seldom changes: the rest of the answer stays that of then.
        inner = members_of(result[name])
        texts = [member for member, text in inner.items() if isinstance(text, str) and len(text) > large // 2]
        less = {member: value for member, value in inner.items() if member not in texts}
        size = len(json.dumps(less))
        if less and size <= large:
            result[name], sizes[name] = less, size
            gone += [f"{name}.{member}" for member in texts]
        else:
            del result[name], sizes[name]
            gone.append(name)
    return replace(known, result=result, left_out=tuple(dict.fromkeys(gone)), size=sum(sizes.values()))


def members_of(value: Any) -> Mapping[str, Any]:
    """The members of a JSON object; none of any other value."""
    return value if isinstance(value, Mapping) else {}


def _cut(value: Any, large: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(member, large) for name, member in value.items()}
    return value[:large] if isinstance(value, str) else value


class Remembered:
    """The newest requests of a session by id: 1 000 of its clients', and apart from them those of attached
    processes."""

    def __init__(self) -> None:
        self._tables: dict[str | None, dict[str, StoredResponse]] = {}  # by window; None: the clients'
        self._made = 0
        self._size = 0
        self._room = MAX_CHARACTERS

    def get(self, request_id: str) -> StoredResponse | None:
        return self._tables.get(window_of(request_id), {}).get(request_id)

    def oldest_first(self) -> list[StoredResponse]:
        """All of them."""
        every = (known for table in self._tables.values() for known in table.values())
        return sorted(every, key=_BY_NUMBER)

    def add(self, known: StoredResponse) -> None:
        """Remember a request as the newest; the oldest beyond the bounds are forgotten."""
        request_id = known.request_id
        window = window_of(request_id)
        table = self._tables.get(window, {})
        if request_id in table:
            self._drop(window, request_id)
        if len(table) >= (REMEMBERED if window is None else MADE_BY_ONE):
            self._drop(window, next(iter(table)))
        if window is not None:
            if self._made >= MADE_REMEMBERED:
                made = (requests for name, requests in self._tables.items() if name is not None)
                oldest = min((next(iter(requests.values())) for requests in made), key=_BY_NUMBER)
                self._drop(window_of(oldest.request_id), oldest.request_id)
            self._made += 1
        self._tables.setdefault(window, table)[request_id] = known
        self._size += known.size
        if self._size > self._room:
            self._shorten()
            # What is small stays, however much it is.
            self._room = max(MAX_CHARACTERS, self._size + MAX_CHARACTERS // 2)

    def _drop(self, window: str | None, request_id: str) -> None:
        table = self._tables[window]
        self._size -= table.pop(request_id).size
        if window is not None:
            self._made -= 1
            if not table:
                del self._tables[window]

    def _shorten(self) -> None:
        """Keep the newest whole, up to half of what is allowed; of the others only what is small."""
        room = MAX_CHARACTERS // 2
        for known in reversed(self.oldest_first()):
            room -= known.size
            if room < 0 and known.result is not None:
                self._tables[window_of(known.request_id)][known.request_id] = fitted(known, LARGE_IN_OLD)
        self._size = sum(known.size for known in self.oldest_first())


def window_of(request_id: str) -> str | None:
    """The attached process that made an id, and the client's opening of the session that it made it for; None where a
    client gave it."""
    return request_id[len(MADE_HERE) :].partition(".")[0] if request_id.startswith(MADE_HERE) else None


def by_age(kept: Iterable[StoredResponse], written: Iterable[StoredResponse]) -> Remembered:
    """The newest requests, of those whose answers are kept in files and those whose records stand in the log, each
    oldest first.

    Where an id stands in several places, the newest counts; and of one request what was stored, since that is what was
    answered: a record may have lost the rest of its batch since. How requests of earlier releases, which have no
    number, went between one another is not known: the newest of either place are taken for the newest.
    """
    newest: dict[str, StoredResponse] = {}
    for known in (*written, *kept):
        before = newest.get(known.request_id)
        if before is None or known.number >= before.number:
            newest.pop(known.request_id, None)
            newest[known.request_id] = known
    ages: dict[str, int] = {}
    for in_log in (True, False):
        old = [name for name, known in newest.items() if not known.number and (known.result is None) is in_log]
        ages |= {name: at - len(old) for at, name in enumerate(old)}
    found = Remembered()
    for known in sorted(newest.values(), key=lambda known: known.number or ages[known.request_id]):
        found.add(known)
    return found


class RequestFile:
    """The `requests.jsonl` of one directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / REQUESTS_NAME
        self._numbers: list[tuple[str, int]] | None = None

    def read(self) -> list[StoredResponse]:
        """All requests in the file, oldest first."""
        found = list(decode(files.read_lines(self.path).documents))
        self._numbers = [(known.request_id, known.number) for known in found]
        return found

    def numbers(self) -> list[tuple[str, int]]:
        """The ids in the file, and the numbers of the requests."""
        if self._numbers is None:
            self.read()
        return self._numbers or []

    def rewrite(
        self, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None], more: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """LogRewrite every request, as `change` gives it (None: not at all), and `more` behind them, in one step.

        Raises:
            OSError: The file is as it was.
        """
        found = files.read_lines(self.path).documents
        after = [*(new for document in found if (new := change(document)) is not None), *more]
        if found or more or is_regular(self.path):  # lines that are no requests go
            atomic_write(self.path, b"".join(files.encode_line(document) for document in after))
        self._numbers = None

    def append(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Note requests, durably; a file of too many lines, or 8 MiB, is rewritten with those that are known.

        Raises:
            StorageFailureError: They could not be noted.
        """
        numbers = [*self.numbers(), *((str(document.get("r")), number_of(document)) for document in documents)]
        with storage_errors("note requests", self.path):
            made = sum(name.startswith(MADE_HERE) for name, _ in numbers)
            there = status(self.path)
            large = there is not None and there.size > FILE_BYTES
            if large or len(numbers) - made > FILE_LINES or made > FILE_LINES_MADE:
                before = files.read_lines(self.path, is_request_line)
                kept = by_age(decode([*before.documents, *documents]), ()).oldest_first()
                if before.problem is not None:
                    files.move_aside(self.path)
                atomic_write(self.path, b"".join(files.encode_line(encode(known)) for known in kept))
                numbers = [(known.request_id, known.number) for known in kept]
            else:
                files.append_lines(self.path, documents)
        self._numbers = numbers


def encode(known: StoredResponse) -> dict[str, Any]:
    """A request as the journal and the file keep it."""
    line: dict[str, Any] = {"r": known.request_id, "h": known.fingerprint, "m": known.method}
    line["v"] = dict(known.result or {})
    more: dict[str, Any] = {"x": list(known.left_out), "s": known.number, "b": known.before}
    line |= {name: value for name, value in more.items() if value}
    return line if known.told is None else {**line, "n": list(known.told)}


def decode(documents: Iterable[Any]) -> Iterator[StoredResponse]:
    """The requests of journal or file lines; what is none is left out."""
    for document in documents:
        if not isinstance(document, dict) or not is_request_line(document):
            continue
        gone, before = document.get("x"), document.get("b")
        known = StoredResponse(
            document["r"],
            document["h"],
            document["m"],
            document["v"],
            left_out=tuple(member for member in gone if isinstance(member, str)) if isinstance(gone, list) else (),
            number=number_of(document),
            before=before if isinstance(before, str) else "",
            told=_told(document.get("n")),
        )
        yield fitted(known)


def number_of(members: Mapping[str, Any]) -> int:
    """The number of a request, from a line or from `_tl`; 0 where it has none that could be one."""
    number = members.get("s")
    return number if type(number) is int and 0 < number <= HIGHEST else 0


def _told(many: Any) -> list[Told] | None:
    try:
        found = convert(many, list[tuple[str, str, dict[str, Any], list[Any]]])
    except ValidationError:
        return None
    return [
        (method, kind, members, [name for name in same if isinstance(name, str)])
        for method, kind, members, same in found
    ]


def is_request_line(document: Mapping[str, Any]) -> bool:
    """True if a line of the file, or of the journal, has the form of a request."""
    texts = all(isinstance(document.get(name), str) for name in ("r", "h", "m"))
    return texts and isinstance(document.get("v"), dict)


@cache
def short(method: str) -> str:
    """The last part of a method's wire name: what records carry."""
    return method.rpartition("/")[2]


def fits(guard: Mutation, fingerprint: str) -> bool:
    """True if a request is the one with this fingerprint."""
    # A redaction leaves no fingerprint, and any fits: who guesses what was taken out could try it.
    return fingerprint in (guard.fingerprint, "") or fingerprint in guard.earlier()


def check_same(guard: Mutation, fingerprint: str) -> None:
    """Refuse, with InvalidInputError, a request whose id was used for another one, with this fingerprint."""
    if not fits(guard, fingerprint):
        message = f"requestId {guard.request_id!r} was used for another request; choose a new one for each"
        raise InvalidInputError(
            message,
            errors=[{"loc": [camel_case("request_id")], "msg": "used for another request", "type": "request_id"}],
        )


def stored_events(events: Sequence[Event], result: Mapping[str, Any]) -> list[Told] | None:
    """The stored form of the notifications of a change whose result is `result`; None if one of them is too large."""
    found: list[Told] = []
    for event in events:
        members = without_spans(event.members)
        same = [name for name, value in members.items() if name in result and result[name] == value]
        rest = {name: value for name, value in members.items() if name not in same}
        if len(json.dumps(rest)) > LARGE_TOLD:
            return None
        found.append((event.method, event.kind, rest, same))
    return found


class RewriteProof(Struct, frozen=True, rename="camel"):
    """The log that a rewrite is to set aside, as it is noted with all that becomes true by the rewrite.

    Attributes:
        timeline_id: The timeline that it will be; None where what is noted needs no proof.
        length: Its bytes.
        chain: Their fingerprint, in hexadecimal digits.
        equals: A timeline that has its bytes already; empty where it has none.
    """

    timeline_id: str | None = None
    length: int | None = None
    chain: str | None = None
    equals: str | None = None

    def holds(self, log: LogEngine) -> bool:
        """True if the rewrite was done: that log is the timeline of that name now."""
        try:
            state = log.timeline(str(self.timeline_id)).state
        except TimelineNotFoundError:
            return False
        except (CorruptedError, StorageFailureError):
            return True  # it is there, whatever is wrong with it
        return (state.length, f"{state.chain:016x}") == (self.length, self.chain)


def proof_of(noted: Mapping[str, Any]) -> RewriteProof:
    """The proof of a member of `timeleap.json`."""
    return convert(noted, RewriteProof)


def counts(noted: Mapping[str, Any] | None, log: LogEngine) -> bool:
    """True if what is noted is so, since its rewrite was done, or it needs none."""
    if noted is None:
        return False
    proof = proof_of(noted)
    return proof.timeline_id is None or proof.holds(log)
