"""Append-only files of JSON lines beside a log: the audit, the request ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from timeleap.sessions import files
from timeleap.storage.durable import OpenFile, sync_directory

MAX_BYTES = 64 << 20


def append(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Append each document as a line; returns when they are durable.

    Raises:
        OSError: They could not be written; what was, is cut off again where the system lets us.
    """
    created = not path.exists()
    file = OpenFile(path, writable=True, appending=True, create=True)
    try:
        before = file.status().size
        data = b"".join(encode(one) + b"\n" for one in documents)
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


def read(path: Path) -> list[dict[str, Any]]:
    """All documents, in order; lines that are none are left out, a missing or unusable file has none."""
    try:
        data = files.read_bytes(path, MAX_BYTES)
    except (OSError, ValueError):
        return []
    return _documents(data.split(b"\n"))


def _documents(data: Iterable[bytes]) -> list[dict[str, Any]]:
    found = []
    for line in data:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            found.append(document)
    return found


def read_end(path: Path, size: int) -> list[dict[str, Any]]:
    """The documents that lie whole in the last `size` bytes, in order; none where the file is missing or unusable."""
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
    return _documents(data.split(b"\n")[1 if start else 0 :])


def encode(document: Mapping[str, Any]) -> bytes:
    """One document on one line, without the line feed."""
    return json.dumps(dict(document), separators=(",", ":")).encode("ascii")
