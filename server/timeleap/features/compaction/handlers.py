"""context/compact and prepareCompaction: choice of the summariser, and use of the summary."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from timeleap.call import to_its_end
from timeleap.errors import CompactionFailedError, InvalidInputError
from timeleap.features.compaction import openai_client
from timeleap.features.compaction.decisions import CompactionPlan, decide_compaction
from timeleap.features.compaction.prepare import (
    SUMMARISER_SYSTEM_PROMPT,
    preserved_from,
    prompt_message,
    summary_message,
    with_pins,
)
from timeleap.features.compaction.sizes import estimate_tokens_with_calls
from timeleap.features.compaction.summarizers import (
    Answer,
    Builtin,
    ClientSummarizer,
    TooLongAnswerError,
    failed,
    summarised,
)
from timeleap.message_text import called
from timeleap.service.service import guard
from timeleap.sessions.kernel.change import Change
from timeleap.sessions.shapes import Mutation, set_members
from timeleap.storage.log_values import RecordKind
from timeleap.storage.record import decode_json

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.features.compaction.summarizers import Name, Summarizer
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.branches import FoldParams, SessionMergeParams
    from timeleap_protocol.structs.compaction import CompactParams, PrepareCompactionParams

    SummaryParams = CompactParams | FoldParams | SessionMergeParams

_LINES_AT_ONCE = 1000
BY_AGENT = (
    "Claude Code keeps its conversation here, and would lose what a summary of ours stands for without getting the"
    " summary: give it its own command /compact. Nothing was changed."
)


class CompactionInput(Struct, frozen=True):
    """All messages of a session as they were at `head`, and where those begin that a compaction keeps."""

    head: str
    messages: list[dict[str, Any]]
    preserved_from: int

    @property
    def removed(self) -> list[dict[str, Any]]:
        """The messages a summary would stand for."""
        return self.messages[: self.preserved_from]


async def read_history(session: Session, max_preserved_messages: int) -> CompactionInput:
    """The whole history, and what a compaction keeps of it."""
    head, messages = await read_messages(session)
    return CompactionInput(head, messages, preserved_from(messages, max_preserved_messages))


async def read_messages(session: Session) -> tuple[str, list[dict[str, Any]]]:
    """Read the whole history, letting other requests pass now and then; the head it had."""
    head, lines = await session.at_turn(lambda: (session.head, session.engine.state.lines))
    bodies: list[bytes] = []
    for start in range(0, lines, _LINES_AT_ONCE):
        rows = session.engine.rows(start, min(start + _LINES_AT_ONCE, lines))
        bodies += [row.body for row in rows if row.kind == RecordKind.MESSAGE]
        await asyncio.sleep(0)
    return head, await asyncio.to_thread(lambda: [decode_json(body) for body in bodies])


async def prepare_compaction(service: Service, params: PrepareCompactionParams, call: Call) -> Json:
    """Prompt for a client's own summariser."""
    session = service.session(call, params)
    history = await read_history(session, params.max_preserved_messages or service.config.max_preserved_messages)
    prompt = prompt_message(history.removed, params.custom_instruction or "") if history.removed else None
    return {"systemPrompt": SUMMARISER_SYSTEM_PROMPT, "prompt": prompt, "preservedFrom": history.preserved_from}


async def compact(service: Service, params: CompactParams, call: Call) -> Json:
    """Put a summary in the place of all but the latest messages."""
    dry = bool(params.dry_run)
    session = service.session(call, params)
    made_under = guard(params, call)
    if session.meta.compacted_by_agent:
        raise CompactionFailedError(BY_AGENT, retryable=False)
    if dry:
        await session.at_turn(lambda: session.expect_head(params.expected_head))
    else:
        stored = await session.answered(made_under)
        if stored is not None:
            return stored
    history = await read_history(session, params.max_preserved_messages or service.config.max_preserved_messages)
    if not history.removed:
        reason = "nothing to compact: all messages are among those that are kept"
        return await leave_uncompacted(session, reason, made_under, dry=dry)
    try:
        name, answer = await make_summary(service, history, params, call)
    except TooLongAnswerError:
        reason = "it would make the context longer: the summariser gave back more than it got"
        return await leave_uncompacted(session, reason, made_under, dry=dry)
    call.say("comparing what is kept with what was there")
    pins = tuple(dict.fromkeys([*session.facts.pins, *(params.pins or ())]))
    plan = await asyncio.to_thread(plan_with, history, name, answer, pins)
    decide = partial(decide_compaction, plan=plan)
    if dry:
        return await session.rewrite(replace(made_under, expected_head=None), decide, dry_run=True)
    call.say("rewriting the log")
    return await to_its_end(session.rewrite(made_under, decide, dry_run=False))


async def leave_uncompacted(
    session: Session, reason: str, guard: Mutation, *, dry: bool = False, **members: Any
) -> Json:
    """Answer a compaction for which there is nothing to do; `members` are more of its result.

    Raises:
        HeadConflictError: The head is not the expected one.
    """
    if dry:
        session.expect_head(guard.expected_head)
        return {**_not_compacted(session, reason), **members}
    answer = partial(_not_compacted, session, reason)
    return await session.transactions.carry_out(guard, lambda _: Change(result={**answer(), **members}))


def _not_compacted(session: Session, reason: str) -> Json:
    summary = session.summary()
    tokens = summary.token_count_with_pending
    return {
        "head": session.head,
        "compacted": False,
        "reason": reason,
        "removedMessages": 0,
        "preservedMessages": summary.message_count,
        "tokenCountBefore": tokens,
        "tokenCountAfter": tokens,
        "context": session.transactions.shapes.summary(summary),
    }


async def make_summary(
    service: Service, history: CompactionInput, params: SummaryParams, call: Call
) -> tuple[Name, Answer]:
    """The summary and the name of its author: handed in, or made by the requested summariser."""
    if params.summary is not None:
        if not params.summary.strip():
            problem = {"loc": ["summary"], "msg": "must not be empty", "type": "summary"}
            raise InvalidInputError("summary: must not be empty", errors=[problem])
        return "caller", Answer(params.summary)
    summarizer = _chosen(service, params, call)
    made = summarised(summarizer, history.removed, params.custom_instruction or "", call)
    if isinstance(summarizer, Builtin):
        return summarizer.name, await made
    with service.waiting_elsewhere(params.session_id, call):
        return summarizer.name, await made


def _chosen(service: Service, params: SummaryParams, call: Call) -> Summarizer | Builtin:
    """The requested summariser; without a request, the first available of client, endpoint and built-in summariser.

    Raises:
        CompactionFailedError: It is not available.
    """
    settings, wanted = service.config.summarizer, params.summarizer or "auto"
    if wanted == "client" or (wanted == "auto" and call.client.can_summarize):
        if not call.client.can_summarize:
            raise failed(
                "the client has not declared that it can summarise (capabilities.experimental.timeleap)",
                "client",
                retryable=False,
            )
        window = service.config.budget.max_context_size
        return ClientSummarizer(call, params.session_id, params.custom_instruction, settings, window)
    if wanted == "server" or (wanted == "auto" and openai_client.configured(settings)):
        if not openai_client.configured(settings):
            what = "no summarising endpoint is set: summarizer.baseUrl and summarizer.model say which"
            raise failed(what, "server", retryable=False)
        if openai_client.installed():
            return openai_client.OpenAiClient(settings)
        if wanted == "server":
            what = "the summarising endpoint needs the library openai: install timeleap[openai]"
            raise failed(what, "server", retryable=False)
    return Builtin()


def plan_with(history: CompactionInput, name: Name, answer: Answer, pins: tuple[str, ...]) -> CompactionPlan:
    """Compaction with a given summary. Slow: searches it for every fact of the removed messages."""
    from timeleap.features.compaction.scorecard import score

    summary, added = with_pins(answer.text, pins)
    card = score(history.removed, summary, history.messages[history.preserved_from :])
    pinned = {"kept": len(pins) - len(added), "added": list(added)} if pins else None
    return CompactionPlan(
        history.head,
        history.preserved_from,
        summary_message(summary),
        summary,
        summary_tokens=None if added else answer.tokens,
        review={"summarizer": name, "scorecard": card, **set_members(pins=pinned)},
        calls=frozenset[str]().union(*(called(message) for message in history.removed)),
        replaced_tokens=estimate_tokens_with_calls(history.removed),
    )
