"""JSON values as a log keeps them: as they are, or as text where the protocol has no exact form for them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

MAX_PLAIN_DEPTH: Final = 100
"""Deeper values are kept as text: the protocol's own limit is 128 levels, and a record adds some."""
_LONG_NUMBER: Final = re.compile("[0-9]{19}")
_PLAIN_INTEGERS: Final = range(-(2**63), 2**63)


def is_plain(value: Any) -> bool:
    """True if the protocol carries it exactly: no lone surrogates, no NaN, no huge integers, not too deep."""
    level = [value]
    for _ in range(MAX_PLAIN_DEPTH):
        following: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                if not all(map(is_encodable, node)):
                    return False
                following += node.values()
            elif isinstance(node, list | tuple):
                following += node
            elif isinstance(node, str):
                if not is_encodable(node):
                    return False
            elif isinstance(node, float):
                if node - node != 0:  # NaN and infinity
                    return False
            elif isinstance(node, int) and node not in _PLAIN_INTEGERS:
                return False
        if not following:
            return True
        level = following
    return False


def as_text(value: Any) -> tuple[str, bool]:
    """The JSON text of a value, and whether the value is plain.

    Raises:
        ValueError: It is nested so deeply that no parser takes it.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return text_of(value), False
    if not is_encodable(text):
        return text_of(value), False
    # Walking through the value takes longer than this: only where it may be deep, or hold a huge integer.
    doubtful = text.count("{") + text.count("[") > MAX_PLAIN_DEPTH or _LONG_NUMBER.search(text) is not None
    return text, not doubtful or is_plain(value)


def is_encodable(text: str) -> bool:
    """True if a text has no half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def readable(text: str) -> str:
    """The text with a question mark in the place of each half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def first_line(text: str, most: int = 100) -> str:
    """The first line that is not empty, at most `most` characters of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def text_of(value: Any) -> str:
    """JSON text that the protocol carries exactly: halves of surrogate pairs are escaped in it.

    Raises:
        ValueError: It is nested so deeply that no parser takes it.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return text if is_encodable(text) else json.dumps(value, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the value is nested too deeply to be kept") from None


def value_of(text: str) -> Any:
    """The value that `text_of` was given."""
    return json.loads(text)
