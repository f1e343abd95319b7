"""Making sessions, new ones and forks: written aside, to be put in place in one step (G3 for whole sessions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap import clock
from timeleap.errors import SessionExistsError, StorageFailureError
from timeleap.sessions import files
from timeleap.sessions.checkpoints import find_line, read_checkpoint
from timeleap.sessions.home import Home, fork_title, new_session_id
from timeleap.sessions.meta import VERSION, subagent_members
from timeleap.sessions.outcomes import AutoCheckpoint, Mutation, Parent, Subagent
from timeleap.sessions.requests import short
from timeleap.sessions.session_files import LOG_NAME, META_NAME, STATE_NAME
from timeleap.sessions.statefile import VERSION as STATE_VERSION
from timeleap.sessions.statefile import StateFile, approval_members
from timeleap.sessions.statefile import subagent_members as state_subagents
from timeleap.storage.durable import atomic_write
from timeleap.storage.engine import LogReader
from timeleap.storage.log_files import fork_log
from timeleap.storage.record import system_prompt_record

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

Json = dict[str, Any]


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
    """Initial values of a new session."""

    title: str | None = None
    system_prompt: str | None = None
    workspace: str | None = None
    auto_checkpoint: AutoCheckpoint | None = None
    pins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """The parts of a session that a fork copies.

    Attributes:
        log: The log as it is at the moment.
        keep_lines: How many of its lines.
        parent: Where the fork comes from.
        traits: Title, workspace, checkpoints before turns.
        subagents: All of them.
        state: The other fields of `state.json`.
    """

    log: LogReader
    keep_lines: int
    parent: Parent
    traits: Traits
    subagents: tuple[Subagent, ...]
    state: Mapping[str, Any]


def source_log(source: Session, live: Callable[[str], LogReader], timeline_id: str | None) -> LogReader:
    """The log that a fork is a copy of.

    Args:
        source: The session.
        live: Gives its present log, by its id.
        timeline_id: The earlier log to copy instead.

    Raises:
        TimelineNotFoundError: There is no such timeline.
    """
    if timeline_id is None:
        return live(source.session_id)
    return source.engine.timeline(timeline_id)


def taken(source: Session, log: LogReader, at: tuple[int | None, str | None], title: str | None) -> Copy:
    """The parts of a session that a fork copies: the history up to and including a checkpoint's record, or all of it.

    Args:
        source: The session.
        log: Its log as it is.
        at: Id or uid of the checkpoint; neither: all of it.
        title: Of the fork; else the session's with "(fork)".

    Raises:
        CheckpointNotFoundError: There is no such checkpoint.
    """
    keep_lines, uid = log.state.lines, None
    if at != (None, None):
        line = find_line(log, *at)
        keep_lines, uid = line + 1, read_checkpoint(log, line).uid
    return Copy(
        log=log,
        keep_lines=keep_lines,
        parent=Parent(source.session_id, uid),
        traits=Traits(
            title=title if title is not None else fork_title(source.title, source.session_id),
            workspace=source.workspace,
            auto_checkpoint=source.auto_checkpoint,
            pins=source.pins,
        ),
        subagents=source.subagents,
        state=StateFile(source.path).fields(),
    )


def build(directory: Path, traits: Traits, guard: Mutation) -> None:
    """Write a new session into an empty directory. Blocking.

    Raises:
        StorageFailureError: It could not be written.
    """
    write_meta(directory, guard, trait_members(traits))
    if traits.title is not None:
        state = {"version": STATE_VERSION, "custom_title": traits.title, "title_generated": True}
        files.write_document(directory / STATE_NAME, state)
    log = b"" if traits.system_prompt is None else system_prompt_record(traits.system_prompt).body + b"\n"
    try:
        atomic_write(directory / LOG_NAME, log)
    except OSError as error:
        raise StorageFailureError.of(error, "make the log", directory / LOG_NAME) from error


def build_fork(directory: Path, copy: Copy, guard: Mutation) -> None:
    """Write a fork into an empty directory: approvals off, not archived. Blocking.

    Raises:
        CorruptedError: A line of the log is not what was written.
        StorageFailureError: It could not be written.
    """
    copied = fork_log(copy.log, copy.keep_lines, directory / LOG_NAME)
    parent = {"sessionId": copy.parent.session_id, "checkpointUid": copy.parent.checkpoint_uid}
    members = {
        **trait_members(copy.traits),
        "parent": {name: value for name, value in parent.items() if value is not None},
        "subagents": subagent_members(copy.subagents) or None,
        # The records bring the parent's request ids along, which are none of this session's.
        "inheritedLines": copied.lines,  # for releases that go by it
    }
    write_meta(directory, guard, members)
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


def trait_members(traits: Traits) -> Json:
    """The members of `timeleap.json` for the traits; None for those left out."""
    return {
        "workspace": traits.workspace,
        "autoCheckpoint": None if traits.auto_checkpoint == "off" else traits.auto_checkpoint,
        "pins": list(traits.pins) or None,
    }


def write_meta(directory: Path, guard: Mutation, members: Mapping[str, Any]) -> None:
    """Write the `timeleap.json` of a new session, which gets a uid of its own. Members that are None are left out.

    Raises:
        StorageFailureError: It could not be written.
    """
    known: Json = {
        "version": VERSION,
        "requestsMarked": True,
        "uid": clock.new_uid(32),
        "createdAt": clock.now_iso(),
        "epoch": int(clock.now()),
        **members,
    }
    if guard.request_id is not None:
        known["createdBy"] = {"r": guard.request_id, "h": guard.fingerprint, "m": short(guard.method)}
    files.write_document(directory / META_NAME, {name: value for name, value in known.items() if value is not None})
