"""What do snapshots of a workspace's files cost, beside the usual recipe, and beside `git status`?"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.attaching import MESSAGE
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved
from benchmarks.server import Server
from benchmarks.tree import change, git, shadow_snapshot, used_space, write_repository

pytestmark = pytest.mark.bench

APPENDS: Final = 500


@dataclass(frozen=True)
class Tree:
    """A packed repository of many files, checked out.

    Attributes:
        folder: Where it is.
        files: How many.
        first_rounds: How often its first snapshot is taken beside the shadow repository's, which takes minutes of the
            largest.
    """

    folder: Path
    files: int
    first_rounds: int

    @property
    def ten(self) -> range:
        """The numbers of ten files, far from each other."""
        return range(0, self.files, self.files // 10)

    @property
    def small(self) -> bool:
        """Whether limits in seconds are for it; those of the larger are times of `git status`."""
        return self.files <= 50_000


@pytest.fixture(scope="module", params=[(50_000, 3), (500_000, 1)], ids=["50 000 files", "500 000 files"])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    files, rounds = request.param
    folder = tmp_path_factory.mktemp("tree") / "project"
    write_repository(folder, files)
    return Tree(folder, files, rounds)


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


def _opened(server: Server, tree: Tree) -> dict[str, Any]:
    """Open a session with snapshots of the tree; returns the params that name it."""
    files = {"mode": "checkpoint", "maxFiles": 2 * tree.files}
    server.request("session/open", {"sessionId": "files", "workspace": tree.folder.as_uri(), "files": files})
    return {"sessionId": "files"}


@pytest.mark.rows("22", "22-shadow", "22-disk", "27-shadow", "27-disk")
def test_the_first_snapshot(tmp_path: Path, tree: Tree, judge: Judge) -> None:
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
        shadow_snapshot(tree.folder, place)
        disk[-1] /= used_space(place)
        shutil.rmtree(place)

    cases: dict[str, Callable[[], float | None]] = {"timeleap": ours, "shadow git": shadow}
    measured = interleaved(f"First snapshot of {tree.files} files", cases, rounds=tree.first_rounds)
    if tree.small:
        judge("22", values=measured["timeleap"].seconds)
    judge("22-shadow" if tree.small else "27-shadow", measured["timeleap"], measured["shadow git"])
    judge("22-disk" if tree.small else "27-disk", values=disk)


@pytest.mark.rows("23", "23-status", "24", "25", "27-none", "27-ten", "27-dry")
def test_further_snapshots_and_a_dry_run(tree: Tree, server: Server, judge: Judge) -> None:
    session = _opened(server, tree)
    first = server.request("files/snapshot", session)["snapshot"]
    numbers = itertools.count()

    def snapshot(changed: int) -> None:
        assert server.request("files/snapshot", session)["changed"] == changed

    def ten_changed() -> float:
        change(tree.folder, tree.ten, f"changed {next(numbers)}")
        started = time.perf_counter()
        snapshot(len(tree.ten))
        return time.perf_counter() - started

    def dry_run() -> None:
        told = server.request("files/restore", {**session, "to": {"snapshot": first}, "dryRun": True})
        assert told["files"]["modified"] == len(tree.ten)

    cases: dict[str, Callable[[], float | None]] = {
        "git status": lambda: git(tree.folder, "status", "--porcelain"),
        "nothing changed": lambda: snapshot(0),
        "ten changed": ten_changed,
        "dry run": dry_run,
    }
    snapshot(0)
    ten_changed()  # so that the dry run has something to say in every round
    measured = interleaved(f"{tree.files} files", cases, rounds=9)
    status = measured["git status"]
    if tree.small:
        judge("23", values=measured["nothing changed"].seconds)
        judge("23-status", measured["nothing changed"], status)
        judge("24", values=measured["ten changed"].seconds)
        judge("25", values=measured["dry run"].seconds)
    else:
        judge("27-none", measured["nothing changed"], status)
        judge("27-ten", measured["ten changed"], status)
        judge("27-dry", measured["dry run"], status)


@pytest.mark.rows("26", "26-most", "27-append", "27-append-most")
def test_another_session_while_snapshots_are_taken(tree: Tree, server: Server, judge: Judge) -> None:
    """Appends, one at a time, while the same server takes one snapshot of ten changed files after the other."""
    files = _opened(server, tree)
    server.request("files/snapshot", files)
    server.request("session/open", {"sessionId": "other"})
    numbers = itertools.count()

    def snapshot() -> bytes:
        change(tree.folder, tree.ten, f"changed again {next(numbers)}")
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
    judge("26" if tree.small else "27-append", values=middles, note=note)
    most = [statistics.quantiles(each, n=20)[-1] * 1e3 for each in during]
    judge("26-most" if tree.small else "27-append-most", values=most)
