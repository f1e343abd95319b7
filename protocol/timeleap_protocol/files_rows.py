"""Rows of the method table: `files/*`, what the client asks."""

from __future__ import annotations

from typing import Final

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.method import Method, change, read

_E = ErrorKind

_REACHING = (_E.FILES_UNAVAILABLE, _E.FILES_BUSY, _E.STORAGE_FAILURE)
_LOOKING = (*_REACHING, _E.SNAPSHOT_NOT_FOUND, _E.CHECKPOINT_NOT_FOUND)

SNAPSHOTS_ARE_LOCAL: Final = (
    "snapshots of files, and the folders they are of, are on the disk of one machine; copy the session to a directory"
)

FILES_ROWS: Final[tuple[Method, ...]] = (
    change(
        "files/snapshot",
        "files.FilesSnapshotParams",
        "files.FilesSnapshotResult",
        "Keeps the files of the session as they are now.",
        handler="timeleap.features.files.handlers.take_snapshot",
        needs_directory=SNAPSHOTS_ARE_LOCAL,
        cancel="unwritten",
        progress=True,
        errors=(*_REACHING, _E.FILES_INCOMPLETE, _E.FILES_TOO_LARGE),
    ),
    read(
        "files/list",
        "files.FilesListParams",
        "files.FilesListResult",
        "Lists the snapshots of the session's files, newest first.",
        handler="timeleap.features.files.handlers.list_snapshots",
        needs_directory=SNAPSHOTS_ARE_LOCAL,
        errors=_REACHING,
    ),
    read(
        "files/diff",
        "files.FilesDiffParams",
        "files.FilesDiffResult",
        "How the files differ between two snapshots, or between one and the disk.",
        handler="timeleap.features.files.handlers.diff",
        needs_directory=SNAPSHOTS_ARE_LOCAL,
        progress=True,
        errors=(*_LOOKING, _E.CONTENT_MODIFIED, _E.FILES_TOO_LARGE),
    ),
    read(
        "files/read",
        "files.FilesReadParams",
        "files.FilesReadResult",
        "A part of a file as a snapshot has it.",
        handler="timeleap.features.files.handlers.read_file",
        needs_directory=SNAPSHOTS_ARE_LOCAL,
        errors=_LOOKING,
    ),
    change(
        "files/restore",
        "files.FilesRestoreParams",
        "files.FilesRestoreResult",
        "Puts files back as a snapshot has them; what was there is kept as a snapshot first.",
        handler="timeleap.features.files.handlers.restore",
        needs_directory=SNAPSHOTS_ARE_LOCAL,
        access="read",
        cancel="unwritten",
        progress=True,
        errors=(*_LOOKING, _E.FILES_CONFLICT, _E.FILES_INCOMPLETE, _E.FILES_TOO_LARGE),
    ),
)
