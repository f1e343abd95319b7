"""Keeping the bytes of a file while its mirror is open, and compressing what has ended in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from timeleap.call import to_its_end
from timeleap.errors import TimeleapError
from timeleap.mirrors.formats.conversion import folder_of
from timeleap.mirrors.vault import retention
from timeleap.mirrors.vault.kept_file import KeptFile
from timeleap.mirrors.vault.retention import is_excluded

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

NOT_KEPT: Final = "notKept"

_logger = logging.getLogger(__name__)


class Keeper:
    """Keeps the file of one mirror.

    Args:
        durable: Whether bytes are to be on the disk itself before the mirror says what they mean.
        exclude: Patterns of files and folders of which nothing is kept.
    """

    def __init__(self, *, durable: bool, exclude: Collection[str] = ()) -> None:
        self._durable, self._exclude = durable, exclude
        self._kept: KeptFile | None = None
        self._packing: asyncio.Task[None] | None = None
        self._stop = Event()
        self._warned = False

    async def keep(self, session: Session, path: Path) -> None:
        """Keep what the file has more by now; that it cannot be kept is a warning, once."""
        if path.suffix != ".jsonl":
            return  # a database has sessions of others, too
        kept = self._file_of(session)
        if is_excluded(path, folder_of(session.facts.workspace), self._exclude):
            await asyncio.to_thread(retention.remove_all, session.path)
            return
        try:
            self._pack(await to_its_end(asyncio.to_thread(kept.keep, path)), kept)
        except (TimeleapError, OSError) as error:
            if not self._warned:
                self._warned = True
                session.transactions.warn(NOT_KEPT, f"the bytes of {path} are not kept: {error}")

    async def end(self, session: Session) -> None:
        """Note that the file is gone. Raises OSError."""
        kept = self._file_of(session)
        self._pack(await to_its_end(asyncio.to_thread(kept.end, "gone")), kept)

    async def let_go(self) -> None:
        """Stop what is done in the background; the next one to open the mirror finishes it."""
        self._kept, self._warned = None, False
        if self._packing is not None:
            self._stop.set()
            await asyncio.wait([self._packing])

    def _file_of(self, session: Session) -> KeptFile:
        if self._kept is None or self._kept.directory != session.path:
            self._kept = KeptFile(session.path, durable=self._durable)
        return self._kept

    def _pack(self, waits: bool, kept: KeptFile) -> None:
        if waits and (self._packing is None or self._packing.done()):
            self._stop.clear()
            self._packing = asyncio.get_running_loop().create_task(self._pack_kept(kept))

    async def _pack_kept(self, kept: KeptFile) -> None:
        try:
            await asyncio.to_thread(kept.pack, self._stop.is_set)
        except (TimeleapError, OSError) as error:
            _logger.info("what is kept in %s is not compressed: %s", kept.directory, error)
