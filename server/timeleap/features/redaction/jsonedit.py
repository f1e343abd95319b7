"""Changing single strings of a JSON text and leaving every other byte of it as it is.

A text is gone through token by token. Of a string that is to change only the places change, whatever way its other
characters are spelled. A string that is JSON itself (the arguments of a tool call) is gone through in the same way, and
what is put in is escaped once for each string it stands in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

Path = tuple[str, ...]
"""Path of a value: the keys that lead to it, `*` for any item of an array."""


class TextReplacement(NamedTuple):
    """The text that replaces the characters `[start, end)` of another text."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class Token:
    """A string or a bare word of a JSON text.

    Attributes:
        start, end: Where it stands, quotes included.
        path: Where it stands in the value; of a key, the path it leads to.
        key: It is the key of a member.
        string: It is a string; else a number or one of `true`, `false`, `null`.
        owner: Of the objects and arrays of the text, from 1, the one it stands in.
    """

    start: int
    end: int
    path: Path
    key: bool
    string: bool
    owner: int = 0


_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^"{}\[\]:,\s]+', re.DOTALL)
_COLON: Final = re.compile(r"\s*:")
_UNIT: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


@dataclass(slots=True)
class _Level:
    array: bool
    number: int


def tokens(text: str) -> Iterator[Token]:
    """The strings and bare words of a JSON text, in order."""
    path: list[str] = [""]
    levels: list[_Level] = []
    begun = 0
    for match in _TOKEN.finditer(text):
        first = text[match.start()]
        if first in "{[":
            begun += 1
            levels.append(_Level(first == "[", begun))
            path.append("*")
        elif first in "}]":
            if levels:
                levels.pop()
                path.pop()
        elif first not in ":,":
            key = first == '"' and bool(levels) and not levels[-1].array and _COLON.match(text, match.end()) is not None
            if key:
                path[-1] = decoded(match.group())
            owner = levels[-1].number if levels else 0
            yield Token(match.start(), match.end(), tuple(path[1:]), key, first == '"', owner)


def decoded(string: str) -> str:
    """The text of a JSON string with its quotes."""
    if "\\" not in string:
        return string[1:-1]
    try:
        return str(json.loads(string, strict=False))
    except ValueError:
        return string[1:-1]


def is_json(text: str) -> bool:
    """True if a text is a JSON object, array or string."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def within(token: str, changes: list[TextReplacement], offset: int) -> Iterator[TextReplacement]:
    """The changes of a string's text as changes of the text that the string stands in.

    Args:
        token: The string with its quotes.
        changes: Changes of its text, ascending.
        offset: Where the string stands.
    """
    starts = None
    if "\\" in token:
        starts = [offset + match.start() for match in _UNIT.finditer(token, 1, len(token) - 1)]
        starts.append(offset + len(token) - 1)
    for start, end, text in changes:
        new = escaped(text, ascii_only=token.isascii())
        if starts is None:
            yield TextReplacement(offset + 1 + start, offset + 1 + end, new)
        else:
            yield TextReplacement(starts[start], starts[end], new)


def escaped(text: str, *, ascii_only: bool = True) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def changed(text: str, changes: list[TextReplacement]) -> str:
    """A text with changes made; they are ascending and do not overlap."""
    pieces: list[str] = []
    at = 0
    for start, end, new in changes:
        pieces += (text[at:start], new)
        at = end
    return "".join((*pieces, text[at:]))


def each_text(text: str, depth: int) -> Iterator[str]:
    """The strings of a JSON text, and the strings of those that are JSON themselves, down to a depth."""
    for token in tokens(text):
        if token.string:
            inner = decoded(text[token.start : token.end])
            yield inner
            if depth and is_json(inner):
                yield from each_text(inner, depth - 1)
