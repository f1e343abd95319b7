"""A session's files below one root: the engine's interface.

All of it blocks and is called in threads; an object is used by one thread at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from timeleap.errors import CorruptedError, FilesIncompleteError, InvalidInputError
from timeleap.features.files import bundle, stored
from timeleap.features.files.compare import TreeState, described, differences, within
from timeleap.features.files.git import GitError, check_version, split
from timeleap.features.files.lost_content import refuse_lost_content
from timeleap.features.files.records import (
    BUDGET,
    Control,
    FileContent,
    FilesConfig,
    OnConflict,
    PathChange,
    Recovered,
    Restored,
    Snapshot,
    Usage,
    changed_by_others,
    encode_path,
    to_text,
)
from timeleap.features.files.renamed import follow_rename
from timeleap.features.files.repository import Commit, Repository, as_snapshot, is_plain_path
from timeleap.features.files.restore import (
    Intent,
    Writer,
    new_prefix,
    read_intent,
    recover,
    remove_intent,
    turned,
    write_intent,
)
from timeleap.features.files.restore_plan import Planner, RestoreGoal, Work
from timeleap.features.files.roots import find_root
from timeleap.features.files.seed import UnseededError, pack_in_background
from timeleap.features.files.snapshot import Present, Snapshots
from timeleap.storage.durable import failpoint, storage_errors


class RestorePlan(Struct, frozen=True):
    """A dry run: what a restore would do now.

    Attributes:
        target: The snapshot that is gone back to.
        changes: From what is on disk to what would be there, by path; without what is kept.
        conflicts: Paths that somebody else changed since, as text inside (`encode_path` before they leave).
        kept: How many paths that differ would be left alone.
    """

    target: str
    paths: tuple[bytes, ...] | None
    on_conflict: OnConflict
    log_changed_ns: int
    changes: tuple[PathChange, ...]
    conflicts: tuple[str, ...]
    added: int
    modified: int
    deleted: int
    kept: int


class FileTree:
    """The files of a session below one root."""

    def __init__(self, repository: Repository, session_uid: str, config: FilesConfig) -> None:
        self._repository = repository
        self._git = repository.git
        self._session_uid = session_uid
        self._snapshots = Snapshots(repository, config)
        self._planner = Planner(repository)

    @classmethod
    def open(
        cls, home: Path, root: Path, session_uid: str, config: FilesConfig, control: Control | None = None
    ) -> FileTree:
        """The files below `root`, with their snapshots in the store `home`; `control`: of what is done with them, where
        that has none of its own.

        Raises:
            FilesUnavailableError: There is no usable git, or the root is missing or unsafe.
            CorruptedError: A sync program has some of the snapshots elsewhere.
            StorageFailureError: The store cannot be written.
        """
        check_version(os.environ.get("PATH"))
        found = find_root(home, root)
        with storage_errors("take over the snapshots of a renamed folder", found.repository):
            follow_rename(found)
            refuse_lost_content(found.repository, session_uid)
        repository = Repository(found, config)
        repository.git.control = control or Control()
        return cls(repository, session_uid, config)

    @property
    def root(self) -> Path:
        return self._repository.root.path

    def refuse_another_folder(self, number: int) -> None:
        """Raise FilesUnavailableError if another folder that was at this path has the snapshot of that number."""
        stored.refuse_another_folder(self._repository.root, self._session_uid, number)

    # Snapshots

    def next_number(self) -> int:
        """The number that the next snapshot gets unless it is told another."""
        with self._at_work():
            found = self._repository.snapshots(self._session_uid)
        return found[0].number + 1 if found else 1

    def snapshot(
        self,
        control: Control | None = None,
        *,
        label: str | None = None,
        checkpoint_uid: str | None = None,
        number: int | None = None,
    ) -> Snapshot:
        """Take a snapshot; there is a new one even if nothing has changed.

        Args:
            control: For progress and cancelling.
            label: A text for people.
            checkpoint_uid: The checkpoint it belongs to.
            number: The number in its id, which no other snapshot of the session may have.

        Raises:
            FilesUnavailableError, FilesTooLargeError, FilesBusyError, FilesIncompleteError, StorageFailureError,
            CancelledError: There is no new snapshot.
        """
        control = control or Control()
        with self._at_work(control), self._repository.lock(control):
            self._refuse_unfinished()
            commit, present = self._snapshots.take(
                control, self._session_uid, number=number, label=label, checkpoint_uid=checkpoint_uid
            )
        if present.index is not None:
            pack_in_background(self._repository.root)
        return as_snapshot(commit, present.state.details)

    def snapshots(self) -> list[Snapshot]:
        """The session's snapshots, newest first; what was skipped stands only in the result of `snapshot`."""
        with self._at_work():
            return [as_snapshot(commit) for commit in self._repository.snapshots(self._session_uid)]

    def skipped(self, snapshot_id: str) -> Snapshot:
        """A snapshot with what it skipped. Raises SnapshotNotFoundError."""
        with self._at_work():
            commit = self._repository.find(self._session_uid, snapshot_id)
            return as_snapshot(commit, self._repository.read_details(commit))

    # Looking at them

    def changes(
        self, from_: str | None, to: str | None, path: bytes | None = None, control: Control | None = None
    ) -> list[PathChange]:
        """How two states differ, by path; None is what is on disk now. `path`: only that file, or what is below it.

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
        """
        control = control or Control()
        with self._at_work(control):
            states = [self._state(name, control) for name in (from_, to)]
            found = differences(self._git, *states)
            if path is not None:
                found = within(found, [_checked(path)])
            return sorted(described(self._git, found), key=lambda change: change.path)

    def read(self, snapshot_id: str, path: bytes, offset: int = 0, length: int | None = None) -> FileContent:
        """A part of a file, from byte `offset` on and at most `length` bytes; of a link where it points to.

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
            InvalidInputError: It has no file of that path.
        """
        text = _checked(path)
        with self._at_work():
            commit = self._repository.find(self._session_uid, snapshot_id)
            state = self._snapshots.state(commit)
            listed = split(
                self._git.run("--literal-pathspecs", "ls-tree", "--full-tree", "-z", commit.tree, "--", text)
            )
            mode, kind, oid = listed[0].partition(b"\t")[0].decode("ascii").split(" ") if listed else ("", "", "")
            if kind != "blob":
                raise InvalidInputError.of("path", f"the snapshot has no file {encode_path(text)[0][:200]}")
            blocks: list[bytes] = []
            position = 0

            def keep(block: bytes) -> None:
                nonlocal position
                end = None if length is None else offset + length - position
                blocks.append(block[max(0, offset - position) : None if end is None else max(0, end)])
                position += len(block)

            with self._git.blobs() as blobs:
                total = blobs.copy(oid, keep)
        whole = 0o120777 if mode == "120000" else 0o100000 | state.details.mode_of(text, mode == "100755")
        return FileContent(b"".join(blocks), total, whole)

    # Restoring

    def plan(
        self,
        target: str,
        *,
        paths: Iterable[bytes] | None = None,
        on_conflict: OnConflict = "refuse",
        log_changed_at: float,
        control: Control | None = None,
    ) -> RestorePlan:
        """Plan a restore of snapshot `target`: the dry run. Conflicts are named, never raised.

        Args:
            target: The snapshot to go back to.
            paths: Only these files, and what is below these folders; None for everything.
            on_conflict: What the restore is to do with files that somebody else changed since.
            log_changed_at: When the session's log was changed last, in nanoseconds since 1970.
            control: For progress and cancelling.

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
        """
        chosen = None if paths is None else tuple(paths)
        control = control or Control()
        with self._at_work(control), self._repository.lock(control):
            self._refuse_unfinished()
            request = self._request(target, chosen, on_conflict, int(log_changed_at))
            _, work = self._worked_out(request, control)
            changes = sorted(described(self._git, work.steps), key=lambda change: change.path)
        return RestorePlan(
            target=target,
            paths=chosen,
            on_conflict=on_conflict,
            log_changed_ns=int(log_changed_at),
            changes=tuple(changes),
            conflicts=tuple(work.conflicts),
            **_counts(work),
            kept=work.kept,
        )

    def restore(self, plan: RestorePlan, control: Control | None = None, *, number: int | None = None) -> Restored:
        """Carry a plan out; it is worked out again from what is on disk by now. Raises as `begin_restore`."""
        return self.begin_restore(plan, None, control, number=number).commit()

    def begin_restore(
        self, plan: RestorePlan, token: str | None, control: Control | None = None, *, number: int | None = None
    ) -> RestoreInProgress:
        """Put the files back, for a change of the log that is still to come: the lock is held until that is known.

        Args:
            plan: From `plan`.
            token: Names the change of the log, for `recover`; None if there is none.
            control: For progress and cancelling.
            number: The number of the snapshot before it; the one after it gets the next. None: the next two.

        Raises:
            FilesConflictError: The plan refuses conflicts, and there are some; nothing was changed.
            SnapshotNotFoundError, FilesBusyError, StorageFailureError, CancelledError: Nothing was changed.
            FilesIncompleteError: It failed, and so did taking it back.
        """
        control = control or Control()
        with self._at_work(control), self._repository.lock(control):
            self._refuse_unfinished()
            request = self._request(plan.target, plan.paths, plan.on_conflict, plan.log_changed_ns)
            started = time.monotonic()
            present, work = self._worked_out(request, control)
            if work.conflicts and plan.on_conflict == "refuse":
                raise changed_by_others(work.conflicts)
            present = self._snapshots.with_absent(present, [step.path for step in work.steps if step.old is None])
            before = self._snapshots.commit(present, self._session_uid, started, number=number)
            self._snapshots.publish(before, present)
            after = self._repository.write_commit(
                work.after.tree,
                self._repository.store_details(work.after.details),
                session_uid=self._session_uid,
                number=before.number + 1,
                label=None,
                checkpoint_uid=None,
                changed=len(work.steps),
                ms=round((time.monotonic() - started) * 1000),
            )
            intent = Intent(self._session_uid, token, before.oid, after.oid, plan.target, new_prefix())
            write_intent(self._repository, intent)
            self._carry_out(work, intent, control)
            restored = Restored(
                before=before.snapshot_id,
                after=after.snapshot_id,
                **_counts(work),
                kept=work.kept,
                conflicts=len(work.conflicts),
                paths=tuple(encode_path(step.path) for step in work.steps),
            )
            self._repository.hold()
            return RestoreInProgress(self._repository, intent, work, after=after, restored=restored)

    def _carry_out(self, work: Work, intent: Intent, control: Control) -> None:
        """Do the work, or nothing: then the intent goes, unless what was done could not be taken back."""
        done = False
        try:
            with storage_errors("restore files", self.root):
                failpoint("files.intent")
                Writer(self._repository, intent.prefix, control).carry_out(work)
                done = True
                failpoint("files.restored")
        except FilesIncompleteError as error:
            error.data |= {"before": self._repository.read_commit(intent.before).snapshot_id, "target": intent.target}
            raise
        except BaseException:
            if done:
                Writer(self._repository, intent.prefix, Control(), taking_back=True).carry_out(turned(work))
            remove_intent(self._repository)
            raise

    def recover(self, happened: Callable[[str], bool], control: Control | None = None) -> Recovered | None:
        """Bring a restore of this session that was interrupted to an end; None if there is none.

        Args:
            happened: Whether the change of the log with that token took place: then the files go forward, else back.
            control: For progress.

        Raises:
            FilesBusyError: It is still going on.
            FilesIncompleteError, StorageFailureError: It cannot be brought to an end now; the next call tries again.
        """
        if read_intent(self._repository) is None:
            return None
        control = control or Control()
        with self._at_work(control), self._repository.lock(control):
            intent = read_intent(self._repository)
            if intent is None or intent.session_uid != self._session_uid:
                return None
            return self._recovered(intent, intent.token is None or happened(intent.token), control)

    def _recovered(self, intent: Intent, forward: bool, control: Control) -> Recovered:
        recovered = recover(self._repository, self._snapshots.state, intent, forward, control)
        failpoint("files.recovered")
        if forward:
            self._repository.publish_once(self._repository.read_commit(intent.after))
        remove_intent(self._repository)
        return recovered

    # What is stored

    def is_over_budget(self) -> bool:
        return stored.is_over(self._repository, BUDGET)

    def shrink(self, live: Collection[int]) -> None:
        """Remove the oldest snapshots beyond the budget (see `stored.shrink`). Raises FilesBusyError."""
        with self._at_work(), self._repository.lock():
            stored.shrink(self._repository, self._session_uid, live, BUDGET)

    def sweep(self) -> None:
        """Remove from the disk what no snapshot refers to, if there are too many bytes. Raises FilesBusyError."""
        if self._repository.size() > BUDGET.bytes:
            with self._at_work(), self._repository.lock():
                stored.sweep(self._repository)

    def adopt(self, session_uid: str) -> None:
        """Begin with the snapshots of another session, of which this one is a fork, under the same ids; nothing is
        copied, and nothing happens where there are snapshots already."""
        if self.snapshots():
            return
        with self._at_work(), self._repository.lock(Control()):
            self._repository.publish_all(self._session_uid, self._repository.snapshots(session_uid))

    def write_pack(self, pack: Path, control: Control) -> tuple[list[dict[str, Any]], list[str]]:
        """Write all snapshots into a pack for an archive (see `bundle.write_pack`)."""
        with self._at_work():
            return bundle.write_pack(self._repository, self._session_uid, pack, control)

    def take_pack(self, pack: Path, records: Sequence[dict[str, Any]]) -> None:
        """Take in the snapshots of such a pack (see `bundle.take_pack`)."""
        with self._at_work(), self._repository.lock():
            self._snapshots.sweep()
            bundle.take_pack(self._repository, self._session_uid, pack, records, Control())

    def remove(self, snapshot_ids: Iterable[str]) -> None:
        """Remove snapshots, and what only they have; ones that are not there are passed over.

        Raises:
            FilesBusyError: Another process is using the repository.
        """
        wanted = set(snapshot_ids)
        with self._at_work(Control()), self._repository.lock():
            every = stored.snapshots_in(self._repository)
            going = [each for each in every if each.session_uid == self._session_uid and each.snapshot_id in wanted]
            stored.remove(self._repository, going)

    def usage(self) -> Usage:
        """Count the snapshots and what all of the repository takes. Raises CorruptedError if some of it is elsewhere."""
        refuse_lost_content(self._repository.path, self._session_uid, thorough=True)
        with self._at_work():
            return Usage(len(self._repository.numbers(self._session_uid)), self._repository.size())

    # Parts

    def _request(
        self, target: str, paths: tuple[bytes, ...] | None, on_conflict: OnConflict, log_changed_ns: int
    ) -> RestoreGoal:
        commit = self._repository.find(self._session_uid, target)
        chosen = None if paths is None else tuple(_checked(path) for path in paths)
        return RestoreGoal(commit, chosen, on_conflict, log_changed_ns)

    def _worked_out(self, request: RestoreGoal, control: Control) -> tuple[Present, Work]:
        goal = self._snapshots.state(request.target)
        present = self._snapshots.look(control)
        present = self._snapshots.with_overlooked(present, goal, control)
        newest = self._repository.snapshots(self._session_uid)
        newest_state = self._snapshots.state(self._repository.read_commit(newest[0].oid)) if newest else None
        index = self._snapshots.index_of(present)
        return present, self._planner.work_out(present.state, index, newest_state, request, goal)

    def _state(self, snapshot_id: str | None, control: Control) -> TreeState:
        if snapshot_id is not None:
            return self._snapshots.state(self._repository.find(self._session_uid, snapshot_id))
        with self._repository.lock(control):
            return self._snapshots.look(control).state

    def _refuse_unfinished(self) -> None:
        """Nothing is taken or restored on top of a restore that stopped half way, unless it can go forward by itself."""
        intent = read_intent(self._repository)
        if intent is None:
            return
        if intent.token is None:
            self._recovered(intent, True, Control())
            return
        before = self._repository.read_commit(intent.before)
        message = (
            "a restore of these files and a conversation was interrupted: open that session, "
            f"which brings it to an end, or restore snapshot {before.snapshot_id} or {intent.target} of it"
        )
        raise FilesIncompleteError(
            message, before=before.snapshot_id, target=intent.target, paths=[], more=0, session=intent.session_uid
        )

    @contextmanager
    def _at_work(self, control: Control | None = None) -> Iterator[None]:
        """Let commands of git end when `control` says so (None: that of this object).

        Raises:
            CorruptedError: One has failed.
            FilesUnavailableError: It has since the root's folder is not there any more.
        """
        try:
            with self._git.under(control or self._git.control):
                yield
        except UnseededError as error:
            message = "the repository at the root is damaged; try again: it is not used any more"
            raise CorruptedError(message, path=str(self.root)) from error
        except CorruptedError:
            refuse_lost_content(self._repository.path, self._session_uid, thorough=True)
            raise
        except GitError as error:
            self._repository.folder.verify()
            refuse_lost_content(self._repository.path, self._session_uid, thorough=True)
            raise error.as_damage(self._repository.path) from error


class RestoreInProgress:
    """Files that are at their target while the log is not yet: to be made final, or taken back. Holds the lock."""

    def __init__(
        self,
        repository: Repository,
        intent: Intent,
        work: Work,
        *,
        after: Commit,
        restored: Restored,
    ) -> None:
        self._repository = repository
        self._intent = intent
        self._work = work
        self._after = after
        self.restored = restored

    def commit(self) -> Restored:
        """The change took place: the snapshot after it is the session's newest.

        Raises:
            FilesIncompleteError: The files are at the target, but that could not be noted; the next look at them does.
        """
        try:
            with self._repository.git.under(Control()):
                self._repository.publish_once(self._after)
            failpoint("files.after_published")
            remove_intent(self._repository)
        except (OSError, GitError) as error:
            message = "the files are restored, but that could not be noted: the next snapshot or restore completes it"
            raise FilesIncompleteError(
                message, before=self.restored.before, target=self._intent.target, paths=[], more=0
            ) from error
        finally:
            self._repository.release()
        return self.restored

    def roll_back(self) -> None:
        """The change did not take place: the files go back to the snapshot before it, which is the newest.

        Raises:
            FilesIncompleteError, FilesConflictError, StorageFailureError: The intent stays for `FileTree.recover`.
        """
        try:
            writer = Writer(self._repository, self._intent.prefix, Control(), taking_back=True)
            writer.carry_out(turned(self._work))
            failpoint("files.taken_back")
            remove_intent(self._repository)
        finally:
            self._repository.release()


def _counts(work: Work) -> dict[str, int]:
    added = sum(step.old is None for step in work.steps)
    deleted = sum(step.new is None for step in work.steps)
    return {"added": added, "modified": len(work.steps) - added - deleted, "deleted": deleted}


def _checked(path: bytes) -> str:
    text = to_text(path).removesuffix("/")
    if not is_plain_path(text):
        raise InvalidInputError.of("path", "a path is relative to the root, with `/`, and leads into no .git")
    return text
