"""`state.json` as sessions use it: a few fields of ours in a file that belongs to the original program.

The file is kept as the JSON object it is, not as a model: what we do not change stays as it stands on disk, whichever
program wrote it, and one field of a wrong type costs that field and not the file. It is read again before each save,
because the original changes titles and the archive flag while a session is open here. (`timeleap.api.state` is the
original's own view of the file, for programs that were written for it.)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.json_files import BAD, Check, Document, Problems, flag, items, model, number, text
from timeleap.sessions.documents.session_files import LEGACY_STATE_NAME, STATE_NAME
from timeleap.sessions.shapes import Approval, Subagent

VERSION = 1
STATE_DAMAGED: Final = "stateDamaged"


class StateValues(Struct, frozen=True):
    """Content of `state.json`.

    Attributes:
        approval: What the file says, whether it counts or not; actions sorted.
        subagents: None where the file has no such field (newer releases of the original drop it).
        document: What was read: of an older release's file of the original where there is no other.
    """

    approval: Approval = Approval()
    title: str | None = None
    archived: bool = False
    subagents: tuple[Subagent, ...] | None = None
    document: Document = Document({}, present=False, file=STATE_NAME)

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Warnings about the file, for the user."""
        return self.document.warnings(STATE_DAMAGED)


def _approval(value: Any, where: str, problems: Problems) -> Any:
    """Taken whole or not at all: half an approval is another one."""
    mine = Problems()
    found = _APPROVAL(value, where, mine)
    if mine:
        return problems.add(mine.text, "and all of it counts as off")
    return found


def _subagents(value: Any, where: str, problems: Problems) -> Any:
    found = _SUBAGENTS(value, where, problems)
    if found is BAD:
        return BAD
    last = {subagent["name"]: subagent for subagent in found}
    if len(last) < len(found):
        problems.add(where, "has two entries of one name, of which the later counts")
    return list(last.values())


def _or_null(check: Check) -> Check:
    return lambda value, where, problems: None if value is None else check(value, where, problems)


_APPROVAL: Final = model({"yolo": flag, "afk": flag, "auto_approve_actions": items(text())})
_SUBAGENTS: Final = items(model({"name": text(), "system_prompt": text()}, required=("name", "system_prompt")))

MODEL: Final[Mapping[str, Check]] = {
    "approval": _approval,
    "custom_title": _or_null(text()),
    "archived": flag,
    "archived_at": _or_null(number),
    "dynamic_subagents": _or_null(_subagents),
}
"""The fields that are used here, each taken or refused by itself; the others are the original's and stay as they
are."""


def values_of(document: Document) -> StateValues:
    """The values of a document that was checked."""
    approval: Mapping[str, Any] = document.members.get("approval", {})
    subagents = document.members.get("dynamic_subagents")
    return StateValues(
        approval=Approval(
            approval.get("yolo", False),
            approval.get("afk", False),
            tuple(sorted(set(approval.get("auto_approve_actions", ())))),
        ),
        title=document.members.get("custom_title"),
        archived=document.members.get("archived", False),
        subagents=None if subagents is None else parse_subagents(subagents, "system_prompt"),
        document=document,
    )


class StateFile:
    """The `state.json` of one session directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / STATE_NAME

    def read(self) -> StateValues:
        """The present values of the file; defaults for missing ones."""
        return values_of(self._document())

    def fields(self) -> dict[str, Any]:
        """All fields of the file that can be used, those of the original included."""
        return self._document().members

    def write(self, changes: Mapping[str, Any], in_force: Mapping[str, Any] | None = None) -> Path | None:
        """Change fields (by the file's names) and keep all others as they are on disk now, those of `approval` included
        which we do not know. Somebody may have edited that since, and the original program would believe it: it is put
        right if it is not as `in_force` (see `approval_members`) says.

        Returns:
            Where a damaged file that stood in the way is kept now, else None.

        Raises:
            StorageFailureError, TooLargeError: Nothing was changed.
        """
        files.check_size(changes)
        found = self._document()
        if in_force is not None and approval_members(values_of(found).approval) != in_force:
            changes = {"approval": in_force, **changes}
        merged: dict[str, Any] = {"version": VERSION, **found.not_known, **found.members}
        for name, value in changes.items():
            merged[name] = {**merged.get(name, {}), **value} if name == "approval" else value
        aside = files.move_aside(self.path) if found.problem is not None and found.present else None
        files.write_document(self.path, merged)
        return aside

    def _document(self) -> Document:
        found = files.read_checked(self.path, decode)
        if found.present:
            return found
        legacy = files.read_checked(
            self.path.with_name(LEGACY_STATE_NAME), lambda members: decode(upgrade({**members, "version": 0}))
        )
        return replace(legacy, present=False) if legacy.members else found


def decode(members: Mapping[str, Any]) -> Document:
    found = files.decode(members, MODEL, VERSION, unversioned=VERSION)
    not_known = {name: value for name, value in found.not_known.items() if name != "approval"}
    return replace(found, not_known=not_known)


def approval_members(approval: Approval) -> dict[str, Any]:
    """The `approval` object; actions sorted, so that equal approvals are equal bytes."""
    return {"yolo": approval.yolo, "afk": approval.afk, "auto_approve_actions": sorted(approval.actions)}


def subagent_members(subagents: tuple[Subagent, ...]) -> list[dict[str, str]]:
    """Sub-agents as the original writes them."""
    return [{"name": subagent.name, "system_prompt": subagent.system_prompt} for subagent in subagents]


def parse_subagents(many: list[Any], prompt_key: str) -> tuple[Subagent, ...]:
    """The sub-agents of a list that was checked, in order; of two with one name the later counts."""
    return tuple({each["name"]: Subagent(each["name"], each[prompt_key]) for each in many}.values())


def upgrade(document: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a state document up to the present version.

    A document without a version is of version 1 (the original did not always write it). One of a newer version than
    ours is left as it is: what we know of it we read, all else is kept.

    Raises:
        ValueError: The version is no number.
    """
    version = document.get("version", VERSION)
    if type(version) is not int or version < 0:
        raise ValueError("the version of a state file is a number from 0")
    return _from_metadata(document) if version == 0 else dict(document)


def _from_metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    """Version 0 is what the original kept in `metadata.json` before it had a state file."""
    kept = (
        "title_generated",
        "title_generate_attempts",
        "archived",
        "archived_at",
        "auto_archive_exempt",
        "wire_mtime",
    )
    names = {"custom_title": "title", **{name: name for name in kept}}
    found = {new: document[old] for new, old in names.items() if document.get(old) not in (None, "")}
    if found.get("custom_title") == "Untitled":
        del found["custom_title"]
    return {"version": 1, **found}
