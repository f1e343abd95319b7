"""Paths, changes and pages of them as they stand on the wire. Paths need not be UTF-8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from timeleap.clock import iso
from timeleap.errors import InvalidInputError
from timeleap.features.files.records import PERCENT, PathChange
from timeleap.json_value import Json
from timeleap.service import cursors
from timeleap.sessions.shapes import set_members

if TYPE_CHECKING:
    from timeleap.features.files.records import Snapshot


MAX_PATH: Final = 4096
"""Bytes of a path, as on Linux."""
CHANGES: Final = "changes of files"
"""The listing that cursors of `files/diff`, and of dry runs, belong to."""
SNAPSHOTS: Final = "snapshots of files"


def given_path(path: str, encoding: str | None, param: str) -> bytes:
    """The path that a request names in `param`, without a slash at its end.

    Raises:
        InvalidInputError: It is empty, absolute, or leads out of its root.
    """
    try:
        raw = (unquote_to_bytes(path) if encoding == PERCENT else path.encode()).removesuffix(b"/")
    except UnicodeEncodeError:
        raise InvalidInputError.of(param, "has half of a surrogate pair, which no file name has") from None
    if not 0 < len(raw) <= MAX_PATH or b"\0" in raw:
        raise InvalidInputError.of(param, f"must be a path of 1 to {MAX_PATH} bytes without NUL")
    if any(part in (b"", b".", b"..") for part in raw.split(b"/")):
        raise InvalidInputError.of(param, "must be relative to the root, without '.', '..' and empty parts")
    return raw


def shown_path(path: str, percent: bool, root: str | None) -> Json:
    """The members of an entry that name its path; `percent`: it is percent-encoded; `root`: where there are several."""
    return {"path": path, **set_members(pathEncoding=PERCENT if percent else None, root=root)}


class RootChange(Struct, frozen=True):
    """A change, and the URI of its root where there are several."""

    root: str | None
    change: PathChange

    def wire(self) -> Json:
        """`FileChange` of the contract."""
        change = self.change
        return {
            **shown_path(change.path, change.percent, self.root),
            "kind": change.kind,
            **set_members(bytesFrom=change.bytes_from, bytesTo=change.bytes_to),
            "binary": change.binary,
        }


# Pages. A listing of changes goes on behind a path: what is on disk may differ by then.


class Behind(Struct, frozen=True):
    """Where a listing of changes goes on: behind a path of a root, between these two states (None: the disk)."""

    from_: str | None
    to: str | None
    root: str | None
    path: str


class Before(Struct, frozen=True):
    """Where a listing of snapshots goes on: with those of lower numbers."""

    number: int


def cursor_behind(from_: str | None, to: str | None, root: str | None, path: str) -> str:
    """The cursor behind the last change of a page; `path`: of it, below `root` where there are several."""
    return cursors.encode_cursor(CHANGES, from_=from_, to=to, root=root, path=path)


def page_of_changes(
    changes: Sequence[RootChange], states: tuple[str | None, str | None], cursor: str | None, limit: int
) -> Json:
    """The first changes, or those behind a cursor.

    Raises:
        InvalidInputError: It is no cursor between these two states.
    """
    start = 0
    if cursor is not None:
        behind = cursors.decode_cursor(cursor, CHANGES, Behind)
        if (behind.from_, behind.to) != states:
            raise cursors.unknown_cursor()
        start = _index_behind(changes, behind)
    page = changes[start : start + limit]
    more = start + limit < len(changes)
    return {
        "changes": [change.wire() for change in page],
        **set_members(nextCursor=cursor_behind(*states, page[-1].root, page[-1].change.path) if more else None),
    }


def _index_behind(changes: Sequence[RootChange], behind: Behind) -> int:
    """The index of the first change behind a path: by its name where the path itself differs no more."""
    seen_root = False
    for at, each in enumerate(changes):
        if each.root == behind.root:
            seen_root = True
            if each.change.path > behind.path:
                return at
        elif seen_root:
            return at
    return len(changes)


def page_of_snapshots(snapshots: Sequence[tuple[int, Snapshot]], cursor: str | None, limit: int) -> Json:
    """The newest snapshots, or those behind a cursor; `snapshots`: with their numbers, newest first.

    Raises:
        InvalidInputError: It is no cursor of this listing.
    """
    below = None if cursor is None else cursors.decode_cursor(cursor, SNAPSHOTS, Before).number
    left = [each for each in snapshots if below is None or each[0] < below]
    page = left[:limit]
    more = cursors.encode_cursor(SNAPSHOTS, number=page[-1][0]) if len(left) > limit else None
    return {"snapshots": [_shown(snapshot) for _, snapshot in page], **set_members(nextCursor=more)}


def _shown(snapshot: Snapshot) -> Json:
    """`FilesSnapshot` of the contract."""
    return {
        "snapshot": snapshot.snapshot_id,
        "createdAt": iso(snapshot.created_at),
        **set_members(checkpointUid=snapshot.checkpoint_uid, label=snapshot.label),
        "changed": snapshot.changed,
    }
