"""Which timelines go when space is to be freed: pure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from timeleap.errors import TimelineNotFoundError
from timeleap.sessions.kernel.pruning import PrunePlan, PruneRequest, plan_prune
from timeleap.sessions.shapes import Retention
from timeleap.storage.log_values import Timeline, TimelineFacts

NEWEST_FIRST = [
    Timeline(f"context_{number}", f"context_{number}.jsonl", TimelineFacts("revert", created), 100, 1, 1)
    for number, created in [
        (5, "2026-01-05T00:00:00.000Z"),
        (4, ""),
        (3, "2026-01-03T00:00:00"),
        (2, "no time"),
        (1, "2026-01-01T00:00:00+05:00"),
    ]
]


def planned(wish: PruneRequest, referred_to: tuple[str, ...] = ()) -> tuple[list[int], list[int]]:
    plan: PrunePlan = plan_prune(NEWEST_FIRST, wish, referred_to)
    return [int(one.timeline_id[8:]) for one in plan.going], [int(name[8:]) for name, _ in plan.kept]


@pytest.mark.parametrize(
    ("wish", "going"),
    [
        (PruneRequest(), []),
        (PruneRequest(quarantine=True), []),
        (PruneRequest(limits=Retention(2, 10**9)), [3, 2, 1]),
        (PruneRequest(limits=Retention(10**9, 250)), [3, 2, 1]),
        (PruneRequest(limits=Retention(10**9, 0)), [4, 3, 2, 1]),
        (PruneRequest(older_than=datetime(2026, 1, 4, tzinfo=UTC)), [3, 1]),
        (PruneRequest(older_than=datetime(2026, 1, 3, tzinfo=UTC)), [1]),
        (PruneRequest(older_than=datetime(2099, 1, 1, tzinfo=UTC)), [3, 1]),
        (PruneRequest(timeline_ids=("context_5", "context_2")), [5, 2]),
        (PruneRequest(limits=Retention(3, 10**9), timeline_ids=("context_5",)), [5, 2, 1]),
    ],
)
def test_what_goes(wish: PruneRequest, going: list[int]) -> None:
    assert planned(wish) == (going, [])


def test_what_a_fork_refers_to_stays_however_it_was_asked_for() -> None:
    for wish in (
        PruneRequest(limits=Retention(1, 10**9)),
        PruneRequest(older_than=datetime(2099, 1, 1, tzinfo=UTC)),
        PruneRequest(timeline_ids=("context_3",)),
    ):
        going, kept = planned(wish, ("context_3", "context_9"))
        assert 3 not in going and kept == [3]
    assert planned(PruneRequest(timeline_ids=("context_1",)), ("context_3",)) == ([1], [])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TimelineNotFoundError):
        planned(PruneRequest(timeline_ids=("context_1", "context_9")))
