"""Sessions of other programs as new sessions of ours: the conversation is the live log, what it left are timelines."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer.sanitize import Arrival, Origin
from timeleap.features.transfer_losses import LossTally
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.storage.durable import create_exclusive
from timeleap.storage.log_values import NewRecord, TimelineFacts, TimelineReason
from timeleap.store.creation import Traits
from timeleap_agents.mirrors.formats.conversion import RecordWriter
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.mirror import READERS
from timeleap_agents.mirrors.steps import Step

WRITTEN_AT_ONCE: Final = 1 << 18
MAX_TIMELINES: Final = 50
MAX_TIMELINE_BYTES: Final = 2 << 30
"""Limit on all timelines together: each repeats what it has in common with the live log, so that a small file could fill a disk."""


class LogWriter(RecordWriter):
    """A log on its way to the disk, where there must be none."""

    def __init__(self, path: Path, left_out: LossTally) -> None:
        super().__init__(left_out)
        self._file = create_exclusive(path)
        self._buffer = bytearray()
        self._written = 0

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


def _write(writer: LogWriter, log: Conversation, steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    for number, _ in enumerate(log.write(steps, writer)):
        yield (log.file.end + log.file.end * number // len(steps)) // 2, log.file.end
    writer.finish()
