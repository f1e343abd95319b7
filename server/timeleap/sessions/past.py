"""The past of a session: its checkpoints, the steps of undo and redo, its timelines, some of which go for good (G12), and
the summary of a log, which names them.

A step leads to a timeline, or to the empty log. The stacks of steps stand in `timeleap.json` (see
`timeleap.sessions.documents.undo_member`). What is appended empties the redo stack without a write: it holds only for
the log (length and fingerprint) that it was noted for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeGuard, get_args

from msgspec import Struct
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import (
    CheckpointNotFoundError,
    CorruptedError,
    RedoUnavailableError,
    StorageFailureError,
    TimelineNotFoundError,
    UndoUnavailableError,
)
from timeleap.json_value import Json
from timeleap.message_text import texts
from timeleap.sessions.documents.companion_forms import FORMS
from timeleap.sessions.shapes import (
    NOTHING_KEPT,
    Checkpoint,
    HistoryStep,
    Past,
    Retention,
    StepKind,
    Summary,
    json_members,
    set_members,
    told,
)
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import LogState, NewRecord, Prepared, RecordKind, Timeline, TimelineFacts
from timeleap.storage.reader import LogReader
from timeleap.storage.record import after_record, checkpoint_record, decode_json, read_tl
from timeleap.summaries.log_spans import SpanRead, add_records, read_spans

SHOWN_CHECKPOINTS = 50
PREVIEW_CHARACTERS = 120
MAX_PREVIEW_BYTES = 4 << 20
"""A longer record is not parsed for the sake of its first line."""
_LABEL_LENGTH = 60
_UID = re.compile(r"[co](-?\d{1,19})-[0-9a-f]+")
MAX_STEPS: Final = 1000
"""Steps of each stack; the oldest are forgotten."""
KINDS: Final = frozenset(get_args(StepKind))

Direction = Literal["undo", "redo"]


# Checkpoints


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
    uid, label, created_at, files = _marks(reader, line)
    state, preview = entry.state, None
    if state.messages < (reader.state.messages if messages is None else messages):
        following = reader.line_of_message(state.messages)
        if reader.entries(following, following + 1)[0].length <= MAX_PREVIEW_BYTES:
            with suppress(CorruptedError):  # a damaged message must not keep anybody from seeing the checkpoints
                preview = preview_of_record(reader.read(following, following + 1)[0])
    return Checkpoint(entry.value, uid, label, created_at, state.messages, state.token_count, preview, files)


def told_checkpoints(reader: LogReader, start: int, count: int, newest_first: bool) -> list[Checkpoint]:
    """Up to `count` checkpoints from the one with the 0-based ordinal `start` on, upwards or downwards, each with what
    happened after it."""
    last = min(start, reader.state.checkpoints - 1)
    first = max(0, last - count + 1) if newest_first else max(0, start)
    spans = read_spans(reader, first, last - first + 1 if newest_first else count)
    found = [replace(_read_with(reader, read, reader.state.messages), summary=read.span.wire()) for read in spans]
    return found[::-1] if newest_first else found


def _read_with(reader: LogReader, read: SpanRead, messages: int) -> Checkpoint:
    """The checkpoint of a span that was read; as if there were only so many `messages`."""
    entry, state = read.entry, read.entry.state
    if read.body is None or (read.message is None and state.messages < messages):
        return read_checkpoint(reader, entry.line, messages)
    preview = preview_of(read.message) if read.message is not None else None
    uid, label, created_at, files = _marks_in(read.body, entry.value, read.before)
    return Checkpoint(entry.value, uid, label, created_at, state.messages, state.token_count, preview, files)


def find_line(reader: LogReader, checkpoint_id: int | None, checkpoint_uid: str | None) -> int:
    """The line of the first checkpoint with that id, or of the one with that uid; raises CheckpointNotFoundError."""
    data: Json
    if checkpoint_uid is not None:
        line = _line_of_uid(reader, checkpoint_uid)
        shown, data = checkpoint_uid[:80], json_members(checkpoint_uid=checkpoint_uid[:200])
    else:
        line = reader.find_checkpoint(checkpoint_id) if checkpoint_id is not None else None
        shown, data = str(checkpoint_id), json_members(checkpoint_id=checkpoint_id)
    if line is None:
        raise CheckpointNotFoundError(f"checkpoint {shown} does not exist in the present log", **data)
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
    if line is not None and uid_at(reader, line) == uid:
        return line
    if reader.state.regular:
        return None
    for ordinal in range(reader.state.checkpoints - 1, -1, -1):
        line = reader.line_of_checkpoint(ordinal)
        if uid_at(reader, line) == uid:
            return line
    return None


def uid_at(reader: LogReader, line: int) -> str | None:
    """The uid of the checkpoint whose record stands at `line`; None where that is damaged."""
    try:
        return _marks(reader, line)[0]
    except CorruptedError:
        return None


def _marks(reader: LogReader, line: int) -> tuple[str, str | None, str | None, Mapping[str, Any]]:
    """Uid, label, time and what companions keep of the checkpoint record at `line`."""
    before = reader.entries(line - 1, line)[0].state if line else LogState()
    return _marks_in(reader.read(line, line + 1)[0], reader.entries(line, line + 1)[0].value, before)


def _marks_in(record: bytes, number: int, before: LogState) -> tuple[str, str | None, str | None, Mapping[str, Any]]:
    """Read the marks of a record whose checkpoint has that id, in a log at `before`."""
    marks = read_tl(record)
    uid, label, time = (marks.get(name) for name in ("u", "l", "t"))
    if not isinstance(uid, str):
        uid = f"o{number}-{before.chain:016x}"
    return uid, label if isinstance(label, str) else None, time if isinstance(time, str) else None, kept_at(marks)


def kept_at(marks: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of companions at a checkpoint, by key, as the marks of its record say."""
    kept = {form.key: form.read_mark(marks[form.mark]) for form in FORMS.values() if form.mark in marks}
    return set_members(**kept)


def kept_with(members: Mapping[str, Any]) -> Mapping[str, str]:
    """The state of companions with a log, by key, as the facts of its timeline, or a step, say."""
    return {key: members[key] for key in FORMS if isinstance(members.get(key), str)}


def preview_of(message: Mapping[str, Any]) -> str | None:
    """The first 120 characters of a message's text; None without text."""
    text = "".join(texts(message))[:PREVIEW_CHARACTERS]
    # A log of the original can hold half of a surrogate pair, which no reply can carry.
    return text.encode("utf-8", "replace").decode("utf-8") or None


def preview_of_record(record: bytes) -> str | None:
    """Preview of a message as it stands in the log; None also where it is too long to be looked at, or damaged."""
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
    prompts = [record.body for record in records if record.kind is RecordKind.SYSTEM_PROMPT]
    prompt = _prompt_of(prompts[-1]) if prompts else None
    from_reader = min(state.checkpoints, max(1, SHOWN_CHECKPOINTS - len(made)))
    spans = read_spans(reader, state.checkpoints - from_reader, from_reader, state)
    listed = [_read_with(reader, read, state.messages) for read in spans]
    happened = add_records([read.span for read in spans], state, records)
    checkpoints = tuple(told([*_followed(listed, state.messages, records), *made], happened))[-SHOWN_CHECKPOINTS:]
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


def _prompt_of(line: bytes) -> str | None:
    try:
        text = decode_json(line)["content"]
    except (ValueError, KeyError, TypeError):
        return None
    return text.encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else None


# Steps of undo and redo


class Stacks(Struct, frozen=True):
    """The undo and redo stacks, the next step last.

    Attributes:
        undo: The states before the steps that can be undone.
        redo: The states before the undoing of steps.
        valid_for: Length and fingerprint of the log that `redo` was noted for.
    """

    undo: tuple[HistoryStep, ...] = ()
    redo: tuple[HistoryStep, ...] = ()
    valid_for: tuple[int, int] | None = None

    def at(self, state: LogState) -> Stacks:
        """Stacks where the log is at `state`."""
        return self if self.valid_for == (state.length, state.chain) else replace(self, redo=())

    def within(self, timeline_ids: Collection[str]) -> Stacks:
        """The steps that can be taken while these timelines exist: a missing one ends a stack."""
        return replace(self, undo=_reachable(self.undo, timeline_ids), redo=_reachable(self.redo, timeline_ids))

    def without_redo(self) -> Stacks:
        """With nothing that tells of the present log's bytes."""
        return Stacks(self.undo)

    def pushed(self, kind: StepKind, prepared: Prepared, kept: Mapping[str, str] = NOTHING_KEPT) -> Stacks:
        """After a step that can be undone, with what companions kept of the state before it; one that changes
        nothing leaves them as they are."""
        if not prepared.replaces:
            return self
        return _stacks((*self.undo, HistoryStep(kind, prepared.kept_as, kept)), (), prepared.after)

    def moved(
        self,
        direction: Direction,
        steps: int,
        prepared: Prepared,
        same: Callable[[str, str], bool],
        kept: Mapping[str, str] = NOTHING_KEPT,
    ) -> Stacks:
        """After `steps` steps, of which there are as many, were undone or redone by a rewrite to the last of them. Between
        two timelines of the `same` bytes there is no step: going from one to the other leaves nothing to come back to."""
        source, target = (self.undo, self.redo) if direction == "undo" else (self.redo, self.undo)
        going, present = list(target), prepared.kept_as
        for step in reversed(source[-steps:]):
            there = step.timeline_id
            if present != there and not (present is not None and there is not None and same(present, there)):
                going.append(HistoryStep(step.kind, present, kept))
            present, kept = there, step.kept
        left, grown = source[:-steps], tuple(going)
        return _stacks(*((left, grown) if direction == "undo" else (grown, left)), prepared.after)

    def taken(self, direction: Direction, steps: int) -> tuple[HistoryStep, ...]:
        """The next steps to undo or redo, in that order.

        Raises:
            UndoUnavailableError, RedoUnavailableError: There are fewer.
        """
        source = self.undo if direction == "undo" else self.redo
        if steps <= len(source):
            return source[-steps:][::-1]
        data = json_members(can_undo=len(self.undo), can_redo=len(self.redo))
        few = f"cannot {direction} {steps} steps: {len(source)} can be {direction}ne" if source else None
        if direction == "undo":
            raise UndoUnavailableError(few or "there is nothing to undo: no timeline to go back to", **data)
        raise RedoUnavailableError(few or "there is nothing to redo: any other change ends redo", **data)

    def members(self) -> Json:
        """Members of `timeleap.json`."""
        found: Json = {"undo": [_member(step) for step in self.undo]}
        if self.redo and self.valid_for is not None:
            length, chain = self.valid_for
            redo = [_member(step) for step in self.redo]
            found |= {"redo": redo, "length": length, "chain": f"{chain:016x}"}
        return found


def in_reach(stacks: Stacks, log: LogEngine) -> Stacks:
    """The steps that can be taken from a log as it is now."""
    return stacks.at(log.state).within(timeline_ids(log))


def timeline_ids(log: LogEngine) -> set[str]:
    """The ids of all timelines."""
    return {timeline.timeline_id for timeline in log.timelines()}


def _member(step: HistoryStep) -> Json:
    return {**step.wire(), **step.kept}


def is_step(kind: str) -> TypeGuard[StepKind]:
    """True if a rewrite for that reason can be undone."""
    return kind in KINDS


def _stacks(undo: Sequence[HistoryStep], redo: Sequence[HistoryStep], after: LogState) -> Stacks:
    return Stacks(tuple(undo[-MAX_STEPS:]), tuple(redo[-MAX_STEPS:]), (after.length, after.chain))


def _reachable(steps: tuple[HistoryStep, ...], timeline_ids: Collection[str]) -> tuple[HistoryStep, ...]:
    for at in range(len(steps), 0, -1):
        name = steps[at - 1].timeline_id
        if name is not None and name not in timeline_ids:
            return steps[at:]
    return steps


def past_of(timeline_ids: Collection[str], stacks: Stacks, state: LogState, going: Collection[str] = ()) -> Past:
    """The past of a log at `state`, with these timelines, but for some that are about to go."""
    left = {timeline_id for timeline_id in timeline_ids if timeline_id not in going}
    now = stacks.at(state).within(left)
    return Past(len(left), len(now.undo), len(now.redo))


def fewer_steps(before: Past, after: Past) -> str:
    """Text to append to the warning that timelines are gone; empty where undo and redo reach as far as before."""
    if (before.can_undo, before.can_redo) == (after.can_undo, after.can_redo):
        return ""
    return f"; {after.can_undo} steps can be undone and {after.can_redo} redone now"


# Timelines that go


def excess(
    timelines: Sequence[Timeline],
    limits: Retention,
    kept: Collection[str],
    live: LogState | None = None,
    latest: str | None = None,
) -> list[Timeline]:
    """The timelines beyond the limits, oldest last, of all of them, newest first.

    Those in `kept` stay all the same. So does `latest`, which holds the log that the last change replaced, and counts
    as the newest: a log that equals an old timeline is not set aside again.
    """
    # What equals the live log does not count: undo and redo go from one timeline to the next, and each way there would
    # else be one log more than on the way back.
    going: list[Timeline] = []
    counted = {(live.length, live.chain)} if live is not None else set()
    count = size = 0
    for position, timeline in enumerate(sorted(timelines, key=lambda timeline: timeline.timeline_id != latest)):
        if timeline.chain and (timeline.bytes, timeline.chain) in counted:
            continue  # of equal ones the newest counts
        counted.add((timeline.bytes, timeline.chain))
        count += 1
        size += timeline.bytes
        over = count > limits.max_timelines or size > limits.max_timeline_bytes
        if over and position > 0 and timeline.timeline_id not in kept:
            going.append(timeline)
            count -= 1
            size -= timeline.bytes
    return going


def referred_to(
    timelines: Sequence[Timeline],
    fork_points: Collection[str],
    engine: LogEngine,
    *,
    log: LogReader | None = None,
    lines: int | None = None,
    added: str | None = None,
) -> set[str]:
    """The timelines that forks refer to: of each fork's checkpoint the newest one that has it, if the log has not.

    Args:
        timelines: All of them, newest first.
        fork_points: The checkpoints, by uid.
        engine: The session's.
        log: Where not the live log, the one that will be; of it the first `lines`.
        lines: All where None.
        added: The timeline that the live log will be then.
    """
    missing = {uid for uid in fork_points if not has_uid(log or engine, uid, lines)}
    kept: set[str] = set()
    for timeline in timelines:
        if not missing:
            break
        try:
            there = engine if timeline.timeline_id == added else engine.timeline(timeline.timeline_id)
            found = {uid for uid in missing if has_uid(there, uid)}
        except (TimelineNotFoundError, CorruptedError, StorageFailureError):
            kept.add(timeline.timeline_id)  # what cannot be read cannot be cleared of being referred to
            continue
        if found:
            kept.add(timeline.timeline_id)
            missing -= found
    return kept


def going_after(
    engine: LogEngine,
    source: LogReader,
    lines: int,
    prepared: Prepared,
    *,
    limits: Retention,
    fork_points: Callable[[], Collection[str]],
) -> set[str]:
    """The timelines that will go by themselves after a rewrite to the first `lines` of `source`: what can be undone
    must not be promised before."""
    present = engine.timelines()
    if prepared.replaces and prepared.equals is None:
        live, facts = engine.state, TimelineFacts()
        added = Timeline(prepared.timeline_id, "", facts, live.length, live.messages, live.checkpoints, live.chain)
        present = [added, *present]
    latest = prepared.kept_as
    if not excess(present, limits, (), prepared.after, latest):
        return set()
    kept = referred_to(present, fork_points(), engine, log=source, lines=lines, added=prepared.timeline_id)
    return {timeline.timeline_id for timeline in excess(present, limits, kept, prepared.after, latest)}
