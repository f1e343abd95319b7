"""Messages on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from timeleap.cli.formatting import count, one_line, safe

if TYPE_CHECKING:
    from rich.text import Text

Json = dict[str, Any]

_STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold magenta", "system": "bold yellow"}


def render(entry: Json, most_lines: int | None) -> Iterator[Text]:
    """One message of a history page: a line with its author, then its content.

    Args:
        entry: `{index, message}`.
        most_lines: Lines of each part before the rest is only counted; None shows all.
    """
    from rich.text import Text

    message = entry["message"]
    role = str(message.get("role", "?"))
    name = f" {one_line(str(message['name']))}" if message.get("name") else ""
    answers = f" answers {one_line(str(message['tool_call_id']))}" if message.get("tool_call_id") else ""
    yield Text.assemble(
        (f"[{entry['index']}] ", "dim"), (one_line(role), _STYLES.get(role, "bold")), (name + answers, "dim")
    )
    for text, style in _parts(message):
        yield from _block(text, style, most_lines)


def _parts(message: Json) -> Iterator[tuple[str, str]]:
    content = message.get("content")
    if isinstance(content, str):
        yield content, ""
    for part in content if isinstance(content, list) else []:
        yield _part(part)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield f"→ {function.get('name', '?')}({function.get('arguments') or ''})", "magenta"


def _part(part: Any) -> tuple[str, str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return str(part.get("text", "")), ""
    if kind == "think":
        return str(part.get("think", "")), "italic dim"
    return f"[{kind}] {one_line(json.dumps(part, ensure_ascii=False), 100)}", "dim"


def _block(text: str, style: str, most_lines: int | None) -> Iterator[Text]:
    from rich.text import Text

    lines = safe(text.replace("\r\n", "\n")).expandtabs(4).rstrip("\n").split("\n")
    shown = lines if most_lines is None or len(lines) <= most_lines + 1 else lines[:most_lines]
    for line in shown:
        yield Text("    " + line, style=style)
    if len(shown) < len(lines):
        yield Text(f"    ... {count(len(lines) - len(shown), 'more line')}; --full shows them", style="dim")
