"""Compactions and folds as decisions: a summary, or nothing, in the place of messages at the beginning of a log or within
it. No I/O but looks at the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from timeleap.errors import HeadConflictError
from timeleap.features.compaction.sizes import orphan_results
from timeleap.message_text import CHARS_PER_TOKEN
from timeleap.sessions.kernel.change import Change, LogRewrite
from timeleap.sessions.kernel.rewrites import prompt_record, rewritten, timeline_facts
from timeleap.sessions.past import new_checkpoint, preview_of, read_checkpoint, state_after, uid_at
from timeleap.sessions.shapes import Checkpoint
from timeleap.storage.log_values import Edit, LogState, NewRecord, RecordFlag, RecordKind, Replacement
from timeleap.storage.record import (
    after_record,
    classify,
    copied,
    decode_json,
    message_record,
    read_tl,
    usage_record,
    with_member,
    without_batch_marks,
)

if TYPE_CHECKING:
    from timeleap.json_value import Json
    from timeleap.sessions.kernel.session_view import SessionView
    from timeleap.storage.engine import LogEngine
    from timeleap.storage.reader import LogReader

COMPACTED_LABEL: Final = "compacted"
_BATCH: Final = RecordFlag.BATCH_OPEN | RecordFlag.BATCH_TAIL


class CompactionPlan(Struct, frozen=True):
    """A compaction that was worked out on the log as it was at `head`."""

    head: str  # appends since are preserved, too; a rewrite since makes the plan void
    preserved_from: int  # index of the first message that stays; those before it are what `message` stands for
    message: Json  # the summary as a user message, the contract's preface first
    summary: str  # its text, as the result shows it
    summary_tokens: int | None = None  # of `message` as the summarising model counted them; None = estimate
    review: Json = field(default_factory=dict)  # members of the result that tell of the summary
    calls: frozenset[str] = frozenset()  # ids of the tool calls that go; a late result of theirs would be orphaned
    replaced_tokens: int = 0  # an estimate of what goes, tool calls and results included


def decide_compaction(state: SessionView, plan: CompactionPlan) -> Change:
    """Replace all messages before `plan.preserved_from` by a summary; what was appended since the plan was made is preserved.

    Raises:
        HeadConflictError: The log was rewritten since, so the summary is one of another past.
    """
    engine = state.log
    _refuse_other_past(engine, plan.head)
    prompt = prompt_record(engine, engine.state)
    summary = message_record(plan.message)
    preserved = _messages_from(engine, plan.preserved_from)
    kept_tokens = sum(record.value for record in preserved)
    if plan.summary_tokens is None:
        after = (summary.value + kept_tokens) // CHARS_PER_TOKEN
        summary_tokens = summary.value // CHARS_PER_TOKEN
    else:
        after = plan.summary_tokens + kept_tokens // CHARS_PER_TOKEN
        summary_tokens = plan.summary_tokens
    checkpoint, made = new_checkpoint(LogState(), 0, COMPACTED_LABEL, preview_of(plan.message), {})
    records = [*prompt, checkpoint, summary, *preserved, usage_record(after)]
    before = engine.state_before(engine.state.lines).token_count_with_pending
    refused = _longer(before, after, summary_tokens, plan)
    if plan.preserved_from <= 0:
        refused = "there is nothing to compact"
    elif refused is None and _parts_a_call(plan, preserved):
        refused = "a tool call that would go was answered while the summary was made: compact again"
    rewrite = replace(
        rewritten(state, "compacted", "compact", LogState(), records=records, made=made),
        refused=refused,
        answer={
            "compacted": refused is None,
            "summary": plan.summary,
            "removedMessages": plan.preserved_from,
            "preservedMessages": len(preserved),
            "tokenCountBefore": before,
            "tokenCountAfter": after,
            **plan.review,
        },
    )
    return Change(rewrite=rewrite)


def _parts_a_call(plan: CompactionPlan, preserved: Iterable[NewRecord]) -> bool:
    """True if a result among the messages that stay belongs to a call that goes."""
    return bool(plan.calls) and bool(plan.calls & orphan_results([decode_json(record.body) for record in preserved]))


def _messages_from(engine: LogEngine, index: int) -> list[NewRecord]:
    """The records of the messages from `index` on, without our marks."""
    if index >= engine.state.messages:
        return []
    start = engine.line_of_message(max(0, index))
    rows = engine.rows(start, engine.state.lines)
    return [copied(row.body) for row in rows if row.kind is RecordKind.MESSAGE]


class FoldPlan(Struct, frozen=True):
    """A fold that was worked out on the log as it was at `head`.

    Attributes:
        head: Appends since stay behind the fold; a rewrite since makes the plan void.
        start: Index of the first message that goes.
        stop: Index of the message behind the last one that goes.
        summary: The summary that takes their place; None: nothing does.
    """

    head: str
    start: int
    stop: int
    summary: CompactionPlan | None = None


def decide_fold(state: SessionView, plan: FoldPlan, foretold: bool = False) -> Change:
    """Put a summary, or nothing, in the place of messages. Lines before the first and behind the last of them stay as
    they are; of those between only the system prompt in force stays.

    Args:
        foretold: The change is not to be carried out: all of the new log is among its records.

    Raises:
        HeadConflictError: The log was rewritten since the plan was made.
    """
    log, now = state.log, state.log.state
    _refuse_other_past(log, plan.head)
    first, last = log.line_of_message(plan.start), log.line_of_message(plan.stop - 1)
    kept, there = log.state_before(first), log.entries(last, last + 1)[0].state
    records, made = list[NewRecord](), list[NewRecord]()
    if there.system_prompt_line > first:
        records += prompt_record(log, there)
    if plan.summary is not None:
        made.append(message_record(plan.summary.message))
    records += made
    characters = log.characters(0, first) + log.characters(last + 1, now.lines)
    after, summary_tokens = _tokens(plan.summary, sum(record.value for record in made), characters)
    before = log.state_before(now.lines).token_count_with_pending
    edits, closing = _edits(log, last + 1), usage_record(after)
    going, later = plan.stop - plan.start, list[Checkpoint]()
    replacement = Replacement(timeline_facts(log, "fold", state.time, {}), first, records=records, reuse=True)
    if foretold:
        tail = _tail(log, last + 1, edits)
        later = _checkpoints(log, state_after(kept, records), tail)
        replacement = replace(replacement, records=[*records, *(record for _, record in tail), closing])
    else:
        replacement = replace(replacement, resume_at=last + 1, edited=_edit_with(edits), closing=[closing])
    checkpoints = there.checkpoints - kept.checkpoints
    removed = {"messages": going - len(made), "checkpoints": checkpoints, "tokens": now.token_count - after}
    folded = {"from": plan.start, "to": plan.stop, "messages": going}
    counts = {
        "removedMessages": going,
        "preservedMessages": now.messages - going,
        "tokenCountBefore": before,
        "tokenCountAfter": after,
    }
    answer = {"compacted": True, **counts, "folded": folded}
    rewrite = LogRewrite("folded", replacement, log, kept, removed, later=later, told={"folded": folded})
    if plan.summary is not None:
        refused = _longer(before, after, summary_tokens, plan.summary)
        rewrite = replace(rewrite, refused=refused)
        answer |= {"compacted": refused is None, "summary": plan.summary.summary, **plan.summary.review}
    return Change(rewrite=replace(rewrite, answer=answer))


def _tokens(plan: CompactionPlan | None, own: int, others: int) -> tuple[int, int]:
    """The tokens of a log, and of the summary in it, which has so many characters of its own beside those of others."""
    if plan is None or plan.summary_tokens is None:
        return (own + others) // CHARS_PER_TOKEN, own // CHARS_PER_TOKEN
    return plan.summary_tokens + others // CHARS_PER_TOKEN, plan.summary_tokens


def _edit_with(edits: Mapping[int, bytes]) -> Edit | None:
    if not edits:
        return None
    return lambda line, _: edits.get(line)


def _edits(log: LogReader, first: int) -> dict[int, bytes]:
    """The text of those lines from `first` on that cannot stay as they are: the rest of a batch that is cut through on
    purpose, and checkpoints whose uid is told by what stands before them."""
    edits: dict[int, bytes] = {}
    for line in range(first, log.state.lines):
        if not log.entries(line, line + 1)[0].flags & RecordFlag.BATCH_TAIL:
            break
        edits[line] = without_batch_marks(log.read(line, line + 1)[0]).body
    for ordinal in range(log.state_before(first).checkpoints, log.state.checkpoints):
        line = log.line_of_checkpoint(ordinal)
        flags = log.entries(line, line + 1)[0].flags
        if flags & _BATCH or not flags & RecordFlag.HAS_TL:  # others were given a uid when they were written
            body = log.read(line, line + 1)[0]
            if "u" not in read_tl(body):
                edits[line] = with_member(classify(edits.get(line, body)), "u", uid_at(log, line)).body
    return edits


def _tail(log: LogReader, first: int, edits: Mapping[int, bytes]) -> list[tuple[int, NewRecord]]:
    """The records of the lines from `first` on, by line, without damaged ones."""
    rows = log.rows(first, log.state.lines)
    return [(row.line, classify(edits.get(row.line, row.body))) for row in rows if row.kind is not RecordKind.DAMAGED]


def _checkpoints(log: LogReader, state: LogState, tail: Iterable[tuple[int, NewRecord]]) -> list[Checkpoint]:
    """The checkpoints among records that are added to a log at `state`."""
    found: list[Checkpoint] = []
    for line, record in tail:
        if record.kind is RecordKind.CHECKPOINT:
            checkpoint = read_checkpoint(log, line)
            found.append(replace(checkpoint, message_count=state.messages, token_count=state.token_count))
        state = after_record(state, record)
    return found


def _refuse_other_past(engine: LogEngine, head: str) -> None:
    """Refuse a summary that was made of the log at another head, unless messages were only appended since.

    Raises:
        HeadConflictError: The log was rewritten.
    """
    now = engine.head_at(engine.state)
    if head.rpartition(".")[0] != now.rpartition(".")[0]:  # what follows the last dot changes with an append
        raise HeadConflictError("the log was rewritten while the summary was made: look at it and ask again", head=now)


def _longer(before: int, after: int, summary_tokens: int, plan: CompactionPlan) -> str | None:
    """Why a summary is not used: it is longer than what it stands for; None where it is shorter."""
    # Both: without a reported usage `before` counts text only, and the estimate falls short of what a model counted.
    if after > before and summary_tokens > plan.replaced_tokens:
        return f"it would make the context longer: {before} tokens before, {after} after"
    return None
