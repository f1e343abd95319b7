"""Rewrites of a log: what a request puts in the place of the present one, and what that amounts to.

Each decision looks at a log through its reader, and costs the same for a long log as for a short one (only a compaction
reads the messages it keeps). A dry run is a decision that is not carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from timeleap.errors import InvalidInputError, NoPendingDMailError
from timeleap.json_value import Json
from timeleap.message_text import answered, called
from timeleap.sessions.kernel.append_records import DMAIL_LABEL, dmail_text
from timeleap.sessions.kernel.change import Change, LogRewrite, RewriteKind
from timeleap.sessions.kernel.session_view import SessionView
from timeleap.sessions.past import (
    Direction,
    Stacks,
    find_line,
    in_reach,
    is_step,
    kept_with,
    new_checkpoint,
    preview_of,
    read_checkpoint,
    state_after,
    summarize,
)
from timeleap.sessions.shapes import (
    CONTEXT,
    NOTHING_KEPT,
    Checkpoint,
    Event,
    Exchange,
    Past,
    Summary,
    camel_case,
    set_members,
)
from timeleap.storage.damage import DAMAGE_LIMIT, DAMAGED_LINES
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import (
    LogState,
    NewRecord,
    Prepared,
    Replacement,
    Role,
    TimelineFacts,
    TimelineReason,
)
from timeleap.storage.reader import LogReader
from timeleap.storage.record import SENDER, copied, decode_json, message_record

_TO_COME = "to come"


def result(rewrite: LogRewrite, head: str, timeline_id: str | None, context: Json) -> Json:
    """Result of the request; in a dry run `timeline_id` is None."""
    if rewrite.answer is not None:
        about = set_members(reason=rewrite.refused, timeline_id=timeline_id)
        return {"head": head, **about, **rewrite.answer, "context": context}
    made, exchange = rewrite.made if rewrite.kind == "dmailDelivered" else None, rewrite.exchange
    found = set_members(
        head=head,
        timeline_id=timeline_id,
        removed=rewrite.removed,
        context=context,
        checkpoint=made and made.wire(),
        tool_exchange=exchange and exchange.wire(),
    )
    if rewrite.steps is not None:
        found |= {"steps": [step.wire() for step in rewrite.steps], **_steps_left(context)}
    return found


def result_of_companion(rewrite: LogRewrite, head: str, context: Json) -> Json:
    """Result of a request where only a companion goes back and the log stays as it is."""
    found: Json = {"head": head, "removed": dict.fromkeys(rewrite.removed, 0), "context": context}
    if rewrite.steps is not None:
        found |= {"steps": [], **_steps_left(context)}
    return found


def _steps_left(context: Json) -> Json:
    """Members of a context that say how far one can go back and forth."""
    return {name: context[name] for name in (camel_case("can_undo"), camel_case("can_redo"))}


def event(rewrite: LogRewrite, head: str, timeline_id: str | None, context: Json) -> Event:
    """Event for listeners when it is done; `timeline_id` is None where the log before it was empty."""
    target = rewrite.target
    members = {
        **set_members(
            checkpoint_id=target and target.id,
            checkpoint_uid=target and target.uid,
            message_index=rewrite.message_index,
            timeline_id=timeline_id,
        ),
        "removed": rewrite.removed,
        **rewrite.told,
        "context": context,
    }
    return Event(rewrite.kind, head, members, CONTEXT)


def stacks_after(
    rewrite: LogRewrite,
    before: Stacks,
    prepared: Prepared,
    same: Callable[[str, str], bool],
    kept: Mapping[str, str] = NOTHING_KEPT,
) -> Stacks:
    """The undo and redo stacks after a rewrite that is about to be done; `same` says whether two timelines have the same
    bytes, `kept` what companions keep of the state before it."""
    if rewrite.kind == "external" and prepared.replaces:
        return before.without_redo()
    if rewrite.steps is not None:
        return before.moved("undo" if rewrite.kind == "undone" else "redo", len(rewrite.steps), prepared, same, kept)
    reason = rewrite.replacement.facts.reason
    return before.pushed(reason, prepared, kept) if is_step(reason) else before


def foreseen(rewrite: LogRewrite, log: LogEngine, before: Stacks) -> tuple[Prepared, Stacks]:
    """The rewrite as if it were about to be done, and the stacks after it, as far as sizes and fingerprints tell what
    equals what."""
    now, after, timelines = log.state, state_after(rewrite.kept, rewrite.replacement.records), log.timelines()
    equals = next((each.timeline_id for each in timelines if each.may_equal(now)), None) if now.length else ""
    replaces = (after.length, after.chain) != (now.length, now.chain)
    prepared = Prepared(_TO_COME, replaces, equals, after)
    known = {each.timeline_id: (each.bytes, each.chain) for each in timelines}
    return prepared, stacks_after(
        rewrite, before, prepared, lambda one, other: known.get(one, 0) == known.get(other, 1)
    )


def summary(rewrite: LogRewrite, past: Past) -> Summary:
    """The log it would make (its size is off by a few bytes where batch marks or damaged lines are left out)."""
    made = [rewrite.made] if rewrite.made is not None else rewrite.later
    return summarize(rewrite.source, past, rewrite.kept, rewrite.replacement.records, made)


def decide_revert(
    state: SessionView,
    checkpoint_id: int | None = None,
    checkpoint_uid: str | None = None,
    message_index: int | None = None,
    heal: bool = False,
) -> Change:
    """Remove a checkpoint, or a message, and all after it; with `heal` go back further where the log would end in the
    middle of a tool exchange: to before its calls.

    Raises:
        CheckpointNotFoundError, InvalidInputError: There is no such checkpoint; no such message.
    """
    engine, target = state.log, None
    count = engine.state.messages
    if message_index is None:
        line = find_line(engine, checkpoint_id, checkpoint_uid)
        target = read_checkpoint(engine, line)
    elif 0 <= message_index < count:
        line = engine.line_of_message(message_index)
    else:
        text = f"there is no message {message_index}: the history has {count}"
        raise InvalidInputError(
            text, errors=[{"loc": [camel_case("message_index")], "msg": text, "type": "out_of_range"}]
        )
    line, exchange = _sound(engine, line, heal)
    rewrite = rewritten(state, "reverted", "revert", engine.state_before(line), keep_lines=line, target=target)
    kept = NOTHING_KEPT if target is None else target.kept
    return Change(rewrite=replace(rewrite, exchange=exchange, message_index=message_index, kept_there=kept))


def decide_undo(state: SessionView, direction: Direction, steps: int) -> Change:
    """Put the log in the place of the present one that was there before (undo) or after (redo) the last steps.

    Raises:
        NothingToUndoError, NothingToRedoError: There are fewer steps.
    """
    taken = in_reach(state.facts.stacks, state.log).taken(direction, steps)
    name = taken[-1].timeline_id
    rewrite = rewritten(state, "undone", "restore", LogState()) if name is None else _restored(state, name)
    # The timeline may have been set aside again since by another step, with another companion.
    kind: RewriteKind = "undone" if direction == "undo" else "redone"
    return Change(rewrite=replace(rewrite, kind=kind, steps=taken, kept_there=taken[-1].kept))


def decide_clear(state: SessionView, keep_system_prompt: bool) -> Change:
    """Begin again, with the system prompt or without."""
    prompt = prompt_record(state.log, state.log.state) if keep_system_prompt else []
    return Change(rewrite=rewritten(state, "cleared", "clear", LogState(), records=prompt))


def decide_restore(state: SessionView, timeline_id: str) -> Change:
    """Put an earlier log in the place of the present one, byte for byte.

    Raises:
        TimelineNotFoundError: There is no such timeline.
    """
    return Change(rewrite=_restored(state, timeline_id))


def _restored(state: SessionView, timeline_id: str) -> LogRewrite:
    timeline = state.log.timeline(timeline_id)
    end = timeline.state_before(timeline.state.lines)
    rewrite = rewritten(state, "timelineRestored", "restore", end, reader=timeline, from_timeline=timeline_id)
    facts = next((log.facts for log in state.log.timelines() if log.timeline_id == timeline_id), None)
    return rewrite if facts is None else replace(rewrite, kept_there=kept_with(facts.extra))


def decide_delivery(state: SessionView, heal: bool = False) -> Change:
    """Go back to the pending D-Mail's checkpoint and leave its note there: a new checkpoint and one user message; `heal`
    as in `decide_revert`.

    Raises:
        NoPendingDMailError: There is nothing to deliver.
        CheckpointNotFoundError: Its checkpoint does not exist any more.
    """
    engine, pending = state.log, state.facts.pending_dmail
    if pending is None:
        raise NoPendingDMailError("there is no D-Mail to deliver")
    line = find_line(engine, None, pending.checkpoint_uid)
    target = read_checkpoint(engine, line)
    line, exchange = _sound(engine, line, heal)
    kept = engine.state_before(line)
    note = {"role": "user", "content": dmail_text(pending.message, pending.sender)}
    label = DMAIL_LABEL if pending.sender is None else f"{DMAIL_LABEL} from {pending.sender}"
    record, made = new_checkpoint(kept, kept.next_checkpoint_id, label, preview_of(note), {})
    rewrite = rewritten(
        state,
        "dmailDelivered",
        "dmail",
        kept,
        keep_lines=line,
        records=[record, message_record(note, {SENDER: pending.sender} if pending.sender is not None else None)],
        target=target,
        made=made,
    )
    return Change(rewrite=replace(rewrite, exchange=exchange, kept_there=target.kept))


def _sound(engine: LogEngine, line: int, heal: bool) -> tuple[int, Exchange | None]:
    """Where to cut instead of at `line` if wanted, and the tool exchange that a cut there goes through."""
    exchange = open_exchange(engine, engine.state_before(line).messages)
    if exchange is not None and heal:
        exchange = healed(engine, exchange)
        line = engine.line_of_message(exchange.index)
    return line, exchange


def decide_repair(state: SessionView) -> Change:
    """Leave out the lines that are not part of history."""
    facts = timeline_facts(state.log, "unknown", state.time, {"by": "repair"})
    return external(state, Replacement(facts, keep_lines=state.log.state.lines))


def external(state: SessionView, replacement: Replacement) -> Change:
    """A rewrite that is no step of the session: nobody can undo it, and it ends redo."""
    return Change(rewrite=LogRewrite("external", replacement, state.log, state.log.state, removed={}))


def repaired(draft: Prepared, head: str, before: LogState) -> Json:
    """Result of a rewrite that is no step of the session."""
    removed = before.lines - draft.after.lines
    return set_members(head=head, timeline_id=draft.kept_as, removed_lines=removed)


def timeline_facts(log: LogReader, reason: TimelineReason, time: str, extra: Mapping[str, Any]) -> TimelineFacts:
    """Facts of the present log to record when it is set aside, with its lines that are damaged already."""
    damage = log.damage()
    known = {DAMAGED_LINES: [damaged.line for damaged in damage]} if 0 < len(damage) < DAMAGE_LIMIT else {}
    return TimelineFacts(reason, time, {**extra, **known})


def rewritten(
    state: SessionView,
    kind: RewriteKind,
    reason: TimelineReason,
    kept: LogState,
    *,
    keep_lines: int = 0,
    records: Sequence[NewRecord] = (),
    reader: LogReader | None = None,
    from_timeline: str | None = None,
    target: Checkpoint | None = None,
    made: Checkpoint | None = None,
) -> LogRewrite:
    """A rewrite to the first lines of `reader` (of the present log where None), up to `kept`, and then `records`."""
    now = state.log.state
    end = state_after(kept, records)
    extra = set_members(checkpoint_uid=target and target.uid, restored=from_timeline)
    return LogRewrite(
        kind=kind,
        replacement=Replacement(
            facts=timeline_facts(state.log, reason, state.time, extra),
            keep_lines=keep_lines,
            from_timeline=from_timeline,
            records=records,
            reuse=True,
        ),
        source=reader or state.log,
        kept=kept,
        removed={
            "messages": now.messages - end.messages,
            "checkpoints": now.checkpoints - end.checkpoints,
            "tokens": now.token_count - end.token_count,
        },
        target=target,
        made=made,
    )


def prompt_record(log: LogReader, state: LogState) -> list[NewRecord]:
    """The record of the system prompt in force at a state, without our marks; empty where there is none."""
    line = state.system_prompt_line
    return [copied(log.read(line, line + 1)[0])] if line >= 0 else []


_FARTHEST: Final = 1000  # messages that are looked at: no exchange is longer


def open_exchange(log: LogReader, messages: int) -> Exchange | None:
    """The tool exchange that the first `messages` messages of a log end in the middle of, if they do.

    Raises:
        CorruptedError: A message there is not what was written.
    """
    results: set[str] = set()
    for index in range(messages - 1, max(-1, messages - 1 - _FARTHEST), -1):
        line = log.line_of_message(index)
        found = decode_json(log.read(line, line + 1)[0])
        record: dict[str, Any] = found if isinstance(found, dict) else {}
        if log.entries(line, line + 1)[0].role is Role.ASSISTANT:
            missing = [call_id for call_id in called(record) if call_id not in results]
            return Exchange(index, tuple(missing)) if missing else None
        results |= answered(record)
    return None


def healed(log: LogReader, exchange: Exchange) -> Exchange:
    """The exchange with the index of the first message that has to go, so that what stays can be sent to a model."""
    index = exchange.index
    while (earlier := open_exchange(log, index)) is not None:
        index = earlier.index
    return replace(exchange, index=index, healed=True)
