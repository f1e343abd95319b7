"""How two states of the files differ: contents by git, permissions by the documents that go with the trees."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from timeleap.errors import CorruptedError
from timeleap.features.files.git import Git, split
from timeleap.features.files.records import Change, ChangeKind, encode_path, is_below, to_text
from timeleap.features.files.repository import Details, is_plain_path

BINARY_WITHIN: Final = 8000
"""A content is binary if one of its first bytes is zero; git looks at as many."""

_LINK: Final = 0o120000
_FILES: Final = {"100644": False, "100755": True}


class TreeState(Struct, frozen=True):
    """The files at one moment: git's tree and the document details it."""

    tree: str
    details: Details


class FileEntry(Struct, frozen=True):
    """A file or link in a state; `mode` as `st_mode` has it."""

    oid: str
    mode: int

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


class Difference(Struct, frozen=True):
    """A path that is not the same in two states; None where it is not there."""

    path: str
    old: FileEntry | None
    new: FileEntry | None

    @property
    def kind(self) -> ChangeKind:
        if self.old is None:
            return "added"
        if self.new is None:
            return "deleted"
        if self.old.is_link != self.new.is_link:
            return "type"
        return "mode" if self.old.oid == self.new.oid else "modified"


def differences(git: Git, old: TreeState, new: TreeState) -> list[Difference]:
    """What differs, by path.

    Raises:
        CorruptedError: A tree has a name that leads out of the root, or an entry that is neither file nor link.
    """
    found: dict[str, Difference] = {}
    if old.tree != new.tree:
        fields = split(git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old.tree, new.tree))
        for facts, raw in zip(fields[::2], fields[1::2], strict=True):
            path = to_text(raw)
            old_mode, new_mode, old_oid, new_oid, _ = facts.decode("ascii")[1:].split(" ")
            found[path] = Difference(
                path, entry_of(path, old_mode, old_oid, old.details), entry_of(path, new_mode, new_oid, new.details)
            )
    if old.details.usual != new.details.usual:
        known = entries(git, new)
        asked: Iterable[str] = known
    else:
        asked = old.details.modes.keys() | new.details.modes.keys()
        asked = {path for path in asked if old.details.modes.get(path) != new.details.modes.get(path)}
        known = entries(git, new, [path for path in asked if path not in found]) if asked else {}
    for path in asked:
        entry = known.get(path)
        if path not in found and entry is not None and not entry.is_link:
            was = stat.S_IFREG | old.details.mode_of(path, bool(entry.mode & 0o100))
            if was != entry.mode:
                found[path] = Difference(path, FileEntry(entry.oid, was), entry)
    return [found[path] for path in sorted(found)]


def entry_of(path: str, mode: str, oid: str, details: Details) -> FileEntry | None:
    if mode == "000000":
        return None
    if not is_plain_path(path):
        raise CorruptedError(f"a snapshot has the unusable name {encode_path(path)[0][:200]}")
    if mode == "120000":
        return FileEntry(oid, _LINK | 0o777)
    if mode not in _FILES:
        raise CorruptedError(f"a snapshot has something at {encode_path(path)[0][:200]} that is neither file nor link")
    return FileEntry(oid, stat.S_IFREG | details.mode_of(path, _FILES[mode]))


def entries(git: Git, state: TreeState, paths: list[str] | None = None) -> dict[str, FileEntry]:
    """The files of a state, or those of the `paths` that it has."""
    if paths is not None and not paths:
        return {}
    found: dict[str, FileEntry] = {}
    wanted = None if paths is None else set(paths)
    for line in split(git.run("ls-tree", "-r", "-z", state.tree)):
        facts, _, raw = line.partition(b"\t")
        path = to_text(raw)
        if wanted is None or path in wanted:
            mode, _, oid = facts.decode("ascii").split(" ")
            entry = entry_of(path, mode, oid, state.details)
            if entry is not None:
                found[path] = entry
    return found


def within(found: list[Difference], folders: Iterable[str]) -> list[Difference]:
    """Those that are one of the `folders`, or below it."""
    wanted = list(folders)
    return [difference for difference in found if any(is_below(difference.path, folder) for folder in wanted)]


def described(git: Git, found: list[Difference]) -> list[Change]:
    """The differences with sizes, and whether their contents are binary."""
    sides = [entry for difference in found for entry in (difference.old, difference.new) if entry is not None]
    sizes = git.sizes([entry.oid for entry in sides])
    binary: dict[str, bool] = {}
    with git.blobs() as blobs:
        for entry in sides:
            if entry.oid not in binary:
                binary[entry.oid] = not entry.is_link and b"\0" in blobs.beginning(entry.oid, BINARY_WITHIN)
    return [_described(difference, sizes, binary) for difference in found]


def _described(difference: Difference, sizes: dict[str, int], binary: dict[str, bool]) -> Change:
    path, percent = encode_path(difference.path)
    old, new = difference.old, difference.new
    return Change(
        path=path,
        kind=difference.kind,
        bytes_from=None if old is None else sizes.get(old.oid),
        bytes_to=None if new is None else sizes.get(new.oid),
        binary=any(binary[entry.oid] for entry in (old, new) if entry is not None),
        percent=percent,
    )
