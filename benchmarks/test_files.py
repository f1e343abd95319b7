"""What do snapshots of a workspace's files cost, beside the usual recipe, and beside `git status`?"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.attaching import MESSAGE
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved
from benchmarks.server import Server
from benchmarks.tree import change, git, shadow_snapshot, used_space, write_repository

pytestmark = pytest.mark.bench

FILES = int(os.environ.get("TIMELEAP_BENCH_FILES", "50000"))
APPENDS = 500
CHANGED = range(0, FILES, FILES // 10)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed repository of many files, checked out."""
    folder = tmp_path_factory.mktemp("tree") / "project"
    write_repository(folder, FILES)
    return folder


@pytest.fixture(autouse=True)
def _all_cores() -> Iterator[None]:
    """Git is a program of its own and uses threads: both sides may have all cores here."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    yield
    os.sched_setaffinity(0, pinned)


def _opened(server: Server, tree: Path) -> dict[str, Any]:
    """Open a session with snapshots of the tree; returns the params that name it."""
    params = {"sessionId": "files", "workspace": tree.as_uri(), "files": {"mode": "checkpoint", "maxFiles": 2 * FILES}}
    server.request("session/open", params)
    return {"sessionId": "files"}


@pytest.mark.rows("22", "22-shadow", "22-disk")
def test_the_first_snapshot(tmp_path: Path, tree: Path, judge: Judge) -> None:
    numbers = itertools.count()
    disk: list[float] = []

    def ours() -> float:
        home = tmp_path / f"home{next(numbers)}"
        server = Server.timeleap(home)
        try:
            session = _opened(server, tree)
            started = time.perf_counter()
            server.request("files/snapshot", session)
            taken = time.perf_counter() - started
        finally:
            server.kill()
        disk.append(used_space(home / "files"))
        return taken

    def shadow() -> None:
        place = tmp_path / f"shadow{next(numbers)}"
        shadow_snapshot(tree, place)
        disk[-1] /= used_space(place)

    measured = interleaved(f"First snapshot of {FILES} files", {"timeleap": ours, "shadow git": shadow}, rounds=3)
    judge("22", values=measured["timeleap"].seconds)
    judge("22-shadow", measured["timeleap"], measured["shadow git"])
    judge("22-disk", values=disk)


@pytest.mark.rows("23", "23-status", "24", "25")
def test_further_snapshots_and_a_dry_run(tree: Path, server: Server, judge: Judge) -> None:
    session = _opened(server, tree)
    first = server.request("files/snapshot", session)["snapshot"]
    numbers = itertools.count()

    def snapshot(changed: int) -> None:
        assert server.request("files/snapshot", session)["changed"] == changed

    def ten_changed() -> float:
        change(tree, CHANGED, f"changed {next(numbers)}")
        started = time.perf_counter()
        snapshot(len(CHANGED))
        return time.perf_counter() - started

    def dry_run() -> None:
        told = server.request("files/restore", {**session, "to": {"snapshot": first}, "dryRun": True})
        assert told["files"]["modified"] == len(CHANGED)

    cases: dict[str, Callable[[], float | None]] = {
        "git status": lambda: git(tree, "status", "--porcelain"),
        "nothing changed": lambda: snapshot(0),
        "ten changed": ten_changed,
        "dry run": dry_run,
    }
    snapshot(0)
    ten_changed()  # so that the dry run has something to say in every round
    measured = interleaved(f"{FILES} files", cases, rounds=9)
    judge("23", values=measured["nothing changed"].seconds)
    judge("23-status", measured["nothing changed"], measured["git status"])
    judge("24", values=measured["ten changed"].seconds)
    judge("25", values=measured["dry run"].seconds)


@pytest.mark.rows("26", "26-most")
def test_another_session_while_snapshots_are_taken(tree: Path, server: Server, judge: Judge) -> None:
    """Appends, one at a time, while the same server takes one snapshot of ten changed files after the other."""
    files = _opened(server, tree)
    server.request("files/snapshot", files)
    server.request("session/open", {"sessionId": "other"})
    numbers = itertools.count()

    def snapshot() -> bytes:
        change(tree, CHANGED, f"changed again {next(numbers)}")
        return server.frames("files/snapshot", [files])[0]

    def delays(meanwhile: Callable[[], bytes] | None) -> list[float]:
        frames = server.frames("context/appendMessage", [{"sessionId": "other", "message": MESSAGE}] * APPENDS)
        return list(server.delays(frames, meanwhile))

    alone, during = list[list[float]](), list[list[float]]()
    for _ in range(9):
        alone.append(delays(None))
        during.append(delays(snapshot))
    middles = [statistics.median(a) / statistics.median(b) for a, b in zip(during, alone, strict=True)]
    note = f"{statistics.median(map(statistics.median, during)) * 1e6:.0f} us while snapshots are taken"
    judge("26", values=middles, note=note)
    judge("26-most", values=[statistics.quantiles(each, n=20)[-1] * 1e3 for each in during])
