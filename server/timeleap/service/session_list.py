"""session/list, latest, delete, purge, verify, repair, prune, listAudit: sessions of the store, open or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import CorruptedError, InvalidInputError
from timeleap.service import paging
from timeleap.service.service import guard
from timeleap.sessions import shapes
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.json_files import Lines
from timeleap.sessions.documents.session_files import AUDIT_NAME, LOG_NAME
from timeleap.sessions.documents.warnings import (
    AUDIT_DAMAGED,
    FileProblem,
    conflict_warnings,
    file_problems,
    leftover_warnings,
    loss_in_words,
)
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.logs import parse_time
from timeleap.sessions.shapes import Cause, Retention
from timeleap.storage.damage import LOSSES, Damage
from timeleap.storage.durable import storage_errors
from timeleap.storage.engine import LogEngine
from timeleap.storage.load import as_reloaded
from timeleap.storage.log_files import StoredLogs
from timeleap.storage.reader import LogReader, damaged_lines
from timeleap.store.home import Trashed
from timeleap.store.listing import ListRequest
from timeleap.store.purging import PurgeOutcome, PurgeRequest
from timeleap_protocol.limits import DEFAULT_PAGE, DEFAULT_SESSION_PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import SessionPage
    from timeleap_protocol.structs.session import (
        SessionDeleteParams,
        SessionLatestParams,
        SessionListParams,
        SessionListTrashParams,
        SessionUndeleteParams,
    )
    from timeleap_protocol.structs.space import SessionPruneParams
    from timeleap_protocol.structs.trash import SessionListAuditParams, SessionPurgeParams


async def list_sessions(service: Service, params: SessionListParams, call: Call) -> Json:
    """Sessions of the store and those open by path, newest change first."""
    limit, archived = params.limit or DEFAULT_SESSION_PAGE, bool(params.include_archived)
    kind, key = (params.source.kind, params.source.key) if params.source else (None, None)
    request = ListRequest(params.cursor, limit, archived, params.query, params.workspace, kind, key)
    request = replace(request, parent=params.parent, include_subagents=bool(params.include_subagents))
    return _listing(await service.store.list(request, _open_by_path(service, call)))


async def latest_session(service: Service, params: SessionLatestParams, call: Call) -> Json:
    """The session changed last, of those that `session/list` shows."""
    page = await service.store.list(ListRequest(limit=1, workspace=params.workspace), _open_by_path(service, call))
    return {"session": page.sessions[0].wire() if page.sessions else None}


def _open_by_path(service: Service, call: Call) -> dict[str, Path]:
    """By id: directories outside of the store that this connection has open through their owners."""
    places = (attachment.place for attachment in service.attached(call).values())
    return {place.session_id: place.path for place in places if place.path is not None}


async def list_trash(service: Service, params: SessionListTrashParams, _: Call) -> Json:
    """Deleted sessions, newest first."""
    return _listing(await service.store.trash.page(cursor=params.cursor, limit=params.limit or DEFAULT_SESSION_PAGE))


def _listing(page: SessionPage) -> Json:
    return {"sessions": [info.wire() for info in page.sessions], **shapes.set_members(nextCursor=page.next_cursor)}


async def delete_session(service: Service, params: SessionDeleteParams, call: Call) -> Json:
    """Move the session to the store's trash."""
    done = await service.store.delete(params.session_id, guard(params, call))
    if not done:
        return {"duplicate": True}
    await service.drop(params.session_id)
    return {}


async def undelete_session(service: Service, params: SessionUndeleteParams, call: Call) -> Json:
    """Bring the newest deleted session of that id back."""
    done = await service.store.trash.undelete(params.session_id, guard(params, call))
    return {} if done else {"duplicate": True}


_TEXTS = frozenset(("time", "who", "requestId", "field", "approvalId", "action", "description", "toolCallId", "reason"))
IN_USE = "another process is using it"


async def purge(service: Service, params: SessionPurgeParams, call: Call) -> Json:
    """Remove sessions from the trash for good."""
    if params.deleted_at is not None and params.session_id is None:
        text = "goes with sessionId"
        raise InvalidInputError(f"deletedAt: {text}", errors=[{"loc": ["deletedAt"], "msg": text, "type": "choice"}])
    request = PurgeRequest(params.session_id, params.deleted_at, params.older_than or 0)
    if params.dry_run:
        return _purged(await service.store.trash.plan_purge(request))
    return _purged(await service.store.trash.purge(request, guard(params, call)))


def _purged(outcome: PurgeOutcome) -> Json:
    def named(session: Trashed) -> Json:
        return {"sessionId": session.session_id, "deletedAt": session.deleted_at}

    return {
        "purged": [
            {**named(session), "bytes": session.bytes, **shapes.set_members(filesRemain=session.remains or None)}
            for session in outcome.purged
        ],
        "bytes": sum(session.bytes for session in outcome.purged),
        **shapes.set_members(
            kept=[{**named(session), "reason": IN_USE} for session in outcome.kept] or None,
            duplicate=outcome.duplicate or None,
        ),
    }


class _Before(Struct, frozen=True):
    """Where a page of the audit ends: at this entry, counted from the oldest."""

    stop: Annotated[int, msgspec.Meta(ge=0)]


async def list_audit(service: Service, params: SessionListAuditParams, call: Call) -> Json:
    """Entries of a session's audit, newest first."""
    if held := service.opened(call).get(params.session_id):
        await held.session.catch_its_turn()
    stop = paging.decode_cursor(params.cursor, call.method, _Before).stop if params.cursor is not None else None

    def read() -> Lines:
        with service.store.files(params.session_id, held.session.path if held else None) as directory:
            return Audit(directory).read()

    found = await asyncio.to_thread(read)
    stop = len(found.documents) if stop is None else min(stop, len(found.documents))
    start = max(0, stop - (params.limit or DEFAULT_PAGE))
    return {
        "entries": [_entry(entry) for entry in reversed(found.documents[start:stop])],
        **shapes.set_members(
            nextCursor=paging.encode_cursor(call.method, stop=start) if start else None,
            warnings=found.problem and [{"kind": AUDIT_DAMAGED, "message": found.problem, "file": AUDIT_NAME}],
        ),
    }


def _entry(line: Json) -> Json:
    """An entry in wire form; members of another form than ours, since the file was edited, are left out."""
    shown = {"client" if name == "who" else name: value for name, value in line.items() if _fits(name, value)}
    return {**shown, "from": line.get("from"), "to": line.get("to")}


def _fits(name: str, value: Any) -> bool:
    return isinstance(value, bool) if name == "automatic" else name in _TEXTS and isinstance(value, str)


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


async def prune(service: Service, params: SessionPruneParams, call: Call) -> Json:
    """Remove timelines for good."""
    selection = _selection(service, params)
    async with service.borrowed(call, params) as session:
        return await session.prune(selection, guard(params, call), dry_run=bool(params.dry_run))


def _selection(service: Service, params: SessionPruneParams) -> PruneRequest:
    """Timelines to remove; by default those beyond the limits of the configuration."""
    usual = service.config.retention
    count, size = params.max_timelines, params.max_timeline_bytes
    named = count is not None or size is not None
    unsaid = not (named or params.older_than or params.timeline_ids or params.quarantine)
    limits = None
    if unsaid:
        limits = usual
    elif named:
        limits = Retention(_or_unlimited(count), _or_unlimited(size))
    return PruneRequest(
        limits=limits,
        older_than=parse_time(params.older_than, "olderThan") if params.older_than is not None else None,
        timeline_ids=tuple(params.timeline_ids or ()),
        quarantine=bool(params.quarantine),
    )


def _or_unlimited(limit: int | None) -> int:
    return 1 << 62 if limit is None else limit
