"""Tool calls and their results: safe cuts of a history, and calls at the end of a log that wait for a result.

Models refuse a history with a result whose call is gone, or a call whose result is gone. Messages are in their JSON
form; ids are matched to the nearest call before the result, because some models use the same id again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from timeleap.sessions.outcomes import Exchange
from timeleap.storage.engine import LogReader, Role
from timeleap.storage.record import decode_json

Record = Mapping[str, Any]


def safe_cut(messages: Sequence[Record], wanted: int) -> int:
    """The last place at or before `wanted` where `messages` can be cut: the index of the first message behind it."""
    cut = min(wanted, _first_of_running_calls(messages, wanted))
    missing = _results_without_calls(messages, cut)
    between: set[str] = set()  # results met on the way back, whose calls stand further up
    for index in range(cut - 1, -1, -1):
        if not missing:
            break
        between |= answered(messages[index])
        calls = called(messages[index])
        if missing & calls:
            cut = index
            missing = (missing | between) - calls
            between = set()
        else:
            between -= calls
    return cut


def called(message: Record) -> set[str]:
    """The ids of the tool calls a message makes."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return set()
    return {call["id"] for call in calls if isinstance(call, Mapping) and isinstance(call.get("id"), str)}


def answered(message: Record) -> set[str]:
    """The id of the tool call a message answers, if it answers one."""
    answer = message.get("tool_call_id")
    return {answer} if isinstance(answer, str) else set()


def orphan_results(messages: Sequence[Record]) -> set[str]:
    """The ids of the tool calls that `messages` answer and do not make."""
    return _results_without_calls(messages, 0)


def _results_without_calls(messages: Sequence[Record], start: int) -> set[str]:
    known: set[str] = set()
    missing: set[str] = set()
    for index in range(start, len(messages)):
        missing |= answered(messages[index]) - known
        known |= called(messages[index])
    return missing


def _first_of_running_calls(messages: Sequence[Record], start: int) -> int:
    """Index of the last assistant message if it is before `start` and still waits for results, else `start`."""
    results: set[str] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") == "assistant":
            return index if index < start and called(message) - results else start
        results |= answered(message)
    return start


_FARTHEST: Final = 1000  # messages that are looked at: no exchange is longer


def open_exchange(log: LogReader, messages: int) -> Exchange | None:
    """The tool exchange that the first `messages` messages of a log end in the middle of, if they do.

    Raises:
        CorruptedError: A message there is not what was written.
    """
    results: set[str] = set()
    for index in range(messages - 1, max(-1, messages - 1 - _FARTHEST), -1):
        line = log.line_of_message(index)
        record = _record(log, line)
        if log.entries(line, line + 1)[0].role is Role.ASSISTANT:
            missing = [call_id for call_id in _calls(record) if call_id not in results]
            return Exchange(index, tuple(missing)) if missing else None
        results |= answered(record)
    return None


def healed(log: LogReader, exchange: Exchange) -> Exchange:
    """The exchange with the index of the first message that has to go, so that what stays can be sent to a model."""
    index = exchange.index
    while (earlier := open_exchange(log, index)) is not None:
        index = earlier.index
    return replace(exchange, index=index, healed=True)


def _record(log: LogReader, line: int) -> dict[str, Any]:
    found = decode_json(log.read(line, line + 1)[0])
    return found if isinstance(found, dict) else {}


def _calls(record: dict[str, Any]) -> list[str]:
    """The ids of the calls, in their order."""
    known = called(record)
    return list(dict.fromkeys(call["id"] for call in record.get("tool_calls") or () if _id(call) in known))


def _id(call: object) -> str | None:
    found = call.get("id") if isinstance(call, dict) else None
    return found if isinstance(found, str) else None
