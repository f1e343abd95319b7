"""Making sessions, new ones and forks: written aside, to be put in place in one step (G3 for whole sessions)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from timeleap import clock
from timeleap.json_value import Json
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import meta, statefile
from timeleap.sessions.documents.companion_forms import FORMS
from timeleap.sessions.documents.request_file import short
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME, STATE_NAME
from timeleap.sessions.past import find_line, read_checkpoint
from timeleap.sessions.shapes import Approval, AutoCheckpoint, Mutation, Source, set_members
from timeleap.storage.durable import atomic_write, storage_errors
from timeleap.storage.log_files import fork_log
from timeleap.storage.reader import LogReader
from timeleap.storage.record import system_prompt_record
from timeleap_protocol.folder_uri import canonical_folder_uri

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

_TITLE_LENGTH = 1000
"""Characters of a title that no client set."""


class Traits(Struct, frozen=True):
    """Initial values of a new session."""

    title: str | None = None
    system_prompt: str | None = None
    workspace: str | None = None
    auto_checkpoint: AutoCheckpoint | None = None
    pins: tuple[str, ...] = ()
    source: Source | None = None

    def members(self) -> Json:
        """The members of `timeleap.json` for them; None for those left out."""
        return {
            "workspace": self.workspace and canonical_folder_uri(self.workspace),
            "source": self.source and self.source.wire(),
            "autoCheckpoint": None if self.auto_checkpoint == "off" else self.auto_checkpoint,
            "pins": list(self.pins) or None,
        }


class Fork(Struct, frozen=True):
    """A fork to be written: the first `keep_lines` lines of a log as it is at the moment, and the members of its
    `timeleap.json` and `state.json`."""

    log: LogReader
    keep_lines: int
    meta: Json
    state: Json


def plan_fork(source: Session, log: LogReader, at: tuple[int | None, str | None], title: str | None) -> Fork:
    """A fork with the history up to and including a checkpoint's record, or all of it; approvals off, not archived.

    Args:
        source: The session.
        log: Its log, or a timeline of it.
        at: Id or uid of the checkpoint; neither: all of it.
        title: Of the fork; else the session's with "(fork)".

    Raises:
        CheckpointNotFoundError: There is no such checkpoint.
    """
    keep_lines, uid, facts = log.state.lines, None, source.facts
    if at != (None, None):
        line = find_line(log, *at)
        keep_lines, uid = line + 1, read_checkpoint(log, line).uid
    notes = {
        **Traits(workspace=facts.workspace, auto_checkpoint=facts.auto_checkpoint, pins=facts.pins).members(),
        "parent": {"sessionId": source.session_id, **set_members(checkpointUid=uid)},
        "subagents": [agent.wire() for agent in facts.subagents] or None,
    }
    for form in FORMS.values():
        settings = source.meta.get(form.key)
        if settings is not None:
            notes |= form.of_fork(settings, source.meta.uid)
    state = {
        "version": statefile.VERSION,
        **statefile.StateFile(source.path).fields(),
        "approval": statefile.approval_members(Approval()),
        "custom_title": fork_title(facts.title, source.session_id) if title is None else title,
        "title_generated": True,
        "archived": False,
        "archived_at": None,
    }
    if facts.subagents:
        state["dynamic_subagents"] = statefile.subagent_members(facts.subagents)
    return Fork(log, keep_lines, notes, state)


def fork_title(title: str | None, session_id: str) -> str:
    return f"{title or session_id} (fork)"[:_TITLE_LENGTH]


def usable_title(text: str) -> str:
    """Shorten a title of another program to one line that can be stored; may be empty."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:_TITLE_LENGTH]


def build(directory: Path, traits: Traits, guard: Mutation) -> None:
    """Write a new session into an empty directory. Blocking. Raises StorageFailureError."""
    write_meta(directory, guard, traits.members())
    if traits.title is not None:
        state = {"version": statefile.VERSION, "custom_title": traits.title, "title_generated": True}
        files.write_document(directory / STATE_NAME, state)
    log = b"" if traits.system_prompt is None else system_prompt_record(traits.system_prompt).body + b"\n"
    with storage_errors("make the log", directory / LOG_NAME):
        atomic_write(directory / LOG_NAME, log)


def build_fork(directory: Path, fork: Fork, guard: Mutation) -> None:
    """Write a fork into an empty directory. Blocking.

    Raises:
        CorruptedError: A line of the log is not what was written.
        StorageFailureError: It could not be written.
    """
    copied = fork_log(fork.log, fork.keep_lines, directory / LOG_NAME)
    # The records bring the parent's request ids along, which are none of this session's; older releases go by this.
    write_meta(directory, guard, {**fork.meta, "inheritedLines": copied.lines})
    files.write_document(directory / STATE_NAME, fork.state)


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
    files.write_document(directory / META_NAME, set_members(**known))
