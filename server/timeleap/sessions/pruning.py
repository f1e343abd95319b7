"""Freeing space on request: which timelines go for good, and which stay all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from timeleap.errors import TimelineNotFoundError
from timeleap.failpoints import failpoint
from timeleap.sessions import events, retention
from timeleap.sessions.checkpoints import has_uid
from timeleap.sessions.outcomes import Mutation, PruneOutcome, Retention
from timeleap.sessions.session_files import quarantine_files
from timeleap.sessions.summary import fewer_steps
from timeleap.sessions.transaction import NOBODY, SessionTransactions, Transaction
from timeleap.storage.engine import Timeline

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Selection of timelines and files to remove.

    Attributes:
        limits: Timelines beyond these limits, but never the newest; None: no limits.
        older_than: Timelines set aside before this time, but never the newest.
        timeline_ids: These, the newest or not.
        quarantine: Also the torn records that recovery kept.
    """

    limits: Retention | None = None
    older_than: datetime | None = None
    timeline_ids: tuple[str, ...] = ()
    quarantine: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Timelines and files to remove, and those that were selected but stay."""

    going: tuple[Timeline, ...]
    kept: tuple[tuple[str, str], ...]
    quarantine: tuple[tuple[str, int], ...] = ()


def plan_prune(timelines: Sequence[Timeline], selection: PruneRequest, referred_to: Collection[str]) -> Plan:
    """Select the timelines to remove.

    Args:
        timelines: All of them, newest first.
        selection: The request.
        referred_to: Those that forks refer to: they stay.

    Raises:
        TimelineNotFoundError: One that was named does not exist.
    """
    known = {timeline.timeline_id for timeline in timelines}
    for name in selection.timeline_ids:
        if name not in known:
            raise TimelineNotFoundError(f"no timeline {name!r:.80}", timelineId=name)
    wanted = set(selection.timeline_ids)
    if selection.limits is not None:
        wanted |= {timeline.timeline_id for timeline in retention.excess(timelines, selection.limits, ())}
    if selection.older_than is not None:
        wanted |= {timeline.timeline_id for timeline in timelines[1:] if _older(timeline, selection.older_than)}
    selected = [timeline for timeline in timelines if timeline.timeline_id in wanted]
    return Plan(
        going=tuple(timeline for timeline in selected if timeline.timeline_id not in referred_to),
        kept=tuple((timeline.timeline_id, "fork") for timeline in selected if timeline.timeline_id in referred_to),
    )


def _older(timeline: Timeline, time: datetime) -> bool:
    try:
        created = datetime.fromisoformat(timeline.facts.created_at)
    except ValueError:
        return False  # nobody noted when
    return (created if created.tzinfo is not None else created.replace(tzinfo=UTC)) < time


class Pruning(SessionTransactions):
    """The part of a session that frees space."""

    async def prune(self, selection: PruneRequest, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Remove timelines for good.

        Raises:
            TimelineNotFoundError, ReadOnlyError, StorageFailureError: See `plan_prune`; after the last of them some may
                be gone.
        """
        if dry_run:
            await self.at_turn(lambda: self.expect_head(guard.expected_head))
            planned = await asyncio.to_thread(self._plan_prune, selection)
            return self._shapes.result(_outcome(self.head, planned))
        self._refuse_reader()

        async def work(transaction: Transaction) -> None:
            # What an earlier request left undone: also where this one asks for it again.
            await asyncio.to_thread(retention.finish, self.meta, self.engine)
            transaction.admit(self.head)
            plan = await asyncio.to_thread(self._plan_prune, selection)
            transaction.begin()
            before = self._past()
            await asyncio.to_thread(self._remove, plan, transaction.record(_outcome(self.head, plan)))
            if plan.going:
                names = ", ".join(timeline.timeline_id for timeline in plan.going[:10])
                lost = fewer_steps(before, self._past())
                text = f"{len(plan.going)} timelines were removed on request: {names}{lost}"
                cause = transaction.request.cause
                transaction.events.append(
                    events.Warned(head=self.head, kind="timelinesPruned", message=text, cause=cause)
                )

        return await self._at_its_turn(guard, work)

    def _plan_prune(self, selection: PruneRequest) -> Plan:
        engine, timelines = self.engine, self.engine.timelines()
        points = self._around.fork_points(self.session_id)
        kept = retention.referred_to(lambda uid: has_uid(engine, uid), timelines, engine.timeline, points)
        plan = plan_prune(timelines, selection, kept)
        return Plan(plan.going, plan.kept, tuple(quarantine_files(self.path)) if selection.quarantine else ())

    def _remove(self, plan: Plan, requests: list[Json]) -> None:
        names = [timeline.timeline_id for timeline in plan.going]
        going = retention.members(names, (name for name, _ in plan.quarantine))
        self._session_state.note(going, requests)
        try:
            failpoint("prune.noted")
            retention.finish(self.meta, self.engine)
            self._session_state.forget_steps()
        except BaseException:
            self._requests.forget()  # from now on the request is known: a repeat finishes it, and gets its answer
            raise


def _outcome(head: str, plan: Plan) -> PruneOutcome:
    removed = tuple((timeline.timeline_id, timeline.bytes) for timeline in plan.going)
    return PruneOutcome(head, removed, plan.kept, plan.quarantine)
