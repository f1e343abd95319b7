"""Repositories within the root: what their own ignore files (`info/exclude`, `core.excludesFile`) leave out.

Git passes over such a repository, and its files are looked at as a part of the root; so the patterns become those of
the root, each with the repository's folder before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from timeleap.features.files.bounded import UnfitFileError, read_bounded
from timeleap.features.files.records import Control, to_bytes
from timeleap.features.files.user_repository import (
    UserRepository,
    find_excludes_file,
    names_ignore_file,
    repository_at,
)

_SPECIAL: Final = re.compile(rb"([\\*?\[\]!# ])")


def nested_patterns(place: str, folders: Iterable[str], control: Control) -> dict[str, list[bytes]]:
    """Find what the repositories in some of these folders leave out, by folder, as patterns of the root at `place`."""
    found: dict[str, list[bytes]] = {}
    for folder in sorted(folders):
        if folder and os.path.lexists(f"{place}/{folder}/.git"):
            user = repository_at(Path(place, folder))
            patterns = (
                [] if user is None else [below(folder, line) for line in _lines(Path(place, folder), user, control)]
            )
            if patterns:
                found[folder] = patterns
    return found


def _lines(top: Path, user: UserRepository, control: Control) -> Iterator[bytes]:
    files = [user.exclude]
    if user.usable and names_ignore_file(user):
        files.insert(0, Path(find_excludes_file(top, user, control)))
    for file in files:
        try:
            content = read_bounded(file) or b""
        except UnfitFileError:
            continue
        for line in content.split(b"\n"):
            if line.strip() and not line.startswith(b"#"):
                yield line.removesuffix(b"\r")


def below(folder: str, pattern: bytes) -> bytes:
    """A pattern of an ignore file in a folder, as one of the root."""
    negated = b"!" if pattern.startswith(b"!") else b""
    body = pattern.removeprefix(b"!")
    is_of_one_place = b"/" in body.rstrip(b" /")
    between = b"/" if is_of_one_place else b"/**/"
    return negated + anchored(to_bytes(folder)) + between + body.removeprefix(b"/")


def anchored(path: bytes) -> bytes:
    """A pattern for exactly this path."""
    return b"/" + _SPECIAL.sub(rb"\\\1", path)
