"""Writing the logs of a session that is made of another program's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.features.transfer.losses import LossTally
from timeleap.sessions.home import first_words
from timeleap.sessions.session_files import LOG_NAME
from timeleap.storage.durable import create_exclusive
from timeleap.storage.engine import NewRecord, TimelineFacts, TimelineReason
from timeleap.storage.record import checkpoint_record, message_record, system_prompt_record, usage_record

WRITTEN_AT_ONCE: Final = 1 << 18
MAX_RECORD: Final = 32 << 20
MAX_TIMELINES: Final = 50
MAX_TIMELINE_BYTES: Final = 2 << 30
"""Of all together: each repeats what it has in common with the live log, so that a small file could fill a disk."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a draft to come back to."""

    bytes: int
    lines: int
    messages: int
    checkpoints: int


class LogWriter:
    """One log on its way to the disk.

    Args:
        path: Where it is to be; there must be none.
        left_out: Where to note what cannot be written.
    """

    def __init__(self, path: Path, left_out: LossTally) -> None:
        self._path = path
        self._file = create_exclusive(path)
        self._buffer = bytearray()
        self._written = 0
        self._left_out = left_out
        self.lines = 0
        self.messages = 0
        self._checkpoints = 0

    def system_prompt(self, text: str) -> None:
        """The system prompt from here on."""
        self._add(system_prompt_record(sound(text)))

    def checkpoint(self, message: Mapping[str, Any], time: str | None) -> None:
        """A checkpoint before a user's `message`, called after its first words."""
        label = first_words(message)
        marks = {"u": f"c{self._checkpoints}-{clock.new_uid(12)}"}
        marks |= {name: value for name, value in (("l", label), ("t", time)) if value is not None}
        self._add(checkpoint_record(self._checkpoints, marks))
        self._checkpoints += 1

    def message(self, message: Mapping[str, Any]) -> None:
        """A message; one that no log can hold is left out, and noted."""
        try:
            record = message_record(message)
        except InvalidInputError:
            self._left_out.add("messages", "messages cannot be written exactly")
            return
        if len(record.body) > MAX_RECORD:
            self._left_out.add("messages", f"messages have more than {MAX_RECORD >> 20} MiB")
            return
        self._add(record)
        self.messages += 1

    def usage(self, tokens: object) -> None:
        """A token count; what is none is passed over."""
        if type(tokens) is int and 0 < tokens < 1 << 53:
            self._add(usage_record(tokens))

    def mark(self) -> Mark:
        """This place."""
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
        """All of it is there; returns when it is on the disk."""
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
    """The logs of a new session: the live one and, numbered as they come, timelines.

    Attributes:
        timelines: What is known of the timelines, by id.
    """

    def __init__(self, directory: Path, left_out: LossTally) -> None:
        self._directory = directory
        self._left_out = left_out
        self.timelines: dict[str, TimelineFacts] = {}

    def live(self) -> LogWriter:
        """The live log."""
        return LogWriter(self._directory / LOG_NAME, self._left_out)

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


def sound(text: str) -> str:
    """A text without halves of surrogate pairs, which no log of ours holds."""
    return text.encode("utf-8", "replace").decode("utf-8")


def text_part(text: str) -> Json:
    """A part of a message."""
    return {"type": "text", "text": sound(text)}


def image_part(url: str) -> Json:
    """A picture, as a URL or the data themselves."""
    return {"type": "image_url", "image_url": {"url": sound(url)}}


def think_part(thought: str, encrypted: object = None) -> Json:
    """A thought of a model."""
    return {
        "type": "think",
        "think": sound(thought),
        **({"encrypted": encrypted} if isinstance(encrypted, str) else {}),
    }


def tool_call(call_id: object, name: object, arguments: str) -> Json:
    """A call a model makes."""
    function = {"name": sound(str(name)), "arguments": sound(arguments)}
    return {"type": "function", "id": sound(str(call_id)), "function": function}


def content_of(parts: list[Json]) -> str | list[Json]:
    """Parts as a message holds them: a single text as it is."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or ""
