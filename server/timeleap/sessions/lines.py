"""Append-only files of JSON lines beside a log: the audit, the request ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from timeleap.sessions import files
from timeleap.sessions.json_model import BAD, MAX_DEPTH, Problems, wire_value
from timeleap.storage.durable import OpenFile, is_regular, status, sync_directory

MAX_BYTES = 64 << 20
_ODD: Final = re.compile(rb"NaN|Infinity|[0-9]{18}|[0-9][eE][+]?[0-9]{3}|\\[uU][dD][89a-fA-F]")
"""What a value that no client could be given looks like."""


def append(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Append each document as a line; returns when they are durable. What is no ordinary file is kept aside.

    Raises:
        OSError: They could not be written; what was, is cut off again where the system lets us.
    """
    if not is_regular(path) and status(path) is not None:
        files.move_aside(path)
    created = not path.exists()
    file = OpenFile(path, writable=True, appending=True, create=True)
    try:
        before = file.status().size
        data = b"".join(encode(document) + b"\n" for document in documents)
        # A line that a crash tore must not swallow the next one.
        if before and file.pread(before - 1, 1) != b"\n":
            data = b"\n" + data
        try:
            file.append(data)
            file.sync()
        except OSError:
            file.truncate(before)
            raise
    finally:
        file.close()
    if created:
        sync_directory(path.parent)


@dataclass(frozen=True, slots=True)
class Lines:
    """Content of a file of JSON lines.

    Attributes:
        documents: Those that can be used, in order.
        problem: Problem of the others, in words.
    """

    documents: list[dict[str, Any]]
    problem: str | None = None


def read(path: Path) -> list[dict[str, Any]]:
    """All documents, in order; lines that are none are left out, a missing or unusable file has none."""
    return read_checked(path, lambda _: True).documents


def read_checked(path: Path, shape: Callable[[dict[str, Any]], bool]) -> Lines:
    """All documents that have a shape and can be given to a client, in order.

    A line that ends in the middle is passed over in silence: a crash tore it, and nobody was told that it was written.
    """
    try:
        data = files.read_bytes(path, MAX_BYTES)
    except FileNotFoundError:
        return Lines([])
    except OSError as error:
        return Lines([], f"{path.name} cannot be read: {error.strerror or error}")
    except ValueError as error:
        return Lines([], f"{path.name} is {error}")
    problems = Problems()
    found = _documents(data.split(b"\n"), shape, problems)
    return Lines(found, f"{path.name}: {problems.text}" if problems else None)


def _documents(
    data: Iterable[bytes], shape: Callable[[dict[str, Any]], bool], problems: Problems
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, line in enumerate(data, 1):
        where = f"line {number}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            if line.rstrip().endswith(b"}"):
                problems.add(where, "is not JSON")
            continue
        if not isinstance(document, dict) or not shape(document):
            problems.add(where, "is not of its form")
        # Going through every value of thousands of lines takes time: only where the bytes give reason to.
        elif not _is_suspicious(line) or wire_value(document, where, problems) is not BAD:
            found.append(document)
    return found


def _is_suspicious(line: bytes) -> bool:
    return line.count(b"{") + line.count(b"[") > MAX_DEPTH or _ODD.search(line) is not None


def read_end(path: Path, size: int, containing: bytes) -> list[dict[str, Any]]:
    """Some documents of those that lie whole in the end of a file, in order; none where it is missing or unusable.

    Args:
        path: The file.
        size: Number of bytes at its end.
        containing: Bytes of the lines that are wanted; no other one is parsed.
    """
    try:
        file = OpenFile(path)
    except OSError:
        return []
    try:
        total = file.status().size
        start = max(0, total - size)
        data = file.pread(start, total - start)
    except OSError:
        return []
    finally:
        file.close()
    whole = data.split(b"\n")[1 if start else 0 :]
    return _documents((line for line in whole if containing in line), lambda _: True, Problems())


def encode(document: Mapping[str, Any]) -> bytes:
    """One document on one line, without the line feed."""
    return json.dumps(dict(document), separators=(",", ":")).encode("ascii")
