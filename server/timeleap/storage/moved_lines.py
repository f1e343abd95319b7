"""Lines of a log behind another beginning: they keep their bytes but for edits, their entries are made again."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from timeleap.storage.durable import crc32
from timeleap.storage.index import check_entries, own_flags
from timeleap.storage.log_values import Edit, LogState, NewRecord, RecordKind, Role
from timeleap.storage.reader import StoredLog, not_what_was_written
from timeleap.storage.record import classify
from timeleap.storage.scan import entry_of

_LINES_AT_ONCE: Final = 4096
_BYTES_AT_ONCE: Final = 1 << 20
_FACTS: Final = struct.Struct("<QIIBHBq52x")  # of an entry those that say what its line is: see `storage.index`
_KINDS: Final = tuple(RecordKind)
_ROLES: Final = tuple(Role)


class MovedLines(Struct):
    """Lines on their way from one log to the end of another.

    Attributes:
        log: Where they come from.
        state: The other log after those that were moved.
        edit: Says what becomes of a line.
        keep_damaged: Damaged lines stay, and a line that is not what was written is damaged from now on. Without it they
            are left out, and that is an error.
        changed: How many lines were edited.
        ended: The last one has a line feed.
    """

    log: StoredLog
    state: LogState
    edit: Edit | None = None
    keep_damaged: bool = False
    changed: int = 0
    ended: bool = True

    def blocks(self, first: int, stop: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Move the lines `[first, stop)`: where in the other log some of them begin, their text, their entries.

        Raises:
            CorruptedError: A line is not what was written.
        """
        texts, packed, begin = list[bytes](), list[bytes](), self.state.length
        for line, facts, text in _lines(self.log, first, stop):
            record = self._record(line, facts, text)
            if record is None:
                continue
            body = moved = text.removesuffix(b"\n")
            if self.edit is not None:
                moved = self.edit(line, body) or body
            if moved is not body:
                self.changed += 1
                if record.kind is not RecordKind.DAMAGED:
                    record = classify(moved)
            self.ended = len(body) < len(text)
            moved += text[len(body) :]
            entry, self.state = entry_of(record, self.state, crc32(moved), len(moved))
            texts.append(moved)
            packed.append(entry)
            if self.state.length - begin >= _BYTES_AT_ONCE:
                yield begin, b"".join(texts), b"".join(packed)
                texts, packed, begin = [], [], self.state.length
        yield begin, b"".join(texts), b"".join(packed)

    def _record(self, line: int, facts: tuple[int, ...], text: bytes) -> NewRecord | None:
        """The facts of a line in the form of a record; None where it is left out."""
        offset, _, crc, kind, flags, roles, value = facts
        if kind == RecordKind.DAMAGED and not self.keep_damaged:
            return None
        if crc32(text) != crc:
            if not self.keep_damaged:
                raise not_what_was_written(self.log, line, offset)
            return NewRecord(b"", RecordKind.DAMAGED)
        return NewRecord(b"", _KINDS[kind], _ROLES[roles & 15], value, own_flags(flags))


def _lines(log: StoredLog, first: int, stop: int) -> Iterator[tuple[int, tuple[int, ...], bytes]]:
    """The lines `[first, stop)` of a log: number, facts, text."""
    assert log.file is not None
    data, begin, end = b"", 0, log.store.state(stop).length
    for start in range(first, stop, _LINES_AT_ONCE):
        raw = log.store.raw(start, min(start + _LINES_AT_ONCE, stop))
        check_entries(raw, start)
        for line, facts in enumerate(_FACTS.iter_unpack(raw), start):
            offset, length = facts[0], facts[1]
            if offset + length > begin + len(data):
                begin, data = offset, log.file.pread(offset, max(length, min(_BYTES_AT_ONCE, end - offset)))
            yield line, facts, data[offset - begin : offset - begin + length]
