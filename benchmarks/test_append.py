"""What does an append over the wire cost, beside a bare write and fdatasync, and beside the original's in its own process?"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks import instructions
from benchmarks.conftest import Judge
from benchmarks.corpus import messages
from benchmarks.measure import Measured, interleaved
from benchmarks.original import Original
from benchmarks.parts import AppendSteps, of_append
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGES: Final = messages(192)
RECORDS: Final = [json.dumps(message, ensure_ascii=False).encode() + b"\n" for message in MESSAGES]
ROUNDS: Final = 15
TOGETHER: Final = 30
"""Of 64 in flight, so many arrive in one read."""

Serve = Callable[..., Server]


def appending(server: Server, session: str, in_flight: int, *, opened: bool = False) -> Callable[[], None]:
    """A case: append all messages to a session, so many in flight."""
    if not opened:
        server.request("session/open", {"sessionId": session})
    frames = server.frames(
        "context/appendMessage", [{"sessionId": session, "message": message} for message in MESSAGES]
    )
    return lambda: server.answered(frames, in_flight)


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[AppendSteps]:
    """The steps of the appends, each alone."""
    bodies = [{"id": at, "method": "", "params": {"message": message}} for at, message in enumerate(MESSAGES)]
    made = AppendSteps(tmp_path, [json.dumps(body).encode() for body in bodies])
    yield made
    made.close()


@pytest.mark.rows("1", "2", "3")
def test_appends_beside_the_original(
    tmp_path: Path, serve: Serve, least: Serve, edge: Serve, original: Original, steps: AppendSteps, judge: Judge
) -> None:
    """The original appends in its own process, and does not sync."""
    log = tmp_path / "original.jsonl"
    written, synced = serve("--durability", "os"), serve()
    writing, syncing = least(tmp_path / "written.jsonl"), least(tmp_path / "synced.jsonl", "--synced")
    guarding = least(tmp_path / "guarded.jsonl", "--guarded")
    guarding_synced = least(tmp_path / "guarded_synced.jsonl", "--guarded", "--synced")
    behind = edge(tmp_path / "edge.jsonl")
    measured = interleaved(
        f"{len(MESSAGES)} appends",
        {
            "original, in process, not synced": lambda: original.append(log, MESSAGES),
            "timeleap, written, one at a time": appending(written, "alone", 1),
            "timeleap, written, 64 in flight": appending(written, "many", 64),
            "timeleap, synced, 64 in flight": appending(synced, "synced", 64),
            "the least, written, one at a time": appending(writing, "", 1, opened=True),
            "the least, written, 64 in flight": appending(writing, "", 64, opened=True),
            "the least, synced, 64 in flight": appending(syncing, "", 64, opened=True),
            "the least with the guarantees, one at a time": appending(guarding, "", 1, opened=True),
            "the least with the guarantees, 64 in flight": appending(guarding, "", 64, opened=True),
            "the least with the guarantees, synced, 64 in flight": appending(guarding_synced, "", 64, opened=True),
            "that behind our edge, one at a time": appending(behind, "least", 1, opened=True),
            "that behind our edge, 64 in flight": appending(behind, "least", 64, opened=True),
            **steps.cases(),
        },
        rounds=ROUNDS,
    )
    theirs, *others = measured.values()
    counts = (1, "os"), (TOGETHER, "os"), (TOGETHER, "disk")
    for at, (key, count) in enumerate(zip(("1", "2", "3"), counts, strict=True)):
        mine, its, guarded = others[at : at + 9 : 3]
        alone = key == "1"
        straight, behind_edge = (others[6], others[9]) if alone else (others[7], others[10])
        seconds = (behind_edge.median - straight.median) / len(MESSAGES)
        if key == "3":  # behind the edge a sync would be waited for on the event loop: its cost is that without one
            rounds = zip(guarded.seconds, behind_edge.seconds, straight.seconds, strict=True)
            behind_edge = Measured("behind our edge, synced", tuple(synced + e - s for synced, e, s in rounds))
        cases = mine.name, its.name, guarded.name
        parts = of_append(measured, cases, seconds, len(MESSAGES), instructions.counted(*count), together=not alone)
        note = "messages of 4.4 KB on average, as in real sessions"
        judge(
            key,
            mine,
            theirs,
            per=len(MESSAGES),
            note=note,
            least=its,
            guarded=guarded,
            edge=behind_edge,
            parts=parts,
        )


def turns() -> list[tuple[str, Any]]:
    """The messages as agents write them: a checkpoint before each of the user's, a token count after each answer."""
    steps: list[tuple[str, Any]] = []
    for number, message in enumerate(MESSAGES):
        steps += [("checkpoint", None)] if message["role"] == "user" else []
        steps.append(("message", message))
        steps += [("usage", 100 * number)] if message["role"] == "assistant" else []
    return steps


def taking_turns(server: Server, session: str, steps: list[tuple[str, Any]], in_flight: int) -> Callable[[], None]:
    """A case: the steps, each with a request id, as a client has them that repeats what it got no answer to."""
    server.request("session/open", {"sessionId": session})
    methods = {
        "message": ("context/appendMessage", "message"),
        "checkpoint": ("context/checkpoint", "label"),
        "usage": ("context/updateTokenCount", "tokenCount"),
    }
    rounds = itertools.count()

    def run() -> None:
        round_id, frames = next(rounds), list[bytes]()
        for number, (kind, value) in enumerate(steps):
            method, name = methods[kind]
            frames += server.frames(
                method, [{"sessionId": session, "requestId": f"{session}-{round_id}-{number}", name: value}]
            )
        server.answered(frames, in_flight)

    return run


@pytest.mark.rows("45", "45-64")
def test_turns_beside_the_original(tmp_path: Path, serve: Serve, original: Original, judge: Judge) -> None:
    """The making of the frames counts for ours: a client has to make them, too."""
    log, steps = tmp_path / "original.jsonl", turns()
    written = serve("--durability", "os")
    measured = interleaved(
        f"{len(steps)} steps of turns",
        {
            "original, in process, not synced": lambda: original.turns(log, steps),
            "timeleap, written, one at a time": taking_turns(written, "alone", steps, 1),
            "timeleap, written, 64 in flight": taking_turns(written, "many", steps, 64),
        },
        rounds=ROUNDS,
    )
    theirs, alone, many = measured.values()
    note = "checkpoints, messages of 4.4 KB on average and token counts as in real sessions, each with a request id"
    judge("45", alone, theirs, per=len(steps), note=note)
    judge("45-64", many, theirs, per=len(steps), note=note)


class Bare:
    """A file that is written and synced record by record."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._sync = getattr(os, "fdatasync", os.fsync)

    def append(self) -> None:
        """Write and sync all records, one after the other."""
        for record in RECORDS:
            os.write(self._fd, record)
            self._sync(self._fd)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    file = Bare(tmp_path / "bare.jsonl")
    yield file
    file.close()


@pytest.mark.rows("4")
def test_a_synced_append_costs_little_more_than_the_disk(
    tmp_path: Path, bare: Bare, server: Server, least: Serve, judge: Judge
) -> None:
    measured = interleaved(
        f"{len(MESSAGES)} synced appends, one at a time",
        {
            "write + fdatasync": bare.append,
            "timeleap": appending(server, "bench", 1),
            "the least": appending(least(tmp_path / "least.jsonl", "--synced"), "", 1, opened=True),
        },
        rounds=ROUNDS,
    )
    theirs, ours, its = measured.values()
    judge("4", ours, theirs, per=len(MESSAGES), least=its)


def test_synced_appends_in_flight_together_share_the_disks_work(bare: Bare, server: Server) -> None:
    measured = interleaved(
        f"{len(MESSAGES)} synced appends, 64 in flight",
        {"write + fdatasync, one by one": bare.append, "timeleap": appending(server, "bench", 64)},
        rounds=ROUNDS,
    )
    assert measured["timeleap"].over(measured["write + fdatasync, one by one"]) <= 1.0
