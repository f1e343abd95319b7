"""Safe cuts of a history: never between a tool call and its result.

Models refuse a history with a result whose call is gone, or a call whose result is gone. Messages are in their JSON
form; ids are matched to the nearest call before the result, because some models use the same id again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


def safe_cut(messages: Sequence[Record], wanted: int) -> int:
    """The last place at or before `wanted` where `messages` can be cut in two.

    Args:
        messages: The history.
        wanted: The index of the first message that is to stand behind the cut.

    Returns:
        The index of the first message behind the cut.
    """
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
