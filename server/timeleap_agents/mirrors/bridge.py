"""All mirrors of one process: which folders are followed, which mirrors are open, and who is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions.shapes import set_members
from timeleap_agents.mirrors.folders import FOLDERS, FolderNotes, is_subagent, look, mirror_id, printable, usual_folder
from timeleap_agents.mirrors.mirror import Growth, Mirror
from timeleap_agents.mirrors.packed_files import unpacked_path
from timeleap_agents.mirrors.takeover import Takeover
from timeleap_agents.mirrors.vault.retention import enforce
from timeleap_agents.mirrors.watching import FolderWatch

if TYPE_CHECKING:
    from timeleap.call import Client
    from timeleap.service.service import Service

_logger = logging.getLogger(__name__)

JOINED_SECONDS: Final = 0.2
MAX_OPEN: Final = 32
"""Mirrors that stay open, those that changed last."""
LIMIT_SECONDS: Final = 1.0
"""Between a change and the look at how much is kept of all files."""
IDLE_SECONDS: Final = 10.0
"""After which a mirror is closed that does not change: the log of each that is open is looked at ten times a second."""
LOST_AT_ONCE: Final = 2
"""Files that are gone whose bytes are compressed at the same time."""
DID_CHANGE: Final = "bridge/didChange"


class Bridge:
    """The mirrors of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._mirrors: dict[str, Mirror] = {}
        self._watches: dict[tuple[str, Path], tuple[FolderWatch, asyncio.Task[None]]] = {}
        self._workspaces: dict[tuple[str, Path], str | None] = {}
        self._clients: dict[int, Client] = {}
        self._used: dict[str, float] = {}  # mirrors that are open, and when they changed; last ones last
        self._gone: dict[str, str] = {}  # by session id: the path of a file that was lost, until that is told
        self._limiting: asyncio.Task[None] | None = None
        self._losing: list[asyncio.Task[None]] = []
        self._losing_turn, self._ending = asyncio.Semaphore(LOST_AT_ONCE), False
        self._taken_over = Takeover(service.store)
        self._news: dict[str, str] = {}  # by session id: added, changed or gone
        service.background["mirrors"] = asyncio.get_running_loop().create_task(self._tidy())

    def mirror(self, kind: str, path: Path) -> Mirror:
        """The mirror of the session that a file is of."""
        session_id = mirror_id(kind, path)
        mirror = self._mirrors.get(session_id)
        if mirror is None:
            mirror = self._mirrors[session_id] = Mirror(self._service, kind, path, session_id)
        mirror.offer(path)
        return mirror

    async def catch_up(self, mirror: Mirror, workspace: str | None = None) -> Growth:
        """Show what the mirror's file says by now; who watches is told. Raises as `Mirror.catch_up`."""
        with self._using(mirror):
            await self._taken_over.once()
            growth = await mirror.catch_up(workspace)
        if self._service.config.kept_bytes is not None and (self._limiting is None or self._limiting.done()):
            self._limiting = asyncio.get_running_loop().create_task(self._limit(self._service.config.kept_bytes))
        if growth.changed:
            self._tell(mirror.session_id, "added" if growth.created else "changed")
        await self._note_use(mirror)
        return growth

    @contextmanager
    def _using(self, mirror: Mirror) -> Iterator[None]:
        """Have a mirror at hand; afterwards one that shows nothing is let go of, with what was read: of sub-agents alone
        there may be a hundred thousand."""
        self._mirrors.setdefault(mirror.session_id, mirror)
        mirror.users += 1
        try:
            yield
        finally:
            mirror.users -= 1
            if not mirror.users and mirror.session is None and self._mirrors.get(mirror.session_id) is mirror:
                del self._mirrors[mirror.session_id]

    async def _limit(self, max_bytes: int) -> None:
        """Remove what is kept beyond the limit, a while after something was kept."""
        await asyncio.sleep(LIMIT_SECONDS)
        for removed in await asyncio.to_thread(enforce, self._service.store.home.path, max_bytes):
            if removed.was_last:
                _logger.warning(
                    "agents.keep.maxBytes: nothing is kept any more of the file of %s, which is gone",
                    removed.session_id,
                )

    async def _note_use(self, mirror: Mirror) -> None:
        """Close others when too many are open."""
        if mirror.session is not None:
            self._used.pop(mirror.session_id, None)
            self._used[mirror.session_id] = asyncio.get_running_loop().time()
            while len(self._used) > MAX_OPEN:
                waiting = [name for name in self._used if not self._is_packing(name)]
                if not waiting:
                    return
                await self._close(waiting[0])

    # Folders

    def watch(self, kind: str, folder: Path, workspace: str | None, client: Client) -> FolderWatch:
        """Follow a folder; of one that is followed already the `workspace` may change."""
        self._clients[id(client)] = client
        key = kind, folder
        if key in self._watches and self._workspaces[key] != workspace:
            self._watches.pop(key)[1].cancel()
        self._workspaces[key] = workspace
        if key not in self._watches:
            notes = FolderNotes(self._service.store.home.path, kind, folder)
            watch = FolderWatch(
                kind, folder, notes, lambda path: self._follow(key, path), lambda path: self._lost(key, path)
            )
            self._watches[key] = watch, asyncio.get_running_loop().create_task(self._run(watch))
        return self._watches[key][0]

    async def _run(self, watch: FolderWatch) -> None:
        await self._taken_over.once()  # also of files that have not changed since
        await watch.run()

    async def unwatch(self, kind: str, folder: Path) -> bool:
        """Follow it no more; says whether it was followed."""
        found = self._watches.pop((kind, folder), None)
        if found is None:
            return False
        found[1].cancel()
        await asyncio.wait([found[1]])
        return True

    async def sources(self) -> list[Json]:
        """`BridgeSource`s of the contract."""
        folders: dict[tuple[str, Path], None] = {}
        for kind in FOLDERS:
            with suppress(StorageFailureError):  # a user without a home directory has none of that kind
                folders[kind, usual_folder(kind)] = None
        folders |= dict.fromkeys(self._watches)
        return [await asyncio.to_thread(self._source, kind, folder) for kind, folder in folders]

    def _source(self, kind: str, folder: Path) -> Json:
        watch = self._watches.get((kind, folder))
        found = look(kind, folder)
        sessions = {path for path in found.files if not is_subagent(kind, path)}
        available = folder.is_dir()
        if watch is not None:
            mirrored = set(watch[0].mirrored)
            failures = [f"{path}: {why}" for path, why in watch[0].failures.items()]
        else:
            notes = FolderNotes(self._service.store.home.path, kind, folder).read()
            mirrored, failures = {path for path, facts in notes.items() if found.files.get(path) == facts}, []
        problems = [printable(text) for text in (*(found.problems if available else []), *failures)]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return {
            "kind": kind,
            "path": str(folder),
            "sessions": len(sessions),
            "available": available,
            "watched": watch is not None,
            "mirrored": len(mirrored & sessions),
            **set_members(pending=None if watch is None else watch[0].pending),
            **({"problem": problems[0] + more} if problems else {}),
        }

    async def _follow(self, key: tuple[str, Path], path: str) -> bool:
        mirror, workspace = self.mirror(key[0], Path(path)), self._workspaces[key]
        with self._using(mirror):
            if workspace is not None and await asyncio.to_thread(mirror.workspace_of_file) != workspace:
                return False
            await self.catch_up(mirror)
            return True

    def _lost(self, key: tuple[str, Path], path: str) -> None:
        kind, name = key[0], unpacked_path(Path(path)).name
        mirror = self.mirror(kind, Path(path))
        mirror.forget()
        for other in self._watches[key][0].files if key in self._watches else ():
            if unpacked_path(Path(other)).name == name and mirror_id(kind, other) == mirror.session_id:
                mirror.offer(Path(other))  # it was moved, or packed
        if mirror.is_gone and mirror.is_made:
            self._gone[mirror.session_id] = path
            self._tell(mirror.session_id, "gone")
            self._losing.append(asyncio.get_running_loop().create_task(self._lose(mirror)))

    async def _lose(self, mirror: Mirror) -> None:
        """End what is kept of a file that is gone."""
        self._losing = [task for task in self._losing if not task.done()]
        try:
            async with self._losing_turn:
                if not self._ending:
                    with self._using(mirror):
                        await mirror.lose()
                        await self._note_use(mirror)
                        await mirror.keeper.settle()
        except (TimeleapError, OSError) as error:  # as another process that follows it does
            _logger.info("what is kept of %s has not ended: %s", mirror.path, error)

    # What goes on by itself

    def _tell(self, session_id: str, what: str) -> None:
        if not self._news:
            asyncio.get_running_loop().call_later(JOINED_SECONDS, self._tell_now)
        known = self._news.get(session_id)
        self._news[session_id] = "added" if known == "added" and what == "changed" else what

    def _tell_now(self) -> None:
        news, self._news = self._news, {}
        lost, self._gone = self._gone, {}
        said: Json = {what: [name for name, is_so in news.items() if is_so == what] for what in ("added", "changed")}
        gone = [name for name, is_so in news.items() if is_so == "gone"]
        said["gone"] = [{"sessionId": name, "path": printable(lost.get(name, ""))} for name in gone]
        for number, client in list(self._clients.items()):
            if client.ending.done():
                del self._clients[number]
            else:
                client.notify(DID_CHANGE, said)

    def _is_packing(self, session_id: str) -> bool:
        mirror = self._mirrors.get(session_id)
        return mirror is not None and mirror.keeper.is_packing

    async def _close(self, session_id: str) -> None:
        self._used.pop(session_id, None)
        mirror = self._mirrors.pop(session_id, None)
        if mirror is not None:
            await mirror.close()

    async def _tidy(self) -> None:
        """Close mirrors that have not changed for a while, until the process ends."""
        try:
            while True:
                await asyncio.sleep(IDLE_SECONDS / 4)
                before = asyncio.get_running_loop().time() - IDLE_SECONDS
                for session_id in [name for name, used in self._used.items() if used < before]:
                    if not self._is_packing(session_id):
                        await self._close(session_id)
        finally:
            self._ending = True
            for mirror in self._mirrors.values():
                mirror.keeper.stop()
            tasks = [task for _, task in self._watches.values()]
            tasks += [] if self._limiting is None else [self._limiting]
            for task in tasks:
                task.cancel()
            if tasks or self._losing:
                await asyncio.wait([*tasks, *self._losing])
            for session_id in list(self._used):
                with suppress(Exception):
                    await self._close(session_id)


_BRIDGES: Final[WeakKeyDictionary[Service, Bridge]] = WeakKeyDictionary()


def bridge_of(service: Service) -> Bridge:
    """The mirrors of a service; made at first need."""
    bridge = _BRIDGES.get(service)
    if bridge is None:
        bridge = _BRIDGES[service] = Bridge(service)
    return bridge
