"""A new session for the agent's own program, cut at a point of a mirror.

The new file has the lines of the old one that the conversation up to that point is made of, with a new session id. The
old file is only read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from timeleap.errors import CorruptedError, InvalidInputError
from timeleap.json_value import Json
from timeleap.sessions.shapes import set_members
from timeleap.storage.durable import atomic_write, failpoint, make_directory, storage_errors
from timeleap_agents.mirrors.folders import is_there
from timeleap_agents.mirrors.formats.conversion import RecordWriter, folder_of
from timeleap_agents.mirrors.growing_file import (
    Conversation,
)
from timeleap_agents.mirrors.mirror import READERS
from timeleap_agents.mirrors.steps import Step
from timeleap_agents.mirrors.vault import given_back as restoring
from timeleap_agents.mirrors.vault.notes import read_notes

if TYPE_CHECKING:
    from timeleap.sessions.session import Session
    from timeleap.storage.log_values import NewRecord


class AdoptPlan(Struct, frozen=True):
    """Plan of the files to write.

    Attributes:
        kind: The program.
        source: Its file that is mirrored.
        messages: How many messages of it are kept; None: all.
        directory: Of the mirror, where the bytes of that file are kept.
        workspace: URI of the folder that the mirror is about.
    """

    kind: str
    source: Path
    messages: int | None
    directory: Path
    workspace: str | None = None


class Adopted(Struct, frozen=True):
    """A new file of the program, and the command that goes on in it; `shown`: what is mirrored, if not the file."""

    path: Path
    resume: Json
    healed: tuple[str, ...] = ()
    shown: Path | None = None


def plan(session: Session, at: str | int | None) -> AdoptPlan:
    """Plan the files that let the program go on before `at`: uid of a checkpoint, or index of a message.

    Raises:
        InvalidInputError: It is no mirror, or there is no such message.
        CheckpointNotFoundError: There is no such checkpoint.
    """
    source = session.meta.source
    if source is None or source.path is None:
        raise InvalidInputError.of(
            "sessionId", "is not the mirror of another program's session: only those are adopted"
        )
    total = session.engine.state.messages
    messages = session.find_checkpoint(uid=at).message_count if isinstance(at, str) else at
    if messages is not None and not 0 < messages <= total:
        raise InvalidInputError.of("at", f"must leave something to go on from: a message from 1 to {total}")
    return AdoptPlan(source.kind, Path(source.path), messages, session.path, session.facts.workspace)


def write(wanted: AdoptPlan) -> Adopted:
    """Write the new file beside the old one; where that is gone, from what is kept of it. Blocking.

    Raises:
        InvalidInputError: It would end in the middle of a tool call, or the file is of a form that the program gave up.
        CorruptedError: The old file does not say any more what the mirror shows.
        StorageFailureError: The old file cannot be read, or the new one not written.
    """
    if is_there(wanted.source) or not read_notes(wanted.directory):
        return _write(wanted, wanted.source, lambda made: made)
    with restoring.readable_copy(wanted.directory, wanted.source) as copy:
        return _write(wanted, copy, lambda made: restoring.at_old_place(made, copy, wanted.source))


def _write(wanted: AdoptPlan, source: Path, place: Callable[[Path], Path]) -> Adopted:
    log = READERS[wanted.kind](source)
    log.read()
    if log.workspace is None and source != wanted.source:
        log.workspace = wanted.workspace  # what would tell it stood beside the file
    kept = _kept(log, wanted.messages)
    if not kept:
        raise InvalidInputError.of("sessionId", "has nothing to go on from yet")
    if log.open_calls(kept):
        raise InvalidInputError.of(
            "at", "lies in the middle of a tool call: go on from a prompt, a checkpoint stands at each"
        )
    made = log.continuation(kept)
    lines = [json.dumps(record) for record in made.records]
    path = place(made.path)
    with storage_errors("write the new session", path):
        make_directory(path.parent)
        for companion, data in made.companions.items():
            atomic_write(place(companion), data)
        atomic_write(path, ("\n".join(lines) + "\n").encode())
    failpoint("bridge.adopted")
    command, *arguments = made.command
    return Adopted(
        path,
        {"command": command, "args": arguments, **set_members(cwd=folder_of(log.workspace))},
        made.healed,
        made.shown,
    )


class _Counter(RecordWriter):
    """Counts the messages that there would be."""

    def __init__(self, log: Conversation) -> None:
        super().__init__(log.file.left_out)

    def _add(self, record: NewRecord) -> None:
        del record


def _kept(log: Conversation, messages: int | None) -> Sequence[Step]:
    """The steps that make the first so many messages."""
    steps = log.steps()
    if messages is None:
        return steps
    counter, kept = _Counter(log), 0
    for number, _ in enumerate(log.write(steps, counter), 1):
        if counter.messages <= messages:
            kept = number
    if not kept or counter.messages < messages:
        raise CorruptedError(f"{log.file.path} does not say what its mirror shows: look at the mirror once more")
    return steps[:kept]
