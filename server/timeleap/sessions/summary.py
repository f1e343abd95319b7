"""The facts of a log that fit on a screen; of the log that is there, and of one that a plan would make."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from timeleap.errors import CorruptedError
from timeleap.sessions.checkpoints import list_checkpoints, preview_of_record
from timeleap.sessions.outcomes import Checkpoint, Summary
from timeleap.sessions.undo import Stacks
from timeleap.storage.engine import LogReader, LogState, NewRecord, RecordKind
from timeleap.storage.record import after_record, decode_json

SHOWN_CHECKPOINTS = 50


@dataclass(frozen=True, slots=True)
class Past:
    """Counts of states to go back to: earlier logs, steps to undo and to redo."""

    timelines: int
    can_undo: int = 0
    can_redo: int = 0


def past_of(timeline_ids: Collection[str], stacks: Stacks, state: LogState, going: Collection[str] = ()) -> Past:
    """The past of a log at `state`, with these timelines, but for some that are about to go."""
    left = {timeline_id for timeline_id in timeline_ids if timeline_id not in going}
    now = stacks.at(state).within(left)
    return Past(len(left), len(now.undo), len(now.redo))


def with_past(summary: Summary, past: Past) -> Summary:
    """The summary of the same log with another past."""
    return replace(summary, timelines=past.timelines, can_undo=past.can_undo, can_redo=past.can_redo)


def fewer_steps(before: Past, after: Past) -> str:
    """Text to append to the warning that timelines are gone; empty where undo and redo reach as far as before."""
    if (before.can_undo, before.can_redo) == (after.can_undo, after.can_redo):
        return ""
    return f"; {after.can_undo} steps can be undone and {after.can_redo} redone now"


def summarize(reader: LogReader, past: Past) -> Summary:
    """The summary of a log as it is."""
    return summarize_prefix(reader, reader.state, (), (), past)


def summarize_prefix(
    reader: LogReader,
    state: LogState,
    records: Sequence[NewRecord],
    made: Sequence[Checkpoint],
    past: Past,
) -> Summary:
    """The summary of the log that is the beginning of another, up to `state`, and then `records`.

    Args:
        reader: The other log.
        state: Its state where the beginning ends, pending characters known.
        records: What comes then.
        made: The checkpoints among them.
        past: What there will be to go back to.
    """
    end = state_after(state, records)
    total = state.checkpoints + len(made)
    prompt = _prompt_among(records)
    from_reader = min(state.checkpoints, SHOWN_CHECKPOINTS - len(made))
    kept = list_checkpoints(
        reader, state.checkpoints - from_reader, from_reader, newest_first=False, messages=state.messages
    )
    checkpoints = (*_followed(kept, state.messages, records), *made)
    return Summary(
        message_count=end.messages,
        token_count=end.token_count,
        token_count_with_pending=end.token_count_with_pending,
        n_checkpoints=end.next_checkpoint_id,
        checkpoints=checkpoints,
        checkpoints_omitted=total - len(checkpoints),
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
