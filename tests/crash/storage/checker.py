"""The oracle: what must hold of a directory after any crash."""

from __future__ import annotations

from pathlib import Path

from tests.crash.storage.states import State
from tests.crash.storage.workloads import Expected, Log, lines_of
from tests.unit.storage.logs import say

from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.reader import StoredLog, same_as_live
from timeleap.storage.record import message_record, strip_tl


async def complaints(log: Path, state: State, expected: Expected) -> list[str]:
    """What is wrong with the session that a crash left; nothing if all is well.

    Everything acknowledged is there, once, in order; nothing that was not asked for; an operation in flight is done
    or not; the logs that were set aside are there; and the session goes on from there.
    """
    before = _contents(log)
    follower = await JsonlEngine.open(log, access="read")
    shown = lines_of(follower)
    await follower.aclose()
    found = [] if _contents(log) == before else ["a reader wrote something"]
    torn = log.read_bytes() if log.exists() else b""
    engine = await JsonlEngine.open(log)
    live = lines_of(engine)
    allowed = expected.logs[expected.durable(state.acked) : state.started + 1]
    if live not in allowed:
        found.append(f"the log is {_short(live)}, not one of {[_short(one) for one in allowed]}")
    if shown not in (*allowed, ()):
        found.append(f"a reader saw {_short(shown)}")
    kept = _timelines(engine)
    reached = expected.durable(state.acked) + allowed.index(live) if live in allowed else state.acked
    for number, old in expected.timelines.items():
        if number <= expected.durable(reached) and old not in kept:
            found.append(f"the timeline of operation {number} is not there")
    if any(one not in expected.logs for one in kept):
        found.append("a timeline is no earlier log")
    warned = [
        one
        for one in engine.recovery.warnings
        if one.kind not in ("notAsWritten", "linesLost") or expected.durability == "disk"
    ]
    if engine.verify() or warned:
        found.append(f"damage: {engine.verify()} {warned}")
    found += _leftovers(log)
    found += _lost_bytes(log, torn, engine)
    found += _lost_before(log, state.log_before)
    head = engine.head
    await engine.aclose()
    return found + await _goes_on(log, live, head)


def _contents(log: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log.parent.iterdir()}


def _leftovers(log: Path) -> list[str]:
    """What a replacement that was cut short leaves must be gone."""
    found = [f"{path.name} is left over" for path in log.parent.iterdir() if path.suffix == ".tmp"]
    return found + [f"{path.name} is the live log" for path in same_as_live(log)]


def _lost_bytes(log: Path, before: bytes, engine: JsonlEngine) -> list[str]:
    """What is not in the log any more is in a quarantine file."""
    after = log.read_bytes()
    if not before.startswith(after) or len(after) == len(before):
        return []
    reported = engine.recovery.quarantined
    if [one.offset for one in reported] != [len(after)]:
        return [f"{len(before) - len(after)} bytes were cut, reported is {reported}"]
    if (log.parent / reported[0].file).read_bytes() != before[len(after) :]:
        return ["the quarantine file does not hold what was cut"]
    return []


def _lost_before(log: Path, before: bytes) -> list[str]:
    """What a recovery that was cut short had already cut is in a quarantine file."""
    after = log.read_bytes()
    if not before.startswith(after):
        return []
    kept = [path.read_bytes() for path in log.parent.glob("*.quarantine-*")]
    return [] if before[len(after) :] in (b"", *kept) else ["what the first recovery cut is lost"]


async def _goes_on(log: Path, live: Log, head: str) -> list[str]:
    """Reopened it is the same; an append is found again."""
    engine = await JsonlEngine.open(log)
    found = []
    if engine.head != head:
        found.append(f"the head is {engine.head}, it was {head}")
    if engine.recovery.cut_bytes:
        found.append("a second recovery cut something")
    await say(engine, "after the crash")
    await engine.aclose()
    engine = await JsonlEngine.open(log, access="read")
    if lines_of(engine) != (*live, message_record({"role": "user", "content": "after the crash"}).body):
        found.append(f"after going on the log is {_short(lines_of(engine))}")
    await engine.aclose()
    return found


def _timelines(engine: JsonlEngine) -> list[Log]:
    kept = []
    for one in engine.timelines():
        reader = engine.timeline(one.timeline_id)
        assert isinstance(reader, StoredLog)
        kept.append(tuple(strip_tl(line) for line in reader.read(0, reader.state.lines)))
    return kept


def _short(log: Log) -> list[str]:
    return [line.decode(errors="replace")[-40:] for line in log]
