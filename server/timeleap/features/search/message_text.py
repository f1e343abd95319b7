"""The text of a message as it is searched, and the unit in which positions in it are counted.

It is what the preview of a checkpoint shows, with what else was said after it: the text parts, one right after the
other; then, each on a line of its own, the thoughts; then each tool call's name and, on the next line, its arguments.
So a place within the text parts is the same whether or not there is more.

Places are counted in UTF-16 units, as editors and JavaScript count: a character outside of the basic plane is two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from timeleap.tokens import texts

Span = tuple[int, int]

_CONTINUED: Final = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character
_NOT_LONG: Final = bytes(range(0xF0))  # those that begin none of two UTF-16 units


def text_of(record: Mapping[str, Any]) -> str:
    """The text of a message in its JSON form. Half of a surrogate pair, which no reply can carry, is U+FFFD."""
    pieces = ["".join(texts(record)), *_thoughts(record), *_calls(record)]
    text = "\n".join(pieces) if len(pieces) > 1 else pieces[0]
    return text if text.isascii() else without_halves(text)


def _thoughts(record: Mapping[str, Any]) -> Iterator[str]:
    content = record.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "think" and isinstance(part.get("think"), str):
            yield part["think"]


def _calls(record: Mapping[str, Any]) -> Iterator[str]:
    calls = record.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield from (function[name] for name in ("name", "arguments") if isinstance(function.get(name), str))


def without_halves(text: str) -> str:
    """A text with U+FFFD in the place of each half of a surrogate pair, which no JSON can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf16_length(text: str) -> int:
    """Number of UTF-16 units of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def utf16_length_of_bytes(encoded: bytes) -> int:
    """Number of UTF-16 units that begin in a piece of a text's UTF-8 bytes, wherever it was cut out."""
    if encoded.isascii():
        return len(encoded)
    return len(encoded.translate(None, _CONTINUED)) + len(encoded.translate(None, _NOT_LONG))


def excerpt(text: str, span: Span, size: int) -> tuple[int, str]:
    """About `size` units of a text around a span, no character cut in two: where it begins, in units, and the piece."""
    raw = text.encode("utf-16-le")
    start, end = span
    room = max(0, size - (end - start))
    begin = max(0, start - room // 3)
    stop = min(len(raw) // 2, max(begin + size, begin + 1))
    if begin and _is_second_half(raw, begin):
        begin += 1 if begin < start else -1
    if _is_second_half(raw, stop):
        stop += 1
    return begin, raw[2 * begin : 2 * stop].decode("utf-16-le")


def _is_second_half(raw: bytes, unit: int) -> bool:
    return 2 * unit < len(raw) and raw[2 * unit + 1] & 0xFC == 0xDC
