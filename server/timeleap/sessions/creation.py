"""Making sessions, new ones and forks: built aside, then put in place in one step (G3 for whole sessions).

The request that makes one is known in two places: in the session (`createdBy` in its `timeleap.json`), and, noted
before, in the home's `requests.jsonl` with the id the session is to get. So a repeat finds the session it made; a note
whose session does not exist says nothing, and the repeat makes it under that id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeleap import clock
from timeleap.errors import InvalidInputError, SessionExistsError, StorageFailureError
from timeleap.sessions import files
from timeleap.sessions.home import Home
from timeleap.sessions.info import LOG_NAME
from timeleap.sessions.meta import FILE_NAME as META_NAME
from timeleap.sessions.meta import VERSION, Meta, subagent_members
from timeleap.sessions.names import is_session_id, new_session_id
from timeleap.sessions.outcomes import AutoCheckpoint, Guard, Parent, Subagent
from timeleap.sessions.requests import Known, RequestFile, decode, encode, short
from timeleap.sessions.statefile import FILE_NAME as STATE_NAME
from timeleap.sessions.statefile import VERSION as STATE_VERSION
from timeleap.sessions.statefile import approval_members
from timeleap.sessions.statefile import subagent_members as state_subagents
from timeleap.storage.durable import atomic_write
from timeleap.storage.forking import fork_log
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import system_prompt_record

Json = dict[str, Any]


class Births:
    """Who made which session: the request ids of creations, for a whole home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file = RequestFile(home.path)

    def find(self, guard: Guard) -> tuple[str | None, bool]:
        """The id a request gave, or is to give, to its session; and whether that session exists.

        Raises:
            InvalidInputError: The request id was used for another session.
        """
        if guard.request_id is None:
            return None, False
        for name, known in reversed(list(self._file.read())):
            session_id = (known.result or {}).get("sessionId")
            if name == guard.request_id and isinstance(session_id, str) and is_session_id(session_id):
                exists = self.made_by(self._home.sessions / session_id, guard)
                return (session_id, exists) if exists or known.fingerprint == guard.fingerprint else (None, False)
        return None, False

    def made_by(self, path: Path, guard: Guard) -> bool:
        """Whether the session in `path` was made by this request.

        Raises:
            InvalidInputError: By this request id, but another request.
        """
        if guard.request_id is None:
            return False
        for name, known in decode([{"v": {}, **(Meta(path, "readOnly").get("createdBy") or {})}]):
            if name == guard.request_id:
                if known.fingerprint != guard.fingerprint:
                    text = f"requestId {name!r} was used to make another session; choose a new one for each request"
                    problem = {"loc": ["requestId"], "msg": "used for another request", "type": "request_id"}
                    raise InvalidInputError(text, errors=[problem])
                return True
        return False

    def announce(self, guard: Guard, session_id: str) -> None:
        """Note, durably, which id the request's session is about to get."""
        if guard.request_id is None:
            return
        line = encode(guard.request_id, Known(guard.fingerprint, short(guard.method), {"sessionId": session_id}))
        try:
            with files.locked(self._home.path / ".requests.lock"):
                self._file.append([line])
        except OSError as error:
            raise StorageFailureError.of(error, "note a request", self._home.path) from error


def free_id(home: Home, wanted: str | None) -> str:
    """`wanted` if nobody has it, else a new one where none is wanted.

    Raises:
        SessionExistsError: Somebody has it.
    """
    if wanted is None:
        return new_session_id()
    if (taken := home.twin(wanted)) is not None:
        why = "is taken" if taken == wanted else f"is taken: {taken} differs from it only by case"
        raise SessionExistsError(f"session id {wanted} {why}", sessionId=wanted)
    return wanted


@dataclass(frozen=True, slots=True)
class Traits:
    """What a new session is given."""

    title: str | None = None
    system_prompt: str | None = None
    workspace: str | None = None
    auto_checkpoint: AutoCheckpoint | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """What a fork takes from a session.

    Attributes:
        log: The log as it is at the moment.
        keep_lines: How many of its lines.
        parent: Where the fork comes from.
        traits: Title, workspace, checkpoints before turns.
        subagents: All of them.
        state: The other fields of `state.json`.
    """

    log: StoredLog
    keep_lines: int
    parent: Parent
    traits: Traits
    subagents: tuple[Subagent, ...]
    state: Mapping[str, Any]


def build(directory: Path, traits: Traits, guard: Guard) -> None:
    """Write a new session into an empty directory. Blocking.

    Raises:
        StorageFailureError: It could not be written.
    """
    _write_meta(directory, guard, _members(traits))
    if traits.title is not None:
        state = {"version": STATE_VERSION, "custom_title": traits.title, "title_generated": True}
        files.write_document(directory / STATE_NAME, state)
    log = b"" if traits.system_prompt is None else system_prompt_record(traits.system_prompt).body + b"\n"
    try:
        atomic_write(directory / LOG_NAME, log)
    except OSError as error:
        raise StorageFailureError.of(error, "make the log", directory / LOG_NAME) from error


def build_fork(directory: Path, copy: Copy, guard: Guard) -> None:
    """Write a fork into an empty directory: approvals off, not archived. Blocking.

    Raises:
        CorruptedError: A line of the log is not what was written.
        StorageFailureError: It could not be written.
    """
    copied = fork_log(copy.log, copy.keep_lines, directory / LOG_NAME)
    parent = {"sessionId": copy.parent.session_id, "checkpointUid": copy.parent.checkpoint_uid}
    members = {
        **_members(copy.traits),
        "parent": {name: value for name, value in parent.items() if value is not None},
        "subagents": subagent_members(copy.subagents) or None,
        # The records bring the parent's request ids along, which are none of this session's.
        "inheritedLines": copied.lines,
    }
    _write_meta(directory, guard, members)
    state = {
        "version": STATE_VERSION,
        **copy.state,
        "approval": approval_members(False, False, ()),
        "custom_title": copy.traits.title,
        "title_generated": True,
        "archived": False,
        "archived_at": None,
    }
    if copy.subagents:
        state["dynamic_subagents"] = state_subagents(copy.subagents)
    files.write_document(directory / STATE_NAME, state)


def _members(traits: Traits) -> Json:
    return {
        "workspace": traits.workspace,
        "autoCheckpoint": None if traits.auto_checkpoint == "off" else traits.auto_checkpoint,
    }


def _write_meta(directory: Path, guard: Guard, members: Mapping[str, Any]) -> None:
    known: Json = {
        "version": VERSION,
        "uid": clock.new_uid(32),
        "createdAt": clock.now_iso(),
        "epoch": int(clock.now()),
        **members,
    }
    if guard.request_id is not None:
        known["createdBy"] = {"r": guard.request_id, "h": guard.fingerprint, "m": short(guard.method)}
    files.write_document(directory / META_NAME, {name: value for name, value in known.items() if value is not None})
