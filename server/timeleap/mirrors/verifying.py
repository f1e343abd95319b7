"""session/verify, of a mirror with the program's file: does the mirror say what the file says?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.errors import TimeleapError
from timeleap.mirrors.comparing import Comparison, compared
from timeleap.mirrors.mirror import READERS
from timeleap.service import session_list
from timeleap.sessions.shapes import Source

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session


async def verify(service: Service, params: Any, call: Call) -> Json:
    """Check every record of the live log, and that of a mirror with the program's file, without changing anything."""
    found = await session_list.verify(service, params, call)
    async with service.borrowed(call, params) as session:
        source = session.meta.source
        if source is None or source.path is None or source.kind not in READERS or found["problems"]:
            return found
        try:
            found_there = await asyncio.to_thread(_compared, session, source, Path(source.path))
        except (TimeleapError, OSError) as error:
            return _with(found, "warnings", "sourceUnreadable", f"the program's file was not compared: {error}")
    if found_there.same == found_there.in_log == found_there.in_file:
        return found
    if found_there.same == found_there.in_log:
        behind = found_there.in_file - found_there.in_log
        return _with(
            found, "warnings", "mirrorBehind", f"{source.path} has {behind} messages that are not mirrored yet"
        )
    text = f"message {found_there.same} and what follows is not what {source.path} says: look at its folder once more"
    where = {"line": 0, "offset": 0, "bytes": 0}
    return {**_with(found, "problems", "mirrorDiffers", text, **where), "ok": False}


def _compared(session: Session, source: Source, path: Path) -> Comparison:
    log = READERS[source.kind](path)
    log.read()
    return compared(session.engine, log)


def _with(found: Json, member: str, kind: str, message: str, **more: Any) -> Json:
    return {**found, member: [*found[member], {"kind": kind, "message": message, **more}]}
