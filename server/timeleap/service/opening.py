"""session/open, close, getState, reload, fork: the ways into a session and out of it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from timeleap.attach import handover
from timeleap.attach.handover import HandoverNote
from timeleap.errors import InvalidInputError, SessionLockedError, SessionNotOpenError
from timeleap.service.service import guard, tell_recovery
from timeleap.sessions.documents.companion_forms import refuse_bad
from timeleap.sessions.shapes import Source, set_members
from timeleap.storage.spare_descriptor import SPARE
from timeleap_protocol.session_rows import OPEN

if TYPE_CHECKING:
    from timeleap.attach.attachment import Attachment
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.connections import OpenHandle
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Access
    from timeleap.store.store import OpenedSession
    from timeleap_protocol.structs.session import (
        SessionCloseParams,
        SessionForkParams,
        SessionGetStateParams,
        SessionOpenParams,
        SessionReloadParams,
    )


async def open_session(service: Service, params: SessionOpenParams, call: Call) -> Json:
    """Open or create a session, or attach to it; a repeat on the same connection is counted."""
    SPARE.take()
    path = Path(params.path) if params.path is not None else None
    if path is not None and not path.is_absolute():
        raise InvalidInputError.of("path", "must be an absolute path")
    if params.files is not None:
        refuse_bad("files", params.files.to_wire())
    if call.client.is_peer:
        return await _join(service, params, path, call)
    if params.access is not None:
        wanted: Access = "owner" if params.access == "write" else "readOnly"
    else:  # what lies outside the store is only looked at
        wanted = "readOnly" if path is not None and not service.store.contains(path) else "owner"
    attached, opened = service.attached(call), service.opened(call)
    session_id = params.session_id
    if session_id is None:
        directories = {each.session.path: name for name, each in opened.items()}
        directories |= {each.place.directory: name for name, each in attached.items()}
        session_id = directories.get(path) if path is not None else None
    attachment = attached.get(session_id or "")
    if attachment:
        return await _attach_again(service, params, call, attachment, wanted)
    held = opened.get(session_id or "")
    if held:
        return await _open_again(service, params, call, held, wanted)
    try:
        return await _open_here(service, params, call, path, wanted)
    except SessionLockedError:
        if wanted != "owner" or params.attach is False or service.network is None:
            raise
    return await _attach(service, params, call, path)


async def _open_again(
    service: Service, params: SessionOpenParams, call: Call, held: OpenHandle, wanted: Access
) -> Json:
    duplicate = await service.store.made_by(held.session.session_id, guard(params, call))
    _same_access(held.session.session_id, held.access, wanted)
    held.times += 1
    await _keep(held.session, params)
    return await answer(service, held, duplicate)


async def _open_here(
    service: Service, params: SessionOpenParams, call: Call, path: Path | None, wanted: Access
) -> Json:
    async with service.reachable() if wanted == "owner" else contextlib.nullcontext():
        opened = await service.store.open(
            params.session_id,
            path=path,
            create=params.create is not False,
            access="write" if wanted == "owner" else "read",
            title=params.title,
            system_prompt=params.system_prompt,
            workspace=params.workspace,
            source=Source(params.source.kind, params.source.key) if params.source is not None else None,
            auto_checkpoint=params.auto_checkpoint,
            guard=guard(params, call),
            progress=call.byte_progress("reading the log"),
        )
        held = await _hold(service, call, opened, wanted)
        await held.session.companion.keep(_files(params))
    if held.access == "readOnly" and params.attach is not False:
        await service.watch(call, held)
    return await answer(service, held, opened.duplicate)


async def _hold(service: Service, call: Call, opened: OpenedSession, wanted: Access = "owner") -> OpenHandle:
    access: Access = "owner" if wanted == "owner" and opened.session.access == "owner" else "readOnly"
    held = await service.hold(call, opened.session, access)
    tell_recovery(call.client, opened.session.engine, opened.session.session_id)
    return held


async def _attach(service: Service, params: SessionOpenParams, call: Call, path: Path | None) -> Json:
    """Open through its owner a session that another process owns."""
    mine, session_id = guard(params, call), params.session_id
    if session_id is None and path is None:  # another process has just made it for this very request
        session_id, _ = await asyncio.to_thread(service.store.ledger.making, mine)
    place = service.store.place(session_id, path)
    duplicate = path is None and await service.store.made_by(place.session_id, mine)
    attachment = service.attachment(call, place)
    asked = {"access": "write", **_settings(params)}
    found = await attachment.open(asked, call.byte_progress("reading the log"))
    if not isinstance(found, dict):
        attachment.leave()
        held = await _hold(service, call, found)
        await _keep(held.session, params)
        return await answer(service, held, duplicate)
    service.attached(call)[place.session_id] = attachment
    return {**found, "duplicate": True} if duplicate else found


async def _attach_again(
    service: Service, params: SessionOpenParams, call: Call, attachment: Attachment, wanted: Access
) -> Json:
    session_id = attachment.place.session_id
    _same_access(session_id, attachment.access, wanted)
    asked = replace(call, params=_settings(params))
    state: Json = await attachment.request(call.method, params, asked)
    if service.attached(call).get(session_id) is attachment:  # else it was opened again here
        attachment.times += 1
    return state


async def _join(service: Service, params: SessionOpenParams, path: Path | None, call: Call) -> Json:
    """Let another process have a session open that this one owns."""
    directory = path or service.store.locate(params.session_id or "")
    session = await service.store.join(directory)
    try:
        asked = handover.note_of(call.params)
        if asked.session and not session.meta.is_of(asked.session):
            raise handover.deleted(session.session_id)
        await _keep(session, params)
        made = await session.made(asked.unanswered) if asked.unanswered else []
    except BaseException:
        await session.aclose()
        raise
    if not service.has(session):
        await session.aclose()
        raise SessionNotOpenError(f"session {session.session_id} is being handed over")
    held = await service.hold(call, session, "readOnly" if params.access == "readOnly" else "owner")
    state = await answer(service, held)
    ends = await session.approval_requests.ends(asked.approvals)  # after `hold`: later ones are heard
    return HandoverNote(made=made, ended_approvals=ends, session=session.meta.uid).put_into(state)


async def _keep(session: Session, params: SessionOpenParams) -> None:
    """Take over the settings that an opening of an open session gives."""
    await session.keep_auto_checkpoint(params.auto_checkpoint)
    await session.companion.keep(_files(params))


def _files(params: SessionOpenParams) -> Json | None:
    """The settings of the files that an opening gives."""
    return None if params.files is None else params.files.to_wire()


def _settings(params: SessionOpenParams) -> Json:
    """The settings that an opening gives, as the owner of the session is asked for them."""
    return set_members(autoCheckpoint=params.auto_checkpoint, files=_files(params))


async def answer(service: Service, held: OpenHandle, duplicate: bool = False) -> Json:
    """`SessionState` of the contract, of a session that was opened."""
    await service.store.backing.catch_up(held.session)
    await held.session.companion.look()
    state = held.session.wire(held.access)
    return {**state, "duplicate": True} if duplicate else state


def _same_access(session_id: str, present: str, wanted: Access) -> None:
    if (present == "readOnly") is not (wanted == "readOnly"):
        problem = {"loc": ["access"], "msg": f"is open as {present}: close it first", "type": "access"}
        raise InvalidInputError(f"access: session {session_id} {problem['msg']}", errors=[problem])


async def close_session(service: Service, params: SessionCloseParams, call: Call) -> Json:
    """Undo one open."""
    attachment = service.attached(call).get(params.session_id)
    if attachment is None:
        await service.let_go(call, params.session_id)
        return {}
    attachment.times -= 1
    if attachment.times == 0:
        await attachment.close()
        service.attached(call).pop(params.session_id, None)
    return {}


async def get_state(service: Service, params: SessionGetStateParams, call: Call) -> Json:
    """The session as it is now; one that is not open is read without taking its lock."""
    held = service.opened(call).get(params.session_id)
    if held:
        state = await held.session.at_turn(lambda: held.session.wire(held.access))
        if not held.session.meta.accompanied:
            return state
        return {**state, **await held.session.companion.look()}  # behind the turn: it may take a while
    async with service.borrowed(call, params) as session:
        await session.companion.look()
        return session.wire("readOnly")


async def reload_session(service: Service, params: SessionReloadParams, call: Call) -> Json:
    """Take over what another program wrote to the log, or attach to the process that owns by now what was put in the place
    of the session's folder."""
    held = service.held(call, params.session_id)
    try:
        await held.session.reload()
    except SessionLockedError:
        if service.network is None or call.client.is_peer:
            raise
        times, held.times = held.times, 1
        await service.let_go(call, params.session_id)
        place = {} if service.store.contains(held.session.path) else {"path": str(held.session.path)}
        again: Any = OPEN.read_params({"sessionId": params.session_id, "access": "write", "create": False, **place})
        state = await open_session(service, again, call)
        (service.attached(call) | service.opened(call))[params.session_id].times = times
        return state
    return await answer(service, held)


async def fork_session(service: Service, params: SessionForkParams, call: Call) -> Json:
    """Copy the history up to a checkpoint into a new session, and open that."""
    attachment = service.attached(call).get(params.session_id)
    if attachment:
        await attachment.settle()  # what it copies is read from disk
    async with service.reachable():
        forked = await service.store.fork(
            params.session_id,
            checkpoint_id=params.checkpoint_id,
            checkpoint_uid=params.checkpoint_uid,
            timeline_id=params.timeline_id,
            new_session_id=params.new_session_id,
            title=params.title,
            guard=guard(params, call),
        )
        held = await service.hold(call, forked.session, "owner")
    return await answer(service, held, forked.duplicate)
