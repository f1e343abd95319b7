"""Keeping the bytes of a file while its mirror is open, and compressing what has ended in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from timeleap.call import to_its_end
from timeleap.errors import TimeleapError
from timeleap_agents.mirrors.formats.conversion import folder_of
from timeleap_agents.mirrors.vault import retention
from timeleap_agents.mirrors.vault.companions import Companions, companions_of
from timeleap_agents.mirrors.vault.kept_file import KeptFile
from timeleap_agents.mirrors.vault.kept_rows import KeptRows
from timeleap_agents.mirrors.vault.retention import is_excluded

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

NOT_KEPT: Final = "notKept"

_logger = logging.getLogger(__name__)


class Keeper:
    """Keeps the file of one mirror, with those beside it; of opencode, the rows of a session.

    Args:
        kind: The program.
        durable: Whether bytes are to be on the disk itself before the mirror says what they mean.
        exclude: Patterns of files and folders of which nothing is kept.
    """

    def __init__(self, kind: str, *, durable: bool, exclude: Collection[str] = ()) -> None:
        self._kind, self._durable, self._exclude = kind, durable, exclude
        self._kept: _KeptSession | None = None
        self._packing: asyncio.Task[None] | None = None
        self._stop = Event()
        self._warned = False

    async def keep(self, session: Session, path: Path, others: Collection[Path] = ()) -> None:
        """Keep what the file has more by now; that it cannot be kept is a warning, once. `others`: further files that the
        session was read from."""
        kept = self._file_of(session)
        if is_excluded(path, folder_of(session.facts.workspace), self._exclude):
            await asyncio.to_thread(retention.remove_all, session.path)
            return
        try:
            self._pack(await to_its_end(asyncio.to_thread(kept.keep, path, others)), kept)
        except (TimeleapError, OSError) as error:
            if not self._warned:
                self._warned = True
                session.transactions.warn(NOT_KEPT, f"the bytes of {path} are not kept: {error}")

    async def end(self, session: Session) -> None:
        """Note that the file is gone. Raises OSError."""
        kept = self._file_of(session)
        self._pack(await to_its_end(asyncio.to_thread(kept.end)), kept)

    @property
    def is_packing(self) -> bool:
        """True while generations that have ended are being compressed."""
        return self._packing is not None and not self._packing.done()

    async def settle(self) -> None:
        """Wait until what has ended is compressed, or `stop` was called."""
        if self._packing is not None:
            await asyncio.wait([self._packing])

    def stop(self) -> None:
        """Leave what is being compressed for later."""
        self._stop.set()

    async def let_go(self) -> None:
        """Stop what is done in the background; the next one to open the mirror finishes it."""
        self._kept, self._warned = None, False
        if self._packing is not None:
            self._stop.set()
            await asyncio.wait([self._packing])

    def _file_of(self, session: Session) -> _KeptSession:
        if self._kept is None or self._kept.directory != session.path:
            self._kept = _KeptSession(self._kind, session.path, durable=self._durable)
        return self._kept

    def _pack(self, waits: bool, kept: _KeptSession) -> None:
        if waits and (self._packing is None or self._packing.done()):
            self._stop.clear()
            self._packing = asyncio.get_running_loop().create_task(self._pack_kept(kept))

    async def _pack_kept(self, kept: _KeptSession) -> None:
        try:
            await asyncio.to_thread(kept.pack, self._stop.is_set)
        except (TimeleapError, OSError) as error:
            _logger.info("what is kept in %s is not compressed: %s", kept.directory, error)


class _KeptSession:
    """All that is kept in the directory of one mirror. All methods block."""

    def __init__(self, kind: str, directory: Path, *, durable: bool) -> None:
        self.directory = directory
        self._kind = kind
        self._rows = KeptRows(directory, durable=durable) if kind == "opencode" else None
        self._file = KeptFile(directory, durable=durable) if self._rows is None else self._rows.file
        self._companions = Companions(directory, durable=durable)

    def keep(self, path: Path, others: Collection[Path]) -> bool:
        """Keep what there is by now; says whether something waits to be compressed."""
        if self._rows is not None:
            return self._rows.keep(path)
        waits = self._file.keep(path)
        return self._companions.keep(companions_of(self._kind, path, others)) or waits

    def end(self) -> bool:
        """End all generations; says whether something waits to be compressed."""
        waits = self._file.end("gone")
        return self._companions.end() or waits

    def pack(self, stopped: Callable[[], bool]) -> None:
        """Compress what has ended. Raises as `KeptFile.pack`."""
        self._file.pack(stopped)
        self._companions.pack(stopped)
