"""Giving a file back from what is kept of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from timeleap.errors import CorruptedError, InvalidInputError, StorageFailureError
from timeleap.storage.durable import (
    OpenFile,
    failpoint,
    is_regular,
    link_exclusive,
    make_directory,
    open_temporary,
    remove_file,
    replace_file,
    storage_errors,
    sync_directory,
)
from timeleap_agents.mirrors import opencode_database
from timeleap_agents.mirrors.packed_files import SUFFIX
from timeleap_agents.mirrors.vault import kept_rows, packing
from timeleap_agents.mirrors.vault.companions import newest
from timeleap_agents.mirrors.vault.notes import Generation, read_notes

LEVELS: Final = 5
"""So many parts of a file's place a reader looks at: its name, and folders that it is in."""


class FileToRestore(Struct, frozen=True):
    """A file to give back, and its place.

    Attributes:
        directory: Where it is kept.
        sha256: Of its bytes, of which there are `size`.
        is_there: A file with these bytes is there already.
        data: Its bytes, where they are not those of the generation.
    """

    directory: Path
    generation: Generation
    path: Path
    size: int
    sha256: str
    is_there: bool
    data: bytes | None = None

    def blocks(self) -> Iterator[bytes]:
        """Its bytes, in blocks. Blocking. Raises as `packing.blocks`."""
        return packing.blocks(self.directory, self.generation) if self.data is None else iter([self.data])


def chosen(directory: Path, number: int | None) -> Generation:
    """The generation of a number, or the newest. Blocking.

    Raises:
        InvalidInputError: Nothing is kept, or not that.
    """
    known = read_notes(directory)
    if not known:
        raise InvalidInputError.of("sessionId", "has no file of another program that is kept: nothing was changed")
    if number is None:
        return known[-1]
    for generation in known:
        if generation.number == number:
            return generation
    numbers = ", ".join(str(each.number) for each in known[-10:])
    raise InvalidInputError.of("generation", f"is not kept: there are {numbers}")


def plan(directory: Path, number: int | None, path: Path | None, old_place: Path) -> FileToRestore:
    """Look at what would be given back, without doing it. Blocking.

    Raises:
        InvalidInputError: As `chosen`.
        StorageFailureError: Something else is at that place (EEXIST), or it cannot be looked at.
        CorruptedError: What is kept is damaged.
    """
    generation = chosen(directory, number)
    database = opencode_database.split(old_place)
    if database is not None:  # rows are not put into a database of its program, which takes them in itself
        data = kept_rows.exported(directory, generation)
        target = path or database[0].parent / kept_rows.FOLDER / f"{database[1]}.json"
        sha256 = hashlib.sha256(data).hexdigest()
        return FileToRestore(directory, generation, target, len(data), sha256, _is_there(target, sha256), data)
    return _planned(directory, generation, path or (Path(generation.path) if generation.path else old_place))


def companions(directory: Path, old_place: Path) -> list[FileToRestore]:
    """The files beside a session's that its program needs with it, and that are not there. Blocking.

    Raises:
        CorruptedError: One is damaged.
        StorageFailureError: One cannot be read.
    """
    missing = [each for each in newest(directory) if not any(map(os.path.lexists, (each.path, each.path + SUFFIX)))]
    return [_planned(directory, each, Path(each.path)) for each in missing if each.path != str(old_place)]


def _planned(directory: Path, generation: Generation, target: Path) -> FileToRestore:
    digest, size = hashlib.sha256(), 0
    with storage_errors("read what is kept", directory):
        for block in packing.blocks(directory, generation):
            digest.update(block)
            size += len(block)
    sha256 = digest.hexdigest()
    if generation.packed and generation.sha256 and sha256 != generation.sha256:
        raise CorruptedError(
            f"generation {generation.number} is damaged: its bytes are not those that were kept", path=str(directory)
        )
    return FileToRestore(directory, generation, target, size, sha256, _is_there(target, sha256))


def carry_out(wanted: FileToRestore) -> None:
    """Write the file, durably and in one step, with the time of its last change. Nothing that is there is written over.
    Blocking. Raises StorageFailureError."""
    if wanted.is_there:
        return
    target = wanted.path
    with storage_errors("give the file back", target):
        make_directory(target.parent)
        file = open_temporary(target.parent, target.name)
        try:
            at = 0
            digest = hashlib.sha256()
            for block in wanted.blocks():
                part = block[: wanted.size - at]  # it may have grown
                file.pwrite(part, at)
                digest.update(part)
                at += len(part)
            file.sync()
            file.close()
            if digest.hexdigest() != wanted.sha256:
                raise StorageFailureError(
                    "what is kept has changed meanwhile: ask again", path=str(target), errno="EAGAIN"
                )
            if changed := _changed_at(wanted):
                os.utime(file.path, ns=(changed, changed))
            failpoint("vault.restoring")
            _give_name(file.path, target)
        finally:
            file.close()
            remove_file(file.path)
        sync_directory(target.parent)


def _give_name(temporary: Path, target: Path) -> None:
    try:
        if link_exclusive(temporary, target):
            return
    except FileExistsError:
        raise _taken(target) from None
    if os.path.lexists(target):
        raise _taken(target)
    replace_file(temporary, target)


def _changed_at(wanted: FileToRestore) -> int:
    """Nanoseconds since 1970 at which the program's file was changed last."""
    if wanted.data is not None:
        return 0
    if wanted.generation.modified_ns:
        return wanted.generation.modified_ns
    with suppress(OSError):
        return (wanted.directory / wanted.generation.name).stat().st_mtime_ns
    return 0


def _is_there(target: Path, sha256: str) -> bool:
    """True if a file with these bytes is there, False if nothing is; else raises StorageFailureError."""
    if not os.path.lexists(target):
        return False
    if is_regular(target):
        with storage_errors("look at what is there", target), closing(OpenFile(target)) as file:
            if packing.sha256_of(packing.file_blocks(file)) == sha256:
                return True
    raise _taken(target)


def _taken(target: Path) -> StorageFailureError:
    return StorageFailureError(
        f"{target} is there with other bytes, and is not written over: move it away, or name another place",
        path=str(target),
        errno="EEXIST",
    )


@contextmanager
def readable_copy(directory: Path, old_place: Path) -> Iterator[Path]:
    """The newest generation as a file for the time of a block, in folders that are called as those of its old place.
    Blocking. Raises as `chosen`, CorruptedError, OSError."""
    generation = chosen(directory, None)
    with TemporaryDirectory(prefix="timeleap-") as temporary:
        path = Path(temporary, *_last_parts(old_place))
        if opencode_database.split(old_place) is not None:
            database, _ = opencode_database.split(path) or (path.parent, "")
            database.parent.mkdir(mode=0o700, parents=True)
            kept_rows.write_database(directory, generation, database)
            yield path
            return
        _copy(directory, generation, path)
        above, there = old_place.parents[len(_last_parts(old_place)) - 1], Path(temporary)
        for companion in newest(directory):
            with suppress(FileExistsError, ValueError):  # that lies elsewhere
                _copy(directory, companion, there / Path(companion.path).relative_to(above))
        yield path


def _copy(directory: Path, generation: Generation, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("xb") as file:
        for block in packing.blocks(directory, generation):
            file.write(block)


def at_old_place(made: Path, copy: Path, old_place: Path) -> Path:
    """Where a new file belongs that a reader of the copy named."""
    level = len(_last_parts(old_place)) - 1
    return old_place.parents[level] / made.relative_to(copy.parents[level])


def _last_parts(path: Path) -> tuple[str, ...]:
    return path.parts[1:][-LEVELS:]
