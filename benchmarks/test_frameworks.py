"""What does an append cost beside those of other agent frameworks?"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from benchmarks import instructions
from benchmarks.conftest import Judge
from benchmarks.corpus import messages
from benchmarks.frameworks import NAMES, Frameworks
from benchmarks.measure import interleaved
from benchmarks.parts import beyond_least
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGES: Final = messages(200)


@pytest.fixture
def frameworks() -> Iterator[Frameworks]:
    """The other frameworks."""
    program = Frameworks()
    yield program
    program.kill()


def filling(server: Server, *, opens: bool = True) -> Callable[[], float]:
    """A case: seconds to append all messages to a new session, one after the other."""
    numbers = itertools.count()

    def fill() -> float:
        session = f"bench-{next(numbers)}"
        if opens:
            server.request("session/open", {"sessionId": session})
        appends = [{"sessionId": session, "message": message} for message in MESSAGES]
        frames = server.frames("context/appendMessage", appends)
        started = time.perf_counter()
        server.answered(frames, 1)
        taken = time.perf_counter() - started
        if opens:
            server.request("session/close", {"sessionId": session})
        return taken

    return fill


@pytest.mark.rows(*(f"5-{name}" for name in NAMES))
def test_appends_beside_other_frameworks(
    tmp_path: Path,
    serve: Callable[..., Server],
    least: Callable[..., Server],
    edge: Callable[..., Server],
    frameworks: Frameworks,
    judge: Judge,
) -> None:
    """They commit to SQLite, as they do by default; ours has written before it replies, and synced in the last case."""
    numbers = itertools.count()

    def theirs(name: str) -> Callable[[], float]:
        return lambda: frameworks.append(name, tmp_path / f"{next(numbers)}.db", MESSAGES)

    measured = interleaved(
        f"{len(MESSAGES)} appends to a new session, one at a time",
        {
            "timeleap": filling(serve("--durability", "os")),
            **{name: theirs(name) for name in NAMES},
            "timeleap, synced": filling(serve()),
            "the least": filling(least(tmp_path / "least.jsonl"), opens=False),
            "the least with the guarantees": filling(least(tmp_path / "guarded.jsonl", "--guarded"), opens=False),
            "that behind our edge": filling(edge(tmp_path / "edge.jsonl"), opens=False),
        },
        rounds=7,
    )
    cases = "timeleap", "the least", "the least with the guarantees"
    at_edge = (measured["that behind our edge"].median - measured[cases[2]].median) / len(MESSAGES)
    parts = beyond_least(measured, cases, at_edge, len(MESSAGES), instructions.counted(1, "os"))
    for name in NAMES:
        synced = 1 / measured["timeleap, synced"].over(measured[name])
        judge(
            f"5-{name}",
            measured["timeleap"],
            measured[name],
            per=len(MESSAGES),
            note=f"synced: {synced:.1f} times",
            least=measured["the least"],
            guarded=measured["the least with the guarantees"],
            edge=measured["that behind our edge"],
            parts=parts,
        )
