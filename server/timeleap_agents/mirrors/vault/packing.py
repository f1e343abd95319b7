"""Bytes of a generation as blocks, compressed or not.

xz of the standard library: it has a checksum of its own, takes JSON to a sixth, and reads and writes in blocks. zlib is
faster and takes a quarter more than is allowed; zstd comes with Python 3.14 only.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from timeleap.errors import CorruptedError
from timeleap.storage.durable import OpenFile, open_temporary, remove_file, replace_file, sync_directory
from timeleap_agents.mirrors.vault.notes import Generation, packed_name, raw_name

BLOCK: Final = 1 << 18
FILTERS: Final = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 2 << 20}]
"""Settings of xz that take 25 MB of memory; a larger dictionary takes more, and makes hardly less of sessions."""
MEMORY: Final = 64 << 20
"""The most that a compressed file may ask for, which somebody else may have written."""


class StoppedError(Exception):
    """The process has other things to do: what was begun is done later."""


def blocks(directory: Path, generation: Generation) -> Iterator[bytes]:
    """The bytes of a generation, in blocks. Blocking.

    Raises:
        CorruptedError: The compressed file is damaged, or there is none any more.
        OSError: They cannot be read.
    """
    file = _opened(directory, generation)
    try:
        if file.path.name == raw_name(generation.number):
            yield from file_blocks(file)
        else:
            yield from _unpacked(file)
    finally:
        file.close()


def _opened(directory: Path, generation: Generation) -> OpenFile:
    for name in (generation.name, packed_name(generation.number)):  # it may be compressed meanwhile
        try:
            return OpenFile(directory / name)
        except FileNotFoundError:
            continue
    path = directory / generation.name
    raise CorruptedError(f"generation {generation.number} is not there any more: {path.name} is gone", path=str(path))


def file_of_blocks(path: Path) -> Iterator[bytes]:
    """The bytes that a file of the vault stands for, in blocks. Blocking. Raises CorruptedError, OSError."""
    with closing(OpenFile(path)) as file:
        yield from _unpacked(file) if path.suffix == ".xz" else file_blocks(file)


def plain_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of an ordinary file, in blocks. Blocking. Raises OSError."""
    with closing(OpenFile(path)) as file:
        yield from file_blocks(file)


def file_blocks(file: OpenFile) -> Iterator[bytes]:
    """The bytes of a file, in blocks. Blocking."""
    at, size = 0, file.status().size
    while at < size and (block := file.pread(at, min(BLOCK, size - at))):
        yield block
        at += len(block)


def _unpacked(file: OpenFile) -> Iterator[bytes]:
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    try:
        for block in file_blocks(file):
            data = reader.decompress(block, BLOCK)
            while data:
                yield data
                data = b"" if reader.needs_input or reader.eof else reader.decompress(b"", BLOCK)
    except (lzma.LZMAError, EOFError) as error:
        raise _damaged(file.path, str(error)) from None
    if not reader.eof:
        raise _damaged(file.path, "it ends in the middle")


def _damaged(path: Path, why: str) -> CorruptedError:
    return CorruptedError(f"{path.name} is damaged: {why}", path=str(path))


def write_packed(
    directory: Path, number: int, data: Iterable[bytes], stopped: Callable[[], bool] = lambda: False
) -> tuple[int, str]:
    """Write the compressed file of a generation, in one durable step; returns how many bytes there are, and their
    SHA-256. Blocking.

    Raises:
        StoppedError: `stopped` said so.
        OSError: It cannot be written; nothing is left of it.
    """
    target = directory / packed_name(number)
    writer, digest, size = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=FILTERS), hashlib.sha256(), 0
    file = open_temporary(directory, target.name)
    try:
        at = 0
        for block in data:
            if stopped():
                raise StoppedError
            digest.update(block)
            size += len(block)
            at += _written(file, writer.compress(block), at)
        _written(file, writer.flush(), at)
        file.sync()
        file.close()
        with closing(OpenFile(file.path)) as again:
            if sha256_of(_unpacked(again)) != digest.hexdigest():
                raise _damaged(file.path, "it does not say what was written to it")
        replace_file(file.path, target)
    except BaseException:
        file.close()
        remove_file(file.path)
        raise
    sync_directory(directory)
    return size, digest.hexdigest()


def _written(file: OpenFile, data: bytes, at: int) -> int:
    if data:
        file.pwrite(data, at)
    return len(data)


def sha256_of(data: Iterable[bytes]) -> str:
    """The SHA-256 of some blocks, in hexadecimal digits."""
    digest = hashlib.sha256()
    for block in data:
        digest.update(block)
    return digest.hexdigest()
