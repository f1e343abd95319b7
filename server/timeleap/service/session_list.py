"""session/list, latest, delete, undelete, listTrash: sessions of the store, open or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from timeleap.errors import SessionLockedError
from timeleap.service.service import guard
from timeleap.sessions.shapes import set_members
from timeleap.store.listing import ListRequest
from timeleap_protocol.limits import DEFAULT_SESSION_PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.shapes import SessionPage
    from timeleap_protocol.structs.session import (
        SessionDeleteParams,
        SessionLatestParams,
        SessionListParams,
        SessionListTrashParams,
        SessionUndeleteParams,
    )


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
    return {"sessions": [info.wire() for info in page.sessions], **set_members(nextCursor=page.next_cursor)}


async def delete_session(service: Service, params: SessionDeleteParams, call: Call) -> Json:
    """Move the session to the store's trash."""
    try:
        done = await service.store.delete(params.session_id, guard(params, call))
    except SessionLockedError:  # it was closed for it, and is not ours: read here, or put back while it was open
        await service.drop(params.session_id)
        raise
    if not done:
        return {"duplicate": True}
    await service.drop(params.session_id)
    return {}


async def undelete_session(service: Service, params: SessionUndeleteParams, call: Call) -> Json:
    """Bring the newest deleted session of that id back."""
    done = await service.store.trash.undelete(params.session_id, guard(params, call))
    return {} if done else {"duplicate": True}
