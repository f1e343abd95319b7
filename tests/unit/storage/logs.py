"""Short ways to say what a test writes and sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from timeleap.storage.engine import LogEngine, replace_log
from timeleap.storage.log_values import (
    Appended,
    LogState,
    NewRecord,
    RecordKind,
    Replaced,
    Replacement,
    TimelineFacts,
    TimelineReason,
)
from timeleap.storage.reader import LogReader
from timeleap.storage.record import checkpoint_record, message_record, strip_tl, usage_record


def said(text: str, role: str = "user", **tl: Any) -> NewRecord:
    """A message."""
    return message_record({"role": role, "content": text}, tl or None)


def always(*records: NewRecord) -> Callable[[LogState], Sequence[NewRecord]]:
    """A plan that does not look at the state."""
    return lambda _: records


async def say(engine: LogEngine, *texts: str, role: str = "user") -> Appended:
    """Append messages as one step."""
    return await engine.append(always(*(said(text, role) for text in texts)))


async def mark(engine: LogEngine) -> Appended:
    """Append the next checkpoint."""
    return await engine.append(lambda state: [checkpoint_record(state.next_checkpoint_id)])


async def count(engine: LogEngine, tokens: int) -> Appended:
    """Append a token count."""
    return await engine.append(always(usage_record(tokens)))


async def keep(engine: LogEngine, lines: int, *records: NewRecord, reason: TimelineReason = "revert") -> Replaced:
    """Replace the log by its first lines and some records."""
    return await replace_log(engine, lambda _: Replacement(TimelineFacts(reason), keep_lines=lines, records=records))


async def restore(engine: LogEngine, timeline_id: str) -> Replaced:
    """Replace the log by a timeline."""
    return await replace_log(engine, lambda _: Replacement(TimelineFacts("restore"), from_timeline=timeline_id))


def texts(reader: LogReader) -> list[str]:
    """The texts of the history."""
    rows = reader.rows(0, reader.state.lines)
    return [msgspec.json.decode(row.body)["content"] for row in rows if row.kind == RecordKind.MESSAGE]


def records(reader: LogReader) -> list[Any]:
    """All records, without our reserved key."""
    return [msgspec.json.decode(strip_tl(line)) for line in reader.read(0, reader.state.lines)]


def names(folder: Path) -> list[str]:
    """What a person sees who lists the directory."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def hidden(folder: Path) -> list[str]:
    """The auxiliary files."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
