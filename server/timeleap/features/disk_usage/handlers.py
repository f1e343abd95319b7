"""session/storage: disk usage, the files of sessions by kind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from timeleap.errors import StorageFailureError
from timeleap.service import paging
from timeleap.sessions import session_files, shapes
from timeleap.sessions.home import Home
from timeleap_protocol.limits import DEFAULT_SESSION_PAGE, MAX_PAGE

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap_protocol.space import SessionStorageParams

Kind = Literal["log", "timeline", "index", "quarantine", "other"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file; `name` is relative to the session's directory, with slashes."""

    name: str
    kind: Kind
    bytes: int


@dataclass(frozen=True, slots=True)
class Space:
    """The files of one session, largest first.

    Attributes:
        deleted_at: ISO-8601 UTC; only in the trash.
    """

    session_id: str
    files: tuple[StoredFile, ...]
    deleted_at: str | None = None

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.bytes for file in self.files)

    def bytes_of(self, kind: Kind) -> int:
        """Of the files of one kind together."""
        return sum(file.bytes for file in self.files if file.kind == kind)

    def number_of(self, kind: Kind) -> int:
        """How many files of a kind there are."""
        return sum(file.kind == kind for file in self.files)


def measure(session_id: str, path: Path, deleted_at: str | None = None) -> Space:
    """Look at a session's directory. Links are not followed; what vanishes meanwhile does not count.

    Raises:
        StorageFailureError: The directory cannot be read.
    """
    found = [StoredFile(file.name, _kind(file.kind), file.bytes) for file in session_files.list_files(path)]
    return Space(session_id, tuple(sorted(found, key=lambda file: (-file.bytes, file.name))), deleted_at)


def measure_store(home: Home) -> list[Space]:
    """All sessions of a store, those in the trash included, largest first; what cannot be looked at is left out."""
    places = [(name, home.sessions / name, None) for name in home.names()]
    found: list[Space] = []
    for session_id, path, deleted_at in [*places, *((name, path, time) for name, time, path in home.trashed())]:
        try:
            if not path.is_symlink() and path.is_dir():
                found.append(measure(session_id, path, deleted_at))
        except (OSError, StorageFailureError):
            continue
    return sorted(found, key=lambda space: (-space.bytes, space.session_id, space.deleted_at or ""))


def _kind(kind: session_files.Kind) -> Kind:
    return cast("Kind", kind) if kind in get_args(Kind) else "other"


async def storage(service: Service, params: SessionStorageParams, call: Call) -> Json:
    """Disk usage of the store, or of one session."""
    if params.session_id is not None:
        if held := service.if_held(call, params.session_id):
            await held.session.catch_its_turn()
        space = await asyncio.to_thread(measure, params.session_id, service.store.locate(params.session_id))
        return {"totalBytes": space.bytes, "trashBytes": 0, "sessions": [_space(space, files=True)]}
    every = await asyncio.to_thread(measure_store, service.store.home)
    start = paging.cursor_offset(params.cursor, call.method)
    stop = min(start + (params.limit or DEFAULT_SESSION_PAGE), len(every))
    return {
        "totalBytes": sum(space.bytes for space in every),
        "trashBytes": sum(space.bytes for space in every if space.deleted_at is not None),
        "sessions": [_space(space) for space in every[start:stop]],
        **shapes.set_members(nextCursor=paging.cursor_after(stop, len(every), call.method)),
    }


def _space(space: Space, *, files: bool = False) -> Json:
    listed = [{"file": each.name, "kind": each.kind, "bytes": each.bytes} for each in space.files[:MAX_PAGE]]
    return {
        "sessionId": space.session_id,
        **shapes.set_members(deletedAt=space.deleted_at),
        "bytes": space.bytes,
        "logBytes": space.bytes_of("log"),
        "timelineBytes": space.bytes_of("timeline"),
        "timelineCount": space.number_of("timeline"),
        "indexBytes": space.bytes_of("index"),
        "quarantineBytes": space.bytes_of("quarantine"),
        "otherBytes": space.bytes_of("other"),
        **shapes.set_members(files=listed if files else None),
    }
