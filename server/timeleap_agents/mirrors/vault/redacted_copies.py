"""Taking something out of what is kept of a file, line by line, so that a generation of any size takes little memory.

The notes are changed first: a generation that may grow then goes on from where the program's file was read, though its bytes
are not those of the file any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from timeleap.storage.durable import open_temporary, remove_file, replace_file, status, storage_errors, sync_directory
from timeleap_agents.mirrors.vault import packing
from timeleap_agents.mirrors.vault.kept_file import lock_of
from timeleap_agents.mirrors.vault.notes import Generation, packed_name, read_all, write_notes

MAX_LINE: Final = 64 << 20
"""A longer line is looked at in parts."""
_NUMBER: Final = re.compile(r"kept_([0-9]+)\.")

Clean = Callable[[bytes], bytes]
"""A line without what is taken out."""


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a kept file, compressed or not, each with its line feed. Blocking. Raises CorruptedError, OSError."""
    yield from lines_in(packing.file_of_blocks(path))


def lines_of_file(path: Path) -> Iterator[bytes]:
    """The lines of a program's own file. Blocking. Raises OSError."""
    yield from lines_in(packing.plain_blocks(path))


def lines_in(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of some blocks, each with its line feed. Blocking. Raises as they do."""
    pending = bytearray()
    for block in blocks:
        *whole, rest = block.split(b"\n")
        for piece in whole:
            pending += piece
            yield bytes(pending) + b"\n"
            pending = bytearray()
        pending += rest
        if len(pending) > MAX_LINE:
            yield bytes(pending)
            pending = bytearray()
    if pending:
        yield bytes(pending)


def rewrite(path: Path, clean: Clean) -> None:
    """Take something out of a kept file. Hold the session's lock. Blocking.

    Raises:
        CorruptedError, OSError: It is as it was; asking again finishes it.
    """
    directory, found = path.parent, _NUMBER.match(path.name)
    if found is None:
        return
    number = int(found[1])
    with lock_of(directory).lock, storage_errors(f"redact {path.name}", path):
        if status(path) is None:
            return  # it was compressed meanwhile, and is looked at under that name
        known = read_all(directory)
        _note(directory, known, number, path)
        data = (clean(line) for line in lines_of(path))
        if path.name != packed_name(number):
            _write(path, data)
            return
        size, digest = packing.write_packed(directory, number, data)
        done = [replace(each, bytes=size, sha256=digest) if each.number == number else each for each in known]
        write_notes(directory, done)


def _note(directory: Path, known: list[Generation], number: int, path: Path) -> None:
    """Note what will be true of a generation: nothing is left in it in which a guess could be tried."""
    for at, each in enumerate(known):
        if each.number == number:
            there = status(path)
            read = each.read
            if read is None and there is not None and each.ended is None:
                read = there.size
            known[at] = replace(each, sha256="", read=read)
    write_notes(directory, known)


def _write(path: Path, data: Iterator[bytes]) -> None:
    file = open_temporary(path.parent, path.name)
    try:
        at = 0
        for line in data:
            file.pwrite(line, at)
            at += len(line)
        file.sync()
        file.close()
        replace_file(file.path, path)
    except BaseException:
        file.close()
        remove_file(file.path)
        raise
    sync_directory(path.parent)
