"""Files to be deleted for good on request: noted first, together with the request, then removed.

So a crash in between loses neither: the next opening removes what still is there, and a repeat of the request gets the
answer it would have got.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from timeleap.errors import StorageFailureError
from timeleap.sessions import undo
from timeleap.sessions.meta import Meta
from timeleap.sessions.session_files import quarantine_files
from timeleap.storage.durable import remove_file
from timeleap.storage.engine import LogEngine

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
