"""Looking for something in the logs of a session: the live one, then its timelines, newest first.

The work is a generator that pauses after every few hundred messages, so that its caller can do something else in
between, or stop; it holds one page of a log at a time.

The searched text is what the preview of a checkpoint shows, with what else was said after it: the text parts, one right
after the other; then, each on a line of its own, the thoughts; then each tool call's name and, on the next line, its
arguments. So a place within the text parts is the same whether or not there is more. Places are counted in UTF-16
units, as editors and JavaScript count: a character outside of the basic plane is two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from timeleap.errors import CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.features.search.pattern import Pattern, Span
from timeleap.message_text import call_texts, texts, without_halves
from timeleap.sessions.logs import Logs, blocks, common_lines, line_of_message, state_after_lines
from timeleap.storage.log_values import RecordKind, Row
from timeleap.storage.reader import LogReader
from timeleap.storage.record import decode_json

MAX_RANGES: Final = 1000  # of one message
MAX_PAGE_RANGES: Final = 20_000  # of one page
EXCERPT_UNITS: Final = 160
_COMPARED: Final = 8  # logs that a timeline is compared with, where repeats are left out

Pause = tuple[int, int]
"""Bytes looked at, and bytes in all."""


class SearchQuery(Struct, frozen=True):
    """A search query.

    Attributes:
        pattern: The words or the expression.
        timelines: In timelines, too.
        distinct: Leave out of a timeline the messages that a log looked at before begins with, too.
        excerpts: Show the text around the first match of a message.
        limit: Messages at most.
    """

    pattern: Pattern
    timelines: bool = True
    distinct: bool = False
    excerpts: bool = False
    limit: int = 100


class Hit(Struct, frozen=True):
    """A message in which it was found.

    Attributes:
        timeline_id: None in the live log.
        ranges: Where, in UTF-16 units of the message's text.
        more: There are more than are listed.
        excerpt: A piece of the message's text, and its place there, in UTF-16 units.
    """

    timeline_id: str | None
    index: int
    ranges: tuple[Span, ...]
    more: bool = False
    excerpt: tuple[int, str] | None = None


class SearchPosition(Struct, frozen=True):
    """Where a search goes on."""

    timeline_id: str | None
    index: int


class Unread(Struct, frozen=True):
    """A log, or part of it, that could not be searched, and the reason."""

    timeline_id: str | None
    message: str


class SearchPage(Struct):
    """A page of hits; `following` is None when there is nothing left to look at."""

    hits: list[Hit] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    following: SearchPosition | None = None
    ranges: int = 0

    def full(self, limit: int) -> bool:
        return len(self.hits) >= limit or self.ranges >= MAX_PAGE_RANGES


def search(logs: Logs, query: SearchQuery, begin: SearchPosition | None = None) -> Generator[Pause, None, SearchPage]:
    """Look for something, from `begin` on.

    Raises:
        TimelineNotFoundError: The timeline to begin in is gone.
        StorageFailureError: The live log, or the directory, cannot be read.
    """
    found = SearchPage()
    everywhere = query.timelines or (begin is not None and begin.timeline_id is not None)
    sizes = {timeline.timeline_id: timeline.bytes for timeline in logs.timelines()} if everywhere else {}
    names = [None, *sizes]
    if begin is None:
        begin = SearchPosition(None, 0)
    if begin.timeline_id not in names:
        message = "the timeline in which the search was to go on is gone: start it again"
        raise TimelineNotFoundError(message, timelineId=begin.timeline_id)
    live = logs.live()
    done, total = 0, live.state.length + sum(sizes.values())
    before: deque[LogReader] = deque(maxlen=_COMPARED)
    begun = False
    for number, name in enumerate(names):
        begun = begun or name == begin.timeline_id
        if begun or query.distinct:
            try:
                log = live if name is None else logs.timeline(name)
                if begun:
                    index = begin.index if name == begin.timeline_id else 0
                    if not index:
                        found.unread += _damage(log, name)
                    index = max(index, _known(log, before)) if query.distinct else index
                    for looked_at in _search_log(log, name, index, query, found):
                        yield done + looked_at, total
                    if found.following is not None:
                        found.following = _next(log, found.following, names[number + 1 :])
                        return found
                before.append(log)
            except TimelineNotFoundError:
                pass  # it was pruned just now
            except (StorageFailureError, CorruptedError) as error:
                found.unread.append(Unread(name, error.message))
        done += live.state.length if name is None else sizes[name]
        yield done, total
    return found


def _damage(log: LogReader, name: str | None) -> list[Unread]:
    """The damaged lines of a log, which are no part of history and are not searched."""
    damaged = [record for record in log.damage() if record.kind != "notReadableByOriginal"]
    if not damaged:
        return []
    first = damaged[0]
    others = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    return [Unread(name, f"line {first.line} at byte {first.offset}: {first.message}{others}")]


def _known(log: LogReader, before: deque[LogReader]) -> int:
    """How many of a log's first messages a log that was looked at before begins with, too."""
    shared = max((common_lines(log, other, log.state.lines) for other in before), default=0)
    return state_after_lines(log, shared).messages


def _next(log: LogReader, place: SearchPosition, rest: Sequence[str | None]) -> SearchPosition | None:
    """Where to go on from `place`: if nothing is left in its log, at the beginning of the next one."""
    if place.index < log.state.messages:
        return place
    return SearchPosition(rest[0], 0) if rest else None


def _search_log(
    log: LogReader, name: str | None, index: int, query: SearchQuery, found: SearchPage
) -> Generator[int, None, None]:
    """Look for something in one log from the message `index` on; pauses with the bytes looked at."""
    lines = log.state.lines
    lost: list[CorruptedError] = []
    looked_at = 0
    for block in blocks(log, line_of_message(log, index, lines), lines, lost):
        looked_at += len(block.data)
        for row in block.rows(RecordKind.MESSAGE) if query.pattern.may_be_in(block.data) else ():
            if not query.pattern.may_be_in(row.body):
                continue
            hit = yield from _look(row, name, query, found, looked_at)
            if hit is not None:
                found.hits.append(hit)
                found.ranges += len(hit.ranges)
            if found.full(query.limit):
                found.following = SearchPosition(name, row.messages_before + 1)
                break
        found.unread += [Unread(name, error.message) for error in lost]
        lost.clear()
        if found.following is not None:
            return
        yield looked_at


def _look(
    row: Row, name: str | None, query: SearchQuery, found: SearchPage, looked_at: int
) -> Generator[int, None, Hit | None]:
    """Look at one message."""
    try:
        record = decode_json(row.body)
    except ValueError:
        return None
    text = text_of(record)
    if query.pattern.too_dear(text):
        found.unread.append(Unread(name, f"message {row.messages_before} is too long for so large an expression"))
        return None
    ranges: list[Span] = []
    more = False
    for span in query.pattern.spans(text):
        if span is None:
            yield looked_at
        elif len(ranges) == MAX_RANGES:
            more = True
            break
        else:
            ranges.append(span)
    if not ranges:
        return None
    shown = excerpt(text, ranges[0], EXCERPT_UNITS) if query.excerpts else None
    return Hit(name, row.messages_before, tuple(ranges), more, shown)


def text_of(record: Mapping[str, Any]) -> str:
    """The text of a message in its JSON form. Half of a surrogate pair, which no reply can carry, is U+FFFD."""
    pieces = ["".join(texts(record)), *_thoughts(record), *call_texts(record)]
    text = "\n".join(pieces) if len(pieces) > 1 else pieces[0]
    return text if text.isascii() else without_halves(text)


def _thoughts(record: Mapping[str, Any]) -> Iterator[str]:
    content = record.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "think" and isinstance(part.get("think"), str):
            yield part["think"]


def excerpt(text: str, span: Span, size: int) -> tuple[int, str]:
    """About `size` units of a text around a span, no character cut in two: where it begins, in units, and the piece."""
    raw = text.encode("utf-16-le")
    start, end = span
    room = max(0, size - (end - start))
    begin = max(0, start - room // 3)
    stop = min(len(raw) // 2, max(begin + size, begin + 1))
    if begin and _is_second_half(raw, begin):
        begin += 1 if begin < start else -1
    if _is_second_half(raw, stop):
        stop += 1
    return begin, raw[2 * begin : 2 * stop].decode("utf-16-le")


def _is_second_half(raw: bytes, unit: int) -> bool:
    return 2 * unit < len(raw) and raw[2 * unit + 1] & 0xFC == 0xDC
