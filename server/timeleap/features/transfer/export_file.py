"""Files outside of the store: written to a temporary file and put in place in one step, readable by the user only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiofiles

from timeleap.call import to_its_end
from timeleap.errors import InvalidInputError
from timeleap.storage import durable
from timeleap.storage.durable import storage_errors
from timeleap.store.home import Home, is_session


def absolute(path: str) -> Path:
    """A path a client gave. Raises InvalidInputError if it is not absolute, or no path at all."""
    if "\0" in path or not Path(path).is_absolute():
        raise refused("must be an absolute path")
    return Path(path)


def check_target(home: Home, path: Path, overwrite: bool) -> None:
    """See that a file may be written at `path`.

    Raises:
        InvalidInputError: Something is there and is not to be, or cannot be, replaced; or a store is there.
    """
    if home.is_inside(path.parent):
        raise refused("lies in the store; choose a place outside of it")
    if is_session(path.parent):
        raise refused("lies in a session's directory; choose a place outside of it")
    if path.is_dir():
        raise refused("is a directory; name the file to be written")
    if os.path.lexists(path):  # a dangling link, too
        if not overwrite:
            raise refused("there is such a file already; choose another name, or say overwrite")
        if not durable.is_regular(path):
            raise refused("is no ordinary file, and is not replaced")


class NewFile:
    """A file on its way to `path`: there whole once `finish` has returned, not at all when the block ends before."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        self._temporary = path.with_name(f".timeleap-{secrets.token_hex(8)}.tmp")
        self._file: Any = None
        self.bytes = 0

    async def __aenter__(self) -> Self:
        with storage_errors(f"write {self._path.name}", self._path):
            unwanted = asyncio.Event()
            self._file = await to_its_end(self._open(), unwanted.set)  # a thread makes the file, whoever waits for it
        if unwanted.is_set():
            await self.__aexit__(None, None, None)
            raise asyncio.CancelledError
        return self

    async def _open(self) -> Any:
        return await aiofiles.open(self._temporary, "xb", opener=_private)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            await self._file.close()  # behind a write that is still under way
        with contextlib.suppress(OSError):
            durable.remove_file(self._temporary)

    async def write(self, data: bytes) -> None:
        """More of it. Raises StorageFailureError."""
        with storage_errors(f"write {self._path.name}", self._path):
            await self._file.write(data)
        self.bytes += len(data)

    async def finish(self) -> None:
        """Give it its place, durably. Not to be cancelled.

        Raises:
            InvalidInputError: Somebody has put a file there meanwhile.
            StorageFailureError: It could not be written.
        """
        with storage_errors(f"write {self._path.name}", self._path):
            try:
                await self._file.flush()
                await asyncio.to_thread(durable.sync_data, self._file.fileno())
                await self._file.close()
                await asyncio.to_thread(self._put_in_place)
            except FileExistsError:
                raise refused("there is such a file by now; choose another name, or say overwrite") from None

    def _put_in_place(self) -> None:
        if self._overwrite:
            durable.replace_file(self._temporary, self._path)
        elif not durable.link_exclusive(self._temporary, self._path):
            if os.path.lexists(self._path):  # no links here: as near as one gets
                raise FileExistsError(self._path)
            durable.replace_file(self._temporary, self._path)
        durable.sync_directory(self._path.parent)


def refused(text: str) -> InvalidInputError:
    return InvalidInputError(f"path: {text}", errors=[{"loc": ["path"], "msg": text, "type": "path"}])


def _private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    durable.set_mode(descriptor, durable.FILE_MODE, Path(path))  # whatever the umask
    return descriptor
