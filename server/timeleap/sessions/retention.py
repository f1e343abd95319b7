"""How much of the past a session keeps: which timelines go when there are too many (G12)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from timeleap.errors import CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.sessions.checkpoints import has_uid
from timeleap.sessions.outcomes import Retention
from timeleap.storage.engine import LogEngine, Timeline


def excess(timelines: Sequence[Timeline], limits: Retention, kept: Collection[str]) -> list[Timeline]:
    """The timelines that are to go, oldest last.

    Args:
        timelines: All of them, newest first.
        limits: How many may stay, and how many bytes of them.
        kept: Ids that stay whatever the limits say.
    """
    going: list[Timeline] = []
    counted: set[tuple[int, int]] = set()
    count = size = 0
    for position, timeline in enumerate(timelines):
        if timeline.chain and (timeline.bytes, timeline.chain) in counted:
            continue  # of equal ones the newest counts
        counted.add((timeline.bytes, timeline.chain))
        count += 1
        size += timeline.bytes
        over = count > limits.max_timelines or size > limits.max_timeline_bytes
        if over and position > 0 and timeline.timeline_id not in kept:
            going.append(timeline)
            count -= 1
            size -= timeline.bytes
    return going


def referred_to(engine: LogEngine, timelines: Sequence[Timeline], fork_points: Collection[str]) -> set[str]:
    """The timelines that forks refer to: of each fork's checkpoint the newest one that has it, if the log has not."""
    missing = {uid for uid in fork_points if not has_uid(engine, uid)}
    kept: set[str] = set()
    for timeline in timelines:
        if not missing:
            break
        try:
            log = engine.timeline(timeline.timeline_id)
            found = {uid for uid in missing if has_uid(log, uid)}
        except (TimelineNotFoundError, CorruptedError, StorageFailureError):
            kept.add(timeline.timeline_id)  # what cannot be read cannot be cleared of being referred to
            continue
        if found:
            kept.add(timeline.timeline_id)
            missing -= found
    return kept
