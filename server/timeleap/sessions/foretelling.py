"""Dry runs: a rewrite that is decided and not carried out."""

from __future__ import annotations

import asyncio
from functools import partial

from timeleap.json_value import Json
from timeleap.sessions.kernel import rewrites
from timeleap.sessions.kernel.change import Decide
from timeleap.sessions.participants import Participant
from timeleap.sessions.shapes import Mutation
from timeleap.sessions.transaction import SessionTransactions
from timeleap.storage.damage import damaged_before, new_damage, not_restored


async def foretell(
    session: SessionTransactions, request: Mutation, decide: Decide, companion_only: bool, part: Participant | None
) -> Json:
    """The result of a rewrite as far as it can be told without carrying it out.

    Raises:
        CorruptedError: The timeline it would bring back is damaged.
        TimeleapError: As `decide`, and as `part`.
    """
    result = await session.at_turn(partial(_foretold, session, request, decide, companion_only, part))
    if part is None or part.token is None:
        return result
    return {**result, **await asyncio.to_thread(part.foretell)}


def _foretold(
    session: SessionTransactions, request: Mutation, decide: Decide, companion_only: bool, part: Participant | None
) -> Json:
    session.expect_head(request.expected_head)
    change = decide(session.view)
    rewrite = change.rewrite
    assert rewrite is not None
    if part is not None:
        part.intend(change)
    if companion_only:
        return rewrites.result_of_companion(rewrite, session.head, session.shapes.summary(session.summary()))
    _refuse_damaged(session, rewrite.replacement.from_timeline)
    if rewrite.refused is not None:
        context = session.summary()
    else:
        prepared, after = rewrites.foreseen(rewrite, session.engine, session.stacks())
        context = rewrites.summary(rewrite, session.past_after(rewrite, prepared, after))
    return rewrites.result(rewrite, session.head, None, session.shapes.summary(context))


def _refuse_damaged(session: SessionTransactions, timeline_id: str | None) -> None:
    """Refuse with CorruptedError a timeline that is known not to be what was set aside."""
    engine = session.engine
    known = next((timeline for timeline in engine.timelines() if timeline.timeline_id == timeline_id), None)
    if known is not None:
        damage = new_damage(engine.timeline(known.timeline_id).damage(), damaged_before(known.facts))
        if damage:
            raise not_restored(session.path / known.file, damage[0].offset)
