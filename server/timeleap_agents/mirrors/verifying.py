"""session/verify, of a mirror with the program's file: does the mirror say what the file says?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.errors import TimeleapError
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.shapes import Source
from timeleap_agents.mirrors.comparing import Comparison, compared
from timeleap_agents.mirrors.folders import is_there
from timeleap_agents.mirrors.mirror import READERS
from timeleap_agents.mirrors.vault.given_back import readable_copy
from timeleap_agents.mirrors.vault.notes import read_notes

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session


async def add_comparison(service: Service, params: Any, call: Call, found: Json) -> None:
    """Add to the result for a mirror what differs from the program's file, without changing anything."""
    async with service.borrowed(call, params) as session:
        source = session.meta.source
        if source is None or source.path is None or source.kind not in READERS or found["problems"]:
            return
        try:
            found_there = await asyncio.to_thread(_compared, session, source, Path(source.path))
        except (TimeleapError, OSError) as error:
            _add(found, "warnings", "sourceUnreadable", f"the program's file was not compared: {error}")
            return
    if not await asyncio.to_thread(is_there, Path(source.path)):
        text = f"{source.path} is not there any more: compared with what is kept of it"
        _add(found, "warnings", "sourceGone", text)
    if found_there.same == found_there.in_log == found_there.in_file:
        return
    if found_there.same == found_there.in_log:
        behind = found_there.in_file - found_there.in_log
        _add(found, "warnings", "mirrorBehind", f"{source.path} has {behind} messages that are not mirrored yet")
        return
    text = (
        f"message {found_there.same} and what follows is not what {source.path} says: "
        f"`timeleap agents watch {source.kind} --once` reads it again"
    )
    where = {"line": 0, "offset": 0, "bytes": 0, "file": LOG_NAME}
    _add(found, "problems", "mirrorDiffers", text, **where)
    found["ok"] = False


def _compared(session: Session, source: Source, path: Path) -> Comparison:
    """Compare with the file; where that is gone, with what is kept of it. Blocking."""
    if is_there(path) or not read_notes(session.path):
        return _compared_with(session, source, path)
    with readable_copy(session.path, path) as copy:
        return _compared_with(session, source, copy)


def _compared_with(session: Session, source: Source, path: Path) -> Comparison:
    log = READERS[source.kind](path)
    log.read()
    return compared(session.engine, log)


def _add(found: Json, member: str, kind: str, message: str, **more: Any) -> None:
    found[member].append({"kind": kind, "message": message, **more})
