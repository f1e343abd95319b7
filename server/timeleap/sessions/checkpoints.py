"""Checkpoints as values: read from a log, found by id or uid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from timeleap import clock
from timeleap.errors import CheckpointNotFoundError, CorruptedError
from timeleap.message_text import texts
from timeleap.sessions.outcomes import Checkpoint
from timeleap.storage.engine import LogReader, LogState, NewRecord
from timeleap.storage.record import checkpoint_record, decode_json, read_tl

PREVIEW_CHARACTERS = 120
MAX_PREVIEW_BYTES = 4 << 20
"""A longer record is not parsed for the sake of its first line."""

_UID = re.compile(r"[co](-?\d{1,19})-[0-9a-f]+")


def new_checkpoint(
    state: LogState, checkpoint_id: int, label: str | None, preview: str | None, request: Mapping[str, str | int]
) -> tuple[NewRecord, Checkpoint]:
    """The record of a checkpoint that is to be written to a log at `state`, and the checkpoint it makes. `preview` is
    the beginning of the message that is written with it, `request` members of `_tl` for the request that asked for
    it."""
    uid = f"c{checkpoint_id}-{clock.new_uid(12)}"
    created_at = clock.now_iso()
    marks = {"u": uid, **({"l": label} if label is not None else {}), "t": created_at, **request}
    made = Checkpoint(checkpoint_id, uid, label, created_at, state.messages, state.token_count, preview)
    return checkpoint_record(checkpoint_id, marks), made


def read_checkpoint(reader: LogReader, line: int, messages: int | None = None) -> Checkpoint:
    """The checkpoint whose record stands at `line`; as if there were only so many `messages`."""
    entry = reader.entries(line, line + 1)[0]
    uid, label, created_at = _marks(reader, line)
    state = entry.state
    shown = state.messages < (reader.state.messages if messages is None else messages)
    preview = _preview(reader, state.messages) if shown else None
    return Checkpoint(entry.value, uid, label, created_at, state.messages, state.token_count, preview)


def list_checkpoints(
    reader: LogReader, start: int, count: int, newest_first: bool, messages: int | None = None
) -> list[Checkpoint]:
    """Up to `count` checkpoints from the one with the 0-based ordinal `start` on, upwards or downwards; `messages` as
    in `read_checkpoint`."""
    total = reader.state.checkpoints
    if newest_first:
        ordinals = range(min(start, total - 1), max(-1, start - count), -1)
    else:
        ordinals = range(max(0, start), min(total, start + count))
    return [read_checkpoint(reader, reader.line_of_checkpoint(ordinal), messages) for ordinal in ordinals]


def find_line(reader: LogReader, checkpoint_id: int | None, checkpoint_uid: str | None) -> int:
    """The line of the first checkpoint with that id, or of the one with that uid.

    Raises:
        CheckpointNotFoundError: There is none.
    """
    if checkpoint_uid is not None:
        line = _line_of_uid(reader, checkpoint_uid)
        if line is None:
            raise CheckpointNotFoundError(
                f"checkpoint {checkpoint_uid[:80]} does not exist in the present log",
                checkpointUid=checkpoint_uid[:200],
            )
        return line
    line = reader.find_checkpoint(checkpoint_id) if checkpoint_id is not None else None
    if line is None:
        raise CheckpointNotFoundError(
            f"checkpoint {checkpoint_id} does not exist in the present log", checkpointId=checkpoint_id
        )
    return line


def has_uid(reader: LogReader, checkpoint_uid: str, lines: int | None = None) -> bool:
    """True if a log has the checkpoint; or its first `lines` have it."""
    line = _line_of_uid(reader, checkpoint_uid)
    return line is not None and (lines is None or line < lines)


def preview_of(message: Mapping[str, Any]) -> str | None:
    """The first 120 characters of a message's text; None without text."""
    text = "".join(texts(message))[:PREVIEW_CHARACTERS]
    # A log of the original can hold half of a surrogate pair, which no reply can carry.
    return text.encode("utf-8", "replace").decode("utf-8") or None


def preview_of_record(record: bytes) -> str | None:
    """The same of a message as it stands in the log; None also where it is too long to be looked at, or damaged."""
    if len(record) > MAX_PREVIEW_BYTES:
        return None
    try:
        message = decode_json(record)
    except ValueError:
        return None
    return preview_of(message) if isinstance(message, dict) else None


def _line_of_uid(reader: LogReader, uid: str) -> int | None:
    match = _UID.fullmatch(uid)
    if match is None:
        return None
    # The uid tells the id, and in a regular log there is one record of each id.
    line = reader.find_checkpoint(int(match[1]))
    if line is not None and _uid_at(reader, line) == uid:
        return line
    if reader.state.regular:
        return None
    for ordinal in range(reader.state.checkpoints - 1, -1, -1):
        line = reader.line_of_checkpoint(ordinal)
        if _uid_at(reader, line) == uid:
            return line
    return None


def _uid_at(reader: LogReader, line: int) -> str | None:
    try:
        return _marks(reader, line)[0]
    except CorruptedError:
        return None


def _marks(reader: LogReader, line: int) -> tuple[str, str | None, str | None]:
    """Uid, label and time of the checkpoint record at `line`."""
    marks = read_tl(reader.read(line, line + 1)[0])
    uid, label, time = (marks.get(name) for name in ("u", "l", "t"))
    if not isinstance(uid, str):
        before = reader.entries(line - 1, line)[0].state if line else LogState()
        uid = f"o{reader.entries(line, line + 1)[0].value}-{before.chain:016x}"
    return uid, label if isinstance(label, str) else None, time if isinstance(time, str) else None


def _preview(reader: LogReader, index: int) -> str | None:
    line = reader.line_of_message(index)
    if reader.entries(line, line + 1)[0].length > MAX_PREVIEW_BYTES:
        return None
    try:
        return preview_of_record(reader.read(line, line + 1)[0])
    except CorruptedError:
        return None  # a damaged message must not keep anybody from seeing the checkpoints
