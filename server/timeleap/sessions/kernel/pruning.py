"""Timelines that are removed for good on request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from timeleap.errors import TimelineNotFoundError
from timeleap.json_value import Json
from timeleap.sessions.kernel.change import Change, Removal
from timeleap.sessions.kernel.session_view import SessionView
from timeleap.sessions.logs import noted_time
from timeleap.sessions.past import excess, referred_to
from timeleap.sessions.shapes import Retention, json_members
from timeleap.storage.log_values import Timeline


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

    def result(self) -> Json:
        """Members of the result of the request."""
        sizes = [*(timeline.bytes for timeline in self.going), *(size for _, size in self.quarantine)]
        return json_members(
            removed=[json_members(timeline_id=timeline.timeline_id, bytes=timeline.bytes) for timeline in self.going],
            kept=[json_members(timeline_id=name, reason=reason) for name, reason in self.kept],
            quarantine=[json_members(file=name, bytes=size) for name, size in self.quarantine],
            freed_bytes=sum(sizes),
        )


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
        wanted |= {timeline.timeline_id for timeline in excess(timelines, selection.limits, ())}
    if selection.older_than is not None:
        times = ((timeline.timeline_id, noted_time(timeline.facts.created_at)) for timeline in timelines[1:])
        wanted |= {name for name, created in times if created is not None and created < selection.older_than}
    selected = [timeline for timeline in timelines if timeline.timeline_id in wanted]
    return PrunePlan(
        going=tuple(timeline for timeline in selected if timeline.timeline_id not in kept),
        kept=tuple((timeline.timeline_id, "fork") for timeline in selected if timeline.timeline_id in kept),
        quarantine=tuple(quarantine),
    )


def decide_prune(
    state: SessionView,
    selection: PruneRequest,
    fork_points: Callable[[], Collection[str]],
    quarantined: Callable[[], Iterable[tuple[str, int]]],
) -> Change:
    """Remove the selected timelines and files; `fork_points` gives the checkpoints of forks, `quarantined` what recovery
    kept. Raises as `plan_prune`."""
    timelines = state.log.timelines()
    kept = referred_to(timelines, fork_points(), state.log)
    plan = plan_prune(timelines, selection, kept, quarantined() if selection.quarantine else ())
    names = tuple(timeline.timeline_id for timeline in plan.going)
    removal = Removal(names, tuple(name for name, _ in plan.quarantine))
    return Change(removal=removal, result=plan.result())
