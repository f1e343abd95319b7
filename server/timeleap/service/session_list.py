"""session/list, latest, archive, delete and their opposites: the store as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.service import views
from timeleap.service.mutation import guard
from timeleap.sessions import shapes
from timeleap_protocol.limits import DEFAULT_SESSION_PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap.sessions.outcomes import SessionPage
    from timeleap_protocol.session import (
        SessionArchiveParams,
        SessionDeleteParams,
        SessionLatestParams,
        SessionListParams,
        SessionListTrashParams,
        SessionUnarchiveParams,
        SessionUndeleteParams,
    )


async def list_sessions(service: Service, params: SessionListParams, call: Call) -> Json:
    """Sessions of the store and those open by path, newest change first."""
    page = await service.store.list(
        cursor=params.cursor,
        limit=params.limit or DEFAULT_SESSION_PAGE,
        include_archived=bool(params.include_archived),
        query=params.query,
        workspace=params.workspace,
        others=_open_by_path(service, call),
    )
    return _listing(page)


async def latest_session(service: Service, params: SessionLatestParams, call: Call) -> Json:
    """The session changed last, of those that `session/list` shows."""
    page = await service.store.list(limit=1, workspace=params.workspace, others=_open_by_path(service, call))
    return {"session": views.session_info(page.sessions[0]) if page.sessions else None}


def _open_by_path(service: Service, call: Call) -> dict[str, Path]:
    """By id: directories outside of the store that this connection has open through their owners."""
    places = (attachment.place for attachment in service.attached(call).values())
    return {place.session_id: place.path for place in places if place.path is not None}


async def list_trash(service: Service, params: SessionListTrashParams, _: Call) -> Json:
    """Deleted sessions, newest first."""
    return _listing(await service.store.list_trash(cursor=params.cursor, limit=params.limit or DEFAULT_SESSION_PAGE))


def _listing(page: SessionPage) -> Json:
    return {
        "sessions": [views.session_info(info) for info in page.sessions],
        **shapes.set_members(nextCursor=page.next_cursor),
    }


async def archive_session(service: Service, params: SessionArchiveParams, call: Call) -> Json:
    """Hide the session from plain listings."""
    async with service.borrowed(call, params) as session:
        return await session.archive(guard=guard(params, call))


async def unarchive_session(service: Service, params: SessionUnarchiveParams, call: Call) -> Json:
    """Show the session in plain listings again."""
    async with service.borrowed(call, params) as session:
        return await session.unarchive(guard=guard(params, call))


async def delete_session(service: Service, params: SessionDeleteParams, call: Call) -> Json:
    """Move the session to the store's trash."""
    done = await service.store.delete(params.session_id, guard(params, call))
    if not done:
        return {"duplicate": True}
    await service.drop(params.session_id)
    return {}


async def undelete_session(service: Service, params: SessionUndeleteParams, call: Call) -> Json:
    """Bring the newest deleted session of that id back."""
    done = await service.store.undelete(params.session_id, guard(params, call))
    return {} if done else {"duplicate": True}
