"""How a log ends: is its last batch whole, was it cut short by a crash, or was it damaged later?

A batch is one write, and it is acknowledged after a sync. So a crash leaves the beginning of it (the process was
killed), or, if the power failed, the file's new size with blocks of zeros in it that never reached the disk. Either was
never acknowledged, and goes as a whole. Everything else that is wrong with a batch (a line that is not JSON, two lines
in one, one line in two) came about later, in a batch that was whole: its sound members stay.

Three things look the same, and a side had to be chosen:

- Zeroed blocks in the last batch are what a power failure left, or a disk's doing in a batch that was acknowledged. If
  the index knows the batch, it was acknowledged and stays. If not, it goes (to quarantine, where it can be looked at):
  half of a turn that nobody was promised is worse in a history than its absence.
- Zeroed blocks with whole records behind them are a disk's doing, and stay where they are. (A power failure may leave
  them only in the middle of a group of appends none of which was acknowledged, on a disk that wrote the end first.)
- A log that ends before its last batch does was cut short by a crash, though it may have lost its end later; also if
  the index knew more, since without syncs (durability `os`) a power failure leaves just that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from timeleap.storage.engine import Entry, RecordFlag, RecordKind
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import read_tl

_MARKS: Final = RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL
_NO_RECORD: Final = (RecordKind.BLANK, RecordKind.DAMAGED)
_BLOCK: Final = 512  # what a disk writes is a multiple of it
_ZEROS: Final = re.compile(rb"\0+")


@dataclass(frozen=True, slots=True)
class _Batch:
    """The sound members of the batch that the last record of a log belongs to.

    Attributes:
        first, last: The lines of the first and the last of them.
        positions: Where in the batch they stand.
        size: How many members the batch has.
    """

    first: int
    last: int
    positions: list[int]
    size: int

    @property
    def whole(self) -> bool:
        """True if all members are there."""
        return self.positions == list(range(self.size))

    @property
    def ended(self) -> bool:
        """True if its end is there (a damaged mark may lie about a position or the size, not about both)."""
        return self.positions[-1] >= self.size - 1 or len(self.positions) >= self.size


def without_incomplete_tail(log: StoredLog, covered: int, *, torn: bool) -> int:
    """How many lines of a log are left without what a crash cut short at its end.

    Args:
        log: The log.
        covered: Lines below were indexed, so they were acknowledged once.
        torn: After the last line there is something that may be the beginning of a record.
    """
    lines = log.state.lines
    while lines > covered:
        if _has_hole(log, log.store.entry(lines - 1)):
            lines, torn = lines - 1, True
            continue
        batch = _last_batch(log, lines)
        if batch is None or batch.last < covered or not _cut_short(log, batch, lines, torn=torn):
            return lines
        lines, torn = batch.first, False
    return lines


def cut_through(log: StoredLog) -> int:
    """The line from which on a log ends in a batch that is not whole; its number of lines if there is none."""
    batch = _last_batch(log, log.state.lines)
    return log.state.lines if batch is None or batch.whole else batch.first


def last_record(log: StoredLog, stop: int, floor: int = 0) -> int:
    """The last line before `stop` that is neither blank nor damaged; `floor` - 1 if there is none from `floor` on."""
    for line in range(stop - 1, floor - 1, -1):
        if log.store.entry(line).kind not in _NO_RECORD:
            return line
    return floor - 1


def _last_batch(log: StoredLog, lines: int) -> _Batch | None:
    positions: list[int] = []
    sizes: list[int] = []
    batch_id, first = None, lines
    last = line = last_record(log, lines)
    while line >= 0 and log.store.entry(line).flags & _MARKS:
        tl = read_tl(log.read(line, line + 1)[0])
        if positions and tl.get("b") != batch_id:
            break
        batch_id, first = tl.get("b"), line
        positions.append(int(tl.get("i", 0)))
        sizes.append(int(tl.get("n", 0)))
        line = last_record(log, line)
    return _Batch(first, last, positions[::-1], min(sizes)) if positions else None


def _cut_short(log: StoredLog, batch: _Batch, lines: int, *, torn: bool) -> bool:
    """True if a crash left the last batch of the first `lines` lines in its present state."""
    start = batch.first if batch.positions[0] == 0 else last_record(log, batch.first) + 1
    stop = batch.last if batch.ended else lines
    damaged = [entry for entry in log.entries(start, stop) if entry.kind == RecordKind.DAMAGED]
    if any(_has_hole(log, entry) for entry in damaged):
        return True
    return not batch.ended and (torn or not any(entry.line > batch.last for entry in damaged))


def _has_hole(log: StoredLog, entry: Entry) -> bool:
    """True if a line is damaged by zeros that end where a block of the disk ends."""
    if entry.kind != RecordKind.DAMAGED or log.file is None:
        return False
    line = log.file.pread(entry.offset, entry.length)
    return any((entry.offset + zeros.end()) % _BLOCK == 0 for zeros in _ZEROS.finditer(line))
