"""What does it cost that a session lives in another process?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.attaching import ATTACHED, OWNER, Durability, cases
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
    assert measured[ATTACHED].over(measured[OWNER]) <= 3
