"""Check that a directory can be the home of a store: used by `initialize`, so this module imports next to nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from timeleap.errors import StorageFailureError
from timeleap.storage.durable import list_directory, make_directory


def move_in(path: Path) -> None:
    """Make the home directory `path` (0700) if it does not exist, and see that it can be used.

    Raises:
        StorageFailureError: It cannot be used.
    """
    try:
        make_directory(path)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if not list_directory(path) and os.name != "nt":
            path.chmod(0o700)  # it may have been made under another umask
    except OSError as error:
        raise StorageFailureError.of(error, f"use {path} as home", path) from error
