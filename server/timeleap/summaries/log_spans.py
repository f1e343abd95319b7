"""The summaries of a log's spans: read from it, some at once; and of the newest one, as messages are appended.

A span may be very long, or hold very long messages: so much of its beginning is read, the rest is only counted. What is
read is decided by the sizes of the records alone, so that a summary made while messages come is the one that is made of
the log later.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from timeleap.errors import CorruptedError
from timeleap.json_value import Json
from timeleap.message_text import (
    MOST_CHARACTERS,
    beginning_of,
    checkpoint_name,
    cut,
    is_summary,
    note_in,
    plain_line,
    prompt_in,
    texts,
)
from timeleap.storage.durable import crc32
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import Entry, LogState, NewRecord, RecordKind, Role
from timeleap.storage.reader import LogReader
from timeleap.storage.record import after_record, decode_json, decode_strictly
from timeleap.summaries.calls import CalledTool, calls_in, command_in
from timeleap.summaries.outcome import is_failure, is_terminal_prompt

BLOCK_BYTES: Final = 1 << 18
"""Read of a log at once, few enough for the processor's cache; a single line may be longer."""
PAGE_BYTES: Final = 16 << 20
"""Read of a log for one page of checkpoints."""
_ENTRIES_AT_ONCE: Final = 512

Kind = Literal["prompt", "calls", "text", "compacted", "dmail", "empty"]

MOST_CALLS: Final = 20
MOST_FILES: Final = 20
READ_MESSAGES: Final = 512
"""Messages of a span that are read; those behind them are counted."""
READ_BYTES: Final = 1 << 20
"""Bytes of a span that are read. A record that goes beyond is read at its beginning."""
HEAD_BYTES: Final = 8192
_OPEN_CALLS: Final = 1024  # calls whose results are waited for
_NONE, _USER, _ASSISTANT, _TOOL, _OTHER = Role.NONE, Role.USER, Role.ASSISTANT, Role.TOOL, Role.OTHER
_CHECKPOINT, _MESSAGE = RecordKind.CHECKPOINT, RecordKind.MESSAGE  # members of an enum are slow to look up
_ROLES: Final = {"user": _USER, "assistant": _ASSISTANT, "tool": _TOOL}
_NAMES: Final = {role: name for name, role in _ROLES.items()}
_TEXT: Final = re.compile(rb'"(?:content|text)"\s*:\s*"((?:[^"\\]|\\.)*)')
_CUT_ESCAPE: Final = re.compile(rb"(?:\\(?:u.{0,3})?|\\u[dD][89abAB]..)\Z")


class SpanTally:
    """The messages of a span so far.

    Args:
        follows: The role of the last message before the span.
    """

    __slots__ = (
        "_before", "_calls", "_command", "_count", "_errors", "_files", "_note", "_open", "_other", "_prompt", "_read",
        "_said", "_size", "_summed_up", "_text",
    )  # fmt: skip

    def __init__(self, follows: Role = _NONE) -> None:
        self._before = follows
        self._read = self._size = 0
        self._prompt = ""
        self._said = self._other = ""  # the beginning of what the agent said first, and of what else was said first
        self._text: str | None = None  # of these two; made when it is asked for, which in most spans it is not
        self._note: str | None = None
        self._summed_up: str | None = None
        self._calls: list[Json] = []
        self._count = self._errors = 0
        self._files: dict[str, None] = {}
        self._open: dict[str, tuple[int, bool]] = {}  # by call id: its place, and whether it shows files
        self._command: CalledTool | None = None

    def wants(self, length: int) -> int:
        """How many bytes of the next record it looks at, one of `length` bytes; asked once for each, in order."""
        self._read += 1
        if self._read > READ_MESSAGES:
            return 0
        self._size += length
        return length if self._size <= READ_BYTES else min(length, HEAD_BYTES)

    def take(self, record: bytes, role: Role, *, whole: bool = True) -> None:
        """Take the record of a message, or (not `whole`) its beginning, of a message of that role."""
        if not whole:
            self.take_message({"role": _NAMES.get(role, ""), "content": _beginning(record)})
            return
        try:
            message = decode_json(record)
        except ValueError:
            return
        if isinstance(message, dict):
            self.take_message(message)

    def wire(self, messages: int, tokens: int | None) -> Json:
        """`SpanSummary` of the contract: of so many messages, by which the token count grew."""
        kind, text = self._gist()
        found: Json = {"kind": kind, "text": text}
        if self._calls:
            found["calls"] = self._calls.copy()
        if self._count > MOST_CALLS:
            found["moreCalls"] = self._count - MOST_CALLS
        if self._files:
            found["files"] = list(self._files)
        if self._errors:
            found["errors"] = self._errors
        found["messages"] = messages
        if tokens is not None:
            found["tokens"] = tokens
        return found

    def _gist(self) -> tuple[Kind, str]:
        if self._summed_up is not None:
            return "compacted", self._summed_up
        if self._note is not None:
            return "dmail", self._note
        if self._prompt:
            return "prompt", self._prompt
        if self._calls:
            return "calls", _listed(self._calls)
        if self._text is None:
            self._text = plain_line(self._said) or plain_line(self._other)
        return ("text", self._text) if self._text else ("empty", "")

    def take_message(self, message: Mapping[str, Any]) -> None:
        """Take a message."""
        before, role = self._before, _ROLES.get(str(message.get("role")), _OTHER)
        self._before = role
        if role is _USER:
            self._user(message, before)
        elif role is _ASSISTANT:
            self._assistant(message)
        elif role is _TOOL:
            self._result(message)
        else:
            self._keep(message)

    def _keep(self, message: Mapping[str, Any]) -> None:
        if not self._other:
            self._other, self._text = beginning_of(message), None

    def _user(self, message: Mapping[str, Any], before: Role) -> None:
        if is_summary(message):
            if self._summed_up is None:
                self._summed_up = plain_line("\n".join(texts(message)[1:]))
            return
        note = note_in(message)
        if note is not None:
            if self._note is None:
                self._note = plain_line(note)
            return
        said = prompt_in(message)
        # Agents without tools get the output of a terminal as a message of the user's, with the terminal's prompt at its end.
        last_line = said[-200:].rstrip().rpartition("\n")[2].strip()
        if before is not _NONE and before is not _USER and is_terminal_prompt(last_line):
            self._printed(message, said)
            return
        self._command = None
        if not self._prompt:
            self._prompt = plain_line(said)
        if not any(texts(message)):
            self._keep(message)

    def _assistant(self, message: Mapping[str, Any]) -> None:
        made = False
        for call in calls_in(message):
            made = True
            self._call(call)
        self._command = None if made else command_in(message)
        if not (self._said or self._prompt or self._calls):
            self._said, self._text = beginning_of(message), None

    def _call(self, call: CalledTool, failed: bool = False) -> None:
        if self._count < MOST_CALLS:
            self._calls.append({**call.wire(), "failed": True} if failed else call.wire())
        self._count += 1
        for path in call.files:
            if len(self._files) < MOST_FILES:
                self._files[path] = None
        if call.call_id and len(self._open) < _OPEN_CALLS:
            self._open[call.call_id] = self._count - 1, call.shows_files

    def _result(self, message: Mapping[str, Any]) -> None:
        answers = message.get("tool_call_id")
        place, shows_files = self._open.pop(answers, (-1, False)) if isinstance(answers, str) else (-1, False)
        if is_failure(message, shows_files=shows_files):
            self._errors += 1
            if 0 <= place < len(self._calls):
                # Not in place: the one before was handed out.
                self._calls[place] = {**self._calls[place], "failed": True}
        if not self._calls:
            self._keep(message)

    def _printed(self, message: Mapping[str, Any], said: str) -> None:
        """Take in the output of a terminal, from an agent that has no tools."""
        command, self._command = self._command, None
        failed = is_failure(message, shows_files=command is not None and command.shows_files)
        self._errors += failed
        if command is not None:
            self._call(command, failed)
        else:
            self._keep(message)


def _listed(calls: list[Json]) -> str:
    text = ""
    for call in calls:
        shown = f"{call['name']} {call['argument']}" if "argument" in call else call["name"]
        text = f"{text}; {shown}" if text else shown
        if len(text) > MOST_CHARACTERS:
            break
    return cut(text, MOST_CHARACTERS)


def _beginning(record: bytes) -> str:
    """The beginning of a message's text, made out in the beginning of its record."""
    found = _TEXT.search(record)
    if found is None:
        return ""
    written = _CUT_ESCAPE.sub(b"", found[1]).decode("utf-8", "ignore")
    try:
        return msgspec.json.decode(f'"{written}"', type=str)
    except (msgspec.MsgspecError, UnicodeError):
        return written


class SpanRead(Struct):
    """A span as it was read from a log.

    Attributes:
        entry: Of its checkpoint.
        before: The state before that.
        body: The checkpoint's record; None where it is not what was written.
        message: Its first message; None where that was not read whole, or there is none.
        span: Its summary so far.
    """

    entry: Entry
    before: LogState
    body: bytes | None
    span: _Span
    message: Json | None = None


def read_spans(reader: LogReader, first: int, count: int, end: LogState | None = None) -> list[SpanRead]:
    """Up to `count` spans of a log, oldest first, from that of the checkpoint with the 0-based ordinal `first` on; as if
    the log ended at `end`. Lines that follow each other are read together, and of a long span only the beginning."""
    end = end or reader.state
    after = min(end.checkpoints, first + count)
    if first >= after:
        return []
    line, stop = reader.line_of_checkpoint(first), end.lines
    if after < end.checkpoints:
        stop = reader.line_of_checkpoint(after)
    state = reader.entries(line - 1, line)[0].state if line else LogState()
    found: list[SpanRead] = []
    while line < stop:
        entries = reader.entries(line, min(stop, line + _ENTRIES_AT_ONCE))
        block = _Block(reader, entries)
        for entry in entries:
            if entry.kind is _MESSAGE:
                if not _take(found[-1], block, entry):  # the rest of a long span is passed over
                    ordinal = entry.state.checkpoints
                    line = reader.line_of_checkpoint(ordinal) if ordinal < after else stop
                    state = reader.entries(line - 1, line)[0].state
                    break
            elif entry.kind is _CHECKPOINT:
                if found:
                    found[-1].span.count(state)
                found.append(SpanRead(entry, state, block.line(entry), _Span(entry.state)))
            state = entry.state
        else:
            line += len(entries)
        found[-1].span.count(state)
    return found


def _take(read: SpanRead, block: _Block, entry: Entry) -> bool:
    """Take a message into a span; false if it has enough of them."""
    wanted = read.span.tally.wants(entry.length)
    if 0 < wanted < entry.length:
        read.span.tally.take(block.reader.pread(entry.offset, wanted), entry.role, whole=False)
    elif wanted and (message := block.message(entry)) is not None:
        read.span.tally.take_message(message)
        if entry.state.messages == read.entry.state.messages + 1:
            read.message = message
    return wanted > 0


class _Block:
    """Lines of a log that follow each other, read some at a time as they are asked for, in rising order; compared with their
    checksums and decoded. What is no strict JSON is read again as the log shows it."""

    def __init__(self, reader: LogReader, entries: Sequence[Entry]) -> None:
        self.reader = reader
        self._entries = entries
        self._data, self._begin = b"", 0

    def line(self, entry: Entry) -> bytes | None:
        """The line of an entry; None where it is not what was written."""
        begin = entry.offset - self._begin
        if begin < 0 or begin + entry.length > len(self._data):
            ends = itertools.accumulate(each.length for each in self._entries[entry.line - self._entries[0].line :])
            size = max(itertools.takewhile(BLOCK_BYTES.__ge__, ends), default=entry.length)
            self._data, self._begin, begin = self.reader.pread(entry.offset, size), entry.offset, 0
        line = self._data[begin : begin + entry.length]
        return line if crc32(line) == entry.crc else None

    def message(self, entry: Entry) -> Json | None:
        """The message in the line of an entry; None where it is not what was written, or is none."""
        line = self.line(entry)
        if line is None:
            return None
        try:
            message = decode_strictly(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            try:
                message = decode_json(self.reader.read(entry.line, entry.line + 1)[0])
            except (CorruptedError, ValueError):
                return None
        return message if isinstance(message, dict) else None


def add_records(spans: list[_Span], end: LogState, records: Sequence[NewRecord]) -> list[Json]:
    """`SpanSummary` of the contract of the last spans of a log that is at `end`, once it has `records`, whose checkpoints
    begin spans, too."""
    state = end
    for record in records:
        state = after_record(state, record)
        if record.kind is _CHECKPOINT:
            spans.append(_Span(state))
        elif spans:
            spans[-1].add(record, len(record.body) + 1, state)
    return [span.wire() for span in spans]


def spans_of_page(reader: LogReader, first: int, count: int, newest_first: bool) -> int:
    """How many of `count` spans, from that of the ordinal `first` on, upwards or downwards, are read for one page: all, or
    as many as have `PAGE_BYTES`, at least one."""
    total = reader.state.checkpoints
    ordinals = range(first, max(-1, first - count), -1) if newest_first else range(first, min(total, first + count))
    if reader.state.length <= PAGE_BYTES or len(ordinals) * READ_BYTES <= PAGE_BYTES:
        return count
    size = 0
    for number, ordinal in enumerate(ordinals):
        begin = reader.line_of_checkpoint(ordinal)
        end = reader.line_of_checkpoint(ordinal + 1) if ordinal + 1 < total else reader.state.lines
        offset = reader.entries(begin, begin + 1)[0].state.length
        size += min(READ_BYTES, reader.entries(end - 1, end)[0].state.length - offset)
        if size > PAGE_BYTES:
            return max(1, number)
    return count


class _Span:
    """A span, from the state after its checkpoint on."""

    def __init__(self, begin: LogState) -> None:
        self.tally = SpanTally(begin.last_role)
        self._begin = begin
        self._messages = begin.messages
        self._tokens = begin.token_count
        self._usages = begin.usages

    def add(self, record: NewRecord, length: int, after: LogState, message: Mapping[str, Any] | None = None) -> None:
        """Take a record that has `length` bytes in the log, which is at `after` then; `message`: what it says, if known."""
        if record.kind is _MESSAGE and (wanted := self.tally.wants(length)):
            whole = wanted == length
            if whole and message is not None:
                self.tally.take_message(message)
            else:
                self.tally.take(record.body if whole else record.body[:wanted], record.role, whole=whole)
        self.count(after)

    def count(self, state: LogState) -> None:
        """Count up to a state."""
        self._messages, self._tokens, self._usages = state.messages, state.token_count, state.usages

    def wire(self) -> Json:
        reported = self._usages > self._begin.usages
        tokens = self._tokens - self._begin.token_count if reported else None
        return self.tally.wire(self._messages - self._begin.messages, tokens)


class NewSpans(Struct, frozen=True):
    """The spans that an append began, and the newest one after it.

    Attributes:
        made: Summaries of those that the append's checkpoints began, the newest last.
        newest: The summary of the newest one.
    """

    made: Sequence[Json]
    newest: Json


class NewestSpan:
    """The newest span of a log, kept up to date by what is appended alone. After a rewrite, or where it missed an append,
    it is read again, once.

    Attributes:
        line: Of its checkpoint.
        uid: Of the same, for whoever found it out.
        wanted: False while no listener is sent it.
    """

    wanted = True

    def __init__(self) -> None:
        self._span = _Span(LogState())
        self.line = -1
        self.uid: str | None = None
        self._at: tuple[int, int] | None = None  # lines and fingerprint of the log that it is of

    def appended(
        self,
        reader: LogReader,
        before: LogState,
        after: LogState,
        records: Sequence[NewRecord],
        message: Mapping[str, Any] | None = None,
    ) -> NewSpans | None:
        """Spans after an append of `records` between two states; None where there is no checkpoint. `message` is
        a single record's message, where it is at hand."""
        if after.checkpoints == 0:
            return None
        if before.checkpoints == 0:
            self.line = -1
        elif self._at != (before.lines, before.chain) and not (records and records[0].kind is _CHECKPOINT):
            self._read(reader, before)
        self._at = after.lines, after.chain
        if len(records) == 1 and records[0].kind is not _CHECKPOINT:  # as nearly always
            if self.line >= 0:
                self._span.add(records[0], after.length - before.length, after, message)
            return NewSpans((), self._span.wire())
        made: list[Json] = []
        for record, state in zip(records, _states(reader, before, after), strict=True):
            if record.kind is _CHECKPOINT:
                if made:
                    made[-1] = self._span.wire()
                self._span, self.line, self.uid = _Span(state), state.lines - 1, None
                made.append({})
            elif self.line >= 0:
                self._span.add(record, state.length - before.length, state)
            before = state
        newest = self._span.wire()
        return NewSpans([*made[:-1], newest] if made else [], newest)

    def _read(self, reader: LogReader, state: LogState) -> None:
        [newest] = read_spans(reader, state.checkpoints - 1, 1, state)
        self._span, self.line, self.uid = newest.span, newest.entry.line, None


def _states(reader: LogReader, before: LogState, after: LogState) -> Sequence[LogState]:
    """The states after each record of an append."""
    if after.lines - before.lines == 1:
        return (after,)
    return [entry.state for entry in reader.entries(before.lines, after.lines)]


# What happened after a checkpoint is not kept with an answer: it is made of what messages say, cut and without marks, so
# that a redaction would not find in it what it takes out. It is made again of the log, as that is then.


def without_spans(members: Mapping[str, Any]) -> Json:
    """The members of a result or a notification without `span`, its checkpoints and those of its `context` without
    summaries."""
    bare = {name: value for name, value in members.items() if name != "span"}
    if "checkpoint" in bare:
        bare["checkpoint"] = _without_summary(bare["checkpoint"])
    context = bare.get("context")
    checkpoints = context.get("checkpoints") if isinstance(context, dict) else None
    if not isinstance(context, dict) or not isinstance(checkpoints, list):
        return bare
    return {**bare, "context": {**context, "checkpoints": [_without_summary(each) for each in checkpoints]}}


def _without_summary(value: Any) -> Any:
    """A checkpoint without what is made of the messages after it."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name not in ("summary", "name")}


def with_spans(engine: LogEngine, members: Json) -> Json:
    """The members of a stored result with the summaries of then; as they are where the log of then is no beginning of
    the present one."""
    context = members.get("context")
    size, checkpoints = (
        (context.get("logBytes"), context.get("checkpoints")) if isinstance(context, dict) else (0, None)
    )
    if not isinstance(context, dict) or not isinstance(size, int) or not isinstance(checkpoints, list):
        return members
    line = bisect_left(range(engine.state.lines), size, key=lambda line: engine.entries(line, line + 1)[0].state.length)
    end = engine.entries(line, line + 1)[0].state if line < engine.state.lines else LogState()
    first = end.checkpoints - len(checkpoints)
    if first < 0 or _last_record(engine.head_at(end)) != _last_record(str(members.get("head"))):
        return members
    spans = [read.span.wire() for read in read_spans(engine, first, len(checkpoints), end)]
    told = [_with_summary(each, span) for each, span in zip(checkpoints, spans, strict=True) if isinstance(each, dict)]
    return {**members, "context": {**context, "checkpoints": told}}


def _with_summary(checkpoint: Json, span: Json) -> Json:
    name = checkpoint_name(checkpoint.get("label"), checkpoint.get("preview"), span)
    named = {**checkpoint, "summary": span, "name": name}
    if name is None:
        del named["name"]
    return named


def _last_record(head: str) -> str:
    return head.rpartition(".")[2]
