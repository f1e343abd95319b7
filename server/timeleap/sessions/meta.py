"""`timeleap.json`: what is ours beside a log, in one file, so that one atomic write is one step.

Members: `version`, `uid` (of the session, for ever), `createdAt`, `createdBy` (the request that made the session),
`workspace`, `parent`, `autoCheckpoint`, `subagents`, `pendingDMail`, `pins`, `seals`, `epoch` and `rotation` (parts of
the head), `timelines` (facts by timeline id), `importedFrom` (see `timeleap.features.transfer.sanitize`), `journal`
(see `timeleap.sessions.requests`), `requestsMarked` (the records of its requests all say whose they are), `requestsOf`
(what they say, where this file was lost), `requestsRedacted` (the number of the newest request at the last redaction:
fingerprints up to it do not count), `removing` (see `timeleap.sessions.session_state`) and `undo` (see
`timeleap.sessions.past`). All are optional; members nobody here knows are kept.

The file belongs to the holder of the session's lock; a follower reads it again when the owner has written.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from timeleap import clock
from timeleap.sessions import files, past, session_files
from timeleap.sessions.files import (
    MAX_NUMBER,
    Check,
    Problems,
    choice,
    date,
    flag,
    items,
    json_value,
    model,
    table,
    text,
    whole,
    wire_value,
)
from timeleap.sessions.requests import HIGHEST
from timeleap.sessions.seal import Seal
from timeleap.sessions.shapes import Access, AutoCheckpoint, Parent, PendingDMail, Subagent
from timeleap.sessions.statefile import parse_subagents
from timeleap.storage.engine import MAX_ROTATION, TimelineFacts, TimelineReason, highest_noted

VERSION = 1
OURS = frozenset({"timelines", "journal", "seals", "undo"})
"""Members whose size no client decides."""
REASONS = frozenset(get_args(TimelineReason))
REQUESTS_REDACTED: Final = "requestsRedacted"
ORIGIN_DIGITS = 8
"""Of a session's uid, in the records of its requests."""

REQUEST_LINE: Final = model(
    {"r": text(), "h": text(), "m": text(), "v": wire_value, "x": items(text()), "n": wire_value},
    required=("r", "h", "m", "v"),
)
"""A request as the journal keeps it, and `requests.jsonl` on a line."""


def _date_or_empty(value: Any, where: str, problems: Problems) -> Any:
    """Earlier releases wrote an empty text where nobody knew."""
    return value if value == "" else date(value, where, problems)


MODEL: Final[Mapping[str, Check]] = {
    "uid": text(r"[A-Za-z0-9._-]{1,64}"),
    "createdAt": date,
    "createdBy": model({"r": text(), "h": text(), "m": text()}, required=("r", "h", "m")),
    "workspace": text(empty=False),
    "parent": model({"sessionId": text(most=200), "checkpointUid": text(most=200)}, required=("sessionId",)),
    "autoCheckpoint": choice(*get_args(AutoCheckpoint)),
    "subagents": items(model({"name": text(), "systemPrompt": text()}, required=("name", "systemPrompt"))),
    "pendingDMail": model(
        {
            "checkpointId": whole(-MAX_NUMBER),
            "checkpointUid": text(most=200),
            "message": text(),
            "fromSessionId": text(most=200),
        },
        required=("checkpointId", "checkpointUid", "message"),
    ),
    "pins": items(text(empty=False)),
    "seals": items(
        model(
            {"revision": whole(), "mac": text(most=200), "changedAt": date, "changedBy": text()},
            required=("revision", "mac"),
        )
    ),
    "epoch": whole(),
    "rotation": whole(0, MAX_ROTATION),
    "inheritedLines": whole(),
    "timelines": table(
        model(
            {
                "reason": choice(*sorted(REASONS)),
                "createdAt": _date_or_empty,
                "extra": table(json_value),
                "counts": items(whole()),
            }
        )
    ),
    "importedFrom": model(
        {
            "format": text(),
            "sessionId": text(),
            "uid": text(),
            "losses": items(model({"kind": text(), "message": text()}, required=("kind", "message"))),
        }
    ),
    "journal": model(
        {"requests": items(REQUEST_LINE), "timelineId": text(), "length": whole(), "chain": text()},
        required=("requests",),
    ),
    "removing": model({"timelines": items(text()), "quarantine": items(text())}),
    "requestsMarked": flag,
    "requestsOf": text(),
    REQUESTS_REDACTED: whole(0, HIGHEST),
    past.MEMBER: past.CHECK,
}
"""What each member has to be. A new member is one more row; one that is not here is kept as it stands."""


def _add_version(members: dict[str, Any]) -> dict[str, Any]:
    """Version 0: a file without a version is one that somebody wrote by hand."""
    return {"version": 1, **members}


MIGRATIONS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_add_version,)
"""`MIGRATIONS[n]` turns a document of version n into one of version n + 1."""


def decode(document: Mapping[str, Any]) -> files.Decoded:
    return files.decode(document, MODEL, VERSION, unversioned=0, migrations=MIGRATIONS)


class Meta:
    """The `timeleap.json` of one session directory; also the `Notes` of its storage engine.

    Read at first use: the engine asks for its notes when it holds the session's lock, so nothing stale is believed. An
    owner completes a file that lacks uid or epoch (then `uid_is_new`), a reader writes nothing.
    """

    def __init__(self, directory: Path, access: Access) -> None:
        self.path = directory / session_files.META_NAME
        self._access = access
        self._lock = threading.RLock()
        self._document: dict[str, Any] | None = None
        self.uid_is_new = False
        self._problem: str | None = None
        self._not_known: dict[str, Any] = {}
        self._warnings: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Read the file again at the next use."""
        with self._lock:
            self._document = None

    @property
    def warnings(self) -> list[dict[str, Any]]:
        _ = self._members
        return self._warnings

    @property
    def problem(self) -> str | None:
        """Problem of the file as it is on disk, in words."""
        _ = self._members
        return self._problem

    def write(self, changes: Mapping[str, Any]) -> None:
        """Change members, durably, in one step; a value of None removes a member.

        Raises:
            StorageFailureError, TooLargeError: Nothing was changed, neither on disk nor here.
        """
        files.check_size({name: value for name, value in changes.items() if name not in OURS})
        with self._lock:
            members = {"version": VERSION, **self._members, **changes}
            members = {name: value for name, value in members.items() if value is not None}
            not_known = {name: value for name, value in self._not_known.items() if name not in changes}
            aside = files.move_aside(self.path) if self._problem is not None else None
            files.write_document(self.path, {**not_known, **members})
            self._document, self._not_known = members, not_known
            if aside is not None:
                self._warnings = []
                self._warn("metaDamaged", f"{self._problem}; the damaged file is kept as {aside.name}", aside.name)
                self._problem = None

    @property
    def _members(self) -> dict[str, Any]:
        with self._lock:
            if self._document is None:
                self._load()
            assert self._document is not None
            return self._document

    def _load(self) -> None:
        document = files.read_document(self.path)
        decoded = decode(document.members) if document.present and document.problem is None else files.Decoded({})
        self._document, self._not_known = decoded.members, decoded.not_known
        self._problem = document.problem or (
            f"{session_files.META_NAME}: {decoded.problem}" if decoded.problem else None
        )
        self._warnings = []
        if document.problem is not None:
            self._warn(
                "metaDamaged", f"{self._problem}; what it said is lost to this session, the damaged file is kept"
            )
        elif self._problem is not None:
            text = f"{self._problem}; the rest of it counts, and the next save keeps the damaged file"
            self._warn("metaDamaged", text)
        if decoded.newer is not None:
            text = f"{session_files.META_NAME} is of version {decoded.newer}; what this release does not know is kept"
            self._warn("newerVersion", text)
        if self._access == "owner" and not (self.uid and self._number("epoch")):
            self.uid_is_new = not self.uid
            # What heads the session had before is not known. Milliseconds are more than any epoch counted up from the
            # seconds of a birth, so the new one is one that nobody has seen.
            self.write(
                {
                    "uid": self.uid or clock.new_uid(32),
                    "createdAt": self.created_at or clock.now_iso(),
                    "epoch": self._number("epoch") or int(clock.now() * 1000),
                }
            )

    def _warn(self, kind: str, message: str, file: str = session_files.META_NAME) -> None:
        self._warnings.append({"kind": kind, "message": message, "file": file})

    @property
    def epoch(self) -> int:
        """Counts the times the log's meaning changed without its bytes being appended to; begins at the time of
        birth."""
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
        known = self._object("timelines").get(timeline_id)
        if known is None:
            return None
        return TimelineFacts(known.get("reason", "unknown"), known.get("createdAt", ""), known.get("extra", {}))

    def with_facts(self, timeline_id: str, facts: TimelineFacts) -> dict[str, Any]:
        """The member `timelines` with the facts of one more."""
        members = {"reason": facts.reason, "createdAt": facts.created_at, "extra": facts.extra}
        return {**self._object("timelines"), timeline_id: {name: value for name, value in members.items() if value}}

    def without_facts(self, timeline_ids: Collection[str]) -> dict[str, Any]:
        """The member `timelines` without some."""
        return {name: facts for name, facts in self._object("timelines").items() if name not in timeline_ids}

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
        return self._text("createdAt")

    @property
    def workspace(self) -> str | None:
        """URI of the folder the session is about."""
        return self._text("workspace")

    @property
    def parent(self) -> Parent | None:
        """Where the session was forked from."""
        parent = self.get("parent")
        return Parent(parent["sessionId"], parent.get("checkpointUid")) if parent is not None else None

    @property
    def auto_checkpoint(self) -> AutoCheckpoint:
        value = self.get("autoCheckpoint")
        return value if value in ("turn", "step") else "off"

    @property
    def subagents(self) -> tuple[Subagent, ...] | None:
        """The sub-agents, or None where none was ever put or removed here."""
        many = self.get("subagents")
        return parse_subagents(many, "systemPrompt") if many is not None else None

    @property
    def pending_dmail(self) -> PendingDMail | None:
        """The D-Mail on record; whether its checkpoint still exists is for the log to say."""
        note = self.get("pendingDMail")
        if note is None:
            return None
        return PendingDMail(note["checkpointId"], note["checkpointUid"], note["message"], note.get("fromSessionId"))

    @property
    def pins(self) -> tuple[str, ...]:
        """Texts that no compaction may lose."""
        return tuple(self.get("pins") or ())

    @property
    def origin(self) -> str:
        """The origin written in the records of the session's requests."""
        return self.uid[:ORIGIN_DIGITS]

    @property
    def origins(self) -> frozenset[str]:
        """The origins that are its own: another one only where this file was lost, and with it the uid of then."""
        return frozenset((self.origin, self._text("requestsOf") or self.origin))

    def is_of(self, uid: str) -> bool:
        """True if the session has this uid, or had it before this file was lost."""
        return uid[:ORIGIN_DIGITS] in self.origins

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
    def requests_redacted(self) -> int:
        """The number of the newest request that has lost its fingerprint to a redaction; -1 where there was none."""
        number = self.get(REQUESTS_REDACTED)
        return -1 if number is None else int(number)

    @property
    def seals(self) -> tuple[Seal, ...]:
        """The seals of the approvals, older first: the one in force, and while a change is being made the next one."""
        many = self.get("seals") or ()
        return tuple(Seal(seal["revision"], seal["mac"], seal.get("changedAt"), seal.get("changedBy")) for seal in many)

    def _number(self, name: str) -> int:
        return int(self.get(name) or 0)

    def _text(self, name: str) -> str | None:
        value = self.get(name)
        return None if value is None else str(value)

    def _object(self, name: str) -> dict[str, Any]:
        return dict(self.get(name) or {})


def seal_members(seal: Seal) -> dict[str, Any]:
    """A seal as the file keeps it."""
    members = {"revision": seal.revision, "mac": seal.mac, "changedAt": seal.changed_at, "changedBy": seal.changed_by}
    return {name: value for name, value in members.items() if value is not None}


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
