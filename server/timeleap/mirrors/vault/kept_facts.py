"""session/list with what is kept of the files of mirrors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.mirrors.vault.clean_up import goes_at_text
from timeleap.mirrors.vault.kept_file import bytes_of
from timeleap.mirrors.vault.notes import read_notes
from timeleap.service import session_list
from timeleap.sessions.shapes import set_members

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.service.service import Service
    from timeleap.sessions.shapes import Json


async def list_sessions(service: Service, params: Any, call: Call) -> Json:
    """Sessions of the store and those open by path, newest change first."""
    found = await session_list.list_sessions(service, params, call)
    await asyncio.to_thread(_add_kept, found["sessions"])
    return found


async def latest_session(service: Service, params: Any, call: Call) -> Json:
    """The session changed last, of those that `session/list` shows."""
    found = await session_list.latest_session(service, params, call)
    if found["session"] is not None:
        await asyncio.to_thread(_add_kept, [found["session"]])
    return found


async def list_trash(service: Service, params: Any, call: Call) -> Json:
    """Deleted sessions, newest first."""
    found = await session_list.list_trash(service, params, call)
    await asyncio.to_thread(_add_kept, found["sessions"])
    return found


def _add_kept(sessions: list[Json]) -> None:
    for session in sessions:
        source = session.get("source")
        if source is not None and "path" in source and (facts := kept_facts(Path(session["path"]), source)) is not None:
            source["kept"] = facts


def kept_facts(directory: Path, source: Json) -> Json | None:
    """`SessionInfo.source.kept` of the contract; None where nothing is kept. Blocking."""
    generations = read_notes(directory)
    if not generations:
        return None
    path = Path(source["path"])
    is_gone = not path.exists()
    return {
        "bytes": sum(bytes_of(directory, each) for each in generations),
        "generations": len(generations),
        "fileGone": is_gone,
        **set_members(goesAt=None if is_gone else goes_at_text(source["kind"], path)),
    }
