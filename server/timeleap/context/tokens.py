"""Estimates of token counts: a quarter of the characters of the text parts, rounded down once over the sum.

A model reports the true count with its next answer; the estimate only has to carry until then, and to be the same
on every path (index, history, compaction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timeleap.context.message import Message

CHARS_PER_TOKEN = 4


def estimate_text_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of `messages`; thoughts, media and tool calls do not count."""
    return sum(len(message.extract_text()) for message in messages) // CHARS_PER_TOKEN


def estimate_record_tokens(records: Iterable[Mapping[str, Any]]) -> int:
    """The same estimate for messages in their JSON form."""
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
