"""A session as the writers of export formats see it: its facts, and its logs as they were at one moment.

A format is a function from an `Exhibit` to an iterator of pieces of text (or bytes), listed in `FORMATS`; it is run
in a thread, some milliseconds at a time, so it should yield often: after every message, say.

Everything of a `Strand` is read when it is asked for, a page in memory at a time; a log may have a million messages, so
no writer keeps them. Texts may hold anything: a writer escapes what its form needs escaped. Approvals, keys and request
ids are no part of an exhibit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from msgspec import Struct, field
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import CorruptedError, InvalidInputError, TimeleapError
from timeleap.features.transfer_losses import ExportLoss
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import session_files, undo_member
from timeleap.sessions.documents.session_files import LOG_NAME, STATE_NAME
from timeleap.sessions.logs import common_lines, left_out, line_of_message, pages
from timeleap.sessions.past import prompt_at, told_checkpoints
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Checkpoint, Parent, Subagent
from timeleap.storage.log_values import Timeline, TimelineReason
from timeleap.storage.reader import LogReader
from timeleap.storage.record import decode_json, without_marks
from timeleap.store.listing import created_at, last_change_ns
from timeleap_protocol.secret_masks import SecretMasks, may_tell_secret

_CHECKPOINTS_AT_ONCE: Final = 64
_OPEN_AT_ONCE: Final = 8  # timelines


class ExportFormat(Struct, frozen=True):
    """A form of a session.

    Attributes:
        name: On the wire.
        writer: Module and function that write it; empty where it is only read.
    """

    name: str
    writer: str = ""


FORMATS: Final = (
    ExportFormat("native", "archive:write_archive"),
    ExportFormat("markdown", "markdown:write_markdown"),
    ExportFormat("html", "page:write_page"),
    ExportFormat("kimi"),
    ExportFormat("claude-code"),
    ExportFormat("codex"),
    ExportFormat("gemini"),
    ExportFormat("kimi-code"),
    ExportFormat("opencode"),
    ExportFormat("pi"),
)

EXPORTED: Final = {form.name: form for form in FORMATS if form.writer}
IMPORTED: Final = tuple(form.name for form in FORMATS if form.name not in ("markdown", "html"))


def exported(name: str) -> ExportFormat:
    """The form of that name. Raises InvalidInputError where there is none that is written."""
    if name not in EXPORTED:
        raise unsupported(name, tuple(EXPORTED))
    return EXPORTED[name]


def unsupported(name: str, known: tuple[str, ...]) -> InvalidInputError:
    """A form that is not known, or not that way round."""
    message = f"format: {name[:80]!r} is not supported; one of {', '.join(known)}"
    problem: dict[str, Any] = {"loc": ["format"], "msg": f"must be one of {', '.join(known)}", "type": "format"}
    return InvalidInputError(message, errors=[problem])


def listed(names: Iterable[str], most: int = 5) -> str:
    every = sorted(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


class Said(Struct, frozen=True):
    """A message of the session.

    Attributes:
        index: Its place among the messages of its strand, from 0.
        record: The JSON object the client sent, with all its fields and none of ours. `role` is a string; `content` may
            be a string, None, a list of parts (objects with a `type`), or missing; `tool_calls`, `tool_call_id` and
            `name` as in the OpenAI API, where they are there at all: nothing below the first level can be relied on.
    """

    index: int
    record: Mapping[str, Any]


class Strand(Struct):
    """A log of a session: the live one, or a timeline.

    Attributes:
        log: To read; opened when it is first used.
        timeline_id: Id of a timeline, such as `context_3`; None for the live log.
        reason: Why the timeline was set aside; None for the live log.
        created_at: Time of that, ISO-8601 UTC; None where it is not known, and for the live log.
        file: Its name in the session's directory.
        lost: Parts that could not be read so far, in words; grows while the strand is being read.
        masks: Masks the secrets in all that is said; None leaves them.
    """

    log: LogReader
    timeline_id: str | None = None
    reason: TimelineReason | None = None
    created_at: str | None = None
    file: str = LOG_NAME
    lost: list[str] = field(default_factory=list)
    masks: SecretMasks | None = None

    @property
    def system_prompt(self) -> str | None:
        """The system prompt in force at its end."""
        prompt = prompt_at(self.log, self.log.state)
        return prompt if self.masks is None or prompt is None else self.masks.repeated(prompt)

    def messages(self, start: int = 0) -> Iterator[Said]:
        """The messages from `start` on; what is damaged is left out and noted in `lost`."""
        last = self.log.state.lines
        first = line_of_message(self.log, start, last)
        self.lost += [f"{self.file}: {text}" for text in left_out(self.log, first if start > 0 else 0, last)]
        damaged: list[CorruptedError] = []
        for page in pages(self.log, first, last, damaged):
            self.lost += [error.message for error in damaged]
            damaged.clear()
            for row in page:
                record = without_marks(decode_json(row.body))
                yield Said(row.messages_before, record if self.masks is None else self.masks.value(record))

    def tell_secrets(self, masks: SecretMasks, first: int) -> None:
        """Let the messages from a line on be looked through for secrets."""
        for page in pages(self.log, first, self.log.state.lines, []):
            for row in page:
                if may_tell_secret(row.body):
                    masks.learn(decode_json(row.body))

    def checkpoints(self, start: int = 0) -> Iterator[Checkpoint]:
        """From the `start`-th on, oldest first, each with what happened after it."""
        for first in range(start, self.log.state.checkpoints, _CHECKPOINTS_AT_ONCE):
            found = told_checkpoints(self.log, first, _CHECKPOINTS_AT_ONCE, newest_first=False)
            yield from found if self.masks is None else (_masked(each, self.masks) for each in found)

    def common_lines(self, other: Strand) -> int:
        """Number of lines at the beginning that are the same in both. Cheap: nothing is read but the indexes."""
        return common_lines(self.log, other.log, min(self.log.state.lines, other.log.state.lines))


class ChangedFiles(Protocol):
    """The files of a session, by their snapshots."""

    def changed(self, before: str, after: str | None) -> list[tuple[str, str]]:
        """Return the kind of change and the path of each file that differs between two snapshots. Blocking."""
        ...


class Exhibit(Struct, frozen=True):
    """A session as it was at one moment. Times are ISO-8601 UTC.

    Attributes:
        parent: Where it was forked from.
        live: The present log.
        timelines: The earlier ones, oldest first; each can be restored, so each is a branch of the session's tree.
        directory: Where its files are.
        state: Fields of its `state.json`, approvals left out.
        notes: Members of its `timeleap.json` that mean something elsewhere.
        lost: What is no part of it though it should be, in words.
        losses: What the form cannot hold; a writer appends to it.
        tree: The files of its workspace, if they are kept.
        snapshots: Files with their snapshots, if these are to go along.
        masks: Masks the secrets in it; None leaves them.
    """

    session_id: str
    uid: str
    title: str | None
    workspace: str | None
    created_at: str
    updated_at: str
    parent: Parent | None
    subagents: tuple[Subagent, ...]
    live: Strand
    timelines: tuple[Strand, ...]
    directory: Path
    state: Mapping[str, Any]
    notes: Mapping[str, Any]
    lost: tuple[str, ...] = ()
    losses: list[ExportLoss] = field(default_factory=list)
    tree: ChangedFiles | None = None
    snapshots: tuple[Path, ...] = ()
    masks: SecretMasks | None = None

    def without_secrets(self) -> Exhibit:
        """Return the exhibit with a mark in the place of each text that looks like a secret. Blocking: all is read, since
        a secret may be repeated before the place that tells it."""
        masks = SecretMasks()
        self.live.tell_secrets(masks, 0)
        for strand in self.timelines:
            strand.tell_secrets(masks, strand.common_lines(self.live))
        return replace(
            self,
            title=None if self.title is None else masks.text(self.title),
            workspace=None if self.workspace is None else masks.text(self.workspace),
            subagents=tuple(replace(agent, name=masks.text(agent.name)) for agent in self.subagents),
            live=replace(self.live, masks=masks),
            timelines=tuple(replace(strand, masks=masks) for strand in self.timelines),
            masks=masks,
        )

    def with_files(self, strand: Strand, start: int = 0) -> Iterator[tuple[Checkpoint, list[tuple[str, str]]]]:
        """The checkpoints of a log from the `start`-th on, each with the files that changed from it to the next one (of the
        present log's last one: up to the newest snapshot): kind and path. What cannot be told is noted in `losses`."""
        checkpoints = strand.checkpoints(start)
        present = next(checkpoints, None)
        compared = 0
        while present is not None:
            following = next(checkpoints, None)
            files: list[tuple[str, str]] = []
            after = _snapshot(following)
            known = after is not None or (following is None and strand is self.live)
            before = _snapshot(present)
            if self.tree is not None and before is not None and known and not _same(before, after):
                compared += 1
                if compared > MOST_COMPARED:
                    if compared == MOST_COMPARED + 1:
                        text = f"files are shown for the first {MOST_COMPARED} checkpoints of a log only"
                        self.losses.append(ExportLoss("files", text))
                else:
                    files = self._changed(self.tree, before, after)
            yield present, files
            present = following

    def with_snapshots(self, directory: Path, left: Sequence[str]) -> Exhibit:
        """Add the snapshots of files that are in a directory; `left` names the missing ones."""
        self.losses.extend(ExportLoss("files", text) for text in left)
        return replace(self, snapshots=tuple(sorted(directory.iterdir())))

    def _changed(self, tree: ChangedFiles, before: str, after: str | None) -> list[tuple[str, str]]:
        try:
            changed = tree.changed(before, after)
            return changed if self.masks is None else [(kind, self.masks.text(path)) for kind, path in changed]
        except TimeleapError as error:
            loss = ExportLoss("files", f"the files that changed are not all shown: {error.message}")
            if loss not in self.losses:
                self.losses.append(loss)
            return []

    def all_losses(self) -> list[ExportLoss]:
        """All losses of an export, when it is done."""
        unread = [*self.lost, *(text for strand in (self.live, *self.timelines) for text in strand.lost)]
        return [*(ExportLoss("damaged", text) for text in dict.fromkeys(unread)), *self.losses]


def _masked(checkpoint: Checkpoint, masks: SecretMasks) -> Checkpoint:
    label = checkpoint.label
    return replace(
        checkpoint,
        label=None if label is None else masks.text(label),
        summary=masks.short_value(checkpoint.summary),
    )


def _snapshot(checkpoint: Checkpoint | None) -> str | None:
    """The snapshot of the files at a checkpoint."""
    found = None if checkpoint is None else checkpoint.kept.get("files", {}).get("snapshot")
    return found if isinstance(found, str) else None


def _same(snapshot: str, other: str | None) -> bool:
    """True if two snapshots have the very same tree, as their ids say."""
    return other is not None and snapshot.partition("-")[2] == other.partition("-")[2]


MOST_COMPARED: Final = 500
"""Checkpoints of a log whose files are compared: each takes git some time."""
CARRIED: Final = (
    *("createdAt", "workspace", "parent", "autoCheckpoint", "subagents", "pendingDMail", "pins"),
    *("timelines", "rotation", "importedFrom"),
)
"""Members of `timeleap.json` that mean something in another store. Seals, request ids, parts of the head do not."""


async def exhibit_of(session: Session) -> Exhibit:
    """The session as it is when all requests that came before have taken effect; what happens later does not show.

    Raises:
        StorageFailureError: Its directory cannot be read.
    """
    if session.access == "readOnly":
        await session.engine.catch_up()
    exhibit = await session.at_turn(lambda: _look(session))
    exhibit.losses.extend(await asyncio.to_thread(_left_behind, session.path))
    return exhibit


def _look(session: Session) -> Exhibit:
    live = session.engine.view
    reader = lru_cache(maxsize=_OPEN_AT_ONCE)(session.engine.timeline)
    state = files.read_document(session.path / STATE_NAME)
    carried = {name: value for name in CARRIED if (value := session.meta.get(name)) is not None}
    return Exhibit(
        session_id=session.session_id,
        uid=session.meta.uid,
        title=session.facts.title,
        workspace=session.facts.workspace,
        created_at=created_at(session.path, session.meta),
        updated_at=clock.iso(last_change_ns(session.path) / 1e9),
        parent=session.meta.parent,
        subagents=session.facts.subagents,
        live=Strand(live),
        timelines=tuple(_strand(timeline, reader) for timeline in reversed(session.engine.timelines(live))),
        directory=session.path,
        state={name: value for name, value in state.members.items() if name != "approval"},
        notes={**carried, undo_member.MEMBER: session.transactions.stacks().members()},
        lost=(state.problem,) if state.problem is not None else (),
        tree=session.companion.content(),
    )


def _strand(timeline: Timeline, reader: Callable[[str], LogReader]) -> Strand:
    log = cast("LogReader", _Opened(lambda: reader(timeline.timeline_id)))
    return Strand(log, timeline.timeline_id, timeline.facts.reason, timeline.facts.created_at or None, timeline.file)


class _Opened:
    """A log that is opened when it is used: a session may have more timelines than a process may have files open."""

    def __init__(self, opened: Callable[[], LogReader]) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)


def _left_behind(directory: Path) -> list[ExportLoss]:
    kept = ("foreign", "quarantine", "damaged")
    found = {file.name.partition("/")[0] for file in session_files.list_files(directory) if file.kind in kept}
    others = sorted(name for name in found if not name.startswith("."))
    if not others:
        return []
    return [ExportLoss("files", f"other files of the session's directory are not part of it: {listed(others)}")]


def written(exhibit: Exhibit, form: ExportFormat) -> Iterator[bytes]:
    """A session in a form, piece by piece. Half of a surrogate pair, which no text file can hold, becomes "?"."""
    module, _, function = form.writer.partition(":")
    write: Callable[[Exhibit], Iterator[str | bytes]] = getattr(import_module(f"{__package__}.{module}"), function)
    return (piece.encode("utf-8", "replace") if isinstance(piece, str) else piece for piece in write(exhibit))
