"""What does it cost that a session lives in another process?"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.attaching import ATTACHED, MESSAGE, OWNER, Crowd, Durability, cases
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved

pytestmark = pytest.mark.bench


@pytest.fixture(autouse=True)
def _runtime_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sockets of our own, at a path that is short enough."""
    with tempfile.TemporaryDirectory(prefix="tl-") as directory:
        monkeypatch.setenv("TIMELEAP_RUNTIME_DIR", directory)
        yield


@pytest.mark.parametrize("in_flight", [1, 64])
@pytest.mark.parametrize("durability", ["disk", "os"])
def test_an_append_through_an_attached_process(tmp_path: Path, durability: Durability, in_flight: int) -> None:
    appends = 50 if in_flight == 1 else 640
    with cases(tmp_path, durability, in_flight, appends) as both:
        title = f"{appends} appends, durability {durability}, {in_flight} in flight"
        measured = interleaved(title, both, rounds=15)
    assert measured[ATTACHED].over(measured[OWNER]) <= (5 if (durability, in_flight) == ("os", 1) else 3)


WINDOWS = 20


@pytest.mark.rows("16", "16-64")
def test_what_windows_cost_the_writer(tmp_path: Path, judge: Judge) -> None:
    crowd = Crowd(tmp_path, WINDOWS, [MESSAGE] * 192, apart=True)

    def case(session: str, in_flight: int) -> Callable[[], float]:
        return lambda: crowd.append(session, in_flight)

    try:
        measured = interleaved(
            f"The owner's processor time of 192 appends, with {WINDOWS} windows",
            {
                "none attached, one at a time": case("alone", 1),
                "attached, one at a time": case("shared", 1),
                "none attached, 64 in flight": case("alone", 64),
                "attached, 64 in flight": case("shared", 64),
            },
            rounds=9,
        )
    finally:
        crowd.close()
    note = "the windows have the other cores, and the time counts until the last of them has heard of all"
    for key, flight in (("16", "one at a time"), ("16-64", "64 in flight")):
        judge(key, measured[f"attached, {flight}"], measured[f"none attached, {flight}"], per=192, note=note)


@pytest.mark.rows("17")
def test_how_soon_another_window_hears_of_an_append(tmp_path: Path, judge: Judge) -> None:
    """Also as a ratio: over what the append itself takes, from the request to the reply."""
    crowd = Crowd(tmp_path, 1, [MESSAGE] * 100)
    try:
        crowd.delays()
        rounds, appends = [], []
        for _ in range(9):
            rounds.append(statistics.quantiles(crowd.delays(), n=20)[-1] * 1e3)
            started = time.perf_counter()
            crowd.append("alone", 1)
            appends.append((time.perf_counter() - started) / 100 * 1e3)
    finally:
        crowd.close()
    ratio = statistics.median(rounds) / statistics.median(appends)
    judge("17", values=rounds, note=f"{ratio:.1f} times what the append takes until its reply")
