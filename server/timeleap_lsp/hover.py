"""The record below the cursor in words, and the hints beside checkpoints."""

from __future__ import annotations

import re
from typing import Any, Final

from lsprotocol import types

from timeleap.json_value import Json
from timeleap.message_text import call_texts, texts
from timeleap_lsp.record_lines import RecordLines, TranscriptLine

MOST_TEXT: Final = 4096
"""Bytes of a hover's text."""
MOST_HINTS: Final = 500
_TICKS: Final = re.compile(r"`+")


def hover(transcript: RecordLines, line: int) -> types.Hover | None:
    """Author, time, tokens so far, checkpoint, size and text of the record at a line; None where there is none."""
    if not 0 <= line < transcript.count:
        return None
    found = next(iter(transcript.lines(line, line + 1)), None)
    if found is None:
        return None
    record, size = transcript.record(line)
    head = " · ".join(part for part in _facts(found, size) if part)
    text = head + "\n\n---\n\n" + _text(record, found, size)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, shortened(text)))


def _facts(line: TranscriptLine, size: int) -> list[str]:
    title = {"checkpoint": line.name, "usage": "token count", "prompt text": "system prompt"}.get(line.tag)
    who = title or line.role or line.name
    return [
        f"**{_escaped(who)}**",
        _escaped(line.time),
        f"{line.tokens:,} tokens so far" if line.tokens else "",
        f"`{line.uid}`" if line.uid and "`" not in line.uid else "",
        "failed" if line.failed else "",
        f"{size:,} bytes",
    ]


def _text(record: Json | None, line: TranscriptLine, size: int) -> str:
    """The text of a record, fenced: a stranger wrote it."""
    if record is None:
        return "_This line is no record._" if size < 1 << 20 else "_This record is too long to be shown here._"
    said = "\n\n".join([*texts(record), *call_texts(record)]) or line.name
    if not said:
        return "_It has no text._"
    said = said[:MOST_TEXT]
    ticks = max((len(found) for found in _TICKS.findall(said)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}text\n{said}\n{fence}"


def shortened(text: str) -> str:
    """At most `MOST_TEXT` bytes of a text in a fence at its end, the fence kept."""
    data = text.encode("utf-8", "replace")
    if len(data) <= MOST_TEXT:
        return data.decode("utf-8")
    fence = text[text.rfind("\n") :] if text.endswith("`") else ""
    kept = data[: MOST_TEXT - len(fence.encode()) - 4].decode("utf-8", "ignore")
    return f"{kept}…{fence}"


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text)


def hints(transcript: RecordLines, start: int, stop: int) -> list[types.InlayHint]:
    """A hint at each checkpoint between two lines: its number, time and tokens."""
    found: list[types.InlayHint] = []
    for line in transcript.lines(max(0, start), min(stop, start + MOST_HINTS, transcript.count)):
        if line.tag == "checkpoint":
            tokens: Any = f"{line.tokens:,} tokens" if line.tokens else ""
            label = " · ".join(part for part in (line.name, line.time, tokens) if part)
            found.append(types.InlayHint(types.Position(line.line, 0), label, padding_right=True))
    return found
