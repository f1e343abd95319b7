"""An append through an attached process costs at most three times one through the owner; five times where nothing is
synced and one is made at a time, which is then little but the way from process to process, three times as long.

`make bench` prints the numbers; here only the ratio counts. Other tests at the same time would be measured, too: each of
the steps from process to process waits for them. All processes share one core: else chance decides which of them do,
and each step between two costs several times as much. A machine that does other things besides gets several chances.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.attaching import ATTACHED, OWNER, Durability, cases
from benchmarks.measure import interleaved
from tests.support.server import runtime_directory

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300)]

CHANCES = 20


@pytest.fixture(autouse=True)
def _one_core() -> Iterator[None]:
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("in_flight", [1, 64])
@pytest.mark.parametrize("durability", ["disk", "os"])
def test_an_append_through_an_attached_process_costs_little_more(
    tmp_path: Path, durability: Durability, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_directory()))
    ratios: list[float] = []
    most = 5 if durability == "os" else 3  # without a sync the way between the processes is most of it
    while len(ratios) < CHANCES and min(ratios, default=9.0) > most:
        home = tmp_path / str(len(ratios))
        with cases(home, durability, in_flight, appends=40 if in_flight == 1 else 256) as both:
            measured = interleaved(f"{durability}, {in_flight} in flight", both, rounds=9)
        ratios.append(measured[ATTACHED].over(measured[OWNER]))
    assert min(ratios) <= most, ratios
