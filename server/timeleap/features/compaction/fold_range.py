"""context/fold: a summary, or nothing, in the place of some messages."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from timeleap.call import to_its_end
from timeleap.errors import CompactionFailedError, InvalidInputError
from timeleap.features.compaction.decisions import FoldPlan, decide_fold
from timeleap.features.compaction.handlers import (
    BY_AGENT,
    CompactionInput,
    leave_uncompacted,
    make_summary,
    plan_with,
    read_messages,
)
from timeleap.features.compaction.ranges import find_range
from timeleap.features.compaction.summarizers import TooLongAnswerError
from timeleap.service.service import guard

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.features.compaction.decisions import CompactionPlan
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.branches import FoldParams

_OF_SUMMARIES = ("summary", "summarizer", "custom_instruction", "pins")
_TOO_LONG = "it would make the context longer: the summariser gave back more than it got"


async def fold(service: Service, params: FoldParams, call: Call) -> Json:
    """Put a summary, or nothing, in the place of a range of messages."""
    session, dry = service.session(call, params), bool(params.dry_run)
    made_under = guard(params, call)
    if params.drop and any(getattr(params, name) is not None for name in _OF_SUMMARIES):
        raise InvalidInputError.of(
            "drop", "nothing takes the place of what is dropped: leave out what is about a summary"
        )
    if session.meta.compacted_by_agent:
        raise CompactionFailedError(BY_AGENT, retryable=False)
    if dry:
        await session.at_turn(lambda: session.expect_head(params.expected_head))
    else:
        stored = await session.answered(made_under)
        if stored is not None:
            return stored
    plan = await session.at_turn(partial(_planned, session, params))
    if not params.drop:
        try:
            plan = replace(plan, summary=await _summary_of(service, session, plan, params, call))
        except TooLongAnswerError:
            folded = {"from": plan.start, "to": plan.stop, "messages": plan.stop - plan.start}
            return await leave_uncompacted(session, _TOO_LONG, made_under, dry=dry, folded=folded)
    decide = partial(decide_fold, plan=plan, foretold=dry)
    if dry:
        return await session.rewrite(replace(made_under, expected_head=None), decide, dry_run=True)
    call.say("rewriting the log")
    return await to_its_end(session.rewrite(made_under, decide, dry_run=False))


def _planned(session: Session, params: FoldParams) -> FoldPlan:
    start, stop = find_range(session.engine, params.from_, params.to, strict=bool(params.strict))
    return FoldPlan(session.head, start, stop)


async def _summary_of(
    service: Service, session: Session, plan: FoldPlan, params: FoldParams, call: Call
) -> CompactionPlan:
    """The summary of the messages that go, compared with them and with all that stay."""
    _, messages = await read_messages(session)
    going, stay = messages[plan.start : plan.stop], [*messages[: plan.start], *messages[plan.stop :]]
    history = CompactionInput(plan.head, [*going, *stay], len(going))
    name, answer = await make_summary(service, history, params, call)
    call.say("comparing what is kept with what was there")
    pins = tuple(dict.fromkeys([*session.facts.pins, *(params.pins or ())]))
    return await asyncio.to_thread(plan_with, history, name, answer, pins)
