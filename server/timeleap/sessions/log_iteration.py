"""Going through the messages of a log, however many there are: never more of it in memory than a handful of pages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from timeleap.errors import CorruptedError
from timeleap.storage.engine import LogReader, LogState, RecordKind, Row

PAGE_LINES: Final = 256
PAGE_BYTES: Final = 1 << 20


def fitting(reader: LogReader, start: int, stop: int, max_bytes: int) -> int:
    """Where to stop reading the lines `[start, stop)` to read at most `max_bytes`, or one line. Reads only the index:
    a page of large messages must not be read whole to be cut afterwards."""
    begin = begin_of(reader, start)
    if end_of(reader, stop - 1) - begin <= max_bytes:
        return stop
    lines = range(start, stop)
    return start + max(1, bisect_right(lines, begin + max_bytes, key=lambda line: end_of(reader, line)))


def pages(reader: LogReader, start: int, stop: int) -> Iterator[list[Row]]:
    """The messages of the lines `[start, stop)`, some at a time; a page may be empty.

    Raises:
        CorruptedError: A line is not what was written.
    """
    while start < stop:
        end = fitting(reader, start, min(start + PAGE_LINES, stop), PAGE_BYTES)
        yield messages_among(reader.rows(start, end))
        start = end


def sound_pages(reader: LogReader, start: int, stop: int, lost: list[CorruptedError]) -> Iterator[list[Row]]:
    """The same, but what was silently damaged is left out and put on the list `lost`."""
    while start < stop:
        end = fitting(reader, start, min(start + PAGE_LINES, stop), PAGE_BYTES)
        try:
            yield messages_among(reader.rows(start, end))
        except CorruptedError:
            yield [row for line in range(start, end) for row in _sound(reader, line, lost)]
        start = end


def left_out(reader: LogReader, start: int, stop: int) -> list[str]:
    """The damaged lines of `[start, stop)`, which are left out of history, in words; at most 100."""
    gone = [damaged for damaged in reader.damage() if damaged.kind in ("damagedRecord", "checksumMismatch")]
    return [
        f"line {damaged.line} at byte {damaged.offset} is left out: {damaged.message}"
        for damaged in gone
        if start <= damaged.line < stop
    ]


def messages_among(rows: list[Row]) -> list[Row]:
    """Those that are messages."""
    return [row for row in rows if row.kind == RecordKind.MESSAGE]


def state_after_lines(reader: LogReader, lines: int) -> LogState:
    """The state after the first `lines` lines, its pending characters perhaps not counted; one look at the index."""
    return reader.entries(lines - 1, lines)[0].state if lines else LogState()


def line_of_message(reader: LogReader, index: int, stop: int) -> int:
    """The line of a message, or `stop` if the log ends before it."""
    return min(stop, reader.line_of_message(index)) if index < reader.state.messages else stop


def shared_lines(reader: LogReader, other: LogReader, most: int) -> int:
    """How many lines, at most `most`, two logs begin with that are byte for byte the same. Reads only the indexes: the
    fingerprint of all bytes up to a line stands in its entry."""
    low, high = 0, min(most, reader.state.lines, other.state.lines)
    while low < high:
        middle = (low + high + 1) // 2
        if _same(state_after_lines(reader, middle), state_after_lines(other, middle)):
            low = middle
        else:
            high = middle - 1
    return low


def _same(state: LogState, other: LogState) -> bool:
    # The messages, too: a line that one index condemns may count in the other log.
    return (state.chain, state.length, state.messages) == (other.chain, other.length, other.messages)


def _sound(reader: LogReader, line: int, lost: list[CorruptedError]) -> list[Row]:
    try:
        return messages_among(reader.rows(line, line + 1))
    except CorruptedError as error:
        lost.append(error)
        return []


def begin_of(reader: LogReader, line: int) -> int:
    """The byte at which a line begins."""
    return reader.entries(line, line + 1)[0].offset


def end_of(reader: LogReader, line: int) -> int:
    """The byte after a line."""
    entry = reader.entries(line, line + 1)[0]
    return entry.offset + entry.length
