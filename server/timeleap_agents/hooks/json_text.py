"""Edits of JSON text that leave every other byte of it as it is."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\n\r]*")
_CLOSING = {"{": "}", "[": "]"}


class Item(NamedTuple):
    """A member of an object, or an element of an array, and where it stands in the text.

    Attributes:
        key: The member's name; None for an element.
        start: Where it begins: at the key, or at the value of an element.
        value: Where its value begins.
        end: Behind its value.
    """

    key: str | None
    start: int
    value: int
    end: int


def document(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is no JSON, or an object in it has two members of one name; the message says where.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_without_doubles)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"an object has two members called {name!r}")
        members[name] = value
    return members


def items(text: str, at: int) -> tuple[list[Item], int]:
    """The items of the object or array that begins at `at`, and where its closing bracket is. `text` is valid JSON."""
    decode = json.JSONDecoder().raw_decode
    closing = _CLOSING[text[at]]
    position = _skip(text, at + 1)
    found: list[Item] = []
    while text[position] != closing:
        start, key = position, None
        if closing == "}":
            key, position = decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        _, end = decode(text, position)
        found.append(Item(key, start, position, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found, position


def root(text: str) -> int:
    """Where the value of the whole text begins."""
    return _skip(text, 0)


def member(text: str, at: int, key: str) -> Item | None:
    """The member of an object by its name."""
    return next((item for item in items(text, at)[0] if item.key == key), None)


def with_item(text: str, at: int, value: Any, key: str | None = None) -> str:
    """The text with an item added at the end of the object or array that begins at `at`, indented as its neighbours."""
    found, close = items(text, at)
    newline = "\r\n" if "\r\n" in text else "\n"
    prefix = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if found:
        last = found[-1]
        lead = text[_back(text, last.start) : last.start]
        piece = prefix + _written(value, _unit(text), lead.rpartition("\n")[2] if "\n" in lead else None, newline)
        return f"{text[: last.end]},{lead}{piece}{text[last.end :]}"
    unit = _unit(text)
    if unit is None:
        return f"{text[: at + 1]}{prefix}{_written(value, None, None, newline)}{text[at + 1 :]}"
    inner = text[at + 1 : close]
    base = _indent_of_line(text, at)
    piece = prefix + _written(value, unit, base + unit, newline)
    tail = inner if "\n" in inner else newline + base
    return f"{text[: at + 1]}{newline}{base}{unit}{piece}{tail}{text[close:]}"


def without_item(text: str, at: int, position: int) -> str:
    """The text without the item number `position` of the object or array that begins at `at`."""
    found, close = items(text, at)
    if len(found) == 1:
        return text[: at + 1] + text[close:]
    if position == 0:
        return text[: found[0].start] + text[found[1].start :]
    return text[: found[position - 1].end] + text[found[position].end :]


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _back(text: str, position: int) -> int:
    while text[position - 1] in " \t\n\r":
        position -= 1
    return position


def _unit(text: str) -> str | None:
    """By how much the text indents; None where it is written on one line."""
    at = root(text)
    found, _ = items(text, at)
    if not found:
        return "  "
    lead = text[at + 1 : found[0].start]
    return lead.rpartition("\n")[2] or "  " if "\n" in lead else None


def _indent_of_line(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(value: Any, unit: str | None, indent: str | None, newline: str) -> str:
    if unit is None or indent is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)
