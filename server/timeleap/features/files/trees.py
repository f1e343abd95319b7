"""The files of one session: an engine for each of its roots, and one snapshot id for all of them.

A session with several roots takes its snapshots in all of them under one number; the id of the whole is that of the
first root which has it. What one root refuses is done in none.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct

from timeleap.call import NO_CONTROL, WorkControl
from timeleap.clock import iso
from timeleap.errors import (
    FilesUnavailableError,
    InvalidInputError,
    SnapshotNotFoundError,
    TimeleapError,
)
from timeleap.features.files import bundle
from timeleap.features.files.kept_form import FROM, settings_of
from timeleap.features.files.records import (
    LISTED,
    Control,
    FileContent,
    FilesConfig,
    OnConflict,
    Restored,
    Snapshot,
    changed_by_others,
    encode_path,
    shown_paths,
)
from timeleap.features.files.tree import FileTree, RestoreInProgress, RestorePlan
from timeleap.features.files.tree_port import TreeOf, TreeSnapshot, TreeTarget, WorkingTree
from timeleap.features.files.wire_forms import RootChange, cursor_behind, shown_path
from timeleap.json_value import Json
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.shapes import set_members
from timeleap_protocol.folder_uri import canonical_folder_uri, folder_of

MAX_SKIPPED: Final = 1000
STAGES: Final = {"snapshot": "Saving files", "compare": "Comparing files", "restore": "Putting files back"}
COUNTS: Final = ("added", "modified", "deleted", "kept", "conflicts")


class SessionRoot(Struct, frozen=True, eq=False):
    """A folder of a session; `uri` is None where it is the only one, and need not be named."""

    uri: str | None
    tree: FileTree


class RootsPlan(Struct, frozen=True):
    """Plan of a restore, root by root; `target` is the snapshot of the whole."""

    target: str
    parts: tuple[tuple[SessionRoot, RestorePlan], ...]

    def foretold(self, cursor: Callable[[str | None, str], str]) -> Json:
        """The members of the result of a dry run; `cursor`: where a listing of changes goes on behind a root's path.

        The changes and the cursor stand beside the counts, too: the result of `files/restore` is `{head, files}` in the
        contract, and that of a change of the log has both of them beside `files`.
        """
        conflicts = [(root.uri, path) for root, plan in self.parts for path in plan.conflicts]
        changes = [RootChange(root.uri, change) for root, plan in self.parts for change in plan.changes]
        paths = [shown_path(*encode_path(path), root=uri) for uri, path in conflicts[:LISTED]]
        counts = {name: sum(getattr(plan, name) for _, plan in self.parts) for name in COUNTS[:-1]}
        shown = changes[:LISTED]
        last_root, last_path = self.parts[0][0].uri, ""
        if shown:
            last_root, last_path = shown[-1].root, shown[-1].change.path
        listing: Json = {"changes": [change.wire() for change in shown], "cursor": cursor(last_root, last_path)}
        files = {
            "after": self.target,
            **counts,
            "conflicts": len(conflicts),
            **set_members(conflictPaths=paths or None),
            **listing,
        }
        return {"files": files, **listing}

    def refuse_conflicts(self) -> None:
        """Refuse a restore that finds conflicts, before any root is touched.

        Raises:
            FilesConflictError: It names those of the first root that has some.
        """
        for root, plan in self.parts:
            if plan.conflicts:
                raise changed_by_others(plan.conflicts, **set_members(root=root.uri))


class RootsOverBudget:
    """Roots of which one has too much (see `SnapshotsOverBudget` of the port)."""

    def __init__(self, roots: Sequence[SessionRoot]) -> None:
        self._roots = roots

    def shrink(self, live: Collection[int]) -> None:
        """Remove the oldest snapshots beyond the budget of each root."""
        for root in self._roots:
            root.tree.shrink(live)

    def sweep(self) -> None:
        """Remove from the disk what no snapshot refers to, where a root has too many bytes."""
        for root in self._roots:
            root.tree.sweep()


class PendingRoots:
    """Files that were put back in all roots, each under an intent of its own (see `PendingRestore` of the port)."""

    def __init__(self, parts: Sequence[tuple[SessionRoot, RestoreInProgress]], before: str, after: str) -> None:
        self._parts = parts
        self.before, self.after = before, after
        restored = [pending.restored for _, pending in parts]
        self._counts = {name: sum(getattr(each, name) for each in restored) for name in COUNTS}

    @property
    def result(self) -> Json:
        """Members of the request's result."""
        return {"files": {"before": self.before, "after": self.after, **self._counts}}

    @property
    def events(self) -> list[Json]:
        """Members of the notifications `files/didRestore`: one for each root that changed."""
        return [self._told(root, pending.restored) for root, pending in self._parts if pending.restored.paths]

    def _told(self, root: SessionRoot, restored: Restored) -> Json:
        return {
            **set_members(root=root.uri),
            **shown_paths(restored.paths),
            "before": self.before,
            "after": self.after,
        }

    def commit(self) -> None:
        """Keep the files as they are now."""
        for _, pending in self._parts:
            pending.commit()

    def roll_back(self) -> None:
        """Make the files in all roots what they were; the first failure is raised when all were tried."""
        roll_back([pending for _, pending in self._parts])


def roll_back(many: Sequence[RestoreInProgress]) -> None:
    """Roll back several restores, the last one first; the first failure is raised when all were tried."""
    failure: TimeleapError | None = None
    for pending in reversed(many):
        try:
            pending.roll_back()
        except TimeleapError as error:
            failure = failure or error
    if failure is not None:
        raise failure


class SessionTrees:
    """The files of one session (`WorkingTree` of the port). Blocking.

    Args:
        home: The store's directory.
        meta: The session's `timeleap.json`, which has the settings.
    """

    def __init__(self, home: Path, meta: Meta) -> None:
        self._home = home
        self._meta = meta
        self._taking_in = threading.Lock()

    @property
    def uris(self) -> tuple[str, ...]:
        """The URIs of the roots: those that were set, else the workspace."""
        settings = settings_of(self._meta)
        if settings is not None and settings.roots:
            return settings.roots
        return (self._meta.workspace,) if self._meta.workspace is not None else ()

    def roots(self, control: WorkControl = NO_CONTROL) -> tuple[SessionRoot, ...]:
        """The roots, opened for one piece of work: a folder may have been put in the place of another since the last.

        Raises:
            FilesUnavailableError: There is no root, or one cannot be used.
        """
        roots = tuple(self._open(self.uris, self._meta.uid, control))
        directory = self._meta.path.parent
        if os.path.lexists(directory / bundle.SNAPSHOTS_NAME):
            self._take_in(directory, roots)
        return roots

    def _take_in(self, directory: Path, roots: Sequence[SessionRoot]) -> None:
        """Take in the snapshots that an import has left in the session's directory."""
        with self._taking_in:
            if not os.path.lexists(directory / bundle.SNAPSHOTS_NAME):
                return  # another thread has done it
            document = bundle.read_document(directory)
            bundle.refuse_other_folders(document, len(roots))
            for at, (root, arrived) in enumerate(zip(roots, document["roots"], strict=True), 1):
                with naming(root.uri):
                    root.tree.take_pack(directory / bundle.snapshots_pack(at), arrived["snapshots"])
            bundle.remove(directory, document)

    def export(self, directory: Path, control: WorkControl) -> list[str]:
        """Write all snapshots into a directory, for an archive; says what is left out."""
        listed: list[Json] = []
        losses: list[str] = []
        for at, (root, uri) in enumerate(zip(self.roots(), self.uris, strict=True), 1):
            with naming(root.uri):
                records, left = root.tree.write_pack(directory / bundle.snapshots_pack(at), as_control(control))
            pack = {"pack": bundle.snapshots_pack(at)} if records else {}
            listed.append({"folder": uri.rstrip("/").rpartition("/")[2], **pack, "snapshots": records})
            losses += left
        if not any(root["snapshots"] for root in listed):
            return [*losses, "there are no snapshots of the session's files"]
        settings = settings_of(self._meta)
        if settings is not None and settings.include_ignored:
            losses.append("the setting includeIgnored: give it again where the archive is imported")
        bundle.write_document(directory, settings.member() if settings is not None else {}, listed)
        return losses

    def _open(self, uris: tuple[str, ...], uid: str, control: WorkControl = NO_CONTROL) -> Iterator[SessionRoot]:
        settings = settings_of(self._meta)
        if settings is None or not uris:
            reason = "it has no workspace and no roots" if settings is not None else "its files are not kept"
            raise FilesUnavailableError(
                f"{reason}: say in `files` of session/open what to keep", reason="notConfigured"
            )
        given = {"max_file_bytes": settings.max_file_bytes, "max_files": settings.max_files}
        limits = {name: most for name, most in given.items() if most is not None}
        config = FilesConfig(settings.mode, uris, settings.exclude, settings.include_ignored, **limits)
        for uri in uris:
            folder = folder_of(uri)
            if folder is None:
                raise FilesUnavailableError(f"{uri} is not the URI of a folder here", reason="rootMissing", root=uri)
            with naming(uri):
                tree = FileTree.open(self._home, folder, uid, config, as_control(control))
                first_of = self._meta.get(FROM)
                if first_of is not None:
                    tree.adopt(first_of)
                yield SessionRoot(uri if len(uris) > 1 else None, tree)

    def chosen(self, roots: Sequence[SessionRoot], uri: str | None) -> SessionRoot:
        """The root that a request names, or the only one.

        Raises:
            InvalidInputError: There is none of that URI, or several and none was named.
        """
        uris, uri = self.uris, uri and canonical_folder_uri(uri)
        if uri is None and len(roots) == 1:
            return roots[0]
        if uri not in uris:
            raise InvalidInputError.of("root", f"must be one of the session's roots: {', '.join(uris)}")
        return roots[uris.index(uri)]

    # Snapshots

    def snapshot(
        self, control: WorkControl, *, label: str | None = None, checkpoint_uid: str | None = None
    ) -> TreeSnapshot:
        """Keep the files as they are, in all roots or in none."""
        roots, engine_control = self.roots(control), as_control(control)
        number = max(root.tree.next_number() for root in roots) if len(roots) > 1 else None
        taken: list[tuple[SessionRoot, Snapshot]] = []
        try:
            for root in roots:
                with naming(root.uri):
                    made = root.tree.snapshot(engine_control, label=label, checkpoint_uid=checkpoint_uid, number=number)
                taken.append((root, made))
        except BaseException:
            for root, made in taken:
                root.tree.remove([made.snapshot_id])
            raise
        skipped = [
            {**shown_path(*encode_path(each.path), root=root.uri), "reason": each.reason}
            for root, made in taken
            for each in made.skipped[:MAX_SKIPPED]
        ]
        first = taken[0][1]
        return TreeSnapshot(
            first.snapshot_id,
            iso(first.created_at),
            sum(made.changed for _, made in taken),
            skipped[:MAX_SKIPPED],
            sum(len(made.skipped) for _, made in taken),
            sum(made.ms for _, made in taken),
            label,
            checkpoint_uid,
        )

    def snapshots(self, control: WorkControl = NO_CONTROL) -> list[Snapshot]:
        """All snapshots, newest first; one for each number."""
        by_number: dict[int, Snapshot] = {}
        for root in self.roots(control):
            for found in root.tree.snapshots():
                number = number_of(found.snapshot_id)
                known = by_number.get(number)
                by_number[number] = found if known is None else _together(known, found)
        return [by_number[number] for number in sorted(by_number, reverse=True)]

    def newest(self, control: WorkControl = NO_CONTROL) -> str | None:
        """The newest snapshot."""
        return next((snapshot.snapshot_id for snapshot in self.snapshots(control)), None)

    def state(self) -> Json:
        """State of the snapshots: members of `FilesState` of the contract."""
        usages = [root.tree.usage() for root in self.roots()]
        return {
            "snapshots": max(usage.snapshots for usage in usages),
            "bytes": sum(usage.bytes for usage in usages),
        }

    def changed(self, before: str, after: str | None) -> list[tuple[str, str]]:
        """How each path differs between two snapshots; kind and path."""
        found = self.changes((before, after or self.newest()), None, None, WorkControl())
        return [(each.change.kind, each.change.path) for each in found]

    def over_budget(self) -> RootsOverBudget | None:
        """The roots, if one of them has more snapshots or bytes than it may."""
        roots = self.roots()
        return RootsOverBudget(roots) if any(root.tree.is_over_budget() for root in roots) else None

    def refuse_missing(self, snapshot: str, control: WorkControl) -> None:
        """Refuse, with SnapshotNotFoundError, what is no snapshot (any more)."""
        _parts(self.roots(control), snapshot)

    def snapshot_of(self, checkpoint_uid: str, control: WorkControl) -> str:
        """The snapshot that was taken for a checkpoint.

        Raises:
            SnapshotNotFoundError: None was, or it is gone.
        """
        for found in self.snapshots(control):
            if found.checkpoint_uid == checkpoint_uid:
                return found.snapshot_id
        raise SnapshotNotFoundError(
            f"checkpoint {checkpoint_uid[:80]} has no snapshot of the files", checkpointUid=checkpoint_uid[:200]
        )

    # Looking at them

    def changes(
        self, states: tuple[str | None, str | None], root: str | None, path: bytes | None, control: WorkControl
    ) -> list[RootChange]:
        """How two states of the files differ, root by root, by path; None is the disk."""
        roots = self.roots(control)
        known = [None if name is None else dict(_parts(roots, name)) for name in states]
        chosen = roots if root is None and path is None else [self.chosen(roots, root)]
        found: list[RootChange] = []
        for each in chosen:
            sides = [None if parts is None else parts.get(each) for parts in known]
            if any(parts is not None and side is None for parts, side in zip(known, sides, strict=True)):
                continue  # it was no root of the session then
            with naming(each.uri):
                changes = each.tree.changes(sides[0], sides[1], path, as_control(control))
            found += [RootChange(each.uri, change) for change in changes]
        return found

    def read(
        self, snapshot: str, root: str | None, path: bytes, part: tuple[int, int], control: WorkControl
    ) -> FileContent:
        """A part of a file as a snapshot has it: from which byte on, and how many."""
        roots = self.roots(control)
        chosen = self.chosen(roots, root)
        name = dict(_parts(roots, snapshot)).get(chosen)
        if name is None:
            raise not_found(snapshot)
        return chosen.tree.read(name, path, *part)

    # Going back

    def plan(self, target: TreeTarget, on_conflict: OnConflict, log_changed_at: int, control: WorkControl) -> RootsPlan:
        """Plan a return to a snapshot. Conflicts are not raised, but named in the plan."""
        plans: list[tuple[SessionRoot, RestorePlan]] = []
        for root, name in self._targets(self.roots(control), target):
            with naming(root.uri):
                plan = root.tree.plan(
                    name,
                    paths=target.paths,
                    on_conflict=on_conflict,
                    log_changed_at=log_changed_at,
                    control=as_control(control),
                )
            plans.append((root, plan))
        return RootsPlan(target.snapshot, tuple(plans))

    def _targets(self, roots: Sequence[SessionRoot], target: TreeTarget) -> list[tuple[SessionRoot, str]]:
        """The roots that go back, each with the id of the snapshot there."""
        parts = _parts(roots, target.snapshot)
        if target.paths is None and target.root is None:
            return parts
        chosen = self.chosen(roots, target.root)
        found = [(root, name) for root, name in parts if root is chosen]
        if not found:
            raise not_found(target.snapshot)
        return found

    def foretell(self, target: TreeTarget, on_conflict: OnConflict, log_changed_at: int, control: WorkControl) -> Json:
        """Members of the result of a dry run."""
        plan = self.plan(target, on_conflict, log_changed_at, control)
        return plan.foretold(functools.partial(cursor_behind, None, target.snapshot))

    def begin_restore(
        self, target: TreeTarget, on_conflict: OnConflict, token: str, log_changed_at: int, control: WorkControl
    ) -> PendingRoots:
        """Put the files back, in all roots or in none, under intents that carry `token`. Roots that stay as they are
        get the same two snapshots, so that each of the two ids names one state of everything."""
        roots = self.roots(control)
        targets = self._targets(roots, target)
        several = len(roots) > 1
        if several and on_conflict == "refuse":
            self.plan(target, on_conflict, log_changed_at, control).refuse_conflicts()
        number = max(root.tree.next_number() for root in roots) if several else None
        begun: list[tuple[SessionRoot, RestoreInProgress]] = []
        ids: dict[SessionRoot, tuple[str, str]] = {}
        try:
            for root, name in targets:
                plan = unplanned(name, target.paths, on_conflict, log_changed_at)
                with naming(root.uri):
                    pending = root.tree.begin_restore(plan, token, as_control(control), number=number)
                begun.append((root, pending))
                ids[root] = pending.restored.before, pending.restored.after
            for root in roots:
                if number is not None and root not in ids:
                    with naming(root.uri):
                        before, after = (root.tree.snapshot(number=each) for each in (number, number + 1))
                    ids[root] = before.snapshot_id, after.snapshot_id
        except BaseException:
            roll_back([pending for _, pending in begun])
            raise
        return PendingRoots(begun, *next(ids[root] for root in roots if root in ids))

    def recover(self, happened: Callable[[str], bool]) -> list[Json]:
        """Settle what a crash left of a restore; returns warnings of what could not be settled."""
        warnings: list[Json] = []
        for root in self.roots():
            try:
                found = root.tree.recover(happened)
            except TimeleapError as error:
                warnings.append({"kind": error.kind, "message": error.message})
                continue
            if found is not None and found.foreign:
                paths = ", ".join(encode_path(path)[0] for path in found.foreign[:10])
                text = (
                    f"a restore of files was cut short, and was brought to an end; {len(found.foreign)} files that were "
                    f"changed since were left alone ({paths}). Snapshot {found.before} has what was there before it, "
                    f"{found.target} what it was to bring back"
                )
                warnings.append({"kind": "filesIncomplete", "message": text})
        return warnings


def trees_below(home: Path) -> TreeOf:
    """Finder of the files of each session of a store: one object for as long as its `timeleap.json` is open."""
    known: WeakKeyDictionary[Meta, SessionTrees] = WeakKeyDictionary()

    def tree_of(_directory: Path, meta: Meta) -> WorkingTree | None:
        if settings_of(meta) is None:
            return None
        if (found := known.get(meta)) is None:
            found = known[meta] = SessionTrees(home, meta)
        return found

    return tree_of


@contextmanager
def naming(uri: str | None) -> Iterator[None]:
    """Errors say which root they are about, where there are several."""
    try:
        yield
    except TimeleapError as error:
        if uri is not None:
            error.data.setdefault("root", uri)
        raise


def as_control(control: WorkControl) -> Control:
    """The engine's own form of it; what is being done is said in words for people."""

    def progress(stage: str, done: int, total: int | None) -> None:
        control.progress(STAGES.get(stage, stage), done, total)

    return Control(progress, control.cancelled)


def unplanned(
    snapshot: str, paths: tuple[bytes, ...] | None, on_conflict: OnConflict, log_changed_at: int
) -> RestorePlan:
    """A plan that names only what is wanted: carrying it out looks at the files itself."""
    return RestorePlan(snapshot, paths, on_conflict, log_changed_at, (), (), 0, 0, 0, 0)


def _parts(roots: Sequence[SessionRoot], snapshot: str) -> list[tuple[SessionRoot, str]]:
    """The roots that have a part in a snapshot of the whole, each with its id there.

    Raises:
        SnapshotNotFoundError: There is no such snapshot (any more).
        FilesUnavailableError: It is of a folder that is not there.
    """
    number = number_of(snapshot)
    found = [
        (root, each.snapshot_id)
        for root in roots
        for each in root.tree.snapshots()
        if number_of(each.snapshot_id) == number
    ]
    if all(name != snapshot for _, name in found):
        for root in roots:
            with naming(root.uri):
                root.tree.refuse_another_folder(number)
        raise not_found(snapshot)
    return found


def number_of(snapshot: str) -> int:
    """The number in the id of a snapshot; 0 for what is no id."""
    digits = snapshot.partition("-")[0][1:]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 15 else 0


def not_found(snapshot: str) -> SnapshotNotFoundError:
    """There is no such snapshot (any more)."""
    return SnapshotNotFoundError(f"there is no snapshot {snapshot[:80]} (any more)", snapshot=snapshot[:200])


def _together(first: Snapshot, other: Snapshot) -> Snapshot:
    return Snapshot(
        first.snapshot_id,
        first.created_at,
        first.label,
        first.checkpoint_uid,
        first.changed + other.changed,
        (*first.skipped, *other.skipped),
        first.ms + other.ms,
    )
