"""Looks at a workspace that holds obstacles (see `obstacles`): git is given what was read by us, and never the folder.

All files are found by a walk through the folders and read again at each look. Patterns are judged by git in a folder of
our own, to which the ignore files are copied that are files of a usual length; the others count as absent.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap.errors import CancelledError
from timeleap.features.files.bounded import UnfitFileError, read_bounded
from timeleap.features.files.disk import Disk
from timeleap.features.files.git import Git, GitError, joined, split
from timeleap.features.files.nested import nested_patterns
from timeleap.features.files.records import Control, FilesConfig, to_bytes, to_text
from timeleap.features.files.repository import is_plain_path
from timeleap.features.files.root_folder import RootFolder
from timeleap.features.files.scanner import Scan, ignored_paths

_IGNORE: Final = ".gitignore"
_ATTEMPTS: Final = 3
_PORTION: Final = 2000


class CarefulScanner:
    """Finds and reads the files of one root.

    Args:
        git: Ours.
        folder: The root's, which is held.
        config: What is kept.
        control: For progress and cancelling.
        shadow: A folder of our own, which is not there yet.
        exclude: Adds patterns to what is left out.
    """

    def __init__(
        self,
        git: Git,
        folder: RootFolder,
        config: FilesConfig,
        control: Control,
        shadow: Path,
        *,
        exclude: Callable[[list[bytes]], None],
    ) -> None:
        self._exclude = exclude
        self._nested: list[bytes] = []
        self._git = git
        self._folder = folder
        self._disk = Disk(folder)
        self._config = config
        self._control = control
        self._shadow = shadow
        shadow.mkdir()
        (shadow / "tree").mkdir()

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Return the paths that are left out."""
        asked = map(to_bytes, paths)
        return set(map(to_text, ignored_paths(self._git, asked, root=self._shadow / "tree", control=self._control)))

    def scan(self) -> Scan:
        """All files and folders that are to be kept, as `present`."""
        scan = Scan()
        left_out: dict[str, os.stat_result] = {}
        waiting = {"": False}
        while waiting:
            level, waiting = waiting, {}
            found: dict[str, os.stat_result] = {}
            self._leave_out(folder for folder, is_ignored in level.items() if not is_ignored)
            for folder, is_ignored in level.items():
                entries = self._listed(folder, scan)
                if is_ignored:
                    left_out |= {path: facts for path, facts in entries.items() if not stat.S_ISDIR(facts.st_mode)}
                    waiting |= {path: True for path, facts in entries.items() if stat.S_ISDIR(facts.st_mode)}
                else:
                    found |= entries
            ignored = self.ignored(found)
            for path, facts in found.items():
                is_folder = stat.S_ISDIR(facts.st_mode)
                if path in ignored:
                    if is_folder and self._config.include_ignored:
                        waiting[path] = True
                    elif not is_folder:
                        left_out[path] = facts
                elif is_folder:
                    scan.folders[path] = stat.S_IMODE(facts.st_mode)
                    waiting[path] = False
                else:
                    self._sort(path, facts, scan)
        for path in self._included(left_out):
            self._sort(path, left_out[path], scan)
        return scan

    def _leave_out(self, folders: Iterable[str]) -> None:
        """Take over what repositories in these folders leave out."""
        found = nested_patterns(self._folder.place, folders, self._control)
        if found:
            self._nested += [pattern for patterns in found.values() for pattern in patterns]
            self._exclude(self._nested)

    def _listed(self, folder: str, scan: Scan) -> dict[str, os.stat_result]:
        """Look through a folder and return its entries by path; its ignore file is copied."""
        if self._control.cancelled():
            raise CancelledError("cancelled while the workspace's files were looked at; nothing was written")
        found: dict[str, os.stat_result] = {}
        copy = self._shadow / "tree" / folder
        copy.mkdir(exist_ok=True)
        try:
            names = self._disk.names(folder)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                scan.skipped[folder or "."] = "unreadable"
            return found
        for name in names:
            path = f"{folder}/{name}" if folder else name
            if name == ".git":
                continue
            with suppress(OSError):
                found[path] = facts = self._folder.facts(path)
                if stat.S_ISDIR(facts.st_mode):
                    (self._shadow / "tree" / path).mkdir(exist_ok=True)  # patterns of folders match folders alone
        if _IGNORE in names:
            with suppress(UnfitFileError):
                content = read_bounded(f"{self._folder.place}/{folder}/{_IGNORE}", follow=False)
                (copy / _IGNORE).write_bytes(content or b"")
        return found

    def _sort(self, path: str, facts: os.stat_result, scan: Scan) -> None:
        if not is_plain_path(path):
            scan.skipped[path] = "unsupported"
        elif not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
            scan.skipped[path] = "special"
        elif stat.S_ISREG(facts.st_mode) and facts.st_size > self._config.max_file_bytes:
            scan.skipped[path] = "tooLarge"
        else:
            scan.present[path] = facts

    def _included(self, left_out: Iterable[str]) -> list[str]:
        """Return the ignored files that the settings take in."""
        if not self._config.include_ignored:
            return []
        place = self._shadow / "included"
        place.mkdir()
        for path in left_out:
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).touch()
        patterns = [part for pattern in self._config.include_ignored for part in ("-x", pattern)]
        index = self._git.repository / "no-index"
        listed = self._git.run("ls-files", "-z", "-o", "-i", *patterns, index=index, root=place, control=self._control)
        return list(map(to_text, split(listed)))

    def add(self, index: Path, scan: Scan) -> None:
        """Read what is `present` into an index; what changes meanwhile, or cannot be read, is skipped by name."""
        paths = list(scan.present)
        lines: list[bytes] = []
        for begin in range(0, len(paths), _PORTION):
            self._control.progress("snapshot", begin, len(paths))
            portion = paths[begin : begin + _PORTION]
            names = self._read_together(portion, scan)
            for path in portion:
                oid = names.get(path) or self._read_alone(path, scan)
                if oid is not None:
                    lines.append(f"{_git_mode(scan.present[path])} {oid}\t".encode("ascii") + to_bytes(path))
        gone = [f"0 {'0' * 40}\t".encode("ascii") + to_bytes(path) for path in scan.gone]
        command = ("update-index", "-z", "--replace", "--index-info")
        self._git.run(*command, stdin=joined([*gone, *lines]), index=index)

    def _read_together(self, paths: list[str], scan: Scan) -> dict[str, str]:
        """The names of contents that git has stored; without those that are not what is on disk now."""
        asked = [path for path in paths if "\n" not in path and stat.S_ISREG(scan.present[path].st_mode)]
        stdin = b"".join(to_bytes(path) + b"\n" for path in asked)
        command = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        try:
            names = self._git.run(*command, stdin=stdin, control=self._control, looking=True).decode("ascii").split()
        except GitError:
            return {}
        return {path: oid for path, oid in zip(asked, names, strict=True) if self._is(path, oid, scan)}

    def _is(self, path: str, oid: str, scan: Scan) -> bool:
        """True if that is the content of a file, reached through folders alone, with the permissions that were seen."""
        try:
            found = self._disk.look(path, content=True)
        except OSError:
            return False
        return found is not None and found.oid == oid and found.mode == scan.present[path].st_mode

    def _read_alone(self, path: str, scan: Scan) -> str | None:
        for _ in range(_ATTEMPTS):
            try:
                content = self._disk.content(path)
                scan.present[path] = self._folder.facts(path)
            except FileNotFoundError:
                del scan.present[path]
                scan.gone.append(path)
                return None
            except PermissionError:
                break
            except OSError:
                continue
            command = ("hash-object", "-w", "-t", "blob", "--no-filters", "--stdin")
            oid = self._git.text(*command, stdin=content)
            if self._is(path, oid, scan):
                return oid
        else:
            scan.skipped[path] = "changing"
            del scan.present[path]
            return None
        scan.skipped[path] = "unreadable"
        del scan.present[path]
        return None


def _git_mode(facts: os.stat_result) -> str:
    if stat.S_ISLNK(facts.st_mode):
        return "120000"
    return "100755" if facts.st_mode & 0o100 else "100644"
