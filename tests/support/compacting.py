"""Compactions of a session as tests make them, with a plan of their own."""

from __future__ import annotations

from functools import partial

from timeleap.features.compaction.decisions import CompactionPlan, decide_compaction
from timeleap.json_value import Json
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation
from timeleap.sessions.transaction import NOBODY


async def compact(session: Session, plan: CompactionPlan, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
    """Carry out a compaction that was planned, or foretell it."""
    return await session.rewrite(guard, partial(decide_compaction, plan=plan), dry_run)
