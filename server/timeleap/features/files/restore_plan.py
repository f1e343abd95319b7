"""Works out a restore: which paths go back, which are conflicts, and what cannot be touched. Writes no file."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap.features.files.compare import Difference, FileEntry, TreeState, differences, entries, within
from timeleap.features.files.disk import Disk
from timeleap.features.files.git import joined, split
from timeleap.features.files.records import OnConflict, is_below, to_bytes, to_text
from timeleap.features.files.repository import Commit, Details, Repository
from timeleap.features.files.scanner import folders_of, ignored_paths

_IGNORE: Final = ".gitignore"


class RestoreGoal(Struct, frozen=True):
    """Files that are to go back.

    Attributes:
        paths: Only these, and what is below them; None for everything.
        log_changed_ns: When the session's log was changed last; what changed on disk before is its agent's work.
    """

    target: Commit
    paths: tuple[str, ...] | None
    on_conflict: OnConflict
    log_changed_ns: int


class Work(Struct, frozen=True):
    """A restore worked out.

    Attributes:
        steps: The paths to be changed, from what is on disk to what is to be.
        before: The state that the steps begin with.
        after: The state that the steps lead to.
        conflicts: Paths that somebody else changed since; with `keep` they are no steps.
        kept: How many paths that differ from the target are left alone.
        folders_made, folders_removed: Folders that hold no file; one is only removed if it is empty by then.
        folder_modes: Permissions of folders that are to change.
    """

    steps: list[Difference]
    before: TreeState
    after: TreeState
    conflicts: list[str]
    kept: int
    folders_made: list[str]
    folders_removed: list[str]
    folder_modes: dict[str, int]


class Planner:
    """Works out restores of one root."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._git = repository.git
        self._disk = Disk(repository.folder)

    def work_out(
        self, now: TreeState, index: Path, newest: TreeState | None, request: RestoreGoal, goal: TreeState
    ) -> Work:
        """The steps from `now`, whose `index` is given, to `goal`; `newest` is the session's newest snapshot."""
        found = differences(self._git, now, goal)
        if request.paths is not None:
            found = within(found, request.paths)
        untouchable = self._untouchable(found, now, goal)
        conflicts = self._conflicts([step for step in found if step.path not in untouchable], now, newest, request)
        left = untouchable | (set(conflicts) if request.on_conflict == "keep" else set())
        steps = [step for step in found if step.path not in left]
        tree = goal.tree if not left and request.paths is None else self._tree(index, steps)
        folders = self._folders(now.details, goal.details, request.paths)
        after = TreeState(tree, _details(now.details, steps, folders))
        made, removed, modes = self._folder_steps(now, goal, after, steps)
        return Work(steps, now, after, conflicts, len(left), made, removed, modes)

    # What is left alone

    def _untouchable(self, found: list[Difference], now: TreeState, goal: TreeState) -> set[str]:
        """Paths with something that no snapshot has: it could not be brought back."""
        skipped = now.details.skipped.keys() | goal.details.skipped.keys()
        below = folders_of(skipped)
        gone = {step.path for step in found if step.new is None}
        left: set[str] = set()
        for step in found:
            path = step.path
            if _is_skipped(path, skipped) or (step.new is not None and path in below):
                left.add(path)
            elif step.old is None and self._holds_other_files(path, gone):
                left |= {other for other in gone if is_below(other, path)} | {path}
        ignored = self._ignored_at(goal, now, [step.path for step in found if step.new is None])
        return left | ignored

    def _holds_other_files(self, path: str, gone: set[str]) -> bool:
        """True if a folder is in the place of a file and has contents that are no part of a snapshot."""
        found = self._disk.look(path)
        if found is None or not stat.S_ISDIR(found.mode):
            return False
        for name in self._disk.names(path):
            below = f"{path}/{name}"
            inner = self._disk.look(below)
            is_folder = inner is not None and stat.S_ISDIR(inner.mode)
            if self._holds_other_files(below, gone) if is_folder else below not in gone:
                return True
        return False

    def _ignored_at(self, goal: TreeState, now: TreeState, paths: list[str]) -> set[str]:
        """Return the paths that were left out then by the ignore files or settings: they may have been there, unless
        it was looked for them."""
        absent = set(goal.details.absent)
        paths = [path for path in paths if path not in absent]
        if not paths:
            return set()
        asked = self._ignore_files(goal)
        same = (goal.details.exclude, goal.details.include_ignored) == (
            now.details.exclude,
            now.details.include_ignored,
        )
        if same and asked == self._ignore_files(now):
            return set()
        with tempfile.TemporaryDirectory(dir=self._repository.path, prefix="work-") as place:
            root = Path(place)
            with self._git.blobs() as blobs:
                for path, entry in asked.items():
                    (root / path).parent.mkdir(parents=True, exist_ok=True)
                    with (root / path).open("xb") as file:
                        blobs.copy(entry.oid, file.write)
            patterns = [to_bytes(pattern) for pattern in goal.details.exclude if "\n" not in pattern]
            self._repository.write_exclude(patterns)
            left = self._checked_ignore(root, paths)
            if goal.details.include_ignored and left:
                for path in asked:
                    (root / path).unlink()
                included = [to_bytes(pattern) for pattern in goal.details.include_ignored if "\n" not in pattern]
                self._repository.write_exclude(included)
                left -= self._checked_ignore(root, sorted(left))
        return left

    def _ignore_files(self, state: TreeState) -> dict[str, FileEntry]:
        listed = split(self._git.run("ls-tree", "-r", "-z", "--name-only", state.tree))
        named = [path for raw in listed if (path := to_text(raw)).rpartition("/")[2] == _IGNORE]
        return {path: entry for path, entry in entries(self._git, state, named).items() if not entry.is_link}

    def _checked_ignore(self, root: Path, paths: Iterable[str]) -> set[str]:
        return set(map(to_text, ignored_paths(self._git, map(to_bytes, paths), root=root)))

    def _conflicts(
        self, found: list[Difference], now: TreeState, newest: TreeState | None, request: RestoreGoal
    ) -> list[str]:
        if newest is None:
            suspects = {step.path for step in found}
        else:
            suspects = {step.path for step in differences(self._git, now, newest)}
        return [
            step.path
            for step in found
            if step.path in suspects and self._disk.changed_ns(step.path) > request.log_changed_ns
        ]

    # The state it leads to

    def _tree(self, index: Path, steps: list[Difference]) -> str:
        """The tree of the index with the steps done; the index itself stays."""
        import shutil

        copied = self._repository.path / f"work-{index.name}"
        shutil.copyfile(index, copied)
        try:
            removed = [f"0 {'0' * 40}\t".encode() + to_bytes(step.path) for step in steps]
            added = [
                f"{_git_mode(step.new)} {step.new.oid}\t".encode() + to_bytes(step.path)
                for step in steps
                if step.new is not None
            ]
            command = ("update-index", "-z", "--replace", "--index-info")
            self._git.run(*command, stdin=joined([*removed, *added]), index=copied)
            return self._git.text("write-tree", index=copied)
        finally:
            copied.unlink(missing_ok=True)

    @staticmethod
    def _folders(now: Details, goal: Details, paths: tuple[str, ...] | None) -> dict[str, int]:
        if paths is None:
            return goal.folders
        chosen = {path: mode for path, mode in goal.folders.items() if any(is_below(path, other) for other in paths)}
        rest = {path: mode for path, mode in now.folders.items() if not any(is_below(path, other) for other in paths)}
        return rest | chosen

    def _folder_steps(
        self, now: TreeState, goal: TreeState, after: TreeState, steps: list[Difference]
    ) -> tuple[list[str], list[str], dict[str, int]]:
        held = self._folders_in(after.tree)
        before, wanted = now.details.folders, after.details.folders
        left = folders_of(path for step in steps if step.new is None for path in (step.path,)) | before.keys()
        removed = [path for path in left if path not in held and path not in folders_of(wanted) and path not in wanted]
        ignored = self._ignored_at(goal, now, removed)
        made = sorted(path for path in wanted if path not in held and path not in before)
        new = folders_of(step.path for step in steps if step.old is None)
        usual = now.details.usual[2]
        new |= frozenset(made)
        modes = {path: mode for path, mode in wanted.items() if path in new or before.get(path, usual) != mode}
        modes |= {path: usual for path in before if path not in wanted and path in held}
        modes |= {path: usual for path in new if path not in wanted}
        return made, sorted((path for path in removed if path not in ignored), reverse=True), modes

    def _folders_in(self, tree: str) -> frozenset[str]:
        return frozenset(map(to_text, split(self._git.run("ls-tree", "-d", "-r", "-z", "--name-only", tree))))


def _is_skipped(path: str, skipped: set[str]) -> bool:
    """True if the path itself or a folder above it was skipped."""
    while path:
        if path in skipped:
            return True
        path = path.rpartition("/")[0]
    return "." in skipped


def _git_mode(entry: FileEntry) -> str:
    if entry.is_link:
        return "120000"
    return "100755" if entry.mode & 0o100 else "100644"


def _details(now: Details, steps: list[Difference], folders: dict[str, int]) -> Details:
    modes = dict(now.modes)
    for step in steps:
        modes.pop(step.path, None)
        if step.new is not None and not step.new.is_link:
            mode = stat.S_IMODE(step.new.mode)
            if mode != now.usual[bool(mode & 0o100)]:
                modes[step.path] = mode
    return Details(
        usual=now.usual,
        modes=modes,
        folders=folders,
        skipped=now.skipped,
        exclude=now.exclude,
        include_ignored=now.include_ignored,
    )
