"""Where agents' programs keep the files of their sessions; what is in such a folder, and known again by size and
time."""

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
from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.storage.durable import OpenFile, atomic_write, make_directory
from timeleap_agents.mirrors import claude_files, codex_files, gemini_files, opencode_database
from timeleap_agents.mirrors.claude_files import SUBAGENTS
from timeleap_agents.mirrors.packed_files import SUFFIX, can_unpack, is_packed, unpacked_path

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
    suffixes: tuple[str, ...] = (".jsonl",)


AGENTS: Final = "agents"
"""In a session's directory kimi-code has here a folder for each agent; `MAIN_AGENT` is the session's own."""
MAIN_AGENT: Final = "main"

FOLDERS: Final = {
    "claude-code": SessionFolder("CLAUDE_CONFIG_DIR", ".claude", "projects", "", (), 1),
    # What was not written to for a while is packed.
    "codex": SessionFolder("CODEX_HOME", ".codex", "sessions", "rollout-", (), 3, suffixes=(".jsonl", ".jsonl.zst")),
    # Earlier versions wrote a document each.
    "gemini": SessionFolder(
        "GEMINI_CLI_HOME", ".gemini", "tmp", "session-", (), 2, is_home=True, suffixes=(".jsonl", ".json")
    ),
    # `context_<n>.jsonl` were set aside; sub-agents' logs are further down.
    "kimi": SessionFolder("KIMI_SHARE_DIR", ".kimi", "sessions", "context.jsonl", (), 2),
    # Each agent of a session has a folder of its own.
    "kimi-code": SessionFolder("KIMI_CODE_HOME", ".kimi-code", "sessions", "wire.jsonl", (), 4),
    # All its sessions are in a database.
    "opencode": SessionFolder("XDG_DATA_HOME", ".local/share", "opencode", "opencode", (), 0),
    "pi": SessionFolder("PI_CODING_AGENT_DIR", ".pi/agent", "sessions", "", (), 1),
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


def session_key(kind: str, path: str | os.PathLike[str]) -> str | None:
    """The program's own id of the session in the file at `path`, by which the session is known wherever the file is
    moved; None where the file alone does not tell it."""
    path = Path(path)
    if kind == "codex":
        return codex_files.thread_key(path)
    if kind == "kimi-code":
        return _key_of_agent(path)
    if kind == "gemini":
        return gemini_files.session_key(path)
    if kind == "kimi":
        agent = path.parent
        return f"{agent.parents[1].name}/{agent.name}" if is_subagent(kind, str(path)) else agent.name
    if kind == "opencode":
        place = opencode_database.split(path)
        return None if place is None else place[1]
    if kind == "pi":
        return path.stem.partition("_")[2] or None  # the id stands behind the time of its beginning
    if kind != "claude-code":
        return None
    parent = claude_files.parent_key(path)
    return path.stem if parent is None else f"{parent}/{path.stem}"


def parent_of(kind: str, path: str | os.PathLike[str]) -> str | None:
    """The id of the session whose sub-agent's file is at `path`; None where it is none, or does not say so."""
    path, parent = Path(path), None
    if kind == "codex":
        parent = codex_files.parent_key(path)
    elif kind == "claude-code":
        parent = claude_files.parent_key(path)
    elif kind == "gemini":
        parent = gemini_files.parent_key(path)
    elif is_subagent(kind, str(path)):
        parent = path.parent.name if kind == "opencode" else path.parents[2].name
    return _id_of(kind, parent) if parent else None


def is_subagent(kind: str, path: str) -> bool:
    """True of the file of a sub-agent. Blocking."""
    if kind == "codex":
        return codex_files.parent_key(Path(path)) is not None
    folder = Path(path).parent
    if kind == "gemini":
        return gemini_files.parent_key(Path(path)) is not None
    if kind == "kimi":
        return folder.parent.name == SUBAGENTS
    if kind == "kimi-code":
        return folder.parent.name == AGENTS and folder.name != MAIN_AGENT
    if kind == "opencode":
        return opencode_database.SESSION.fullmatch(Path(path).parent.name) is not None
    return kind == "claude-code" and claude_files.is_of_subagent(Path(path))


def mirror_id(kind: str, path: str | os.PathLike[str]) -> str:
    """The id of the session that mirrors the file at `path`, or another one of the same session of that program."""
    return _id_of(kind, session_key(kind, path) or os.path.realpath(path))


def former_id(kind: str, path: str | os.PathLike[str]) -> str:
    """The id that earlier releases gave to the mirror of the file at `path`: one of its path."""
    return _id_of(kind, os.path.realpath(path))


def _id_of(kind: str, key: str) -> str:
    name = f"{kind}\0{key}".encode("utf-8", "surrogateescape")
    return f"{kind}-{hashlib.blake2b(name, digest_size=ID_DIGITS // 2).hexdigest()}"


def _key_of_agent(path: Path) -> str | None:
    """The session of kimi-code whose agent has the file at `path`, and which of its agents that is."""
    if path.parent.parent.name != AGENTS:
        return None
    session, agent = path.parents[2].name, path.parent.name
    return session if agent == MAIN_AGENT else f"{session}/{agent}"


FOLDER: Final = "mirrors"
"""Folder in the home with notes about files that are mirrored up to their ends. They may be lost, then all files are compared."""
MAX_FILES: Final = 100_000
MAX_NOTES: Final = 64 << 20  # bytes


class FileFacts(NamedTuple):
    """By what a change of a file, or of the title that stands beside it, is noticed without reading it."""

    size: int
    changed: int  # nanoseconds since 1970
    inode: int


class FoundFiles(NamedTuple):
    """Findings in a folder. `problems`: failures to read, in words; `folders`: it and those in it
    that were looked into, with their inodes; `unread`: databases whose sessions are not known this time."""

    files: dict[str, FileFacts]
    problems: list[str]
    folders: dict[str, int]
    unread: list[str]


def look(kind: str, folder: Path) -> FoundFiles:
    """The files of sessions in a folder. Links are followed, to each file and folder once, where those who made them
    own what they lead to; what is not followed is a problem. Blocking."""
    found = FoundFiles({}, [], {}, [])
    subagents = left_out = 0
    for path, facts in _Look(kind, found).all_files(folder):
        # Only those that their names tell; they are not to take the places of sessions.
        of_subagent = kind != "codex" and is_subagent(kind, path)
        if of_subagent and subagents >= MAX_FILES:
            left_out += 1
            continue
        if len(found.files) - subagents >= MAX_FILES:
            found.problems.append(f"there are more than {MAX_FILES} files: the others are left out")
            break
        subagents += of_subagent
        found.files[path] = facts
    if left_out:
        found.problems.append(f"there are more than {MAX_FILES} files of sub-agents: {left_out} are left out")
    return found


def printable(text: str) -> str:
    """The text with a mark for each byte of a file name that is not UTF-8, so that it can be sent as JSON."""
    return os.fsencode(text).decode(errors="replace")


def facts_of(path: str) -> FileFacts | None:
    """Look at an ordinary file, which is no link, or a session in a database; None for anything else. Blocking."""
    try:
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            return FileFacts(status.st_size, max(status.st_mtime_ns, _named_at(Path(path))), status.st_ino)
    except NotADirectoryError:
        row = opencode_database.session(Path(path))
        return None if row is None else FileFacts(row.size, row.changed, 0)
    except OSError:
        pass
    return None


def _named_at(path: Path) -> int:
    """When what a program notes beside a session's file, such as its title, was changed, in nanoseconds since 1970; 0
    where there is none. Blocking."""
    if path.name.startswith("rollout-"):
        return codex_files.named_at(path)
    has_state = path.name == "context.jsonl" or (path.name == "wire.jsonl" and path.parent.name == MAIN_AGENT)
    with suppress(OSError):
        if has_state:
            folder = path.parent if path.name == "context.jsonl" else path.parents[2]
            return (folder / "state.json").stat().st_mtime_ns
    return 0


def is_there(path: Path) -> bool:
    """True of a file, and of a session in a database. Blocking."""
    return path.exists() or facts_of(str(path)) is not None


class _Look:
    """A single look through a folder."""

    def __init__(self, kind: str, found: FoundFiles) -> None:
        self._kind, self._place, self._found = kind, FOLDERS[kind], found
        self._met: set[tuple[int, int]] = set()  # device and inode
        self._packed = 0

    def all_files(self, folder: Path) -> Iterator[tuple[str, FileFacts]]:
        yield from self._of_all(folder)
        if self._packed:
            self._found.problems.append(
                f"{self._packed} sessions are packed ({SUFFIX}) and not read: pip install 'timeleap[zstd]'"
            )

    def _of_all(self, folder: Path) -> Iterator[tuple[str, FileFacts]]:
        yield from self.files(folder, 0)
        if self._kind == "opencode" and opencode_database.is_kept_in_files(folder):
            self._found.problems.append(f"{folder} has {opencode_database.KEPT_IN_FILES}")
        archive = folder.parent / codex_files.ARCHIVE
        if self._kind == "codex" and folder.name == codex_files.SESSIONS and archive.is_dir():
            yield from self.files(archive, self._place.depth)

    def files(self, folder: Path, depth: int) -> Iterator[tuple[str, FileFacts]]:
        try:
            with os.scandir(folder) as entries:
                self._found.folders[str(folder)] = folder.lstat().st_ino
                self._first_time(folder.stat())
                # Links last: what has a name of its own keeps it.
                for entry in sorted(entries, key=os.DirEntry.is_symlink):
                    path = self._followed(Path(entry.path)) if entry.is_symlink() else Path(entry.path)
                    if path is not None:
                        yield from self._entry(path, depth)
        except OSError as error:
            self._found.problems.append(f"{folder} cannot be read: {error.strerror}")

    def _entry(self, path: Path, depth: int) -> Iterator[tuple[str, FileFacts]]:
        is_folder = path.is_dir()
        if is_folder and (below := _of_subagents(self._kind, path, depth - self._place.depth)) is not None:
            if below.is_dir() and not below.is_symlink() and self._first_time(below.stat()):
                yield from self.files(below, depth + 1)
        elif is_folder:
            if depth < self._place.depth and self._first_time(path.stat()):
                yield from self.files(path, depth + 1)
        elif self._kind == "opencode":
            if opencode_database.is_database(path.name):
                yield from self._sessions(path)
        elif _is_session(self._kind, path) and self._is_read(path):
            facts = facts_of(str(path))
            if facts is not None:
                yield str(path), facts

    def _is_read(self, path: Path) -> bool:
        """False of a packed file that cannot be unpacked, or beside which it stands unpacked."""
        if not is_packed(path) or unpacked_path(path).exists():
            return not is_packed(path)
        is_read = can_unpack()
        self._packed += not is_read
        return is_read

    def _sessions(self, database: Path) -> Iterator[tuple[str, FileFacts]]:
        try:
            rows = opencode_database.sessions(database)
        except TimeleapError as error:
            self._found.problems.append(f"{database} cannot be read: {error.message}")
            self._found.unread.append(str(database))
            return
        for row in rows:
            yield str(opencode_database.path_of(database, row)), FileFacts(row.size, row.changed, 0)

    def _followed(self, link: Path) -> Path | None:
        """Return the target of a link; None where it is not followed."""
        try:
            maker, path = link.lstat().st_uid, Path(os.path.realpath(link, strict=True))
            status = path.stat()
        except OSError as error:
            self._found.problems.append(f"{link} is a link that leads nowhere: {error.strerror}")
            return None
        if status.st_uid != maker:
            self._found.problems.append(f"{link} is a link to what another user owns: it is not followed")
            return None
        return path

    def _first_time(self, status: os.stat_result) -> bool:
        known = (status.st_dev, status.st_ino) in self._met
        self._met.add((status.st_dev, status.st_ino))
        return not known


def may_be_session(kind: str, path: str) -> bool:
    """True of what has the name of a session's file, or is a folder that may have some. Blocking."""
    if kind == "opencode":  # what is written first stands beside the database
        return opencode_database.is_database(Path(path).name.removesuffix("-wal"))
    return _is_session(kind, Path(path)) or Path(path).is_dir()


def names_session(kind: str, path: Path) -> bool:
    """True of a path that may name a session of a program."""
    if kind == "opencode":
        return opencode_database.split(path) is not None
    return path.name.endswith(FOLDERS[kind].suffixes)


def _is_session(kind: str, path: Path) -> bool:
    place, name = FOLDERS[kind], path.name
    if kind == "gemini" and gemini_files.parent_key(path) is not None:
        return name.endswith(".jsonl")
    if kind == "claude-code" and claude_files.session_above(path) is not None and not claude_files.is_of_subagent(path):
        return False
    return name.endswith(place.suffixes) and name.startswith(place.prefix) and not name.startswith(place.never)


def _of_subagents(kind: str, folder: Path, deeper: int) -> Path | None:
    """Where a folder holds those of sub-agents, `deeper` than the sessions' own files; None where it holds none.
    Nothing else of a session's own directory is looked into."""
    if kind == "claude-code" and deeper == 0:
        return folder / SUBAGENTS
    if kind == "claude-code" and 0 < deeper <= claude_files.DEEPEST and SUBAGENTS in folder.parts[-deeper - 1 :]:
        return folder
    if kind == "gemini" and deeper == 0 and folder.parent.name == gemini_files.CHATS:
        return folder
    if kind == "kimi" and SUBAGENTS in (folder.name, folder.parent.name) and deeper >= 0:
        return folder
    return None


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
