"""How much of the past a session keeps (G12): which timelines go, and how files are deleted for good.

What goes on request is noted first, together with the request, then removed. So a crash in between loses neither: the next
opening removes what still is there, and a repeat of the request gets the answer it would have got.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from timeleap.errors import CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.sessions import undo
from timeleap.sessions.checkpoints import has_uid
from timeleap.sessions.meta import Meta
from timeleap.sessions.outcomes import Retention
from timeleap.sessions.session_files import quarantine_files
from timeleap.storage.durable import remove_file
from timeleap.storage.engine import LogEngine, LogReader, LogState, Timeline


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


MEMBER = "removing"


def members(timeline_ids: Iterable[str], quarantine: Iterable[str]) -> dict[str, Any]:
    """Members of `timeleap.json` that say what is about to go."""
    going = {"timelines": list(timeline_ids), "quarantine": list(quarantine)}
    return {MEMBER: going} if any(going.values()) else {}


def finish(meta: Meta, log: LogEngine) -> None:
    """Remove what was noted to go and is still there.

    Raises:
        StorageFailureError: Some of it is there, and stays noted.
    """
    noted = meta.get(MEMBER)
    if noted is None:
        return
    timelines, quarantine = _names(noted, "timelines"), _names(noted, "quarantine")
    for timeline in log.timelines():
        if timeline.timeline_id in timelines:
            log.remove_timeline(timeline.timeline_id)
    for name, _ in quarantine_files(meta.path.parent):
        if name in quarantine:
            _remove(meta.path.parent / name)
    meta.write({MEMBER: None, "timelines": meta.without_facts(timelines)})


def remove_duplicate(meta: Meta, log: LogEngine) -> None:
    """Remove the timeline of a rewrite that was not to stay, if it is still there: one of an empty log, or of a log that
    another timeline has the bytes of.

    Raises:
        StorageFailureError: It is there, and stays noted.
    """
    member = meta.get(undo.MEMBER)
    noted = member.get("duplicate") if isinstance(member, dict) else None
    name, equals = (noted.get(key) for key in ("timelineId", "equals")) if isinstance(noted, dict) else (None, None)
    there = next((timeline for timeline in log.timelines() if timeline.timeline_id == name), None) if noted else None
    if there is None or not isinstance(equals, str):
        return
    # A program that gave that name to another log keeps it.
    if (log.same_timelines(there.timeline_id, equals) and equals != name) if equals else there.bytes == 0:
        log.remove_timeline(there.timeline_id)


def _names(noted: Any, kind: str) -> set[str]:
    many = noted.get(kind) if isinstance(noted, dict) else None
    return {name for name in many if isinstance(name, str)} if isinstance(many, list) else set()


def _remove(path: Path) -> None:
    try:
        remove_file(path)
    except OSError as error:
        raise StorageFailureError.of(error, "remove what recovery kept", path) from error
