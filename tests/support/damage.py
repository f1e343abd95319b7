"""Session files of other programs as crashes, copies and newer versions leave them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_ODD: list[Any] = [None, 5, "", "x", [], {}, [None], [5], {"type": 5}, True, -1, 1e300, 1 << 70, "0" * 36, {"kind": []}]
"""Values that no program writes where another one stands."""


_NAMES = re.compile(r"\b(?:question|answer|steer|summary|branch|edited|reminder|ran|half|shown|call)[ _]\d+\b")


class Damaged(NamedTuple):
    """A file with damage in it.

    Attributes:
        data: The file.
        torn: The lines of which not all is there any more; `whole`: the others.
        hit: Number of the places that were damaged.
    """

    data: bytes
    torn: str
    hit: int
    whole: str = ""

    def has(self, text: str) -> bool:
        """Tell whether a text, or a name such as `answer 5` in it, stood in a line that was torn."""
        names = re.findall(r"[a-z]+[ _]\d+", text) or [text]
        return any(re.search(rf"{re.escape(json.dumps(name)[1:-1])}(?!\d)", self.torn) for name in names)


def names_in(text: str) -> set[str]:
    """The names of a history's steps, such as `answer 5`, in what it says."""
    return set(_NAMES.findall(text))


def damaged(data: bytes, chance: random.Random, unknown: bytes) -> Damaged:
    """Tear some lines of a file, join some, repeat some, and put `unknown` records, zeros and other line ends between."""
    made, torn, whole, hit = bytearray(), "", "", 0
    for line in filter(None, data.splitlines()):
        kind = chance.randrange(14)
        hit += kind < 8
        cut = chance.randrange(1, len(line))
        if kind == 0:  # the end is missing
            made += line[:cut] + b"\n"
        elif kind == 1:  # and the next record stands behind the rest
            made += line[:cut].rstrip(b" :[")  # an object behind these might be a value
        elif kind == 2:  # the beginning is missing, up to a word
            made += line[cut:].lstrip(b" ,:[]{}") + b"\n"
        elif kind == 3:
            made += line  # the next record is on this line, too
        elif kind == 4:
            made += line + b"\n" + line + b"\n"
        elif kind == 5:
            made += unknown + b"\n" + b"\0" * chance.randrange(2, 5000) + b"\n" + line + b"\n"
        elif kind == 6:
            made += line + b"\r\n\r\n"
        elif kind == 7:
            made += b"\0" * chance.randrange(1, 5000) + line + b"\n"
        else:
            made += line + b"\n"
        if kind < 3:
            torn += line.decode(errors="replace") + "\n"
        else:
            whole += line.decode(errors="replace") + "\n"
    return Damaged(bytes(made) + b"\n", torn, hit, whole)


def odd_lines(
    data: bytes, chance: random.Random, number: int, named: tuple[str, ...] = ()
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Make lines of records in each of which one value is another; of some the end is missing, or the line feed.

    Args:
        data: A file whose records are taken.
        chance: Random numbers.
        number: How many lines are made.
        named: Members that tell a record from all others; they get other values.

    Yields:
        Lines, each with its record.
    """
    records = [json.loads(line) for line in data.splitlines() if line.startswith(b"{") and _is_whole(line)]
    for at in range(number):
        known = chance.choice(records)
        record = odd({**known, **{name: f"odd-{at}" for name in named if name in known}}, chance)
        yield json.dumps(record).encode()[: chance.choice([None, None, 40])] + b"\n" * chance.randrange(2), record


def odd(record: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A copy of a record in which one value is another."""
    found: dict[str, Any] = json.loads(json.dumps(record))
    inner: Any = found
    while (below := list(_objects_in(inner))) and chance.random() < 0.7:
        inner = chance.choice(below)
    if inner:
        inner[chance.choice([*inner])] = chance.choice(_ODD)
    return found


def _objects_in(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in value.values():
        if isinstance(each, dict):
            yield each
        elif isinstance(each, list):
            yield from (part for part in each if isinstance(part, dict))


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
