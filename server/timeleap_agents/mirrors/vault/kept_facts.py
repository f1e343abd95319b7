"""Facts about the kept bytes of a mirror's file, for lists of sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.sessions.shapes import set_members
from timeleap_agents.mirrors.folders import is_there
from timeleap_agents.mirrors.vault.clean_up import goes_at_text
from timeleap_agents.mirrors.vault.kept_file import bytes_of
from timeleap_agents.mirrors.vault.notes import read_notes

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service


async def add_kept(service: Service, params: Any, call: Call, result: Json) -> None:
    """Add `source.kept` to the sessions of a result, or to its one session."""
    del service, params, call
    one = result.get("session")
    await asyncio.to_thread(_add_kept, result.get("sessions", [] if one is None else [one]))


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
    is_gone = not is_there(path)
    return {
        "bytes": sum(bytes_of(directory, each) for each in generations),
        "generations": len(generations),
        "fileGone": is_gone,
        **set_members(goesAt=None if is_gone else goes_at_text(source["kind"], path)),
    }
