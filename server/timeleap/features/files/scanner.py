"""Finds what differs between the disk and an index: changed and new files, folders, and what cannot be taken in."""

from __future__ import annotations

import marshal
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from timeleap.errors import CancelledError, FilesTooLargeError, FilesUnavailableError, StorageFailureError
from timeleap.features.files import folder_list
from timeleap.features.files.folder_list import Folder, list_folder, stamp_of
from timeleap.features.files.git import DEADLINE, Git, GitError, Parallel, joined, split
from timeleap.features.files.nested import nested_patterns
from timeleap.features.files.obstacles import ObstacleWatch
from timeleap.features.files.records import Control, FilesConfig, SkipReason, to_bytes, to_text
from timeleap.features.files.repository import is_plain_path

TEMPORARY: Final = ".timeleap-restore-"
"""Beginning of the names of files that a restore writes before it gives them their own name."""

RACY_NS: Final = 2_000_000_000
"""Age below which a file is looked at again, since times of files are coarse."""

_TIMES_TELL: Final = os.name == "posix"  # on Windows, FAT keeps no time of a folder's change
_ATTEMPTS: Final = 5
_DEPTH: Final = 64  # repositories within repositories


class Listing(Struct, frozen=True):
    """Entries of a folder that are neither file nor link, and whether they are folders; right while `stamp` is."""

    stamp: tuple[int, ...]
    others: tuple[tuple[str, bool], ...]


class Scan(Struct):
    """The differences between the disk and an index.

    Attributes:
        present: Paths to be taken in, with their state.
        gone: Paths of the index that are not there any more, or are not to be kept.
        skipped: What is there, but is not taken in.
        folders: Permissions of all folders that are not ignored.
        listings: What the next scan need not list again.
    """

    present: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    gone: list[str] = field(default_factory=list[str])
    skipped: dict[str, SkipReason] = field(default_factory=dict[str, SkipReason])
    folders: dict[str, int] = field(default_factory=dict[str, int])
    listings: dict[str, Listing] = field(default_factory=dict[str, Listing])


class Scanner:
    """Compares one root with an index, by git and by a walk through its folders at the same time."""

    def __init__(
        self,
        git: Git,
        config: FilesConfig,
        watch: ObstacleWatch,
        listings: dict[str, Listing],
        exclude: Callable[[list[bytes]], None],
    ) -> None:
        """`exclude` adds patterns to what is left out."""
        self._exclude = exclude
        self._git = git
        self._root = git.root
        self._place = git.place
        self._config = config
        self.control = watch.control
        self._watch = watch
        self._listings = listings

    def begin(self, index: Path) -> Parallel[bytes]:
        """Have git compare an index that nobody changes meanwhile: new files, and changed ones."""
        return Parallel(
            lambda: self._looked("ls-files", "-z", "-o", "--exclude-standard", index=index),
            lambda: self._looked("diff-files", "-z", "--name-status", "--ignore-submodules=all", index=index),
        )

    def _looked(self, *command: str, index: Path) -> bytes:
        for _ in range(_ATTEMPTS):
            try:
                return self._git.run(*command, index=index, control=self.control, looking=True)
            except GitError as error:
                if not error.is_of_changing_file:
                    raise
        message = f"a file in {self._root} changes all the time while it is compared: try again"
        raise StorageFailureError(message, path=str(self._root), errno="EAGAIN")

    def walk(self, known: frozenset[str], since: int | None = None, ahead: dict[str, Folder] | None = None) -> Walk:
        """Visit folders that certainly are not ignored; `since`, `ahead`: see `Walk`."""
        walk = Walk(self._place, known, self._listings, since, ahead, judge=self._watch.judge)
        walk.visit([""])
        return walk

    def scan(
        self, index: Path, known: frozenset[str], begun: Parallel[bytes] | None = None, walk: Walk | None = None
    ) -> Scan:
        """Compare; `begun` and `walk` are what `begin` gave for the same index, and `walk` for the same folders.

        Raises:
            FilesTooLargeError: There are more files than the settings allow.
            FilesUnavailableError: The root is gone.
            CancelledError: Nobody waits for it, or there is an obstacle.
        """
        if not Path(self._place).is_dir():
            message = f"the folder {self._root} is gone: no snapshot of its files can be taken"
            raise FilesUnavailableError(message, reason="rootMissing")
        running = begun or self.begin(index)
        try:
            walk = walk or self.walk(known)
            if self._watch.found is not None:
                raise CancelledError("there is an obstacle in the workspace")
            untracked = split(running.result(0))
            fields = split(running.result(1))
        except BaseException:
            running.wait()  # nobody may use the index, or the folder, any more
            raise
        untracked = self._without_left_out(self._with_nested(untracked)) + self._included()
        scan = Scan(folders=walk.folders, listings=walk.listings)
        self._sort_changed(scan, zip(fields[::2], fields[1::2], strict=True))
        self._sort_new(scan, untracked)
        self._complete_walk(walk, scan.present)
        scan.skipped |= walk.skipped
        refuse_too_many(self._root, index_count(index) + len(scan.present) - len(scan.gone), self._config)
        return scan

    def _sort_changed(self, scan: Scan, changed: Iterable[tuple[bytes, bytes]]) -> None:
        for kind, raw in changed:
            path = to_text(raw)
            if kind == b"D" or not self._take(scan, path):
                scan.gone.append(path)

    def _sort_new(self, scan: Scan, untracked: Iterable[bytes]) -> None:
        for raw in untracked:
            self._take(scan, to_text(raw))

    def _take(self, scan: Scan, path: str) -> bool:
        """Look at a path and note it as present or skipped; False where the index is not to have it."""
        try:
            facts = os.lstat(f"{self._place}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            scan.skipped[path] = "unreadable"
            return False
        if not is_plain_path(path):
            scan.skipped[path] = "unsupported"
        elif stat.S_ISLNK(facts.st_mode):
            scan.present[path] = facts
            return True
        elif stat.S_ISREG(facts.st_mode):
            if facts.st_size <= self._config.max_file_bytes:
                scan.present[path] = facts
                return True
            scan.skipped[path] = "tooLarge"
        elif not stat.S_ISDIR(facts.st_mode):
            scan.skipped[path] = "special"
        return False

    # Repositories within the root, which git passes over

    def _with_nested(self, untracked: list[bytes]) -> list[bytes]:
        """Put the contents of repositories in the place of their folders."""
        nested = [path for path in untracked if path.endswith(b"/")]
        if not nested:
            return untracked
        found: list[bytes] = []
        for path in nested:
            self._list_nested(path, found, 0)
        ignored = self.ignored(found)
        return [path for path in untracked if not path.endswith(b"/")] + [path for path in found if path not in ignored]

    def _list_nested(self, folder: bytes, found: list[bytes], depth: int) -> None:
        root = Path(self._place) / to_text(folder)
        listing = ("ls-files", "-z", "-o", "--exclude-per-directory=.gitignore")
        nothing = self._git.repository / "no-index"
        for path in split(self._git.run(*listing, index=nothing, root=root, control=self.control, looking=True)):
            if path.endswith(b"/") and depth < _DEPTH:
                self._list_nested(folder + path, found, depth + 1)
            elif not path.endswith(b"/"):
                found.append(folder + path)

    def _without_left_out(self, untracked: list[bytes]) -> list[bytes]:
        """Return the paths that no repository within the root leaves out by ignore files of its own."""
        found = nested_patterns(self._place, folders_of(map(to_text, untracked)), self.control)
        if not found:
            return untracked
        self._exclude([pattern for patterns in found.values() for pattern in patterns])
        below = tuple(to_bytes(f"{folder}/") for folder in found)
        ignored = self.ignored(path for path in untracked if path.startswith(below))
        return [path for path in untracked if path not in ignored]

    def ignored(self, paths: Iterable[bytes]) -> set[bytes]:
        """Return the paths that the ignore files leave out."""
        return ignored_paths(self._git, paths, control=self.control)

    def _included(self) -> list[bytes]:
        """Ignored files that the settings take in."""
        if not self._config.include_ignored:
            return []
        patterns = [part for pattern in self._config.include_ignored for part in ("-x", pattern)]
        index = self._git.repository / "no-index"
        return split(
            self._git.run("ls-files", "-z", "-o", "-i", *patterns, index=index, control=self.control, looking=True)
        )

    # Folders

    def _complete_walk(self, walk: Walk, present: Iterable[str]) -> None:
        """Visit folders that are new, or hold nothing; those that are ignored are left out."""
        walk.known |= folders_of(present)
        while walk.unknown:
            unknown, walk.unknown = walk.unknown, []
            ignored = self.ignored(to_bytes(path) for path in unknown if path not in walk.known)
            walk.visit(path for path in unknown if to_bytes(path) not in ignored)
        for path in walk.special_below_ignored(self.ignored(map(to_bytes, walk.skipped))):
            del walk.skipped[path]


class Walk:
    """Folders below a root with their permissions, and entries that git does not speak of.

    Attributes:
        modes: If asked for: of all files in visited folders, kept or not, what `st_mode` says.
        recent: Those of them that have changed at `since` (nanoseconds since 1970) or later.
    """

    def __init__(
        self,
        root: str,
        known: frozenset[str],
        before: dict[str, Listing],
        since: int | None,
        ahead: dict[str, Folder] | None = None,
        *,
        judge: Callable[[str], None],
    ) -> None:
        """`ahead`: folders that `list_ahead` has listed for the same `since`; `judge` is told of each."""
        self._judge = judge
        self._root = root
        self._since = since
        self._before = before
        self._ahead = ahead or {}
        self._racy = time.time_ns() - RACY_NS
        self.known = known
        self.unknown: list[str] = []
        self.folders: dict[str, int] = {}
        self.skipped: dict[str, SkipReason] = {}
        self.listings: dict[str, Listing] = {}
        self.modes: dict[str, int] = {}
        self.recent: list[str] = []

    def visit(self, folders: Iterable[str]) -> None:
        waiting = list(folders)
        while waiting:
            folder = waiting.pop()
            others: tuple[tuple[str, bool], ...] = ()
            self._judge(folder)
            try:
                others = self._others(folder)
            except FileNotFoundError:
                self.folders.pop(folder, None)
            except OSError:
                self.skipped[folder or "."] = "unreadable"
            for name, is_folder in others:
                path = f"{folder}/{name}" if folder else name
                if not is_folder:
                    self.skipped[path] = "special"
                elif name != ".git":
                    (waiting if path in self.known else self.unknown).append(path)

    def _others(self, folder: str) -> tuple[tuple[str, bool], ...]:
        """Entries of a folder that are neither file nor link; states of files are noted where they are asked for."""
        found = self._ahead.pop(folder, None)
        if found is None:
            facts = os.lstat(f"{self._root}/{folder}" if folder else self._root)
            if not stat.S_ISDIR(facts.st_mode):
                return ()
            if folder:
                self.folders[folder] = stat.S_IMODE(facts.st_mode)
            stamp, listed = stamp_of(facts), self._before.get(folder)
            if self._since is None and listed is not None and listed.stamp == stamp:
                found = Folder(facts.st_mode, stamp, listed.others, {}, [])  # by its times no name came or went since
            else:
                found = list_folder(self._root, folder, facts, self._since)
        elif folder:
            self.folders[folder] = stat.S_IMODE(found.mode)
        if _TIMES_TELL and max(found.stamp[2:]) < self._racy:
            self.listings[folder] = Listing(found.stamp, found.others)
        self.modes.update(found.modes)
        self.recent += found.recent
        return found.others

    def special_below_ignored(self, ignored: set[bytes]) -> list[str]:
        return [path for path in self.skipped if to_bytes(path) in ignored]


def list_ahead(root: str, folders: Iterable[str], since: int) -> dict[str, Folder]:
    """Folders below the root as a process of its own finds them, meanwhile the interpreter is free for others.

    Those that it cannot read are missing, or all of them: whoever visits them looks then.
    """
    command = [sys.executable, "-I", "-S", folder_list.__file__, str(since)]
    asked = joined(map(to_bytes, ("", *folders)))
    try:
        done = subprocess.run(
            command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, cwd=root,
            timeout=DEADLINE,
        )  # fmt: skip
        return {folder: Folder(*facts) for folder, facts in marshal.loads(done.stdout).items()}  # noqa: S302 - of our own program
    except (OSError, subprocess.SubprocessError, EOFError, ValueError, TypeError):
        return {}


def ignored_paths(
    git: Git, paths: Iterable[bytes], *, root: Path | None = None, control: Control | None = None
) -> set[bytes]:
    """Paths that the ignore files of a working tree, or our own patterns, leave out."""
    asked = joined(b"./" + path for path in paths)  # so that none begins with a colon, which git would interpret
    if not asked:
        return set()
    command = ("check-ignore", "-z", "--stdin", "--no-index")
    return {
        path[2:]
        for path in split(git.run(*command, stdin=asked, root=root, accepted=(0, 1), control=control, looking=True))
    }


def refuse_too_many(root: Path, count: int, config: FilesConfig) -> None:
    """Raises FilesTooLargeError if there are more files than the settings allow."""
    if count > config.max_files >= 0:
        message = (
            f"{root} has about {count} files, more than the {config.max_files} of files.maxFiles: "
            "exclude some (files.exclude), or raise the limit"
        )
        raise FilesTooLargeError(message, files=count, limit=config.max_files)


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """All folders above the paths."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(found)


def index_count(index: Path) -> int:
    """The number of entries of an index file; 0 if there is none."""
    try:
        with index.open("rb") as file:
            header = file.read(12)
    except FileNotFoundError:
        return 0
    return int.from_bytes(header[8:12], "big") if header[:4] == b"DIRC" else 0
