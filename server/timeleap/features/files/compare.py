"""How two states of the files differ: contents by git, permissions by the documents that go with the trees. And whether a
state that a stranger made is one that can be taken.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from timeleap.errors import CorruptedError
from timeleap.features.files.git import BlobReader, Git, split
from timeleap.features.files.records import ChangeKind, Control, PathChange, encode_path, is_below, to_text
from timeleap.features.files.repository import Details, is_plain_path
from timeleap.features.files.wire_forms import MAX_PATH

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
    """Differences of two states, by path.

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
    """Differences in one of the `folders`, or at its own path."""
    wanted = list(folders)
    return [difference for difference in found if any(is_below(difference.path, folder) for folder in wanted)]


def described(git: Git, found: list[Difference]) -> list[PathChange]:
    """The differences with sizes, and whether their contents are binary."""
    sides = [entry for difference in found for entry in (difference.old, difference.new) if entry is not None]
    sizes = git.sizes([entry.oid for entry in sides])
    binary: dict[str, bool] = {}
    with git.blobs() as blobs:
        for entry in sides:
            if entry.oid not in binary:
                binary[entry.oid] = not entry.is_link and b"\0" in blobs.beginning(entry.oid, BINARY_WITHIN)
    return [_described(difference, sizes, binary) for difference in found]


def _described(difference: Difference, sizes: dict[str, int], binary: dict[str, bool]) -> PathChange:
    path, percent = encode_path(difference.path)
    old, new = difference.old, difference.new
    return PathChange(
        path=path,
        kind=difference.kind,
        bytes_from=None if old is None else sizes.get(old.oid),
        bytes_to=None if new is None else sizes.get(new.oid),
        binary=any(binary[entry.oid] for entry in (old, new) if entry is not None),
        percent=percent,
    )


# States of a stranger
#
# Git's own check (`index-pack --strict`) is none: it refuses honest files, a link named `.gitmodules` for instance.

MAX_TREES: Final = 256 << 20
MAX_DETAILS: Final = 64 << 20
"""Bytes of all trees, and of one document of details: these are read by us."""
MAX_ENTRIES: Final = 1_000_000
"""Files and folders of one snapshot: a few trees that name each other many times can stand for any number."""
MAX_NAME: Final = 255
EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git knows it without its being stored."""

_MODES: Final = {b"40000": "tree", b"100644": "blob", b"100755": "blob", b"120000": "link"}
_IGNORED: Final = "[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]*"  # by HFS+, in names
_GIT_FOLDER: Final = re.compile(_IGNORED.join(["", r"\.", "g", "i", "t", r"[ .]*(:.*)?\Z"]), re.IGNORECASE | re.DOTALL)


class UnfitError(Exception):
    """A pack, or a snapshot in it, cannot be taken; the text says why."""


class StoredObject(Struct, frozen=True):
    """An object that a repository has, and its bytes."""

    kind: str
    size: int


def stored_objects(git: Git, control: Control | None = None) -> dict[str, StoredObject]:
    """All objects of a repository, by name; none of those that it only borrows."""
    form = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
    command = ("cat-file", "--buffer", "--batch-all-objects", "--unordered", form)
    lines = git.run(*command, control=control, borrowing=False).decode("ascii").splitlines()
    parts = (line.split(" ") for line in lines)
    return {name: StoredObject(kind, int(size)) for name, kind, size in parts}


class _Extent(Struct, frozen=True):
    """How much there is below a tree: entries, and the bytes of the longest path."""

    entries: int
    longest: int


class _Folder(Struct):
    """A tree whose own folders are still being judged."""

    own: _Extent
    folders: list[tuple[int, str]]


class TreeJudge:
    """Judges trees; each is read once.

    Attributes:
        needed: What the snapshots that were judged are made of: name of the object, and that of the file or folder.
    """

    def __init__(self, reader: BlobReader, objects: dict[str, StoredObject]) -> None:
        self._reader = reader
        self._objects = objects
        self._known: dict[str, _Extent] = {EMPTY_TREE: _Extent(0, 0)}
        self._read = 0
        self.needed: dict[str, bytes] = {}

    def judge(self, tree: str, details: str) -> Details:
        """Judge a snapshot; returns its details as they are to be stored.

        Raises:
            UnfitError: Something of it is missing, or is such as no snapshot of ours has.
        """
        self._expect_tree(tree, b"")
        if self._expect(details, "blob", b"details").size > MAX_DETAILS:
            raise UnfitError("has details that are too long")
        waiting: dict[str, _Folder] = {}
        stack = [tree]
        while stack:
            oid = stack[-1]
            if oid in self._known:
                stack.pop()
            elif (folder := waiting.get(oid)) is None:
                folder = waiting[oid] = self._folder(oid)
                inner = [name for _, name in folder.folders if name not in self._known]
                if any(name in waiting for name in inner):
                    raise UnfitError("has a folder within itself")
                stack += inner
            else:
                self._known[oid] = _extent(folder, self._known)
                del waiting[oid]
        return self._details(details)

    def _expect(self, oid: str, kind: str, name: bytes) -> StoredObject:
        found = self._objects.get(oid)
        if found is None or found.kind != kind:
            raise UnfitError(f"lacks the object {oid}")
        self.needed.setdefault(oid, name)
        return found

    def _expect_tree(self, oid: str, name: bytes) -> None:
        if oid in self._objects or oid != EMPTY_TREE:
            self._expect(oid, "tree", name)

    def _folder(self, oid: str) -> _Folder:
        """Entries of one tree, without those below its folders."""
        self._read += self._objects[oid].size
        if self._read > MAX_TREES:
            raise UnfitError(f"has folders of more than {MAX_TREES} bytes")
        content, at, names, longest, folders = self._content(oid, "tree"), 0, set[bytes](), 0, list[tuple[int, str]]()
        before = b""
        while at < len(content):
            mode = content[at : at + 7].partition(b" ")[0]
            end = content.find(b"\0", at)
            name, entry = content[at + len(mode) + 1 : end], content[end + 1 : end + 21].hex()
            kind = _MODES.get(mode)
            if kind is None or end < 0 or len(entry) != 40:
                raise UnfitError("has an entry that is neither a file, a link nor a folder")
            key = name + b"/" if kind == "tree" else name
            if not is_fit_name(name) or name in names or key <= before:
                raise UnfitError(f"has the unusable name {to_text(name)[:200]!r}")
            names.add(name)
            if kind == "tree":
                self._expect_tree(entry, name)
                folders.append((len(name), entry))
            else:
                self._expect(entry, "blob", name)
            if kind == "link":
                self._judge_link(entry)
            longest, before, at = max(longest, len(name)), key, end + 21
        return _Folder(_Extent(len(names), longest), folders)

    def _judge_link(self, oid: str) -> None:
        if not 0 < self._objects[oid].size < MAX_PATH or b"\0" in self._content(oid, "blob"):
            raise UnfitError("has a link that no system can have")

    def _content(self, oid: str, kind: str) -> bytes:
        content = bytearray()
        self._reader.copy(oid, content.extend, kind)
        return bytes(content)

    def _details(self, oid: str) -> Details:
        content = self._content(oid, "blob")
        try:
            valid = isinstance(json.loads(content), dict)
        except (ValueError, RecursionError):
            valid = False
        details = Details.decode(content)
        paths = (*details.modes, *details.folders, *details.skipped, *details.absent)
        if not valid or not all(is_fit_path(path) for path in paths):
            raise UnfitError("has details that are not of their form")
        return details


def _extent(folder: _Folder, known: dict[str, _Extent]) -> _Extent:
    entries, longest = folder.own.entries, folder.own.longest
    for length, oid in folder.folders:
        entries += known[oid].entries
        longest = max(longest, length + 1 + known[oid].longest)
    if entries > MAX_ENTRIES:
        raise UnfitError(f"has more than {MAX_ENTRIES} files and folders")
    if longest > MAX_PATH:
        raise UnfitError(f"has a path of more than {MAX_PATH} bytes")
    return _Extent(entries, longest)


def is_fit_name(name: bytes) -> bool:
    """True for the name of a file or folder that is no other one anywhere: what is one name here may be a path, or
    another spelling of `.git`, on another system."""
    text = to_text(name)
    if not 0 < len(name) <= MAX_NAME or "/" in text or "\\" in text:
        return False
    return is_plain_path(text) and _GIT_FOLDER.match(text) is None


def is_fit_path(path: str) -> bool:
    return all(is_fit_name(part.encode("utf-8", "surrogateescape")) for part in path.split("/"))
