"""Snapshots of files in a store, of all roots and sessions: removal when a session is purged, when a root has too much,
and when something is redacted.

A snapshot goes by its ref; then what no snapshot refers to any more goes from the disk. All of it blocks.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from timeleap.call import WorkControl
from timeleap.errors import CorruptedError, FilesUnavailableError
from timeleap.features.files import bundle
from timeleap.features.files.git import PACKING, GitError, check_version, split
from timeleap.features.files.records import Control, FilesConfig, SnapshotBudget
from timeleap.features.files.repository import Commit, Repository
from timeleap.features.files.restore import read_intent, remove_intent
from timeleap.features.files.roots import FOLDER, Root
from timeleap.features.files.seed import wait_for_packing
from timeleap.sessions.documents.meta import Meta
from timeleap.storage.durable import list_directory
from timeleap.storage.record import read_tl
from timeleap.store.home import Home

_KEY: Final = re.compile(r"[0-9a-f]{24}")
_INDEX: Final = re.compile(r"index-[0-9a-f]+-([0-9a-f]{40})(\.recent)?")


def repositories(home: Path) -> list[Repository]:
    """The repositories of all roots, those of folders that are gone included."""
    folder = home / FOLDER
    names = list_directory(folder) if folder.is_dir() else []
    # Git works in the repository's own folder: what is done here needs no file of the root, and that may be gone.
    return [Repository(Root(folder / name, home, name), FilesConfig()) for name in names if _KEY.fullmatch(name)]


def refuse_another_folder(root: Root, session_uid: str, number: int) -> None:
    """Refuse to look below a root for the snapshot of a folder that was at its path before.

    Args:
        root: The folder that is there now.
        session_uid: The session that the snapshot is of.
        number: The number in the snapshot's id.

    Raises:
        FilesUnavailableError: The other folder has it.
    """
    others = [each for each in repositories(root.home) if each.path != root.repository]
    former = [each for each in others if each.recorded_root() == str(root.path)]
    if any(number in each.numbers(session_uid) for each in former):
        place = shlex.quote(str(root.path))
        message = (
            f"another folder is at {root.path} than the one that the snapshot is of, which was moved or is covered by a "
            "mount: put that one back; or, if it came back from a backup or on another volume, let it have its snapshots: "
            f"timeleap workspace {place} {place}"
        )
        raise FilesUnavailableError(message, reason="rootMissing")


def snapshots_in(repository: Repository) -> list[Commit]:
    """The snapshots of all sessions, oldest first, as a listing has them."""
    return sorted(repository.snapshots(), key=lambda snapshot: (snapshot.created_at, snapshot.number))


def remove(repository: Repository, going: Collection[Commit]) -> None:
    """Remove snapshots, and from the disk what only they had. The lock is held."""
    drop(repository, going)
    sweep(repository)


def drop(repository: Repository, going: Collection[Commit]) -> None:
    """Remove snapshots; what they had stays on disk until the next `sweep`. The lock is held."""
    if going:
        for lock in ("packed-refs.lock", *(f"{snapshot.ref}.lock" for snapshot in going)):
            (repository.path / lock).unlink(missing_ok=True)  # of a git that was killed: the lock is ours
        commands = "".join(f"delete {snapshot.ref} {snapshot.oid}\n" for snapshot in going)
        repository.git.run("update-ref", "--stdin", stdin=commands.encode("ascii"))


def sweep(repository: Repository) -> None:
    """Remove from the disk what no snapshot refers to. The lock is held; while a restore is not settled nothing goes:
    it needs what its snapshots have."""
    if read_intent(repository) is not None:
        return
    live = {snapshot.oid for snapshot in snapshots_in(repository)}
    for name in list_directory(repository.path):
        # An index without its snapshot names contents that are about to go.
        if (index := _INDEX.fullmatch(name)) is not None and index[1] not in live:
            (repository.path / name).unlink(missing_ok=True)
    wait_for_packing(repository.path)  # it would pack what is about to go
    with repository.packing():
        prune = ("prune", "--expire=now")
        for command in (prune, ("repack", "-a", "-d", "-l", "-q", "-n", "--window=0"), prune):
            repository.git.run(*command, deadline=PACKING)


def remove_session(home: Path, session_uid: str) -> None:
    """Remove all snapshots of a session that is gone.

    Raises:
        FilesUnavailableError: There is no git.
        FilesBusyError, StorageFailureError: Some are there still; call again.
    """
    for repository in repositories(home):
        with repository.lock():
            going = [snapshot for snapshot in snapshots_in(repository) if snapshot.session_uid == session_uid]
            intent = read_intent(repository)
            if intent is not None and intent.session_uid == session_uid:
                remove_intent(repository)  # nobody will ever say whether its log has followed
                sweep(repository)
            if going:
                remove(repository, going)


def sessions_with(home: Path, checkpoint_uids: Collection[str]) -> set[str]:
    """The uids of the sessions with a snapshot of one of these checkpoints."""
    return {
        snapshot.session_uid
        for repository in repositories(home)
        for snapshot in snapshots_in(repository)
        if snapshot.checkpoint_uid in checkpoint_uids
    }


def shrink(repository: Repository, session_uid: str, live: Collection[int], budget: SnapshotBudget) -> list[Commit]:
    """Remove the oldest snapshots of a root that has more than its budget, or (of bytes) some of them; says which.
    Their contents go with the next `sweep`: call again after it, since only then it is known what they took.

    Those stay that checkpoints refer to, and each session's newest: of this session `live` are the numbers of those of
    checkpoints, of the others all that were taken for one. The lock is held.
    """
    every = snapshots_in(repository)
    newest = {snapshot.session_uid: snapshot for snapshot in sorted(every, key=lambda snapshot: snapshot.number)}

    def may_go(snapshot: Commit) -> bool:
        if snapshot is newest[snapshot.session_uid]:
            return False
        if snapshot.session_uid == session_uid:
            return snapshot.number not in live
        return snapshot.checkpoint_uid is None

    candidates = [snapshot for snapshot in every if may_go(snapshot)]
    count = max(0, len(every) - budget.snapshots)
    if repository.size() > budget.bytes:
        count = max(count, -(-len(candidates) // 4))
    drop(repository, candidates[:count])
    return candidates[:count]


def is_over(repository: Repository, budget: SnapshotBudget) -> bool:
    """True if a root has more than its budget."""
    return repository.count() > budget.snapshots or repository.size() > budget.bytes


def holding(
    repository: Repository, matches: Callable[[bytes], bool], session_uids: Collection[str] | None = None
) -> list[Commit]:
    """The snapshots of some sessions (None: of all) that hold a value: in a file, in a path, or in their label. The
    lock is held."""
    every = [each for each in snapshots_in(repository) if session_uids is None or each.session_uid in session_uids]
    if not every:
        return []
    asked = "\n".join(each.oid for each in every).encode("ascii")
    listed = repository.git.run(
        "rev-list", "--objects", "--no-object-names", "--stdin", stdin=asked, deadline=PACKING
    ).split()
    blobs = _blobs(repository, listed)
    matching = set[bytes]()
    with repository.git.blobs() as reader:
        for oid in blobs:
            content = bytearray()
            reader.copy(oid.decode("ascii"), content.extend)
            if matches(bytes(content)):
                matching.add(oid)
    found: list[Commit] = []
    for snapshot in every:
        entries = split(repository.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", snapshot.oid))
        if (
            any(entry.split(b"\t")[0].rpartition(b" ")[2] in matching for entry in entries)
            or matches(b"\n".join(entry.partition(b"\t")[2] for entry in entries))
            or (snapshot.label is not None and matches(snapshot.label.encode("utf-8", "surrogateescape")))
        ):
            found.append(snapshot)
    return found


def _blobs(repository: Repository, oids: Iterable[bytes]) -> list[bytes]:
    asked = b"\n".join(oids)
    if not asked:
        return []
    listed = repository.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked)
    return [line.split()[0] for line in listed.splitlines() if line.endswith(b" blob")]


# A session that is removed for good


class HeldSnapshot(Struct, frozen=True):
    """A snapshot that holds something, of any session of a store; `root` is the folder."""

    session_uid: str
    snapshot: str
    root: str


class SnapshotsOfStore:
    """The snapshots of all sessions of a store (`StoreCompanions`)."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def holding(self, matches: Callable[[bytes], bool], session_uids: Collection[str] | None) -> list[HeldSnapshot]:
        """The snapshots of these sessions (None: of all) that hold what `matches`."""
        found: list[HeldSnapshot] = []
        for repository in repositories(self._home):
            with repository.lock(), damage_named(repository):
                root = str(repository.origin().get("root", ""))
                found += [
                    HeldSnapshot(each.session_uid, each.snapshot_id, root)
                    for each in holding(repository, matches, session_uids)
                ]
        return found

    def remove(self, snapshots: Collection[HeldSnapshot]) -> None:
        """Remove snapshots; those that are gone by now are."""
        for repository in repositories(self._home) if snapshots else ():
            with repository.lock(), damage_named(repository):
                root = str(repository.origin().get("root", ""))
                wanted = {(each.session_uid, each.snapshot) for each in snapshots if each.root == root}
                every = snapshots_in(repository)
                if going := [each for each in every if (each.session_uid, each.snapshot_id) in wanted]:
                    remove(repository, going)

    def check_import(self, directory: Path, folders: Sequence[str], control: WorkControl) -> dict[str, Any]:
        """Judge the snapshots that came with an archive (see `bundle.check`)."""
        check_version(os.environ.get("PATH"))
        return bundle.check(self._home, directory, folders, Control(cancelled=control.cancelled))

    def forget(self, home: Home, directory: Path) -> bool:
        """Remove the snapshots of the session in a directory."""
        return forget_session(home, directory)


@contextmanager
def damage_named(repository: Repository) -> Iterator[None]:
    """Raises CorruptedError for a command of git that failed."""
    try:
        yield
    except GitError as error:
        raise error.as_damage(repository.path) from error


def forget_session(home: Home, directory: Path) -> bool:
    """Remove the snapshots of the session in a directory (see `StoreCompanions.forget`).

    Where its `timeleap.json` does not say which they are, its log does: by the checkpoints they were taken for. What a
    session of the store has is never taken for it.
    """
    try:
        if not any(snapshots_in(repository) for repository in repositories(home.path)):
            return True
        uid = Meta(directory, "readOnly").uid
        if uid:
            # A copy that somebody made of the directory goes on with the snapshots. One that is about to be removed
            # counts no more, so that the snapshots of the last of several go.
            copies = [home.sessions / name for name in home.names()] + [path for _, _, path in home.trashed()]
            if not any(path != directory and Meta(path, "readOnly").uid == uid for path in copies):
                remove_session(home.path, uid)
            return True
        others = {Meta(path, "readOnly").uid for path in _sessions_of(home)}
        found = sessions_with(home.path, _checkpoints_in(directory)) - others
        for each in found:
            remove_session(home.path, each)
        left = {each.session_uid for repository in repositories(home.path) for each in snapshots_in(repository)}
        return left <= others
    except (FilesUnavailableError, CorruptedError, GitError):
        return False  # there is no git, or a repository is damaged


def _sessions_of(home: Home) -> Iterator[Path]:
    yield from (home.sessions / name for name in home.names())
    yield from (path for _, _, path in home.trashed())
    yield from (home.condemned_path(name) for name, _ in home.condemned())


def _checkpoints_in(directory: Path) -> set[str]:
    """The uids of the checkpoints in the logs of a session."""
    found: set[str] = set()
    for name in list_directory(directory):
        if name.endswith(".jsonl") and name.startswith("context"):
            with (directory / name).open("rb") as log:
                for line in log:
                    uid = read_tl(line).get("u") if b'"_checkpoint"' in line else None
                    if isinstance(uid, str):
                        found.add(uid)
    return found
