"""Roots: the folders whose files are kept, and which of them are refused."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap import user_folders
from timeleap.errors import FilesUnavailableError
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
    home_directory = user_folders.home()
    refused = None
    if real == Path(real.anchor):
        refused = "it is the root of a file system"
    elif home_directory is not None and Path(os.path.realpath(home_directory)).is_relative_to(real):
        refused = "it is the user's home folder, or one above it"
    elif real.is_relative_to(store):
        refused = "it lies in Timeleap's own store"
    if refused is not None:
        message = f"the files of {folder} are not kept: {refused}; choose a project's folder"
        raise FilesUnavailableError(message, reason="rootUnsafe")
    identity = identity_of(facts)
    return Root(real, store, root_key(identity, real), identity)


def root_key(identity: Identity, path: Path) -> str:
    """Names the repository of a folder at a path."""
    device, inode = identity
    named = f"{device}\0{inode}\0{path}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(named).hexdigest()[:24]
