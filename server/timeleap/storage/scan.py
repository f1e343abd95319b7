"""From bytes to entries: what the lines of a log are, found by looking at them.

Two ways. `thoroughly` parses every line. `quickly` tells ordinary messages by their first bytes and their last one,
and parses only what looks unusual: it costs about as much as reading the file; what it took for a message is not marked
VALIDATED, and its characters are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BufferedReader, RawIOBase
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.storage import record as records
from timeleap.storage.durable import Readable, crc32
from timeleap.storage.index import CRC, PACK, USAGES, EntryStore
from timeleap.storage.log_values import LogState, NewRecord, Progress, RecordFlag, RecordKind, Role
from timeleap.storage.record import CHAIN_P, CHAIN_Q, ID_LIMIT, MASK, TL_MARK, advance, classify, ordinary
from timeleap.storage.reference import Line, Reference

BLOCK: Final = 1 << 22
_FLUSH: Final = 4096
_VALIDATED: Final = int(RecordFlag.VALIDATED)
_NO_FLAGS: Final = RecordFlag(0)
_HAS_TL, _BATCH_OPEN, _BATCH_TAIL = map(int, (RecordFlag.HAS_TL, RecordFlag.BATCH_OPEN, RecordFlag.BATCH_TAIL))
_HAS_REQUEST, _HAS_MADE = _HAS_TL | int(RecordFlag.REQUEST), _HAS_TL | int(RecordFlag.REQUEST | RecordFlag.MADE_HERE)
_MADE_HERE: Final = b'"%b' % records.MADE_HERE.encode()
_pack, _pack_crc = PACK.pack, CRC.pack
_LF: Final = ord("\n")
_BUFFER: Final = 1 << 18
_DIGITS: Final = 15  # of numbers that are certainly below 2**53


class Scanned(Struct, frozen=True):
    state: LogState  # after the last line found
    open_ended: bool = False  # the last line has no line feed, but it is not torn: a complete record, or a damaged one
    torn: int = 0  # bytes after it that are the beginning of a record


def thoroughly(
    file: Readable,
    state: LogState,
    stop: int,
    store: EntryStore,
    *,
    reference: Reference | None = None,
    progress: Progress | None = None,
) -> Scanned:
    """Parse the lines from `state.length` to the byte `stop` and add their entries to `store`.

    Where `reference` knows the lines, they are those that were written, also if a line feed between two of them is gone
    or one came into them: a line that is not what was written is damaged, and no other line with it.
    """
    place = file, state.length, stop
    lines = _lines(*place, progress) if reference is None else _known_lines(*place, reference, progress)
    return _sweep(lines, state, stop, store, parse=True)


def quickly(
    file: Readable, state: LogState, stop: int, store: EntryStore, *, progress: Progress | None = None
) -> Scanned:
    """Like `thoroughly`, at the cost of reading; the messages after the last `_usage` are parsed all the same, so that
    the pending characters at the end are known."""
    scanned = _sweep(_lines(file, state.length, stop, progress), state, stop, store, parse=False)
    if scanned.state.pending_chars >= 0:
        return scanned
    counted = count_pending(file, store, scanned.state, progress)
    return replace(counted, torn=scanned.torn)


def count_pending(file: Readable, store: EntryStore, state: LogState, progress: Progress | None = None) -> Scanned:
    """Parse the lines after the last `_usage` of a log at `state`, so that its pending characters are known."""
    lines = store.first_line(state.usages, USAGES, 0, state.lines - 1) + 1 if state.usages else 0
    before = store.state(lines)
    store.truncate(lines)
    return thoroughly(file, before, state.length, store, progress=progress)


def entry_of(record: NewRecord, state: LogState, crc: int, length: int) -> tuple[bytes, LogState]:
    """The packed entry of a record that was parsed, and the state after it."""
    after = advance(state, record, crc, length)
    flags = _VALIDATED if record.flags is _NO_FLAGS else _VALIDATED | int(record.flags)
    if after.has_damage or not after.regular:
        flags |= _lasting(after)
    packed = _pack(
        state.length, length, crc, record.kind, flags, record.role | after.last_role << 4, record.value,
        after.messages, after.checkpoints, after.usages, after.next_checkpoint_id,
        after.token_count, after.pending_chars, after.system_prompt_line, after.chain,
    )  # fmt: skip
    return packed + _pack_crc(crc32(packed)), after


def _flags_of_marks(line: bytes, at: int) -> int:
    """The flags of the marks at `at` in a line, up to its line feed; -1 where they are not as they are written here."""
    if (found := records.USUAL_MARKS.fullmatch(line, at, len(line) - 1)) is None:
        return -1
    request_id, position, size = found.group("r", "i", "n")
    flags = _HAS_TL if request_id is None else _HAS_MADE if request_id.startswith(_MADE_HERE) else _HAS_REQUEST
    if size is not None:
        flags |= (_BATCH_OPEN if int(position) < int(size) - 1 else 0) | (_BATCH_TAIL if int(position) else 0)
    return flags


def _is_torn(record: NewRecord, line: bytes) -> bool:
    """True if a crash may have ended the log within this line."""
    return record.kind == RecordKind.DAMAGED and line[-1] != _LF and records.may_go_on(line)


def why_damaged(line: bytes) -> str:
    """Why a line is no record, in words."""
    if (zeros := line.count(0)) > 0:
        return f"not JSON: {zeros} bytes of zeros"
    if b"\n" in line.rstrip(b"\n"):
        return "not JSON: a line feed came into it"
    if line.startswith(b"\xef\xbb\xbf"):
        return "not JSON: a byte order mark stands before it, as editors put one"
    if line.startswith((b"<<<<<<< ", b"=======", b">>>>>>> ")):
        return "not JSON: a mark of a merge conflict"
    try:
        record = records.decode_json(line)
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte {error.start}"
    except ValueError as error:
        return f"not JSON: {error}"[:200]
    if not isinstance(record, dict):
        return "not an object"
    role = record.get("role")
    if not isinstance(role, str) or not role:
        return "no role"
    return f"a {role} record without a usable value"


def _lines(file: Readable, start: int, stop: int, progress: Progress | None) -> BufferedReader:
    return BufferedReader(_Range(file, start, stop, progress), _BUFFER)


class _Condemned(bytes):
    """A line that is damaged, whatever it looks like."""


def _known_lines(
    file: Readable, start: int, stop: int, reference: Reference, progress: Progress | None
) -> Iterator[bytes]:
    """The lines of a range as they were written, as far as that is known."""
    at, replaced = start, start  # up to `replaced` other lines were put in the places of the known ones
    lines = _lines(file, at, stop, progress)
    while at < stop:
        known = reference.line_at(at)
        if known is None or at + known.length > stop:
            line, condemned = lines.readline(), False
        elif crc32(line := lines.read(known.length)) == known.crc:
            reference.take()
            if line[-1] != _LF and reference.done:
                line += lines.readline()  # the last line; it may have got its line feed since
            condemned = known.kind == RecordKind.DAMAGED
        else:
            spans, framed = reference.differing(file, stop)
            if at >= replaced and not _were_these_lines(file, spans, stop, framed=framed):
                replaced = spans[-1].offset + spans[-1].length
            if at < replaced:
                line = _lines(file, at, stop, None).readline()
            condemned = len(line) == known.length
            if condemned:
                reference.take()
            lines = _lines(file, at + len(line), stop, progress)
        if not line:
            return  # the log has become shorter meanwhile
        at += len(line)
        if condemned and not reference.binding:
            condemned = line.find(b"\n") < len(line) - 1 and at < stop  # no line feed at its end, or one before it
        yield _Condemned(line) if condemned else line


def _were_these_lines(file: Readable, spans: list[Line], stop: int, *, framed: bool) -> bool:
    """True if lines that are not what was written are damaged, rather than replaced by others.

    Damage leaves lengths as they are, and what it makes of a line is no record; where there are records in the place
    of the lines, another program has written them. `spans` are where they were written, one behind the other; `framed`:
    behind them is a line that is what was written.
    """
    first, last = spans[0].offset, spans[-1].offset + spans[-1].length
    if not framed and last < stop and file.pread(last - 1, 1) != b"\n":
        behind = _lines(file, last, stop, None).readline()
        if classify(behind).kind in (RecordKind.DAMAGED, RecordKind.BLANK):
            return False
    places = {(span.offset, span.length) for span in spans}
    for line in _lines(file, first, last, None):
        if line[-1] != _LF or ((first, len(line)) not in places and classify(line).kind == RecordKind.DAMAGED):
            return True
        first += len(line)
    return False


class _Range(RawIOBase):
    """Part of a file as a stream: the interpreter's own way to split one into lines is the fastest there is."""

    def __init__(self, file: Readable, start: int, stop: int, progress: Progress | None) -> None:
        super().__init__()
        self._file, self._start, self._at, self._stop, self._progress = file, start, start, stop, progress
        self._told = start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.pread(self._at, min(len(buffer), self._stop - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        if self._progress is not None and (self._at >= self._told + BLOCK or not data):
            self._told = self._at
            self._progress(self._at - self._start, self._stop - self._start)
        return len(data)


_MESSAGES: Final = {
    start[:13]: (start, role)
    for gap in (b"", b" ")
    for name, role in records.ROLE_NUMBERS.items()
    for start in (b'{"role":%b"%b"' % (gap, name.encode()),)
}
_COUNTED: Final = {
    start[:13]: (start, int(kind))
    for forms, kind in ((records.USAGE_FORMS, RecordKind.USAGE), (records.CHECKPOINT_FORMS, RecordKind.CHECKPOINT))
    for start in (form.partition(b"%")[0] for form in forms.values())
}


def _sweep(found: Iterable[bytes], state: LogState, stop: int, store: EntryStore, *, parse: bool) -> Scanned:
    """Pass once over lines, up to the byte `stop`; without `parse` only what does not look like an ordinary record is parsed.

    The loop keeps the state in local names: it is run for every line of logs of gigabytes.
    """
    pack, pack_crc, message_of, counted_of = PACK.pack, CRC.pack, _MESSAGES.get, _COUNTED.get
    message_kind, usage_kind, validated = int(RecordKind.MESSAGE), int(RecordKind.USAGE), _VALIDATED
    packed: list[bytes] = []
    offset, lines, messages, checkpoints, usages, tokens, pending, next_id, prompt, last, chain = _unfold(state)
    regular, has_damage, lasting = state.regular, state.has_damage, _lasting(state)
    line = b"\n"
    for line in found:
        length, crc, start = len(line), crc32(line), line[:13]
        marked = line.rfind(TL_MARK) if line[-3:] == b"}}\n" else -1
        marks = _flags_of_marks(line, marked) if marked >= 0 else 0
        if (
            (message := message_of(start)) is not None
            and marks >= 0
            and line[-2:] == b"}\n"
            and line.startswith(message[0])
            and type(line) is bytes
            and (known := ordinary(line) if parse else (message[1], -1, marks)) is not None
        ):
            messages += 1
            last, value, marks = known
            pending = -1 if value < 0 or pending < 0 else pending + value
            kind, flags, roles = message_kind, lasting | marks | (validated if parse else 0), last * 17
        elif (
            (counted := counted_of(start)) is not None
            and marks >= 0
            and line.startswith(counted[0])
            and (digits := line[len(counted[0]) : marked if marked >= 0 else -2]).isdigit()
            and len(digits) <= _DIGITS
            and line[-2:] == b"}\n"
            and (marked < 0 or line.isascii())
            and type(line) is bytes
        ):
            kind, value = counted[1], int(digits)
            if kind == usage_kind:
                usages += 1
                tokens, pending = value, 0
            else:
                checkpoints += 1
                if value != next_id:
                    regular, lasting = False, lasting | RecordFlag.IRREGULAR
                if value < ID_LIMIT:
                    next_id = value + 1
            flags, roles = lasting | validated | marks, last << 4
        else:
            before = LogState(
                offset, lines, messages, checkpoints, usages, tokens, pending,
                next_id, prompt, Role(last), chain, regular, has_damage,
            )  # fmt: skip
            condemned = type(line) is not bytes
            record = NewRecord(line, RecordKind.DAMAGED) if condemned else classify(line)
            if (not condemned or offset + length == stop) and _is_torn(record, line):
                store.extend(b"".join(packed))
                return Scanned(before, torn=length)
            entry, after = entry_of(record, before, crc, length)
            packed.append(entry)
            offset, lines, messages, checkpoints, usages, tokens, pending, next_id, prompt, last, chain = _unfold(after)
            regular, has_damage, lasting = after.regular, after.has_damage, _lasting(after)
            continue
        chain = (chain * CHAIN_P + crc * CHAIN_Q + length) & MASK
        entry = pack(
            offset, length, crc, kind, flags, roles, value,
            messages, checkpoints, usages, next_id, tokens, pending, prompt, chain,
        )  # fmt: skip
        packed.append(entry + pack_crc(crc32(entry)))
        offset, lines = offset + length, lines + 1
        if len(packed) >= _FLUSH:
            store.extend(b"".join(packed))
            packed.clear()
    store.extend(b"".join(packed))
    end = LogState(
        offset, lines, messages, checkpoints, usages, tokens, pending,
        next_id, prompt, Role(last), chain, regular, has_damage,
    )  # fmt: skip
    return Scanned(end, open_ended=line[-1] != _LF)


def _unfold(state: LogState) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    counts = state.length, state.lines, state.messages, state.checkpoints, state.usages
    current = state.token_count, state.pending_chars, state.next_checkpoint_id, state.system_prompt_line
    return *counts, *current, int(state.last_role), state.chain


def _lasting(state: LogState) -> int:
    return (0 if state.regular else int(RecordFlag.IRREGULAR)) | (int(RecordFlag.HAS_DAMAGE) if state.has_damage else 0)
