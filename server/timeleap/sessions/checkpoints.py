"""Checkpoints as values, and the facts of a log that fit on a screen; of the log that is there, or that a plan would make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from timeleap import clock
from timeleap.errors import CheckpointNotFoundError, CorruptedError
from timeleap.message_text import texts
from timeleap.sessions.shapes import Checkpoint, Past, Summary
from timeleap.storage.engine import LogReader, LogState, NewRecord, RecordKind
from timeleap.storage.record import after_record, checkpoint_record, decode_json, read_tl

SHOWN_CHECKPOINTS = 50
PREVIEW_CHARACTERS = 120
MAX_PREVIEW_BYTES = 4 << 20
"""A longer record is not parsed for the sake of its first line."""
_LABEL_LENGTH = 60
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
    state, preview = entry.state, None
    if state.messages < (reader.state.messages if messages is None else messages):
        following = reader.line_of_message(state.messages)
        if reader.entries(following, following + 1)[0].length <= MAX_PREVIEW_BYTES:
            with suppress(CorruptedError):  # a damaged message must not keep anybody from seeing the checkpoints
                preview = preview_of_record(reader.read(following, following + 1)[0])
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
    """The line of the first checkpoint with that id, or of the one with that uid; raises CheckpointNotFoundError."""
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


def first_words(message: Mapping[str, Any]) -> str | None:
    """A label made of the beginning of a message's text, at most 60 characters, or None without text."""
    # Megabytes of white space before the first word are not worth splitting.
    words = " ".join(" ".join(texts(message))[: 20 * _LABEL_LENGTH].split())
    if len(words) <= _LABEL_LENGTH:
        return words or None
    start = words[: _LABEL_LENGTH - 1]
    if words[_LABEL_LENGTH - 1] != " ":  # cut through a word: leave that out, unless there is no other
        start = start.rpartition(" ")[0] or start
    return start + "…"


def summarize(
    reader: LogReader,
    past: Past,
    kept: LogState | None = None,
    records: Sequence[NewRecord] = (),
    made: Sequence[Checkpoint] = (),
) -> Summary:
    """The summary of a log; or of one that would be its beginning, up to `kept` (pending characters known), and then
    `records`, with the checkpoints `made` among them."""
    state = reader.state if kept is None else kept
    end = state_after(state, records)
    prompt = _prompt_among(records)
    from_reader = min(state.checkpoints, SHOWN_CHECKPOINTS - len(made))
    listed = list_checkpoints(
        reader, state.checkpoints - from_reader, from_reader, newest_first=False, messages=state.messages
    )
    checkpoints = (*_followed(listed, state.messages, records), *made)
    return Summary(
        message_count=end.messages,
        token_count=end.token_count,
        token_count_with_pending=end.token_count_with_pending,
        n_checkpoints=end.next_checkpoint_id,
        checkpoints=checkpoints,
        checkpoints_omitted=state.checkpoints + len(made) - len(checkpoints),
        system_prompt=prompt if prompt is not None else prompt_at(reader, state),
        log_bytes=end.length,
        timelines=past.timelines,
        can_undo=past.can_undo,
        can_redo=past.can_redo,
    )


def state_after(state: LogState, records: Sequence[NewRecord]) -> LogState:
    """The state of a log after records that are not written."""
    for record in records:
        state = after_record(state, record)
    return state


def prompt_at(reader: LogReader, state: LogState) -> str | None:
    """The system prompt in force at `state`, or None."""
    line = state.system_prompt_line
    if line < 0:
        return None
    try:
        return _prompt_of(reader.read(line, line + 1)[0])
    except CorruptedError:
        return None  # the damage is reported by the check of the log; it must not keep the session from opening


def _followed(checkpoints: Sequence[Checkpoint], messages: int, records: Sequence[NewRecord]) -> list[Checkpoint]:
    """The checkpoints of a log of so many messages, with the preview that `records` gives to those at its end."""
    first = next((record.body for record in records if record.kind is RecordKind.MESSAGE), None)
    preview = None if first is None else preview_of_record(first)
    return [
        replace(checkpoint, preview=preview) if checkpoint.message_count == messages else checkpoint
        for checkpoint in checkpoints
    ]


def _prompt_among(records: Sequence[NewRecord]) -> str | None:
    for record in reversed(records):
        if record.kind is RecordKind.SYSTEM_PROMPT:
            return _prompt_of(record.body)
    return None


def _prompt_of(line: bytes) -> str | None:
    try:
        text = decode_json(line)["content"]
    except (ValueError, KeyError, TypeError):
        return None
    return text.encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else None
