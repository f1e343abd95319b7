"""`timeleap.json`: what is ours beside a log, in one file, so that one atomic write is one step.

Members: `version`, `uid` (of the session, for ever), `createdAt`, `createdBy` (the request that made the session),
`workspace`, `parent`, `autoCheckpoint`, `subagents`, `pendingDMail`, `pins`, `seals`, `epoch` and `rotation` (parts of the
head), `timelines` (facts by timeline id), `importedFrom` (see `timeleap.sessions.transfer.adoption`), `journal` (see
`timeleap.sessions.requests`), `requestsMarked` (the records of its requests all say whose they are), `requestsOf` (what
they say, where this file was lost), `removing` (see `timeleap.sessions.removal`) and `undo` (see
`timeleap.sessions.undo`). All are optional; members nobody here knows are kept.

The file belongs to the holder of the session's lock; a follower reads it again when the owner has written.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, get_args

from timeleap import clock
from timeleap.sessions import files, session_files
from timeleap.sessions.outcomes import Access, AutoCheckpoint, Parent, PendingDMail, Subagent
from timeleap.sessions.seal import Seal
from timeleap.sessions.statefile import parse_subagents
from timeleap.storage.engine import TimelineFacts, TimelineReason
from timeleap.storage.notes import highest_noted

FILE_NAME = session_files.META
VERSION = 1
OURS = frozenset({"timelines", "journal", "seals", "undo"})
"""Members whose size no client decides."""
REASONS = frozenset(get_args(TimelineReason))
ORIGIN_DIGITS = 8
"""Of a session's uid, in the records of its requests."""


def _add_version(members: dict[str, Any]) -> dict[str, Any]:
    """Version 0: a file without a version is one that somebody wrote by hand."""
    return {"version": 1, **members}


MIGRATIONS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_add_version,)
"""`MIGRATIONS[n]` turns a document of version n into one of version n + 1."""


class Meta:
    """The `timeleap.json` of one session directory; also the `Notes` of its storage engine.

    Read at first use: the engine asks for its notes when it holds the session's lock, so nothing stale is believed.

    Args:
        directory: The session's directory.
        access: An owner completes a file that lacks uid or epoch, a reader writes nothing.

    Attributes:
        uid_is_new: The file had no uid, and got one when it was read.
    """

    def __init__(self, directory: Path, access: Access) -> None:
        self.path = directory / FILE_NAME
        self._access = access
        self._lock = threading.RLock()
        self._document: dict[str, Any] | None = None
        self._damaged = False
        self.uid_is_new = False
        self._warnings: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Read the file again at the next use."""
        with self._lock:
            self._document = None

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """What was wrong with the file."""
        _ = self._members
        return self._warnings

    def write(self, changes: Mapping[str, Any]) -> None:
        """Change members, durably, in one step; a value of None removes a member.

        Raises:
            StorageFailureError: Nothing was changed, neither on disk nor here.
            TooLargeError: A member would be too large to be read again; nothing was changed.
        """
        files.check_size({name: value for name, value in changes.items() if name not in OURS})
        with self._lock:
            members = {"version": VERSION, **self._members, **changes}
            members = {name: value for name, value in members.items() if value is not None}
            if self._damaged:
                files.move_aside(self.path)
                self._damaged = False
            files.write_document(self.path, members)
            self._document = members

    @property
    def _members(self) -> dict[str, Any]:
        with self._lock:
            if self._document is None:
                self._load()
            assert self._document is not None
            return self._document

    def _load(self) -> None:
        document = files.read_document(self.path)
        members, problem = document.members, document.problem
        version = members.get("version", 0)
        if problem is None and (type(version) is not int or version < 0):
            members, problem = {}, f"{FILE_NAME}: version is not a number from 0"
        if problem is None and document.present:
            for step in MIGRATIONS[version:]:
                members = step(members)
        self._document = members
        self._damaged = problem is not None
        self._warnings = []
        if problem is not None:
            self._warn("metaDamaged", f"{problem}; what it said is lost to this session, the damaged file is kept")
        elif version > VERSION:
            self._warn("newerVersion", f"{FILE_NAME} is of version {version}; what this release does not know is kept")
        if self._access == "owner" and not (self.uid and self._number("epoch")):
            self.uid_is_new = not self.uid
            # The new epoch is one nobody has seen: what heads the session had before is not known.
            self.write(
                {
                    "uid": self.uid or clock.new_uid(32),
                    "createdAt": self.created_at or clock.now_iso(),
                    "epoch": self._number("epoch") or int(clock.now()),
                }
            )

    def _warn(self, kind: str, message: str) -> None:
        self._warnings.append({"kind": kind, "message": message, "file": FILE_NAME})

    @property
    def epoch(self) -> int:
        """Counts the times the log's meaning changed without its bytes being appended to; begins at the time of birth."""
        return self._number("epoch")

    @property
    def rotation(self) -> int:
        """The highest timeline number ever used."""
        return self._number("rotation")

    @property
    def noted(self) -> int:
        """The highest timeline number facts were noted for, also where the timeline never came to be, or is gone."""
        return highest_noted(self._object("timelines"))

    def bump_epoch(self) -> None:
        """Count `epoch` up, durably."""
        if self._access == "owner":
            self.write({"epoch": self.epoch + 1})

    def remember(
        self, *, rotation: int | None = None, counts: Mapping[str, tuple[int, int, int]] | None = None
    ) -> None:
        """Keep what the engine wants remembered; a follower's engine has nothing to say."""
        if self._access != "owner":
            return
        changes: dict[str, Any] = {}
        if rotation is not None and rotation > self.rotation:
            changes["rotation"] = rotation
        if counts:
            timelines = dict(self._object("timelines"))
            for name, numbers in counts.items():
                timelines[name] = {**timelines.get(name, {}), "counts": list(numbers)}
            changes["timelines"] = timelines
        if changes:
            self.write(changes)

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        """What is remembered about a timeline, or None."""
        known = self._object("timelines").get(timeline_id)
        if not isinstance(known, dict):
            return None
        reason: TimelineReason = known["reason"] if known.get("reason") in REASONS else "unknown"
        extra = known.get("extra")
        return TimelineFacts(
            reason=reason,
            created_at=str(known.get("createdAt", "")),
            extra=extra if isinstance(extra, dict) else {},
        )

    def with_facts(self, timeline_id: str, facts: TimelineFacts) -> dict[str, Any]:
        """The member `timelines` with the facts of one more."""
        members = {"reason": facts.reason, "createdAt": facts.created_at, "extra": facts.extra}
        return {**self._object("timelines"), timeline_id: {name: value for name, value in members.items() if value}}

    def without_facts(self, timeline_ids: Collection[str]) -> dict[str, Any]:
        """The member `timelines` without some."""
        return {name: one for name, one in self._object("timelines").items() if name not in timeline_ids}

    def get(self, name: str) -> Any:
        """A member as it stands in the file, or None."""
        return self._members.get(name)

    def names(self) -> list[str]:
        """The members of the file."""
        return list(self._members)

    @property
    def uid(self) -> str:
        """The session's uid; empty where it has none yet."""
        return self._text("uid") or ""

    @property
    def created_at(self) -> str | None:
        """ISO-8601 UTC."""
        return self._text("createdAt")

    @property
    def workspace(self) -> str | None:
        """URI of the folder the session is about."""
        return self._text("workspace")

    @property
    def parent(self) -> Parent | None:
        """Where the session was forked from."""
        parent = self._object("parent")
        session_id, uid = parent.get("sessionId"), parent.get("checkpointUid")
        return Parent(session_id, uid if isinstance(uid, str) else None) if isinstance(session_id, str) else None

    @property
    def auto_checkpoint(self) -> AutoCheckpoint:
        """Where checkpoints are written automatically."""
        value = self.get("autoCheckpoint")
        return value if value in ("turn", "step") else "off"

    @property
    def subagents(self) -> tuple[Subagent, ...] | None:
        """The sub-agents, or None where none was ever put or removed here."""
        many = self.get("subagents")
        return parse_subagents(many, "systemPrompt") if isinstance(many, list) else None

    @property
    def pending_dmail(self) -> PendingDMail | None:
        """The D-Mail on record; whether its checkpoint still exists is for the log to say."""
        one = self._object("pendingDMail")
        checkpoint_id, uid, message = (one.get(name) for name in ("checkpointId", "checkpointUid", "message"))
        if isinstance(checkpoint_id, int) and isinstance(uid, str) and isinstance(message, str):
            sender = one.get("fromSessionId")
            return PendingDMail(checkpoint_id, uid, message, sender if isinstance(sender, str) else None)
        return None

    @property
    def pins(self) -> tuple[str, ...]:
        """What no compaction may lose."""
        many = self.get("pins")
        return tuple(one for one in many if files.is_text(one) and one) if isinstance(many, list) else ()

    @property
    def origin(self) -> str:
        """What the records of the session's requests say of whose they are."""
        return self.uid[:ORIGIN_DIGITS]

    @property
    def origins(self) -> frozenset[str]:
        """The origins that are its own: another one only where this file was lost, and with it the uid of then."""
        before = self._text("requestsOf")
        return frozenset((self.origin, before or self.origin))

    @property
    def unmarked_lines(self) -> int:
        """How many of the log's first lines have nothing that counts if they do not say whose they are: all of them,
        but for a session of an earlier release."""
        return sys.maxsize if self.get("requestsMarked") is True else self.inherited_lines

    @property
    def inherited_lines(self) -> int:
        """How many of the log's first lines a fork brought along."""
        return self._number("inheritedLines")

    @property
    def seals(self) -> tuple[Seal, ...]:
        """The seals of the approvals, older first: the one in force, and while a change is being made the next one."""
        found = []
        many = self.get("seals")
        for one in many if isinstance(many, list) else []:
            if isinstance(one, dict) and isinstance(one.get("revision"), int) and isinstance(one.get("mac"), str):
                changed_at, changed_by = one.get("changedAt"), one.get("changedBy")
                found.append(
                    Seal(
                        one["revision"],
                        one["mac"],
                        changed_at if isinstance(changed_at, str) else None,
                        changed_by if isinstance(changed_by, str) else None,
                    )
                )
        return tuple(found)

    def _number(self, name: str) -> int:
        value = self.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def _text(self, name: str) -> str | None:
        value = self.get(name)
        return value if files.is_text(value) else None

    def _object(self, name: str) -> dict[str, Any]:
        value = self.get(name)
        return value if isinstance(value, dict) else {}


def seal_members(seal: Seal) -> dict[str, Any]:
    """A seal as the file keeps it."""
    members = {"revision": seal.revision, "mac": seal.mac, "changedAt": seal.changed_at, "changedBy": seal.changed_by}
    return {name: value for name, value in members.items() if value is not None}


def subagent_members(subagents: tuple[Subagent, ...]) -> list[dict[str, str]]:
    """Sub-agents as the file keeps them."""
    return [{"name": one.name, "systemPrompt": one.system_prompt} for one in subagents]


def dmail_members(dmail: PendingDMail | None) -> dict[str, Any] | None:
    """A pending D-Mail as the file keeps it."""
    if dmail is None:
        return None
    sender = {"fromSessionId": dmail.sender} if dmail.sender is not None else {}
    return {
        "checkpointId": dmail.checkpoint_id,
        "checkpointUid": dmail.checkpoint_uid,
        "message": dmail.message,
        **sender,
    }
