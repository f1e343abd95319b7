"""Notes about the bytes that are kept of one file, in `kept.json` of the mirror's directory.

The bytes themselves stand beside it: `kept_<n>.bytes` for a generation that may grow, `kept_<n>.xz` for one that has
ended and was compressed. Where the notes are lost, these files say what there is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from timeleap import clock
from timeleap.sessions.documents.json_files import read_document, write_document
from timeleap.storage.durable import list_directory

NOTES_NAME: Final = "kept.json"
Ended = Literal["rewritten", "truncated", "replaced", "gone"]
_FILE: Final = re.compile(r"kept_([0-9]{1,9})\.(bytes|xz)")
ROW: Final = 1_000_000
"""Generations of the mirrored file have smaller numbers; those of each file beside it have a row of so many."""
ROWS: Final = 999


class Generation(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The bytes of a file from its beginning, or from a change of what was read, up to the next such change.

    Attributes:
        number: From 1.
        path: Where the file was last.
        first_seen: ISO-8601 UTC; `last_seen`: of one that has ended.
        ended: Why no more is added to it; None: it may grow.
        bytes: Of one that was compressed: how many it has; `sha256`: of them, in hexadecimal digits.
        packed: It is compressed.
        read: Bytes of the program's file that were read for it, where a redaction has changed their number; None: as many
            as are kept.
        device: Of the file; `inode`, too.
        modified_ns: When the file was changed last, in nanoseconds since 1970, where it has ended.
    """

    number: int
    path: str
    first_seen: str
    last_seen: str = ""
    ended: Ended | None = None
    bytes: int = 0
    sha256: str = ""
    packed: bool = False
    read: int | None = None
    device: int = 0
    inode: int = 0
    modified_ns: int = 0

    @property
    def name(self) -> str:
        """The name of its file."""
        return packed_name(self.number) if self.packed else raw_name(self.number)


def raw_name(number: int) -> str:
    """The name of the file of a generation that is not compressed."""
    return f"kept_{number}.bytes"


def packed_name(number: int) -> str:
    """The name of the file of a generation that is compressed."""
    return f"kept_{number}.xz"


def row_of(number: int) -> int:
    """The row of a generation's number: 0 for the mirrored file."""
    return number // ROW


def read_notes(directory: Path, row: int = 0) -> list[Generation]:
    """The generations of one row that are kept in a mirror's directory, the oldest first. Blocking."""
    return [each for each in read_all(directory) if row_of(each.number) == row]


def read_all(directory: Path) -> list[Generation]:
    """The generations of all files that are kept in a mirror's directory, row by row, the oldest first. Blocking."""
    document = read_document(directory / NOTES_NAME)
    noted: Any = document.members.get("generations")
    found: dict[int, Generation] = {}
    for each in noted if isinstance(noted, list) else []:
        try:
            generation = convert(each, Generation)
        except ValidationError:
            continue
        found[generation.number] = generation
    there: dict[int, set[str]] = {}
    for name in list_directory(directory):
        if match := _FILE.fullmatch(name):
            there.setdefault(int(match[1]), set()).add(match[2])
    known = [_as_it_is(number, found.get(number), kinds) for number, kinds in sorted(there.items())]
    last = {row_of(each.number): each for each in known}
    return [
        each if each.ended or each is last[row_of(each.number)] else replace(each, ended="replaced") for each in known
    ]


def _as_it_is(number: int, noted: Generation | None, kinds: set[str]) -> Generation:
    """A generation as its files say: a crash may have come between them and the notes."""
    if noted is None:
        noted = Generation(number, "", clock.now_iso(), ended="replaced" if "xz" in kinds else None)
    return replace(noted, packed="bytes" not in kinds)


def write_notes(directory: Path, generations: list[Generation], row: int | None = None) -> None:
    """Note generations, all or those of one row, in one durable step. Blocking. Raises StorageFailureError."""
    others = [] if row is None else [each for each in read_all(directory) if row_of(each.number) != row]
    every = sorted([*others, *generations], key=lambda each: each.number)
    write_document(directory / NOTES_NAME, {"version": 1, "generations": [to_builtins(each) for each in every]})


def next_number(directory: Path, generations: list[Generation], row: int = 0) -> int:
    """A number of a row that no generation has had, as far as is known. Blocking."""
    document = read_document(directory / NOTES_NAME)
    noted: Any = document.members.get("generations")
    numbers = [each.get("number") for each in noted if isinstance(each, dict)] if isinstance(noted, list) else []
    highest = max([number for number in numbers if type(number) is int and row_of(number) == row], default=0)
    return 1 + max([highest, row * ROW, *(each.number for each in generations)])
