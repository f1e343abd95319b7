"""bridge/listKept, bridge/restoreFile: the bytes that are kept of an agent's file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.sessions.shapes import set_members
from timeleap.storage.durable import storage_errors
from timeleap_agents.mirrors.folders import is_there
from timeleap_agents.mirrors.formats.conversion import folder_of
from timeleap_agents.mirrors.vault import given_back as restoring
from timeleap_agents.mirrors.vault import kept_rows, packing
from timeleap_agents.mirrors.vault.kept_file import bytes_of
from timeleap_agents.mirrors.vault.notes import Generation, read_notes

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Source
    from timeleap_protocol.structs.bridge import BridgeListKeptParams, BridgeRestoreFileParams

RESUMES: Final = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "gemini": ("gemini", "--resume"),
    "kimi": ("kimi", "--session"),
    "kimi-code": ("kimi", "-r"),
    "pi": ("pi", "--session"),
}
"""The command by which a program goes on in the session of an id."""


async def list_kept(service: Service, params: BridgeListKeptParams, call: Call) -> Json:
    """The generations that are kept of a mirror's file."""
    async with service.borrowed(call, params) as session:
        source = _source(session)
        return {"generations": await asyncio.to_thread(lambda: list(_listed(session.path, source)))}


def _listed(directory: Path, source: Source) -> Iterator[Json]:
    for number, generation in enumerate(reversed(read_notes(directory))):
        with storage_errors("read what is kept", directory):
            size = bytes_of(directory, generation)
            digest = generation.sha256 or packing.sha256_of(packing.blocks(directory, generation))
        ended = generation.ended
        if number == 0 and ended is None and is_gone(source, generation):
            ended = "gone"
        yield {
            "generation": generation.number,
            "bytes": size,
            "sha256": digest,
            "firstSeen": generation.first_seen,
            "lastSeen": generation.last_seen or _last_seen(directory, generation),
            **set_members(ended=ended),
        }


def is_gone(source: Source, generation: Generation | None = None) -> bool:
    """True if the program's file is not there any more. Blocking."""
    paths = [source.path, generation.path if generation is not None else None]
    return not any(path and is_there(Path(path)) for path in paths)


def _last_seen(directory: Path, generation: Generation) -> str:
    try:
        return max(generation.first_seen, clock.iso((directory / generation.name).stat().st_ctime))
    except OSError:
        return generation.first_seen


async def restore_file(service: Service, params: BridgeRestoreFileParams, call: Call) -> Json:
    """Put the program's file back, as it is kept."""
    path = None if params.path is None else Path(params.path)
    if path is not None:
        if not path.is_absolute():
            raise InvalidInputError.of("path", "must be an absolute path")
        if service.store.home.is_inside(path):
            raise InvalidInputError.of("path", "lies in the store: name a place outside of it")
    async with service.borrowed(call, params) as session:
        await session.at_turn(lambda: session.expect_head(params.expected_head))
        source = _source(session)
        old_place = Path(source.path or "")
        wanted = await asyncio.to_thread(restoring.plan, session.path, params.generation, path, old_place)
        if not params.dry_run:
            await asyncio.to_thread(_give_back, session.path, wanted, alone=path is not None)
        return {
            "path": str(wanted.path),
            "bytes": wanted.size,
            "sha256": wanted.sha256,
            "generation": wanted.generation.number,
            **set_members(resume=_resume(session, source, wanted)),
        }


def _give_back(directory: Path, wanted: restoring.FileToRestore, *, alone: bool) -> None:
    """Write a file, after those beside it which its program needs; `alone`: it is for somebody else."""
    for companion in () if alone else restoring.companions(directory, wanted.path):
        restoring.carry_out(companion)
    restoring.carry_out(wanted)


def _resume(session: Session, source: Source, wanted: restoring.FileToRestore) -> Json | None:
    """The command that goes on in the file at its old place; None where the program would not find it, or the session is
    a sub-agent's."""
    cwd = folder_of(session.facts.workspace)
    if wanted.data is not None and "/" not in source.key:
        arguments = ["-c", kept_rows.TAKE_IN, str(wanted.path), source.key]
        return {"command": "sh", "args": arguments, **set_members(cwd=cwd)}
    old_places = {source.path, wanted.generation.path}
    if source.kind not in RESUMES or "/" in source.key or str(wanted.path) not in old_places:
        return None
    command, *arguments = RESUMES[source.kind]
    return {"command": command, "args": [*arguments, source.key], **set_members(cwd=cwd)}


def _source(session: Session) -> Source:
    source = session.meta.source
    if source is None or source.path is None:
        raise InvalidInputError.of(
            "sessionId", "is not the mirror of another program's session: nothing is kept of one"
        )
    return source
