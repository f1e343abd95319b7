"""`state.json` as sessions use it: a few fields of ours in a file that belongs to the original program.

The file is kept as the JSON object it is, not as a model: what we do not change stays as it stands on disk, whoever
wrote it, and one field of a wrong type costs that field and not the file. It is read again before each save, because
the original changes titles and the archive flag while a session is open here.
(`timeleap.context.state` is the original's own view of the file, for programs that were written for it.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeleap.sessions import files, session_files
from timeleap.sessions.outcomes import Subagent

FILE_NAME = session_files.STATE
LEGACY_FILE_NAME = session_files.LEGACY_STATE
VERSION = 1


@dataclass(frozen=True, slots=True)
class StateValues:
    """What `state.json` says.

    Attributes:
        actions: Sorted.
        archived_at: Seconds since 1970.
        subagents: None where the file has no such field (newer releases of the original drop it).
        problem: What is wrong with the file, in words; the usable rest of it counts all the same.
    """

    yolo: bool = False
    afk: bool = False
    actions: tuple[str, ...] = ()
    title: str | None = None
    archived: bool = False
    archived_at: float | None = None
    subagents: tuple[Subagent, ...] | None = None
    problem: str | None = None


class StateFile:
    """The `state.json` of one session directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def read(self) -> StateValues:
        """What the file says now; defaults for what it does not say."""
        document = files.read_document(self.path)
        members = document.members if document.present else _from_legacy(self.path.with_name(LEGACY_FILE_NAME))
        return _Reading(members, document.problem).values()

    def write(self, changes: Mapping[str, Any]) -> Path | None:
        """Change fields and keep all others as they are on disk now.

        Args:
            changes: Top-level fields by the file's names. `approval` is merged into the object that is there, so that
                fields of it which we do not know stay.

        Returns:
            Where a damaged file that stood in the way is kept now, else None.

        Raises:
            StorageFailureError: Nothing was changed.
            TooLargeError: A field would be too large to be read again; nothing was changed.
        """
        files.check_size(changes)
        document = files.read_document(self.path)
        members = document.members if document.present else _from_legacy(self.path.with_name(LEGACY_FILE_NAME))
        reading = _Reading(members, document.problem)
        problem = reading.values().problem
        aside = files.move_aside(self.path) if problem and document.present else None
        merged: dict[str, Any] = {"version": VERSION, **reading.sound()}
        for name, value in changes.items():
            if name == "approval":
                merged[name] = {**merged.get(name, {}), **value}
            else:
                merged[name] = value
        files.write_document(self.path, merged)
        return aside


def approval_members(yolo: bool, afk: bool, actions: tuple[str, ...]) -> dict[str, Any]:
    """The `approval` object; actions sorted, so that equal approvals are equal bytes."""
    return {"yolo": yolo, "afk": afk, "auto_approve_actions": sorted(actions)}


def subagent_members(subagents: tuple[Subagent, ...]) -> list[dict[str, str]]:
    """The `dynamic_subagents` list, as the original writes it."""
    return [{"name": one.name, "system_prompt": one.system_prompt} for one in subagents]


class _Reading:
    """The known fields of one document, each checked by itself."""

    def __init__(self, members: dict[str, Any], problem: str | None) -> None:
        self._members = members
        self._problems = [problem] if problem else []
        self._unusable: set[str] = set()

    def values(self) -> StateValues:
        approval = self._take("approval", {}, lambda value: isinstance(value, dict))
        yolo = approval.get("yolo", False)
        afk = approval.get("afk", False)
        actions = approval.get("auto_approve_actions", [])
        sound = (
            isinstance(yolo, bool)
            and isinstance(afk, bool)
            and isinstance(actions, list)
            and all(files.is_text(action) for action in actions)
        )
        if not sound:
            self._refuse("approval")
            yolo, afk, actions = False, False, []
        return StateValues(
            yolo=yolo,
            afk=afk,
            actions=tuple(sorted(set(actions))),
            title=self._take("custom_title", None, lambda value: value is None or files.is_text(value)),
            archived=self._take("archived", False, lambda value: isinstance(value, bool)),
            archived_at=self._take("archived_at", None, _is_time),
            subagents=self._subagents(),
            problem="; ".join(dict.fromkeys(self._problems)) or None,
        )

    def sound(self) -> dict[str, Any]:
        """The document without the fields that cannot be used: the original would drop all of it for one of them."""
        return {name: value for name, value in self._members.items() if name not in self._unusable}

    def _subagents(self) -> tuple[Subagent, ...] | None:
        many = self._take("dynamic_subagents", None, lambda value: value is None or isinstance(value, list))
        if many is None:
            return None
        found = parse_subagents(many, "system_prompt")
        if len(found) != len(many):
            self._refuse("dynamic_subagents")
        return found

    def _take(self, name: str, default: Any, usable: Any) -> Any:
        value = self._members.get(name, default)
        if usable(value):
            return value
        self._refuse(name)
        return default

    def _refuse(self, name: str) -> None:
        self._unusable.add(name)
        self._problems.append(f"{FILE_NAME}: {name} is not of its type")


def parse_subagents(many: list[Any], prompt_key: str) -> tuple[Subagent, ...]:
    """The usable sub-agents of a JSON list, in order; of two with one name the later counts."""
    found: dict[str, Subagent] = {}
    for one in many:
        name, prompt = (one.get("name"), one.get(prompt_key)) if isinstance(one, dict) else (None, None)
        if files.is_text(name) and files.is_text(prompt):
            found[name] = Subagent(name, prompt)
    return tuple(found.values())


def _is_time(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _from_legacy(path: Path) -> dict[str, Any]:
    """What older releases of the original kept in `metadata.json`, in the names of `state.json`."""
    document = files.read_document(path)
    if not document.members:
        return {}
    from timeleap.context.state import upgrade

    return upgrade({**document.members, "version": 0})
