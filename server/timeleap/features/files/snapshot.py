"""Takes snapshots: looks for what changed, stores it, and publishes a commit.

The order is objects, commit, ref, index: killed in between there is no snapshot, at most objects that nothing refers
to. A tree's name comes only from a `write-tree` after an `update-index` that succeeded.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from timeleap.errors import CancelledError, CorruptedError, InvalidInputError, StorageFailureError
from timeleap.features.files.careful import CarefulScanner
from timeleap.features.files.compare import TreeState, differences
from timeleap.features.files.disk import Disk
from timeleap.features.files.file_modes import modes_of, recent_modes_of, unusual_modes, usual_modes
from timeleap.features.files.git import GitError, joined, split
from timeleap.features.files.nested import anchored
from timeleap.features.files.obstacles import ObstacleWatch
from timeleap.features.files.records import Control, FilesConfig, to_bytes, to_text
from timeleap.features.files.repository import Commit, Details, Repository
from timeleap.features.files.scanner import (
    RACY_NS,
    TEMPORARY,
    Listing,
    Scan,
    Scanner,
    Walk,
    folders_of,
    ignored_paths,
    list_ahead,
    refuse_too_many,
)
from timeleap.features.files.seed import (
    Seed,
    UnseededError,
    all_roots,
    are_own,
    many_loose,
    own_objects,
    seed_index,
    unborrow_failed,
)
from timeleap.features.files.user_repository import (
    UserRepository,
    find_excludes_file,
    find_user_repository,
    ignored_by_parents,
    own_patterns,
)
from timeleap.storage.durable import failpoint

_ATTEMPTS: Final = 3
_REFUSALS: Final = 20
_PORTION: Final = 2000  # files that are read between two reports of progress
_MANY: Final = 5000  # files from which on it takes less time to start a process that lists their folders
_REFUSED: Final = re.compile(rb"(?:Unable to process path |Invalid path ')(.+?)'?$", re.MULTILINE)
_WORK: Final = "work-"
_REMEMBERED: Final = 4
_folders_of_trees: Final[dict[str, frozenset[str]]] = {}
"""The folders in the trees that were looked at last: a tree's name says what is in it, in whichever repository."""
_listings_of_roots: Final[dict[str, dict[str, Listing]]] = {}
"""By the roots' keys; requests have objects of their own, and each listing says itself how long it is right."""
_obstacles_of_roots: Final[dict[str, str]] = {}
"""By the roots' keys: the folder that had an obstacle, which need not be searched for again."""
_Value = TypeVar("_Value")


class Present(Struct, frozen=True):
    """The present state of the disk, stored.

    Attributes:
        details_oid: The name of the document of `state`.
        index: Git's index of it, not yet kept; None if the one that is kept is right.
        base: The snapshot that index was made from.
        recent: Permissions of files that changed just before.
        seed: Its source if objects of the user's repository are needed.
    """

    state: TreeState
    details_oid: str
    index: Path | None
    base: Commit | None
    recent: dict[str, int] = field(default_factory=dict[str, int])
    seed: Seed | None = None


class Snapshots:
    """Takes the snapshots of one session below one root."""

    def __init__(self, repository: Repository, config: FilesConfig) -> None:
        self._repository = repository
        self._git = repository.git
        self._config = config
        self._disk = Disk(repository.folder)
        self._careful: CarefulScanner | None = None  # where the last look found obstacles
        self._exclude: Callable[[list[bytes]], None] = repository.write_exclude
        self._failed: Counter[str] = Counter()
        self._user: tuple[tuple[int, ...], UserRepository | None] | None = None

    # The present state

    def look(self, control: Control) -> Present:
        """Store what is on disk now, without making a snapshot of it; the lock is held.

        Raises:
            FilesTooLargeError, FilesUnavailableError, StorageFailureError, CancelledError: Nothing was changed.
        """
        present = self._look(control)
        self._repository.folder.verify()  # git may have been led to another folder of the same path
        return present

    def _look(self, control: Control, *, seeding: bool = True) -> Present:
        self.sweep()
        self._careful = None
        self._git.excludes_file = find_excludes_file(self._repository.root.path, self._user_repository(), control)
        patterns = self._patterns(control)
        self._repository.write_exclude(patterns)
        self._exclude = lambda nested: self._repository.write_exclude([*nested, *patterns])
        key = self._repository.root.key
        watch = ObstacleWatch(self._git.place, control, _obstacles_of_roots.get(key))
        try:
            try:
                if watch.found is None:
                    return self._look_by_git(watch, seeding=seeding)
            except (CancelledError, GitError, StorageFailureError):
                if control.cancelled() or not watch.look():
                    raise
            finally:
                watch.end()
            if watch.found is not None:
                _remember(_obstacles_of_roots, key, watch.found)
            return self._look_carefully(control)
        except GitError as error:
            raise error.as_damage(self._repository.path) from error

    def _look_by_git(self, watch: ObstacleWatch, *, seeding: bool) -> Present:
        found = self._repository.find_index()
        if found is not None:
            return self._look_again(*found, watch)
        try:
            return self._look_first(watch, seeding=seeding)
        except GitError:
            if self._git.alternate is None:
                raise
            unborrow_failed(self._repository)  # the user's repository is damaged; its files are not
            return self._look_first(watch, seeding=False)

    def _look_carefully(self, control: Control) -> Present:
        """Look without letting git into the workspace: something there would never answer it."""
        started = time.time_ns()
        shadow = self._work_index()
        careful = CarefulScanner(
            self._git, self._repository.folder, self._config, control, shadow, exclude=self._exclude
        )
        self._careful = careful
        scan = careful.scan()
        refuse_too_many(self._repository.root.path, len(scan.present), self._config)
        index = self._work_index()
        self._git.run("read-tree", "--empty", index=index)
        careful.add(index, scan)
        os.utime(index, ns=(started - RACY_NS, started - RACY_NS))
        tree = self._written_tree(index)
        details = Details(usual=usual_modes(modes_of(scan.present), scan.folders))
        details = self._details(details, scan, self._folders_in(tree), scan.present)
        failpoint("files.objects_written")
        return Present(TreeState(tree, details), self._repository.store_details(details), index, None)

    def _look_again(self, index: Path, base: Commit, watch: ObstacleWatch) -> Present:
        started, control = time.time_ns(), watch.control
        details = self._repository.read_details(base)
        key = self._repository.root.key
        scanner = Scanner(self._git, self._config, watch, _listings_of_roots.get(key, {}), self._exclude)
        scan = scanner.scan(index, self._folders_in(base.tree))
        _remember(_listings_of_roots, key, scan.listings)
        recent = self._recent_again(self._repository.recent_modes(index), scan)
        if not scan.present and not scan.gone:
            details_now = self._details(details, scan, self._folders_in(base.tree), {})
            if details_now == details:
                return Present(TreeState(base.tree, details), base.details, None, base)
            return Present(TreeState(base.tree, details_now), self._repository.store_details(details_now), None, base)
        present = self._updated(self._copied(index), base, details, scan, started=started, control=control)
        return replace(present, recent=recent_modes_of({**recent, **scan.present}, started))

    def _recent_again(self, recent: dict[str, int], scan: Scan) -> dict[str, os.stat_result]:
        """Look at files that git may not see a change of; returns those that did not change."""
        same: dict[str, os.stat_result] = {}
        for path, mode in recent.items():
            facts = None if path in scan.present else self._facts(path)
            if facts is not None and stat.S_ISREG(facts.st_mode):
                (same if stat.S_IMODE(facts.st_mode) == mode else scan.present)[path] = facts
        return same

    def _look_first(self, watch: ObstacleWatch, *, seeding: bool) -> Present:
        started, control = time.time_ns(), watch.control
        index = self._work_index()
        user = self._user_repository() if seeding else None
        scanner = Scanner(self._git, self._config, watch, {}, self._exclude)
        seed = walk = None
        kept: dict[str, int] = {}
        if user is not None:
            with suppress(UnseededError):
                seed, walk = self._seeded(user, index, scanner, started - RACY_NS)
        if seed is None or walk is None:
            index.unlink(missing_ok=True)
            self._git.run("read-tree", "--empty", index=index)
        elif (kept := walk.modes).keys() - seed.paths:
            kept = {path: mode for path, mode in kept.items() if path in seed.paths}
        try:
            control.progress("snapshot", 0, None)
            scan = scanner.scan(index, frozenset(), seed.compared if seed else None, walk)
            tree = seed.tree if seed is not None and not (scan.present or scan.gone) else None
            if tree is not None and walk is not None:
                _remember(_folders_of_trees, tree, walk.known)
            _remember(_listings_of_roots, self._repository.root.key, scan.listings)
            details = Details(usual=usual_modes({**kept, **modes_of(scan.present)}, scan.folders))
            details = replace(details, modes=unusual_modes(details, kept))
            present = self._updated(index, None, details, scan, started=started, control=control, tree=tree)
        except BaseException:
            if seed is not None and seed.packing is not None:
                seed.packing.wait()  # the lock is held until nobody writes any more
            raise
        recent = {path: stat.S_IMODE(kept[path]) for path in (walk.recent if walk else ()) if path in kept}
        return replace(present, seed=seed, recent={**recent, **recent_modes_of(scan.present, started)})

    def _seeded(self, user: UserRepository, index: Path, scanner: Scanner, since: int) -> tuple[Seed, Walk]:
        """The user's index, judged while the folders of its files are walked."""
        paths, judging = seed_index(self._repository, user, self._config, index, scanner.begin, control=scanner.control)
        try:
            folders = folders_of(paths)
            ahead = list_ahead(self._git.place, folders, since) if len(paths) >= _MANY else None
            walk = scanner.walk(folders, since, ahead)
        finally:
            judging.wait()
        seed = judging.result()
        if seed.compared is None:
            self._forget(index, [*seed.dropped, *seed.rehashed])
            walk = scanner.walk(folders_of(seed.paths), since)  # folders of what is left out may be, too
        return seed, walk

    def _updated(
        self,
        index: Path,
        base: Commit | None,
        details: Details,
        scan: Scan,
        *,
        started: int,
        control: Control,
        tree: str | None = None,
    ) -> Present:
        """Store the result of a scan. `tree`: the index's tree, if it is known and nothing differs from it."""
        if tree is None:
            self._update(index, scan, control)
        os.utime(index, ns=(started - RACY_NS, started - RACY_NS))
        tree = tree or self._written_tree(index)
        details = self._details(details, scan, self._folders_in(tree), scan.present)
        failpoint("files.objects_written")
        return Present(TreeState(tree, details), self._repository.store_details(details), index, base)

    def _written_tree(self, index: Path) -> str:
        """The tree of an index, which keeps its time: that says of which files the times tell nothing."""
        facts = index.stat()
        tree = self._git.text("write-tree", index=index, looking=self._careful is None)
        os.utime(index, ns=(facts.st_mtime_ns, facts.st_mtime_ns))
        return tree

    def _update(self, index: Path, scan: Scan, control: Control) -> None:
        """Bring an index up to date; what changes meanwhile is read again, a few times."""
        wanted = list(scan.present)
        self._failed.clear()
        for _ in range(_ATTEMPTS):
            self._forget(index, map(to_bytes, scan.gone))
            self._add(index, wanted, scan, control)
            wanted = [path for path in wanted if path in scan.present and self._changed_since(path, scan)]
            if not wanted:
                return
        scan.skipped |= dict.fromkeys(wanted, "changing")

    def _changed_since(self, path: str, scan: Scan) -> bool:
        now, then = self._facts(path), scan.present[path]
        if now is None or not (stat.S_ISREG(now.st_mode) or stat.S_ISLNK(now.st_mode)):
            del scan.present[path]
            scan.gone.append(path)
            return True
        scan.present[path] = now
        return _stamp(now) != _stamp(then)

    def _add(self, index: Path, wanted: list[str], scan: Scan, control: Control) -> None:
        for begin in range(0, len(wanted), _PORTION):
            control.progress("snapshot", begin, len(wanted))
            self._add_portion(index, wanted[begin : begin + _PORTION], scan, control)

    def _add_portion(self, index: Path, wanted: list[str], scan: Scan, control: Control) -> None:
        command = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        for _ in range(_REFUSALS):
            paths = [path for path in wanted if path in scan.present]
            if not paths:
                return
            given = joined(map(to_bytes, paths))
            try:
                self._git.run(*command, stdin=given, index=index, control=control, looking=True)
            except GitError as error:
                named = {to_text(path) for path in _REFUSED.findall(error.stderr)} & set(paths)
                refused = {path for path in paths if not self._readable(path)}
                refused |= set[str]() if error.is_of_changing_file else named
                if not refused:
                    self._add_changing(index, paths, scan, control, error=error)
                    return
                for path in refused:
                    self._skip(scan, path)
                self._forget(index, map(to_bytes, refused))
            else:
                return
        raise CorruptedError("too many files cannot be read", path=str(self._repository.root.path))

    def _add_changing(self, index: Path, paths: list[str], scan: Scan, control: Control, *, error: GitError) -> None:
        """Find by halves the file that was changed while it was read; read it again, and skip it if that goes on."""
        if not error.is_of_changing_file:
            raise error
        half = len(paths) // 2
        if half:
            self._add_portion(index, paths[:half], scan, control)
            self._add_portion(index, paths[half:], scan, control)
            return
        (path,) = paths
        self._failed[path] += 1
        if self._failed[path] < _ATTEMPTS:
            self._add_portion(index, paths, scan, control)
            return
        del scan.present[path]
        scan.skipped[path] = "changing"
        self._forget(index, [to_bytes(path)])

    def _skip(self, scan: Scan, path: str) -> None:
        del scan.present[path]
        facts = self._facts(path)
        if facts is None:
            return
        if not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
            scan.skipped[path] = "changing"  # something else was put in its place
        else:
            scan.skipped[path] = "unsupported" if self._readable(path) else "unreadable"

    def _readable(self, path: str) -> bool:
        facts = self._facts(path)
        if facts is None or stat.S_ISLNK(facts.st_mode):
            return facts is not None
        try:
            os.close(os.open(f"{self._git.place}/{path}", os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)))
        except OSError:
            return False
        return True

    def _facts(self, path: str) -> os.stat_result | None:
        try:
            return self._repository.folder.facts(path)
        except OSError:
            return None

    def _forget(self, index: Path, paths: Iterable[bytes]) -> None:
        if unwanted := joined(paths):
            command = ("update-index", "-z", "--force-remove", "--stdin")
            self._git.run(*command, stdin=unwanted, index=index, looking=True)

    def _details(
        self, was: Details, scan: Scan, implied: frozenset[str], present: dict[str, os.stat_result]
    ) -> Details:
        modes = {path: mode for path, mode in was.modes.items() if path not in present}
        for path in scan.gone:
            modes.pop(path, None)
        modes |= unusual_modes(was, modes_of(present))
        usual = was.usual[2]
        return Details(
            usual=was.usual,
            modes=modes,
            folders={path: mode for path, mode in scan.folders.items() if mode != usual or path not in implied},
            skipped=scan.skipped,
            exclude=self._config.exclude,
            include_ignored=self._config.include_ignored,
        )

    def _folders_in(self, tree: str) -> frozenset[str]:
        known = _folders_of_trees.get(tree)
        if known is None:
            listed = split(self._git.run("ls-tree", "-d", "-r", "-z", "--name-only", tree))
            known = frozenset(map(to_text, listed))
            _remember(_folders_of_trees, tree, known)
        return known

    def _user_repository(self) -> UserRepository | None:
        """The user's repository at the root; looked for again where a `.git` came, went, or is another one."""
        root = self._repository.root.path
        seen = tuple(found.st_ino if (found := _lstat(place / ".git")) else 0 for place in (root, *root.parents))
        if self._user is None or self._user[0] != seen:
            self._user = (seen, find_user_repository(root))
        return self._user[1]

    def _patterns(self, control: Control) -> list[bytes]:
        """Patterns of paths to leave out in addition to the folder's own ignore files."""
        root = self._repository.root
        patterns = [TEMPORARY.encode() + b"*"]
        if root.home_within is not None:
            patterns.append(anchored(to_bytes(root.home_within + "/")))
        user = self._user_repository()
        if user is not None:
            patterns = own_patterns(user) + patterns
            if not user.at_root:
                excludes = self._git.excludes_file or os.devnull
                ignored = ignored_by_parents(root.path, user, excludes, control)
                patterns += [anchored(path) for path in ignored if b"\n" not in path]
        for pattern in self._config.exclude:
            if "\n" in pattern or "\0" in pattern:
                raise InvalidInputError.of("files.exclude", "a pattern is one line")
            patterns.append(to_bytes(pattern))
        return patterns

    def with_overlooked(self, present: Present, goal: TreeState, control: Control) -> Present:
        """Add files that `goal` has and that are there, but were left out (ignored by now, for instance): a file
        that a restore overwrites is in the snapshot before it."""
        added = [step.path for step in differences(self._git, present.state, goal) if step.old is None]
        scan = Scan(skipped=dict(present.state.details.skipped))
        for path in added:
            there = self._disk.look(path) is not None  # a path through a link leads to nothing of ours
            facts = self._facts(path) if there else None
            if facts is None or stat.S_ISDIR(facts.st_mode) or path in scan.skipped:
                continue
            if stat.S_ISREG(facts.st_mode) and facts.st_size > self._config.max_file_bytes:
                scan.skipped[path] = "tooLarge"
            else:
                scan.present[path] = facts
        if not scan.present and scan.skipped == present.state.details.skipped:
            return present
        index = present.index or self._copied(self.index_of(present))
        if self._careful is not None:
            self._careful.add(index, scan)
        else:
            self._update(index, scan, control)
        tree = self._written_tree(index)
        self._repository.folder.verify()
        was = present.state.details
        details = replace(was, modes={**was.modes, **unusual_modes(was, modes_of(scan.present))}, skipped=scan.skipped)
        return replace(
            present, state=TreeState(tree, details), details_oid=self._repository.store_details(details), index=index
        )

    def with_absent(self, present: Present, paths: list[str]) -> Present:
        """Take the snapshot, noting which of the ignored paths are not there: they go when somebody goes back to it."""
        beyond = {folder for folder in folders_of(paths) if self._is_no_folder(folder)}
        paths = [path for path in paths if not beyond & folders_of([path])]  # git does not look behind links
        absent: set[str] = set()
        for path in self._ignored(paths):
            above = path
            while above and above not in absent and self._disk.look(above) is None:
                absent.add(above)
                above = above.rpartition("/")[0]
        if not absent:
            return present
        was = present.state
        details = replace(was.details, absent=tuple(sorted(absent)))
        return replace(present, state=TreeState(was.tree, details), details_oid=self._repository.store_details(details))

    def _ignored(self, paths: list[str]) -> set[str]:
        if self._careful is not None:
            return self._careful.ignored(paths)
        return set(map(to_text, ignored_paths(self._git, map(to_bytes, paths)))) if paths else set()

    def _is_no_folder(self, path: str) -> bool:
        found = self._disk.look(path)
        return found is not None and not stat.S_ISDIR(found.mode)

    def index_of(self, present: Present) -> Path:
        if present.index is not None:
            return present.index
        assert present.base is not None, "a state without an index of its own has that of a snapshot"
        return self._repository.index_path(present.base.oid)

    # Snapshots

    def take(
        self,
        control: Control,
        session_uid: str,
        *,
        number: int | None = None,
        label: str | None = None,
        checkpoint_uid: str | None = None,
    ) -> tuple[Commit, Present]:
        """Take a snapshot; the lock is held. Raises as `look`, and InvalidInputError for a `number` that is taken."""
        started = time.monotonic()
        present = self.look(control)

        def stored(present: Present) -> Commit:
            return self.commit(present, session_uid, started, number=number, label=label, checkpoint_uid=checkpoint_uid)

        commit = stored(present)
        try:
            self.publish(commit, present)
        except UnseededError:
            present = self._look(control, seeding=False)
            commit = stored(present)
            self.publish(commit, present)
        return commit, present

    def publish(self, commit: Commit, present: Present) -> None:
        """Make a stored snapshot one that exists; its index is kept.

        Raises:
            UnseededError: The user's repository, from which it was seeded, turned out to be damaged.
        """
        if present.seed is not None and not self._owned(commit, present.seed):
            unborrow_failed(self._repository)
            raise UnseededError
        failpoint("files.committed")
        self._repository.publish(commit)
        failpoint("files.published")
        if present.index is not None:
            self._repository.keep_index(present.index, commit.oid, present.recent)

    def commit(
        self,
        present: Present,
        session_uid: str,
        started: float,
        *,
        number: int | None = None,
        label: str | None = None,
        checkpoint_uid: str | None = None,
    ) -> Commit:
        """Store a snapshot of `present`, without publishing it; `started` by the monotonic clock."""
        earlier = self._repository.numbers(session_uid)
        newest = max(earlier, default=0)
        if number is not None and number in earlier:
            raise InvalidInputError.of("number", f"there is a snapshot {number} already")
        changed = 0
        if earlier:
            before = self._repository.read_commit(earlier[newest])
            if (before.tree, before.details) != (present.state.tree, present.details_oid):
                changed = len(differences(self._git, self.state(before), present.state))
        return self._repository.write_commit(
            present.state.tree,
            present.details_oid,
            session_uid=session_uid,
            number=newest + 1 if number is None else number,
            label=label,
            checkpoint_uid=checkpoint_uid,
            changed=changed,
            ms=round((time.monotonic() - started) * 1000),
            base=present.base if present.index is None else None,  # nobody sweeps a snapshot whose index is there
        )

    def state(self, commit: Commit) -> TreeState:
        return TreeState(commit.tree, self._repository.read_details(commit))

    def _owned(self, commit: Commit, seed: Seed) -> bool:
        """Copy what is borrowed, unless that takes long; False if it cannot be read."""
        user = self._user_repository()
        if seed.packing is None and user is not None and many_loose(user):
            return True
        try:
            if seed.packing is not None:
                seed.packing.result()
            others = all_roots(self._repository)  # what was borrowed for them before is not any more
            stored = [commit.oid, commit.outer, commit.details]
            if others or commit.tree != seed.tree or not are_own(self._repository, stored):
                own_objects(self._repository, [commit.oid, commit.details, *others])
        except GitError:
            return False
        self._repository.borrow(None)
        return True

    # Temporary indexes

    def _work_index(self) -> Path:
        return self._repository.path / f"{_WORK}{secrets.token_hex(8)}"

    def _copied(self, index: Path) -> Path:
        copied = self._work_index()
        shutil.copyfile(index, copied)
        facts = index.stat()
        os.utime(copied, ns=(facts.st_mtime_ns, facts.st_mtime_ns))  # newer, and git would trust what it must compare
        return copied

    def sweep(self) -> None:
        """Remove what a killed process left; the lock is held, so nobody uses it."""
        for path in self._repository.path.glob(f"{_WORK}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _remember(memory: dict[str, _Value], key: str, value: _Value) -> None:
    while key not in memory and len(memory) >= _REMEMBERED:
        with suppress(KeyError, StopIteration, RuntimeError):  # another thread may do the same
            del memory[next(iter(memory))]
    memory[key] = value


def _lstat(path: str | Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _stamp(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_mode
