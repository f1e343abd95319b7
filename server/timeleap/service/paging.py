"""Pages of history, straight from the log's bytes.

A page costs two binary searches in the index and one read; a message is copied from the log to the reply, it never
becomes a Python object (unless it carries our reserved key).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, compress
from typing import Final, NamedTuple

from msgspec.structs import asdict, replace

from timeleap.rpc.codec import Pieces, encode
from timeleap.service.cursors import Position, encode_cursor, unknown_cursor
from timeleap.sessions.logs import begin_of, end_of, fitting
from timeleap.storage.log_values import LogLines, RecordFlag, RecordKind, Row
from timeleap.storage.reader import LogReader
from timeleap.storage.record import SENDER, TL_MARK, USUAL_MARKS, as_sent, read_tl

_IS_MESSAGE: Final = bytes(kind == RecordKind.MESSAGE for kind in range(256))
_IS_MARKED: Final = bytes(flags & 1 for flags in range(256))  # RecordFlag.HAS_TL
_PIECE: Final = 128 * 1024  # bytes of a reply made at once: they stay in the processor's cache until they are written
_META: Final = (("requestId", "r"), ("batchId", "b"), ("fromSessionId", SENDER))
"""Members of `meta`, and the marks they come from."""


class Span(Position, frozen=True):
    """Messages `[start, stop)` that are still to be shown, and from which end; with `opaque` these are lines, whose
    messages and opaque records are shown."""

    start: int
    stop: int
    newest_first: bool
    opaque: bool = False

    def cursor(self, listing: str) -> str | None:
        """A cursor of `listing` that continues this span; None if nothing is left."""
        return encode_cursor(listing, **asdict(self)) if self.start < self.stop else None


class HistoryPage(NamedTuple):
    """Messages of a log as JSON.

    Attributes:
        entries: The list of `{index, message, meta?}`.
        messages: How many.
        size: Bytes of the messages.
    """

    entries: Pieces = Pieces([b"[]"])
    messages: int = 0
    size: int = 0


def page(reader: LogReader, span: Span, limit: int, max_bytes: int, *, meta: bool = True) -> tuple[HistoryPage, Span]:
    """The next messages of `span`, at least one and at most `limit` and about `max_bytes`; and what is left of it.

    Raises:
        InvalidInputError: The log has no such messages: the cursor is not one we gave.
    """
    if span.start >= span.stop:
        return HistoryPage(), span
    if not 0 <= span.start < span.stop <= reader.state.messages:
        raise unknown_cursor()
    wanted = min(limit, span.stop - span.start)
    first = span.stop - wanted if span.newest_first else span.start
    start, stop = reader.line_of_message(first), reader.line_of_message(first + wanted - 1) + 1
    lines = _fitted(reader, start, stop, max_bytes, last=span.newest_first)
    messages = lines.kinds.translate(_IS_MESSAGE)
    places = [*compress(zip(lines.begins, lines.ends, strict=True), messages)]
    marked = bytes(compress(lines.flags.translate(_IS_MARKED), messages))
    indexes = range(lines.messages, lines.messages + len(places))
    if span.newest_first:
        places, marked, indexes = places[::-1], marked[::-1], indexes[::-1]
    count = len(places)
    if len(lines.data) + count > max_bytes:
        sizes = list(accumulate(end - begin for begin, end in places))
        count = max(1, bisect_right(range(count), max_bytes, key=lambda at: sizes[at] + at + 1))
    left = replace(span, stop=span.stop - count) if span.newest_first else replace(span, start=span.start + count)
    return _spliced(lines.data, indexes[:count], places[:count], marked[:count], meta=meta), left


def page_of_lines(reader: LogReader, span: Span, limit: int, max_bytes: int) -> tuple[Pieces, Span]:
    """The messages and opaque records of the next lines of `span`, each in its place; and what is left of it.

    Of at most `limit` lines and about `max_bytes`: where lines of ours stand between, there are fewer entries, or none.

    Raises:
        InvalidInputError: The log has no such lines: the cursor is not one we gave.
    """
    if span.start >= span.stop:
        return Pieces([b"[]"]), span
    if not 0 <= span.start < span.stop <= reader.state.lines:
        raise unknown_cursor()
    start = max(span.start, span.stop - limit) if span.newest_first else span.start
    lines = _fitted(reader, start, min(start + limit, span.stop), max_bytes, last=span.newest_first)
    entries = [_entry(row) for row in lines.rows() if row.kind in (RecordKind.MESSAGE, RecordKind.FOREIGN)]
    after = lines.first + len(lines.kinds)
    left = replace(span, stop=lines.first) if span.newest_first else replace(span, start=after)
    return Pieces([b"[%b]" % b",".join(entries[::-1] if span.newest_first else entries)]), left


def _entry(row: Row) -> bytes:
    is_message = row.kind == RecordKind.MESSAGE
    body = _unmarked(row.body, 0, len(row.body), is_message) if row.flags & RecordFlag.HAS_TL else row.body
    form = b'{"index":%d,"message":%b}' if is_message else b'{"line":%d,"record":%b}'
    return form % (row.messages_before if is_message else row.line, body)


def _fitted(reader: LogReader, start: int, stop: int, max_bytes: int, *, last: bool) -> LogLines:
    """The first or the last of the lines `[start, stop)`, a little more than `max_bytes` at most."""
    if not last:
        stop = fitting(reader, start, stop, max_bytes)
    elif (end := end_of(reader, stop - 1)) - begin_of(reader, start) > max_bytes:
        lines = range(start, stop - 1)
        start += bisect_left(lines, end - max_bytes, key=lambda line: begin_of(reader, line))
    return reader.lines(start, stop)


def _spliced(data: bytes, indexes: range, places: list[tuple[int, int]], marked: bytes, *, meta: bool) -> HistoryPage:
    """The messages at some places, each with its index and, where it is `marked`, with what its marks say."""
    text = memoryview(data)  # what is not marked is copied only when it is put together
    bodies: list[bytes | memoryview]
    if 1 in marked:
        bodies = [
            _unmarked(data, begin, end, meta) if is_marked else text[begin:end]
            for (begin, end), is_marked in zip(places, marked, strict=True)
        ]
    else:
        bodies = [text[begin:end] for begin, end in places]
    count, size = len(bodies), sum(map(len, bodies))
    at_once = max(1, count * _PIECE // size)
    pieces = []
    for start in range(0, count, at_once):
        part = indexes[start : start + at_once]
        # What stands between the messages is formatted without them: that takes a third less.
        parts: list[bytes | memoryview] = [*(b'},{"index":%d,"message":\n\n' * len(part) % tuple(part)).split(b"\n")]
        parts[1::2] = bodies[start : start + at_once]
        if start == 0:
            parts[0] = b"[" + parts[0][2:]
        pieces.append(b"".join(parts))
    return HistoryPage(Pieces([*pieces, b"}]"]), count, size)


def _unmarked(data: bytes, begin: int, end: int, meta: bool) -> bytes:
    """The message at `[begin, end)` as its sender wrote it and, if `meta`, the member `meta` behind it, from our marks."""
    at = data.rfind(TL_MARK, begin, end)
    usual = USUAL_MARKS.fullmatch(data, at, end) if at >= 0 else None
    if usual is not None:  # as we write it: nothing need be parsed
        request_id, sender, batch_id = usual.group("r", SENDER, "b")
        if meta and sender is None and batch_id is None:
            return b"".join((data[begin:at], b'},"meta":{"requestId":', request_id, b"}"))
        message = data[begin:at] + b"}"
        found = b",".join([b'"%b":%b' % (name.encode(), usual[mark]) for name, mark in _META if usual[mark]])
    else:
        body = data[begin:end]
        message, tl = as_sent(body), read_tl(body)
        found = encode({name: tl[mark] for name, mark in _META if tl.get(mark) is not None})[1:-1]
    return b'%b,"meta":{%b}' % (message, found) if meta and found else message
