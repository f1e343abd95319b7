"""A message in its JSON form: what it says, how long that is in tokens, where something stands in it, its tool calls.

Token counts are estimates: a quarter of the characters of the text parts, rounded down once over the sum. A model
reports the true count with its next answer; the estimate has to carry until then, and to be the same on every path.

The searched text is what the preview of a checkpoint shows, with what else was said after it: the text parts, one right
after the other; then, each on a line of its own, the thoughts; then each tool call's name and, on the next line, its
arguments. So a place within the text parts is the same whether or not there is more. Places are counted in UTF-16
units, as editors and JavaScript count: a character outside of the basic plane is two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

CHARS_PER_TOKEN = 4
_CLOSING_TAG = re.compile(r"<(?=\s*/\s*system\b)", re.IGNORECASE)


def estimate_tokens_with_calls(records: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages in their JSON form, with their tool calls; thoughts and media do not count."""
    return sum(text_length(record) + sum(map(len, _calls(record))) for record in records) // CHARS_PER_TOKEN


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
    full = token_count + reserved_context_size >= max_context_size
    return full or token_count >= max_context_size * trigger_ratio


def should_compact(
    token_count: int, max_context_size: int | None, *, trigger_ratio: float, reserved_context_size: int
) -> bool:
    """The same with two limits to it: no window, no trigger; and a reserve only where one makes sense."""
    if max_context_size is None:
        return False
    reserved = reserved_context_size if reserve_fits(max_context_size, reserved_context_size) else 0
    # With nothing reserved, a window that is full is over any ratio of it too: ratios are at most 1.
    return should_auto_compact(
        token_count, max_context_size, trigger_ratio=trigger_ratio, reserved_context_size=reserved
    )


def reserve_fits(max_context_size: int, reserved_context_size: int) -> bool:
    """True if the reserve is less than half of the window; a larger one would compact a small window for ever."""
    return reserved_context_size < max_context_size / 2


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


def harmless(text: str) -> str:
    """A text with every closing system tag written so that it closes nothing."""
    return _CLOSING_TAG.sub("&lt;", text)


# Tool calls. Models refuse a history with a result whose call is gone, or a call whose result is gone. Ids are matched to the
# nearest call before the result, because some models use the same id again and again.


def called(message: Mapping[str, Any]) -> set[str]:
    """The ids of the tool calls a message makes."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return set()
    return {call["id"] for call in calls if isinstance(call, Mapping) and isinstance(call.get("id"), str)}


def answered(message: Mapping[str, Any]) -> set[str]:
    """The id of the tool call a message answers, if it answers one."""
    answer = message.get("tool_call_id")
    return {answer} if isinstance(answer, str) else set()


def safe_cut(messages: Sequence[Mapping[str, Any]], wanted: int) -> int:
    """The last place at or before `wanted` where `messages` can be cut: the index of the first message behind it."""
    cut = min(wanted, _first_of_running_calls(messages, wanted))
    missing = orphan_results(messages, cut)
    between: set[str] = set()  # results met on the way back, whose calls stand further up
    for index in range(cut - 1, -1, -1):
        if not missing:
            break
        between |= answered(messages[index])
        calls = called(messages[index])
        if missing & calls:
            cut = index
            missing = (missing | between) - calls
            between = set()
        else:
            between -= calls
    return cut


def orphan_results(messages: Sequence[Mapping[str, Any]], start: int = 0) -> set[str]:
    """The ids of the tool calls that `messages` answer, from the index `start` on, and do not make there."""
    known: set[str] = set()
    missing: set[str] = set()
    for index in range(start, len(messages)):
        missing |= answered(messages[index]) - known
        known |= called(messages[index])
    return missing


def _first_of_running_calls(messages: Sequence[Mapping[str, Any]], start: int) -> int:
    """Index of the last assistant message if it is before `start` and still waits for results, else `start`."""
    results: set[str] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") == "assistant":
            return index if index < start and called(message) - results else start
        results |= answered(message)
    return start
