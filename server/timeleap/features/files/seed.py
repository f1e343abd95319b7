"""The first snapshot made from what the user's repository knows already: its index, and for a while its objects.

The index says which contents git has hashed, so that nothing that did not change is read again. It is copied, never
written, and judged entry by entry: where it does not speak of the files' very bytes (filters, line ends), or of all of
them (sparse and split indexes, hidden entries), those are hashed again, or all of it is.

Objects are borrowed until all that snapshots need has been copied into a pack of our own; from then on the user's
repository may be collected, packed anew or removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.features.files.bounded import is_fit
from timeleap.features.files.git import ASKING, PACKING, Git, GitError, Parallel, joined, split
from timeleap.features.files.records import Control, FilesConfig, to_text
from timeleap.features.files.repository import REFS, Repository, is_plain_path
from timeleap.features.files.roots import Root
from timeleap.features.files.user_repository import (
    UserRepository,
    are_files,
    default_folder,
    is_answering,
    note_silence,
)

LOOSE: Final = 2000
"""From so many loose objects on, owning them takes longer than a caller should wait."""

_LARGEST_INDEX: Final = 256 << 20
_LARGEST_ENTRY: Final = 8192  # with what the index says of folders
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


Begin = Callable[[Path], Parallel[bytes]]


class UserIndex(Struct):
    """The entries of an index, columns of equal length: an object for each would take as long as reading them.

    Attributes:
        oids: Names of contents, 20 bytes each.
        links: Paths of other repositories, which are no entries here.
    """

    paths: list[bytes] = field(default_factory=list[bytes])
    sizes: list[int] = field(default_factory=list[int])
    oids: list[bytes] = field(default_factory=list[bytes])
    links: list[bytes] = field(default_factory=list[bytes])
    texts: list[str] = field(default_factory=list[str])


class UnseededError(Exception):
    """The user's index cannot be used; all files are to be hashed."""


def read_index(data: bytes) -> UserIndex:
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


def _is_plausible(header: bytes, size: int) -> bool:
    """True if an index with that beginning can have so many bytes: one of holes has few entries and any length."""
    count = int.from_bytes(header[8:12], "big")
    return size <= min(_LARGEST_INDEX, (count + 1) * _LARGEST_ENTRY)


def _entries(data: bytes, version: int, count: int) -> tuple[UserIndex, int]:
    found = UserIndex()
    add_path, add_size, add_oid = found.paths.append, found.sizes.append, found.oids.append
    offset, path = 12, b""
    unpack, find = _ENTRY.unpack_from, data.index
    for _ in range(count):
        mode, size, oid, flags = unpack(data, offset)
        at = offset + 62
        if flags & (_HIDDEN | _STAGE | _EXTENDED):
            if flags & (_HIDDEN | _STAGE) or int.from_bytes(data[at : at + 2], "big") & _UNSEEDED:
                raise UnseededError
            at += 2
        if version == 4:
            cut, at = _varint(data, at)
            end = find(b"\0", at)
            path = path[: len(path) - cut] + data[at:end]
            offset = end + 1
        else:
            end = find(b"\0", at)
            path = data[at:end]
            offset += (end - offset + 8) & ~7
        if mode == _GITLINK:
            found.links.append(path)
        else:
            add_path(path)
            add_size(size)
            add_oid(oid)
    found.texts = to_text(b"\0".join(found.paths)).split("\0") if found.paths else []
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
    """An index to begin with.

    Attributes:
        paths: The files it speaks of that are to be kept.
        dropped: Paths of it that are not.
        rehashed: Paths of it that are to be read again.
        compared: How it differs from the disk; None if those paths are to go first.
        packing: Copies the contents that are needed into a pack of our own; None if that is not under way.
        tree: The name of that of the whole index if nothing in it differs from the disk: `packing` copies its folders,
            too.
    """

    paths: frozenset[str]
    dropped: list[bytes]
    rehashed: list[bytes]
    compared: Parallel[bytes] | None
    packing: Parallel[bytes] | None
    tree: str | None = None


def seed_index(
    repository: Repository, user: UserRepository, config: FilesConfig, target: Path, begin: Begin, *, control: Control
) -> tuple[list[str], Parallel[Seed]]:
    """Copy the user's index to `target`, borrow the objects it speaks of, and begin to own those that are needed.

    `begin` has git compare the copy (`Scanner.begin`). Returns the files it speaks of, and the seed to come.

    Raises:
        UnseededError: It cannot be used (the seed may raise it, too); nothing more is borrowed than before.
    """
    if not (user.at_root and user.usable and user.sha1 and are_files(user.objects)):
        raise UnseededError
    try:
        with open(user.index, "rb", opener=_open_at_once) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or not _is_plausible(file.read(12), facts.st_size):
                raise UnseededError
            file.seek(0)
            data = file.read(_LARGEST_INDEX)
    except OSError as error:
        raise UnseededError from error
    target.write_bytes(data)
    os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns))  # what changed since is told by comparison with it
    before = repository.git.alternate
    repository.borrow(user.objects)
    compared = begin(target)

    @contextmanager
    def undone() -> Iterator[None]:
        try:
            yield
        except (GitError, UnseededError, StorageFailureError) as error:
            compared.wait()
            repository.borrow(None if before is None else Path(before))
            raise UnseededError from error

    with undone():
        index = read_index(data)

    def judged() -> Seed:
        with undone():
            return _judged(repository, user, config, index, compared, path=target, control=control)

    return index.texts, Parallel(judged)


def _judged(
    repository: Repository,
    user: UserRepository,
    config: FilesConfig,
    index: UserIndex,
    compared: Parallel[bytes],
    *,
    path: Path,
    control: Control,
) -> Seed:
    git = repository.git
    names = _names(index.oids)
    running = Parallel(lambda: git.batch_sizes(names), lambda: _attributes(git, user, index.paths, control))
    excluded = _excluded(git, path, config)
    plain = is_plain_path("/".join(index.texts))  # as each of them is: one search takes less time than many
    dropped = {
        path
        for path, text, size in zip(index.paths, index.texts, index.sizes, strict=True)
        if size > config.max_file_bytes or path in excluded or not (plain or is_plain_path(text))
    }
    sizes = running.result(0).split()[1::2]
    if b"missing" in sizes:
        raise UnseededError
    # Of another size: line ends, an encoding or keywords were converted, or the entry is not up to date.
    pairs = zip(index.paths, index.sizes, map(int, sizes), strict=True)
    rehashed = {path for path, size, stored in pairs if size != stored} | _converted(running.result(1))
    unwanted = {*dropped, *rehashed, *split(compared.result(1))[1::2]}
    wanted = [oid for path, oid in zip(index.paths, index.oids, strict=True) if path not in unwanted]
    soon = wanted and len(index.paths) <= config.max_files and not many_loose(user)
    dropped.update(index.links)
    tree, folders = None, b""
    if soon and not (unwanted or dropped):
        tree = git.text("write-tree", index=path, looking=True)
        folders = _names_of_folders(git, tree)
    packing = Parallel(lambda: _pack(repository, _names(wanted) + folders)) if soon else None
    rehashed -= dropped
    if dropped or rehashed:
        compared.wait()
    paths = frozenset(index.texts).difference(map(to_text, dropped))
    return Seed(paths, [*dropped], [*rehashed], None if dropped or rehashed else compared, packing, tree)


def _names(oids: list[bytes]) -> bytes:
    """Names as git reads them, one a line."""
    return b"".join(oids).hex("\n", -20).encode("ascii") + b"\n"


def _names_of_folders(git: Git, tree: str) -> bytes:
    """Names of a tree and of all folders in it, one a line."""
    listed = git.run("ls-tree", "-d", "-r", "-z", "--format=%(objectname)", tree)
    return tree.encode("ascii") + b"\n" + listed.replace(b"\0", b"\n")


def _attributes(git: Git, user: UserRepository, paths: list[bytes], control: Control) -> bytes:
    """Output of `check-attr` for all files; empty if no attributes that convert contents are set anywhere."""
    if not _may_convert(git, user, paths, control):
        return b""
    command = ("check-attr", "-z", "--stdin", *(name.decode("ascii") for name in _CONVERTING))
    return git.run(*command, stdin=joined(paths), repository=user.folder, control=control, looking=True)


def _may_convert(git: Git, user: UserRepository, paths: list[bytes], control: Control) -> bool:
    """True unless each file that can set attributes was read, and none names one that converts contents."""
    if _names_attributes(git, user, control):
        return True  # attributes may come from elsewhere
    folders = {path.rpartition(b"/")[0] for path in paths}
    for folder in list(folders):
        while folder := folder.rpartition(b"/")[0]:
            folders.add(folder)
    names = {(folder + b"/" if folder else b"") + b".gitattributes" for folder in (b"", *folders)}
    found = {name: _names_converting(f"{git.place}/{to_text(name)}") for name in names}
    if any(found.values()) or any(found[path] is None for path in paths if path in found):
        return True  # of a file that is not there git takes what the index has
    own = default_folder() / "attributes"
    return any(_names_converting(path) for path in (own, user.attributes, *_SYSTEM_ATTRIBUTES))


def _names_attributes(git: Git, user: UserRepository, control: Control) -> bool:
    """True if settings name a file of attributes. Raises UnseededError for one that git is not to read."""
    if not is_answering(user):
        raise UnseededError
    settings = ("config", "--type=path", "--null", "--get-regexp", r"^(core\.attributesfile|attr\..*)$")
    try:
        found = git.run(*settings, repository=user.folder, accepted=(0, 1), control=control, deadline=ASKING)
    except StorageFailureError:
        note_silence(user)
        raise
    named = [Path(git.place, to_text(each.partition(b"\n")[2])) for each in split(found)]
    if not all(map(is_fit, named)):
        raise UnseededError
    return bool(named)


def _names_converting(path: str | Path) -> bool | None:
    """True if a file of attributes may set one that converts contents; None if it is not there. Raises UnseededError for
    one that git is not to read either."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_ATTRIBUTES:
                raise UnseededError
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return True
    return any(name in content for name in _CONVERTING)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a FIFO would wait for a writer


def _converted(attributes: bytes) -> set[bytes]:
    """Paths whose content in the index is what a filter made of the file, of the output of `check-attr`."""
    fields = split(attributes)
    if not {*fields[2::3]} - {b"unspecified", b"unset"}:
        return set()
    values = zip(fields[::3], fields[2::3], strict=True)
    return {path for path, value in values if value not in (b"unspecified", b"unset")}


def _excluded(git: Git, index: Path, config: FilesConfig) -> set[bytes]:
    if not config.exclude:
        return set()
    patterns = [part for pattern in config.exclude for part in ("-x", pattern)]
    return set(split(git.run("ls-files", "-z", "-c", "-i", *patterns, index=index)))


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
    asked = "\n".join(roots).encode("ascii") + b"\n"
    listing = ("rev-list", "--objects", "--no-object-names", "--stdin")
    own = ("cat-file", "--buffer", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered")
    listed = Parallel(
        lambda: git.run(*listing, stdin=asked, deadline=PACKING),
        lambda: git.run(*own, borrowing=False, deadline=PACKING),
    )
    missing = set(listed.result(0).split()).difference(listed.result(1).split())
    if missing:
        _pack(repository, b"\n".join(missing) + b"\n")


def are_own(repository: Repository, oids: list[str]) -> bool:
    """True if none of the objects is only borrowed: git stores nothing that it finds there."""
    asked = "\n".join(oids).encode("ascii") + b"\n"
    found = repository.git.run("cat-file", "--batch-check=%(objectname)", stdin=asked, borrowing=False)
    return b"missing" not in found


def _pack(repository: Repository, asked: bytes) -> bytes:
    """Write a pack of our own with the objects that are `asked` for."""
    target = f"{repository.path}/objects/pack/pack"
    return repository.git.run("pack-objects", "-q", "--window=0", target, stdin=asked, deadline=PACKING)


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


# In the background
#
# Nothing here takes an object away that a snapshot needs, nor one that a snapshot which is being taken has just written:
# what nothing refers to goes only in `stored.sweep`, under the lock.

log = logging.getLogger(__name__)

MOST_LOOSE_BYTES: Final = 8 << 20
MOST_LOOSE: Final = 2000
"""Bytes and number of loose objects from which on they are packed."""

_running: dict[Path, threading.Thread] = {}
_guard: Final = threading.Lock()


def pack_in_background(root: Root) -> threading.Thread | None:
    """Begin what is to be done for a root's repository, unless that is nothing or is being done already."""
    repository = Repository(root, FilesConfig())
    if repository.git.alternate is None and not _many_loose(repository.path):
        return None
    with _guard:
        thread = _running.get(root.repository)
        if thread is None or not thread.is_alive():
            thread = threading.Thread(target=_pack_or_warn, args=(repository,), name="timeleap-pack", daemon=True)
            _running[root.repository] = thread
            thread.start()
    return thread


def wait_for_packing(repository: Path) -> None:
    """Return when nothing that was begun for this repository by this process is under way."""
    thread = _running.get(repository)
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def _pack_or_warn(repository: Repository) -> None:
    try:
        pack(repository)
    except (GitError, TimeleapError, OSError) as error:
        log.warning("the snapshots in %s could not be packed: %s", repository.path, error)


def pack(repository: Repository) -> None:
    """Own what is borrowed, and pack what is loose if that is much.

    Raises:
        GitError: Something cannot be read, or there is no space; nothing is lost by it.
    """
    own_everything(repository)
    if _many_loose(repository.path):
        # Unlocked, what is being removed for good meanwhile could get into the new pack.
        with repository.lock(), repository.packing():
            command = ("repack", "--geometric=2", "-d", "-q", "-n", "--window-memory=64m")
            repository.git.run(*command, deadline=PACKING)


def _many_loose(repository: Path) -> bool:
    count = size = 0
    for number in range(256):
        try:
            with os.scandir(repository / "objects" / f"{number:02x}") as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
        if count > MOST_LOOSE or size > MOST_LOOSE_BYTES:
            return True
    return False
