"""What was asked of the store as a whole, by request id: making sessions, deleting them, bringing them back (G8).

Each request is noted in the home's `requests.jsonl` before it is carried out, with what will show that it was:

- making: the id the session is to get. The session names its request (`createdBy` in its `timeleap.json`); while there
  is no such session the note says nothing, and a repeat makes it under that id;
- moving: the name of the directory in the trash. That it is there, or is not there any more, shows that a delete, or an
  undelete, was carried out; a second note says so for good, since a later move would hide it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.sessions import files
from timeleap.sessions.answers import Known
from timeleap.sessions.home import Home
from timeleap.sessions.meta import Meta
from timeleap.sessions.names import is_session_id, parse_trash_name
from timeleap.sessions.outcomes import Guard
from timeleap.sessions.requests import RequestFile, decode, encode, short
from timeleap.storage.durable import status

DELETE = "delete"
UNDELETE = "undelete"


class Ledger:
    """The request ids of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file = RequestFile(home.path)

    def making(self, guard: Guard) -> tuple[str | None, bool]:
        """The id that a request gave, or is to give, to its session; and whether that session exists.

        Raises:
            InvalidInputError: The request id was used for another session.
        """
        for known in self._noted(guard):
            session_id = (known.result or {}).get("sessionId")
            if isinstance(session_id, str) and is_session_id(session_id):
                exists = self.made_by(self._home.sessions / session_id, guard)
                if exists or known.fingerprint in (guard.fingerprint, ""):
                    return session_id, exists
        return None, False

    def made_by(self, path: Path, guard: Guard) -> bool:
        """Whether the session in `path` was made by this request.

        Raises:
            InvalidInputError: By this request id, but another request.
        """
        if guard.request_id is None:
            return False
        made_by = Meta(path, "readOnly").get("createdBy")
        for name, known in decode([{"v": {}, **made_by}] if isinstance(made_by, dict) else []):
            if name == guard.request_id:
                _same(guard, known)
                return True
        return False

    def moved(self, guard: Guard) -> str | None:
        """The name in the trash, if this request to delete or undelete was carried out.

        Raises:
            InvalidInputError: The request id was used for another request.
        """
        for known in self._noted(guard):
            note = known.result or {}
            if "trash" in note and (note.get("done") is True or self._shows(known.method, str(note["trash"]))):
                _same(guard, known)
                return str(note["trash"])
        return None

    def note(self, guard: Guard, facts: Mapping[str, Any]) -> None:
        """Note, durably, what a request is about to do, or has done.

        Raises:
            StorageFailureError: It could not be noted.
        """
        if guard.request_id is None:
            return
        line = encode(guard.request_id, Known(guard.fingerprint, short(guard.method), facts))
        try:
            with files.locked(self._home.path / ".requests.lock"):
                self._file.append([line])
        except OSError as error:
            raise StorageFailureError.of(error, "note a request", self._home.path) from error

    def forget_fingerprints(self, session_id: str, redact: Callable[[str], str] = str) -> None:
        """Take something out of the ids of the requests that made or moved a session. Of these no fingerprint is kept
        either: it would tell who guesses their params.

        Args:
            session_id: The session.
            redact: What becomes of an id.

        Raises:
            StorageFailureError: The file is as it was.
        """

        def change(one: Mapping[str, Any]) -> Mapping[str, Any]:
            note = one.get("v")
            about = (
                str(note.get("sessionId", note.get("trash", ""))).partition("~")[0] if isinstance(note, dict) else ""
            )
            return {**one, "h": "", "r": redact(str(one.get("r", "")))} if about == session_id else one

        try:
            with files.locked(self._home.path / ".requests.lock"):
                self._file.rewrite(change)
        except OSError as error:
            raise StorageFailureError.of(error, "write the requests anew", self._home.path) from error

    def _noted(self, guard: Guard) -> list[Known]:
        """What was noted of a request id, last first."""
        if guard.request_id is None:
            return []
        return [known for name, known in reversed(self._file.read()) if name == guard.request_id]

    def _shows(self, method: str, name: str) -> bool:
        there = parse_trash_name(name) is not None and status(self._home.trash / name) is not None
        return there if method == DELETE else not there


def _same(guard: Guard, known: Known) -> None:
    if known.fingerprint and known.fingerprint != guard.fingerprint:  # a redaction leaves none
        text = f"requestId {guard.request_id!r} was used for another request; choose a new one for each"
        problem = {"loc": ["requestId"], "msg": "used for another request", "type": "request_id"}
        raise InvalidInputError(text, errors=[problem])
