"""What does going back cost, durably and undoably, beside the original, and beside a copy of the log?"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import messages, write_session
from benchmarks.measure import interleaved
from benchmarks.original import Original
from benchmarks.parts import Part
from benchmarks.server import Server

pytestmark = pytest.mark.bench

CHECKED = 5.0
"""Seconds after which a session has been checked in the background."""


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


@pytest.mark.rows("9")
def test_revert_beside_the_original(tmp_path: Path, server: Server, original: Original, judge: Judge) -> None:
    """Ours is synced and keeps the old log; the original's is not synced."""
    log = write_session(tmp_path / "session", 10_000)
    checkpoints = log.read_bytes().count(b'"_checkpoint"')
    back = checkpoints // 2
    measured = interleaved(
        "Revert 10 000 messages to the middle (48 MB)",
        {
            "original": settled(original_reverting(original, log, back, checkpoints)),
            "timeleap, durable": settled(reverting(server, log, back)),
            "copy and sync the half that stays": copying(log, tmp_path / "half", log.stat().st_size // 2),
            "copy it only": copying(log, tmp_path / "half", log.stat().st_size // 2, sync=False),
            "small durable steps": exchanging(tmp_path / "exchange"),
        },
        rounds=7,
    )
    ours, least = measured["timeleap, durable"], measured["copy and sync the half that stays"]
    copied, small = measured["copy it only"].median, measured["small durable steps"].median
    parts = [
        Part("copy the half that stays", copied, "the log from before the revert is kept whole"),
        Part("sync the copy", max(0.0, least.median - copied), "a reply means that it survives a power failure"),
        Part(
            "note, link, rename, three syncs of the directory", small, "undo; the old log or the new one after a crash"
        ),
        Part(
            "the rest",
            max(0.0, ours.median - least.median - small),
            "the requests that go, the checkpoints of the reply, each line kept compared with its checksum, the index",
        ),
    ]
    judge("9", ours, measured["original"], least=least, parts=parts)


def reverting_once(server: Server, name: str, rounds: int, *, with_ids: bool) -> Callable[[], float]:
    """A case: seconds to go back to the middle of 10 000 messages, each time of another session, since what a revert has to
    note of the requests that go is noted once."""
    sessions = [f"{name}-{number}" for number in range(rounds)]
    for session in sessions:
        server.request("session/open", {"sessionId": session})
        frames = []
        for number, message in enumerate(messages(10_000, size=0.5)):
            params = {"sessionId": session} | ({"requestId": f"m{number}"} if with_ids else {})
            if number == 5_000:
                frames += server.frames("context/checkpoint", [{"sessionId": session}])
            frames += server.frames("context/appendMessage", [{**params, "message": message}])
        server.answered(frames, 64)
    left = iter(sessions)

    def revert() -> float:
        session = next(left)
        started = time.perf_counter()
        server.request("context/revertTo", {"sessionId": session, "checkpointId": 0})
        return time.perf_counter() - started

    return revert


def test_a_revert_notes_the_requests_that_go(tmp_path: Path) -> None:
    """The newest thousand, which a repeat may come of."""
    rounds = 5
    server = Server.timeleap(tmp_path / "home", "--durability", "os")
    try:
        measured = interleaved(
            "Revert 10 000 messages to the middle, which are of requests",
            {
                name: settled(reverting_once(server, name.replace(" ", "-"), rounds + 1, with_ids=with_ids))
                for name, with_ids in (("without ids", False), ("with ids", True))
            },
            rounds=rounds,
        )
    finally:
        server.kill()
    assert measured["with ids"].over(measured["without ids"]) <= 4


def settled(case: Callable[[], float]) -> Callable[[], float]:
    """A case after which everything is on the disk: what it left to be written is not to slow the next one's sync."""

    def run() -> float:
        taken = case()
        os.sync()
        return taken

    return run


def exchanging(folder: Path) -> Callable[[], float]:
    """A case: seconds of the durable steps of a revert beside the copy: a note, the second name, the rename."""
    folder.mkdir()

    def sync_folder() -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def exchange() -> float:
        (folder / "log").write_bytes(b"old")
        (folder / "new").write_bytes(b"new")
        started = time.perf_counter()
        with (folder / "note.tmp").open("wb") as note:
            note.write(bytes(2048))
            note.flush()
            os.fsync(note.fileno())
        (folder / "note.tmp").replace(folder / "note")
        sync_folder()
        os.link(folder / "log", folder / "old")
        sync_folder()
        (folder / "new").replace(folder / "log")
        sync_folder()
        taken = time.perf_counter() - started
        (folder / "old").unlink()
        return taken

    return exchange


def copying(source: Path, target: Path, size: int, *, sync: bool = True) -> Callable[[], float]:
    """A case: seconds to copy the first bytes of a file and, unless it is not to be, to sync the copy."""

    def copy() -> float:
        started = time.perf_counter()
        with source.open("rb") as read, target.open("wb") as written:
            done = 0
            while done < size:
                done += os.copy_file_range(read.fileno(), written.fileno(), size - done)
            if sync:
                os.fsync(written.fileno())
        taken = time.perf_counter() - started
        target.unlink()
        return taken

    return copy


@pytest.mark.rows("18", "19")
def test_revert_and_undo_cost_a_copy(tmp_path: Path, server: Server, judge: Judge) -> None:
    """The log before it stays whole, as a file of its own: what is kept is compared with its checksums, and copied."""
    log = write_session(tmp_path / "session", 100_000)
    whole = tmp_path / "whole.jsonl"
    os.link(log, whole)  # the log goes from name to name
    state = server.open(log)
    session = {"sessionId": state["sessionId"]}
    middle = {**session, "checkpointId": state["context"]["nCheckpoints"] // 2}
    size, kept = whole.stat().st_size, 0

    def taken_since(started: float) -> float:
        taken = time.perf_counter() - started
        server.wait_until_freed()
        return taken

    def revert() -> float:
        started = time.perf_counter()
        server.request("context/revertTo", middle)
        return taken_since(started)

    def undo() -> float:
        started = time.perf_counter()
        server.request("context/undo", session)
        return taken_since(started)

    revert()
    kept = log.stat().st_size
    undo()
    time.sleep(CHECKED)
    measured = interleaved(
        f"Revert to the middle of 100 000 messages ({size >> 20} MB), and its undo",
        {
            "copy the half and sync it": copying(whole, tmp_path / "copy.jsonl", kept),
            "revert": revert,
            "copy the log and sync it": copying(whole, tmp_path / "copy.jsonl", size),
            "undo": undo,
        },
        rounds=7,
    )
    judge("19", measured["revert"], measured["copy the half and sync it"])
    judge("18", measured["undo"], measured["copy the log and sync it"])
