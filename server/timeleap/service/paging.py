"""Pages of history, straight from the log's bytes.

A page costs two binary searches in the index and one read; a message is copied from the log to the reply, it never
becomes a Python object (unless it carries our reserved key or is JSON that only lenient parsers take).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from timeleap.errors import HeadConflictError, InvalidInputError
from timeleap.service import cursors
from timeleap.storage.engine import Entry, LogReader, RecordFlag, RecordKind
from timeleap.storage.record import read_tl, strip_tl

LISTING = "context/getHistory"


@dataclass(frozen=True, slots=True)
class Span:
    """Messages `[start, stop)` that are still to be shown, from which end, and of which log."""

    start: int
    stop: int
    newest_first: bool
    timeline_id: str | None

    def cursor(self, era: str) -> str:
        """A cursor that goes on with this span; `era` changes with every rewrite."""
        return cursors.encode(
            LISTING, era=era, start=self.start, stop=self.stop, desc=self.newest_first, timeline=self.timeline_id
        )


def era_of(head: str) -> str:
    """The part of a head that changes with a rewrite, but not with an append."""
    return head.rpartition(".")[0]


def span_of_cursor(cursor: str, head: str) -> Span:
    """The span a cursor stands for.

    Raises:
        InvalidInputError: Unknown cursor.
        HeadConflictError: The log was rewritten since.
    """
    position = cursors.decode(cursor, LISTING)
    try:
        span = msgspec.convert(
            {
                "start": position["start"],
                "stop": position["stop"],
                "newest_first": position["desc"],
                "timeline_id": position["timeline"],
            },
            Span,
        )
    except (KeyError, msgspec.ValidationError):
        raise InvalidInputError(
            "cursor: unknown cursor", errors=[{"loc": ["cursor"], "msg": "unknown cursor", "type": "cursor"}]
        ) from None
    if span.timeline_id is None:
        check_era(position, head)
    return span


def check_era(position: dict[str, Any], head: str) -> None:
    """Refuse a cursor from before a rewrite.

    Raises:
        HeadConflictError: With the present head.
    """
    if position.get("era") != era_of(head):
        raise HeadConflictError("the log was rewritten since this cursor was given: start the listing again", head=head)


def page(reader: LogReader, span: Span, limit: int, max_bytes: int) -> tuple[list[dict[str, Any]], Span | None]:
    """The next messages of `span`, at least one and at most `limit` and about `max_bytes`; and what is left of it."""
    if span.start >= span.stop:
        return [], None
    wanted = min(limit, span.stop - span.start)
    if span.newest_first:
        first, last = span.stop - wanted, span.stop
    else:
        first, last = span.start, span.start + wanted
    entries = _messages(reader, first, last)
    kept = _within(entries, max_bytes, from_end=span.newest_first)
    records = _records(reader, kept)
    if span.newest_first:
        records.reverse()
        left = Span(span.start, kept[0].state.messages - 1, True, span.timeline_id)
    else:
        left = Span(kept[-1].state.messages, span.stop, False, span.timeline_id)
    return records, left if left.start < left.stop else None


def _messages(reader: LogReader, first: int, last: int) -> list[Entry]:
    start = reader.line_of_message(first)
    stop = reader.line_of_message(last - 1) + 1
    return [entry for entry in reader.entries(start, stop) if entry.kind is RecordKind.MESSAGE]


def _within(entries: list[Entry], max_bytes: int, *, from_end: bool) -> list[Entry]:
    """As many entries as fit, at least one, from the end where asked."""
    total = 0
    count = 0
    for entry in reversed(entries) if from_end else entries:
        total += entry.length
        if count and total > max_bytes:
            break
        count += 1
    return entries[-count:] if from_end else entries[:count]


def _records(reader: LogReader, entries: list[Entry]) -> list[dict[str, Any]]:
    start = entries[0].line
    lines = reader.read(start, entries[-1].line + 1)
    return [message_of(entry, lines[entry.line - start]) for entry in entries]


def message_of(entry: Entry, line: bytes) -> dict[str, Any]:
    """`{index, message, meta?}` of one message line."""
    found: dict[str, Any] = {"index": entry.state.messages - 1}
    if entry.flags & RecordFlag.HAS_TL:
        found["message"] = _spliced(entry, strip_tl(line))
        meta = _meta(read_tl(line))
        if meta:
            found["meta"] = meta
    else:
        found["message"] = _spliced(entry, line)
    return found


def _spliced(entry: Entry, line: bytes) -> msgspec.Raw:
    """The line as it is where that is strict JSON, else re-written so that every parser takes it."""
    if entry.flags & RecordFlag.LENIENT or not entry.flags & RecordFlag.VALIDATED:
        return strict_json(line)
    return msgspec.Raw(line)


def strict_json(line: bytes) -> msgspec.Raw:
    """A line that the original reads, as JSON that strict parsers take too.

    Raw control characters, lone surrogates and NaN pass the original's parser; they are escaped, or null for NaN and
    infinities, which JSON cannot say. Bytes that are not UTF-8 come as U+FFFD, as the original shows them.
    """
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
        line.decode("utf-8")
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        value = json.loads(line.decode("utf-8", "replace"), strict=False, parse_constant=lambda _: None)
        return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode("ascii"))
    return msgspec.Raw(line)


def _meta(tl: dict[str, Any]) -> dict[str, Any]:
    """What of our reserved key is of use to a client."""
    meta = {"requestId": tl.get("r"), "batchId": tl.get("b")}
    return {name: value for name, value in meta.items() if value is not None}
