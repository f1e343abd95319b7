"""Roots: the folders whose files are kept, which of them are refused, and the user's repository at one."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap.errors import FilesUnavailableError
from timeleap.features.files.git import GitError, quiet_query
from timeleap.features.files.records import to_text
from timeleap.features.files.root_folder import Identity, identity_of

FOLDER: Final = "files"
"""The folder of the home that holds the repositories of snapshots, one for each root."""


class Root(Struct, frozen=True):
    """A folder whose files are kept.

    Attributes:
        path: Without links.
        home: The store, without links; never part of a snapshot.
        key: Names its repository: of device, inode and path, so that a folder made where another was is another root.
        identity: Device and inode; None for a repository's own folder in the place of a root's.
    """

    path: Path
    home: Path
    key: str
    identity: Identity | None = None

    @property
    def repository(self) -> Path:
        return self.home / FOLDER / self.key

    @property
    def home_within(self) -> str | None:
        """The home's place relative to the root if it lies in it."""
        return self.home.relative_to(self.path).as_posix() if self.home.is_relative_to(self.path) else None


def find_root(home: Path, folder: Path) -> Root:
    """The root at `folder`.

    Raises:
        FilesUnavailableError: It does not exist, is no folder (`rootMissing`), or is one that is never kept
            (`rootUnsafe`): the root of a file system, the user's home folder or one above it, and the store.
    """
    real, store = Path(os.path.realpath(folder)), Path(os.path.realpath(home))
    try:
        facts = real.stat()
    except OSError as error:
        message = f"the folder {folder} cannot be found: no snapshot of its files can be taken"
        raise FilesUnavailableError(message, reason="rootMissing") from error
    if not stat.S_ISDIR(facts.st_mode):
        raise FilesUnavailableError(f"{folder} is no folder: name one to keep its files", reason="rootMissing")
    user = Path(os.path.realpath(Path.home()))
    refused = None
    if real == Path(real.anchor):
        refused = "it is the root of a file system"
    elif user.is_relative_to(real):
        refused = "it is the user's home folder, or one above it"
    elif real.is_relative_to(store):
        refused = "it lies in Timeleap's own store"
    if refused is not None:
        message = f"the files of {folder} are not kept: {refused}; choose a project's folder"
        raise FilesUnavailableError(message, reason="rootUnsafe")
    named = f"{facts.st_dev}\0{facts.st_ino}\0{real}".encode("utf-8", "surrogateescape")
    return Root(real, store, hashlib.sha256(named).hexdigest()[:24], identity_of(facts))


class UserRepository(Struct, frozen=True):
    """The repository of the user that a folder belongs to; all of it is only read.

    Attributes:
        at_root: False where the folder is only a part of its working tree.
        sha1: False where its objects have names of another kind than ours.
    """

    folder: Path
    objects: Path
    index: Path
    exclude: Path
    attributes: Path
    at_root: bool
    sha1: bool


def find_user_repository(root: Path) -> UserRepository | None:
    """None where there is none, or none that can be read."""
    if not any(os.path.lexists(place / ".git") for place in (root, *root.parents)):
        return None
    names = ("objects", "index", "info/exclude", "info/attributes")
    paths = [part for name in names for part in ("--git-path", name)]
    try:
        found = quiet_query(root, "rev-parse", "--absolute-git-dir", "--show-object-format", "--show-prefix", *paths)
    except (GitError, OSError, subprocess.SubprocessError):
        return None
    lines = found.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) < 7:
        return None
    folder, object_format, prefix, objects, index, exclude, attributes = lines[:7]
    return UserRepository(
        folder=Path(folder),
        objects=Path(os.path.realpath(root / objects)),
        index=Path(os.path.realpath(root / index)),
        exclude=Path(os.path.realpath(root / exclude)),
        attributes=Path(os.path.realpath(root / attributes)),
        at_root=not prefix,
        sha1=object_format == "sha1",
    )


def find_excludes_file(root: Path) -> str | None:
    """The ignore file that the user has set (`core.excludesFile`); None if that is not set, or is not a file."""
    try:
        found = quiet_query(root, "config", "--type=path", "--get", "core.excludesFile", settings_of_user=True)
    except (GitError, OSError, subprocess.SubprocessError):
        return None
    path = root / to_text(found.removesuffix(b"\n"))
    return str(path) if path.is_file() else None


def ignored_by_parents(root: Path) -> list[bytes]:
    """What the repository above ignores below a folder that is a part of its working tree; folders end with `/`."""
    listing = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
    return quiet_query(root, *listing).split(b"\0")[:-1]
