"""The request ids of a session: what makes a mutating request safe to send again (G8).

An id must become known in the same atomic step as its effect, else a crash in between repeats or loses one of them:

- What appends records carries the id in the `_tl` of its first record. Nothing else is stored: the outcome is
  reconstructed from the index, and rendered again.
- What replaces the log, or changes state beside it, puts id and result into the `journal` of `timeleap.json`. The
  journal of a replacement names the timeline that makes it true: until that exists, it says nothing. It also takes over
  the ids of the records that the new log does not have any more.

The journal has room for one step. Before the next one its lines are moved to `requests.jsonl`, so that file holds only
what did happen, and a crash between the two leaves a line twice, which does no harm.

How much is kept of a result: `timeleap.sessions.answers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from timeleap.errors import HeadConflictError, InvalidInputError, StorageFailureError
from timeleap.sessions import lines, session_files
from timeleap.sessions.answers import MAX_CHARACTERS, REMEMBERED, Known, Remembered, stored
from timeleap.sessions.outcomes import Guard
from timeleap.storage.durable import atomic_write, status

FILE_NAME = session_files.REQUESTS
FILE_LINES = 2 * REMEMBERED
FILE_BYTES = 2 * MAX_CHARACTERS


class RepeatedError(Exception):
    """A request id that is known; `result` is None while its `first` request is still on its way."""

    def __init__(self, result: Mapping[str, Any] | None, first: asyncio.Future[None] | None = None) -> None:
        super().__init__("the request was made before")
        self.result = result
        self.first = first


class RequestTable:
    """The last 1 000 ids of one session, and those on their way to the disk.

    Args:
        load: Finds what is known, oldest first; called at the first request that carries an id.
        answer: The result of a request that is known.
    """

    def __init__(
        self, load: Callable[[], Iterable[tuple[str, Known]]], answer: Callable[[Known], Mapping[str, Any]]
    ) -> None:
        self._load = load
        self._answer = answer
        self._known: Remembered | None = None
        self._under_way: dict[str, tuple[Guard, asyncio.Future[None]]] = {}

    def forget(self) -> None:
        """Load again before the next use: a rewrite moves the records that carry ids."""
        self._known = None

    def admit(self, guard: Guard, head: str) -> None:
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

    def begin(self, guard: Guard) -> None:
        """The request has passed all checks and is on its way to the disk."""
        if guard.request_id is not None and guard.request_id not in self._under_way:
            first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._under_way[guard.request_id] = (guard, first)

    def finish(self, guard: Guard, result: Mapping[str, Any]) -> None:
        """The request is done."""
        if guard.request_id is not None:
            if self._known is not None:
                self._known.add(guard.request_id, stored(guard.fingerprint, short(guard.method), result))
            self.abandon(guard)

    def abandon(self, guard: Guard) -> None:
        """The request is not on its way any more; whoever waited for it looks again."""
        if guard.request_id is not None:
            begun = self._under_way.get(guard.request_id)
            if begun is not None and begun[0] is guard:
                del self._under_way[guard.request_id]
                begun[1].set_result(None)

    def _check_id(self, guard: Guard, request_id: str) -> None:
        if self._known is None:
            self._known = Remembered()
            for name, one in self._load():
                # What was stored is what was answered; a record may have lost the rest of its batch since.
                before = self._known.get(name)
                self._known.add(name, before if before is not None and one.result is None else one)
        begun = self._under_way.get(request_id)
        if begun is not None and begun[0] is guard:
            return
        if begun is not None:
            _same(guard, begun[0].fingerprint)
            raise RepeatedError(None, begun[1])
        known = self._known.get(request_id)
        if known is not None:
            _same(guard, known.fingerprint)
            # Answered at once: the record the answer is made of may move before the caller gets to it.
            raise RepeatedError(self._answer(known))


class RequestFile:
    """The `requests.jsonl` of one directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._names: list[str] | None = None

    def read(self) -> list[tuple[str, Known]]:
        """All requests in the file, oldest first."""
        found = list(decode(lines.read(self.path)))
        self._names = [name for name, _ in found]
        return found

    def names(self) -> list[str]:
        """The ids in the file."""
        if self._names is None:
            self.read()
        return self._names or []

    def rewrite(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Write every request anew, as `change` gives it, in one step.

        Raises:
            OSError: The file is as it was.
        """
        found = lines.read(self.path)
        if found:
            atomic_write(self.path, b"".join(lines.encode(change(one)) + b"\n" for one in found))
        self._names = None

    def append(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Note requests, durably; a file of more than 2 000 lines, or 8 MiB, is written anew with the last 1 000.

        Raises:
            StorageFailureError: They could not be noted.
        """
        names = [*self.names(), *(str(one.get("r")) for one in documents)]
        try:
            if len(names) > FILE_LINES or self._size() > FILE_BYTES:
                last = Remembered()
                for name, known in decode([*lines.read(self.path), *documents]):
                    last.add(name, known)
                kept = last.items()
                atomic_write(self.path, b"".join(lines.encode(encode(*one)) + b"\n" for one in kept))
                names = [name for name, _ in kept]
            else:
                lines.append(self.path, documents)
        except OSError as error:
            raise StorageFailureError.of(error, "note requests", self.path) from error
        self._names = names

    def _size(self) -> int:
        found = status(self.path)
        return found.size if found is not None else 0


def marks(guard: Guard) -> dict[str, str]:
    """Members of `_tl` for a request; none where it carries no id."""
    if guard.request_id is None:
        return {}
    return {"r": guard.request_id, "h": guard.fingerprint, "m": short(guard.method)}


def journal_line(guard: Guard, result: Mapping[str, Any]) -> dict[str, Any] | None:
    """The journal line of a request and its result; None where it carries no id."""
    if guard.request_id is None:
        return None
    return encode(guard.request_id, stored(guard.fingerprint, short(guard.method), result))


def encode(request_id: str, known: Known) -> dict[str, Any]:
    """A request as the journal and the file keep it."""
    line = {"r": request_id, "h": known.fingerprint, "m": known.method, "v": dict(known.result or {})}
    return {**line, "x": list(known.left_out)} if known.left_out else line


def decode(documents: Iterable[Any]) -> Iterator[tuple[str, Known]]:
    """The requests of journal or file lines; what is none is left out."""
    for one in documents:
        match one:
            case {"r": str(name), "h": str(fingerprint), "m": str(method), "v": dict(result)}:
                known = stored(fingerprint, method, result)
                before = [member for member in one.get("x", ()) if isinstance(member, str)]
                yield name, replace(known, left_out=(*before, *known.left_out))
            case _:
                continue


def short(method: str) -> str:
    """The last part of a method's wire name: what records carry."""
    return method.rpartition("/")[2]


def _same(guard: Guard, fingerprint: str) -> None:
    # A redaction leaves no fingerprint: who guesses what was taken out could try it.
    if fingerprint and guard.fingerprint != fingerprint:
        message = f"requestId {guard.request_id!r} was used for another request; choose a new one for each"
        raise InvalidInputError(
            message, errors=[{"loc": ["requestId"], "msg": "used for another request", "type": "request_id"}]
        )
