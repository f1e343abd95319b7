"""The folders of the user who runs this process: the home, and those below it for data, settings and caches.

A process may have none: a container that runs under a user id of its own choosing has no entry in the user database, and
often no HOME. Whoever needs a folder decides then whether to do without it, or to say which variable names another one.
A variable with a relative path counts as unset, as the XDG specification wants: what it meant would change with the
working directory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, Literal

from timeleap.errors import InvalidInputError

_BELOW_HOME: Final = {
    "data": ("XDG_DATA_HOME", ".local/share"),
    "config": ("XDG_CONFIG_HOME", ".config"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}


def home() -> Path | None:
    """The user's home directory, which need not exist; None where none is known."""
    if sys.platform == "win32":
        try:
            return Path.home()
        except RuntimeError:
            return None
    named = os.environ.get("HOME", "")
    if not Path(named).is_absolute():
        named = _home_in_user_database()
    return Path(named) if Path(named).is_absolute() else None


def _home_in_user_database() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except (KeyError, OSError):
        return ""


def folder(kind: Literal["data", "config", "cache"]) -> Path | None:
    """Timeleap's folder of a kind, which need not exist; None where there is no home directory for it to be in."""
    if sys.platform == "linux" and "ANDROID_ROOT" not in os.environ:
        # What platformdirs would say; importing it takes longer than making a session, which asks for this.
        variable, usual = _BELOW_HOME[kind]
        named = os.environ.get(variable, "").strip()
        if Path(named).is_absolute():
            return Path(named, "timeleap")
        found = home()
        return None if found is None else found / usual / "timeleap"
    import platformdirs

    find = {
        "data": platformdirs.user_data_dir,
        "config": platformdirs.user_config_dir,
        "cache": platformdirs.user_cache_dir,
    }
    path = Path(find[kind]("timeleap", appauthor=False))
    return path if path.is_absolute() else None


def expanded(path: str | os.PathLike[str]) -> Path | None:
    """An absolute path, with `~` as the user's home; None where there is no such home. Raises InvalidInputError if it is
    relative to a directory that is gone."""
    text = os.fspath(path)
    if text == "~" or text.startswith(("~/", f"~{os.sep}")):
        found = home()
        return None if found is None else Path(found, text[2:].lstrip("/")).absolute()
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        return None
    except FileNotFoundError:
        gone = "the directory that this program was started in is gone; give the whole path, or start it in another"
        raise InvalidInputError(f"{text}: {gone}") from None


def absolute(path: str | os.PathLike[str]) -> Path:
    """Expand `~` in a path; raises InvalidInputError where there is no such home."""
    found = expanded(path)
    if found is None:
        raise InvalidInputError(f"{path}: there is no home directory that its ~ stands for; give the whole path")
    return found
