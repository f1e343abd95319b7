"""A consistent view of a session for the writers of export formats (see `source`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from timeleap.features.transfer.losses import ExportLoss, listed
from timeleap.features.transfer.source import Exhibit, Strand
from timeleap.sessions import files, session_files, undo
from timeleap.sessions.session import Session
from timeleap.sessions.statefile import FILE_NAME as STATE_NAME
from timeleap.storage.durable import status
from timeleap.storage.engine import LogReader, Timeline
from timeleap.storage.reader import StoredLog

OPEN_AT_ONCE: Final = 8  # timelines

CARRIED: Final = (
    *("createdAt", "workspace", "parent", "autoCheckpoint", "subagents", "pendingDMail", "pins"),
    *("timelines", "rotation", "importedFrom"),
)
"""Members of `timeleap.json` that mean something in another store. Seals, request ids and the parts of the head do not."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """The parts of a session that must be read in one step to be consistent."""

    live: StoredLog
    timelines: tuple[Timeline, ...]  # oldest first
    notes: dict[str, Any]
    state: dict[str, Any]
    lost: tuple[str, ...]


async def exhibit(session: Session) -> Exhibit:
    """The session as it is when all requests that came before have taken effect.

    Raises:
        StorageFailureError: Its directory cannot be read.
    """
    if session.access == "readOnly":
        await session.engine.catch_up()
    moment = await session.at_turn(lambda: _look(session))
    return await asyncio.to_thread(_exhibit, session, moment)


def _look(session: Session) -> _Moment:
    live = cast("StoredLog", session.engine.view)
    state = files.read_document(session.path / STATE_NAME)
    return _Moment(
        live=live,
        timelines=tuple(reversed(set_aside_before(live, session.engine.timelines()))),
        notes={
            **{name: value for name in CARRIED if (value := session.meta.get(name)) is not None},
            undo.MEMBER: session.stacks.members(),
        },
        state={name: value for name, value in state.members.items() if name != "approval"},
        lost=(state.problem,) if state.problem is not None else (),
    )


def set_aside_before(live: StoredLog, timelines: list[Timeline]) -> list[Timeline]:
    """The timelines there were while `live` was the live log: a reader may be overtaken by the owner, which
    sets that log aside before the timelines are listed."""
    if live.file is None:
        return timelines
    for number, timeline in enumerate(timelines):
        there = status(live.path.with_name(timeline.file))
        if there is not None and there.identity == live.file.identity and there.identity.inode:
            return timelines[number + 1 :]
    return timelines


def _exhibit(session: Session, moment: _Moment) -> Exhibit:
    reader = lru_cache(maxsize=OPEN_AT_ONCE)(session.engine.timeline)
    return Exhibit(
        session_id=session.session_id,
        uid=session.meta.uid,
        title=session.title,
        workspace=session.workspace,
        created_at=session.created_at,
        updated_at=session.updated_at,
        parent=session.parent,
        subagents=session.subagents,
        pins=session.pins,
        live=Strand(moment.live),
        timelines=tuple(_strand(timeline, reader) for timeline in moment.timelines),
        directory=session.path,
        state=moment.state,
        notes=moment.notes,
        lost=moment.lost,
        losses=_left_behind(session.path),
    )


def _strand(timeline: Timeline, reader: Callable[[str], LogReader]) -> Strand:
    log = cast("LogReader", _Opened(lambda: reader(timeline.timeline_id)))
    return Strand(log, timeline.timeline_id, timeline.facts.reason, timeline.facts.created_at or None, timeline.file)


class _Opened:
    """A log that is opened when it is used: a session may have more timelines than a process may have files open."""

    def __init__(self, opened: Callable[[], LogReader]) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)


def _left_behind(directory: Path) -> list[ExportLoss]:
    kept = ("foreign", "quarantine", "damaged")
    found = {file.name.partition("/")[0] for file in session_files.list_files(directory) if file.kind in kept}
    others = sorted(name for name in found if not name.startswith("."))
    if not others:
        return []
    return [ExportLoss("files", f"other files of the session's directory are not part of it: {listed(others)}")]
