"""What does going back cost, durably and undoably, beside the original, and beside a copy of the log?"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.corpus import write_session
from benchmarks.measure import interleaved
from benchmarks.original import Original
from benchmarks.server import Server

pytestmark = pytest.mark.bench


def reverting(server: Server, log: Path, back: int) -> Callable[[], float]:
    """A case: seconds to go back to before the checkpoint that is so many from the end; it is undone afterwards."""
    state = server.open(log)
    session = {"sessionId": state["sessionId"]}
    checkpoint = state["context"]["nCheckpoints"] - back

    def revert() -> float:
        started = time.perf_counter()
        done = server.request("context/revertTo", {**session, "checkpointId": checkpoint})
        taken = time.perf_counter() - started
        again = server.request("context/restoreTimeline", {**session, "timelineId": done["timelineId"]})
        gone = [done["timelineId"], again["timelineId"]]
        server.request("session/prune", {**session, "timelineIds": gone})
        return taken

    return revert


def original_reverting(original: Original, log: Path, back: int, checkpoints: int) -> Callable[[], float]:
    """The same for the original, each time on a copy: it cannot be undone there."""

    def revert() -> float:
        copy = log.parent.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copy(log, copy)
        return original.revert(copy / log.name, checkpoints - back)

    return revert


@pytest.mark.parametrize(("where", "share"), [("the middle", 0.5), ("near the end", 0.01)])
def test_revert_beside_the_original(
    tmp_path: Path, server: Server, original: Original, where: str, share: float
) -> None:
    log = write_session(tmp_path / "session", 5_000)
    checkpoints = log.read_bytes().count(b'"_checkpoint"')
    back = max(1, int(checkpoints * share))
    measured = interleaved(
        f"Revert to {where} of 5 000 messages (22 MB)",
        {
            "original": original_reverting(original, log, back, checkpoints),
            "timeleap, durable": reverting(server, log, back),
        },
        rounds=5,
    )
    assert measured["timeleap, durable"].over(measured["original"]) <= 1 / 10


def test_a_revert_costs_a_copy_of_what_stays(tmp_path: Path, server: Server) -> None:
    """The log before it stays whole, as a file of its own: what is kept is compared with its checksums, and copied."""
    log = write_session(tmp_path / "session", 100_000, size=0.1)

    def copy() -> None:
        target = tmp_path / "copy.jsonl"
        shutil.copy(log, target)
        with target.open("rb+") as file:
            os.fsync(file.fileno())

    measured = interleaved(
        "Revert by two checkpoints of 100 000 messages (58 MB)",
        {"copy the log and sync it": copy, "timeleap, durable": reverting(server, log, 2)},
        rounds=7,
    )
    assert measured["timeleap, durable"].over(measured["copy the log and sync it"]) <= 6
