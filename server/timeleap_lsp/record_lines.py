"""A document as the editor's features read it: its lines, and the record that stands in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from timeleap.errors import TimeleapError
from timeleap.json_value import Json
from timeleap.message_text import beginning_of, is_summary, note_in, one_line, plain_line, prompt_in, span_name
from timeleap.storage.index import ENTRY_SIZE, IndexDamagedError, check_entries
from timeleap.storage.log_values import Entry, RecordKind, Role
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import decode_json
from timeleap.summaries.calls import calls_in
from timeleap.summaries.outcome import is_failure

NAME: Final = 80
"""UTF-16 units of a symbol's name."""
LONGEST: Final = 1 << 20
"""Bytes of a line up to which its record is read; a longer one is described by the index alone."""
BLOCK: Final = 256
"""Lines that are read at once."""
BLOCK_BYTES: Final = 4 << 20
"""Bytes up to which that many lines are."""
_COLUMNS: Final = 4096
_OWN_ROLE: Final = bytes(role & 15 for role in range(256))

Tag = Literal[
    "prompt", "assistant", "result", "note", "compaction", "message", "checkpoint", "usage", "prompt text", "other"
]


class MadeCall(Struct):
    """A tool call; `name` as `timeleap log` shows it."""

    call_id: str
    name: str


class TranscriptLine(Struct):
    """Description of one line.

    Attributes:
        line: Its number, from 0.
        tag: Its kind.
        name: Its words, on one line of at most `NAME` UTF-16 units.
        role: The role of its message; empty for a control record.
        calls: Tool calls that it makes.
        answers: The id of the call that it answers; empty if it answers none.
        failed: It is the result of a call that failed.
        time: When it was written, as the record says; empty where that is not known.
        uid: Of a checkpoint.
        tokens: Tokens of the context after it; None where that is not known.
    """

    line: int
    tag: Tag
    name: str
    role: str = ""
    calls: list[MadeCall] = []
    answers: str = ""
    failed: bool = False
    time: str = ""
    uid: str = ""
    tokens: int | None = None


class RecordLines(Protocol):
    """A document whose lines are records.

    Attributes:
        count: How many lines it has.
        turns: Lines at which turns begin, in order.
    """

    @property
    def count(self) -> int: ...
    @property
    def turns(self) -> list[int]: ...
    def lines(self, start: int, stop: int) -> Iterator[TranscriptLine]:
        """The lines from `start` to `stop` that hold records, in order."""
        ...

    def body(self, line: int) -> bytes | None:
        """The bytes of a line as they stand in the file; None if there are more than `LONGEST`."""
        ...

    def record(self, line: int) -> tuple[Json | None, int]:
        """The record of a line, None where there is none or it is too long to be shown, and its size in bytes."""
        ...


class LogTranscript:
    """The log of a session, read through its index.

    Args:
        log: The log as it was when the editor asked.
    """

    def __init__(self, log: StoredLog) -> None:
        self.log = log
        self._turns: list[int] | None = None

    @property
    def count(self) -> int:
        return self.log.state.lines

    @property
    def turns(self) -> list[int]:
        """A turn begins with a message of the user's that follows none of the user's, or with the checkpoint before it."""
        if self._turns is None:
            self._turns = list(self._begins())
        return self._turns

    def _begins(self) -> Iterator[int]:
        previous, before = int(Role.NONE), int(RecordKind.BLANK)
        for start in range(0, self.count, _COLUMNS):
            kinds, roles = self._columns(start)
            for line, (kind, role) in enumerate(zip(kinds, roles, strict=True), start):
                if kind == RecordKind.MESSAGE:
                    if role == Role.USER and previous != Role.USER:
                        yield line - 1 if before == RecordKind.CHECKPOINT else line
                    previous = role
                before = kind

    def _columns(self, start: int) -> tuple[bytes, bytes]:
        """The kinds and the roles of the next lines: an object for each would take most of the time of an outline."""
        stop = min(start + _COLUMNS, self.count)
        raw = self.log.store.raw(start, stop)
        try:
            check_entries(raw, start)
        except IndexDamagedError:
            entries = self.log.entries(start, stop)  # which makes the index anew
            return bytes(entry.kind for entry in entries), bytes(entry.role for entry in entries)
        return raw[16::ENTRY_SIZE], raw[19::ENTRY_SIZE].translate(_OWN_ROLE)

    def entry(self, line: int) -> Entry:
        """The entry of a line that is there."""
        return self.log.entries(line, line + 1)[0]

    def lines(self, start: int, stop: int) -> Iterator[TranscriptLine]:
        for begin in range(start, min(stop, self.count), BLOCK):
            entries = self.log.entries(begin, min(stop, begin + BLOCK))
            bodies: dict[int, bytes] = {}
            if sum(entry.length for entry in entries) <= BLOCK_BYTES:
                with suppress(TimeleapError):  # a damaged line is then found by itself
                    bodies = {row.line: row.body for row in self.log.rows(begin, begin + len(entries))}
            for entry in entries:
                if entry.kind != RecordKind.BLANK:
                    body = bodies.get(entry.line)
                    record = self.record(entry.line)[0] if body is None else _record_in(body)
                    yield self._described(entry, record)

    def body(self, line: int) -> bytes | None:
        entry = self.entry(line)
        return None if entry.length > LONGEST else self.log.pread(entry.offset, entry.length)

    def record(self, line: int) -> tuple[Json | None, int]:
        entry = self.entry(line)
        if entry.length > LONGEST or entry.kind in (RecordKind.BLANK, RecordKind.DAMAGED):
            return None, entry.length
        try:
            return _record_in(self.log.read(line, line + 1)[0]), entry.length
        except TimeleapError:
            return None, entry.length

    def _described(self, entry: Entry, record: Json | None) -> TranscriptLine:
        tokens = entry.state.token_count or None
        if entry.kind == RecordKind.MESSAGE:
            found = message_line(entry.line, record or {"role": entry.role.name.lower()})
            found.tokens = tokens
            return found
        marks: Mapping[str, Any] = {} if record is None else _marks(record)
        time = str(marks.get("t") or "")
        if entry.kind == RecordKind.CHECKPOINT:
            label = marks.get("l")
            name = f"Checkpoint {entry.value}" + (f": {one_line(label, NAME)}" if isinstance(label, str) else "")
            return TranscriptLine(
                entry.line, "checkpoint", name, uid=str(marks.get("u") or ""), time=time, tokens=tokens
            )
        if entry.kind == RecordKind.USAGE:
            return TranscriptLine(entry.line, "usage", f"{entry.value:,} tokens", time=time, tokens=entry.value)
        if entry.kind == RecordKind.SYSTEM_PROMPT:
            text = (record or {}).get("content")
            return TranscriptLine(
                entry.line, "prompt text", f"System prompt: {plain_line(text, NAME) if isinstance(text, str) else ''}"
            )
        name = "Damaged line" if entry.kind == RecordKind.DAMAGED else "Record of another program"
        return TranscriptLine(entry.line, "other", name)


def _record_in(body: bytes) -> Json | None:
    try:
        found = decode_json(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _marks(record: Json) -> Mapping[str, Any]:
    marks = record.get("_tl")
    return marks if isinstance(marks, dict) else {}


def message_line(line: int, message: Json) -> TranscriptLine:
    """Describe the line of a message in the form of the contract."""
    role = str(message.get("role") or "")
    found = TranscriptLine(line, "message", "", role=role, time=str(_marks(message).get("t") or ""))
    if role == "user":
        found.tag, said = _of_user(message)
        found.name = plain_line(said, NAME)
    elif role == "assistant":
        found.tag = "assistant"
        for call in calls_in(message):
            name = span_name({"kind": "calls", "text": "", "calls": [call.wire()]}, NAME)
            found.calls.append(MadeCall(call.call_id or "", name or "a tool"))
        found.name = plain_line(beginning_of(message), NAME)
    elif role == "tool":
        found.tag, found.failed = "result", is_failure(message)
        found.answers = str(message.get("tool_call_id") or "")
        found.name = plain_line(beginning_of(message), NAME)
    else:
        found.name = plain_line(beginning_of(message), NAME)
    return found


def _of_user(message: Json) -> tuple[Tag, str]:
    if is_summary(message):
        return "compaction", "Compacted: " + beginning_of(message).partition("\n")[2]
    note = note_in(message)
    if note is not None:
        return "note", note
    said = prompt_in(message)
    return ("prompt", said) if said.strip() else ("message", beginning_of(message))
