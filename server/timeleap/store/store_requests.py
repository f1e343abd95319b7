"""Requests to the store as a whole, by request id: creating, deleting, undeleting and purging sessions (G8).

Each request is noted in the home's `requests.jsonl` before it is carried out, with what will show that it was:

- making: the id the session is to get. The session names its request (`createdBy` in its `timeleap.json`); while there
  is no such session the note says nothing, and a repeat makes it under that id;
- purging: what is to go for good, and when it is gone what was answered. Of the sessions themselves nothing is kept;
- moving: the name of the directory in the trash. That it is there, or is not there any more, shows that a delete, or an
  undelete, was carried out; a second note says so for good, since a later move would hide it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

from timeleap.errors import StorageFailureError
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.request_file import (
    RequestFile,
    StoredResponse,
    check_same,
    encode,
    fits,
    members_of,
    short,
)
from timeleap.sessions.shapes import Mutation
from timeleap.storage.durable import is_regular, list_directory, remove_file, status, storage_errors
from timeleap.store.home import Home, is_session_id, parse_trash_name

T = TypeVar("T")
DELETE = "delete"
PURGE = "purge"
MAX_ANSWERED = 1000
"""Purged sessions that the answer to a repeated request names."""
_TEMPORARY = re.compile(r"\.requests\.jsonl\.[0-9a-f]{16}\.tmp")
_HASHED = "~"


class OwnFiles(Protocol):
    """Files of a store beside its sessions, such as its requests; `read` brings them up to date, `changing` locks them
    for what a block changes."""

    directory: Path

    def read(self) -> None: ...
    def changing(self) -> AbstractContextManager[None]: ...


class Ledger:
    """The request ids of one home. A request id that was used for another request is refused with InvalidInputError;
    what cannot be noted raises StorageFailureError, and the file is as it was."""

    def __init__(self, home: Home, own: OwnFiles, fetch_all: Callable[[], None]) -> None:
        """`own` are the files that have the requests, `fetch_all` brings the sessions of the home up to date."""
        self._home = home
        self._own, self._fetch_all = own, fetch_all
        self._directory = own.directory
        self._file = RequestFile(self._directory)

    def making(self, guard: Mutation) -> tuple[str | None, bool]:
        """The id that a request gave, or is to give, to its session; and whether that session exists."""
        self._carried_out(guard)
        for known in self._noted(guard):
            session_id = _made(known)
            if session_id is not None:
                exists = self.made_by(self._home.sessions / session_id, guard)
                if exists or fits(guard, known.fingerprint):
                    return session_id, exists
        return None, False

    def made_by(self, path: Path, guard: Mutation) -> bool:
        """True if the session in `path` was created by this request."""
        match Meta(path, "readOnly").get("createdBy") if guard.request_id is not None else None:
            case {"r": guard.request_id, "h": str(fingerprint)}:
                check_same(guard, fingerprint)
                return True
            case _:
                return False

    def moved(self, guard: Mutation) -> str | None:
        """The name in the trash, if this request to delete or undelete was carried out."""
        moves = ((known.result or {}).get("trash") for known in self._carried_out(guard))
        return next((str(name) for name in moves if name is not None), None)

    def purge(self, guard: Mutation) -> dict[str, Any] | None:
        """The note of this request to purge."""
        purges = (known for known in self._carried_out(guard) if known.method == PURGE)
        return next((dict(known.result or {}) for known in purges), None)

    def _carried_out(self, guard: Mutation) -> list[StoredResponse]:
        """The notes of a request id of what did happen, or is about to, last first; each is of this request, else it is
        refused."""
        found = []
        for known in self._noted(guard):
            note = known.result or {}
            session_id = _made(known)
            if session_id is not None:
                counts = self.made_by(self._home.sessions / session_id, guard)
            elif "trash" in note:
                name = str(note["trash"])
                there = parse_trash_name(name) is not None and status(self._home.trash / name) is not None
                counts = note.get("done") is True or there is (known.method == DELETE)
            else:
                counts = True
            if counts:
                check_same(guard, known.fingerprint)
                found.append(known)
        return found

    def _noted(self, guard: Mutation) -> list[StoredResponse]:
        """The notes of a request id, last first."""
        if guard.request_id is None:
            return []
        names = (guard.request_id, _hashed(guard.request_id))
        self._own.read()
        found = [known for known in reversed(self._file.read()) if known.request_id in names]
        if found:
            self._fetch_all()  # what is there shows which of them were carried out
        return found

    def note(self, guard: Mutation, facts: Mapping[str, Any]) -> None:
        """Note, durably, what a request is about to do, or has done."""
        if guard.request_id is not None:
            line = _line(guard.request_id, guard, facts)
            self._locked("note a request", lambda: self._file.append([line]))

    def reserve(self, guard: Mutation, session_id: str) -> str:
        """Note the id that a request is about to give to its session; returns the one that counts, which another process
        may have noted for the same request just now."""
        if guard.request_id is None:
            return session_id
        line = _line(guard.request_id, guard, {"sessionId": session_id})

        def reserved() -> str:
            for known in reversed(self._file.read()):
                noted = _made(known)
                if known.request_id == guard.request_id and noted is not None and fits(guard, known.fingerprint):
                    return noted
            self._file.append([line])
            return session_id

        return self._locked("note a request", reserved)

    def note_purged(self, guard: Mutation, answer: Mapping[str, Any]) -> None:
        """Note, durably, what a request to purge is answered with, in the place of what it was about to do."""
        if guard.request_id is not None:
            line = _line(guard.request_id, guard, answer)
            known = line["r"], line["m"]
            self._rewrite(lambda request: None if (request.get("r"), request.get("m")) == known else request, line)

    def forget_purged(self, names: Collection[str], last: Collection[str], made: Collection[tuple[str, str]]) -> None:
        """Forget the requests that made, deleted and brought back sessions that are removed for good.

        That a deletion was carried out stays known under a hash of its id: a repeat must not delete a namesake. And in
        what a purge noted that it was about to do, what is gone is marked: what was undeleted meanwhile is not.

        Args:
            names: Of the directories in the trash.
            last: The ids of which the store has no other session, in the trash either.
            made: The ids of the sessions, each with the request id that made it.
        """

        def change(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
            note = members_of(request.get("v"))
            purging = note.get("purging")
            if isinstance(purging, list):
                return {**request, "v": {**note, "purging": [_marked(each, names) for each in purging]}}
            session_id = note.get("sessionId")
            if isinstance(session_id, str):
                return None if session_id in last or (session_id, str(request.get("r"))) in made else request
            name = note.get("trash")
            if not isinstance(name, str) or not (name in names or name.partition("~")[0] in last):
                return request
            if note.get("done") is not True and (request.get("m") != DELETE or name not in names):
                return None  # it was not carried out
            used = str(request.get("r", ""))
            return {
                **{key: value for key, value in request.items() if key in ("m", "s")},
                "r": used if used.startswith(_HASHED) else _hashed(used),
                "h": "",
                "v": {"trash": "", "done": True},
            }

        self._rewrite(change)

    def forget_fingerprints(self, session_id: str, redact: Callable[[str], str] = str) -> None:
        """Take out, as `redact` does, something of the ids of the requests that made or moved a session. Of these no
        fingerprint is kept either: it would tell who guesses their params."""

        def change(request: Mapping[str, Any]) -> Mapping[str, Any]:
            note = members_of(request.get("v"))
            about = str(note.get("sessionId", note.get("trash", "")))
            if about.partition("~")[0] != session_id:
                return request
            return {**request, "h": "", "r": redact(str(request.get("r", "")))}

        self._rewrite(change)

    def _rewrite(
        self, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None], *more: Mapping[str, Any]
    ) -> None:
        """Rewrite the file in one step, without what a killed process left of it."""

        def rewrite() -> None:
            self._file.rewrite(change, more)
            for name in list_directory(self._directory):
                if _TEMPORARY.fullmatch(name) and is_regular(self._directory / name):
                    remove_file(self._directory / name)

        self._locked("rewrite the requests", rewrite)

    def _locked(self, work: str, change: Callable[[], T]) -> T:
        """Do `change` while others change nothing; again, once, where it is known that nothing was changed."""
        try:
            with self._lock(work):
                return change()
        except StorageFailureError as error:
            if not error.unchanged:
                raise
        with self._lock(work):
            return change()

    @contextmanager
    def _lock(self, work: str) -> Iterator[None]:
        with storage_errors(work, self._home.path), self._own.changing():
            self._file = RequestFile(self._directory)  # others may have written to it
            yield


def _line(request_id: str, guard: Mutation, facts: Mapping[str, Any]) -> dict[str, Any]:
    return encode(StoredResponse(request_id, guard.fingerprint, short(guard.method), facts))


def _made(known: StoredResponse) -> str | None:
    """The session that a noted request was to make; None where it was none of these."""
    session_id = (known.result or {}).get("sessionId")
    return session_id if isinstance(session_id, str) and is_session_id(session_id) else None


def _marked(purging: Any, names: Collection[str]) -> Any:
    """Mark a session that a purge was about to remove as gone. Its name is not kept where the request named it."""
    if not isinstance(purging, dict) or purging.get("name") not in names:
        return purging
    return {**purging, "gone": True, "name": purging["name"] if purging.get("session_id") else ""}


def _hashed(request_id: str) -> str:
    """The hash that replaces a request id that is not to be kept."""
    return _HASHED + blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
