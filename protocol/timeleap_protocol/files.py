"""Params, results and notifications of `files/*`: snapshots of the folders a session works on, and going back to one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from timeleap_protocol.base import (
    Choice,
    Count,
    MutationParams,
    Name,
    NullIsAbsent,
    Opt,
    PageParams,
    Positive,
    SessionParams,
    Shape,
    Timestamp,
    whole,
)
from timeleap_protocol.limits import MAX_FILE_PART, MAX_FILE_PATTERNS, MAX_FILE_ROOTS
from timeleap_protocol.shapes import Cause, FilesMode, Head

PathEncoding = Literal["percent"]
"""How a path is written that is not UTF-8: each byte that is not a letter, digit or one of `-._~/` as `%XX`."""
Restore = Literal["conversation", "files", "both"]
OnConflict = Literal["refuse", "keep", "overwrite"]
FileChangeKind = Literal["added", "modified", "deleted", "type", "mode"]
Patterns = Annotated[list[Name], Field(max_length=MAX_FILE_PATTERNS)]


class FilesSettings(NullIsAbsent):
    """`files` of `session/open`. What is absent stays as it was."""

    model_config = ConfigDict(extra="forbid")

    mode: FilesMode
    """`checkpoint`: each checkpoint has a snapshot of the files; `turn`: each end of a turn, too; `off`: none is taken."""
    roots: Opt[Annotated[list[Name], Field(max_length=MAX_FILE_ROOTS)]] = None
    """URIs of the folders; an empty list: the session's workspace. Default: the workspace."""
    exclude: Opt[Patterns] = None
    """Left out, in the syntax of `.gitignore`. Default: nothing more than the folder's own `.gitignore` files."""
    include_ignored: Opt[Patterns] = None
    """Taken in though they are ignored, in the same syntax. Default: nothing."""
    max_file_bytes: Opt[Positive] = None
    """Larger files are skipped, and left alone. Default: 10 MiB."""
    max_files: Opt[Positive] = None
    """With more files no snapshot is taken (`filesTooLarge`). Default: 200 000."""


class RestoreChoice(NullIsAbsent):
    """Mix-in: the params of changes of the log that can take the files along."""

    restore: Opt[Restore] = None
    """What goes back. Default: `conversation`; `both`: all of it or nothing."""
    on_conflict: Opt[OnConflict] = None
    """What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep`
    that file as it is, or `overwrite` it. Default: `refuse`."""


class _PathParams(NullIsAbsent):
    """Mix-in: which root paths are of, and how they are written."""

    root: Opt[Name] = None
    """URI of the root the path is below; needed only where the session has several."""
    path_encoding: Opt[PathEncoding] = None
    """`percent`: paths are percent-encoded bytes."""


class FilesPoint(Choice, NullIsAbsent):
    """One side of a comparison: a snapshot, that of a checkpoint, or (empty) the disk."""

    alternatives = (("snapshot",), ("checkpoint_uid",))
    must_choose = False

    model_config = ConfigDict(extra="forbid")

    snapshot: Opt[Name] = None
    checkpoint_uid: Opt[str] = None
    """The snapshot of this checkpoint."""


class FilesTarget(Choice, NullIsAbsent):
    """What is gone back to: a snapshot, or that of a checkpoint."""

    alternatives = (("snapshot",), ("checkpoint_uid",))

    model_config = ConfigDict(extra="forbid")

    snapshot: Opt[Name] = None
    checkpoint_uid: Opt[str] = None
    """The snapshot of this checkpoint."""


class FilesSnapshotParams(MutationParams):
    """`files/snapshot`."""

    label: Opt[str] = None


class FilesListParams(PageParams, SessionParams):
    """`files/list`."""


class FilesDiffParams(_PathParams, PageParams, SessionParams):
    """`files/diff`."""

    from_: FilesPoint = Field(alias="from")
    to: FilesPoint
    path: Opt[Name] = None
    """Only this file, or what is below this folder."""


class FilesReadParams(_PathParams, SessionParams):
    """`files/read`."""

    snapshot: Name
    path: Name
    offset: Opt[Count] = None
    """The first byte. Default: 0."""
    length: Opt[Annotated[int, Field(ge=1, le=MAX_FILE_PART), BeforeValidator(whole)]] = None
    """Bytes at most. Default and most: 16 MiB."""


class FilesRestoreParams(_PathParams, MutationParams):
    """`files/restore`."""

    to: FilesTarget
    paths: Opt[Annotated[list[Name], Field(min_length=1)]] = None
    """Only these; a folder means all below it. Default: everything."""
    on_conflict: Opt[OnConflict] = None
    """As in `context/revertTo`."""
    expected_files: Opt[Name] = None
    """Refuse with `contentModified` unless this is the session's newest snapshot."""
    dry_run: Opt[bool] = None
    """Say what would happen, and change nothing. Default: false."""


class _Path(Shape):
    """A path of one of the session's roots."""

    path: str
    """Relative to the root, with `/`."""
    path_encoding: Opt[PathEncoding] = None
    """Present where it is not UTF-8: it is percent-encoded then."""
    root: Opt[str] = None
    """URI; present where the session has several roots."""


class FilePath(_Path):
    """A file or folder of one of the session's roots."""


class SkippedFile(_Path):
    """What a snapshot could not take in; a restore leaves it alone."""

    reason: str
    """`tooLarge`, `special` (a pipe, socket or device), `unreadable` or `changing`; the list may grow."""


class FileChange(_Path):
    """How a path differs between two states."""

    kind: FileChangeKind
    """`type`: a file became a link or a folder, or the other way round; `mode`: only its permissions differ."""
    bytes_from: Opt[Count] = None
    """Absent where it is not there."""
    bytes_to: Opt[Count] = None
    """Absent where it is not there."""
    binary: bool


class FilesSnapshot(Shape):
    """A state of the files that can be gone back to."""

    snapshot: str
    created_at: Timestamp
    checkpoint_uid: Opt[str] = None
    """The checkpoint it was taken for."""
    label: Opt[str] = None
    changed: Count
    """Paths that differ from the snapshot before it."""


class FilesSnapshotResult(Head):
    """The snapshot that was taken."""

    snapshot: str
    changed: Count
    """Paths that differ from the snapshot before it."""
    skipped: list[SkippedFile]
    """The first 1 000."""
    more_skipped: Opt[Count] = None
    """How many more there are."""


class FilesListResult(Shape):
    """Snapshots, newest first."""

    snapshots: list[FilesSnapshot]
    next_cursor: Opt[str] = None


class FilesDiffResult(Shape):
    """How two states of the files differ, by path."""

    changes: list[FileChange]
    next_cursor: Opt[str] = None


class FilesReadResult(Shape):
    """A part of a file as a snapshot has it."""

    content: str
    """Base64; of a link where it points to."""
    bytes: Count
    """Of the whole file."""
    mode: Count
    """Its kind and permissions as the system has them (`st_mode`): `0o100644` for a plain file, `0o120777` for a link."""


class RestoredFiles(Shape):
    """What a restore did to the files, or (dry run) would do; counts are of paths."""

    before: Opt[str] = None
    """The snapshot of what was there: going back to it undoes the restore. Absent in a dry run."""
    after: str
    """The snapshot of what is there now; in a dry run the one that would be gone back to."""
    added: Count
    modified: Count
    deleted: Count
    kept: Count
    """Conflicts that were left as they are (`keep`)."""
    conflicts: Count
    """Paths that were changed by somebody else since."""
    conflict_paths: Opt[list[FilePath]] = None
    """In a dry run: the first 200 of these."""
    changes: Opt[list[FileChange]] = None
    """In a dry run: the first 200 changes, from what is on disk to what would be there."""
    cursor: Opt[str] = None
    """In a dry run: where `files/diff`, from `{}` to the snapshot `after`, goes on behind `changes`."""


class WithFiles(Shape):
    """Mix-in of results: what became of the files, where they went along."""

    files: Opt[RestoredFiles] = None
    """Absent where only the conversation went back."""
    changes: Opt[list[FileChange]] = None
    """In a dry run with files: as in `files`."""
    cursor: Opt[str] = None
    """In a dry run with files: as in `files`."""


class FilesRestoreResult(WithFiles, Head):
    """What a restore of files did, or (dry run) would do."""


class FilesDidSnapshot(Shape):
    """`files/didSnapshot`: a snapshot of the session's files was taken."""

    session_id: str
    snapshot: str
    created_at: Timestamp
    checkpoint_uid: Opt[str] = None
    label: Opt[str] = None
    changed: Count
    skipped: Count
    """How many paths it could not take in."""
    cause: Cause


class FilesDidRestore(Shape):
    """`files/didRestore`: files of the session were put back; once for each root that changed."""

    session_id: str
    root: Opt[str] = None
    """URI; present where the session has several roots."""
    paths: list[str]
    """The first 200 that changed, relative to the root."""
    path_encoding: Opt[PathEncoding] = None
    """Present where one of `paths` is not UTF-8: all of them are percent-encoded then."""
    more: Count
    """How many more changed."""
    before: str
    after: str
    cause: Cause
