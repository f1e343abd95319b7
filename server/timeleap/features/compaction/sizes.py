"""Sizes of messages and the tool results among them whose calls are missing, in their JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from timeleap.message_text import CHARS_PER_TOKEN, answered, call_texts, called, texts


def estimate_tokens_with_calls(records: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages in their JSON form, with their tool calls; thoughts and media do not count."""
    return sum(text_length(record) + sum(map(len, call_texts(record))) for record in records) // CHARS_PER_TOKEN


def text_length(record: Mapping[str, Any]) -> int:
    """Characters (code points) of the text parts of a message in its JSON form."""
    return sum(len(text) for text in texts(record))


def orphan_results(messages: Sequence[Mapping[str, Any]], start: int = 0) -> set[str]:
    """The ids of the tool calls that `messages` answer, from the index `start` on, and do not make there."""
    known: set[str] = set()
    missing: set[str] = set()
    for index in range(start, len(messages)):
        missing |= answered(messages[index]) - known
        known |= called(messages[index])
    return missing
