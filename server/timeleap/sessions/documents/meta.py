"""`timeleap.json`: what is ours beside a log, in one file, so that one atomic write is one step.

Members: `version`, `uid` (of the session, for ever), `createdAt`, `createdBy` (the request that made the session),
`workspace`, `source`, `mirrored` (see `timeleap_agents.mirrors.mirror`), `parent`, `autoCheckpoint`, `subagents`, `pendingDMail`, `pins`, `seals`, `epoch` and `rotation` (parts of
the head), `timelines` (facts by timeline id), `importedFrom` (see `timeleap.features.transfer.sanitize`), `journal`
(see `timeleap.sessions.documents.request_file`), `requestsMarked` (the records of its requests all say whose they are), `requestsOf`
(what they say, where this file was lost), `requestsRedacted` (the number of the newest request at the last redaction:
fingerprints up to it do not count), `removing` (see
`timeleap.sessions.session_state`), `undo` (see `timeleap.sessions.documents.undo_member`), and those of companions (see
`timeleap.sessions.documents.companion_forms`). All are optional; members nobody here knows are kept.

The file belongs to the holder of the session's lock; a follower reads it again when the owner has written.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, get_args

from msgspec import convert
from msgspec.structs import replace

from timeleap import clock
from timeleap.json_value import Json
from timeleap.sessions import past
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import undo_member
from timeleap.sessions.documents.companion_forms import FORMS, with_checks
from timeleap.sessions.documents.json_files import (
    MAX_NUMBER,
    Check,
    Document,
    Problems,
    choice,
    complete,
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
from timeleap.sessions.documents.request_file import HIGHEST
from timeleap.sessions.documents.session_files import AUDIT_NAME, META_NAME, REQUESTS_NAME
from timeleap.sessions.documents.statefile import parse_subagents
from timeleap.sessions.shapes import (
    Access,
    AutoCheckpoint,
    Parent,
    PendingDMail,
    Source,
    Subagent,
    camel_case,
    json_members,
)
from timeleap.storage.durable import is_regular
from timeleap.storage.log_values import MAX_ROTATION, TimelineFacts, TimelineReason, highest_noted
from timeleap_protocol.folder_uri import canonical_folder_uri

T = TypeVar("T")
VERSION = 1
OURS = frozenset({"timelines", "journal", "seals", "undo"})
"""Members whose size no client decides."""
REASONS = frozenset(get_args(TimelineReason))
REQUESTS_REDACTED: Final = camel_case("requests_redacted")
META_DAMAGED: Final = "metaDamaged"
MAX_SOURCE_KIND: Final = 64
MAX_SOURCE_KEY: Final = 4096
"""Characters."""
MISSING: Final = f"{META_NAME} is missing, though there was one"
LOST: Final = "what it said is lost to this session"
ORIGIN_DIGITS = 8
"""Digits of a session's uid in the records of its requests."""

REQUEST_LINE: Final = model(
    {"r": text(), "h": text(), "m": text(), "v": wire_value, "x": items(text()), "n": wire_value},
    required=("r", "h", "m", "v"),
)
"""A request as the journal keeps it, and `requests.jsonl` on a line."""


def _date_or_empty(value: Any, where: str, problems: Problems) -> Any:
    """Earlier releases wrote an empty text where nobody knew."""
    return value if value == "" else date(value, where, problems)


def complete_but(optional: Collection[str], **members: Check) -> Check:
    """An object that has these members, but for some; all by our names."""
    required = tuple(camel_case(name) for name in members if name not in optional)
    return model(json_members(**members), required=required)


MODEL: Final[Mapping[str, Check]] = {
    **json_members(
        uid=text(r"[A-Za-z0-9._-]{1,64}"),
        created_at=date,
        created_by=complete({"r": text(), "h": text(), "m": text()}),
        workspace=text(empty=False),
        source=model(
            {"kind": text(most=MAX_SOURCE_KIND), "key": text(most=MAX_SOURCE_KEY), "path": text(empty=False)},
            required=("kind", "key"),
        ),
        mirrored=model(json_members(workspace=text(empty=False), began_in=text(empty=False))),
        parent=complete_but(("checkpoint_uid",), session_id=text(most=200), checkpoint_uid=text(most=200)),
        auto_checkpoint=choice(*get_args(AutoCheckpoint)),
        subagents=items(complete(json_members(name=text(), system_prompt=text()))),
        pending_dmail=complete_but(
            ("from_session_id",),
            checkpoint_id=whole(-MAX_NUMBER),
            checkpoint_uid=text(most=200),
            message=text(),
            from_session_id=text(most=200),
        ),
        pins=items(text(empty=False)),
        seals=items(
            complete_but(
                ("changed_at", "changed_by"),
                revision=whole(),
                mac=text(most=200),
                changed_at=date,
                changed_by=text(),
            )
        ),
        epoch=whole(),
        rotation=whole(0, MAX_ROTATION),
        inherited_lines=whole(),
        timelines=table(
            model(
                json_members(
                    reason=choice(*sorted(REASONS)),
                    created_at=_date_or_empty,
                    extra=table(json_value),
                    counts=items(whole()),
                )
            )
        ),
        imported_from=model(
            json_members(
                format=text(),
                session_id=text(),
                uid=text(),
                losses=items(complete({"kind": text(), "message": text()})),
            )
        ),
        journal=model(
            json_members(requests=items(REQUEST_LINE), timeline_id=text(), length=whole(), chain=text()),
            required=("requests",),
        ),
        removing=model({"timelines": items(text()), "quarantine": items(text())}),
        requests_marked=flag,
        requests_of=text(),
    ),
    REQUESTS_REDACTED: whole(0, HIGHEST),
    undo_member.MEMBER: undo_member.CHECK,
}
"""The type of each member. A new member is one more row; one that is not here is kept as it stands."""


MIGRATIONS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (lambda members: {"version": 1, **members},)
"""`MIGRATIONS[n]` turns a document of version n into one of version n + 1. Version 0 was written by hand."""


def decode(document: Mapping[str, Any]) -> Document:
    return files.decode(document, with_checks(MODEL), VERSION, unversioned=0, migrations=MIGRATIONS)


def _parent(member: Mapping[str, str]) -> Parent:
    return convert(member, Parent)


def _pending_dmail(member: Mapping[str, Any]) -> PendingDMail:
    return convert(member, PendingDMail)


def _subagents(member: list[Any]) -> tuple[Subagent, ...]:
    return parse_subagents(member, camel_case("system_prompt"))


class _Attribute(Generic[T]):
    """A member of the file as an attribute: as `convert` makes it, or `default` where there is none.

    `name` is that of the member, by our name for it; None: that of the attribute.
    """

    def __init__(self, default: T, convert: Callable[[Any], T] = lambda value: value, *, name: str = "") -> None:
        self._name = camel_case(name)
        self._default = default
        self._convert = convert

    def __set_name__(self, _: type[Meta], attribute: str) -> None:
        self._name = self._name or camel_case(attribute)

    def __get__(self, meta: Meta, _: type[Meta]) -> T:
        value = meta.get(self._name)
        return self._default if value is None else self._convert(value)


class Meta:
    """The `timeleap.json` of one session directory; also the `Notes` of its storage engine.

    Read at first use: the engine asks for its notes when it holds the session's lock, so nothing stale is believed. An
    owner completes a file that lacks uid or epoch (then `uid_is_new`), a reader writes nothing.
    """

    uid = _Attribute("")
    created_at = _Attribute[str | None](None)
    created_by = _Attribute[Json | None](None)
    workspace = _Attribute[str | None](None, canonical_folder_uri)
    source = _Attribute[Source | None](None, lambda member: convert(member, Source))
    mirrored = _Attribute(
        False, lambda member: "path" in member, name="source"
    )  # another program writes it, by its file
    imported = _Attribute(False, lambda member: "format" in member, name="imported_from")
    compacted_by_agent = _Attribute(False, lambda member: member.get("kind") == "claude-code", name="source")
    parent = _Attribute[Parent | None](None, _parent)
    auto_checkpoint = _Attribute[AutoCheckpoint]("off")
    # None: never put or removed here.
    subagents = _Attribute[tuple[Subagent, ...] | None](None, _subagents)
    pending_dmail = _Attribute[PendingDMail | None](None, _pending_dmail)  # its checkpoint may be gone
    pins = _Attribute[tuple[str, ...]]((), tuple)
    inherited_lines = _Attribute(0)  # how many of the log's first lines a fork brought along
    # The number of the newest request that has lost its fingerprint to a redaction.
    requests_redacted = _Attribute(-1)
    requests_marked = _Attribute(False)
    _requests_of = _Attribute("", name="requests_of")
    _timelines = _Attribute[dict[str, dict[str, Any]]]({}, name="timelines")

    @property
    def accompanied(self) -> bool:
        """True if settings of a companion were ever given: else it costs nothing."""
        members = (self._document or self._read()).members
        return any(key in members for key in FORMS)

    _judged: tuple[Document | None, bool] = None, False  # whether it is plain

    @property
    def plain(self) -> bool:
        """True if it has no companion and no other program writes it: an append needs no other step."""
        document = self._document or self._read()
        judged, plain = self._judged
        if judged is not document:
            source = document.members.get("source")
            plain = not self.accompanied and (source is None or "path" not in source)
            self._judged = document, plain
        return plain

    # Of `Notes`, which asks for properties.
    @property
    def epoch(self) -> int:
        """Counts the times the log changed otherwise than by an append; begins at the time of birth."""
        return int((self._document or self._read()).members.get("epoch") or 0)

    @property
    def rotation(self) -> int:
        """The highest timeline number ever used."""
        return int(self.get("rotation") or 0)

    def __init__(self, directory: Path, access: Access) -> None:
        self.path = directory / META_NAME
        self._access = access
        self._lock = threading.RLock()
        self._document: Document | None = None
        self._warnings: list[dict[str, Any]] = []
        self.uid_is_new = False

    def refresh(self) -> None:
        """Read the file again at the next use; if it is gone, what it said counts: the folder may be away for a moment."""
        with self._lock:
            if self.existing:
                self._document = None

    @property
    def warnings(self) -> list[dict[str, Any]]:
        self._read()
        return self._warnings

    @property
    def problem(self) -> str | None:
        """Problem of the file as it is on disk, in words."""
        return self._read().problem

    def note_missing(self) -> None:
        """Tell that the file was gone: other files say that there was one."""
        if not self._warnings:
            self._warnings = Document({}, MISSING, file=META_NAME).warnings(META_DAMAGED, LOST)

    def get(self, name: str) -> Any:
        """A member as it stands in the file, or None."""
        return (self._document or self._read()).members.get(name)

    def names(self) -> list[str]:
        """The members of the file."""
        return list(self._read().members)

    def write(self, changes: Mapping[str, Any]) -> None:
        """Change members, durably, in one step; a value of None removes a member.

        Raises:
            StorageFailureError, TooLargeError: Nothing was changed, neither on disk nor here.
        """
        files.check_size({name: value for name, value in changes.items() if name not in OURS})
        with self._lock:
            found = self._read()
            after = {"version": VERSION, **found.members, **changes}
            members = {name: value for name, value in after.items() if value is not None}
            not_known = {name: value for name, value in found.not_known.items() if name not in changes}
            aside = None
            if found.problem is not None and found.present:
                aside = files.move_aside(self.path)
            files.write_document(self.path, {**not_known, **members})
            self._document = replace(found, members=members, not_known=not_known, problem=None)
            if aside is not None:
                kept = Document({}, found.problem, file=aside.name)
                self._warnings = kept.warnings(META_DAMAGED, f"the damaged file is kept as {aside.name}")

    def _read(self) -> Document:
        # One look without the lock: another thread may have the file read again at any moment.
        read = self._document
        if read is not None:
            return read
        with self._lock:
            if self._document is None:
                self._load()
            assert self._document is not None
            return self._document

    def _load(self) -> None:
        found = files.read_checked(self.path, decode)
        if not found.present and any(is_regular(self.path.with_name(name)) for name in (REQUESTS_NAME, AUDIT_NAME)):
            found = replace(found, problem=MISSING)
        self._document = found
        lost = LOST if not found.present else f"{LOST}, the damaged file is kept"
        self._warnings = found.warnings(META_DAMAGED, *([] if found.members else [lost]))
        if self._access == "owner" and not (self.uid and self.epoch):
            self.uid_is_new = not self.uid
            # What heads the session had before is not known. Milliseconds are more than any epoch counted up from the
            # seconds of a birth, so the new one is one that nobody has seen.
            self.write(
                json_members(
                    uid=self.uid or clock.new_uid(32),
                    created_at=self.created_at or clock.now_iso(),
                    epoch=self.epoch or int(clock.now() * 1000),
                )
            )

    # As the engine's notes

    @property
    def noted(self) -> int:
        """The highest timeline number facts were noted for, also where the timeline never came to be, or is gone."""
        return highest_noted(self._timelines)

    @property
    def existing(self) -> bool:
        """True if the file is there: a session that has one was made with a log."""
        return is_regular(self.path)

    def bump_epoch(self) -> None:
        """Count `epoch` up, durably."""
        if self._access == "owner":
            self.write({"epoch": self.epoch + 1})

    def remember(self, *, rotation: int) -> None:
        """Keep what the engine wants remembered; a follower's engine has nothing to say."""
        if self._access == "owner" and rotation > self.rotation:
            self.write({"rotation": rotation})

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        known = self._timelines.get(timeline_id)
        if known is None:
            return None
        return convert(known, TimelineFacts)

    def with_facts(self, timeline_id: str, facts: TimelineFacts) -> dict[str, Any]:
        """The member `timelines` with the facts of one more."""
        members = json_members(reason=facts.reason, created_at=facts.created_at, extra=facts.extra)
        return {**self._timelines, timeline_id: {name: value for name, value in members.items() if value}}

    def with_kept(self, timeline_id: str, other: str) -> dict[str, Any]:
        """The member `timelines` without the facts of one, but what companions kept with it as that of another, of the
        same bytes."""
        found, facts = self.without_facts([timeline_id]), self.facts(timeline_id)
        kept = {} if facts is None else past.kept_with(facts.extra)
        if other and kept:
            noted = found.get(other, {})
            found[other] = {**noted, "extra": {**noted.get("extra", {}), **kept}}
        return found

    def without_facts(self, timeline_ids: Collection[str]) -> dict[str, Any]:
        """The member `timelines` without some."""
        return {name: facts for name, facts in self._timelines.items() if name not in timeline_ids}

    # Whose the requests in the log are

    @property
    def origin(self) -> str:
        """The origin written in the records of the session's requests."""
        return self.uid[:ORIGIN_DIGITS]

    @property
    def origins(self) -> frozenset[str]:
        """The origins that are its own: another one only where this file was lost, and with it the uid of then."""
        return frozenset((self.origin, self._requests_of or self.origin))

    def is_of(self, uid: str) -> bool:
        """True if the session has this uid, or had it before this file was lost."""
        return uid[:ORIGIN_DIGITS] in self.origins

    @property
    def unmarked_lines(self) -> int:
        """How many of the log's first lines have nothing that counts if they do not say whose they are: all of them,
        but for a session of an earlier release."""
        return sys.maxsize if self.requests_marked else self.inherited_lines
