"""Messages of a log as pairs, for comparing them with a model of the program that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Said = tuple[str, str]
"""A role and a text, `result` or `call` and the id of a call."""


def said(messages: list[dict[str, Any]], counts: Callable[[str], bool] = bool) -> list[Said]:
    """List the pairs of messages; texts that do not count are left out."""
    return [each for message in messages for each in _pairs(message, list(filter(counts, ["".join(_texts(message))])))]


def said_apart(messages: list[dict[str, Any]]) -> list[Said]:
    """List the pairs of messages, one for each text of a message."""
    return [each for message in messages for each in _pairs(message, list(filter(None, _texts(message))))]


def _pairs(message: dict[str, Any], texts: list[str]) -> list[Said]:
    calls = message.get("tool_calls")
    called = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if message["role"] == "tool":
        return [("result", str(message.get("tool_call_id")))]
    return [*((message["role"], text) for text in texts), *(("call", str(call)) for call in called)]


def _texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content
    return [str(part.get("text", "")) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
