"""Making sessions, new ones and forks: written aside, to be put in place in one step (G3 for whole sessions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.sessions import files, meta, statefile
from timeleap.sessions.checkpoints import find_line, read_checkpoint
from timeleap.sessions.home import Home, new_session_id, taken_error
from timeleap.sessions.requests import short
from timeleap.sessions.session_files import LOG_NAME, META_NAME, STATE_NAME
from timeleap.sessions.shapes import Approval, AutoCheckpoint, Mutation, Parent, Subagent
from timeleap.storage.durable import atomic_write
from timeleap.storage.engine import LogReader
from timeleap.storage.log_files import fork_log
from timeleap.storage.record import system_prompt_record

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

Json = dict[str, Any]
_TITLE_LENGTH = 1000


def free_id(home: Home, wanted: str | None) -> str:
    """`wanted` if nobody has it (else SessionExistsError), or a new one where none is wanted."""
    if wanted is None:
        return new_session_id()
    if (taken := home.twin(wanted)) is not None:
        raise taken_error(wanted, taken)
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
    """The parts of a session that a fork copies: the first `keep_lines` lines of a log as it is at the moment, and what
    stands beside it; `state` are the other fields of `state.json`."""

    log: LogReader
    keep_lines: int
    parent: Parent
    traits: Traits
    subagents: tuple[Subagent, ...]
    state: Mapping[str, Any]


def taken(source: Session, log: LogReader, at: tuple[int | None, str | None], title: str | None) -> Copy:
    """The parts of a session that a fork copies: the history up to and including a checkpoint's record, or all of it.

    Args:
        source: The session.
        log: Its log, or a timeline of it.
        at: Id or uid of the checkpoint; neither: all of it.
        title: Of the fork; else the session's with "(fork)".

    Raises:
        CheckpointNotFoundError: There is no such checkpoint.
    """
    keep_lines, uid = log.state.lines, None
    if at != (None, None):
        line = find_line(log, *at)
        keep_lines, uid = line + 1, read_checkpoint(log, line).uid
    if title is None:
        title = fork_title(source.facts.title, source.session_id)
    traits = Traits(title, None, source.facts.workspace, source.facts.auto_checkpoint, source.facts.pins)
    state = statefile.StateFile(source.path).fields()
    return Copy(log, keep_lines, Parent(source.session_id, uid), traits, source.facts.subagents, state)


def fork_title(title: str | None, session_id: str) -> str:
    return f"{title or session_id} (fork)"[:_TITLE_LENGTH]


def build(directory: Path, traits: Traits, guard: Mutation) -> None:
    """Write a new session into an empty directory. Blocking. Raises StorageFailureError."""
    write_meta(directory, guard, trait_members(traits))
    if traits.title is not None:
        state = {"version": statefile.VERSION, "custom_title": traits.title, "title_generated": True}
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
        "subagents": statefile.subagent_members(copy.subagents, "systemPrompt") or None,
        # The records bring the parent's request ids along, which are none of this session's.
        "inheritedLines": copied.lines,  # for releases that go by it
    }
    write_meta(directory, guard, members)
    state = {
        "version": statefile.VERSION,
        **copy.state,
        "approval": statefile.approval_members(Approval()),
        "custom_title": copy.traits.title,
        "title_generated": True,
        "archived": False,
        "archived_at": None,
    }
    if copy.subagents:
        state["dynamic_subagents"] = statefile.subagent_members(copy.subagents)
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
        "version": meta.VERSION,
        "requestsMarked": True,
        "uid": clock.new_uid(32),
        "createdAt": clock.now_iso(),
        "epoch": int(clock.now()),
        **members,
    }
    if guard.request_id is not None:
        known["createdBy"] = {"r": guard.request_id, "h": guard.fingerprint, "m": short(guard.method)}
    files.write_document(directory / META_NAME, {name: value for name, value in known.items() if value is not None})
