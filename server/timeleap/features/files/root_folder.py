"""A root's folder, held open while its files are looked at or changed.

Another process may rename the folder, or one above it, and put a link or another folder in its place at any time. So its
path is opened once, compared with the device and inode that name the root, and all that is done below it goes through
that descriptor. Where the system cannot do that (Windows), the path is compared before each use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from timeleap.errors import FilesUnavailableError, StorageFailureError

HELD: Final = os.name == "posix"
_OPEN: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OF_DESCRIPTOR: Final = "/proc/self/fd/{}/."

Identity = tuple[int, int]


def identity_of(facts: os.stat_result) -> Identity:
    return facts.st_dev, facts.st_ino


class RootFolder:
    """The folder of one root.

    Args:
        path: Without links.
        identity: Device and inode of the folder; None where any folder of that path will do.
    """

    def __init__(self, path: Path, identity: Identity | None) -> None:
        self.path = path
        self._identity = identity
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int | None:
        """None while nobody holds it, and where the system has no such descriptors."""
        return self._descriptor

    @property
    def place(self) -> str:
        """A path that leads to the folder wherever it was moved, for this process and for one that it starts; where the
        system has none, or nobody holds the folder, its own path."""
        if self._descriptor is not None and _has_descriptor_paths():
            return _OF_DESCRIPTOR.format(self._descriptor)
        return str(self.path)

    def hold(self) -> None:
        """Open the folder, until `release`.

        Raises:
            FilesUnavailableError: It is gone, or another one is in its place.
            StorageFailureError: It may not be read.
        """
        if not HELD:
            self.verify()
            return
        try:
            descriptor = os.open(self.path, _OPEN)
        except PermissionError as error:
            raise unreadable(self.path, error) from error
        except OSError as error:
            raise self._replaced() from error
        if self._identity is not None and identity_of(os.fstat(descriptor)) != self._identity:
            os.close(descriptor)
            raise self._replaced()
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def verify(self) -> None:
        """Refuse to go on when the path leads to another folder than the one that is held.

        Raises:
            FilesUnavailableError: It does, or to none.
        """
        if self._identity is None:
            return
        try:
            facts = os.lstat(self.path)
        except OSError as error:
            raise self._replaced() from error
        if not stat.S_ISDIR(facts.st_mode) or identity_of(facts) != self._identity:
            raise self._replaced()

    def facts(self, path: str) -> os.stat_result:
        """The state of a file, a link itself. Raises OSError."""
        if self._descriptor is None:
            return os.lstat(self.path / path if path else self.path)
        return os.stat(path or ".", dir_fd=self._descriptor, follow_symlinks=False)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the folder, for systems that have them: the one that is held, or one for this use."""
        if self._descriptor is not None:
            yield self._descriptor
            return
        descriptor = os.open(self.path, _OPEN)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _replaced(self) -> FilesUnavailableError:
        message = (
            f"the folder {self.path} is gone, or another one was put in its place: its files were left as they were; "
            "put it back, or open the session with the folder's new place"
        )
        return FilesUnavailableError(message, reason="rootMissing")


def unreadable(path: Path, error: OSError) -> StorageFailureError:
    """The error for a folder of which the system lets nothing be seen."""
    return StorageFailureError.of(error, f"look at the files of {path}, whose permissions are in the way", path)


def _has_descriptor_paths() -> bool:
    return Path("/proc/self/fd").is_dir()
