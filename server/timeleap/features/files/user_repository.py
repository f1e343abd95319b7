"""The user's own repository at a root, and the user's settings of git: what they leave out, and where their objects
are.

All of it is only read. Whatever can write to the workspace decides what a repository in it is made of, so its files are
read by us, bounded, and git is asked only where they are such as git itself makes. What cannot be read counts as absent.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap import user_folders
from timeleap.errors import StorageFailureError
from timeleap.features.files.bounded import UnfitFileError, is_fit, read_bounded
from timeleap.features.files.git import DEADLINE, GitError, quiet_query
from timeleap.features.files.records import Control, to_text

_LARGEST_LINK: Final = 4096
_LARGEST_REFS: Final = 64 << 20
_SHA256: Final = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)
_BARE: Final = re.compile(rb"^\s*bare\s*=\s*\"?(true|yes|on|1)\b", re.IGNORECASE | re.MULTILINE)
_WORKTREE: Final = re.compile(rb"^\s*worktree\s*=\s*\"?([^\"\n]+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)
_SILENCE: Final = 60.0  # seconds
_silent_until: Final[dict[Path | None, float]] = {}
_NAMES_IGNORE_FILE: Final = re.compile(rb"excludesfile|include", re.IGNORECASE)


class UserRepository(Struct, frozen=True):
    """The repository of the user that a folder belongs to.

    Attributes:
        top: The folder that has its `.git`.
        at_root: False where the root is only a part of its working tree.
        usable: False where git is not to be asked about it: another user's, another format, or files that are no files.
        sha1: False where its objects have names of another kind than ours.
    """

    top: Path
    folder: Path
    objects: Path
    index: Path
    exclude: Path
    attributes: Path
    config: tuple[Path, ...]
    at_root: bool
    usable: bool
    sha1: bool


def find_user_repository(root: Path) -> UserRepository | None:
    """None where there is none."""
    for top in (root, *root.parents):
        if (found := repository_at(top, root)) is not None:
            return found
    return None


def repository_at(top: Path, root: Path | None = None) -> UserRepository | None:
    """Find the repository whose `.git` lies in `top`, for a root there or below; None where there is none."""
    folder = _git_folder(top)
    return _described(root or top, top, folder) if folder is not None and (folder / "HEAD").exists() else None


def _git_folder(top: Path) -> Path | None:
    """The folder that `.git` is, or names."""
    named = top / ".git"
    try:
        mode = named.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return named
    with suppress(UnfitFileError):
        content = read_bounded(named, limit=_LARGEST_LINK)
        if content is not None and content.startswith(b"gitdir:"):
            folder = top / to_text(content[7:].strip(b" \r\n"))
            return folder if folder.is_dir() else None
    return None


def _described(root: Path, top: Path, folder: Path) -> UserRepository:
    usable = _is_ours(folder) and is_fit(folder / "HEAD") and is_fit(folder / "packed-refs", limit=_LARGEST_REFS)
    common = folder
    try:
        named = read_bounded(folder / "commondir", limit=_LARGEST_LINK)
        if named is not None:
            common = folder / to_text(named.strip())
    except UnfitFileError:
        usable = False
    config = common / "config", folder / "config.worktree"
    settings = b""
    for path in config:
        try:
            settings += (read_bounded(path) or b"") + b"\n"
        except UnfitFileError:
            usable = False
    objects = Path(os.path.realpath(common / "objects"))
    index = Path(os.path.realpath(folder / "index"))
    usable = usable and objects.is_dir() and is_fit(index, limit=None) and is_fit(objects / "info" / "alternates")
    usable = usable and is_fit(common / "packed-refs", limit=_LARGEST_REFS) and _BARE.search(settings) is None
    working = _WORKTREE.findall(settings)
    tree = folder / to_text(working[-1]) if working else top
    return UserRepository(
        top=top,
        folder=Path(os.path.realpath(folder)),
        objects=objects,
        index=index,
        exclude=Path(os.path.realpath(common / "info" / "exclude")),
        attributes=Path(os.path.realpath(common / "info" / "attributes")),
        config=config,
        at_root=os.path.realpath(tree) == str(root),
        usable=usable,
        sha1=_SHA256.search(settings) is None,
    )


def _is_ours(folder: Path) -> bool:
    """True for a repository of this user: git itself uses no other one unasked."""
    return sys.platform == "win32" or folder.stat().st_uid in (os.geteuid(), _sudo_user())


def _sudo_user() -> int:
    user = os.environ.get("SUDO_UID", "")
    return int(user) if os.geteuid() == 0 and user.isdecimal() else os.geteuid()


def are_files(objects: Path, depth: int = 5) -> bool:
    """True if all objects of a folder, and of those that it borrows from, can be read without waiting for anybody."""
    places = [objects / "pack", *(objects / f"{number:02x}" for number in range(256))]
    for place in places:
        try:
            with os.scandir(place) as entries:
                if not all(entry.is_file() for entry in entries):
                    return False
        except FileNotFoundError:
            continue
        except OSError:
            return False
    try:
        borrowed = read_bounded(objects / "info" / "alternates") or b""
    except UnfitFileError:
        return False
    named = [objects / to_text(line) for line in borrowed.splitlines() if line and not line.startswith(b"#")]
    return all(depth > 0 and are_files(place, depth - 1) for place in named)


# Ignore files beside those in the tree


def own_patterns(user: UserRepository) -> list[bytes]:
    """The lines of `info/exclude`; for a root within the working tree those that name no place in it."""
    try:
        lines = (read_bounded(user.exclude) or b"").split(b"\n")
    except UnfitFileError:
        return []
    return lines if user.at_root else [line for line in lines if b"/" not in line.rstrip(b" \r").rstrip(b"/")]


def ignored_by_parents(root: Path, user: UserRepository, excludes_file: str, control: Control) -> list[bytes]:
    """Return the paths that the repository above ignores below a folder that is a part of its working tree; folders end
    with `/`. Nothing where it cannot be asked."""
    between = [folder for folder in root.parents if folder == user.top or user.top in folder.parents]
    ignore_files = (user.exclude, *(folder / ".gitignore" for folder in between))
    if not (user.usable and all(map(is_fit, ignore_files))):
        return []
    listing = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
    settings = (f"core.excludesFile={excludes_file}",)
    with suppress(GitError, StorageFailureError):
        found = quiet_query(root, *listing, settings=settings, control=control, deadline=DEADLINE)
        return found.split(b"\0")[:-1]
    return []


def find_excludes_file(root: Path, user: UserRepository | None, control: Control) -> str:
    """The user's own ignore file for all repositories: the one that is set (`core.excludesFile`), or that of the
    default place. The null device where there is none, or none that is a file of a usual length."""
    path = default_folder() / "ignore"
    if _may_be_set(user) and is_answering(user):
        command = ("config", "--type=path", "--get", "core.excludesFile")
        asked = root if user is None or user.usable else Path(root.anchor)
        try:
            found = quiet_query(asked, *command, settings_of_user=True, control=control)
            path = root / to_text(found.removesuffix(b"\n"))
        except StorageFailureError:
            note_silence(user)
        except (GitError, OSError):
            pass
    return str(path) if path.exists() and is_fit(path) else os.devnull


def is_answering(user: UserRepository | None) -> bool:
    """False for a minute after settings did not answer: they may name a pipe, and each question would wait for it."""
    return time.monotonic() >= _silent_until.get(None if user is None else user.folder, 0.0)


def note_silence(user: UserRepository | None) -> None:
    """Settings did not answer."""
    _silent_until[None if user is None else user.folder] = time.monotonic() + _SILENCE


def names_ignore_file(user: UserRepository) -> bool:
    """True if the repository's own settings may name an ignore file."""
    for path in user.config:
        with suppress(UnfitFileError):
            if _NAMES_IGNORE_FILE.search(read_bounded(path) or b""):
                return True
    return False


def default_folder() -> Path:
    """Where git looks for what a user has set for all repositories."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or _home() / ".config") / "git"


def _home() -> Path:
    """The user's home; where there is none, git reads no settings of the user, and nothing is found below the null
    device."""
    return user_folders.home() or Path(os.devnull)


def _may_be_set(user: UserRepository | None) -> bool:
    """True unless all files of settings were read, and none names an ignore file or further settings."""
    if os.name == "nt":
        return True
    own = os.environ.get("GIT_CONFIG_GLOBAL")
    files = [Path(own)] if own is not None else [_home() / ".gitconfig", default_folder() / "config"]
    files += _system_settings()
    files += user.config if user is not None and user.usable else ()
    for path in files:
        try:
            content = read_bounded(path)
        except UnfitFileError:
            return False  # git would wait for it, or read it whole
        if content is not None and _NAMES_IGNORE_FILE.search(content):
            return True
    return False


def _system_settings() -> list[Path]:
    system = os.environ.get("GIT_CONFIG_SYSTEM")
    if system is not None:
        return [Path(system)]
    program = shutil.which("git")
    own = [Path(os.path.realpath(program)).parent.parent / "etc" / "gitconfig"] if program is not None else []
    return [*own, *(Path(prefix, "etc/gitconfig") for prefix in ("/", "/usr/local", "/opt/homebrew"))]
