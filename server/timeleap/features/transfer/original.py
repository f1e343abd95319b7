"""Taking over a session of the original program, or one of ours: its directory, or a bare log."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Final

from timeleap.errors import StorageFailureError
from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer.exporting import CARRIED
from timeleap.features.transfer.importing import may_be_a_log, nothing_of
from timeleap.features.transfer.losses import ExportLoss, listed
from timeleap.features.transfer.sanitize import Arrival, Origin
from timeleap.sessions import files
from timeleap.sessions.home import is_session
from timeleap.sessions.info import LOG_NAME
from timeleap.sessions.meta import FILE_NAME as META_NAME
from timeleap.sessions.statefile import FILE_NAME as STATE_NAME
from timeleap.storage.durable import OpenFile, create_exclusive, list_directory, sync_directory
from timeleap.storage.timelines import names as timeline_names

BLOCK: Final = 1 << 20


def read_session(path: Path, directory: Path) -> Generator[tuple[int, int], None, Arrival]:
    """Copy the logs at `path` byte for byte, as long as they are now. See `importing.Work`.

    Raises:
        InvalidInputError: It is a directory without a session, or a file without records.
        StorageFailureError: It could not be read, or a log could not be written.
    """
    if not path.is_dir():
        if not may_be_a_log(path):
            raise nothing_of("kimi")
        lines = yield from _copy([(path, LOG_NAME)], directory)
        return Arrival(lines=lines, origin=Origin("kimi"))
    if not is_session(path):
        raise refused(f"is a directory without a session: there is no {LOG_NAME}")
    logs = [(path / LOG_NAME, LOG_NAME)] if LOG_NAME in list_directory(path) else []
    logs += [(path / timeline.file, timeline.file) for timeline in timeline_names(path / LOG_NAME)]
    lines = yield from _copy(logs, directory)
    notes = files.read_document(path / META_NAME).members
    state = files.read_document(path / STATE_NAME)
    left = [] if state.problem is None else [ExportLoss("state", state.problem)]
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
    try:
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
    except StorageFailureError:
        raise
    except OSError as error:
        raise StorageFailureError.of(error, "copy the session", logs[0][0] if logs else directory) from error
    return lines
