"""Messages of a log as pairs, for comparing them with a model of the program that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Said = tuple[str, str]
"""A role and a text, `result` or `call` and the id of a call."""


def said(messages: list[dict[str, Any]], counts: Callable[[str], bool] = bool) -> list[Said]:
    """List the pairs of messages; texts that do not count are left out."""
    found: list[Said] = []
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])
        if message["role"] == "tool":
            found.append(("result", message["tool_call_id"]))
        elif counts(text):
            found.append((message["role"], text))
        found += [("call", call["id"]) for call in message.get("tool_calls", [])]
    return found
