"""How much of the past a session keeps: which timelines go when there are too many (G12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from timeleap.errors import CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.sessions.checkpoints import has_uid
from timeleap.sessions.outcomes import Retention
from timeleap.storage.engine import LogReader, LogState, Timeline


def excess(
    timelines: Sequence[Timeline], limits: Retention, kept: Collection[str], live: LogState | None = None
) -> list[Timeline]:
    """The timelines that are to go, oldest last.

    Args:
        timelines: All of them, newest first.
        limits: How many may stay, and how many bytes of them.
        kept: Ids that stay whatever the limits say.
        live: The state of the log: what equals it does not count. Undo and redo go from one timeline to the next, and each
            way there would else be one log more than on the way back.
    """
    going: list[Timeline] = []
    counted = {(live.length, live.chain)} if live is not None else set()
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


def referred_to(
    in_log: Callable[[str], bool],
    timelines: Sequence[Timeline],
    reader: Callable[[str], LogReader],
    fork_points: Collection[str],
) -> set[str]:
    """The timelines that forks refer to: of each fork's checkpoint the newest one that has it, if the log has not.

    Args:
        in_log: Returns True if the log has a checkpoint.
        timelines: All of them, newest first.
        reader: Opens one of them.
        fork_points: The checkpoints, by uid.
    """
    missing = {uid for uid in fork_points if not in_log(uid)}
    kept: set[str] = set()
    for timeline in timelines:
        if not missing:
            break
        try:
            log = reader(timeline.timeline_id)
            found = {uid for uid in missing if has_uid(log, uid)}
        except (TimelineNotFoundError, CorruptedError, StorageFailureError):
            kept.add(timeline.timeline_id)  # what cannot be read cannot be cleared of being referred to
            continue
        if found:
            kept.add(timeline.timeline_id)
            missing -= found
    return kept
