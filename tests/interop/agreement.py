"""Whether both programs restore the same from a log, whoever wrote it: we, the original, or a server over the wire."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.interop.original import Original, State

from timeleap import Context
from timeleap.storage.log_values import RecordFlag


async def our_state(log: Path) -> tuple[State, set[int]]:
    """What we restore from a log without the messages the original cannot read, and which those are."""
    async with await Context.load(log) as context:
        unreadable: set[int] = set()
        if context.history:
            engine = await context._view.engine()
            rows = engine.rows(0, engine.state.lines)
            unreadable = {row.messages_before for row in rows if row.flags & RecordFlag.UNREADABLE}
        state = State(
            history=[
                message.model_dump(mode="json", exclude_none=True)
                for index, message in enumerate(context.history)
                if index not in unreadable
            ],
            token_count=context.token_count,
            token_count_with_pending=context.token_count_with_pending,
            n_checkpoints=context.n_checkpoints,
            system_prompt=context.system_prompt,
        )
        return state, unreadable


async def assert_agree(original: Original, log: Path) -> State:
    """Both programs restore the same from a log."""
    theirs = original.restore(log)
    ours, unreadable = await our_state(log)
    if unreadable:  # their text counts for us
        ours = replace(ours, token_count_with_pending=theirs.token_count_with_pending)
    assert ours == theirs
    return theirs
