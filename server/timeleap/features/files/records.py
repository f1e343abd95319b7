"""Settings, snapshots, changes and results: what the engine of workspace files takes and gives.

Inside, a path is text relative to the root, with `/`; bytes that are no UTF-8 stand in it as lone surrogates
(`surrogateescape`). `encode_path` makes of it what may leave the process, `decode_path` goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from timeleap.errors import FilesConflictError
from timeleap.json_value import Json
from timeleap.sessions.shapes import set_members

Mode = Literal["off", "checkpoint", "turn"]
OnConflict = Literal["refuse", "keep", "overwrite"]
ChangeKind = Literal["added", "modified", "deleted", "type", "mode"]
SkipReason = Literal["tooLarge", "special", "unreadable", "changing", "unsupported"]

PERCENT: Final = "percent"
LISTED: Final = 200
"""Paths that an error or a reply names; of the others it says how many there are."""


class FilesConfig(Struct, frozen=True):
    """Settings of a session; `exclude` and `include_ignored` are patterns in the syntax of `.gitignore`."""

    mode: Mode = "off"
    roots: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    include_ignored: tuple[str, ...] = ()
    max_file_bytes: int = 10 << 20
    max_files: int = 200_000


def _no_progress(_stage: str, _done: int, _total: int | None) -> None:
    return


def _never_cancelled() -> bool:
    return False


class Control(Struct, frozen=True):
    """How work tells how far it is, and learns that it is not wanted any more."""

    progress: Callable[[str, int, int | None], None] = _no_progress
    cancelled: Callable[[], bool] = _never_cancelled


class Skipped(Struct, frozen=True):
    """A path that a snapshot does not have although it is there; a restore leaves it, and all below it, alone."""

    path: str
    reason: SkipReason


class Snapshot(Struct, frozen=True):
    """A state of the files that can be restored.

    Attributes:
        created_at: Seconds since 1970.
        changed: Paths that differ from the session's snapshot before it.
        ms: How long it took, in milliseconds.
    """

    snapshot_id: str
    created_at: float
    label: str | None
    checkpoint_uid: str | None
    changed: int
    skipped: tuple[Skipped, ...]
    ms: int


class PathChange(Struct, frozen=True):
    """How a path differs between two states; `path` is percent-encoded where `percent` says so."""

    path: str
    kind: ChangeKind
    bytes_from: int | None
    bytes_to: int | None
    binary: bool
    percent: bool


class FileContent(Struct, frozen=True):
    """A part of a file (of a link: where it points to); `total` bytes has the whole, `mode` is its `st_mode`."""

    content: bytes
    total: int
    mode: int


class Restored(Struct, frozen=True):
    """A restore that was carried out; `before` and `after` are snapshots, `paths` all that changed, as they may leave
    the process, each with whether it is percent-encoded."""

    before: str
    after: str
    added: int
    modified: int
    deleted: int
    kept: int
    conflicts: int
    paths: tuple[tuple[str, bool], ...] = ()


class Recovered(Struct, frozen=True):
    """An interrupted restore that was brought to an end.

    Attributes:
        forward: True if the files are at the target now, False if they are as before.
        paths: The paths it wrote now.
        foreign: Paths that somebody else has changed since: they were left alone.
    """

    forward: bool
    before: str
    target: str
    paths: tuple[str, ...]
    foreign: tuple[str, ...]


class Usage(Struct, frozen=True):
    """Snapshots of a session, and the bytes on disk of all sessions below the same root."""

    snapshots: int
    bytes: int


class SnapshotBudget(Struct, frozen=True):
    """How much one root may have: snapshots of all sessions together, and bytes on disk."""

    snapshots: int = 200
    bytes: int = 2 << 30


BUDGET: Final = SnapshotBudget()


def encode_path(path: str) -> tuple[str, bool]:
    """The path as it may leave the process, and whether it is percent-encoded."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return quote(path.encode("utf-8", "surrogateescape"), safe="/"), True
    return path, False


def decode_path(path: str, percent: bool) -> str:
    """Undo `encode_path`."""
    return unquote_to_bytes(path).decode("utf-8", "surrogateescape") if percent else path


def shown_paths(paths: Sequence[tuple[str, bool]]) -> Json:
    """Members `paths`, `pathEncoding` and `more` for paths, each with whether it is percent-encoded: all are where one
    is."""
    listed = paths[:LISTED]
    percent = any(encoded for _, encoded in listed)
    shown = [path if encoded or not percent else quote(path) for path, encoded in listed]
    return {"paths": shown, **set_members(pathEncoding=PERCENT if percent else None), "more": len(paths) - len(listed)}


def changed_by_others(
    paths: Sequence[str],
    advice: str = "say in onConflict whether to keep or to overwrite, or look first (dryRun); nothing was changed",
    **members: Any,
) -> FilesConflictError:
    """The error that names files which somebody else has changed.

    Args:
        paths: One or more, as text inside.
        advice: What to do, and what became of the request.
        members: Further members of its data.
    """
    first, others = encode_path(paths[0])[0][:200], len(paths) - 1
    changed = f"{first} and {others} more were" if others else f"{first} was"
    listed = shown_paths([encode_path(path) for path in paths])
    return FilesConflictError(f"{changed} changed by somebody else; {advice}", **listed, **members)


def to_bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def to_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def is_below(path: str, folder: str) -> bool:
    """True for the folder itself, too; everything is below the empty one."""
    return not folder or path == folder or path.startswith(folder + "/")
