"""Logs in files, the live one or a timeline: reading one through its entries, its batches, the names of the files.

An object never changes what it shows: an append makes a new one that shares file and entries with the old one. So a
reader in another thread keeps a consistent view, and the descriptor is closed when the last view of it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from msgspec.structs import replace

from timeleap.errors import CorruptedError, StorageFailureError
from timeleap.placeholders import ENDINGS, stands_for
from timeleap.storage import durable, scan
from timeleap.storage.durable import Identity, OpenFile, crc32
from timeleap.storage.engine import (
    DAMAGE_LIMIT,
    MAX_ROTATION,
    Damage,
    DamageKind,
    Entry,
    LogLines,
    LogReader,
    LogState,
    Progress,
    RecordFlag,
    RecordKind,
)
from timeleap.storage.index import (
    CHECKPOINTS,
    ENTRY,
    ENTRY_SIZE,
    MESSAGES,
    USAGES,
    EntryStore,
    IndexDamagedError,
    check_entries,
    entry_of,
    unpack_entry,
)
from timeleap.storage.record import classify, read_tl, strict_json
from timeleap.storage.reference import Reference

T = TypeVar("T")
P = ParamSpec("P")

_STEP: Final = 4096
_CARRIES_REQUEST: Final = bytes(flags & int(RecordFlag.REQUEST) > 0 for flags in range(256))
_MADE_HERE: Final = bytes(flags << 8 & int(RecordFlag.MADE_HERE) > 0 for flags in range(256))
_OWN_FLAGS: Final = bytes(flags & ~int(RecordFlag.IRREGULAR) for flags in range(256))
_DOUBTFUL: Final = bytes(flags & 160 != 32 for flags in range(256))  # LENIENT, or not VALIDATED
_WORDS: Final = ENTRY_SIZE // 4
_BLOCK: Final = 128  # lines
_EMPTY: Final = LogState()
_new = object.__new__
_NO_RECORD: Final = (RecordKind.BLANK, RecordKind.DAMAGED)
_MARKS: Final = RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL
_REMEMBERED: Final = 4096  # lines with request ids, and blocks that were found sound: half a million lines
_COMPARED: Final = 1 << 18  # bytes of two files at once: they are still in the processor's cache when compared
_DIGITS: Final = 18  # of a timeline's number
_NOT_READABLE: Final = "the original program cannot read this record"


def _trusting(question: Callable[Concatenate[StoredLog, P], T]) -> Callable[Concatenate[StoredLog, P], T]:
    """Ask the index; if it proves damaged, rebuild it and ask again."""

    def asked(log: StoredLog, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            try:
                return question(log, *args, **kwargs)
            except IndexDamagedError:
                log.mend()
            return question(log, *args, **kwargs)
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "read the log", log.path) from error
        except IndexDamagedError as error:
            raise CorruptedError("the log is shorter than it was", path=str(log.path)) from error

    return asked


class StoredLog(LogReader):
    """A log in a file (or none yet), read through its entries.

    Attributes:
        name: Its path as a text.
        store: Its entries; it may already hold more than this view shows.
        open_ended: The last line has no line feed yet.
        lost: What of a timeline is not there any more.
    """

    __slots__ = ("file", "lost", "name", "open_ended", "path", "state", "store")

    state: LogState

    def __init__(
        self,
        path: Path,
        file: OpenFile | None = None,
        store: EntryStore | None = None,
        state: LogState = _EMPTY,
        *,
        open_ended: bool = False,
    ) -> None:
        self.path, self.name = path, str(path)
        self.file = file
        self.store = store if store is not None else EntryStore()
        self.open_ended = open_ended
        self.lost: Damage | None = None
        self.state = state  # pyright: ignore[reportIncompatibleMethodOverride] - asked for several times an append

    def head(self, epoch: int, generation: int, state: LogState | None = None) -> str:
        """The head the log has, or had at `state`: what changes with a rewrite, a dot, what changes with every record.

        The fingerprint makes two logs of one length differ even if the first was lost to a power failure. A line feed
        that only ends the last line, which the next write brings along, makes no head of its own: else no change could
        be made on the head of a log that lacks it.
        """
        if state is None or (self.open_ended and state.lines == self.state.lines):
            state = self.state
        return head_start(epoch, generation) + head_end(state)

    def close(self) -> None:
        """Close its files. A read that is under way ends; a later one opens them for the moment."""
        if self.file is not None:
            self.file.close()
        self.store.close()

    def at(self, state: LogState) -> StoredLog:
        log = _new(StoredLog)  # made for each append: past `__init__`
        log.path, log.name, log.file, log.store, log.state = self.path, self.name, self.file, self.store, state
        log.open_ended, log.lost = False, None
        return log

    @_trusting
    def entries(self, start: int, stop: int) -> list[Entry]:
        start, stop = max(0, start), min(stop, self.state.lines)
        if start >= stop:
            return []
        raw = self.store.raw(start, stop)
        if len(raw) != (stop - start) * ENTRY_SIZE:
            raise IndexDamagedError("entries are missing")
        check_entries(raw, start)
        return [entry_of(line, fields) for line, fields in enumerate(ENTRY.iter_unpack(raw), start)]

    @_trusting
    def lines(self, start: int, stop: int) -> LogLines:
        start, stop = max(0, start), min(stop, self.state.lines)
        if start >= stop or self.file is None:
            return LogLines(start)
        raw = self.store.raw(start, stop)
        check_entries(raw, start)
        first, last = unpack_entry(raw, start), unpack_entry(raw, stop - 1, len(raw) - ENTRY_SIZE)
        base, end = first.offset, last.offset + last.length
        data = self.file.pread(base, end - base)
        if len(data) != end - base:
            raise self._not_what_was_written(stop - 1, base + len(data))
        kinds, flags = raw[16::ENTRY_SIZE], raw[17::ENTRY_SIZE].translate(_OWN_FLAGS)
        # Few steps of the interpreter for each line: a page of a thousand messages is made here.
        lengths = memoryview(raw).cast("I")[2::_WORDS].tolist()
        begins = [*accumulate(lengths, initial=0)]
        ends = [*accumulate(lengths, initial=-1)][1:]  # before the line feeds
        if RecordKind.DAMAGED in kinds or not self._is_written(data, raw, start, begins):
            begins, ends = self._places(data, raw, start, base)
        elif not data.endswith(b"\n"):
            ends[-1] = len(data)
        before = first.state.messages - (first.kind == RecordKind.MESSAGE)
        return self._made_strict(LogLines(start, data, begins[: len(ends)], ends, before, kinds, flags))

    def _is_written(self, data: bytes, raw: bytes, start: int, begins: list[int]) -> bool:
        """True if each line from `start` on, with the entries `raw`, is what its checksum says; in one step for a block
        that was compared line by line before. `begins` has the end of the last one, too."""
        view, words, sound, at = memoryview(data), memoryview(raw).cast("I"), self.store.sound, 0
        while at < len(begins) - 1:  # where the machine is not little-endian nothing matches
            number, skipped = divmod(start + at, _BLOCK)
            stop = min(len(begins) - 1, at + _BLOCK - skipped)
            # The fingerprint of the log up to the block's end: with other entries it is another one.
            chain = raw[stop * ENTRY_SIZE - 12 : stop * ENTRY_SIZE - 4] if stop - at == _BLOCK else b""
            block = view[begins[at] : begins[stop]]
            checksum = crc32(block) if chain else 0
            if not chain or sound.get(number) != (chain, checksum):
                lines = BytesIO(block).readlines()
                if words[at * _WORDS + 3 : stop * _WORDS : _WORDS].tolist() != [*map(crc32, lines)]:
                    return False
                if chain:
                    if len(sound) >= _REMEMBERED:
                        sound.clear()
                    sound[number] = chain, checksum
            at = stop
        return True

    def _places(self, data: bytes, raw: bytes, line: int, base: int) -> tuple[list[int], list[int]]:
        """Where the lines whose entries are `raw` begin and end in `data`, that begins at the byte `base`: if some are
        damaged, and may have a line feed within them, or are not what was written."""
        begins, ends = [], []
        for number, (offset, length, crc, *_) in enumerate(ENTRY.iter_unpack(raw), line):
            text = data[offset - base : offset - base + length]
            if crc32(text) != crc:
                raise self._not_what_was_written(number, offset)
            begins.append(offset - base)
            ends.append(offset - base + len(text.removesuffix(b"\n")))
        return begins, ends

    def _made_strict(self, lines: LogLines) -> LogLines:
        """Lines, with those that strict parsers would refuse such that they can be spliced into a reply. What was never
        parsed is, once."""
        start, doubtful = lines.first, lines.flags.translate(_DOUBTFUL)
        if 1 in doubtful:
            doubtful = _only(doubtful, self.store.found_strict(start, start + len(doubtful)), False)
        if 1 not in doubtful:
            return lines
        texts = [row.body for row in lines.rows()]
        at = doubtful.find(1)
        while at >= 0:
            record = classify(texts[at])
            if record.kind == RecordKind.DAMAGED and lines.kinds[at] != RecordKind.DAMAGED:
                raise self._not_what_was_written(start + at, self.store.entry(start + at).offset)
            if record.flags & RecordFlag.LENIENT:
                texts[at] = strict_json(texts[at])
                doubtful = doubtful[:at] + b"\0" + doubtful[at + 1 :]
            at = doubtful.find(1, at + 1)
        self.store.note_strict(start, doubtful)
        ends = [*accumulate(map(len, texts))]
        return lines._replace(data=b"".join(texts), begins=[0, *ends[:-1]], ends=ends)

    def _not_what_was_written(self, line: int, offset: int) -> CorruptedError:
        message = f"line {line} of {self.path.name} is not what was written"
        return CorruptedError(message, path=str(self.path), offset=offset, line=line)

    def line_of_message(self, index: int) -> int:
        return self._nth(index, self.state.messages, MESSAGES)

    def line_of_checkpoint(self, ordinal: int) -> int:
        return self._nth(ordinal, self.state.checkpoints, CHECKPOINTS)

    def line_of_usage(self, ordinal: int) -> int:
        return self._nth(ordinal, self.state.usages, USAGES)

    @_trusting
    def _nth(self, ordinal: int, total: int, count: int) -> int:
        if not 0 <= ordinal < total:
            raise IndexError(f"{ordinal} is not in 0..{total - 1}")
        return self.store.first_line(ordinal + 1, count, 0, self.state.lines - 1)

    @_trusting
    def find_checkpoint(self, checkpoint_id: int) -> int | None:
        lines = self.state.lines
        if self.state.regular:
            known = 0 <= checkpoint_id < self.state.checkpoints
            return self.line_of_checkpoint(checkpoint_id) if known else None
        for start in range(0, lines, _STEP):
            kinds = self.store.raw(start, min(start + _STEP, lines))[16::ENTRY_SIZE]
            at = kinds.find(RecordKind.CHECKPOINT)
            while at >= 0:
                if self.store.entry(start + at).value == checkpoint_id:
                    return start + at
                at = kinds.find(RecordKind.CHECKPOINT, at + 1)
        return None

    @_trusting
    def state_before(self, line: int) -> LogState:
        if line <= 0:
            return LogState()
        if line >= self.state.lines:
            return self.state
        state = self.store.state(line)
        if state.pending_chars >= 0:
            return state
        first = self.line_of_usage(state.usages - 1) + 1 if state.usages else 0
        pending = 0
        for start in range(first, line, 256):
            for entry in self.entries(start, min(start + 256, line)):
                if entry.kind == RecordKind.MESSAGE:
                    counted = entry.value >= 0
                    pending += entry.value if counted else classify(self.read(entry.line, entry.line + 1)[0]).value
        return replace(state, pending_chars=pending)

    def damage(self) -> list[Damage]:
        lost = [] if self.lost is None else [self.lost]
        return lost + (self._damage() if self.state.has_damage else [])

    @_trusting
    def _damage(self) -> list[Damage]:
        found: list[Damage] = []
        for start in range(0, self.state.lines, _STEP):
            raw = self.store.raw(start, min(start + _STEP, self.state.lines))
            kinds_and_flags = zip(raw[16::ENTRY_SIZE], raw[17::ENTRY_SIZE], strict=True)
            for at, (kind, flags) in enumerate(kinds_and_flags):
                if kind == RecordKind.DAMAGED or flags & RecordFlag.UNREADABLE:
                    found.append(self._describe(unpack_entry(raw, start + at, at * ENTRY_SIZE)))
                    if len(found) >= DAMAGE_LIMIT:
                        return found
        return found

    def _describe(self, entry: Entry) -> Damage:
        if entry.kind != RecordKind.DAMAGED:
            return _damage(entry, "notReadableByOriginal", _NOT_READABLE)
        assert self.file is not None
        line = self.file.pread(entry.offset, entry.length).rstrip(b"\n")
        if b"\n" not in line and classify(line).kind != RecordKind.DAMAGED:
            reason = "not what was written, though it is a record; reload to accept it as it is"
            return _damage(entry, "checksumMismatch", reason)
        return _damage(entry, "damagedRecord", scan.why_damaged(line))

    def last_change(self) -> float | None:
        """When its file was written to for the last time: perhaps after what is shown of it."""
        return None if self.file is None else self.file.status().modified_ns / 1e9

    @_trusting
    def request_lines(self, limit: int, made_here: bool | None = None) -> list[int]:
        (low, high, known), edits = self.store.found(made_here, self.state.lines)
        most = max(limit, _REMEMBERED)
        lines = self._request_lines(most, made_here, high, self.state.lines)  # of what was added since
        lines += known[::-1] if len(lines) < most else []
        if len(lines) >= most:
            del lines[most:]
            low = lines[-1]
        if len(lines) < limit and low:
            lines += self._request_lines(limit - len(lines), made_here, 0, low)
            low = 0 if len(lines) < limit else lines[-1]
        self.store.remember(made_here, (low, self.state.lines, lines[::-1]), edits)
        return lines[:limit]

    def _request_lines(self, limit: int, made_here: bool | None, first: int, end: int) -> list[int]:
        found: list[int] = []
        for stop in range(end, first, -_STEP):
            start = max(first, stop - _STEP)
            raw = self.store.raw(start, stop)
            flags = raw[17::ENTRY_SIZE].translate(_CARRIES_REQUEST)
            if made_here is not None:
                flags = _only(flags, raw[18::ENTRY_SIZE].translate(_MADE_HERE), made_here)
            at = flags.rfind(1)
            while at >= 0:
                found.append(start + at)
                if len(found) >= limit:
                    return found
                at = flags.rfind(1, 0, at)
        return found

    @_trusting
    def pread(self, offset: int, size: int) -> bytes:
        return b"" if self.file is None else self.file.pread(offset, size)

    @_trusting
    def verify(self, progress: Progress | None = None) -> list[Damage]:
        """Read and check every byte; a damaged index counts as no index."""
        found: list[Damage] = []
        batch = BatchCheck()
        for start in range(0, self.state.lines, 256):
            entries = self.entries(start, min(start + 256, self.state.lines))
            for entry in entries:
                found += self._check(entry, batch)
            if progress is not None:
                progress(entries[-1].state.length, self.state.length)
        return found + batch.finish()

    def _check(self, entry: Entry, batch: BatchCheck) -> list[Damage]:
        assert self.file is not None
        line = self.file.pread(entry.offset, entry.length)
        found = batch.add(entry, line)
        if crc32(line) != entry.crc or len(line) != entry.length:
            found.append(_damage(entry, "checksumMismatch", "not what was written"))
        elif entry.kind == RecordKind.DAMAGED or entry.flags & RecordFlag.UNREADABLE:
            found.append(self._describe(entry))
        elif not entry.flags & RecordFlag.VALIDATED:
            record = classify(line)
            if record.kind == RecordKind.DAMAGED:
                found.append(_damage(entry, "damagedRecord", scan.why_damaged(line)))
            elif record.flags & RecordFlag.UNREADABLE:
                found.append(_damage(entry, "notReadableByOriginal", _NOT_READABLE))
        return found

    def mend(self) -> None:
        """Rebuild the entries from the log: the index was damaged."""
        fresh = EntryStore()
        if self.file is not None:
            known = Reference(self.store, self.state.lines)
            scan.thoroughly(self.file, LogState(), self.state.length, fresh, reference=known)
        self.store.replace_by(fresh, min(fresh.count, self.state.lines))


# Batches: records that were appended together


class LastBatch(NamedTuple):
    """The sound members of the batch that the last record of a log belongs to."""

    first: int  # line of the first of them
    last: int  # and of the last
    positions: list[int]  # where in the batch they stand
    size: int  # how many members the batch has

    @property
    def ended(self) -> bool:
        """True if its end is there (a damaged mark may lie about a position or the size, not about both)."""
        return self.positions[-1] >= self.size - 1 or len(self.positions) >= self.size


def cut_through(log: StoredLog) -> int:
    """The line from which on a log ends in a batch that is not whole; its number of lines if there is none."""
    batch = last_batch(log, log.state.lines)
    return log.state.lines if batch is None or batch.positions == list(range(batch.size)) else batch.first


def last_record(log: StoredLog, stop: int, floor: int = 0) -> int:
    """The last line before `stop` that is neither blank nor damaged; `floor` - 1 if there is none from `floor` on."""
    for line in range(stop - 1, floor - 1, -1):
        if log.store.entry(line).kind not in _NO_RECORD:
            return line
    return floor - 1


def last_batch(log: StoredLog, lines: int) -> LastBatch | None:
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
    return LastBatch(first, last, positions[::-1], min(sizes)) if positions else None


class BatchCheck:
    """Checks that the batches of a log are whole; fed line by line.

    Members missing where a damaged line stands are not reported again: the damaged line is.
    """

    def __init__(self) -> None:
        self._open: tuple[str, int, int] | None = None  # batch id, members seen, size
        self._first: Entry | None = None
        self._damaged = False  # the line before was

    def add(self, entry: Entry, line: bytes) -> list[Damage]:
        if entry.kind in _NO_RECORD:
            self._damaged = self._damaged or entry.kind == RecordKind.DAMAGED
            return []
        if not entry.flags & _MARKS:
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


@lru_cache(64)
def head_start(epoch: int, generation: int) -> str:
    return f"{_base36(epoch)}.{generation}."


def head_end(state: LogState) -> str:
    return f"{state.length}-{state.chain & 0xFFFFFFFF:08x}"


def _base36(number: int) -> str:
    digits, rest = "", abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"-{digits}" if number < 0 else digits


def _damage(entry: Entry, kind: DamageKind, reason: str) -> Damage:
    return Damage(kind, reason, entry.line, entry.offset, entry.length)


def _incomplete(entry: Entry) -> Damage:
    return _damage(entry, "damagedRecord", "members of its batch are missing")


def _only(flags: bytes, which: bytes, wanted: bool) -> bytes:
    """The flags (a byte of 0 or 1 for each line) of those lines alone for which `which` is as wanted."""
    chosen = int.from_bytes(which, "little")
    every = int.from_bytes(flags, "little")
    return (every & chosen if wanted else every & ~chosen).to_bytes(len(flags), "little")


# How the logs of a session are called: the live one, and its timelines beside it


class TimelineName(NamedTuple):
    path: Path
    number: int
    foreign: bool  # called `context.jsonl.3`, as the documents of the original have it, not `context_3.jsonl`

    @property
    def timeline_id(self) -> str:
        return self.path.name if self.foreign else self.path.stem


def timeline_file(log: Path, number: int) -> str:
    return f"{log.stem}_{number}{log.suffix}"


def timeline_names(log: Path) -> list[TimelineName]:
    """The names beside a log that are timeline names, whatever they stand for; newest first."""
    return _timelines_of(log, durable.list_directory(log.parent))


def _timelines_of(log: Path, files: Iterable[str]) -> list[TimelineName]:
    found = []
    for file in files:
        for begin, end, foreign in ((f"{log.stem}_", log.suffix, False), (f"{log.name}.", "", True)):
            # No pattern: at the first open of a process, that is to be quick, it would have to be compiled.
            number = file[len(begin) : len(file) - len(end)]
            if file == f"{begin}{number}{end}" and number.isascii() and number.isdigit() and len(number) <= _DIGITS:
                found.append(TimelineName(log.parent / file, int(number), foreign))
    return sorted(found, key=lambda name: (not name.foreign, name.number), reverse=True)


def highest_number(log: Path, *, besides: Identity | None = None) -> int:
    """The highest number in use by our names, 0 if none; the file `besides` (the live log) does not count, nor does a
    number so high that somebody else must have given it. What a sync program's placeholder stands for does count."""
    files = durable.list_directory(log.parent)
    files += [stands_for(name) for name in files if name.endswith(ENDINGS)]
    ours = [name for name in _timelines_of(log, files) if not name.foreign and name.number <= MAX_ROTATION]
    return max((name.number for name in ours if not is_file(name.path, besides)), default=0)


def same_as_live(log: Path) -> list[Path]:
    """Timeline names that are the live log itself: a replacement came no further than to link it."""
    live = durable.status(log)
    if live is None or live.names < 2:
        return []
    return [name.path for name in timeline_names(log) if not name.foreign and is_file(name.path, live.identity)]


def is_file(path: Path, identity: Identity | None) -> bool:
    """True if the path names that file. Never where the file system has no inode numbers: any two files would match."""
    there = durable.status(path)
    return there is not None and there.identity == identity and there.identity.inode != 0


def same_bytes(file: OpenFile, other: OpenFile) -> bool:
    """True if two files have the same bytes."""
    size, offset = file.status().size, 0
    if size != other.status().size:
        return False
    while offset < size:
        data = file.pread(offset, _COMPARED)
        if not data or data != other.pread(offset, _COMPARED):
            return False
        offset += len(data)
    return True
