"""A real session in the terms of its model (`session_model`): what it shows, and how it is asked to do something."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

from msgspec import to_builtins as asdict
from tests.support.compacting import compact
from tests.support.plain_shapes import plain

from timeleap.features.approvals import switches
from timeleap.features.compaction.decisions import CompactionPlan
from timeleap.features.compaction.handlers import leave_uncompacted, read_history
from timeleap.features.compaction.prepare import summary_message, with_pins
from timeleap.features.compaction.summary import summarise
from timeleap.features.redaction.matchers import TextMatcher
from timeleap.features.redaction.redaction import RedactionRequest, RedactOutcome, plan_redact, redact
from timeleap.message_text import called
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause, Mutation, Retention
from timeleap.storage.log_values import RecordKind
from timeleap.storage.reader import LogReader

Json = dict[str, Any]

WIRE = {
    "append": "context/appendMessage",
    "update_token_count": "context/updateTokenCount",
    "set_system_prompt": "context/setSystemPrompt",
    "checkpoint": "context/checkpoint",
    "revert": "context/revertTo",
    "clear": "context/clear",
    "compact": "context/compact",
    "restore_timeline": "context/restoreTimeline",
    "undo": "context/undo",
    "redo": "context/redo",
    "deliver_dmail": "context/deliverDMail",
    "send_dmail": "context/sendDMail",
    "take_note": "context/sendDMail",
    "cancel_dmail": "context/cancelDMail",
    "set_pins": "context/setPins",
    "set_title": "session/setTitle",
    "archive": "session/archive",
    "unarchive": "session/unarchive",
    "put_subagent": "session/putSubagent",
    "remove_subagent": "session/removeSubagent",
    "set_yolo": "session/setYolo",
    "set_auto_approve": "session/setAutoApprove",
    "prune": "session/prune",
    "redact": "session/redact",
}


def log_of(reader: LogReader) -> list[Json]:
    """The lines of a log as the model has them."""
    found = []
    for body in reader.read(0, reader.state.lines):
        record = json.loads(body)
        marks = record.pop("_tl", {})
        found.append({"record": record, "uid": marks.get("u"), "label": marks.get("l")})
    return found


def seen(session: Session) -> Json:
    """Everything a client can see of it, asked for piece by piece where there is more than one way."""
    engine, summary = session.engine, session.summary()
    state = engine.state
    rows = [
        row
        for index in range(state.messages)
        for row in engine.rows(engine.line_of_message(index), engine.line_of_message(index) + 1)
    ]
    assert [row.messages_before for row in rows] == list(range(state.messages))
    usage = [engine.entries(line, line + 1)[0] for line in map(engine.line_of_usage, range(state.usages))]
    checkpoints = session.checkpoints(engine, 0, 10_000)
    assert list(summary.checkpoints) == checkpoints[-50:]
    timelines = engine.timelines()
    assert [one.timeline_id for one in timelines] == sorted((t.timeline_id for t in timelines), key=_number)[::-1]
    return {
        "log": [[json.dumps(one["record"], ensure_ascii=False), one["uid"], one["label"]] for one in log_of(engine)],
        "history": [_text(row.body) for row in rows if row.kind is RecordKind.MESSAGE],
        "checkpoints": [
            {name: value for name, value in asdict(one).items() if name not in ("created_at", "summary")}
            for one in checkpoints
        ],
        "usage": [[one.state.messages, one.value] for one in usage],
        "counts": [
            summary.message_count,
            summary.token_count,
            summary.token_count_with_pending,
            summary.n_checkpoints,
            summary.timelines,
        ],
        "steps": [summary.can_undo, summary.can_redo],
        "system_prompt": summary.system_prompt,
        "timelines": {
            one.timeline_id: [
                one.facts.reason,
                [
                    [json.dumps(line["record"], ensure_ascii=False), line["uid"], line["label"]]
                    for line in log_of(engine.timeline(one.timeline_id))
                ],
            ]
            for one in reversed(timelines)
        },
        "state": _state(session),
    }


async def perform(session: Session, name: str, args: Json, guard: Mutation) -> Json:
    """Ask for an operation of the model; its result as JSON has it."""
    if name == "reload":
        await session.reload()
        return {}
    if name == "compact":
        result = await _compact(session, guard=guard, **args)
    elif name in ("revert", "send_dmail"):
        rest = {key: value for key, value in args.items() if key not in ("id", "uid")}
        target = {"checkpoint_id": args.get("id"), "checkpoint_uid": args.get("uid")}
        result = await getattr(session, name)(**target, **rest, guard=guard)
    elif name == "redact":
        result = await redact(session, _order(**args), redaction_of, guard)
    elif name == "prune":
        result = await session.prune(_wish(**args), guard)
        result = {**result, "removed_ids": sorted(one["timelineId"] for one in result["removed"])}
    else:
        switch = getattr(switches, name, None)
        asked = getattr(session, name) if switch is None else partial(switch, session)
        result = await asked(**args, guard=guard)
    found = plain(json.loads(json.dumps(result)))
    assert isinstance(found, dict)
    return {"pending_dmail": None, **found} if name == "cancel_dmail" else found


async def rehearsed(session: Session, name: str, args: Json) -> Json | None:
    """What the dry run of an operation says; None where it has none."""
    if name not in ("revert", "undo", "redo", "clear", "deliver_dmail", "restore_timeline"):
        return None
    if name == "revert":
        args = {("checkpoint_" + key if key in ("id", "uid") else key): value for key, value in args.items()}
    found = plain(await getattr(session, name)(**args, dry_run=True))
    assert isinstance(found, dict)
    return found


async def planned_redaction(session: Session, text: str, replacement: str) -> Json:
    """What the dry run of a redaction says."""
    return redaction_of(await plan_redact(session, _order(text, replacement)))


def redaction_of(outcome: RedactOutcome) -> Json:
    """What was found, of which only that in logs can be foretold."""
    logs = [one for one in outcome.finds if one.kind in ("log", "timeline")]
    return {
        "head": outcome.head,
        "context": asdict(outcome.context),
        "records_of_logs": sum(one.records for one in logs),
        "occurrences_in_logs": sum(one.occurrences for one in logs),
        "found": {one.name: one.occurrences for one in outcome.finds},
    }


def summary_text(messages: list[Json], pins: list[str], words: str) -> str:
    """A summary with the pins in it: of `words`, or, where there are none, the built-in summariser's."""
    text, _ = with_pins(words or summarise(messages), pins)
    assert all(pin in text for pin in pins)
    return text


def guard_of(name: str, args: Json, request_id: str | None, expected_head: str | None) -> Mutation:
    """The circumstances of a request."""
    text = json.dumps([name, args], sort_keys=True)
    return Mutation(
        expected_head=expected_head,
        request_id=request_id,
        method=WIRE.get(name, ""),
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
        cause=Cause(request_id, "tester"),
    )


async def _compact(session: Session, guard: Mutation, summary: str, max_preserved: int) -> Json:
    if (stored := await session.answered(guard)) is not None:
        return stored
    history = await read_history(session, max_preserved)
    if not history.removed:
        return await leave_uncompacted(session, "nothing to compact", guard)
    plan = CompactionPlan(
        history.head,
        history.preserved_from,
        summary_message(summary),
        summary,
        calls=frozenset[str]().union(*(called(message) for message in history.removed)),
    )
    return await compact(session, plan, guard=guard)


def _wish(timeline_ids: list[str] | None = None, keep: int | None = None) -> PruneRequest:
    return PruneRequest(None if keep is None else Retention(keep), timeline_ids=tuple(timeline_ids or ()))


def _order(text: str, replacement: str) -> RedactionRequest:
    return RedactionRequest(TextMatcher([text]), replacement)


def _state(session: Session) -> Json:
    dmail = session.facts.pending_dmail
    return {
        "title": session.facts.title,
        "archived": session.facts.archived,
        "subagents": [asdict(one) for one in session.facts.subagents],
        "pins": list(session.facts.pins),
        "dmail": dmail and {"id": dmail.checkpoint_id, "uid": dmail.checkpoint_uid, "message": dmail.message},
        "yolo": session.facts.approval.yolo,
        "actions": list(session.facts.approval.actions),
        "auto": session.facts.auto_checkpoint,
        "workspace": session.facts.workspace,
    }


def _text(body: bytes) -> str:
    record = json.loads(body)
    record.pop("_tl", None)
    return json.dumps(record, ensure_ascii=False)


def _number(timeline_id: str) -> int:
    return int(timeline_id.rpartition("_")[2])
