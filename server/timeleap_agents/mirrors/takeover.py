"""Mirrors that earlier releases named after the path of the program's file get the ids of today.

The directory takes its new name by one rename, with all that is in it: log, timelines, title, pins. Its old id is noted in
it before, as `formerId`, by which the forks of it are found; they are told last. So a crash leaves something that is done
when it is tried again. A mirror that somebody has open keeps its id until it is closed.

Where a mirror with the id of today is there already, that one stays, and the old one is folded into it: its log and its
timelines become timelines, its pins are pinned, its forks name it; then it is in the trash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from timeleap.errors import TimeleapError
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME
from timeleap.storage.durable import (
    OpenFile,
    atomic_write,
    make_directory,
    open_temporary,
    remove_file,
    replace_file,
    sync_directory,
)
from timeleap.storage.owner_lock import SessionLock
from timeleap.storage.reader import highest_number, same_bytes, timeline_file, timeline_names
from timeleap.store.home import Home
from timeleap.store.store import SessionStore
from timeleap_agents.mirrors.folders import FOLDER, FOLDERS, ID_DIGITS, former_id, mirror_id

FORMER_ID: Final = "formerId"
DONE: Final = "ids.done"
"""File of the folder of notes: no mirror has an old id any more."""

_logger = logging.getLogger(__name__)
_NAME: Final = re.compile(rf"(?:{'|'.join(FOLDERS)})-[0-9a-f]{{{ID_DIGITS}}}")


class Takeover:
    """Gives all mirrors of a store their ids of today."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None

    async def once(self) -> None:
        """Do it at the first call; later ones wait for that. What could not be done is left to the next process."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._take_over_all())
        await asyncio.shield(self._task)

    async def _take_over_all(self) -> None:
        home = self._store.home
        done = home.path / FOLDER / DONE
        if await asyncio.to_thread(done.exists):
            return
        complete = True
        for session_id, new_id in await asyncio.to_thread(lambda: list(_former_mirrors(home))):
            try:
                await _take_over(self._store, session_id, new_id)
            except (TimeleapError, OSError) as error:
                complete = False
                _logger.info("the mirror %s keeps its old id for now: %s", session_id, error)
        if await _tell_forks(self._store) and complete:
            with suppress(OSError):  # the next process looks once more
                await asyncio.to_thread(_note, done)


async def take_over(store: SessionStore, kind: str, path: Path, session_id: str) -> None:
    """Give the mirror of one file its id of today, `session_id`, where it has the old one.

    Raises:
        SessionLockedError: Somebody has it open.
        TimeleapError: It cannot be renamed.
    """
    old_id = former_id(kind, path)
    sessions = store.home.sessions
    if old_id == session_id or not (sessions / old_id).is_dir():
        return
    await _take_over(store, old_id, session_id)
    await _tell_forks(store)


async def _take_over(store: SessionStore, session_id: str, new_id: str) -> None:
    """Give a mirror another id, or fold it into the one that has that id. Raises as `_rename`, `_fold`."""
    if (store.home.sessions / new_id).exists():
        await _fold(store, session_id, new_id)
    else:
        await _rename(store, session_id, new_id)


async def _fold(store: SessionStore, session_id: str, new_id: str) -> None:
    """Put what a mirror has into another one of the same file, and the mirror into the trash. A crash on the way leaves
    what is done when it is tried again: no log becomes a timeline twice.

    Raises:
        SessionNotFoundError, SessionLockedError, StorageFailureError: Both are there.
    """
    async with store.turn(session_id), store.turn(new_id):
        old = await asyncio.to_thread(store.home.locate, session_id)
        new = await asyncio.to_thread(store.home.locate, new_id)
        locks = [SessionLock(old / LOG_NAME), SessionLock(new / LOG_NAME)]
        try:
            for lock in locks:
                await lock.acquire("hold", wait=0)
            await asyncio.to_thread(_carry_over, old, new, session_id)
        finally:
            for lock in locks:
                lock.release()
    await _tell_forks(store)
    await store.delete(session_id)


def _carry_over(old: Path, new: Path, session_id: str) -> None:
    """Copy the logs of one directory into another as timelines, the oldest first, and note what it had. Blocking."""
    names = timeline_names(old / LOG_NAME)
    for path in [*(name.path for name in reversed(names)), old / LOG_NAME]:
        _add_timeline(path, new / LOG_NAME)
    meta, before = Meta(new, "owner"), Meta(old, "readOnly")
    pins = list(dict.fromkeys([*(meta.pins or ()), *(before.pins or ())]))
    meta.write({FORMER_ID: session_id, **({"pins": pins} if pins else {})})


def _add_timeline(path: Path, log: Path) -> None:
    """Copy a log to be a timeline of another one, unless that has it already, or it is empty. Blocking."""
    size = path.stat().st_size
    there = [log, *(name.path for name in timeline_names(log))]
    if not size or any(each.stat().st_size == size and same_bytes(OpenFile(each), OpenFile(path)) for each in there):
        return
    target = log.parent / timeline_file(log, highest_number(log) + 1)
    temporary = open_temporary(target.parent, target.name)
    try:
        with closing(OpenFile(path)) as file:
            file.copy_to(temporary, 0, size)
        temporary.sync()
        temporary.close()
        replace_file(temporary.path, target)
        sync_directory(target.parent)
    finally:
        temporary.close()
        remove_file(temporary.path)


async def _rename(store: SessionStore, session_id: str, new_id: str) -> None:
    """Give a mirror that nobody has open to be written to another id, in one step.

    Raises:
        SessionNotFoundError, SessionExistsError, SessionLockedError, StorageFailureError: It has its old id.
    """
    async with store.turn(session_id), store.turn(new_id):
        path = await asyncio.to_thread(store.home.locate, session_id)
        lock = SessionLock(path / LOG_NAME)
        await lock.acquire("hold", wait=0)
        try:
            await asyncio.to_thread(Meta(path, "owner").write, {FORMER_ID: session_id})
            await asyncio.to_thread(store.home.publish, path, new_id)
        finally:
            lock.release()


def _former_mirrors(home: Home) -> Iterator[tuple[str, str]]:
    """The mirrors that have their old ids, each with that of today. Blocking."""
    for name in filter(_NAME.fullmatch, home.names()):
        source = Meta(home.sessions / name, "readOnly").source
        if source is None or source.path is None or source.kind not in FOLDERS:
            continue
        new_id = mirror_id(source.kind, source.path)
        if name == former_id(source.kind, source.path) and name != new_id:
            yield name, new_id


async def _tell_forks(store: SessionStore) -> bool:
    """Have the forks of mirrors name these by their ids of today; says whether all do."""
    new_ids, forks = await asyncio.to_thread(_forks, store.home)
    complete = True
    for path, parent in forks:
        if parent["sessionId"] not in new_ids:
            continue
        try:
            await _tell_fork(store, path, {**parent, "sessionId": new_ids[parent["sessionId"]]})
        except (TimeleapError, OSError) as error:
            complete = False
            _logger.info("the session in %s names its mirror by the old id for now: %s", path, error)
    return complete


def _forks(home: Home) -> tuple[dict[str, str], list[tuple[Path, Mapping[str, str]]]]:
    """The ids of today by the old ones, and the sessions that have parents, those in the trash included. Blocking."""
    new_ids: dict[str, str] = {}
    forks: list[tuple[Path, Mapping[str, str]]] = []
    for path in [*(home.sessions / name for name in home.names()), *(path for _, _, path in home.trashed())]:
        meta = Meta(path, "readOnly")
        if path.parent == home.sessions and (former := meta.get(FORMER_ID)) is not None and former != path.name:
            new_ids[former] = path.name
        if (parent := meta.get("parent")) is not None:
            forks.append((path, parent))
    return new_ids, forks


async def _tell_fork(store: SessionStore, path: Path, parent: Mapping[str, str]) -> None:
    """Have one name its parent; the time of its last change stays. Raises SessionLockedError: It is open elsewhere."""
    before = (path / META_NAME).stat()
    if path.parent == store.home.sessions:
        async with store.borrowed(path.name, "write") as session:
            await session.follow_program({"parent": dict(parent)}, session.facts.workspace)
    else:
        lock = SessionLock(path / LOG_NAME)
        await lock.acquire("hold", wait=0)
        try:
            await asyncio.to_thread(Meta(path, "owner").write, {"parent": dict(parent)})
        finally:
            lock.release()
    os.utime(path / META_NAME, ns=(before.st_atime_ns, before.st_mtime_ns))


def _note(done: Path) -> None:
    make_directory(done.parent)
    atomic_write(done, b"")
