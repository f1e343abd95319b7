"""Models of our small JSON files: every member is checked by itself, down to its limits, and a bad one costs only itself.

A program that can write to a session's directory decides what these files say, so a value of the right JSON type is not yet one
that can be used: an epoch below zero, a date that is none, half a surrogate pair. A `Check` returns the value that counts,
or `BAD`; what it found wrong it adds to `problems`, in words and without the value. One file has one model, which the
readers of the file trust; what a model does not know is kept, within the limits of `json_value`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

MAX_DEPTH: Final = 64
"""Objects and arrays within each other; far below what any JSON library refuses."""
MAX_NUMBER: Final = (1 << 53) - 1
MAX_PROBLEMS: Final = 10
"""Described in words; the others are counted."""
MAX_TEXT: Final = 4 << 20
_SHOWN: Final = 40
_DATE_LENGTH: Final = 40


class Bad(Enum):
    """A value that cannot be used."""

    BAD = "bad"


BAD: Final = Bad.BAD


class Problems:
    """Problems found in a document, in words."""

    def __init__(self) -> None:
        self._described: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, where: str, why: str) -> Bad:
        """Note that the value at `where` cannot be used."""
        self._count += 1
        if len(self._described) < MAX_PROBLEMS:
            self._described.append(f"{where} {why}")
        return BAD

    @property
    def text(self) -> str:
        """All of them in one sentence; empty where there are none."""
        more = self._count - len(self._described)
        return "; ".join(self._described) + (f"; and {more} more" if more else "")


Check = Callable[[Any, str, Problems], Any]
"""Takes a value, where it stands, and where to note what is wrong; returns the value that counts, or `BAD`."""


def flag(value: Any, where: str, problems: Problems) -> Any:
    """`true` or `false`."""
    return value if isinstance(value, bool) else problems.add(where, "is not true or false")


def whole(least: int = 0, most: int = MAX_NUMBER) -> Check:
    """A whole number from `least` to `most`."""

    def check(value: Any, where: str, problems: Problems) -> Any:
        if type(value) is int and least <= value <= most:
            return value
        return problems.add(where, f"is not a whole number from {least} to {most}")

    return check


def number(value: Any, where: str, problems: Problems) -> Any:
    """A finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _is_finite(value):
        return value
    return problems.add(where, "is not a number")


def text(pattern: str | None = None, most: int = MAX_TEXT, *, empty: bool = True) -> Check:
    """A text that every JSON parser takes, of at most `most` characters."""
    form = re.compile(pattern) if pattern is not None else None

    def check(value: Any, where: str, problems: Problems) -> Any:
        if not isinstance(value, str):
            return problems.add(where, "is not a text")
        if not is_encodable(value):
            return problems.add(where, "holds half of a surrogate pair")
        if len(value) > most or not (value or empty) or (form is not None and form.fullmatch(value) is None):
            return problems.add(where, "is not of its form")
        return value

    return check


def date(value: Any, where: str, problems: Problems) -> Any:
    """An ISO-8601 date and time."""
    return value if is_date(value) else problems.add(where, "is not a date and time")


def choice(*values: str) -> Check:
    """One of some texts."""

    def check(value: Any, where: str, problems: Problems) -> Any:
        if isinstance(value, str) and value in values:
            return value
        return problems.add(where, f"is not one of {', '.join(values)}")

    return check


def items(item: Check, most: int = 100_000) -> Check:
    """An array; items that cannot be used are left out of it."""

    def check(value: Any, where: str, problems: Problems) -> Any:
        if not isinstance(value, list):
            return problems.add(where, "is not an array")
        if len(value) > most:
            problems.add(where, f"has more than {most} items")
        checked = (item(each, f"{where}[{at}]", problems) for at, each in enumerate(value[:most]))
        return [each for each in checked if each is not BAD]

    return check


def table(entry: Check) -> Check:
    """An object with entries of one kind; those that cannot be used are left out of it."""

    def check(value: Any, where: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            return problems.add(where, "is not an object")
        return _entries(value, where, problems, lambda _: entry)

    return check


def model(members: Mapping[str, Check], *, required: tuple[str, ...] = ()) -> Check:
    """An object with known members. One that cannot be used is left out; so is the object, if that was required."""

    def check(value: Any, where: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            return problems.add(where, "is not an object")
        found = _entries(value, where, problems, lambda name: members.get(name, json_value))
        for name in required:
            if name not in found:
                if name not in value:
                    problems.add(where, f"has no {name}")
                return BAD
        return found

    return check


def json_value(value: Any, where: str, problems: Problems) -> Any:
    """Anything that can be written again as it was read."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, (int, float)) and not _is_finite(each):
                return problems.add(where, "holds a number that JSON has not")
        level = below
        if not level:
            return value
    return problems.add(where, "is nested too deeply")


def wire_value(value: Any, where: str, problems: Problems) -> Any:
    """Anything that can be given to a client: as `json_value`, and without half surrogate pairs."""
    if json_value(value, where, problems) is BAD:
        return BAD
    level = [value]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += [*each.keys(), *each.values()]
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str) and not is_encodable(each):
                return problems.add(where, "holds half of a surrogate pair")
        level = below
    return value


def is_encodable(value: str) -> bool:
    """True if a text has no half of a surrogate pair (JSON can escape one)."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_date(value: object) -> bool:
    """True if `value` is an ISO-8601 date and time."""
    if not isinstance(value, str) or len(value) > _DATE_LENGTH or not value.isascii():
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value


def _is_finite(value: float) -> bool:
    # Beyond 64 bits JSON parsers differ; an int too large for a float is none of ours.
    return abs(value) < 1 << 64 if isinstance(value, int) else math.isfinite(value)


def _entries(
    value: Mapping[str, Any], where: str, problems: Problems, check_of: Callable[[str], Check]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in value.items():
        shown = name if len(name) <= _SHOWN and name.isprintable() and is_encodable(name) else ascii(name[:_SHOWN])
        checked = check_of(name)(each, f"{where}.{shown}" if where else shown, problems)
        if checked is not BAD:
            found[name] = checked
    return found
