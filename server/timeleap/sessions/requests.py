"""The request ids of a session: what makes a mutating request safe to send again (G8).

An id must become known in the same atomic step as its effect, else a crash in between repeats or loses one of them:

- What appends records carries the id in the `_tl` of its first record. Nothing else is stored: the outcome is
  reconstructed from the index, and rendered again. The record names the session, too: in a fork, and whatever becomes of
  the log there, the parent's ids are none of its own.
- What replaces the log, or changes state beside it, puts id and result into the `journal` of `timeleap.json`. The
  journal of a replacement names the timeline that makes it true: until that exists, it says nothing. It also takes over
  the ids of the records that the new log does not have any more.

Wherever it is kept, a request has a number that counts up with each of them: so the newest 1 000 are known by age
(`timeleap.sessions.stored_response`), and `RequestTable` is the one place that says whether an id is known and what the answer
was.

The journal has room for one step. Before the next one its lines are moved to `requests.jsonl`, so that file holds only
what did happen, and a crash between the two leaves a line twice, which does no harm.

How much is kept of a result: `timeleap.sessions.stored_response`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from timeleap.errors import HeadConflictError, InvalidInputError, StorageFailureError
from timeleap.sessions import files, session_files
from timeleap.sessions.files import move_aside
from timeleap.sessions.outcomes import Mutation
from timeleap.sessions.stored_response import (
    HIGHEST,
    LARGE_TOLD,
    MADE_REMEMBERED,
    MAX_CHARACTERS,
    REMEMBERED,
    Remembered,
    StoredResponse,
    Told,
    by_age,
    stored,
)
from timeleap.storage.durable import atomic_write, is_regular, status
from timeleap.storage.record import MADE_HERE

FILE_LINES = 2 * REMEMBERED
"""With ids that clients gave; of those that attached processes made there may be `FILE_LINES_MADE`."""
FILE_LINES_MADE = 2 * MADE_REMEMBERED
FILE_BYTES = 2 * MAX_CHARACTERS


class RepeatedError(Exception):
    """A request id that is known; `result` is None while its `first` request is still on its way.

    Attributes:
        result: What it was answered with, its head that of right after the change.
    """

    def __init__(self, result: Mapping[str, Any] | None, first: asyncio.Future[None] | None = None) -> None:
        super().__init__("the request was made before")
        self.result = result
        self.first = first


class RequestTable:
    """The newest requests of one session, and those on their way to the disk.

    Args:
        load: Finds what is known, by age; called at the first request that carries an id.
        answer: The result of a request that is known.
        origin: Names the session in the records of its requests.
    """

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
        self._under_way: dict[str, tuple[Mutation, asyncio.Future[None], int]] = {}
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

        Args:
            guard: The request's circumstances.
            head: The head at its turn.

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

    def marks(self, guard: Mutation, era: str) -> dict[str, str | int]:
        """Members of `_tl` for a request that has been admitted and will begin; none where it carries no id.

        Args:
            guard: The request's circumstances.
            era: Epoch and generation of the log: what the head is made of beside the record itself.
        """
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
            first = asyncio.get_running_loop().create_future() if begun is None else begun[1]
            self._under_way[guard.request_id] = (guard, first, self._last)

    def line(
        self, guard: Mutation, result: Mapping[str, Any], before: str, told: Sequence[Told] | None
    ) -> dict[str, Any] | None:
        """The journal line of a request that has begun; None where it carries no id.

        Args:
            guard: The request's circumstances.
            result: What it is answered with, its head that of right after the change.
            before: The head before the change.
            told: What listeners are told of it.
        """
        known = self._made(guard, result, before, told)
        return None if known is None or guard.request_id is None else encode(guard.request_id, known)

    def finish(
        self,
        guard: Mutation,
        result: Mapping[str, Any],
        before: str = "",
        told: Sequence[Told] | None = None,
    ) -> None:
        """The request is done.

        Args:
            guard: The request's circumstances.
            result: What it is answered with.
            before: The head before the change.
            told: What listeners are told of it.
        """
        if guard.request_id is not None:
            known = self._made(guard, result, before, told)
            if self._known is not None and known is not None:
                self._known.add(guard.request_id, known)
            self.abandon(guard)

    def appended(self, guard: Mutation, head: str, line: int) -> None:
        """The request is done, and the record that carries its id says all there is to say: nothing else is kept.

        Args:
            guard: The request's circumstances.
            head: The head right after it.
            line: Where the record stands.
        """
        if guard.request_id is not None:
            begun = self._under_way.get(guard.request_id)
            if self._known is not None and begun is not None:
                known = StoredResponse(
                    guard.fingerprint,
                    short(guard.method),
                    line=line,
                    number=begun[2],
                    era=head.rpartition(".")[0],
                )
                self._known.add(guard.request_id, known)
            self.abandon(guard)

    def abandon(self, guard: Mutation) -> None:
        """The request is not on its way any more; its waiters look again."""
        if guard.request_id is not None:
            begun = self._under_way.get(guard.request_id)
            if begun is not None and begun[0] is guard:
                del self._under_way[guard.request_id]
                self._redacted.discard(guard.request_id)
                begun[1].set_result(None)

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
        return replace(known, number=begun[2], before=before, told=None if told is None else tuple(told))

    def _fingerprint(self, guard: Mutation) -> str:
        """Of a request on its way."""
        return "" if guard.request_id in self._redacted else guard.fingerprint

    def _loaded(self) -> Remembered:
        if self._known is None:
            self._known = self._load()
            self._last = max(self._last, *(known.number for _, known in self._known.items()), 0)
        return self._known

    def _check_id(self, guard: Mutation, request_id: str) -> None:
        table = self._loaded()
        begun = self._under_way.get(request_id)
        if begun is not None and begun[0] is guard:
            return
        if begun is not None:
            check_same(guard, self._fingerprint(begun[0]))
            raise RepeatedError(None, begun[1])
        known = table.get(request_id)
        if known is not None:
            check_same(guard, known.fingerprint)
            # Answered at once: the record the answer is made of may move before the caller gets to it.
            raise RepeatedError(self._answer(known))


class RequestFile:
    """The `requests.jsonl` of one directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / session_files.REQUESTS_NAME
        self._names: list[tuple[str, int]] | None = None

    def read(self) -> list[tuple[str, StoredResponse]]:
        """All requests in the file, oldest first."""
        found = list(decode(files.read_lines(self.path).documents))
        self._names = [(name, known.number) for name, known in found]
        return found

    def names(self) -> list[str]:
        """The ids in the file."""
        return [name for name, _ in self._listed()]

    def numbers(self) -> dict[str, int]:
        """The ids in the file, and the numbers of the requests."""
        return dict(self._listed())

    def _listed(self) -> list[tuple[str, int]]:
        if self._names is None:
            self.read()
        return self._names or []

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
        self._names = None

    def append(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Note requests, durably; a file of too many lines, or 8 MiB, is rewritten with those that are known.

        Raises:
            StorageFailureError: They could not be noted.
        """
        names = [*self._listed(), *((str(document.get("r")), number_of(document)) for document in documents)]
        try:
            made = sum(name.startswith(MADE_HERE) for name, _ in names)
            if len(names) - made > FILE_LINES or made > FILE_LINES_MADE or self._size() > FILE_BYTES:
                before = files.read_lines(self.path, is_request_line)
                kept = by_age(decode([*before.documents, *documents]), ()).items()
                if before.problem is not None:
                    move_aside(self.path)
                atomic_write(self.path, b"".join(files.encode_line(encode(*request)) for request in kept))
                names = [(name, known.number) for name, known in kept]
            else:
                files.append_lines(self.path, documents)
        except OSError as error:
            raise StorageFailureError.of(error, "note requests", self.path) from error
        self._names = names

    def _size(self) -> int:
        found = status(self.path)
        return found.size if found is not None else 0


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
        match document:
            case {"r": str(name), "h": str(fingerprint), "m": str(method), "v": dict(result)}:
                left_out = document.get("x")
                before = [m for m in left_out if isinstance(m, str)] if isinstance(left_out, list) else []
                known = stored(fingerprint, method, result, left_out=before)
                yield (
                    name,
                    replace(
                        known,
                        number=number_of(document),
                        before=document["b"] if isinstance(document.get("b"), str) else "",
                        told=_told(document.get("n")),
                    ),
                )
            case _:
                continue


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
    """Refuse a request whose id was used for another one.

    Args:
        guard: The request.
        fingerprint: Of the request that used the id; an empty one fits any.

    Raises:
        InvalidInputError: It is another one.
    """
    # A redaction leaves no fingerprint: who guesses what was taken out could try it.
    if fingerprint and fingerprint not in (guard.fingerprint, *guard.earlier):
        message = f"requestId {guard.request_id!r} was used for another request; choose a new one for each"
        raise InvalidInputError(
            message, errors=[{"loc": ["requestId"], "msg": "used for another request", "type": "request_id"}]
        )
