"""Carries restores out, and brings interrupted ones to an end.

First all new contents are written beside their places, under names of their own: a full disk is met before anything
has changed. Then they get their names, and deletions come last. An intent, synced before the first of it, names the
snapshots of both states; from those two follows what is left to do, in either direction.
"""

from __future__ import annotations

import itertools
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from timeleap.errors import CancelledError, FilesIncompleteError, StorageFailureError
from timeleap.features.files.compare import Difference, FileEntry, TreeState, differences
from timeleap.features.files.disk import Disk, Found, is_mode_changed
from timeleap.features.files.git import BlobReader, GitError
from timeleap.features.files.records import (
    ChangeKind,
    Control,
    Recovered,
    changed_by_others,
    encode_path,
    is_below,
    shown_paths,
)
from timeleap.features.files.repository import INTENT, Commit, Repository
from timeleap.features.files.restore_plan import Work
from timeleap.features.files.scanner import TEMPORARY, folders_of
from timeleap.storage.durable import failpoint, remove_file, storage_errors, sync_directory

_SYNCED_ALONE: Final = 200
"""Up to so many files are synced one by one; for more it takes less to sync all there is."""


class Intent(Struct, frozen=True):
    """A restore that has begun; `token` names the change of the log that it belongs to, None for a restore alone."""

    session_uid: str
    token: str | None
    before: str
    after: str
    target: str
    prefix: str


def read_intent(repository: Repository) -> Intent | None:
    members = repository.read_json(INTENT)
    names = ("session", "before", "after", "target", "prefix")
    if not all(isinstance(members.get(name), str) for name in names):
        return None
    token = members.get("token")
    session, before, after, target, prefix = (members[name] for name in names)
    if not str(prefix).startswith(TEMPORARY) or "/" in prefix:
        return None
    return Intent(session, token if isinstance(token, str) else None, before, after, target, prefix)


def write_intent(repository: Repository, intent: Intent) -> None:
    members: dict[str, Any] = {
        "session": intent.session_uid, "token": intent.token, "before": intent.before, "after": intent.after,
        "target": intent.target, "prefix": intent.prefix,
    }  # fmt: skip
    repository.write_json(INTENT, members)


def remove_intent(repository: Repository) -> None:
    with storage_errors("end a restore", repository.path / INTENT):
        remove_file(repository.path / INTENT)
        sync_directory(repository.path)


def new_prefix() -> str:
    return f"{TEMPORARY}{secrets.token_hex(6)}-"


class Writer:
    """Changes the files of one root from one state to another."""

    def __init__(self, repository: Repository, prefix: str, control: Control, *, taking_back: bool = False) -> None:
        """`taking_back`: the folder may have been moved by now; what was done in it is undone there."""
        self._git = repository.git
        self._disk = Disk(repository.folder)
        self._taking_back = taking_back
        self._prefix = prefix
        self._control = control
        self._staged: dict[str, str] = {}
        self._names = itertools.count()

    def carry_out(self, work: Work) -> None:
        """Do all of it, or nothing.

        Raises:
            FilesConflictError: A file was changed while this was going on; everything else is as before.
            StorageFailureError: The system refused; everything is as before.
            FilesUnavailableError: The root was moved away, or replaced; everything in it is as before.
            FilesIncompleteError: It could not be undone; the intent is to stay.
        """
        with self._git.under(self._control):
            self._carry_out(work)

    def _carry_out(self, work: Work) -> None:
        try:
            self._check(work.steps)
            self._stage(work.steps)
            failpoint("files.staged")
        except BaseException as error:
            self._discard()
            raise _told(error) from error
        done: list[Difference] = []
        try:
            failpoint("files.staged")
            self._exchange(work.steps, work.folders_removed, done)
            self._settle_folders(work)
            self._sync(work.steps)
            self._verify()
        except BaseException as error:
            self._discard()
            self._take_back(done, work)
            raise _told(error) from error

    def _verify(self) -> None:
        if not self._taking_back:
            self._disk.verify()

    def _go_on(self, number: int, total: int) -> None:
        if self._control.cancelled():
            raise CancelledError("cancelled while files were being put back; all of them are as they were")
        self._control.progress("restore", number, total)

    # The steps of it

    def _check(self, steps: Iterable[Difference]) -> None:
        self._verify()
        changed = [step.path for step in steps if not matches(step.old, self._disk.look(step.path, content=True))]
        if changed:
            raise changed_by_others(
                changed, "that was while files were to be put back: nothing else was changed, try again"
            )

    def _stage(self, steps: list[Difference]) -> None:
        """Write the new contents, under names of their own."""
        written = [step for step in steps if step.new is not None and (step.kind != "mode" or self._is_shared(step))]
        self._write_temporary(written)

    def _is_shared(self, step: Difference) -> bool:
        """True for a file with another name: its permissions are that one's, too, and that may be outside of the root."""
        found = self._disk.look(step.path)
        return found is not None and found.links > 1

    def _write_temporary(self, written: list[Difference]) -> None:
        alone = len(written) <= _SYNCED_ALONE
        with self._git.blobs() as blobs:
            for number, step in enumerate(written):
                self._go_on(number, len(written))
                entry = step.new
                assert entry is not None
                folder = self._disk.nearest_folder(step.path)
                name = f"{self._prefix}{next(self._names)}"
                place = f"{folder}/{name}" if folder else name
                self._staged[step.path] = place
                with _named(step.path):
                    self._write(place, entry, blobs, sync=alone)
        if not alone:
            _sync_all()

    def _write(self, place: str, entry: FileEntry, blobs: BlobReader, *, sync: bool) -> None:
        if entry.is_link:
            content: list[bytes] = []
            blobs.copy(entry.oid, content.append)
            self._disk.write_link(place, b"".join(content))
        else:
            self._disk.write_file(place, entry.mode, _copier(blobs.copy, entry.oid), sync=sync)

    def _exchange(self, steps: list[Difference], empty: list[str], done: list[Difference]) -> None:
        paths = {step.path for step in steps if step.new is not None}
        above = folders_of(paths)
        blocking = [step for step in steps if step.new is None and (step.path in above or _below(step.path, paths))]
        for step in blocking:
            self._remove(step, done)
        for folder in sorted(folders_of(step.path for step in blocking), reverse=True):
            if folder in paths or _below(folder, paths):
                self._disk.remove_folder(folder)
        for step in steps:
            if step.new is None:
                continue
            self._check([step])
            done.append(step)
            self._go_on(len(done), len(steps))
            with _named(step.path):
                self._set(step.path, step.new, step.kind, empty)
            failpoint("files.moved")
        removed = {step.path for step in blocking}
        for step in steps:
            if step.new is None and step.path not in removed:
                self._remove(step, done)

    def _set(self, path: str, entry: FileEntry, kind: ChangeKind, empty: list[str]) -> None:
        """Let a path have what was written beside it, or other permissions alone."""
        if kind == "mode" and path not in self._staged:
            if self._disk.set_mode(path, entry.mode):
                return
            self._write_temporary([Difference(path, None, entry)])  # it has got another name meanwhile
        folder = path.rpartition("/")[0]
        if folder:
            self._disk.make_folder(folder)
        if stat.S_ISDIR((self._disk.look(path) or _NOTHING).mode):
            for below in (*(each for each in empty if is_below(each, path)), path):
                self._disk.remove_folder(below)
        self._disk.move(self._staged[path], path)
        del self._staged[path]

    def _remove(self, step: Difference, done: list[Difference]) -> None:
        self._check([step])
        done.append(step)
        with _named(step.path):
            self._disk.remove(step.path)
        failpoint("files.removed")

    def _settle_folders(self, work: Work) -> None:
        for folder in work.folders_removed:
            self._disk.remove_folder(folder)
        for folder in work.folders_made:
            with suppress(FileExistsError, NotADirectoryError):
                self._disk.make_folder(folder)
        for folder, mode in sorted(work.folder_modes.items(), reverse=True):
            with suppress(OSError):
                self._disk.set_mode(folder, mode, folder=True)
        failpoint("files.folders_settled")

    def _sync(self, steps: list[Difference]) -> None:
        folders = {step.path.rpartition("/")[0] for step in steps}
        if len(folders) > _SYNCED_ALONE:
            _sync_all()
            return
        for folder in folders:
            self._disk.sync_folder(folder)

    def _discard(self) -> None:
        for place in self._staged.values():
            with suppress(OSError):
                self._disk.remove(place)
        self._staged.clear()

    def _take_back(self, done: list[Difference], work: Work) -> None:
        """Undo steps of which some may not have happened."""
        # Whoever has cancelled wants this done.
        self._control, self._taking_back = Control(), True
        with self._git.under(self._control):
            self._undo(done, work)

    def _undo(self, done: list[Difference], work: Work) -> None:
        back = [
            Difference(step.path, step.new, step.old)
            for step in done
            if not matches(step.old, self._disk.look(step.path, content=True))
        ]
        try:
            self._stage(back)
            undone = turned(work)
            self._exchange(back, undone.folders_removed, [])
            self._settle_folders(undone)
        except BaseException as error:
            self._discard()
            files = f"{len(back)} files" if len(back) != 1 else "1 file"
            message = f"a restore failed half way and could not be undone: {files} may be in either state"
            raise FilesIncompleteError(message, **shown_paths([encode_path(step.path) for step in back])) from error

    def remove_leftovers(self, steps: list[Difference]) -> None:
        """Remove what a killed process wrote beside its place."""
        self._disk.remove_temporaries({"", *folders_of(step.path for step in steps)}, self._prefix)

    def sort(self, steps: list[Difference]) -> tuple[list[Difference], list[str]]:
        """Sort out the steps that are still to be done, and the paths that are in neither state."""
        left: list[Difference] = []
        foreign: list[str] = []
        for step in steps:
            found = self._disk.look(step.path, content=True)
            if matches(step.new, found):
                continue
            if matches(step.old, found):
                left.append(step)
            else:
                foreign.append(step.path)
        return left, foreign


_NOTHING: Final = Found(0, 0, 0)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Raises StorageFailureError, which says what file it is about, for an OSError."""
    try:
        yield
    except StorageFailureError:
        raise
    except OSError as error:
        shown = encode_path(path)[0]
        raise StorageFailureError.of(error, f"put {shown[:200]} back, and so no other file", shown) from error


def _copier(copy: Callable[[str, Callable[[bytes], object]], object], oid: str) -> Callable[..., object]:
    return lambda write: copy(oid, write)


def _made(steps: list[Difference]) -> frozenset[str]:
    """The folders that files which were not there need."""
    return folders_of(step.path for step in steps if step.old is None)


def _below(path: str, folders: set[str]) -> bool:
    path = path.rpartition("/")[0]
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


def _sync_all() -> None:
    if hasattr(os, "sync"):
        os.sync()


def _told(error: BaseException) -> BaseException:
    if isinstance(error, OSError) and not isinstance(error, StorageFailureError):
        return StorageFailureError.of(error, "restore files")
    return error


def matches(entry: FileEntry | None, found: Found | None) -> bool:
    """True if what was found is what a state has; a folder is nothing, since a state has no folders."""
    if entry is None or found is None or stat.S_ISDIR(found.mode):
        return entry is None and (found is None or stat.S_ISDIR(found.mode))
    if stat.S_IFMT(entry.mode) != stat.S_IFMT(found.mode) or entry.oid != found.oid:
        return False
    return not is_mode_changed(entry.mode, found)


def turned(work: Work) -> Work:
    """The work that undoes all of it."""
    before = work.before
    usual = before.details.usual[2]
    steps = [Difference(step.path, step.new, step.old) for step in work.steps]
    modes = {path: before.details.folders.get(path, usual) for path in {*work.folder_modes, *before.details.folders}}
    return Work(
        steps=steps,
        before=work.after,
        after=before,
        conflicts=[],
        kept=0,
        folders_made=sorted(before.details.folders),
        folders_removed=sorted(
            {*work.folders_made, *folders_of(step.path for step in steps if step.new is None)}, reverse=True
        ),
        folder_modes=modes,
    )


def recover(
    repository: Repository, state: Callable[[Commit], TreeState], intent: Intent, forward: bool, control: Control
) -> Recovered:
    """Bring an interrupted restore to an end; the lock is held. Paths that somebody else changed since stay.

    Raises:
        FilesIncompleteError: It cannot be brought to an end now; the intent stays.
    """
    try:
        before, after = repository.read_commit(intent.before), repository.read_commit(intent.after)
        old, new = (state(before), state(after)) if forward else (state(after), state(before))
        steps = differences(repository.git, old, new)
    except GitError as error:
        raise error.as_damage(repository.path) from error
    writer = Writer(repository, intent.prefix, control)
    writer.remove_leftovers(steps)
    left, foreign = writer.sort(steps)
    gone = folders_of(step.path for step in steps if step.new is None) | old.details.folders.keys()
    writer.carry_out(
        Work(
            steps=left,
            before=old,
            after=new,
            conflicts=[],
            kept=0,
            folders_made=sorted(new.details.folders),
            folders_removed=sorted((path for path in gone if path not in new.details.folders), reverse=True),
            folder_modes={
                path: new.details.folders.get(path, new.details.usual[2])
                for path in {*old.details.folders, *new.details.folders, *_made(steps)}
            },
        )
    )
    return Recovered(forward, before.snapshot_id, intent.target, tuple(step.path for step in left), tuple(foreign))
