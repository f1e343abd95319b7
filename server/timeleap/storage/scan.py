"""From bytes to entries: what the lines of a log are, found by looking at them.

Two ways. `thoroughly` parses every line. `quickly` tells ordinary messages by their first bytes and their last one,
and parses only what looks unusual: it costs about as much as reading the file; what it took for a message is not marked
VALIDATED, and its characters are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from timeleap.storage.durable import Readable
from timeleap.storage.engine import LogState, NewRecord, Progress, RecordFlag, RecordKind, Role
from timeleap.storage.index import (
    CRC,
    ENTRY_SIZE,
    PACK,
    EntryStore,
    IndexDamagedError,
    Line,
    iterate_lines,
    pack_entry,
    sound_lines,
)
from timeleap.storage.record import TL_MARK, classify
from timeleap.storage.replay import CHAIN_P, CHAIN_Q, MASK, advance

BLOCK: Final = 1 << 22
_STEP: Final = 1024
_FLUSH: Final = 4096
_VALIDATED: Final = RecordFlag.VALIDATED
_BRACE: Final = ord("}")


@dataclass(frozen=True, slots=True)
class Scanned:
    """Where a scan came to.

    Attributes:
        state: The state after the last line found.
        open_ended: The last line is complete but has no line feed.
        torn: Bytes after it that are no record.
    """

    state: LogState
    open_ended: bool = False
    torn: int = 0


class Reference:
    """The index of the same file as it once was: a line that is where it was, but not what it was, is damaged."""

    def __init__(self, store: EntryStore, lines: int) -> None:
        self._lines = self._iterate(store, lines)
        self._next: Line | None = next(self._lines, None)

    def condemns(self, offset: int, length: int, crc: int) -> bool:
        """Whether the line of that place must be taken as damaged. Asked in the order of the file."""
        while self._next is not None and self._next.offset < offset:
            self._next = next(self._lines, None)
        known = self._next
        if known is None or known.offset != offset or known.length != length:
            return False
        return known.crc != crc or known.kind == RecordKind.DAMAGED

    @staticmethod
    def _iterate(store: EntryStore, lines: int) -> Iterator[Line]:
        for start in range(0, lines, _STEP):
            try:
                raw = store.raw(start, min(start + _STEP, lines))
            except IndexDamagedError:
                return
            yield from sound_lines(raw)


def thoroughly(
    file: Readable,
    state: LogState,
    stop: int,
    store: EntryStore,
    *,
    reference: Reference | None = None,
    progress: Progress | None = None,
) -> Scanned:
    """Parse the lines from `state.length` to the byte `stop` and add their entries to `store`."""
    packed = bytearray()
    for line, ended in _lines(file, state.length, stop, progress):
        record = classify(line)
        if not ended and record.kind == RecordKind.DAMAGED:
            store.extend(packed)
            return Scanned(state, torn=len(line))
        length = len(line) + ended
        crc = crc32(line)
        if reference is not None and reference.condemns(state.length, length, crc):
            record = NewRecord(line, RecordKind.DAMAGED)
        entry, state = entry_of(record, state, crc, length, len(line))
        packed += entry
        if len(packed) >= _FLUSH * ENTRY_SIZE:
            store.extend(packed)
            packed = bytearray()
        if not ended:
            store.extend(packed)
            return Scanned(state, open_ended=True)
    store.extend(packed)
    return Scanned(state)


def quickly(
    file: Readable, state: LogState, stop: int, store: EntryStore, *, progress: Progress | None = None
) -> Scanned:
    """Like `thoroughly`, at the cost of reading; the messages after the last `_usage` are parsed all the same, so that
    the pending characters at the end are known."""
    scanned = _sweep(file, state, stop, store, progress)
    if scanned.state.pending_chars >= 0:
        return scanned
    return count_pending(file, store, scanned.state, progress)


def count_pending(file: Readable, store: EntryStore, state: LogState, progress: Progress | None = None) -> Scanned:
    """Parse the lines after the last `_usage` of a log at `state`, so that its pending characters are known."""
    lines = _line_of_usage(store, state) + 1 if state.usages else 0
    before = store.state(lines)
    store.truncate(lines)
    return thoroughly(file, before, state.length, store, progress=progress)


def entry_of(record: NewRecord, state: LogState, crc: int, length: int, content: int) -> tuple[bytes, LogState]:
    """The packed entry of a record that was parsed, and the state after it."""
    after = advance(
        state,
        kind=record.kind,
        role=record.role,
        value=record.value,
        flags=record.flags,
        crc=crc,
        length=length,
        content=content,
    )
    packed = pack_entry(
        after,
        offset=state.length,
        length=length,
        crc=crc,
        kind=record.kind,
        flags=record.flags | _VALIDATED,
        role=record.role,
        value=record.value,
    )
    return packed, after


def first_difference(file: Readable, store: EntryStore, lines: int, progress: Progress | None = None) -> int | None:
    """The first of the first `lines` lines whose bytes are not those of its entry, or None."""
    total = store.state(lines).length
    line = 0
    for start in range(0, lines, _STEP):
        entries = list(iterate_lines(store.raw(start, min(start + _STEP, lines))))
        for chunk in _chunks(entries):
            if not _same(file, chunk):
                return line + next(i for i, one in enumerate(chunk) if not _same(file, [one]))
            line += len(chunk)
        if progress is not None:
            progress(entries[-1].offset + entries[-1].length, total)
    return None


def same_lines(file: Readable, store: EntryStore, start: int, stop: int) -> bool:
    """Whether the bytes of the lines `[start, stop)` are those of their entries."""
    return all(_same(file, chunk) for chunk in _chunks(list(iterate_lines(store.raw(start, stop)))))


def _chunks(entries: list[Line]) -> Iterator[list[Line]]:
    """Split so that each part covers about a block of the file."""
    begin = 0
    for at, entry in enumerate(entries):
        if entry.offset + entry.length - entries[begin].offset >= BLOCK:
            yield entries[begin : at + 1]
            begin = at + 1
    if begin < len(entries):
        yield entries[begin:]


def _same(file: Readable, entries: list[Line]) -> bool:
    base = entries[0].offset
    data = memoryview(file.pread(base, entries[-1].offset + entries[-1].length - base))
    for offset, length, crc, *_ in entries:
        line = data[offset - base : offset - base + length]
        if len(line) != length:
            return False
        if length and line[-1] == 10:
            line = line[:-1]
        if crc32(line) != crc:
            return False
    return True


def _lines(file: Readable, start: int, stop: int, progress: Progress | None) -> Iterator[tuple[bytes, bool]]:
    """The lines of a range without their line feeds, and whether they had one (all but perhaps the last)."""
    carry: list[bytes] = []
    at = start
    while at < stop:
        block = file.pread(at, min(BLOCK, stop - at))
        if not block:
            break
        at += len(block)
        lines = block.split(b"\n")
        if len(lines) > 1:
            yield b"".join((*carry, lines[0])), True
            carry = []
            for line in lines[1:-1]:
                yield line, True
        if lines[-1]:
            carry.append(lines[-1])
        if progress is not None:
            progress(at - start, stop - start)
    if carry:
        yield b"".join(carry), False


_PREFIXES: Final = {
    start[:13]: (start, role)
    for gap in (b"", b" ")
    for name, role in (
        (b"user", Role.USER),
        (b"assistant", Role.ASSISTANT),
        (b"tool", Role.TOOL),
        (b"system", Role.SYSTEM),
    )
    for start in (b'{"role":' + gap + b'"' + name + b'"',)
}


def _sweep(file: Readable, state: LogState, stop: int, store: EntryStore, progress: Progress | None) -> Scanned:
    """One pass that parses only what does not look like an ordinary message.

    The loop keeps the state in local names: it is run for every line of logs of gigabytes.
    """
    offset, messages, pending, chain, last_role = (
        state.length,
        state.messages,
        state.pending_chars,
        state.chain,
        state.last_role,
    )
    packed: list[bytes] = []
    base, pack, pack_crc, known = state, PACK.pack, CRC.pack, _PREFIXES.get
    fixed = _fixed(base)
    line_number = state.lines
    message_kind = int(RecordKind.MESSAGE)
    for line, ended in _lines(file, state.length, stop, progress):
        length = len(line) + 1
        found = known(line[:13])
        if (
            found is not None
            and ended
            and line[-1] == _BRACE
            and line.startswith(found[0])
            and not (line.endswith(b"}}") and TL_MARK in line)
        ):
            crc = crc32(line)
            messages += 1
            last_role = found[1]
            pending = -1
            chain = (chain * CHAIN_P + crc * CHAIN_Q + length - 1) & MASK
            entry = pack(
                offset,
                length,
                crc,
                message_kind,
                fixed[0],
                last_role * 17,
                -1,
                messages,
                *fixed[1],
                -1,
                fixed[2],
                chain,
            )
            packed.append(entry + pack_crc(crc32(entry)))
            offset += length
            line_number += 1
        else:
            before = _moved(
                base,
                length=offset,
                lines=line_number,
                messages=messages,
                pending=pending,
                last_role=last_role,
                chain=chain,
            )
            record = classify(line)
            if not ended and record.kind == RecordKind.DAMAGED:
                store.extend(b"".join(packed))
                return Scanned(before, torn=len(line))
            entry, base = entry_of(record, before, crc32(line), len(line) + ended, len(line))
            packed.append(entry)
            fixed = _fixed(base)
            offset, messages, pending, chain, last_role = (
                base.length,
                base.messages,
                base.pending_chars,
                base.chain,
                base.last_role,
            )
            line_number += 1
            if not ended:
                store.extend(b"".join(packed))
                return Scanned(base, open_ended=True)
        if len(packed) >= _FLUSH:
            store.extend(b"".join(packed))
            packed.clear()
    store.extend(b"".join(packed))
    return Scanned(
        _moved(
            base,
            length=offset,
            lines=line_number,
            messages=messages,
            pending=pending,
            last_role=last_role,
            chain=chain,
        )
    )


def _moved(
    base: LogState, *, length: int, lines: int, messages: int, pending: int, last_role: Role, chain: int
) -> LogState:
    """The state after ordinary messages that followed `base`."""
    return LogState(
        length,
        lines,
        messages,
        base.checkpoints,
        base.usages,
        base.token_count,
        pending,
        base.next_checkpoint_id,
        base.system_prompt_line,
        last_role,
        chain,
        base.regular,
        base.troubled,
    )


def _fixed(state: LogState) -> tuple[int, tuple[int, int, int, int], int]:
    """What an ordinary message leaves as it is: cumulative flags; checkpoints to token count; the prompt's line."""
    flags = (0 if state.regular else RecordFlag.IRREGULAR) | (RecordFlag.TROUBLED if state.troubled else 0)
    counts = (state.checkpoints, state.usages, state.next_checkpoint_id, state.token_count)
    return int(flags), counts, state.system_prompt_line


def _line_of_usage(store: EntryStore, state: LogState) -> int:
    """The line of the last usage record."""
    low, high = 0, state.lines - 1
    while low < high:
        middle = (low + high) // 2
        if store.entry(middle).state.usages >= state.usages:
            high = middle
        else:
            low = middle + 1
    return low
