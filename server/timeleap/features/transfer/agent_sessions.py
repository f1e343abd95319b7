"""The sessions of Claude Code and Codex as new sessions of ours: the conversation is the live log, what it left are timelines."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer.sanitize import Arrival, Origin
from timeleap.mirrors.formats.codex import ItemWriter, Rollout
from timeleap.mirrors.formats.conversion import Json, JsonLines, LossTally, RecordWriter, document, opened
from timeleap.mirrors.growing_file import Conversation, Step
from timeleap.mirrors.mirror import READERS
from timeleap.sessions.creation import Traits
from timeleap.sessions.session_files import LOG_NAME
from timeleap.storage.durable import OpenFile, create_exclusive
from timeleap.storage.engine import NewRecord, TimelineFacts, TimelineReason

WRITTEN_AT_ONCE: Final = 1 << 18
MAX_TIMELINES: Final = 50
MAX_TIMELINE_BYTES: Final = 2 << 30
"""Of all together: each repeats what it has in common with the live log, so that a small file could fill a disk."""


class Mark(Struct, frozen=True):
    """A place in a log to come back to."""

    bytes: int
    lines: int
    messages: int
    checkpoints: int


class LogWriter(RecordWriter):
    """One log on its way to the disk, where there must be none."""

    def __init__(self, path: Path, left_out: LossTally) -> None:
        super().__init__(left_out)
        self._file = create_exclusive(path)
        self._buffer = bytearray()
        self._written = 0

    def mark(self) -> Mark:
        return Mark(self._written + len(self._buffer), self.lines, self.messages, self._checkpoints)

    def copy_to(self, path: Path) -> None:
        """Make a log of what there is so far."""
        self._flush()
        copy = create_exclusive(path)
        self._file.copy_to(copy, 0, self._written)
        copy.sync()

    def cut(self, mark: Mark) -> None:
        """Take away what came after a mark."""
        self._flush()
        self._file.truncate(mark.bytes)
        self._written, self.lines, self.messages = mark.bytes, mark.lines, mark.messages
        self._checkpoints = mark.checkpoints

    def finish(self) -> None:
        """Returns when all of it is on the disk."""
        self._flush()
        self._file.sync()
        self._file.close()

    def _add(self, record: NewRecord) -> None:
        self._buffer += record.body + b"\n"
        self.lines += 1
        if len(self._buffer) >= WRITTEN_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._file.pwrite(self._buffer, self._written)
            self._written += len(self._buffer)
            self._buffer = bytearray()


class Drafts:
    """The logs of a new session: the live one and, numbered as they come, timelines; their facts by id."""

    def __init__(self, directory: Path, left_out: LossTally) -> None:
        self._directory = directory
        self._left_out = left_out
        self.timelines: dict[str, TimelineFacts] = {}

    def live(self) -> LogWriter:
        return LogWriter(self._directory / LOG_NAME, self._left_out)

    @property
    def said(self) -> bool:
        """Something stands in one of the logs. Blocking."""
        paths = [self._directory / LOG_NAME, *map(self._path, self.timelines)]
        return any(path.exists() and path.stat().st_size for path in paths)

    def timeline(self, reason: TimelineReason, time: str | None) -> Path | None:
        """The name of one more timeline; None where there is as much as a session keeps. Noted as a loss then."""
        if len(self.timelines) >= MAX_TIMELINES:
            self._left_out.add("timelines", f"earlier states or branches beyond the first {MAX_TIMELINES}")
            return None
        if sum(self._path(timeline_id).stat().st_size for timeline_id in self.timelines) >= MAX_TIMELINE_BYTES:
            self._left_out.add("timelines", f"earlier states or branches beyond {MAX_TIMELINE_BYTES >> 20} MiB")
            return None
        name = f"{Path(LOG_NAME).stem}_{len(self.timelines) + 1}"
        self.timelines[name] = TimelineFacts(reason, time or clock.now_iso())
        return self._path(name)

    def _path(self, timeline_id: str) -> Path:
        return self._directory / f"{timeline_id}.jsonl"


def nothing_of(form: str) -> InvalidInputError:
    """The error for a file that is not damaged, but of another form, or of a session in which nothing is said."""
    return refused(f"holds no message of the form {form}")


# What is mirrored, too


def read_log(kind: str, path: Path, directory: Path) -> Generator[tuple[int, int], None, Arrival]:
    """Read a session as its mirror does: the same messages, timelines, checkpoints, title and times."""
    log = READERS[kind](path)
    log.read()
    steps, left_out = log.steps(), log.file.left_out
    yield log.file.end // 2, log.file.end
    drafts = Drafts(directory, left_out)
    for earlier in log.earlier():
        aside = drafts.timeline(earlier.reason, earlier.steps[-1].time)
        if aside is not None:
            yield from _write(LogWriter(aside, LossTally()), log, earlier.steps)
    live = drafts.live()
    yield from _write(live, log, steps)
    if not drafts.said:
        raise nothing_of(kind)
    return Arrival(
        traits=Traits(title=log.title or log.first_prompt, workspace=log.workspace),
        created_at=log.created_at,
        updated_at=log.updated_at,
        timelines=drafts.timelines,
        lines=live.lines,
        origin=Origin(kind, log.session_id, losses=tuple(left_out.losses())),
    )


def _write(writer: LogWriter, log: Conversation, steps: list[Step]) -> Iterator[tuple[int, int]]:
    for number, _ in enumerate(log.write(steps, writer)):
        yield (log.file.end + log.file.end * number // len(steps)) // 2, log.file.end
    writer.finish()


# Codex


def read_codex(path: Path, directory: Path) -> Generator[tuple[int, int], None, Arrival]:
    left_out = LossTally()
    file = opened(path)
    try:
        lines = JsonLines(file, left_out)
        drafts = Drafts(directory, left_out)
        rollout = _RolloutCopy(drafts, left_out)
        for at, record in _records(file, lines, left_out):
            if record is not None:
                rollout.take(record)
            yield at, lines.size
    finally:
        file.close()
    live, facts = rollout.finished(), rollout.facts
    if not drafts.said:
        raise nothing_of("codex")
    return Arrival(
        traits=Traits(workspace=facts.workspace),
        created_at=facts.created_at,
        timelines=drafts.timelines,
        lines=live.lines,
        origin=Origin("codex", facts.session_id, losses=tuple(left_out.losses())),
    )


def _records(file: OpenFile, lines: JsonLines, left_out: LossTally) -> Iterator[tuple[int, Json | None]]:
    """The record of each line with its offset; of a document, the records that a newer file would have on its lines."""
    whole = document(file)
    if whole is None:
        yield from ((line.offset, line.record) for line in lines)
        return
    items = whole.get("items")
    every = [whole["session"], *(items if isinstance(items, list) else [])]
    for number, item in enumerate(every):
        if not isinstance(item, dict):
            left_out.add("items", "items are no JSON objects")
        else:
            yield lines.size * number // len(every), item


class _RolloutCopy(Rollout[Mark]):
    """Writes it into logs."""

    def __init__(self, drafts: Drafts, left_out: LossTally) -> None:
        super().__init__(left_out)
        self._drafts = drafts
        self._live = drafts.live()
        self._items = ItemWriter(self._live, left_out)

    def finished(self) -> LogWriter:
        """The live log, written to its end."""
        self._items.flush()
        self._live.finish()
        return self._live

    def _here(self) -> Mark:
        self._items.flush()
        return self._live.mark()

    def _add_prompt(self, prompt: str | None) -> None:
        if prompt is not None:
            self._live.system_prompt(prompt)

    def _add_item(self, item: Json) -> None:
        self._items.take(item, self._time)

    def _add_tokens(self, tokens: object) -> None:
        self._items.flush()
        self._live.usage(tokens)

    def _go_back(self, reason: TimelineReason, point: Mark | None) -> None:
        """What it was becomes a timeline."""
        self._items.flush()
        path = self._drafts.timeline(reason, self._time)
        if path is not None:
            self._live.copy_to(path)
        self._live.cut(point or Mark(0, 0, 0, 0))
