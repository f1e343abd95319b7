"""Files of JSON lines that other programs wrote: read line by line, however long they are, and validated. The
earliest files of some programs are a single JSON document each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

from timeleap import clock
from timeleap.errors import CorruptedError, TooLargeError
from timeleap.features.transfer.losses import LossTally
from timeleap.storage.durable import OpenFile

BLOCK: Final = 1 << 18
MAX_LINE: Final = 64 << 20
MAX_FILE: Final = 4 << 30
MAX_LINES: Final = 1_000_000
"""Notes about each line stay in memory."""

Json = dict[str, Any]

_DOCUMENT: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"session"\s*:\s*\{')


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line.

    Attributes:
        record: The object on it; None where there is none: blank, too long, or no JSON object.
    """

    offset: int
    length: int
    record: Json | None


class JsonLines:
    """A file of JSON lines.

    Args:
        file: The file; what is added to it later is not read.
        left_out: Where lines are noted that cannot be read.

    Raises:
        TooLargeError: It is larger than what is imported; on the way through it: it has more lines.
    """

    def __init__(self, file: OpenFile, left_out: LossTally) -> None:
        self._file = file
        self._left_out = left_out
        self._lines = 0
        self.size = file.status().size
        if self.size > MAX_FILE:
            message = f"the file has {self.size} bytes; at most {MAX_FILE} are imported"
            raise TooLargeError(message, limit="bytes", maximum=MAX_FILE)

    def __iter__(self) -> Iterator[JsonLine]:
        start = at = 0
        pending = bytearray()
        while at < self.size and (block := self._file.pread(at, min(BLOCK, self.size - at))):
            at += len(block)
            *whole, rest = block.split(b"\n")
            for piece in whole:
                pending += piece
                yield self._line(start, pending)
                start += len(pending) + 1
                pending = bytearray()
            pending += rest
            if len(pending) > MAX_LINE:
                at, pending = self._passed_over(at), bytearray()
                start = at
        if pending:
            yield self._line(start, pending)

    def at(self, offset: int, length: int) -> Json:
        """The record on a line that was met before; empty if it is another one by now."""
        return _object(self._file.pread(offset, length)) or {}

    def _line(self, start: int, text: bytearray) -> JsonLine:
        self._lines += 1
        if self._lines > MAX_LINES:
            message = f"the file has more than {MAX_LINES} lines; no more are imported"
            raise TooLargeError(message, limit="lines", maximum=MAX_LINES)
        found = _object(bytes(text))
        if found is None and text.strip():
            self._left_out.add("lines", "lines are no JSON objects")
        return JsonLine(start, len(text), found)

    def _passed_over(self, at: int) -> int:
        """Offset of the next line."""
        self._left_out.add("lines", f"lines have more than {MAX_LINE >> 20} MiB")
        while at < self.size and (block := self._file.pread(at, BLOCK)):
            if (end := block.find(b"\n")) >= 0:
                return at + end + 1
            at += len(block)
        return self.size


def begins_document(start: bytes) -> bool:
    """True if a file that begins like this is a single document, `{"session": {...}, ...}`, and has no lines."""
    return _DOCUMENT.match(start) is not None


def document(file: OpenFile) -> Json | None:
    """The document a file is; None for a file of lines.

    Raises:
        CorruptedError: It is cut short, or damaged.
        TooLargeError: It is larger than what is held in memory.
    """
    if not begins_document(file.pread(0, BLOCK)):
        return None
    size = file.status().size
    if size > MAX_LINE:
        message = f"the file is one JSON document of {size} bytes; at most {MAX_LINE} are imported"
        raise TooLargeError(message, limit="bytes", maximum=MAX_LINE)
    found = _object(file.pread(0, size))
    if found is None:
        raise CorruptedError("the file is one JSON document, and it is cut short or damaged")
    return found


def workspace_of(path: object) -> str | None:
    """The URI of a folder that a program on some machine named."""
    if not isinstance(path, str) or not path:
        return None
    pure = PureWindowsPath(path) if path[1:3] in (":\\", ":/") or path.startswith("\\\\") else PurePosixPath(path)
    try:
        return pure.as_uri() if pure.is_absolute() else None
    except ValueError:
        return None


def time_of(text: object) -> str | None:
    """A time as sessions keep it, ISO-8601 UTC; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
        return clock.iso((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _object(text: bytes) -> Json | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
