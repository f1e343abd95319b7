"""Which timelines of a session go for good, by its limits or on request (G12), and how files are deleted.

What goes on request is noted first, together with the request, then removed. So a crash in between loses neither: the next
opening removes what still is there, and a repeat of the request gets the answer it would have got.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from timeleap.errors import CorruptedError, StorageFailureError, TimelineNotFoundError
from timeleap.sessions import undo
from timeleap.sessions.checkpoints import has_uid
from timeleap.sessions.meta import Meta
from timeleap.sessions.session_files import quarantine_files
from timeleap.sessions.shapes import Retention
from timeleap.storage.durable import remove_file
from timeleap.storage.engine import LogEngine, LogReader, LogState, Prepared, Replacement, Timeline, TimelineFacts

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Selection of timelines and files to remove.

    Attributes:
        limits: Timelines beyond these limits, but never the newest; None: no limits.
        older_than: Timelines set aside before this time, but never the newest.
        timeline_ids: These, the newest or not.
        quarantine: Also the torn records that recovery kept.
    """

    limits: Retention | None = None
    older_than: datetime | None = None
    timeline_ids: tuple[str, ...] = ()
    quarantine: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Timelines and files (names and sizes) to remove, and those that were selected but stay, with the reason."""

    going: tuple[Timeline, ...]
    kept: tuple[tuple[str, str], ...]
    quarantine: tuple[tuple[str, int], ...] = ()

    def result(self, head: str) -> Json:
        """What the request is answered with."""
        sizes = [*(timeline.bytes for timeline in self.going), *(size for _, size in self.quarantine)]
        return {
            "head": head,
            "removed": [{"timelineId": timeline.timeline_id, "bytes": timeline.bytes} for timeline in self.going],
            "kept": [{"timelineId": name, "reason": reason} for name, reason in self.kept],
            "quarantine": [{"file": name, "bytes": size} for name, size in self.quarantine],
            "freedBytes": sum(sizes),
        }


def plan_prune(timelines: Sequence[Timeline], selection: PruneRequest, kept: Collection[str]) -> Plan:
    """Select the timelines to remove, of all of them, newest first; those in `kept`, which forks refer to, stay.

    Raises:
        TimelineNotFoundError: One that was named does not exist.
    """
    known = {timeline.timeline_id for timeline in timelines}
    for name in selection.timeline_ids:
        if name not in known:
            raise TimelineNotFoundError(f"no timeline {name!r:.80}", timelineId=name)
    wanted = set(selection.timeline_ids)
    if selection.limits is not None:
        wanted |= {timeline.timeline_id for timeline in excess(timelines, selection.limits, ())}
    if selection.older_than is not None:
        wanted |= {timeline.timeline_id for timeline in timelines[1:] if _older(timeline, selection.older_than)}
    selected = [timeline for timeline in timelines if timeline.timeline_id in wanted]
    return Plan(
        going=tuple(timeline for timeline in selected if timeline.timeline_id not in kept),
        kept=tuple((timeline.timeline_id, "fork") for timeline in selected if timeline.timeline_id in kept),
    )


def plan_on(
    engine: LogEngine, directory: Path, selection: PruneRequest, fork_points: Callable[[], Collection[str]]
) -> Plan:
    """`plan_prune` on a session as it is, with its quarantine. Blocking."""
    timelines = engine.timelines()
    planned = plan_prune(timelines, selection, referred_to(timelines, fork_points(), engine))
    return replace(planned, quarantine=tuple(quarantine_files(directory)) if selection.quarantine else ())


def _older(timeline: Timeline, time: datetime) -> bool:
    try:
        created = datetime.fromisoformat(timeline.facts.created_at)
    except ValueError:
        return False  # nobody noted when
    return (created if created.tzinfo is not None else created.replace(tzinfo=UTC)) < time


def excess(
    timelines: Sequence[Timeline], limits: Retention, kept: Collection[str], live: LogState | None = None
) -> list[Timeline]:
    """The timelines beyond the limits, oldest last, of all of them, newest first; those in `kept` stay all the same."""
    # What equals the live log does not count: undo and redo go from one timeline to the next, and each way there would
    # else be one log more than on the way back.
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
    timelines: Sequence[Timeline],
    fork_points: Collection[str],
    engine: LogEngine,
    reader: Callable[[str], LogReader] | None = None,
    log: tuple[LogReader, int | None] | None = None,
) -> set[str]:
    """The timelines that forks refer to: of each fork's checkpoint the newest one that has it, if the log has not.

    Args:
        timelines: All of them, newest first.
        fork_points: The checkpoints, by uid.
        engine: The session's.
        reader: Opens a timeline.
        log: In the place of the live log: the first lines of another one.
    """
    live, lines = log or (engine, None)
    missing = {uid for uid in fork_points if not has_uid(live, uid, lines)}
    kept: set[str] = set()
    for timeline in timelines:
        if not missing:
            break
        try:
            there = (reader or engine.timeline)(timeline.timeline_id)
            found = {uid for uid in missing if has_uid(there, uid)}
        except (TimelineNotFoundError, CorruptedError, StorageFailureError):
            kept.add(timeline.timeline_id)  # what cannot be read cannot be cleared of being referred to
            continue
        if found:
            kept.add(timeline.timeline_id)
            missing -= found
    return kept


def going_after(
    engine: LogEngine,
    replacement: Replacement,
    prepared: Prepared,
    limits: Retention,
    fork_points: Callable[[], Collection[str]],
) -> set[str]:
    """The timelines that will go by themselves after a rewrite: what can be undone must not be promised before."""
    present = engine.timelines()
    if prepared.replaces and prepared.equals is None:
        live, facts = engine.state, TimelineFacts()
        added = Timeline(prepared.timeline_id, "", facts, live.length, live.messages, live.checkpoints, live.chain)
        present = [added, *present]
    if not excess(present, limits, (), prepared.after):
        return set()

    def reader(timeline_id: str) -> LogReader:
        return engine if timeline_id == prepared.timeline_id else engine.timeline(timeline_id)

    restored = replacement.from_timeline
    log = (engine, replacement.keep_lines) if restored is None else (reader(restored), None)
    kept = referred_to(present, fork_points(), engine, reader, log)
    return {timeline.timeline_id for timeline in excess(present, limits, kept, prepared.after)}


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
