"""context/compact and prepareCompaction: who summarises, and what becomes of the summary."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timeleap.context import prompts
from timeleap.context.compaction import preserved_from, prompt_message, summary_message
from timeleap.errors import CompactionFailedError, InvalidInputError
from timeleap.service.guards import guard
from timeleap.service.registry import handles
from timeleap.sessions.outcomes import CompactionPlan
from timeleap.storage.engine import RecordKind
from timeleap.storage.jsontext import decode_json

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.session import Session
    from timeleap_protocol.context import CompactParams, PrepareCompactionParams

_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class History:
    """All messages of a session as they were at `head`, and where those begin that a compaction keeps."""

    head: str
    messages: list[dict[str, Any]]
    preserved_from: int

    @property
    def removed(self) -> list[dict[str, Any]]:
        """The messages a summary would stand for."""
        return self.messages[: self.preserved_from]


async def read_history(session: Session, max_preserved_messages: int) -> History:
    """Read the whole history, letting other requests pass now and then."""
    head, lines = await session.at_turn(lambda: (session.head, session.engine.state.lines))
    bodies: list[bytes] = []
    for start in range(0, lines, _LINES_AT_ONCE):
        rows = session.engine.rows(start, min(start + _LINES_AT_ONCE, lines))
        bodies += [row.body for row in rows if row.kind == RecordKind.MESSAGE]
        await asyncio.sleep(0)
    messages = await asyncio.to_thread(lambda: [decode_json(body) for body in bodies])
    return History(head, messages, preserved_from(messages, max_preserved_messages))


@handles("context/prepareCompaction")
async def prepare_compaction(service: Service, params: PrepareCompactionParams, call: Call) -> Json:
    """What a client's own summariser is to be asked."""
    session = service.session(call, params.session_id)
    history = await read_history(session, params.max_preserved_messages or service.config.max_preserved_messages)
    prompt = prompt_message(history.removed, params.custom_instruction or "") if history.removed else None
    return {
        "systemPrompt": prompts.SUMMARISER_SYSTEM_PROMPT,
        "prompt": prompt,
        "preservedFrom": history.preserved_from,
    }


@handles("context/compact")
async def compact(service: Service, params: CompactParams, call: Call) -> Json:
    """Put a summary in the place of all but the latest messages."""
    dry = bool(params.dry_run)
    session = service.session(call, params.session_id) if dry else service.writable(call, params.session_id)
    made_under = guard(params, call, service.views.compact)
    if not dry and (stored := await session.answered(made_under)) is not None:
        return stored
    history = await read_history(session, params.max_preserved_messages or service.config.max_preserved_messages)
    if not history.removed:
        reason = "nothing to compact: all messages are among those that are kept"
        return service.views.compact(session.not_compacted(reason, expected_head=params.expected_head))
    summary = await _summary(history, params, call)
    plan = CompactionPlan(history.head, history.preserved_from, summary_message(summary), summary)
    if dry:
        return service.views.compact(session.plan_compact(plan))
    call.say("writing the log anew")
    return await session.compact(plan, guard=made_under)


async def _summary(history: History, params: Any, call: Call) -> str:
    """The summary: handed in, or made by the summariser that was asked for."""
    if params.summary is not None:
        if not params.summary.strip():
            problem = {"loc": ["summary"], "msg": "must not be empty", "type": "summary"}
            raise InvalidInputError("summary: must not be empty", errors=[problem])
        return str(params.summary)
    if params.summarizer in ("client", "server"):
        raise CompactionFailedError(
            f'no "{params.summarizer}" summariser is available: use "builtin", or hand in a summary. Nothing was changed.',
            summarizer=params.summarizer,
        )
    from timeleap.context.summary import summarise

    call.say("summarising")
    return await asyncio.to_thread(summarise, history.removed, params.custom_instruction or "")
