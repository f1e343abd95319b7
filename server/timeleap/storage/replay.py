"""Replaying: the state of a log after one more line. Pure."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from timeleap.storage.engine import LogState, NewRecord, RecordFlag, RecordKind, Role

CHAIN_P: Final = 0x9E3779B97F4A7C15
CHAIN_Q: Final = 0xC2B2AE3D27D4EB4F
MASK: Final = 0xFFFFFFFFFFFFFFFF
ID_LIMIT: Final = (
    1 << 52
)  # ids from here on, and negative ones, are not counted on from: no request could name the next

_TROUBLE: Final = int(RecordFlag.UNREADABLE)  # flags are combined as integers here: as flags it takes 15 times as long


def chained(chain: int, crc: int, length: int) -> int:
    """The fingerprint after one more line."""
    return (chain * CHAIN_P + crc * CHAIN_Q + length) & MASK


def after_record(state: LogState, record: NewRecord) -> LogState:
    """The state if `record` were appended."""
    return advance(
        state,
        kind=record.kind,
        role=record.role,
        value=record.value,
        flags=record.flags,
        crc=crc32(b"\n", crc32(record.body)),
        length=len(record.body) + 1,
    )


def advance(
    state: LogState, *, kind: RecordKind, role: Role, value: int, flags: RecordFlag, crc: int, length: int
) -> LogState:
    """The state after a line.

    Args:
        state: The state before it.
        kind: What the line is.
        role: The role of a message.
        value: As in `Entry.value`.
        flags: The line's own flags.
        crc: crc32 of the line with its line feed.
        length: Bytes of the line with its line feed.
    """
    messages, checkpoints, usages = state.messages, state.checkpoints, state.usages
    token_count, pending, next_id = state.token_count, state.pending_chars, state.next_checkpoint_id
    prompt, last_role, regular = state.system_prompt_line, state.last_role, state.regular
    if kind == RecordKind.MESSAGE:
        messages += 1
        last_role = role
        pending = -1 if pending < 0 or value < 0 else pending + value
    elif kind == RecordKind.USAGE:
        usages += 1
        token_count, pending = value, 0
    elif kind == RecordKind.CHECKPOINT:
        checkpoints += 1
        regular = regular and value == next_id
        next_id = value + 1 if 0 <= value < ID_LIMIT else next_id
    elif kind == RecordKind.SYSTEM_PROMPT:
        prompt = state.lines
    return LogState(
        state.length + length,
        state.lines + 1,
        messages,
        checkpoints,
        usages,
        token_count,
        pending,
        next_id,
        prompt,
        last_role,
        chained(state.chain, crc, length),
        regular,
        state.has_damage or kind == RecordKind.DAMAGED or bool(int(flags) & _TROUBLE),
    )
