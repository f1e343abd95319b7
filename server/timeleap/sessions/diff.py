"""Common prefix of two states of a context: the messages both begin with, found without reading the equal part."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from itertools import count

from timeleap.errors import CorruptedError
from timeleap.sessions.log_iteration import line_of_message, pages, shared_lines, state_after_lines
from timeleap.sessions.logs import Stretch
from timeleap.storage.engine import RecordFlag, Row, new_damage
from timeleap.storage.record import as_sent

_PAUSE = 128  # messages


def common_messages(stretch: Stretch, other: Stretch) -> Generator[tuple[int, int], None, int]:
    """How many messages both begin with. Pauses now and then with the messages compared and those in all.

    Where the bytes are the same, the indexes say so. From there on messages are compared one by one: other checkpoints,
    token counts, marks of ours or spacing between them do not make them differ.

    Raises:
        CorruptedError: What would have to be compared is damaged.
    """
    lines = shared_lines(stretch.log, other.log, min(stretch.lines, other.lines))
    same = state_after_lines(stretch.log, lines).messages
    for side in (stretch, other):
        _refuse_damage(side, lines)
    total = min(stretch.state.message_count, other.state.message_count)
    for number, left, right in zip(count(same), _messages(stretch, same), _messages(other, same), strict=False):
        if not _equal(left, right):
            return number
        if number % _PAUSE == 0:
            yield number, total
    return total


def _messages(side: Stretch, index: int) -> Iterator[Row]:
    start = line_of_message(side.log, index, side.lines)
    for page in pages(side.log, start, side.lines):
        yield from page


def _refuse_damage(side: Stretch, first: int) -> None:
    """A timeline that is not what was set aside would be compared with a hole in it. The live log is what it is."""
    if side.timeline_id is None:
        return
    for damaged in new_damage(side.log, side.damaged_before):
        if first <= damaged.line <= side.lines:
            message = f"the timeline {side.timeline_id} is damaged at byte {damaged.offset}: {damaged.message}"
            raise CorruptedError(message, timelineId=side.timeline_id, offset=damaged.offset)


def _equal(row: Row, other: Row) -> bool:
    left, right = _plain(row), _plain(other)
    return left == right or _compact(left) == _compact(right)


def _plain(row: Row) -> bytes:
    return as_sent(row.body) if row.flags & RecordFlag.HAS_TL else row.body


def _compact(body: bytes) -> str | bytes:
    """The record whatever its spacing, numbers exact; itself where it cannot be parsed."""
    try:
        return json.dumps(json.loads(body), separators=(",", ":"))
    except (ValueError, RecursionError):
        return body
