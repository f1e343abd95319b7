"""Ranges of messages: where one begins and ends, and how it is widened so that no tool call is parted from its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from timeleap.errors import InvalidInputError
from timeleap.message_text import answered, called
from timeleap.sessions.kernel.rewrites import open_exchange
from timeleap.sessions.past import find_line
from timeleap.storage.log_values import Role
from timeleap.storage.record import decode_json

if TYPE_CHECKING:
    from timeleap.storage.reader import LogReader
    from timeleap_protocol.structs.branches import LogPlace

_FARTHEST: Final = 1000  # messages that are looked at to either side: no exchange is longer


def find_range(log: LogReader, start: LogPlace, stop: LogPlace, *, strict: bool) -> tuple[int, int]:
    """The messages `[from, to)` of a log, widened to whole tool exchanges unless that is refused (`strict`).

    Raises:
        CheckpointNotFoundError: There is no such checkpoint.
        InvalidInputError: The range is empty, turned round, beyond the end; it parts a call from its result; or a call
            in it still waits for its result.
    """
    first, end = find_place(log, start, "from"), find_place(log, stop, "to")
    if first >= end:
        how = {True: "is empty", False: "is turned round"}[first == end]
        raise InvalidInputError.of("to", f"the range {how}: it goes from message {first} to message {end}")
    widened = _whole(log, first, end)
    if strict and widened != (first, end):
        whole = f"messages {widened[0]} to {widened[1]} (exclusive)"
        raise InvalidInputError.of("to", f"the range parts a tool call from its result: {whole} are whole exchanges")
    waiting = open_exchange(log, log.state.messages)
    if waiting is not None and widened[0] <= waiting.index < widened[1]:
        calls = ", ".join(waiting.calls)
        text = f"message {waiting.index} calls a tool whose result is still to come ({calls:.200}): append it first"
        raise InvalidInputError.of("to", text)
    return widened


def find_place(log: LogReader, place: LogPlace, where: str) -> int:
    """The index of the message behind a place. Raises CheckpointNotFoundError, InvalidInputError."""
    if place.checkpoint_uid is not None:
        return log.state_before(find_line(log, None, place.checkpoint_uid)).messages
    index, count = place.message_index or 0, log.state.messages
    if index > count:
        raise InvalidInputError.of(where, f"there is no message {index}: the history has {count}")
    return index


def _whole(log: LogReader, first: int, end: int) -> tuple[int, int]:
    """The smallest range of whole tool exchanges that has all messages of a range."""
    while True:
        wider = _parted(log, first)[0], _parted(log, end)[1]
        if wider == (first, end):
            return wider
        first, end = wider


def _parted(log: LogReader, index: int) -> tuple[int, int]:
    """The messages `[first, end)` of the tool exchanges that a cut before the message `index` would part.

    Results are looked for up to the second answer behind the cut, and calls until each of them has its own.
    """
    results: dict[str, int] = {}
    known: set[str] = set()
    answers = 0
    for at in range(index, min(log.state.messages, index + _FARTHEST)):
        message, is_answer = _message(log, at)
        if is_answer:
            answers += 1
            if answers == 2:
                break
        for call_id in answered(message) - known:
            results[call_id] = at + 1
        known |= called(message)
    end, first = index, index
    between: set[str] = set()
    for at in range(index - 1, max(-1, index - 1 - _FARTHEST), -1):
        if not results:
            break
        message, _ = _message(log, at)
        for call_id in called(message):
            if call_id in results and call_id not in between:
                first, end = at, max(end, results.pop(call_id))
            between.discard(call_id)
        between |= answered(message) & results.keys()
    return first, end


def _message(log: LogReader, index: int) -> tuple[dict[str, Any], bool]:
    """A message in its JSON form, and whether it is the assistant's."""
    line = log.line_of_message(index)
    return decode_json(log.read(line, line + 1)[0]), log.entries(line, line + 1)[0].role is Role.ASSISTANT
