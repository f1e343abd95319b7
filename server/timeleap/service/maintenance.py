"""session/verify and session/repair: looking at every byte, and mending what opening leaves alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from timeleap.service.mutation import cause
from timeleap.sessions import shapes
from timeleap.sessions.warnings import FileProblem, file_problems, leftover_warnings

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.storage.engine import Damage


async def verify(service: Service, params: Any, call: Call) -> Json:
    """Check every record of the live log without changing anything."""
    async with service.borrowed(call, params) as session:
        engine = session.engine
        await session.catch_its_turn()
        problems = await asyncio.to_thread(engine.verify, call.byte_progress("checking the log"))
        files = await asyncio.to_thread(file_problems, session.path)
        leftovers = await asyncio.to_thread(leftover_warnings, session.path)
        state = engine.state
        return {
            "ok": not problems and not files,
            "lines": state.lines,
            "bytes": state.length,
            "problems": [*map(_problem, problems), *map(_file_problem, files)],
            "warnings": [*session.warnings, *leftovers],
        }


async def repair(service: Service, params: Any, call: Call) -> Json:
    """Rewrite the log without its damaged lines; the damaged log is kept as a timeline."""
    async with service.borrowed(call, params) as session:
        await session.catch_its_turn()
        engine = session.engine
        problems = await asyncio.to_thread(engine.verify, call.byte_progress("checking the log"))
        if params.dry_run or not problems:
            removed = await asyncio.to_thread(lambda: engine.as_reloaded().damaged_lines()) if problems else 0
            return {"head": session.head, "removedLines": removed, "problems": list(map(_problem, problems))}
        outcome = await session.repair(cause=cause(call))
        return {
            "head": outcome.head,
            **shapes.set_members(timelineId=outcome.timeline_id),
            "removedLines": outcome.removed_lines,
            "problems": [_problem(problem) for problem in problems],
        }


def _file_problem(problem: FileProblem) -> Json:
    return {
        "kind": problem.kind,
        "message": problem.message,
        "file": problem.file,
        "line": 0,
        "offset": 0,
        "bytes": problem.bytes,
    }


def _problem(problem: Damage) -> Json:
    return {
        "kind": problem.kind,
        "message": problem.message,
        "line": problem.line,
        "offset": problem.offset,
        "bytes": problem.bytes,
    }
