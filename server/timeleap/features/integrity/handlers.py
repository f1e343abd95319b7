"""session/verify, repair: the damage of a session, and its log written again without that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from timeleap.errors import CorruptedError
from timeleap.features.integrity.file_checks import conflict_warnings, file_problems, leftover_warnings
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.documents.warnings import FileProblem, loss_in_words
from timeleap.sessions.shapes import Cause
from timeleap.storage.damage import LOSSES, Damage
from timeleap.storage.durable import storage_errors
from timeleap.storage.load import as_reloaded
from timeleap.storage.log_files import StoredLogs
from timeleap.storage.reader import LogReader, damaged_lines

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.storage.engine import LogEngine


async def verify(service: Service, params: Any, call: Call) -> Json:
    """Check every record of the live log without changing anything."""
    async with service.borrowed(call, params) as session:
        engine = session.engine
        await session.catch_its_turn()
        problems = await asyncio.to_thread(engine.verify, call.byte_progress("checking the log"))
        cut = await asyncio.to_thread(StoredLogs(session.path / LOG_NAME).cut_timelines)
        files = await asyncio.to_thread(file_problems, session.path, cut)
        files += _damage_of_companions(await session.companion.look())
        leftovers = await asyncio.to_thread(leftover_warnings, session.path)
        copies = await asyncio.to_thread(conflict_warnings, session.path)
        problems = [*await asyncio.to_thread(_losses, session), *problems]
        state = engine.state
        return {
            "ok": not problems and not files,
            "lines": state.lines,
            "bytes": state.length,
            "problems": [*map(_problem, problems), *map(_problem, files)],
            "warnings": [*session.warnings, *leftovers, *copies],
        }


async def repair(service: Service, params: Any, call: Call) -> Json:
    """Rewrite the log without its damaged lines; the damaged log is kept as a timeline."""
    async with service.borrowed(call, params) as session:
        await session.catch_its_turn()
        engine = session.engine
        damaged = await asyncio.to_thread(engine.verify, call.byte_progress("checking the log"))
        lost = await asyncio.to_thread(_losses, session)
        problems = [*lost, *damaged]
        if not params.dry_run and lost and not damaged:
            await session.reload()  # what is there is taken as it is; there is nothing to take out
        if params.dry_run or not damaged:
            removed = await asyncio.to_thread(lambda: damaged_lines(_as_reloaded(engine))) if damaged else 0
            return {"head": session.head, "removedLines": removed, "problems": list(map(_problem, problems))}
        return {
            **await session.repair(cause=Cause(client=call.client.name)),
            "problems": [_problem(problem) for problem in problems],
        }


def _damage_of_companions(looked: Json) -> list[FileProblem]:
    """Tell what is wrong with what is kept beside a session, if that is damaged."""
    problems = ((key, state.get("problem") or {}) for key, state in looked.items())
    return [
        FileProblem(key, problem["kind"], problem["message"], 0)
        for key, problem in problems
        if problem.get("kind") == CorruptedError.kind
    ]


def _losses(session: Session) -> list[Damage]:
    """Tell what the log has lost and nobody has accepted, or has seen. Blocking."""
    engine = session.engine
    recovery = engine.recovery
    lost = [] if recovery.lost is None else [recovery.lost]
    if not lost and recovery.modified:
        with storage_errors("read the log", session.path / LOG_NAME):
            lost = [damage for damage in _as_reloaded(engine).damage() if damage.kind in LOSSES]
    return [replace(each, message=loss_in_words(engine, session.path / LOG_NAME, each)) for each in lost]


def _as_reloaded(engine: LogEngine) -> LogReader:
    return as_reloaded(engine.view, modified=engine.recovery.modified)


def _problem(problem: Damage | FileProblem) -> Json:
    if isinstance(problem, Damage):
        where: Json = {"line": problem.line, "offset": problem.offset}
    else:
        where = {"file": problem.file, "line": 0, "offset": 0}
    return {"kind": problem.kind, "message": problem.message, **where, "bytes": problem.bytes}
