"""Checks of single lines of a log, and of batches: records that were appended together."""

from __future__ import annotations

from typing import Final

from timeleap.storage import scan
from timeleap.storage.damage import Damage, DamageKind
from timeleap.storage.durable import OpenFile, crc32
from timeleap.storage.log_values import Entry, RecordFlag, RecordKind
from timeleap.storage.record import classify, read_tl

NO_RECORD: Final = (RecordKind.BLANK, RecordKind.DAMAGED)
MARKS: Final = RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL
_NOT_READABLE: Final = "the original program cannot read this record"


def check_line(file: OpenFile, entry: Entry, batch: BatchCheck) -> list[Damage]:
    """Read a line and check it: checksum, JSON, its place in its batch."""
    # Read past the checks of `LogReader.lines`: what fails them is to be described, not refused.
    line = file.pread(entry.offset, entry.length)
    found = batch.add(entry, line)
    if crc32(line) != entry.crc or len(line) != entry.length:
        found.append(_damage(entry, "checksumMismatch", "not what was written"))
    elif entry.kind == RecordKind.DAMAGED or entry.flags & RecordFlag.UNREADABLE:
        found.append(describe_line(file, entry))
    elif not entry.flags & RecordFlag.VALIDATED:
        record = classify(line)
        if record.kind == RecordKind.DAMAGED:
            found.append(_damage(entry, "damagedRecord", scan.why_damaged(line)))
        elif record.flags & RecordFlag.UNREADABLE:
            found.append(_damage(entry, "notReadableByOriginal", _NOT_READABLE))
    return found


def describe_line(file: OpenFile, entry: Entry) -> Damage:
    """Say why a line is damaged, or not readable by the original."""
    if entry.kind != RecordKind.DAMAGED:
        return _damage(entry, "notReadableByOriginal", _NOT_READABLE)
    line = file.pread(entry.offset, entry.length).rstrip(b"\n")
    if b"\n" not in line and classify(line).kind != RecordKind.DAMAGED:
        reason = "not what was written, though it is a record; reload to accept it as it is"
        return _damage(entry, "checksumMismatch", reason)
    return _damage(entry, "damagedRecord", scan.why_damaged(line))


class BatchCheck:
    """Checks that the batches of a log are whole; fed line by line.

    Members missing where a damaged line stands are not reported again: the damaged line is.
    """

    def __init__(self) -> None:
        self._open: tuple[str, int, int] | None = None  # batch id, members seen, size
        self._first: Entry | None = None
        self._damaged = False  # the line before was

    def add(self, entry: Entry, line: bytes) -> list[Damage]:
        if entry.kind in NO_RECORD:
            self._damaged = self._damaged or entry.kind == RecordKind.DAMAGED
            return []
        if not entry.flags & MARKS:
            found = self.finish()
            self._damaged = False
            return found
        tl = read_tl(line)
        batch_id, position, size = str(tl.get("b")), int(tl.get("i", 0)), int(tl.get("n", 0))
        goes_on = self._open is not None and self._open[0] == batch_id
        found = [] if goes_on else self.finish()
        expected = self._open[1] if goes_on and self._open is not None else 0
        if position != expected and not self._damaged:
            found.append(_incomplete(entry))
        if not goes_on:
            self._first = entry
        self._open = (batch_id, position + 1, size) if position + 1 < size else None
        self._damaged = False
        return found

    def finish(self) -> list[Damage]:
        unfinished, self._open = self._open, None
        if unfinished is None or self._first is None or self._damaged:
            return []
        return [_incomplete(self._first)]


def _damage(entry: Entry, kind: DamageKind, reason: str) -> Damage:
    return Damage(kind, reason, entry.line, entry.offset, entry.length)


def _incomplete(entry: Entry) -> Damage:
    return _damage(entry, "damagedRecord", "members of its batch are missing")
