"""Where agents' programs keep the files of their sessions; what is in such a folder, and known again by size and time."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from timeleap import user_folders
from timeleap.errors import StorageFailureError
from timeleap.storage.durable import OpenFile, atomic_write, make_directory

ID_DIGITS: Final = 24


class SessionFolder(NamedTuple):
    """Where a program keeps its sessions: below `folder` of the directory that a `variable` names, or of `usual` in the
    user's home; files whose names begin with `prefix`, not with one of `never`, at most `depth` folders down. `is_home`: the
    variable names what takes the place of the user's home."""

    variable: str
    usual: str
    folder: str
    prefix: str
    never: tuple[str, ...]
    depth: int
    is_home: bool = False


FOLDERS: Final = {
    # Files `agent-*` are of sub-agents.
    "claude-code": SessionFolder("CLAUDE_CONFIG_DIR", ".claude", "projects", "", ("agent-",), 1),
    "codex": SessionFolder("CODEX_HOME", ".codex", "sessions", "rollout-", (), 3),
    # Those of sub-agents are further down.
    "gemini": SessionFolder("GEMINI_CLI_HOME", ".gemini", "tmp", "session-", (), 2, is_home=True),
    # `context_<n>.jsonl` were set aside; sub-agents' logs are further down.
    "kimi": SessionFolder("KIMI_SHARE_DIR", ".kimi", "sessions", "context.jsonl", (), 2),
}


def usual_folder(kind: str) -> Path:
    """The folder in which a kind of program keeps its sessions, as far as our own environment tells."""
    place = FOLDERS[kind]
    configured = os.environ.get(place.variable)
    if configured and not place.is_home:
        return Path(configured) / place.folder
    home = Path(configured) if configured else user_folders.home()
    if home is None:
        raise StorageFailureError(
            f"there is no folder of sessions of {kind}, since this user has no home directory: name one, or set "
            f"{place.variable}",
            path="",
            errno="ENOENT",
        )
    return home / place.usual / place.folder


def mirror_id(kind: str, path: str | os.PathLike[str]) -> str:
    """The id of the session that mirrors the file at `path`."""
    name = f"{kind}\0{os.path.realpath(path)}".encode("utf-8", "surrogateescape")
    return f"{kind}-{hashlib.blake2b(name, digest_size=ID_DIGITS // 2).hexdigest()}"


FOLDER: Final = "mirrors"
"""Of the home: notes about files that are mirrored up to their ends. They may be lost, then all files are compared."""
MAX_FILES: Final = 100_000
MAX_NOTES: Final = 64 << 20  # bytes


class FileFacts(NamedTuple):
    """By what a change of a file is noticed without reading it."""

    size: int
    changed: int  # nanoseconds since 1970
    inode: int


class FoundFiles(NamedTuple):
    """What a look at a folder has found; `problems`: what could not be read, in words; `folders`: it and those in it that
    were looked into, with their inodes."""

    files: dict[str, FileFacts]
    problems: list[str]
    folders: dict[str, int]


def look(kind: str, folder: Path) -> FoundFiles:
    """The files of sessions in a folder. Links are not followed. Blocking."""
    found = FoundFiles({}, [], {})
    for path, facts in _files(FOLDERS[kind], folder, 0, found):
        if len(found.files) >= MAX_FILES:
            found.problems.append(f"there are more than {MAX_FILES} files: the others are left out")
            break
        found.files[path] = facts
    return found


def facts_of(path: str) -> FileFacts | None:
    """Of an ordinary file, which is no link; None for what is none. Blocking."""
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            return FileFacts(status.st_size, status.st_mtime_ns, status.st_ino)
    return None


def _files(place: SessionFolder, folder: Path, depth: int, found: FoundFiles) -> Iterator[tuple[str, FileFacts]]:
    try:
        with os.scandir(folder) as entries:
            found.folders[str(folder)] = folder.lstat().st_ino
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if depth < place.depth:
                        yield from _files(place, Path(entry.path), depth + 1, found)
                elif _is_session(place, entry.name) and (facts := facts_of(entry.path)) is not None:
                    yield entry.path, facts
    except OSError as error:
        found.problems.append(f"{folder} cannot be read: {error.strerror}")


def may_be_session(kind: str, path: str) -> bool:
    """True of what has the name of a session's file, or is a folder that may have some. Blocking."""
    return _is_session(FOLDERS[kind], Path(path).name) or Path(path).is_dir()


def _is_session(place: SessionFolder, name: str) -> bool:
    return name.endswith(".jsonl") and name.startswith(place.prefix) and not name.startswith(place.never)


class FolderNotes:
    """Which files of a folder are mirrored up to their ends, kept in the home."""

    def __init__(self, home: Path, kind: str, folder: Path) -> None:
        name = hashlib.blake2b(os.fsencode(folder), digest_size=6).hexdigest()
        self._path = home / FOLDER / f"{kind}-{name}.json"

    def read(self) -> dict[str, FileFacts]:
        """By path; empty where there are none, or damaged ones. Blocking."""
        try:
            file = OpenFile(self._path)
        except OSError:
            return {}
        try:
            if file.status().size > MAX_NOTES:
                return {}
            document = json.loads(file.pread(0, file.status().size))
            return {str(path): FileFacts(int(a), int(b), int(c)) for path, (a, b, c) in document["files"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}
        finally:
            file.close()

    def write(self, files: dict[str, FileFacts]) -> None:
        """Keep them. Blocking. Raises OSError."""
        make_directory(self._path.parent)
        atomic_write(self._path, json.dumps({"version": 1, "files": files}).encode("utf-8", "surrogateescape"))
