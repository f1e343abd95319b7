"""Numbers, times, messages and foreign text as people read them."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from timeleap.cli.styled_text import StyledText
from timeleap.json_value import Json
from timeleap.message_text import texts

_UNSAFE = re.compile(
    # Control characters, and what reorders or hides: marks of direction, characters without width, tags.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
    # Joiners belong into words of some scripts and into emoji, and hide in all other text.
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_LONGEST_LINE = 4000
"""Characters of a line of a message before the rest is only counted."""
_STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold magenta", "system": "bold yellow"}
_BREAKS = re.compile(r"[\t\n]+")


def safe(text: str) -> str:
    """`text` without what a terminal would obey: escape sequences, returns, changes of writing direction.

    Messages hold whatever a model or a tool produced; shown as it is, it could repaint the screen.
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


class Exact(str):
    """A text that is the result itself, such as a title: a pipe gets it as it is, a terminal as one line."""

    __slots__ = ()


class ExactLines(Exact):
    """A result of several lines, such as a prompt, on a terminal, too."""

    __slots__ = ()


def as_line(text: str, *, seen: bool = True) -> str:
    """`text` as one line of output: a line break in it, which could begin a line of a stranger's making, is escaped.

    Args:
        text: Of the type `ExactLines`, it stays; of the type `Exact`, where it goes to no terminal.
        seen: It goes to a terminal.
    """
    if isinstance(text, ExactLines) or (isinstance(text, Exact) and not seen):
        return text
    return text.replace("\n", "\\n")


def safe_json(text: str) -> str:
    """JSON of the same meaning, without what a terminal would obey: this can only stand in strings, so it is escaped."""
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text.replace("\x7f", "\\u007f"))


def one_line(text: str, width: int | None = None) -> str:
    line = safe(_BREAKS.sub(" ", text)).strip()
    return line if width is None or len(line) <= width else line[: max(0, width - 1)] + "…"


def cell(value: object) -> str:
    """A value for a line of tab-separated values that spreadsheets can take: nothing in it is a formula."""
    text = "" if value is None else one_line(str(value))
    if text[:1] not in {"=", "+", "-", "@"}:
        return text
    try:
        float(text.replace(",", ""))
    except ValueError:
        return "'" + text
    return text


def count(number: int, noun: str) -> str:
    """`1 message`, `1,234 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Bytes, such as `12.3 KB`."""
    if number < 1000:
        return f"{number} B"
    amount, unit, larger = number / 1000, "KB", ["GB", "MB"]
    while amount >= 999.5 and larger:
        amount, unit = amount / 1000, larger.pop()
    return f"{amount:.1f} {unit}" if amount < 100 else f"{amount:.0f} {unit}"


def ago(stamp: str | None, now: datetime | None = None) -> str:
    """How long ago an ISO-8601 time was, such as `3 minutes ago`; its date after a month; empty where unknown."""
    if isinstance(then := _time(stamp), str):
        return then
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    for unit, length, most in (("second", 1, 60), ("minute", 60, 60), ("hour", 3600, 24), ("day", 86400, 31)):
        if seconds < length * most:
            return count(max(0, int(seconds // length)), unit) + " ago"
    return f"{then.astimezone():%Y-%m-%d}"


def process(owner: Mapping[str, Any]) -> str:
    """The owner of a session: `process 123, opened 5 minutes ago`, with its machine where that is another one."""
    host = one_line(str(owner.get("host", "")))
    where = f" on {host}" if host != socket.gethostname() else ""
    since = ago(str(owner.get("since", "")))
    return f"process {owner.get('pid')}{where}{f', opened {since}' if since else ''}"


def clock(stamp: str | None) -> str:
    """The local time of day of an ISO-8601 time, with the date unless it is today's; empty where unknown."""
    if isinstance(then := _time(stamp), str):
        return then
    then = then.astimezone()
    today = datetime.now(UTC).astimezone().date()
    return f"{then:%H:%M:%S}" if then.date() == today else f"{then:%Y-%m-%d %H:%M}"


def _time(stamp: str | None) -> datetime | str:
    try:
        return datetime.fromisoformat(stamp) if stamp else ""
    except ValueError:
        return one_line(stamp or "")


def now() -> str:
    return f"{datetime.now(UTC).astimezone():%H:%M:%S}"


def gist(message: Mapping[str, Any], width: int) -> str:
    """A message on one line: its text, else the tools it calls, else the kinds of its parts."""
    if text := one_line("\n".join(texts(message)), width):
        return text
    if isinstance(calls := message.get("tool_calls"), list) and calls:
        names = [str(call.get("function", {}).get("name", "?")) for call in _objects(calls)]
        return one_line("calls " + ", ".join(names), width)
    kinds = [str(part.get("type", "?")) for part in _objects(message.get("content"))]
    return one_line(f"[{', '.join(kinds)}]", width) if kinds else "(empty)"


def render(entry: Json, most_lines: int | None) -> Iterator[StyledText]:
    """Lines of one `{index, message}` of a history: its author, then its parts, each up to `most_lines`."""
    message = entry["message"]
    role = str(message.get("role", "?"))
    name = f" {one_line(str(message['name']))}" if message.get("name") else ""
    answers = f" answers {one_line(str(message['tool_call_id']))}" if message.get("tool_call_id") else ""
    yield StyledText.assemble(
        (f"[{entry['index']}] ", "dim"), (one_line(role), _STYLES.get(role, "bold")), (name + answers, "dim")
    )
    for text, style in _parts(message):
        lines = safe(text.replace("\r\n", "\n")).expandtabs(4).rstrip("\n").split("\n")
        shown = lines if most_lines is None or len(lines) <= most_lines + 1 else lines[:most_lines]
        for line in shown:
            more = len(line) - _LONGEST_LINE
            if most_lines is not None and more > 0:
                cut = count(more, "more character")
                yield StyledText(f"    {line[:_LONGEST_LINE]}… ({cut}; --full shows them)", style=style)
            else:
                yield StyledText("    " + line, style=style)
        if len(shown) < len(lines):
            yield StyledText(f"    ... {count(len(lines) - len(shown), 'more line')}; --full shows them", style="dim")


def _parts(message: Json) -> Iterator[tuple[str, str]]:
    content = message.get("content")
    if isinstance(content, str):
        yield content, ""
    for part in content if isinstance(content, list) else []:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            yield str(part.get("text", "")), ""
        elif kind == "think":
            yield str(part.get("think", "")), "italic dim"
        else:
            yield f"[{kind}] {one_line(json.dumps(part, ensure_ascii=False), 100)}", "dim"
    for call in _objects(message.get("tool_calls")):
        if isinstance(function := call.get("function"), dict):
            yield f"→ {function.get('name', '?')}({function.get('arguments') or ''})", "magenta"


def _objects(value: object) -> list[Json]:
    """The objects of a list in a message, which may hold anything."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
