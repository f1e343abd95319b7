"""Timelines that are removed for good."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from timeleap.errors import TimelineNotFoundError
from timeleap.sessions import past
from timeleap.sessions.documents.session_files import quarantine_files
from timeleap.sessions.logs import noted_time
from timeleap.sessions.shapes import WARNING, Event, Mutation, Retention
from timeleap.storage.engine import Timeline

if TYPE_CHECKING:
    from timeleap.sessions.request_table import Transaction
    from timeleap.sessions.transaction import SessionTransactions
from timeleap.json_value import Json


class PruneRequest(Struct, frozen=True):
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


class PrunePlan(Struct, frozen=True):
    """Timelines and files (names and sizes) to remove, and those that were selected but stay, with the reason."""

    going: tuple[Timeline, ...]
    kept: tuple[tuple[str, str], ...]
    quarantine: tuple[tuple[str, int], ...] = ()

    def result(self, head: str) -> Json:
        """Result of the request."""
        sizes = [*(timeline.bytes for timeline in self.going), *(size for _, size in self.quarantine)]
        return {
            "head": head,
            "removed": [{"timelineId": timeline.timeline_id, "bytes": timeline.bytes} for timeline in self.going],
            "kept": [{"timelineId": name, "reason": reason} for name, reason in self.kept],
            "quarantine": [{"file": name, "bytes": size} for name, size in self.quarantine],
            "freedBytes": sum(sizes),
        }


def plan_prune(
    timelines: Sequence[Timeline],
    selection: PruneRequest,
    kept: Collection[str],
    quarantine: Iterable[tuple[str, int]] = (),
) -> PrunePlan:
    """Select the timelines to remove, of all of them, newest first; those in `kept`, which forks refer to, stay.

    Raises:
        TimelineNotFoundError: One that was named does not exist.
    """
    known = {timeline.timeline_id for timeline in timelines}
    for name in selection.timeline_ids:
        if name not in known:
            raise TimelineNotFoundError(f"no timeline {name!r:.80}", timelineId=name)
    wanted = set(selection.timeline_ids)
    if selection.limits is not None:
        wanted |= {timeline.timeline_id for timeline in past.excess(timelines, selection.limits, ())}
    if selection.older_than is not None:
        times = ((timeline.timeline_id, noted_time(timeline.facts.created_at)) for timeline in timelines[1:])
        wanted |= {name for name, created in times if created is not None and created < selection.older_than}
    selected = [timeline for timeline in timelines if timeline.timeline_id in wanted]
    return PrunePlan(
        going=tuple(timeline for timeline in selected if timeline.timeline_id not in kept),
        kept=tuple((timeline.timeline_id, "fork") for timeline in selected if timeline.timeline_id in kept),
        quarantine=tuple(quarantine),
    )


async def prune(
    transactions: SessionTransactions, selection: PruneRequest, guard: Mutation, *, dry_run: bool = False
) -> Json:
    """Remove timelines for good (see `plan_prune`)."""

    def plan() -> PrunePlan:
        timelines = transactions.engine.timelines()
        kept = past.referred_to(timelines, transactions.fork_points(), transactions.engine)
        files = quarantine_files(transactions.path) if selection.quarantine else ()
        return plan_prune(timelines, selection, kept, files)

    if dry_run:
        await transactions.at_turn(lambda: transactions.expect_head(guard.expected_head))
        return (await asyncio.to_thread(plan)).result(transactions.head)

    async def work(transaction: Transaction) -> None:
        # What an earlier request left undone: also where this one asks for it again.
        await asyncio.to_thread(transactions.state.finish_removing)
        transaction.admit(transactions.head)
        planned = await asyncio.to_thread(plan)
        transaction.begin()
        before, lines = transactions.past(), transaction.record(planned.result(transactions.head))
        names = [timeline.timeline_id for timeline in planned.going]
        try:
            files = [name for name, _ in planned.quarantine]
            await asyncio.to_thread(transactions.state.remove_noted, names, files, lines)
        except BaseException:
            transactions.requests.forget()  # once noted the request is known: a repeat finishes it, and gets its answer
            raise
        if names:
            text = f"{len(names)} timelines were removed on request: {', '.join(names[:10])}"
            warning = {"kind": "timelinesPruned", "message": text + past.fewer_steps(before, transactions.past())}
            transaction.events.append(Event(warning["kind"], transactions.head, warning, WARNING))

    return await transactions.at_its_turn(guard, work)
