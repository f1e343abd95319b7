"""Making a session of a file, or a directory, from elsewhere: what it is, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from timeleap.errors import InvalidInputError, NotSupportedByStoreError
from timeleap.features.transfer.archive import unpack
from timeleap.features.transfer.exhibit import CARRIED, IMPORTED, listed, unsupported
from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer.sanitize import Arrival, Origin, settle_in
from timeleap.features.transfer_losses import ExportLoss
from timeleap.optional_parts import part
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME, STATE_NAME, classify
from timeleap.sessions.shapes import Mutation
from timeleap.storage.durable import (
    OpenFile,
    create_exclusive,
    is_regular,
    list_directory,
    remove_file,
    storage_errors,
    sync_directory,
)
from timeleap.storage.load import lost_of
from timeleap.storage.reader import timeline_names
from timeleap.store.home import is_session

Work = Generator[tuple[int, int], None, Arrival]
"""Writes the logs of a session into a directory, and returns its other data. Pauses often, with the bytes done
and in all."""

BLOCK: Final = 1 << 20
_OF_AGENTS: Final = "timeleap_agents.importing.readers"
"""The module that recognises and reads other programs' sessions; its package need not be installed."""


def take_in(
    path: Path, name: str | None, directory: Path, guard: Mutation, *, with_files: bool = False
) -> Generator[tuple[int, int], None, None]:
    """Write the session in `path` (a file, or for `kimi` also a session's directory) into an empty directory of the staging
    area, all that belongs to it. Pauses as `Work` does. The format is recognised from the content if `name` is None.
    Snapshots of files that are in it stay there only `with_files`; they are not looked at.

    Raises:
        InvalidInputError: The format is not supported, or not recognised; or there are no files `with_files`.
        NotSupportedByStoreError: Another program wrote it, and this installation does not read other programs' sessions.
        CorruptedError: What is there is damaged.
        TooLargeError: There is more of it than may be imported.
        StorageFailureError: It could not be read, or the session could not be written.
    """
    agents = part(_OF_AGENTS)
    form: str = _recognised(path, agents, guard.method) if name is None else name
    if form not in IMPORTED:
        raise unsupported(form, IMPORTED)
    readers = _READERS if agents is None else {**_READERS, **agents.READERS}
    if form not in readers or (agents is None and form == "kimi" and not path.is_dir()):
        raise _missing(f"sessions of {form} are not imported", guard.method)
    arrival = yield from readers[form](path, directory)
    snapshots = [file for file in list_directory(directory) if classify(file)[0].kind == "snapshots"]
    if with_files and not snapshots:
        raise InvalidInputError.of("folders", "there are no snapshots of files in it: leave the folders out")
    if snapshots and not with_files:
        for file in snapshots:
            remove_file(directory / file)
        loss = ExportLoss("files", "the snapshots of files: to have them, import it again and name their folder")
        arrival = replace(arrival, origin=replace(arrival.origin, losses=(*arrival.origin.losses, loss)))
    present = [timeline.timeline_id for timeline in timeline_names(directory / "context.jsonl")]
    settle_in(directory, arrival, guard, present)


def _recognised(path: Path, agents: Any, method: str) -> str:
    """The format of what is in `path`; without `agents` only our own are known."""
    if agents is not None:
        found: str = agents.recognised(path)
        return found
    if path.is_dir():
        return "kimi"
    with storage_errors(f"read {path.name}", path), closing(OpenFile(path)) as file:
        if file.pread(0, 2) == b"PK":
            return "native"
    raise _missing("only archives of Timeleap and directories of sessions are imported", method)


def _missing(what: str, method: str) -> NotSupportedByStoreError:
    message = (
        f"{what}: this installation does not read other programs' sessions, its package timeleap_agents is missing"
    )
    return NotSupportedByStoreError(message, method=method)


def _from_archive(path: Path, directory: Path) -> Work:
    with storage_errors(f"read {path.name}", path):
        source = OpenFile(path)
    try:
        return (yield from unpack(source, directory))
    finally:
        source.close()


def copied_log(path: Path, directory: Path) -> Work:
    """Copy the log at `path` byte for byte, as long as it is now."""
    lines = yield from _copy([(path, LOG_NAME)], directory)
    return Arrival(lines=lines, origin=Origin("kimi"))


def copied_session(path: Path, directory: Path) -> Work:
    """Copy the logs of the session whose directory is `path` byte for byte, as long as they are now."""
    if not is_session(path):
        raise refused(f"is a directory without a session: there is no {LOG_NAME}")
    logs = [(path / LOG_NAME, LOG_NAME)] if LOG_NAME in list_directory(path) else []
    logs += [(timeline.path, timeline.path.name) for timeline in timeline_names(path / LOG_NAME)]
    lines = yield from _copy(logs, directory)
    notes = files.read_document(path / META_NAME).members
    state = files.read_document(path / STATE_NAME)
    left = [] if state.problem is None else [ExportLoss("state", state.problem)]
    if (lost := lost_of(path / LOG_NAME, expected=is_regular(path / META_NAME))) is not None:
        left.append(ExportLoss(lost.kind, lost.message))
    known = {META_NAME, STATE_NAME, *(name for _, name in logs)}
    others = [name for name in list_directory(path) if name not in known and not name.startswith(".")]
    if others:
        left.append(ExportLoss("files", f"other files of the directory are not part of a session: {listed(others)}"))
    return Arrival(
        notes={name: value for name, value in notes.items() if name in CARRIED},
        state=state.members,
        lines=lines,
        origin=Origin("kimi", path.name, losses=tuple(left)),
    )


def _copy(logs: list[tuple[Path, str]], directory: Path) -> Generator[tuple[int, int], None, int]:
    """Copy logs; returns how many lines the live one has."""
    lines = done = 0
    with storage_errors("copy the session", logs[0][0] if logs else directory):
        sources = [(name, path, path.lstat().st_size) for path, name in logs]
        total = sum(size for _, _, size in sources)
        for name, path, size in sources:
            source, target = OpenFile(path), create_exclusive(directory / name)
            at, last = 0, b"\n"
            while at < size and (block := source.pread(at, min(BLOCK, size - at))):
                target.pwrite(block, at)
                at, done, last = at + len(block), done + len(block), block[-1:]
                lines += block.count(b"\n") if name == LOG_NAME else 0
                yield done, total
            lines += name == LOG_NAME and last != b"\n"
            target.sync()
        sync_directory(directory)
    return lines


_READERS: Final[Mapping[str, Callable[[Path, Path], Work]]] = {"native": _from_archive, "kimi": copied_session}
"""By format. `timeleap_agents.importing.readers` has those of other programs."""
