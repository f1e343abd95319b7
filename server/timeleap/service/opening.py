"""session/open, close, getState, reload, fork: the ways into a session and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.errors import InvalidInputError
from timeleap.service.audience import recovered
from timeleap.service.guards import fingerprint
from timeleap.service.registry import handles
from timeleap.sessions.events import Recovered
from timeleap.sessions.outcomes import Cause, Guard

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Access, Held, Service
    from timeleap.service.views import Json
    from timeleap.sessions.session import Session
    from timeleap_protocol.session import (
        SessionCloseParams,
        SessionForkParams,
        SessionGetStateParams,
        SessionOpenParams,
        SessionReloadParams,
    )


@handles("session/open")
async def open_session(service: Service, params: SessionOpenParams, call: Call) -> Json:
    """Open or create a session; a repeat on the same connection is counted."""
    path = _absolute(params.path)
    wanted = _access(service, params.access, path)
    if held := _already_held(service, call, params.session_id, path):
        setting = params.auto_checkpoint
        if setting is not None and setting != held.session.auto_checkpoint and held.access == wanted == "owner":
            await held.session.set_auto_checkpoint(setting)
        duplicate = await service.store.made_by(held.session.session_id, _creation_guard(params, call))
        opened_again = _opened_again(service, call, held, wanted)
        await opened_again.session.keep_auto_checkpoint(params.auto_checkpoint)
        return _answer(service, opened_again, duplicate)
    opened = await service.store.open(
        params.session_id,
        path=path,
        create=params.create is not False,
        access="write" if wanted == "owner" else "read",
        title=params.title,
        system_prompt=params.system_prompt,
        workspace=params.workspace,
        auto_checkpoint=params.auto_checkpoint,
        guard=_creation_guard(params, call),
        progress=call.byte_progress("reading the log"),
    )
    access: Access = "owner" if wanted == "owner" and opened.session.access == "owner" else "readOnly"
    held = service.hold(call, opened.session, access)
    _tell_recovery(call, opened.session)
    return _answer(service, held, opened.duplicate)


def _answer(service: Service, held: Held, duplicate: bool) -> Json:
    state = service.views.state(held.session, held.access)
    return {**state, "duplicate": True} if duplicate else state


def _absolute(path: str | None) -> Path | None:
    if path is None:
        return None
    found = Path(path)
    if not found.is_absolute():
        problem = {"loc": ["path"], "msg": "must be an absolute path", "type": "path"}
        raise InvalidInputError("path: must be an absolute path", errors=[problem])
    return found


def _access(service: Service, asked: str | None, path: Path | None) -> Access:
    """`access` as asked for; unasked, what lies outside the store is only looked at."""
    if asked is None:
        return "readOnly" if path is not None and not service.store.contains(path) else "owner"
    return "owner" if asked == "write" else "readOnly"


def _already_held(service: Service, call: Call, session_id: str | None, path: Path | None) -> Held | None:
    if session_id is not None:
        return service.if_held(call, session_id)
    return service.held_at(call, path) if path is not None else None


def _opened_again(service: Service, call: Call, held: Held, wanted: Access) -> Held:
    if held.access != wanted:
        problem = {"loc": ["access"], "msg": f"is open as {held.access}: close it first", "type": "access"}
        raise InvalidInputError(f"access: session {held.session.session_id} {problem['msg']}", errors=[problem])
    return service.hold(call, held.session, held.access)


def _creation_guard(params: Any, call: Call) -> Guard:
    request_id = params.request_id
    return Guard(
        request_id=request_id,
        method=call.method,
        fingerprint=fingerprint(call.method, params) if request_id else "",
        cause=Cause(request_id=request_id, client=call.client.name),
    )


def _tell_recovery(call: Call, session: Session) -> None:
    """Report what opening mended, to the connection whose request opened the session."""
    recovery = session.engine.recovery
    if recovery.quarantined or recovery.cut_bytes:
        event = Recovered(head=session.head, quarantined=recovery.quarantined, cut_bytes=recovery.cut_bytes)
        call.client.notify("session/didRecover", recovered(session.session_id, event))


@handles("session/close")
async def close_session(service: Service, params: SessionCloseParams, call: Call) -> Json:
    """Undo one open."""
    await service.let_go(call, params.session_id)
    return {}


@handles("session/getState")
async def get_state(service: Service, params: SessionGetStateParams, call: Call) -> Json:
    """The session as it is now; one that is not open is read without taking its lock."""
    if held := service.if_held(call, params.session_id):
        return await held.session.at_turn(lambda: service.views.state(held.session, held.access))
    async with service.borrowed(call, params.session_id, "read") as session:
        return service.views.state(session, "readOnly")


@handles("session/reload")
async def reload_session(service: Service, params: SessionReloadParams, call: Call) -> Json:
    """Take over what another program wrote to the log."""
    held = service.held(call, params.session_id)
    await held.session.reload()
    return service.views.state(held.session, held.access)


@handles("session/fork")
async def fork_session(service: Service, params: SessionForkParams, call: Call) -> Json:
    """Copy the history up to a checkpoint into a new session, and open that."""
    forked = await service.store.fork(
        params.session_id,
        checkpoint_id=params.checkpoint_id,
        checkpoint_uid=params.checkpoint_uid,
        new_session_id=params.new_session_id,
        title=params.title,
        guard=_creation_guard(params, call),
    )
    held = service.hold(call, forked.session, "owner")
    return _answer(service, held, forked.duplicate)
