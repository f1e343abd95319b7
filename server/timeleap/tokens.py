"""Token counts: their estimate, a quarter of the characters of the text parts, rounded down once over the sum; and when a
context is so full that it is to be compacted.

A model reports the true count with its next answer; the estimate only has to carry until then, and to be the same
on every path (index, history, compaction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CHARS_PER_TOKEN = 4


def estimate_record_tokens(records: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages in their JSON form; thoughts, media and tool calls do not count."""
    return sum(text_length(record) for record in records) // CHARS_PER_TOKEN


def estimate_tokens_with_calls(records: Iterable[Mapping[str, Any]]) -> int:
    """The same with the names and arguments of tool calls."""
    return sum(text_length(record) + _length_of_calls(record) for record in records) // CHARS_PER_TOKEN


def _length_of_calls(record: Mapping[str, Any]) -> int:
    calls = record.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    named = [function for function in functions if isinstance(function, dict)]
    parts = [part for function in named for part in (function.get("name"), function.get("arguments"))]
    return sum(len(part) for part in parts if isinstance(part, str))


def text_length(record: Mapping[str, Any]) -> int:
    """Characters (code points) of the text parts of a message in its JSON form."""
    return sum(len(text) for text in texts(record))


def texts(record: Mapping[str, Any]) -> list[str]:
    """The texts of a message in its JSON form, one for each text part."""
    content = record.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        part["text"]
        for part in content
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]


def should_auto_compact(
    token_count: int, max_context_size: int, *, trigger_ratio: float, reserved_context_size: int
) -> bool:
    """True if a context is so full that it should be compacted, by the original's rule.

    Args:
        token_count: Tokens in the context.
        max_context_size: Tokens the model can take.
        trigger_ratio: The part of it from which compaction is due.
        reserved_context_size: Tokens to keep free for the answer.
    """
    return _over_ratio(token_count, max_context_size, trigger_ratio) or (
        token_count + reserved_context_size >= max_context_size
    )


def should_compact(
    token_count: int, max_context_size: int | None, *, trigger_ratio: float, reserved_context_size: int
) -> bool:
    """The same with two limits to it: no window, no trigger; and a reserve only where one makes sense.

    Args:
        token_count: Tokens in the context, pending ones included.
        max_context_size: Tokens the model can take; None switches the trigger off.
        trigger_ratio: The part of it from which compaction is due.
        reserved_context_size: Tokens to keep free for the answer (see `reserve_fits`).
    """
    if max_context_size is None:
        return False
    if reserve_fits(max_context_size, reserved_context_size):
        return should_auto_compact(
            token_count,
            max_context_size,
            trigger_ratio=trigger_ratio,
            reserved_context_size=reserved_context_size,
        )
    return _over_ratio(token_count, max_context_size, trigger_ratio)


def reserve_fits(max_context_size: int, reserved_context_size: int) -> bool:
    """True if the reserve is less than half of the window; a larger one would compact a small window for ever."""
    return reserved_context_size < max_context_size / 2


def _over_ratio(token_count: int, max_context_size: int, trigger_ratio: float) -> bool:
    return token_count >= max_context_size * trigger_ratio
