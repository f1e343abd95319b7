"""Files that Codex has packed with zstd (`.jsonl.zst`), read as the files that they were.

Readers ask for bytes by their places, which a packed file has not. So it is unpacked once into a file without a name, which is
kept for as long as it is one of those that were read last.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

from timeleap.errors import CorruptedError, StorageFailureError, TooLargeError
from timeleap.optional_parts import part
from timeleap.storage.durable import FileStatus, OpenFile, remove_file
from timeleap_agents.mirrors.scratch import folder_on_disk

SUFFIX: Final = ".zst"
MOST_UNPACKED: Final = 2 << 30
"""Bytes of a packed file, unpacked. A few kilobytes of zeros can be unpacked for ever."""
WINDOW: Final = 25
"""The most that a packed file may ask for to be unpacked, as a power of two: 32 MiB. Codex's own files ask for two."""
BLOCK: Final = 1 << 18
FIRST: Final = 1 << 16
"""Bytes of the first block, which often is the only one that is looked at."""
HELD: Final = 4
"""Packed files that stay unpacked for the next look at them."""

_held: Final[OrderedDict[Path, tuple[FileStatus, OpenFile]]] = OrderedDict()
_lock: Final = Lock()


class UnpackedFile(OpenFile):
    """A packed file as it was before. `identity` and times are those of the packed one."""

    __slots__ = ("_bytes", "_status")

    def __init__(self, path: Path, packed: FileStatus, unpacked: OpenFile) -> None:
        """Show what is in `unpacked` under the name and with the times of a packed file."""
        self._fd = self._closing = -1  # all reading is that of `unpacked`, which others may read, too
        self.path, self.borrowed = path, None
        self.identity = packed.identity
        self._bytes, self._status = unpacked, packed._replace(size=unpacked.status().size)

    def close(self) -> None:
        """Nothing: the bytes are those of all who read the file."""

    def pread(self, offset: int, size: int) -> bytes:
        return self._bytes.pread(offset, size)

    def status(self) -> FileStatus:
        return self._status

    def copy_to(self, target: OpenFile, offset: int, size: int, at: int | None = None) -> None:
        self._bytes.copy_to(target, offset, size, at)


def is_packed(path: Path) -> bool:
    """True of a name that says that the file is packed."""
    return path.suffix == SUFFIX


def unpacked_path(path: Path) -> Path:
    """The name that a packed file had before; any other as it is."""
    return path.with_suffix("") if is_packed(path) else path


def can_unpack() -> bool:
    """False where the library for it is not installed."""
    return _library() is not None


def file_at(path: Path) -> OpenFile:
    """Open an ordinary file, a packed one as it was before. Blocking.

    Raises:
        OSError: It cannot be opened.
        StorageFailureError: It is packed, and what unpacks it is not installed.
        CorruptedError: It is packed, and damaged.
        TooLargeError: It is packed, and has more bytes than are read.
    """
    if not is_packed(path):
        return OpenFile(path)
    with closing(OpenFile(path)) as packed:
        status = packed.status()
        with _lock:
            known = _held.get(path)
            if known is not None and known[0] == status:
                _held.move_to_end(path)
                return UnpackedFile(path, status, known[1])
        unpacked = _unpacked(packed)
    with _lock:
        _held[path] = status, unpacked
        while len(_held) > HELD:
            _held.popitem(last=False)
    return UnpackedFile(path, status, unpacked)


def beginning_of(path: Path) -> Generator[bytes]:
    """The bytes of a file from its beginning, in blocks, as far as they are asked for. Blocking. Raises as `file_at`."""
    with closing(OpenFile(path)) as file:
        blocks = _file_blocks(file)
        yield from _unpacked_blocks(path, blocks) if is_packed(path) else blocks


def _library() -> Any:
    """The library for zstd: Python's own from 3.14 on, else the same for earlier ones."""
    return part("compression.zstd") or part("backports.zstd")


def _unpacked(packed: OpenFile) -> OpenFile:
    """Unpack a file into one without a name."""
    number, name = tempfile.mkstemp(prefix="timeleap-", dir=folder_on_disk())
    os.close(number)
    unpacked = OpenFile(Path(name), writable=True)
    try:
        at = 0
        for block in _unpacked_blocks(packed.path, _file_blocks(packed)):
            unpacked.pwrite(block, at)
            at += len(block)
    finally:
        with suppress(OSError):  # where a file that is open keeps its name
            remove_file(Path(name))
    return unpacked


def _file_blocks(file: OpenFile) -> Iterator[bytes]:
    at = 0
    while block := file.pread(at, FIRST if at == 0 else BLOCK):
        yield block
        at += len(block)


def _unpacked_blocks(path: Path, packed: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of all frames, one behind the other."""
    library = _library()
    if library is None:
        message = f"{path.name} is packed with zstd: pip install 'timeleap[zstd]', or unpack it (zstd -d)"
        raise StorageFailureError(message, path=str(path), errno="ENOSYS")
    options = {library.DecompressionParameter.window_log_max: WINDOW}
    reader, size = library.ZstdDecompressor(options=options), 0
    is_begun = False
    try:
        for block in packed:
            data = block
            while data or not reader.needs_input:
                if reader.eof:
                    reader = library.ZstdDecompressor(options=options)
                made = reader.decompress(data, BLOCK)
                is_begun, size = True, size + len(made)
                if size > MOST_UNPACKED:
                    message = f"{path.name} is packed, and has more than {MOST_UNPACKED} bytes; no more are read"
                    raise TooLargeError(message, limit="bytes", maximum=MOST_UNPACKED)
                if made:
                    yield made
                data = reader.unused_data if reader.eof else b""
                if reader.eof and not data:
                    break
    except library.ZstdError as error:
        raise _damaged(path, str(error)) from None
    if is_begun and not reader.eof:
        raise _damaged(path, "it ends in the middle")


def _damaged(path: Path, why: str) -> CorruptedError:
    return CorruptedError(f"{path.name} is packed with zstd, and cannot be unpacked: {why}", path=str(path))
