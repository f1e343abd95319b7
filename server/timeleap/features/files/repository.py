"""The repository of one root's snapshots: its folder, lock, commits, refs, and the documents that go with the trees.

::

    <home>/files/<24 hex of the root>/     a bare repository of git
        refs/timeleap/<session uid>/<n>    a snapshot: a commit of {files: the tree, details: a document}
        index-<settings>-<commit>          git's index as it was at that snapshot
        index-<settings>-<commit>.recent   files that had changed just before it, with their permissions
        info/attributes, info/exclude      contents are stored as they are; what is left out
        lock                               held for each snapshot and restore, by whichever session
        restore.json                       the intent of a restore that has begun
        origin.json                        the root's path, and whose objects are still borrowed

A commit's message is JSON: number, time, label and checkpoint. Git keeps one permission bit; `details` has all of them,
the folders that git does not keep, and what was skipped.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import (
    CancelledError,
    CorruptedError,
    FilesBusyError,
    SnapshotNotFoundError,
    StorageFailureError,
)
from timeleap.features.files.bounded import UnfitFileError, is_fit, read_bounded
from timeleap.features.files.git import Git, GitError, parsed_objects
from timeleap.features.files.records import Control, FilesConfig, Skipped, SkipReason, Snapshot, to_text
from timeleap.features.files.root_folder import RootFolder
from timeleap.features.files.roots import Root
from timeleap.storage.durable import atomic_write, list_directory, make_directory, replace_file, storage_errors
from timeleap.storage.lock import FileLock

REFS: Final = "refs/timeleap"
INTENT: Final = "restore.json"
ORIGIN: Final = "origin.json"
WAIT_SECONDS: Final = 5.0
_LARGEST: Final = 1 << 28
"""Bytes of a document that is read: one of a hundred thousand files has a tenth of it."""
_REMEMBERED: Final = 16  # commits
_PAUSE_SECONDS: Final = 0.02
_ATTRIBUTES: Final = b"* -text -filter -ident -eol -working-tree-encoding\n"
_CONFIG: Final = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
_ID: Final = re.compile(r"f(\d{1,9})-([0-9a-f]{12})\Z")
_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_FORMAT: Final = "%(refname) %(objectname) %(contents:subject)"
_UNUSABLE: Final = re.compile(r"/(?:\.\.?|\.git)?(?:/|\Z)", re.IGNORECASE)  # searched fast for its first character
_FORBIDDEN: Final = "\0\\:" if os.name == "nt" else "\0"
_OID: Final = re.compile(r"[0-9a-f]{40}")
_NO_OBJECT: Final = "0" * 40
_PACKING: Final = "packing"
"""There while the holder of the lock packs: tens of thousands of new files take longer than `WAIT_SECONDS`."""


class Details(Struct, frozen=True):
    """Facts of a snapshot that its tree does not have.

    Attributes:
        usual: Permissions of a plain file, of an executable one and of a folder that is not named below.
        modes: Permissions of files, where they are not the usual ones.
        folders: Permissions of folders that are not usual, or hold no file that is kept.
        skipped: Paths that are there, but not in the tree, each with its reason.
        exclude, include_ignored: The settings under which it was taken.
        absent: Ignored paths that were asked about and certainly not there.
    """

    usual: tuple[int, int, int] = (0o644, 0o755, 0o755)
    modes: dict[str, int] = field(default_factory=dict[str, int])
    folders: dict[str, int] = field(default_factory=dict[str, int])
    skipped: dict[str, SkipReason] = field(default_factory=dict[str, SkipReason])
    exclude: tuple[str, ...] = ()
    include_ignored: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def encode(self) -> bytes:
        members: dict[str, Any] = {
            "usual": self.usual,
            "modes": self.modes,
            "folders": self.folders,
            "skipped": self.skipped,
            "exclude": self.exclude,
            "includeIgnored": self.include_ignored,
        }
        members |= {"absent": self.absent} if self.absent else {}
        return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Details:
        """Members that are not of their form are left out: an archive or an agent may have written them."""
        try:
            members: Any = json.loads(data)
        except (ValueError, RecursionError):
            members = None
        if not isinstance(members, dict):
            return cls()
        usual: Any = members.get("usual")
        if not (isinstance(usual, list) and len(usual) == 3 and all(_is_mode(mode) for mode in usual)):
            usual = cls().usual
        return cls(
            usual=(usual[0], usual[1], usual[2]),
            modes=_modes(members.get("modes")),
            folders=_modes(members.get("folders")),
            skipped={
                path: reason if reason in _REASONS else "unsupported" for path, reason in _pairs(members.get("skipped"))
            },
            exclude=_texts(members.get("exclude")),
            include_ignored=_texts(members.get("includeIgnored")),
            absent=tuple(filter(is_plain_path, _texts(members.get("absent")))),
        )

    def mode_of(self, path: str, executable: bool) -> int:
        return self.modes.get(path, self.usual[executable])


_REASONS: Final = ("tooLarge", "special", "unreadable", "changing", "unsupported")


def _is_mode(value: object) -> bool:
    return type(value) is int and 0 <= value <= 0o7777


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((path, member) for path, member in value.items() if is_plain_path(path))


def _modes(value: Any) -> dict[str, int]:
    return {path: mode for path, mode in _pairs(value) if _is_mode(mode)}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def is_plain_path(path: str) -> bool:
    """True for a relative path that stays below the root and leads into no `.git`."""
    return _UNUSABLE.search("/" + path) is None and not any(character in path for character in _FORBIDDEN)


class Commit(Struct, frozen=True):
    """A snapshot as it is stored; `tree` is that of the files, `outer` the commit's own, `ref` its name in a listing, each
    where it is known."""

    oid: str
    tree: str
    details: str
    session_uid: str
    number: int
    created_at: float
    label: str | None
    checkpoint_uid: str | None
    changed: int
    ms: int
    outer: str = ""
    ref: str = ""

    @property
    def snapshot_id(self) -> str:
        return f"f{self.number}-{self.tree[:12]}"


class Repository:
    """The snapshots of one root. Whatever changes it wants `lock` held."""

    def __init__(self, root: Root, config: FilesConfig) -> None:
        self.root = root
        self.path = root.repository
        self.folder = RootFolder(root.path, root.identity)
        self.git = Git(self.path, root.path, folder=self.folder)
        self._file_lock = FileLock(self.path / "lock")
        self._held = 0
        self._known_commits: dict[str, Commit] = {}
        self._known_details: dict[str, Details] = {}
        self._create()
        origin = self.origin()
        self.git.alternate = origin.get("alternate")
        self.settings_key = _settings_key(config)

    def _create(self) -> None:
        """Make what is missing of the folder, so that one whose making was interrupted is made complete."""
        with storage_errors("make a repository of snapshots", self.path):
            for name in ("objects/pack", "objects/info", "refs", "info"):
                make_directory(self.path / name)
            for name, content in (("info/attributes", _ATTRIBUTES), ("config", _CONFIG), ("HEAD", _HEAD)):
                self._keep(self.path / name, content)
            if self.root.path != self.path and self.recorded_root() is None:
                self.write_json(ORIGIN, {"root": str(self.root.path)})

    @staticmethod
    def _keep(path: Path, content: bytes, *, durable: bool = True) -> None:
        """Have a file of this content, whatever is in its place. Raises OSError."""
        try:
            there = read_bounded(path)
        except UnfitFileError:
            there = None  # a pipe, a device, a file without end, which git would wait for
        if there != content:
            atomic_write(path, content, durable=durable)

    # The lock

    @contextmanager
    def lock(self, control: Control | None = None) -> Iterator[None]:
        """Hold the right to change the repository and the root's files, and the root's folder itself; nests within one
        object.

        Raises:
            FilesUnavailableError: The root's folder is gone, or another one is in its place.
            FilesBusyError: Another process or session holds it for longer than `WAIT_SECONDS`, or `control` says that
                nobody waits any more.
        """
        if self._held == 0:
            self._acquire(control or Control())
        self._held += 1
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def packing(self) -> Iterator[None]:
        """Work that others wait for however long it takes, in this process or another; the lock is held."""
        mark = self.path / _PACKING
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    def hold(self) -> None:
        """Keep the lock, which is held, until a `release` more."""
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if self._held == 0:
            self.folder.release()
            self._file_lock.release()

    def _acquire(self, control: Control) -> None:
        until = time.monotonic() + WAIT_SECONDS
        with storage_errors("lock the snapshots of a folder", self.path):
            while not self._file_lock.try_acquire():
                if (self.path / _PACKING).exists():
                    until = time.monotonic() + WAIT_SECONDS
                if time.monotonic() >= until or control.cancelled():
                    message = f"a snapshot of {self.root.path} is being taken or restored: try again"
                    raise FilesBusyError(message)
                time.sleep(_PAUSE_SECONDS)
            (self.path / _PACKING).unlink(missing_ok=True)  # of a process that was killed
        try:
            self.git.alternate = self.origin().get("alternate")  # another process may have borrowed, or owned, since
            if self.root.identity is not None:
                self.folder.hold()
        except BaseException:
            self._file_lock.release()
            raise

    # Documents

    def origin(self) -> dict[str, Any]:
        """The members of origin.json: `root`, and `alternate` while objects of the user's repository are borrowed."""
        origin = self.read_json(ORIGIN)
        alternate = origin.get("alternate")
        if alternate is not None and not (isinstance(alternate, str) and Path(alternate).is_absolute()):
            del origin["alternate"]
        return origin

    def borrow(self, alternate: Path | None) -> None:
        """Take objects from that folder, too; durably, before anything refers to them. None: no more."""
        self.git.alternate = None if alternate is None else str(alternate)
        members: dict[str, Any] = {"root": self.recorded_root() or str(self.root.path)}
        if alternate is not None:
            members["alternate"] = str(alternate)
        self.write_json(ORIGIN, members)

    def read_json(self, name: str) -> dict[str, Any]:
        """A document of the folder; empty where there is none, or none that can be read."""
        try:
            members: Any = json.loads(_read(self.path / name) or b"{}")
        except (ValueError, RecursionError, UnfitFileError):
            return {}
        return members if isinstance(members, dict) else {}

    def write_json(self, name: str, members: dict[str, Any]) -> None:
        with storage_errors(f"write {name}", self.path / name):
            atomic_write(self.path / name, json.dumps(members).encode("ascii"))

    def write_exclude(self, patterns: list[bytes]) -> None:
        """Set what is never taken in."""
        content = b"".join(pattern + b"\n" for pattern in patterns)
        path = self.path / "info" / "exclude"
        with storage_errors("write the exclude patterns", path):
            self._keep(path, content, durable=False)

    # Indexes

    def index_path(self, commit: str) -> Path:
        return self.path / f"index-{self.settings_key}-{commit}"

    def find_index(self) -> tuple[Path, Commit] | None:
        """The index of these settings with the snapshot it was written for; None where there is none."""
        prefix = f"index-{self.settings_key}-"
        for name in list_directory(self.path):
            if name.startswith(prefix) and re.fullmatch(r"[0-9a-f]{40}", oid := name[len(prefix) :]):
                if not is_fit(self.path / name, limit=None):
                    continue
                with suppress(GitError, CorruptedError):
                    return self.path / name, self.read_commit(oid)
        return None

    def keep_index(self, written: Path, commit: str, recent: dict[str, int]) -> None:
        """Let `written` be the index of these settings from now on; `recent`: see `recent_modes`."""
        kept = self.index_path(commit)
        self.write_json(f"{kept.name}.recent", recent)
        replace_file(written, kept)
        self.drop_indexes(kept.name)

    def drop_indexes(self, but: str = "") -> None:
        """Remove the indexes of these settings, all but the one of that name."""
        for name in list_directory(self.path):
            if name.startswith(f"index-{self.settings_key}-") and name.removesuffix(".recent") != but:
                (self.path / name).unlink(missing_ok=True)

    def recent_modes(self, index: Path) -> dict[str, int]:
        """Permissions of files that had changed just before an index was written: git knows times by the second, and
        would not see other permissions in the same one."""
        return _modes(self.read_json(f"{index.name}.recent"))

    # Commits

    def write_commit(
        self,
        tree: str,
        details: str,
        *,
        session_uid: str,
        number: int,
        label: str | None,
        checkpoint_uid: str | None,
        changed: int,
        ms: int,
        base: Commit | None = None,
        created_at: float | None = None,
    ) -> Commit:
        """Store a snapshot, taken now where no time is given; it counts from `publish` on. `base`: one that is certainly
        there, which may be the same."""
        created = clock.now() if created_at is None else created_at
        members: dict[str, Any] = {
            "v": 1, "session": session_uid, "number": number, "created": created, "changed": changed, "ms": ms,
            "tree": tree,
        }  # fmt: skip
        members |= {"label": label} if label is not None else {}
        members |= {"checkpoint": checkpoint_uid} if checkpoint_uid is not None else {}
        if base is not None and base.outer and (base.tree, base.details) == (tree, details):
            outer = base.outer
        else:
            listed = f"100644 blob {details}\tdetails\n040000 tree {tree}\tfiles\n"
            outer = self.git.text("mktree", stdin=listed.encode("ascii"))
        oid = self.git.text("commit-tree", outer, "-F", "-", stdin=json.dumps(members).encode("ascii"))
        commit = Commit(oid, tree, details, session_uid, number, created, label, checkpoint_uid, changed, ms, outer)
        return self._remembered(commit)

    def _remembered(self, commit: Commit) -> Commit:
        while len(self._known_commits) >= _REMEMBERED:
            del self._known_commits[next(iter(self._known_commits))]
        self._known_commits[commit.oid] = commit
        return commit

    def publish(self, commit: Commit) -> None:
        """Make a snapshot one that exists: the last step."""
        ref = f"{REFS}/{commit.session_uid}/{commit.number}"
        (self.path / f"{ref}.lock").unlink(missing_ok=True)  # of a git that was killed: the lock is ours
        try:
            self.git.run("update-ref", ref, commit.oid, _NO_OBJECT)
        except (CancelledError, StorageFailureError):
            if self.numbers(commit.session_uid).get(commit.number) != commit.oid:
                raise

    def publish_once(self, commit: Commit) -> None:
        """Publish the commit, unless it is there already."""
        ref = f"{REFS}/{commit.session_uid}/{commit.number}"
        if self.git.text("for-each-ref", "--format=%(objectname)", ref) != commit.oid:
            self.publish(commit)

    def publish_all(self, session_uid: str, commits: Sequence[Commit]) -> None:
        """Make snapshots of another session snapshots of this one, too, in one step."""
        check_uid(session_uid)
        lines = [f"create {REFS}/{session_uid}/{commit.number} {commit.oid}\n" for commit in commits]
        self.git.run("update-ref", "--stdin", stdin="".join(lines).encode("ascii"))

    def read_commit(self, oid: str) -> Commit:
        """The snapshot of a commit. Raises CorruptedError if it is none of ours, GitError if there is none."""
        if (known := self._known_commits.get(oid)) is not None:
            return known
        asked = (oid, f"{oid}^{{tree}}", f"{oid}:files", f"{oid}:details")
        answers = parsed_objects(self.git.run("cat-file", "--batch", stdin="\n".join(asked).encode("ascii")))
        commit, outer, files, details = answers
        if commit is None or commit[1] != "commit":
            raise GitError("cat-file", 0, f"there is no commit {oid}".encode("ascii"))
        if outer is None or files is None or details is None or outer[2] != _outer_tree(files[0], details[0]):
            raise CorruptedError(f"the repository of snapshots {self.path} is damaged", path=str(self.path))
        self._known_details = {details[0]: Details.decode(details[2])}
        read = _commit(oid, files[0], details[0], _members(commit[2].partition(b"\n\n")[2]))
        return self._remembered(replace(read, outer=outer[0]))

    def read_details(self, commit: Commit) -> Details:
        known = self._known_details.get(commit.details)
        if known is None:
            known = Details.decode(self.git.run("cat-file", "blob", commit.details))
            self._known_details = {commit.details: known}  # one of a large tree may have megabytes
        return known

    def store_details(self, details: Details) -> str:
        return self.git.text("hash-object", "-w", "-t", "blob", "--no-filters", "--stdin", stdin=details.encode())

    def snapshots(self, session_uid: str | None = None) -> list[Commit]:
        """The snapshots of a session (None: of all), the highest numbers first; of each only `tree[:12]` is known to be
        right, `details` is empty."""
        found: list[Commit] = []
        folder = f"{REFS}/" if session_uid is None else f"{REFS}/{check_uid(session_uid)}/"
        for line in self.git.run("for-each-ref", f"--format={_FORMAT}", folder).splitlines():
            name, oid, message = [*line.split(b" ", 2), b""][:3]
            ref = to_text(name)
            owner, _, number = ref.removeprefix(f"{REFS}/").partition("/")
            if number.isdecimal():
                members = {**_members(message), "number": int(number), "session": owner}
                found.append(_commit(oid.decode(), str(members.get("tree")), "", members, ref))
        return sorted(found, key=lambda commit: commit.number, reverse=True)

    def numbers(self, session_uid: str) -> dict[int, str]:
        """The commits of a session's snapshots by number, as `snapshots`, but without reading them; the lock is held."""
        if not (self.path / "packed-refs").exists():  # we never pack refs, but somebody's git may have
            folder = self.path / REFS / check_uid(session_uid)
            names = [name for name in list_directory(folder) if name.isdecimal()]
            with suppress(UnfitFileError):  # of which git says what is wrong
                read = {int(name): to_text(_read(folder / name) or b"").strip() for name in names}
                if all(_OID.fullmatch(oid) for oid in read.values()):
                    return read
        return {commit.number: commit.oid for commit in self.snapshots(session_uid)}

    def count(self) -> int:
        """How many snapshots all sessions have, without asking git in the usual case."""
        if (self.path / "packed-refs").exists():
            return len(self.snapshots())
        refs = self.path / REFS
        folders = [refs / name for name in list_directory(refs)] if refs.is_dir() else []
        return sum(name.isdecimal() for folder in folders for name in list_directory(folder))

    def find(self, session_uid: str, snapshot_id: str) -> Commit:
        """The snapshot of that id.

        Raises:
            SnapshotNotFoundError: The session has none of that id.
        """
        matched = _ID.match(snapshot_id)
        if matched is not None:
            ref = f"{REFS}/{check_uid(session_uid)}/{int(matched[1])}"
            found = self.git.run("for-each-ref", "--format=%(objectname)", ref).decode().split()
            if found:
                with suppress(GitError):
                    commit = self.read_commit(found[0])
                    if commit.tree.startswith(matched[2]) and commit.number == int(matched[1]):
                        return commit
        message = f"there is no snapshot {snapshot_id[:60]} of the session's files (any more)"
        raise SnapshotNotFoundError(message, snapshot=snapshot_id[:60])

    def recorded_root(self) -> str | None:
        """The root's path, as it was when the repository was made."""
        root = self.read_json(ORIGIN).get("root")
        return root if isinstance(root, str) else None

    def size(self) -> int:
        """Bytes on disk."""
        total = 0
        for place, _, names in os.walk(self.path):
            for name in names:
                with suppress(OSError):
                    facts = os.lstat(f"{place}/{name}")
                    total += getattr(facts, "st_blocks", (facts.st_size + 511) // 512) * 512
        return total


_HEAD: Final = b"ref: refs/heads/none\n"


def check_uid(session_uid: str) -> str:
    if not _UID.match(session_uid):
        raise SnapshotNotFoundError("the session has no usable uid, and so no snapshots")
    return session_uid


def as_snapshot(commit: Commit, details: Details | None = None) -> Snapshot:
    """Snapshot for callers; without `details` it does not name skipped paths."""
    skipped = (
        () if details is None else tuple(Skipped(path, reason) for path, reason in sorted(details.skipped.items()))
    )
    return Snapshot(
        snapshot_id=commit.snapshot_id,
        created_at=commit.created_at,
        label=commit.label,
        checkpoint_uid=commit.checkpoint_uid,
        changed=commit.changed,
        skipped=skipped,
        ms=commit.ms,
    )


def most_usual(modes: Counter[int], fallback: int) -> int:
    return max(modes, key=lambda mode: modes[mode]) if modes else fallback


def _settings_key(config: FilesConfig) -> str:
    said = json.dumps([config.exclude, config.include_ignored, config.max_file_bytes])
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def _members(message: bytes) -> dict[str, Any]:
    try:
        members: Any = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def _commit(oid: str, tree: str, details: str, members: dict[str, Any], ref: str = "") -> Commit:
    def number(name: str) -> int:
        value = members.get(name)
        return value if type(value) is int and 0 <= value < 1 << 53 else 0

    def text(name: str) -> str | None:
        value = members.get(name)
        return value if isinstance(value, str) else None

    created = members.get("created")
    return Commit(
        oid=oid,
        tree=tree,
        details=details,
        session_uid=text("session") or "",
        number=number("number"),
        created_at=float(created) if isinstance(created, (int, float)) and 0 <= created < 1 << 40 else 0.0,
        label=text("label"),
        checkpoint_uid=text("checkpoint"),
        changed=number("changed"),
        ms=number("ms"),
        ref=ref,
    )


def _outer_tree(files: str, details: str) -> bytes:
    """The content of a commit's tree, as git stores it."""
    return b"100644 details\0" + bytes.fromhex(details) + b"40000 files\0" + bytes.fromhex(files)


def _read(path: Path) -> bytes | None:
    """The content of a file of ours. Raises UnfitFileError where something else is in its place."""
    try:
        return read_bounded(path, limit=_LARGEST)
    except UnfitFileError as error:
        # A disk that fails may answer again; a link to itself never leads to what was here.
        if isinstance(error.__cause__, OSError) and error.__cause__.errno != errno.ELOOP:
            raise StorageFailureError.of(error.__cause__, "read the repository of snapshots", path) from error
        raise
