"""session/storage: disk usage, the files of sessions by kind."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from timeleap.errors import StorageFailureError
from timeleap.service import cursors
from timeleap.sessions.documents import session_files
from timeleap.sessions.documents.session_files import SessionFile
from timeleap.sessions.shapes import set_members
from timeleap.store.home import Home, parse_trash_name
from timeleap_protocol.limits import DEFAULT_SESSION_PAGE, MAX_PAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap_protocol.structs.space import SessionStorageParams

KINDS: Final = ("log", "timeline", "index", "quarantine", "other")


class Space(Struct, frozen=True):
    """The files of one session, largest first; `deleted_at` (ISO-8601 UTC) only in the trash."""

    session_id: str
    files: tuple[SessionFile, ...]
    deleted_at: str | None = None

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def bytes_of(self, kind: str) -> int:
        return sum(file.bytes for file in self.files if _kind(file) == kind)


def measure(session_id: str, path: Path, deleted_at: str | None = None) -> Space:
    """Look at a session's directory. Links are not followed; what vanishes meanwhile does not count.

    Raises:
        StorageFailureError: The directory cannot be read.
    """
    found = sorted(session_files.list_files(path), key=lambda file: (-file.bytes, file.name))
    return Space(session_id, tuple(found), deleted_at)


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


def measure_shared(sizes: Mapping[str, Sequence[tuple[str, int]]], session_id: str | None = None) -> list[Space]:
    """Measure a store that is not on this disk, or one session of it (see `SessionStore.sizes`)."""
    spaces: list[Space] = []
    for name, stored in sizes.items():
        if session_id in (None, name):
            files = sorted((_stored(*each) for each in stored), key=lambda file: (-file.bytes, file.name))
            found, deleted_at = parse_trash_name(name) or (name, None)
            spaces.append(Space(found, tuple(files), deleted_at))
    return sorted(spaces, key=lambda space: (-space.bytes, space.session_id, space.deleted_at or ""))


def _stored(name: str, size: int) -> SessionFile:
    # What only other logs of the session begin with was a timeline, or is to be one.
    rule = session_files.classify(name or "context_0.jsonl")[0]
    return SessionFile(name or "(beginning of other timelines)", rule, size, 0.0)


def snapshot_bytes(home: Home) -> int:
    """Bytes that the snapshots of all sessions take; files that vanish meanwhile do not count."""
    found = 0
    for folder, _, names in os.walk(home.path / "files"):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  (tens of thousands of them)
    return found


def _kind(file: SessionFile) -> str:
    return file.kind if file.kind in KINDS else "other"


async def storage(service: Service, params: SessionStorageParams, call: Call) -> Json:
    """Disk usage of the store, or of one session."""
    if params.session_id is not None:
        if held := service.opened(call).get(params.session_id):
            await held.session.catch_its_turn()
        space = await asyncio.to_thread(_space_of, service, params.session_id)
        return {"totalBytes": space.bytes, "trashBytes": 0, "sessions": [_space(space, files=True)]}
    every = await asyncio.to_thread(_spaces, service)
    snapshots = await asyncio.to_thread(snapshot_bytes, service.store.home)
    start = cursors.cursor_offset(params.cursor, call.method)
    stop = min(start + (params.limit or DEFAULT_SESSION_PAGE), len(every))
    return {
        "totalBytes": sum(space.bytes for space in every) + snapshots,
        "trashBytes": sum(space.bytes for space in every if space.deleted_at is not None),
        **set_members(filesBytes=snapshots or None),
        "sessions": [_space(space) for space in every[start:stop]],
        **set_members(nextCursor=cursors.cursor_after(stop, len(every), call.method)),
    }


def _space_of(service: Service, session_id: str) -> Space:
    directory, sizes = service.store.locate(session_id), service.store.backing.sizes()
    return measure(session_id, directory) if sizes is None else measure_shared(sizes, session_id)[0]


def _spaces(service: Service) -> list[Space]:
    sizes = service.store.backing.sizes()
    return measure_store(service.store.home) if sizes is None else measure_shared(sizes)


def _space(space: Space, *, files: bool = False) -> Json:
    listed = [{"file": each.name, "kind": _kind(each), "bytes": each.bytes} for each in space.files[:MAX_PAGE]]
    return {
        "sessionId": space.session_id,
        **set_members(deletedAt=space.deleted_at),
        "bytes": space.bytes,
        "logBytes": space.bytes_of("log"),
        "timelineBytes": space.bytes_of("timeline"),
        "timelineCount": sum(file.kind == "timeline" for file in space.files),
        "indexBytes": space.bytes_of("index"),
        "quarantineBytes": space.bytes_of("quarantine"),
        "otherBytes": space.bytes_of("other"),
        **set_members(files=listed if files else None),
    }
