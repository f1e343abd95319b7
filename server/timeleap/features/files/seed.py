"""The first snapshot made from what the user's repository knows already: its index, and for a while its objects.

The index says which contents git has hashed, so that nothing that did not change is read again. It is copied, never
written, and judged entry by entry: where it does not speak of the files' very bytes (filters, line ends), or of all of
them (sparse and split indexes, hidden entries), those are hashed again, or all of it is.

Objects are borrowed until all that snapshots need has been copied into a pack of our own; from then on the user's
repository may be collected, packed anew or removed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap.features.files.git import Git, GitError, Parallel, joined, parsed_sizes, split
from timeleap.features.files.records import FilesConfig, to_bytes, to_text
from timeleap.features.files.repository import REFS, Repository, is_plain_path
from timeleap.features.files.roots import UserRepository

LOOSE: Final = 2000
"""From so many loose objects on, owning them takes longer than a caller should wait."""

_LARGEST_INDEX: Final = 1 << 30
_LARGEST_ATTRIBUTES: Final = 1 << 20
_GITLINK: Final = 0o160000
_ENTRY: Final = struct.Struct(">24xL8xL20sH")  # mode, size, name, flags
_HIDDEN: Final = 0x8000  # assume-valid
_EXTENDED: Final = 0x4000
_STAGE: Final = 0x3000
_UNSEEDED: Final = 0x4000 | 0x2000  # skip-worktree, intent-to-add
_SYSTEM_ATTRIBUTES: Final = tuple(Path(prefix, "etc/gitattributes") for prefix in ("/", "/usr/local", "/opt/homebrew"))
"""Where usual builds of git look; git tells of the place itself only from 2.41 on."""
_CONVERTING: Final = (b"filter", b"ident", b"working-tree-encoding")  # attributes
_REFUSED: Final = (b"link", b"sdir")  # split and sparse indexes


class IndexEntry(Struct, frozen=True):
    path: bytes
    mode: int
    size: int
    oid: str


class UnseededError(Exception):
    """The user's index cannot be used; all files are to be hashed."""


def read_index(data: bytes) -> list[IndexEntry]:
    """The entries of an index file of git.

    Raises:
        UnseededError: It is of a form, or has entries, that do not say what is on disk.
    """
    if len(data) < 32 or data[:4] != b"DIRC":
        raise UnseededError
    if data[-20:] not in (hashlib.sha1(data[:-20], usedforsecurity=False).digest(), bytes(20)):
        raise UnseededError  # zeros: the user has switched checksums off (index.skipHash)
    version, count = struct.unpack(">LL", data[4:12])
    if version not in (2, 3, 4) or count > len(data) // 62:
        raise UnseededError
    try:
        entries, offset = _entries(data, version, count)
    except (IndexError, ValueError, struct.error) as error:
        raise UnseededError from error
    while offset + 8 <= len(data) - 20:
        if data[offset : offset + 4] in _REFUSED:
            raise UnseededError
        offset += 8 + int.from_bytes(data[offset + 4 : offset + 8], "big")
    return entries


def _entries(data: bytes, version: int, count: int) -> tuple[list[IndexEntry], int]:
    found: list[IndexEntry] = []
    offset, previous = 12, b""
    unpack, find = _ENTRY.unpack_from, data.index
    for _ in range(count):
        mode, size, oid, flags = unpack(data, offset)
        at = offset + 62
        if flags & (_HIDDEN | _STAGE):
            raise UnseededError
        if flags & _EXTENDED:
            if int.from_bytes(data[at : at + 2], "big") & _UNSEEDED:
                raise UnseededError
            at += 2
        if version == 4:
            cut, at = _varint(data, at)
            end = find(b"\0", at)
            path = previous[: len(previous) - cut] + data[at:end]
            offset = end + 1
        else:
            end = find(b"\0", at)
            path = data[at:end]
            offset += (end - offset + 8) & ~7
        found.append(IndexEntry(path, mode, size, oid.hex()))
        previous = path
    return found, offset


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 127)
    return value, at + 1


class Seed(Struct, frozen=True):
    """An index to begin with: `dropped` paths are not to be kept, `rehashed` ones to be read again; `facts` are those of
    the files it speaks of and that are there."""

    facts: dict[str, os.stat_result]
    dropped: list[bytes]
    rehashed: list[bytes]


def seed_index(
    repository: Repository, user: UserRepository, config: FilesConfig, target: Path, begin: Callable[[], object]
) -> Seed:
    """Copy the user's index to `target`, call `begin`, and borrow the objects it speaks of.

    Raises:
        UnseededError: It cannot be used; nothing is borrowed.
    """
    if not (user.at_root and user.sha1) or not user.objects.is_dir():
        raise UnseededError
    try:
        with user.index.open("rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_INDEX:
                raise UnseededError
            data = file.read()
    except OSError as error:
        raise UnseededError from error
    entries = read_index(data)
    target.write_bytes(data)
    os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns))  # what changed since is told by comparison with it
    repository.borrow(user.objects)
    begin()
    try:
        dropped, rehashed, facts_now = _judged(repository.git, user, config, entries)
    except GitError as error:
        repository.borrow(None)
        raise UnseededError from error
    for path in dropped:
        facts_now.pop(to_text(path), None)
    return Seed(facts_now, dropped, rehashed)


def _judged(
    git: Git, user: UserRepository, config: FilesConfig, entries: list[IndexEntry]
) -> tuple[list[bytes], list[bytes], dict[str, os.stat_result]]:
    names = [entry.oid for entry in entries if entry.mode != _GITLINK]
    running = Parallel(lambda: git.batch_sizes(names), lambda: _attributes(git, user, entries))
    facts = _facts(git.root, entries)
    excluded = _excluded(git, user, config)
    sizes = parsed_sizes(running.result(0))
    converted = _converted(running.result(1))
    dropped: list[bytes] = []
    rehashed: list[bytes] = []
    for entry in entries:
        path = entry.path
        unwanted = entry.mode == _GITLINK or entry.size > config.max_file_bytes or path in excluded
        if unwanted or not is_plain_path(to_text(path)):
            dropped.append(path)
        elif entry.oid not in sizes:
            raise UnseededError
        elif sizes[entry.oid] != entry.size or path in converted:
            # Another size: line ends, an encoding or keywords were converted, or the entry is not up to date.
            rehashed.append(path)
    return dropped, rehashed, facts


def _attributes(git: Git, user: UserRepository, entries: list[IndexEntry]) -> bytes:
    """What `check-attr` says of all files, or nothing if no attributes that convert contents are set anywhere."""
    if not _may_convert(git, user, entries):
        return b""
    command = ("check-attr", "-z", "--stdin", *(name.decode("ascii") for name in _CONVERTING))
    return git.run(*command, stdin=joined(entry.path for entry in entries), repository=user.folder)


def _may_convert(git: Git, user: UserRepository, entries: list[IndexEntry]) -> bool:
    """True unless each file that can set attributes was read, and none names one that converts contents."""
    settings = ("config", "--get-regexp", r"^(core\.attributesfile|attr\..*)$")
    if git.run(*settings, repository=user.folder, accepted=(0, 1)):
        return True  # attributes may come from elsewhere
    folders = {entry.path.rpartition(b"/")[0] for entry in entries}
    for folder in list(folders):
        while folder := folder.rpartition(b"/")[0]:
            folders.add(folder)
    names = {(folder + b"/" if folder else b"") + b".gitattributes" for folder in (b"", *folders)}
    found = {name: _names_converting(git.root / to_text(name)) for name in names}
    if any(found.values()) or any(found[entry.path] is None for entry in entries if entry.path in found):
        return True  # of a file that is not there git takes what the index has
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"
    return any(_names_converting(path) for path in (own, user.attributes, *_SYSTEM_ATTRIBUTES))


def _names_converting(path: Path) -> bool | None:
    """True if a file of attributes may set one that converts contents; None if it is not there."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_ATTRIBUTES:
                return True
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return True
    return any(name in content for name in _CONVERTING)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a FIFO would wait for a writer


def _facts(root: Path, entries: list[IndexEntry]) -> dict[str, os.stat_result]:
    """The state of the files; those that are gone are left out."""
    found: dict[str, os.stat_result] = {}
    place = f"{root}/"
    for entry in entries:
        path = to_text(entry.path)
        with suppress(OSError):
            found[path] = os.lstat(place + path)
    return found


def _converted(attributes: bytes) -> set[bytes]:
    """Paths whose content in the index is what a filter made of the file, of the output of `check-attr`."""
    fields = split(attributes)
    if not {*fields[2::3]} - {b"unspecified", b"unset"}:
        return set()
    values = zip(fields[::3], fields[2::3], strict=True)
    return {path for path, value in values if value not in (b"unspecified", b"unset")}


def _excluded(git: Git, user: UserRepository, config: FilesConfig) -> set[bytes]:
    if not config.exclude:
        return set()
    patterns = [part for pattern in config.exclude for part in ("-x", pattern)]
    return set(split(git.run("ls-files", "-z", "-c", "-i", *patterns, index=user.index)))


# Owning what was borrowed


def many_loose(user: UserRepository) -> bool:
    """True if so much of the user's repository is not packed that copying it takes long."""
    folders = (user.objects / f"{number:02x}" for number in range(256))
    count = 0
    for folder in folders:
        try:
            count += len(list(folder.iterdir()))
        except OSError:
            continue
        if count > LOOSE:
            return True
    return False


def own_objects(repository: Repository, roots: list[str]) -> None:
    """Copy all objects that `roots` reach and that are only borrowed into a pack of our own.

    Raises:
        GitError: Some of them cannot be read.
    """
    git = repository.git
    pack = str(repository.path / "objects" / "pack" / "pack")
    if roots and not any((repository.path / "objects" / "pack").iterdir()):  # hardly anything is ours yet
        git.run("pack-objects", "-q", "--window=0", "--revs", pack, stdin="\n".join(roots).encode() + b"\n")
        return
    listed = git.run("rev-list", "--objects", "--no-object-names", "--stdin", stdin="\n".join(roots).encode())
    own = ("cat-file", "--buffer", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered")
    missing = set(listed.split()).difference(git.run(*own, borrowing=False).split())
    if missing:
        git.run("pack-objects", "-q", "--window=0", pack, stdin=b"\n".join(missing) + b"\n")


def all_roots(repository: Repository) -> list[str]:
    """The commits of all snapshots, and of the indexes."""
    refs = repository.git.run("for-each-ref", "--format=%(objectname)", REFS).decode().split()
    return list(dict.fromkeys([*refs, *_index_commits(repository)]))


def _index_commits(repository: Repository) -> Iterator[str]:
    for path in repository.path.glob("index-*-*"):
        oid = path.name.rpartition("-")[2]
        if len(oid) == 40:
            yield oid


def own_everything(repository: Repository) -> None:
    """Own what was borrowed, then give the borrowing up; the lock is held for the second, short half.

    Raises:
        GitError: Some of it cannot be read.
    """
    if repository.git.alternate is None:
        return
    own_objects(repository, all_roots(repository))
    with repository.lock():
        own_objects(repository, all_roots(repository))
        repository.borrow(None)


def unborrow_failed(repository: Repository) -> None:
    """Give up a seed that turned out to be damaged: the next index begins with nothing."""
    repository.borrow(None)
    repository.drop_indexes()


def encode_all(paths: list[str]) -> bytes:
    return joined(map(to_bytes, paths))
