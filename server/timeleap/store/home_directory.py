"""The home directory of a store: made, or found to be of use."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path
from typing import Final

from timeleap.errors import StorageFailureError
from timeleap.storage.durable import DIRECTORY_MODE, list_directory, make_directory, set_mode, storage_errors

_NAME_ANOTHER: Final = "name another directory for the store (TIMELEAP_HOME)"


def move_in(path: Path) -> None:
    """Make the home directory `path` (0700) if it does not exist, and see that it can be used.

    An empty one that belongs to another user, such as a new volume, will do if we may write there.

    Raises:
        StorageFailureError: It cannot be used.
    """
    try:
        with storage_errors(f"use {path} as home", path):
            make_directory(path)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            names = list_directory(path)
            if not names and (os.name == "nt" or path.stat().st_uid == os.geteuid()):
                set_mode(path, DIRECTORY_MODE, path)  # it may have been made under another umask
            if "sessions" not in names and not _may_write(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    except StorageFailureError as error:
        advice = _advice(path)
        if advice is not None:
            raise StorageFailureError(f"{error.message}; {advice}", **error.data) from error
        raise


def _may_write(path: Path) -> bool:
    return os.name == "nt" or os.access(path, os.W_OK | os.X_OK)


def _advice(path: Path) -> str | None:
    """Why we may not write where `path` is, or is to be made, and how that is put right; None where we may."""
    there = path.absolute()
    try:
        while not os.path.lexists(there):
            there = there.parent
        facts = there.stat()
        if not stat.S_ISDIR(facts.st_mode) or _may_write(there):
            return None
        read_only = os.statvfs(there).f_flag & os.ST_RDONLY
    except OSError:
        return None
    if read_only:
        return f"{there} is mounted read-only: mount it for writing, or {_NAME_ANOTHER}"
    if facts.st_uid != os.geteuid():
        owners = f"{there} belongs to user {facts.st_uid}, and this is user {os.geteuid()}"
        # A folder above it may be the home of others, or of all: it stays theirs.
        command = "chown" if there == path.absolute() else "install -d -o"
        command = f"{command} {os.geteuid()} {shlex.quote(str(path.absolute()))}"
        return f"{owners}: have root run `{command}`, or {_NAME_ANOTHER}"
    mode = stat.S_IMODE(facts.st_mode)
    return f"the mode of {there} is {mode:04o}: run `chmod u+rwx {there}`, or {_NAME_ANOTHER}"
