"""A file of JSON lines that another program writes: what was added, line by line, and whether it is still the same
file."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final

from msgspec import Struct

from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.storage.durable import OpenFile
from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.conversion import (
    BLOCK,
    MAX_FILE,
    MAX_LINE,
    JsonLine,
    JsonLines,
    RecordWriter,
    document,
    is_object,
    joined_records,
    opened,
)
from timeleap_agents.mirrors.steps import Step

TAIL: Final = 4096
"""Bytes before the end of what was read that are compared before more is read."""
FRESH_BYTES: Final = 2 << 20
"""Bytes of lines whose records are kept from the reading until they are written, so that they are parsed once."""
FRESH_LINES: Final = 2000
"""Such lines, at most: as objects short ones take ten times their bytes."""

LINES_OF_START: Final = 100
"""Lines that are looked at for the folder that a session is about."""
MAX_BRANCHES: Final = 50
"""Conversations that were left before the file was read first, of which timelines are made."""


class FileReplacedError(Exception):
    """The file does not begin with the bytes read before: all of it has to be read again."""


class Earlier(Struct, frozen=True):
    """A conversation that is not the present one any more, or never was: it was left, taken back, or summed up."""

    steps: Sequence[Step]
    reason: TimelineReason = "import"


class ResumableSession(Struct, frozen=True):
    """A new session of the program, not written yet.

    Attributes:
        path: Of its file.
        records: On the lines of it.
        command: What goes on in it, with its arguments.
        healed: What the program would refuse, and is put right in the new session, in words.
        companions: Other files that the program needs with it.
        shown: What is mirrored, if not the file.
    """

    path: Path
    records: Iterator[Json]
    command: tuple[str, ...]
    healed: tuple[str, ...] = ()
    companions: Mapping[Path, bytes] = {}
    shown: Path | None = None


class GrowingFile:
    """Attributes:
    left_out: What could not be read.
    end: Offset behind the last whole line that was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left_out = LossTally()
        self.end = 0
        self._identity: object = None
        self._tail = b""
        self._hash = hashlib.blake2b(digest_size=16)
        self._fresh: dict[int, Json] = {}
        self._fresh_bytes = 0

    def added(self) -> Iterator[JsonLine]:
        """The lines that were added, of those that are whole; a line without its line feed waits. A file that is one
        document is one line. Blocking.

        Raises:
            CorruptedError: It is one document, and that is damaged.
            FileReplacedError: It is another file, shorter, or not what it was.
            StorageFailureError: It cannot be read, or is no ordinary file.
            TooLargeError: It has more bytes or lines than are read.
        """
        file = opened(self.path)
        try:
            if self._identity is not None and not self._is_same(file):
                raise FileReplacedError
            self._identity = file.identity
            whole = document(file) if self.end == 0 else None
            if whole is not None:
                size = file.status().size
                self._absorb(file, size)
                yield JsonLine(0, size, whole)
                return
            lines = JsonLines(file, self.left_out, self.end)
            lines.size = self._whole_lines(file, lines.size)
            if lines.size == self.end:
                return
            for line in lines:
                if line.record is not None and self._fresh_bytes < FRESH_BYTES and len(self._fresh) < FRESH_LINES:
                    self._fresh[line.offset] = line.record
                    self._fresh_bytes += line.length
                yield line
            self._absorb(file, lines.size)
        finally:
            file.close()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all that was read."""
        return self._hash.hexdigest()

    def begins_with(self, end: int, fingerprint: str) -> bool:
        """True if the first `end` bytes have this fingerprint. Blocking."""
        if (end, fingerprint) == (self.end, self.fingerprint):
            return True
        if not 0 <= end <= self.end:
            return False
        found = hashlib.blake2b(digest_size=16)
        file = opened(self.path)
        try:
            _feed(found, file, 0, end)
        finally:
            file.close()
        return found.hexdigest() == fingerprint

    def records(self, steps: Iterable[Step]) -> Iterator[tuple[Step, Json]]:
        """The records of steps; empty where the line is another one by now. Blocking."""
        file = opened(self.path)
        try:
            lines = JsonLines(file, self.left_out, self.end)
            for step in steps:
                record = self._fresh.pop(step.offset, None)
                yield step, lines.at(step.offset, step.length) if record is None else record
        finally:
            file.close()

    def peek(self, offset: int, length: int) -> Json:
        """The record on a line that was met before. Blocking."""
        if (record := self._fresh.get(offset)) is not None:
            return record
        file = opened(self.path)
        try:
            return JsonLines(file, self.left_out).at(offset, length)
        finally:
            file.close()

    def forget_fresh(self) -> None:
        """Let go of records that were not asked for."""
        self._fresh, self._fresh_bytes = {}, 0

    def _is_same(self, file: OpenFile) -> bool:
        same = file.identity == self._identity and file.status().size >= self.end
        return same and file.pread(self.end - len(self._tail), len(self._tail)) == self._tail

    def _whole_lines(self, file: OpenFile, size: int) -> int:
        """Offset behind the last line feed, or behind the last of the records that are whole without one."""
        if size > MAX_FILE:  # JsonLines has refused it
            return self.end
        end = self._line_feed_before(file, size)
        if not end < size <= end + MAX_LINE:
            return end
        if file.pread(size - 1, 1) == b"}" and is_object(file.pread(end, size - end)):
            return size
        return end + sum(length for _, length, _ in joined_records(file.pread(end, size - end)))

    def _line_feed_before(self, file: OpenFile, size: int) -> int:
        at = size
        while at > self.end:
            start = max(self.end, at - BLOCK)
            if (found := file.pread(start, at - start).rfind(b"\n")) >= 0:
                return start + found + 1
            at = start
        return self.end

    def _absorb(self, file: OpenFile, end: int) -> None:
        _feed(self._hash, file, self.end, end)
        self._tail = file.pread(max(0, end - TAIL), min(TAIL, end))
        self.end = end


class Conversation(ABC):
    """A session of a program as it grows, from one file of it. All methods block.

    Attributes:
        writer: The program, in warnings.
        tested: The newest version of it whose files were tested.
        file: The file.
        parts: The files that it was read from, `file` included.
        version: Of the program that wrote to the file, the newest; (0,) where the file names none.
        title: What the program calls the session.
        first_prompt: How the first prompt begins, as far as the format tells.
        workspace: URI of the folder it is about, the last that the file names; `began_in`: the first.
        created_at: ISO-8601 UTC, of the first record that has a time; `updated_at`: of the last.
        by_offset: What is behind an offset was added after what is before it. Not so where a session has several files.
    """

    writer: ClassVar[str]
    tested: ClassVar[tuple[int, ...]]
    by_offset: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self.file = GrowingFile(path)
        self.parts = [path]
        self.version: tuple[int, ...] = (0,)
        self.title: str | None = None
        self.first_prompt: str | None = None
        self.workspace: str | None = None
        self.began_in: str | None = None
        self.created_at: str | None = None
        self.updated_at: str | None = None
        self._id: str | None = None  # as the file says it

    @property
    def session_id(self) -> str:
        """The program's own id of it."""
        return self._id or self.file.path.stem

    @classmethod
    def files_of(cls, path: Path) -> list[Path]:
        """The files of the session that the file at `path` is of, as far as the program's names tell."""
        return [path]

    @classmethod
    def present_of(cls, paths: Sequence[Path]) -> Path:
        """Choose the file that says how the session is now, among those that are there. Blocking. Raises OSError."""
        return max(paths, key=lambda path: path.stat().st_size)

    def read(self) -> None:
        """Take in what was added. Raises as `GrowingFile.added`."""
        for line in self.file.added():
            if line.record is not None:
                self._take(line, line.record)

    def read_start(self) -> None:
        """Take in its first lines, as far as its folder is told. Raises as `GrowingFile.added`."""
        for line in islice(self.file.added(), LINES_OF_START):
            if line.record is not None:
                self._take(line, line.record)
            if self.workspace is not None:
                return

    def begins_with(self, end: int, fingerprint: str) -> bool:
        """True if its first `end` bytes have this fingerprint."""
        return self.file.begins_with(end, fingerprint)

    @abstractmethod
    def _take(self, line: JsonLine, record: Json) -> None:
        """Take in a line and the record on it."""

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """The conversation as it is now; none where nothing is said yet."""

    @abstractmethod
    def earlier(self, since: int = 0) -> list[Earlier]:
        """Return the conversation as it was before some of it was left, taken back or replaced, oldest first; to be
        asked for after a reading. `since`: those alone that have lines at or behind this offset."""

    @abstractmethod
    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        """Write the records of steps; yields each when its records are there."""

    @abstractmethod
    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        """Ids of tool calls that are made in these steps and not answered."""

    @abstractmethod
    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        """A session that begins with these steps, beside this one.

        Raises:
            InvalidInputError: The program could not go on in it.
        """


def is_beginning(path: Path, other: Path) -> bool:
    """True if the other file begins with all of this one. Blocking. Raises StorageFailureError."""
    short, long = opened(path), opened(other)
    try:
        size, at = short.status().size, 0
        while at < size and (block := short.pread(at, min(BLOCK, size - at))):
            if long.pread(at, len(block)) != block:
                return False
            at += len(block)
        return True
    finally:
        short.close()
        long.close()


def version_of(text: object) -> tuple[int, ...]:
    """A program's version as numbers, without what follows a hyphen; (0,) where there is none."""
    parts = text.split("-")[0].split(".")[:4] if isinstance(text, str) else []
    is_one = parts and all(part.isdecimal() and len(part) < 9 for part in parts)
    return tuple(int(part) for part in parts) if is_one else (0,)


def _feed(digest: hashlib.blake2b, file: OpenFile, start: int, end: int) -> None:
    while start < end and (block := file.pread(start, min(BLOCK, end - start))):
        digest.update(block)
        start += len(block)
