"""Our small JSON files: read with suspicion, checked member by member, written whole, moved aside when damaged.

Whatever lies in a session's directory may have been put there by anybody: a link, a FIFO that blocks for ever, a
gigabyte of brackets. Reading never follows, never waits, never raises for what it finds; it says what is wrong. And a
value of the right JSON type is not yet one that can be used: an epoch below zero, a date that is none, half a surrogate
pair. So one file has one model, which the readers of the file trust: a bad member costs only itself, and what a model
does not know is kept, within the limits of `json_value`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import StorageFailureError, TooLargeError
from timeleap.placeholders import placeholders
from timeleap.storage.durable import (
    OpenFile,
    atomic_write,
    is_regular,
    link_exclusive,
    list_directory,
    remove_file,
    replace_file,
    status,
    storage_errors,
    sync_directory,
)

MAX_BYTES = 16 << 20
"""A larger file is not one of ours."""
MAX_LINES_BYTES = 64 << 20
"""Limit on a file of JSON lines."""
MAX_MEMBER_BYTES = 4 << 20
"""A larger member could make a file that nobody would read any more."""
MAX_KEPT_ASIDE = 10
"""Number of damaged files of one name that are kept, the newest ones."""
MAX_DEPTH: Final = 64
"""Objects and arrays within each other; far below what any JSON library refuses."""
MAX_NUMBER: Final = (1 << 53) - 1
MAX_PROBLEMS: Final = 10
"""Described in words; the others are counted."""
MAX_TEXT: Final = 4 << 20
REST_COUNTS: Final = "the rest of it counts, and the next save keeps the damaged file"
_SHOWN: Final = 40
_DATE_LENGTH: Final = 40
_ODD: Final = re.compile(rb"NaN|Infinity|[0-9]{18}|[0-9][eE][+]?[0-9]{3}|\\[uU][dD][89a-fA-F]")
"""Signs of a value that no client could be given."""


# Documents


class Document(Struct, frozen=True):
    """The members of a JSON object that can be used, and the problem of the others, in words.

    Attributes:
        present: There is such a file; if it is unusable as a whole, there are no members.
        newer: The document's version, if it is newer than this release knows.
        not_known: Of a newer version, the members of a form which this release does not know: no damage, they go back.
        file: The name of the file that was read.
    """

    members: dict[str, Any]
    problem: str | None = None
    present: bool = True
    newer: int | None = None
    not_known: dict[str, Any] = field(default_factory=dict)
    file: str = ""

    def warnings(self, kind: str, outcome: str = REST_COUNTS) -> list[dict[str, Any]]:
        """Warnings about the file, for the user: damage is of that `kind`, and has that `outcome`."""
        found: list[dict[str, Any]] = []
        if self.problem is not None:
            found.append({"kind": kind, "message": f"{self.problem}; {outcome}", "file": self.file})
        if self.newer is not None:
            message = f"{self.file} is of version {self.newer}; what this release does not know is kept"
            found.append({"kind": "newerVersion", "message": message, "file": self.file})
        return found


def read_checked(path: Path, check: Callable[[dict[str, Any]], Document]) -> Document:
    """Read a document, and check its members."""
    found = read_document(path)
    if found.present and found.problem is None:
        checked = check(found.members)
        found = replace(checked, problem=checked.problem and f"{path.name}: {checked.problem}")
    return replace(found, file=path.name)


def read_document(path: Path) -> Document:
    try:
        data = read_bytes(path).decode("utf-8")
        try:
            members = json.loads(data)
        except ValueError:
            # An integer of thousands of digits is not worth the document: it becomes a number that no model takes.
            members = json.loads(data, parse_int=_short_integer)
    except FileNotFoundError:
        return Document({}, present=False)
    except OSError as error:
        return Document({}, f"{path.name} cannot be read: {error.strerror or error}")
    except RecursionError:
        return Document({}, f"{path.name} is nested too deeply")
    except ValueError as error:
        return Document({}, f"{path.name} is not JSON: {error}")
    if not isinstance(members, dict):
        return Document({}, f"{path.name} is not a JSON object")
    return Document(members)


def _short_integer(digits: str) -> float:
    return int(digits) if len(digits) < 100 else math.inf


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of an ordinary file of at most `limit` bytes.

    Raises:
        OSError: It cannot be read, or is no ordinary file.
        ValueError: It is larger.
    """
    with closing(OpenFile(path)) as file:
        size = file.status().size
        if size > limit:
            raise ValueError(f"larger than {limit} bytes")
        return file.pread(0, size)


def encode_document(members: dict[str, Any]) -> bytes:
    """The bytes of a JSON object, in the original program's layout."""
    try:
        # The same bytes as of `json.dumps` with an indent, which is slow with one: a revert may note a thousand requests.
        return msgspec.json.format(json.dumps(members, ensure_ascii=False).encode("utf-8"), indent=2)
    except UnicodeEncodeError:  # a lone surrogate that somebody wrote as an escape goes back as one
        return json.dumps(members, indent=2).encode("ascii")
    except (msgspec.DecodeError, RecursionError):  # a NaN, say, that somebody wrote
        return json.dumps(members, indent=2, ensure_ascii=False).encode("utf-8")


def check_size(changes: Mapping[str, Any]) -> None:
    """Refuse, with TooLargeError, a member that would make a file too large to be read again."""
    for name, value in changes.items():
        _refuse_large(name, len(encode_document({name: value})), MAX_MEMBER_BYTES, "bytes as JSON")


def _refuse_large(name: str, size: int, maximum: int, unit: str = "bytes") -> None:
    if size > maximum:
        message = f"{name} may have {maximum} {unit}, not {size}: nothing was changed"
        raise TooLargeError(message, limit="maxStateBytes", maximum=maximum)


def write_document(path: Path, members: dict[str, Any]) -> None:
    """Put a JSON object in the place of `path`, atomically and durably, readable by the user only. The old file is
    unchanged where that raises StorageFailureError, or TooLargeError: it could not be read again."""
    refuse_placeholder(path)
    data = encode_document(members)
    _refuse_large(path.name, len(data), MAX_BYTES)
    with storage_errors(f"write {path.name}", path):
        atomic_write(path, data)


def refuse_placeholder(path: Path) -> None:
    """Refuse to make a file that a sync program has put a placeholder in the place of.

    Raises:
        StorageFailureError: There is one, or the directory cannot be read.
    """
    with storage_errors(f"write {path.name}", path):
        if status(path) is not None:
            return
        name = placeholders(list_directory(path.parent)).get(path.name)
    if name is not None:
        message = f"{path.name} is not written: {placeholder_in_words(path.name, name)}"
        raise StorageFailureError(message, path=str(path), errno="ENOENT")


def placeholder_in_words(file: str, name: str) -> str:
    """Tell that a file is elsewhere, and what to do: `name` is that of its placeholder."""
    return (
        f"a sync program has put {name} in the place of {file}; let it bring the file back, "
        f"or remove {name} to go on without it"
    )


def move_aside(path: Path) -> Path:
    """Give a damaged file, which is about to be replaced, a name under which it is kept, and return that.

    Raises:
        StorageFailureError: It could not be moved; or it is a file that cannot be read now, such as one that a sync program
            has elsewhere, and may not be damaged at all.
    """
    if is_regular(path):
        with storage_errors(f"read {path.name}, so it is not replaced", path), closing(OpenFile(path)) as file:
            file.pread(0, 1)
    aside = path.with_name(f"{path.stem}.damaged-{int(clock.now())}-{clock.new_uid(4)}{path.suffix}")
    with storage_errors(f"move the damaged {path.name} aside", path):
        # A second name, where there can be one: a crash before the new file is written leaves the old one in place.
        if not (is_regular(path) and link_exclusive(path, aside)):
            replace_file(path, aside)
        sync_directory(path.parent)
    with suppress(OSError):  # the next one tries again
        form = re.compile(rf"{re.escape(path.stem)}\.damaged-([0-9]{{9,12}})-[0-9a-f]{{4}}{re.escape(path.suffix)}")
        kept = [
            (int(match[1]), there.modified_ns, name)
            for name in list_directory(path.parent)
            if (match := form.fullmatch(name)) and (there := status(path.with_name(name)))
        ]
        others = [name for _, _, name in sorted(kept, reverse=True) if name != aside.name]
        for name in others[MAX_KEPT_ASIDE - 1 :]:
            remove_file(path.with_name(name))
    return aside


# Append-only files of JSON lines: the audit, the request ids


class Lines(Struct, frozen=True):
    """The documents of a file of JSON lines that can be used, in order; what is wrong with the others, in words."""

    documents: list[dict[str, Any]]
    problem: str | None = None


def append_lines(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Append each document as a line; returns when they are durable. What is no ordinary file is kept aside.

    Raises:
        OSError: They could not be written; what was, is cut off again where the system lets us.
    """
    refuse_placeholder(path)
    if not is_regular(path) and status(path) is not None:
        move_aside(path)
    created = not path.exists()
    with closing(OpenFile(path, writable=True, appending=True, create=True)) as file:
        before = file.status().size
        data = b"".join(encode_line(document) for document in documents)
        # A line that a crash tore must not swallow the next one.
        if before and file.pread(before - 1, 1) != b"\n":
            data = b"\n" + data
        try:
            file.append(data)
            file.sync()
        except OSError:
            file.truncate(before)
            raise
    if created:
        sync_directory(path.parent)


def read_lines(path: Path, shape: Callable[[dict[str, Any]], bool] | None = None) -> Lines:
    """All documents that have a shape and can be given to a client; a missing file has none.

    A line that ends in the middle is passed over in silence: a crash tore it, and nobody was told that it was written.
    """
    try:
        data = read_bytes(path, MAX_LINES_BYTES)
    except FileNotFoundError:
        return Lines([])
    except OSError as error:
        return Lines([], f"{path.name} cannot be read: {error.strerror or error}")
    except ValueError as error:
        return Lines([], f"{path.name} is {error}")
    problems = Problems()
    found = _documents(data.split(b"\n"), shape, problems)
    return Lines(found, f"{path.name}: {problems.text}" if problems else None)


def read_last_lines(path: Path, size: int, containing: bytes) -> list[dict[str, Any]]:
    """The documents of the lines that contain some bytes (no other line is parsed) and lie whole in the last `size`
    bytes of a file; none where it is missing or unusable."""
    try:
        with closing(OpenFile(path)) as file:
            total = file.status().size
            start = max(0, total - size)
            data = file.pread(start, total - start)
    except OSError:
        return []
    whole_lines = data.split(b"\n")[1 if start else 0 :]
    return _documents((line for line in whole_lines if containing in line), None, Problems())


def _documents(
    data: Iterable[bytes], shape: Callable[[dict[str, Any]], bool] | None, problems: Problems
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for position, line in enumerate(data, 1):
        where = f"line {position}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            if line.rstrip().endswith(b"}"):
                problems.add(where, "is not JSON")
            continue
        # Going through every value of thousands of lines takes time: only where the bytes give reason to.
        suspicious = line.count(b"{") + line.count(b"[") > MAX_DEPTH or _ODD.search(line) is not None
        if not isinstance(document, dict) or (shape is not None and not shape(document)):
            problems.add(where, "is not of its form")
        elif not suspicious or wire_value(document, where, problems) is not BAD:
            found.append(document)
    return found


def encode_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(document), separators=(",", ":")).encode("ascii") + b"\n"


# Models


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
        """Note that the value at `where` cannot be used; `why` does not repeat it."""
        self._count += 1
        if len(self._described) < MAX_PROBLEMS:
            self._described.append(f"{where} {why}")
        return BAD

    @property
    def text(self) -> str:
        """All of them in one sentence; empty where there are none."""
        more = self._count - len(self._described)
        return "; ".join(self._described) + (f"; and {more} more" if more else "")


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


Check = Callable[[Any, str, Problems], Any]
"""Takes a value, where it stands, and where to note what is wrong; returns the value that counts, or `BAD`."""


def _is(fits: Callable[[Any], bool], why: str) -> Check:
    """Takes the values that fit."""
    return lambda value, where, problems: value if fits(value) else problems.add(where, why)


flag: Final = _is(lambda value: isinstance(value, bool), "is not true or false")
number: Final = _is(
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and _is_finite(value),
    "is not a number",
)
date: Final = _is(is_date, "is not a date and time")


def whole(least: int = 0, most: int = MAX_NUMBER) -> Check:
    """A whole number from `least` to `most`."""
    why = f"is not a whole number from {least} to {most}"
    return _is(lambda value: type(value) is int and least <= value <= most, why)


def choice(*values: str) -> Check:
    return _is(lambda value: isinstance(value, str) and value in values, f"is not one of {', '.join(values)}")


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
    return _object({}, entry, ())


def model(members: Mapping[str, Check], *, required: tuple[str, ...] = ()) -> Check:
    """An object with known members. One that cannot be used is left out; so is the object, if that was required."""
    return _object(members, json_value, required)


def complete(members: Mapping[str, Check]) -> Check:
    """An object that has all of these members."""
    return _object(members, json_value, tuple(members))


def _object(members: Mapping[str, Check], other: Check, required: tuple[str, ...]) -> Check:
    def check(value: Any, where: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            return problems.add(where, "is not an object")
        found: dict[str, Any] = {}
        for name, each in value.items():
            shown = name if len(name) <= _SHOWN and name.isprintable() and is_encodable(name) else ascii(name[:_SHOWN])
            checked = members.get(name, other)(each, f"{where}.{shown}" if where else shown, problems)
            if checked is not BAD:
                found[name] = checked
        for name in required:
            if name not in found:
                if name not in value:
                    problems.add(where, f"has no {name}")
                return BAD
        return found

    return check


def decode(
    document: Mapping[str, Any],
    known: Mapping[str, Check],
    version: int,
    *,
    unversioned: int,
    migrations: Sequence[Callable[[dict[str, Any]], dict[str, Any]]] = (),
) -> Document:
    """Check a document member by member; one that cannot be used counts as missing. Without a version it is
    `unversioned`."""
    problems, members = Problems(), dict(document)
    given = members.get("version", unversioned)
    if type(given) is not int or not 0 <= given <= MAX_NUMBER:
        problems.add("version", "is not a number from 0")
        members["version"] = given = version
    for step in migrations[given:]:
        members = step(members)
    found: dict[str, Any] = model(known)(members, "", problems)
    if given > version:
        rest = {name: each for name, each in members.items() if name not in found}
        return Document(found, newer=given, not_known=model({})(rest, "", Problems()))
    return Document(found, problems.text or None)


def json_value(value: Any, where: str, problems: Problems) -> Any:
    """Anything that can be written again as it was read."""
    for depth, level in enumerate(_levels(value)):
        if depth > MAX_DEPTH:
            return problems.add(where, "is nested too deeply")
        if any(isinstance(each, (int, float)) and not _is_finite(each) for each in level):
            return problems.add(where, "holds a number that JSON has not")
    return value


def wire_value(value: Any, where: str, problems: Problems) -> Any:
    """Anything that can be given to a client: as `json_value`, and without half surrogate pairs."""
    if json_value(value, where, problems) is BAD:
        return BAD
    for level in _levels(value):
        names = (name for each in level if isinstance(each, dict) for name in each)
        if not all(is_encodable(each) for each in (*names, *level) if isinstance(each, str)):
            return problems.add(where, "holds half of a surrogate pair")
    return value


def _levels(value: Any) -> Iterator[list[Any]]:
    """The values within a JSON value, by depth; without recursion, of which a document may ask too much."""
    level = [value]
    while level:
        yield level
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
