"""Logs in files, the live one or a timeline: reading one through its entries, its batches, the names of the files.

An object never changes what it shows: an append makes a new one that shares file and entries with the old one. So a
reader in another thread keeps a consistent view, and the descriptor is closed when the last view of it is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from timeleap.storage.damage import DAMAGE_LIMIT, Damage
from timeleap.storage.durable import Identity, OpenFile, crc32
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
from timeleap.storage.line_check import MARKS, NO_RECORD, BatchCheck, check_line, describe_line
from timeleap.storage.log_values import (
    MAX_ROTATION,
    Entry,
    LogLines,
    LogState,
    Progress,
    RecordFlag,
    RecordKind,
    Row,
)
from timeleap.storage.record import classify, read_tl, strict_json
from timeleap.storage.reference import Reference

T = TypeVar("T")
ReaderT = TypeVar("ReaderT", bound="LogReader")
P = ParamSpec("P")

_STEP: Final = 4096
_CARRIES_REQUEST: Final = bytes(flags & int(RecordFlag.REQUEST) > 0 for flags in range(256))
_MADE_HERE: Final = bytes(flags << 8 & int(RecordFlag.MADE_HERE) > 0 for flags in range(256))
_OWN_FLAGS: Final = bytes(flags & ~int(RecordFlag.IRREGULAR) for flags in range(256))
_DOUBTFUL: Final = bytes(flags & 160 != 32 for flags in range(256))  # LENIENT, or not VALIDATED
_WORDS: Final = ENTRY_SIZE // 4
_VALUE: Final = 5  # the word of an entry with the low half of its value
_NOT_COUNTED: Final = 0xFFFFFFFF
_BLOCK: Final = 128  # lines
_EMPTY: Final = LogState()
_new = object.__new__
_REMEMBERED: Final = 4096  # lines with request ids, and blocks that were found sound: half a million lines
_COMPARED: Final = 1 << 18  # bytes of two files at once: they are still in the processor's cache when compared
_DIGITS: Final = 18  # of a timeline's number


def _trusting(question: Callable[Concatenate[ReaderT, P], T]) -> Callable[Concatenate[ReaderT, P], T]:
    """Ask the index; if it proves damaged, rebuild it and ask again."""

    def asked(log: ReaderT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            try:
                return question(log, *args, **kwargs)
            except IndexDamagedError:
                log.view.mend()
            return question(log, *args, **kwargs)
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "read the log", log.view.path) from error
        except IndexDamagedError as error:
            raise CorruptedError("the log is shorter than it was", path=str(log.view.path)) from error

    return asked


class LogReader(ABC):
    """A log that can be read: the live one, or a timeline. Whatever is asked is asked of its `view`.

    Reading is synchronous and works on ranges of lines; a line that is not asked for is never parsed.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def view(self) -> StoredLog:
        """The log as it is now: later changes do not show in it, and another thread may read it."""

    @property
    def state(self) -> LogState:
        """The state at the end of the log."""
        return self.view.state

    @_trusting
    def entries(self, start: int, stop: int) -> list[Entry]:
        """The entries of the lines `[start, stop)`, clipped to the log."""
        # Taken once, here and below: an engine may show a longer log by the next look, while another thread reads.
        log = self.view
        start, stop = max(0, start), min(stop, log.state.lines)
        if start >= stop:
            return []
        raw = log.store.raw(start, stop)
        if len(raw) != (stop - start) * ENTRY_SIZE:
            raise IndexDamagedError("entries are missing")
        check_entries(raw, start)
        return [entry_of(line, fields) for line, fields in enumerate(ENTRY.iter_unpack(raw), start)]

    @_trusting
    def lines(self, start: int, stop: int) -> LogLines:
        """The lines `[start, stop)`, checked against their checksums; strict JSON where they are no damaged lines. Raises
        CorruptedError: the bytes are not those that were written."""
        log = self.view
        start, stop = max(0, start), min(stop, log.state.lines)
        if start >= stop or log.file is None:
            return LogLines(start)
        raw = log.store.raw(start, stop)
        check_entries(raw, start)
        first, last = unpack_entry(raw, start), unpack_entry(raw, stop - 1, len(raw) - ENTRY_SIZE)
        base, end = first.offset, last.offset + last.length
        data = log.file.pread(base, end - base)
        if len(data) != end - base:
            raise not_what_was_written(log, stop - 1, base + len(data))
        kinds, flags = raw[16::ENTRY_SIZE], raw[17::ENTRY_SIZE].translate(_OWN_FLAGS)
        # Few steps of the interpreter for each line: a page of a thousand messages is made here.
        lengths = memoryview(raw).cast("I")[2::_WORDS].tolist()
        begins = [*accumulate(lengths, initial=0)]
        ends = [*accumulate(lengths, initial=-1)][1:]  # before the line feeds
        if RecordKind.DAMAGED in kinds or not _is_written(log.store, data, raw, start, begins):
            begins, ends = _places(log, data, raw, start, base)
        elif not data.endswith(b"\n"):
            ends[-1] = len(data)
        before = first.state.messages - (first.kind == RecordKind.MESSAGE)
        return _made_strict(log, LogLines(start, data, begins[: len(ends)], ends, before, kinds, flags))

    def rows(self, start: int, stop: int) -> list[Row]:
        """Rows of the lines from `start` to `stop`."""
        return list(self.lines(start, stop).rows())

    def read(self, start: int, stop: int) -> list[bytes]:
        """The text of the lines from `start` to `stop`, without line feeds."""
        return [row.body for row in self.rows(start, stop)]

    def line_of_message(self, index: int) -> int:
        """The line of the message `index` (0-based over messages). Raises IndexError out of range."""
        log = self.view
        return log.nth(index, log.state.messages, MESSAGES)

    def line_of_checkpoint(self, ordinal: int) -> int:
        """The line of the checkpoint record `ordinal` (0-based over checkpoint records). Raises IndexError."""
        log = self.view
        return log.nth(ordinal, log.state.checkpoints, CHECKPOINTS)

    def line_of_usage(self, ordinal: int) -> int:
        """The line of the usage record `ordinal` (0-based over usage records). Raises IndexError."""
        log = self.view
        return log.nth(ordinal, log.state.usages, USAGES)

    @_trusting
    def find_checkpoint(self, checkpoint_id: int) -> int | None:
        """The line of the FIRST checkpoint record with that id (where the original's revert stops), or None."""
        log = self.view
        lines = log.state.lines
        if log.state.regular:
            known = 0 <= checkpoint_id < log.state.checkpoints
            return log.line_of_checkpoint(checkpoint_id) if known else None
        for start in range(0, lines, _STEP):
            kinds = log.store.raw(start, min(start + _STEP, lines))[16::ENTRY_SIZE]
            at = kinds.find(RecordKind.CHECKPOINT)
            while at >= 0:
                if log.store.entry(start + at).value == checkpoint_id:
                    return start + at
                at = kinds.find(RecordKind.CHECKPOINT, at + 1)
        return None

    @_trusting
    def state_before(self, line: int) -> LogState:
        """The state before `line`, with `pending_chars` known (its messages are read where they must be)."""
        log = self.view
        if line <= 0:
            return LogState()
        if line >= log.state.lines:
            return log.state
        state = log.store.state(line)
        if state.pending_chars >= 0:
            return state
        first = log.line_of_usage(state.usages - 1) + 1 if state.usages else 0
        pending = 0
        for start in range(first, line, 256):
            for entry in log.entries(start, min(start + 256, line)):
                if entry.kind == RecordKind.MESSAGE:
                    counted = entry.value >= 0
                    pending += entry.value if counted else classify(log.read(entry.line, entry.line + 1)[0]).value
        return replace(state, pending_chars=pending)

    @_trusting
    def characters(self, start: int, stop: int) -> int:
        """The characters of the text parts of all messages in the lines `[start, stop)`."""
        log, found = self.view, 0
        for first in range(start, stop, _STEP):
            raw = log.store.raw(first, min(first + _STEP, stop))
            check_entries(raw, first)
            # Nothing else of an entry is looked at: this is asked of whole logs.
            values = memoryview(raw).cast("I")[_VALUE::_WORDS].tolist()
            for line, (kind, value) in enumerate(zip(raw[16::ENTRY_SIZE], values, strict=True), first):
                if kind == RecordKind.MESSAGE:
                    found += value if value != _NOT_COUNTED else classify(log.read(line, line + 1)[0]).value
        return found

    def damage(self) -> list[Damage]:
        """Lines that are lost or not part of history, as far as known, oldest first; at most `DAMAGE_LIMIT` of the latter."""
        log = self.view
        found = [] if log.lost is None else [log.lost]
        # Asked first: the whole index of a long log is not looked through in vain.
        if log.state.has_damage:
            found += log.damaged()
        return found

    @_trusting
    def pread(self, offset: int, size: int) -> bytes:
        """The log's bytes from `offset` on as they stand, at most `size`; fewer only at the end."""
        file = self.view.file
        return b"" if file is None else file.pread(offset, size)

    @_trusting
    def verify(self, progress: Progress | None = None) -> list[Damage]:
        """Read and check every byte (checksum, JSON, batch marks) without changing anything; a damaged index counts as no
        index. Thread-safe."""
        log = self.view
        if log.file is None:
            return []
        found, batch = list[Damage](), BatchCheck()
        for start in range(0, log.state.lines, 256):
            entries = log.entries(start, min(start + 256, log.state.lines))
            for entry in entries:
                found += check_line(log.file, entry, batch)
            if progress is not None:
                progress(entries[-1].state.length, log.state.length)
        return found + batch.finish()


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

    @property
    def view(self) -> StoredLog:
        """Itself: what it shows never changes."""
        return self

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
        """The log after an append that brought it to a state."""
        log = _new(StoredLog)  # made for each append: past `__init__`
        log.path, log.name, log.file, log.store, log.state = self.path, self.name, self.file, self.store, state
        log.open_ended, log.lost = False, None
        return log

    @_trusting
    def nth(self, ordinal: int, total: int, count: int) -> int:
        """The line of a record, by its 0-based ordinal among so many of its kind. Raises IndexError."""
        if not 0 <= ordinal < total:
            raise IndexError(f"{ordinal} is not in 0..{total - 1}")
        return self.store.first_line(ordinal + 1, count, 0, self.state.lines - 1)

    @_trusting
    def damaged(self) -> list[Damage]:
        """Its lines that are damaged or not readable by the original, oldest first, at most `DAMAGE_LIMIT`."""
        found: list[Damage] = []
        file = self.file
        if file is None:
            return found
        for start in range(0, self.state.lines, _STEP):
            raw = self.store.raw(start, min(start + _STEP, self.state.lines))
            kinds_and_flags = zip(raw[16::ENTRY_SIZE], raw[17::ENTRY_SIZE], strict=True)
            for at, (kind, flags) in enumerate(kinds_and_flags):
                if kind == RecordKind.DAMAGED or flags & RecordFlag.UNREADABLE:
                    found.append(describe_line(file, unpack_entry(raw, start + at, at * ENTRY_SIZE)))
                    if len(found) >= DAMAGE_LIMIT:
                        return found
        return found

    def last_change(self) -> float | None:
        """When its file was written to for the last time: perhaps after what is shown of it."""
        return None if self.file is None else self.file.status().modified_ns / 1e9

    @_trusting
    def request_lines(self, limit: int, made_here: bool | None = None) -> list[int]:
        """The last `limit` lines that carry a request id, newest first: one that an attached process made
        (`made_here`), one of a client (False), or any (None)."""
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

    def mend(self) -> None:
        """Rebuild the entries from the log: the index was damaged."""
        fresh = EntryStore()
        if self.file is not None:
            known = Reference(self.store, self.state.lines)
            scan.thoroughly(self.file, LogState(), self.state.length, fresh, reference=known)
        self.store.replace_by(fresh, min(fresh.count, self.state.lines))


def _is_written(store: EntryStore, data: bytes, raw: bytes, start: int, begins: list[int]) -> bool:
    """True if each line from `start` on, with the entries `raw`, is what its checksum says; in one step for a block
    that was compared line by line before. `begins` has the end of the last one, too."""
    view, words, sound, at = memoryview(data), memoryview(raw).cast("I"), store.sound, 0
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


def _places(log: StoredLog, data: bytes, raw: bytes, line: int, base: int) -> tuple[list[int], list[int]]:
    """Where the lines whose entries are `raw` begin and end in `data`, that begins at the byte `base`: if some are
    damaged, and may have a line feed within them, or are not what was written."""
    begins, ends = [], []
    for number, (offset, length, crc, *_) in enumerate(ENTRY.iter_unpack(raw), line):
        text = data[offset - base : offset - base + length]
        if crc32(text) != crc:
            raise not_what_was_written(log, number, offset)
        begins.append(offset - base)
        ends.append(offset - base + len(text.removesuffix(b"\n")))
    return begins, ends


def _made_strict(log: StoredLog, lines: LogLines) -> LogLines:
    """Lines, with those that strict parsers would refuse such that they can be spliced into a reply. What was never
    parsed is, once."""
    start, doubtful = lines.first, lines.flags.translate(_DOUBTFUL)
    if 1 in doubtful:
        doubtful = _only(doubtful, log.store.found_strict(start, start + len(doubtful)), False)
    if 1 not in doubtful:
        return lines
    texts = [row.body for row in lines.rows()]
    at = doubtful.find(1)
    while at >= 0:
        record = classify(texts[at])
        if record.kind == RecordKind.DAMAGED and lines.kinds[at] != RecordKind.DAMAGED:
            raise not_what_was_written(log, start + at, log.store.entry(start + at).offset)
        if record.flags & RecordFlag.LENIENT:
            texts[at] = strict_json(texts[at])
            doubtful = doubtful[:at] + b"\0" + doubtful[at + 1 :]
        at = doubtful.find(1, at + 1)
    log.store.note_strict(start, doubtful)
    ends = [*accumulate(map(len, texts))]
    return lines._replace(data=b"".join(texts), begins=[0, *ends[:-1]], ends=ends)


def not_what_was_written(log: StoredLog, line: int, offset: int) -> CorruptedError:
    message = f"line {line} of {log.path.name} is not what was written"
    return CorruptedError(message, path=str(log.path), offset=offset, line=line)


def damaged_lines(log: LogReader) -> int:
    """How many lines of a log are not part of history."""
    if not log.state.has_damage:
        return 0
    steps = range(0, log.state.lines, _STEP)
    return sum(entry.kind == RecordKind.DAMAGED for start in steps for entry in log.entries(start, start + _STEP))


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
        if log.store.entry(line).kind not in NO_RECORD:
            return line
    return floor - 1


def last_batch(log: StoredLog, lines: int) -> LastBatch | None:
    positions: list[int] = []
    sizes: list[int] = []
    batch_id, first = None, lines
    last = line = last_record(log, lines)
    while line >= 0 and log.store.entry(line).flags & MARKS:
        tl = read_tl(log.read(line, line + 1)[0])
        if positions and tl.get("b") != batch_id:
            break
        batch_id, first = tl.get("b"), line
        positions.append(int(tl.get("i", 0)))
        sizes.append(int(tl.get("n", 0)))
        line = last_record(log, line)
    return LastBatch(first, last, positions[::-1], min(sizes)) if positions else None


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
