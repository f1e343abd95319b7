"""Compaction without I/O: what it keeps, what the summariser is shown.

Messages are in their JSON form, as they stand in the log. Who writes the summary is no concern of this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from timeleap import tokens
from timeleap.features.compaction import prompts
from timeleap.sessions.tool_pairs import safe_cut

Record = Mapping[str, Any]

_SYSTEM_TEXT = re.compile(r"^\s*<system(?:-reminder)?>")


def preserved_from(messages: Sequence[Record], max_preserved_messages: int) -> int:
    """Index of the first message that a compaction keeps.

    Args:
        messages: The history; it is read from its end, and only as far as needed.
        max_preserved_messages: How many of the last user and assistant messages are kept, with all that comes after
            the first of them. A tool call is never parted from its result: then more is kept.

    Returns:
        The index of the first message to keep; 0 means that there is nothing to compact.
    """
    if max_preserved_messages <= 0:
        return 0
    counted = 0
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") in ("user", "assistant"):
            counted += 1
            if counted == max_preserved_messages:
                return safe_cut(messages, index)
    return 0


def prompt_message(messages: Iterable[Record], custom_instruction: str = "") -> dict[str, Any]:
    """The one message a summariser is shown.

    Args:
        messages: What is to be summarised. Only text is shown; tool calls and results become text.
        custom_instruction: An instruction of the user's; empty for none.

    Returns:
        A user message in its JSON form.
    """
    parts = [text for number, message in enumerate(messages, 1) for text in _shown(number, message)]
    parts.append(prompts.request_text(custom_instruction))
    return {"role": "user", "content": [_text_part(text) for text in parts]}


def summary_message(summary: str) -> dict[str, Any]:
    """The user message that takes the place of what was compacted, in its JSON form.

    Args:
        summary: What the summariser wrote.
    """
    preface = f"<system>{prompts.SUMMARY_PREFACE}</system>"
    return {"role": "user", "content": [_text_part(preface), _text_part(summary)]}


def is_summary(message: Record) -> bool:
    """True if a message is the result of an earlier compaction."""
    texts = tokens.texts(message)
    return message.get("role") == "user" and bool(texts) and texts[0].startswith(f"<system>{prompts.SUMMARY_PREFACE}")


def is_system_text(text: str) -> bool:
    """True if a text part was written by the program, not by the user whose message holds it."""
    return _SYSTEM_TEXT.match(text) is not None


def call_texts(message: Record) -> list[str]:
    """The tool calls of a message as text."""
    calls = message.get("tool_calls")
    return [call_text(call) for call in calls] if isinstance(calls, list) else []


def call_text(call: Any) -> str:
    """A tool call as text: its name and its arguments."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ""
    return f"{function.get('name') or 'tool'}({function.get('arguments') or ''})"


def _shown(number: int, message: Record) -> list[str]:
    lines = [f"## Message {number}\nRole: {message.get('role')}\nContent:\n"]
    if isinstance(answer := message.get("tool_call_id"), str):
        lines.append(f"Result of tool call {answer}:\n")
    lines.extend(tokens.texts(message))
    calls = message.get("tool_calls")
    asked = [(call, call_text(call)) for call in calls] if isinstance(calls, list) else []
    return lines + [f"\nTool call {call.get('id')}: {text}\n" for call, text in asked if text]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
