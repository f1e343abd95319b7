"""Paths below a root as they stand on the wire: they need not be UTF-8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from timeleap.errors import InvalidInputError
from timeleap.features.files.records import LISTED, Change
from timeleap.sessions.shapes import set_members

Json = dict[str, Any]

PERCENT: Final = "percent"
MAX_PATH: Final = 4096
"""Bytes of a path, as on Linux."""


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


def shown_paths(paths: Sequence[tuple[str, bool]]) -> Json:
    """Members `paths`, `pathEncoding` and `more` for paths, each with whether it is percent-encoded: all are where one
    is."""
    listed = paths[:LISTED]
    percent = any(encoded for _, encoded in listed)
    shown = [path if encoded or not percent else quote(path) for path, encoded in listed]
    return {"paths": shown, **set_members(pathEncoding=PERCENT if percent else None), "more": len(paths) - len(listed)}


class RootChange(Struct, frozen=True):
    """A change, and the URI of its root where there are several."""

    root: str | None
    change: Change

    def wire(self) -> Json:
        """`FileChange` of the contract."""
        change = self.change
        return {
            **shown_path(change.path, change.percent, self.root),
            "kind": change.kind,
            **set_members(bytesFrom=change.bytes_from, bytesTo=change.bytes_to),
            "binary": change.binary,
        }
