"""`state.json`: the state of a session that is not in its log, in the original program's form.

Fields that neither we nor that program know are kept at every level, so that two versions can work on one session.
A file that cannot be read counts as absent, because a session must always open; it is moved aside, not overwritten,
by the first save. Whether the approvals in it are to be believed is decided where sessions are opened.
"""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from timeleap.sessions.documents.statefile import VERSION, upgrade
from timeleap.storage import durable

STATE_FILE_NAME = "state.json"
LEGACY_FILE_NAME = "metadata.json"
MAX_STATE_BYTES = 16 * 1024 * 1024
"""A larger file is not ours: it is not read."""

_log = logging.getLogger(__name__)


class _Open(BaseModel):
    """A model that keeps the fields it does not know."""

    model_config = ConfigDict(extra="allow")


class ApprovalStateData(_Open):
    """Actions that the agent may take without asking."""

    yolo: bool = False
    afk: bool = False
    auto_approve_actions: set[str] = Field(default_factory=set)

    @field_serializer("auto_approve_actions")
    def _in_order(self, actions: set[str]) -> list[str]:
        # A set has no order of its own: without one every save would be a change to a program that compares files.
        return sorted(actions)


class DynamicSubagentSpec(_Open):
    """A sub-agent that was defined during the session."""

    name: str
    system_prompt: str


class TodoItemState(_Open):
    """An entry of the agent's list of things to do."""

    title: str
    status: Literal["pending", "in_progress", "done"]


class SessionState(_Open):
    """Everything in `state.json`."""

    version: int = VERSION
    approval: ApprovalStateData = Field(default_factory=ApprovalStateData)
    dynamic_subagents: list[DynamicSubagentSpec] = Field(default_factory=list[DynamicSubagentSpec])
    additional_dirs: list[str] = Field(default_factory=list)
    custom_title: str | None = None
    title_generated: bool = False
    title_generate_attempts: int = 0
    plan_mode: bool = False
    plan_session_id: str | None = None
    plan_slug: str | None = None
    wire_mtime: float | None = None
    archived: bool = False
    archived_at: float | None = None
    auto_archive_exempt: bool = False
    todos: list[TodoItemState] = Field(default_factory=list[TodoItemState])


def load_session_state(session_dir: Path | str) -> SessionState:
    """Read a session's state, taking over a `metadata.json` that older versions of the original wrote.

    Args:
        session_dir: The session's directory.

    Returns:
        What the file says; the defaults where it is missing or damaged (the log says so).
    """
    directory = Path(session_dir)
    path = directory / STATE_FILE_NAME
    state = SessionState()
    if path.exists():
        try:
            state = parse_state(path)
        except (ValueError, RecursionError) as error:
            _log.warning("%s is damaged and counts as absent: %s", path, type(error).__name__)
    _take_over_legacy(state, directory)
    return state


def save_session_state(state: SessionState, session_dir: Path | str) -> Path | None:
    """Write a session's state atomically.

    Args:
        state: What to write.
        session_dir: The session's directory; it must exist.

    Returns:
        Where a damaged file was moved that stood in the way, else None.

    Raises:
        OSError: It could not be written; the old file is unchanged.
    """
    path = Path(session_dir) / STATE_FILE_NAME
    document = state.model_dump(mode="json")
    # The releases of the original that know no sub-agents get the very bytes they would write themselves.
    if not state.dynamic_subagents and "dynamic_subagents" not in state.model_fields_set:
        del document["dynamic_subagents"]
    moved = _move_damaged_aside(path)
    atomic_json_write(document, path)
    return moved


def atomic_json_write(data: Any, path: Path | str) -> None:
    """Write `data` as JSON so that the file is, at every moment, either the old one or the new one, whole.

    Args:
        data: Anything `json.dump` takes.
        path: The file; its directory must exist.

    Raises:
        OSError: It could not be written; the old file is unchanged.
        TypeError, ValueError: `data` has no JSON form.
    """
    text = io.StringIO()
    json.dump(data, text, indent=2, ensure_ascii=False)
    durable.atomic_write(Path(path), text.getvalue().encode("utf-8"))


def parse_state(path: Path) -> SessionState:
    """Read one state file of any version.

    Raises:
        ValueError, RecursionError: It is damaged.
        OSError: It cannot be read at all.
    """
    return SessionState.model_validate(upgrade(_read_object(path)))


def _take_over_legacy(state: SessionState, directory: Path) -> None:
    """Fill what `state` does not say from `metadata.json`, and remove that file once the state is saved."""
    legacy = directory / LEGACY_FILE_NAME
    if not legacy.exists():
        return
    try:
        old = SessionState.model_validate(upgrade({**_read_object(legacy), "version": 0}))
    except (ValueError, RecursionError, OSError):
        return  # perhaps only for now: it stays where it was
    default = SessionState()
    changed = False
    for name in SessionState.model_fields:
        value = getattr(old, name)
        if value != getattr(default, name) and getattr(state, name) == getattr(default, name):
            setattr(state, name, value)
            changed = True
    try:
        if changed:
            save_session_state(state, directory)
        legacy.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s could not be taken over, the next load tries again: %s", legacy, error.strerror)


def _move_damaged_aside(path: Path) -> Path | None:
    if not path.exists():
        return None
    try:
        parse_state(path)
    except (ValueError, RecursionError):
        number = 1
        while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
            number += 1
        durable.replace_file(path, aside)
        _log.warning("%s is damaged and was kept as %s", path, aside.name)
        return aside
    return None


def _read_object(path: Path) -> dict[str, Any]:
    # What is no ordinary file (a FIFO would block for ever) is damage like any other.
    if not path.is_file() or path.stat().st_size > MAX_STATE_BYTES:
        raise ValueError(f"{path.name} is not a file of a sensible size")
    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is not an object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
