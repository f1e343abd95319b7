"""The end of a log that a crash left incomplete: found, cut off, and kept aside."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from timeleap import clock
from timeleap.storage import durable
from timeleap.storage.damage import Quarantined
from timeleap.storage.durable import OpenFile, failpoint
from timeleap.storage.log_values import Entry, RecordKind
from timeleap.storage.opened_log import Loaded
from timeleap.storage.reader import LastBatch, StoredLog, last_batch, last_record


def cut_tail(loaded: Loaded) -> Quarantined | None:
    """Cut what does not count from the end of the log, after keeping it in a quarantine file."""
    log = loaded.log
    if not loaded.cut or log.file is None:
        return None
    offset = log.state.length
    reason: Literal["tornTail", "incompleteBatch"] = "tornTail" if loaded.cut == loaded.torn else "incompleteBatch"
    kept = _quarantine(log.path, log.file, offset, loaded.cut)
    failpoint("recovery.before_cut")
    log.file.truncate(offset)  # not synced: if it is lost, the same is cut again; the next record's sync covers it
    failpoint("recovery.after_cut")
    return Quarantined(kept, offset, loaded.cut, reason)


def _quarantine(log: Path, file: OpenFile, offset: int, size: int) -> str:
    """Keep bytes of the log in a file of their own; the same bytes are kept once, however often we are killed here."""
    data = file.pread(offset, size)
    stem = f"{log.name}.quarantine-{offset}-"
    for name in durable.list_directory(log.parent):
        if name.startswith(stem) and _holds(log.parent / name, data):
            return name
    stamp = clock.now_iso().replace("-", "").replace(":", "").replace(".", "")
    name = stem + stamp
    attempt = 1
    while durable.status(log.parent / name) is not None:
        attempt += 1
        name = f"{stem}{stamp}-{attempt}"
    kept = durable.create_exclusive(log.parent / name)
    try:
        kept.pwrite(data, 0)
        kept.sync()
    except BaseException:
        kept.close()
        with suppress(OSError):
            durable.remove_file(kept.path)
        raise
    durable.sync_directory(log.parent)
    return name


def _holds(path: Path, data: bytes) -> bool:
    there = durable.status(path)
    if there is None or there.size != len(data) or not durable.is_regular(path):
        return False
    try:
        kept = OpenFile(path, writable=True)  # or Windows does not sync it
        if kept.pread(0, len(data)) != data:
            return False
        kept.sync()
    except OSError:
        return False
    return True


_BLOCK: Final = 512  # what a disk writes is a multiple of it


_ZEROS: Final = re.compile(rb"\0+")


def without_incomplete_tail(log: StoredLog, covered: int, *, torn: bool) -> int:
    """How many lines of a log are left without what a crash cut short at its end. Lines below `covered` were indexed,
    so they were acknowledged once; `torn`: behind the last line is what may be the beginning of a record."""
    lines = log.state.lines
    while lines > covered:
        if _has_hole(log, log.store.entry(lines - 1)):
            lines, torn = lines - 1, True
            continue
        batch = last_batch(log, lines)
        if batch is None or batch.last < covered or not _cut_short(log, batch, lines, torn=torn):
            return lines
        lines, torn = batch.first, False
    return lines


def _cut_short(log: StoredLog, batch: LastBatch, lines: int, *, torn: bool) -> bool:
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
