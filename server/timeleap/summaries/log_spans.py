"""The summaries of a log's spans: read from it, some at once; and of the newest one, as messages are appended."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from timeleap.errors import CorruptedError
from timeleap.storage.engine import Entry, LogEngine, LogReader, LogState, NewRecord, RecordKind
from timeleap.storage.record import after_record
from timeleap.summaries.span import SpanTally

Json = dict[str, Any]

BLOCK_BYTES: Final = 1 << 20
"""Read of a log at once; a single line may be longer."""
_ENTRIES_AT_ONCE: Final = 512


class LinesAhead:
    """Reads lines of a log some at a time, those that follow each other in one read.

    Args:
        stop: The line after the last that will be asked for.
    """

    def __init__(self, reader: LogReader, start: int, stop: int) -> None:
        self._reader = reader
        self._stop = stop
        self._first = start
        self._bodies: list[bytes] = []

    def body(self, entry: Entry) -> bytes | None:
        """The line of an entry, in rising order; None where it is not what was written."""
        at = entry.line - self._first
        if not 0 <= at < len(self._bodies):
            self._read(entry)
            at = 0
        return self._bodies[at] if at < len(self._bodies) else None

    def _read(self, entry: Entry) -> None:
        stop, most = entry.line + 1, entry.offset + BLOCK_BYTES
        for following in self._reader.entries(stop, min(self._stop, stop + _ENTRIES_AT_ONCE)):
            if following.offset + following.length > most:
                break
            stop = following.line + 1
        self._first = entry.line
        for end in (stop, entry.line + 1):
            try:
                self._bodies = self._reader.read(entry.line, end)
            except CorruptedError:
                self._bodies = []  # one of them is damaged: look at each alone
            else:
                return


def summaries(
    reader: LogReader, first: int, count: int, end: LogState | None = None, records: Sequence[NewRecord] = ()
) -> list[Json]:
    """`SpanSummary` of the contract of up to `count` spans of a log, oldest first, from that of the checkpoint with the
    0-based ordinal `first` on; as if the log ended at `end`, and then had `records`, whose checkpoints begin spans, too."""
    end = end or reader.state
    stop = min(end.checkpoints, first + count)
    lines = [reader.line_of_checkpoint(ordinal) for ordinal in range(first, stop)]
    lines.append(reader.line_of_checkpoint(stop) if stop < end.checkpoints else end.lines)
    ahead = LinesAhead(reader, lines[0], lines[-1])
    spans: list[_Span] = []
    for start, after in itertools.pairwise(lines):
        spans.append(_Span(reader.entries(start, start + 1)[0].state))
        spans[-1].read(reader, ahead, start + 1, after)
    state = end
    for record in records:
        state = after_record(state, record)
        if record.kind is RecordKind.CHECKPOINT:
            spans.append(_Span(state))
        elif spans:
            spans[-1].add(record, len(record.body) + 1, state)
    return [span.wire() for span in spans]


class _Span:
    """A span, from the state after its checkpoint on."""

    def __init__(self, begin: LogState) -> None:
        self.tally = SpanTally(begin.last_role)
        self._begin = begin
        self._messages = begin.messages
        self._tokens = begin.token_count
        self._usages = begin.usages

    def read(self, reader: LogReader, ahead: LinesAhead, start: int, stop: int) -> None:
        """Take the lines `[start, stop)` of a log."""
        for entry in _entries(reader, start, stop):
            if entry.kind is RecordKind.MESSAGE:
                wanted = self.tally.wants(entry.length)
                if not wanted:
                    break
                if wanted < entry.length:
                    self.tally.take(reader.pread(entry.offset, wanted), entry.role, whole=False)
                elif (body := ahead.body(entry)) is not None:
                    self.tally.take(body, entry.role)
        if start < stop:
            self._count(reader.entries(stop - 1, stop)[0].state)

    def add(self, record: NewRecord, length: int, after: LogState) -> None:
        """Take a record that has `length` bytes in the log, which is at `after` then."""
        if record.kind is RecordKind.MESSAGE and (wanted := self.tally.wants(length)):
            whole = wanted == length
            self.tally.take(record.body if whole else record.body[:wanted], record.role, whole=whole)
        self._count(after)

    def _count(self, state: LogState) -> None:
        self._messages, self._tokens, self._usages = state.messages, state.token_count, state.usages

    def wire(self) -> Json:
        reported = self._usages > self._begin.usages
        tokens = self._tokens - self._begin.token_count if reported else None
        return self.tally.wire(self._messages - self._begin.messages, tokens)


def _entries(reader: LogReader, start: int, stop: int) -> Iterator[Entry]:
    for first in range(start, stop, _ENTRIES_AT_ONCE):
        yield from reader.entries(first, min(stop, first + _ENTRIES_AT_ONCE))


class NewSpans(Struct, frozen=True):
    """The spans that an append began, and the newest one after it.

    Attributes:
        line: Of the newest one's checkpoint.
        made: Summaries of those that the append's checkpoints began, the newest last.
        newest: The summary of the newest one.
    """

    line: int
    made: Sequence[Json]
    newest: Json


class NewestSpan:
    """The newest span of a log, kept up to date by what is appended alone. After a rewrite, or where it missed an append,
    it is read again, once."""

    def __init__(self) -> None:
        self._span = _Span(LogState())
        self._line = -1
        self._at: tuple[int, int] | None = None  # lines and fingerprint of the log that it is of

    def appended(
        self, reader: LogReader, before: LogState, after: LogState, records: Sequence[NewRecord]
    ) -> NewSpans | None:
        """What became of it by an append of `records` between two states; None where there is no checkpoint."""
        if after.checkpoints == 0:
            return None
        begins = bool(records) and records[0].kind is RecordKind.CHECKPOINT
        if before.checkpoints == 0:
            self._line = -1
        elif self._at != (before.lines, before.chain) and not begins:
            self._read(reader, before)
        made: list[Json] = []
        for entry, record in zip(reader.entries(before.lines, after.lines), records, strict=True):
            if entry.kind is RecordKind.CHECKPOINT:
                if made:
                    made[-1] = self._span.wire()
                self._span, self._line = _Span(entry.state), entry.line
                made.append({})
            elif self._line >= 0:
                self._span.add(record, entry.length, entry.state)
        self._at = after.lines, after.chain
        newest = self._span.wire()
        return NewSpans(self._line, [*made[:-1], newest] if made else [], newest)

    def _read(self, reader: LogReader, state: LogState) -> None:
        self._line = line = reader.line_of_checkpoint(state.checkpoints - 1)
        self._span = _Span(reader.entries(line, line + 1)[0].state)
        self._span.read(reader, LinesAhead(reader, line, state.lines), line + 1, state.lines)


# What happened after a checkpoint is not kept with an answer: it is made of what messages say, cut and without marks, so
# that a redaction would not find in it what it takes out. It is made again of the log, as that is then.


def without_spans(members: Mapping[str, Any]) -> Json:
    """The members of a result or a notification, the checkpoints of their `context` without summaries."""
    context = members.get("context")
    checkpoints = context.get("checkpoints") if isinstance(context, dict) else None
    if not isinstance(context, dict) or not isinstance(checkpoints, list):
        return dict(members)
    bare = [{name: value for name, value in each.items() if name != "summary"} for each in checkpoints]
    return {**members, "context": {**context, "checkpoints": bare}}


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
    spans = summaries(engine, first, len(checkpoints), end)
    told = [{**each, "summary": span} for each, span in zip(checkpoints, spans, strict=True) if isinstance(each, dict)]
    return {**members, "context": {**context, "checkpoints": told}}


def _last_record(head: str) -> str:
    return head.rpartition(".")[2]
