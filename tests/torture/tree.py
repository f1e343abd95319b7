"""A picture of a whole folder, and how two of them differ: what undo is judged by."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}
REPOSITORY = b".git"
SHOWN = 6


@dataclass(frozen=True)
class Entry:
    """What is known of one path.

    Attributes:
        kind: `file`, `link`, `pipe` or `socket`; folders count by what is in them.
        mode: Permission bits.
        content: A file's digest, a link's target.
        modified: In nanoseconds; compared only where nothing else should have changed.
    """

    kind: str
    mode: int
    content: str
    modified: int

    def same(self, other: Entry) -> bool:
        """Equal but for the time."""
        return (self.kind, self.mode, self.content) == (other.kind, other.mode, other.content)


@dataclass(frozen=True)
class Tree:
    """What a folder holds.

    Attributes:
        entries: By path below the folder; nothing of what is inside `.git`.
        repositories: What git says of each repository in it: branches, commits, index, stash.
    """

    entries: Mapping[bytes, Entry]
    repositories: Mapping[bytes, str]

    @classmethod
    def of(cls, folder: Path, *, without: Collection[str] = ()) -> Tree:
        """Look at a folder, `without` these paths in it."""
        entries, repositories = dict[bytes, Entry](), dict[bytes, str]()
        left_out = {os.fsencode(path) for path in without}
        pending = [b""]
        while pending:
            below = pending.pop()
            with os.scandir(os.path.join(os.fsencode(folder), below)) as found:
                for item in found:
                    path = os.path.join(below, item.name)
                    if path in left_out:
                        continue
                    if item.name == REPOSITORY:
                        repositories[path] = _repository(Path(os.fsdecode(item.path)))
                    elif item.is_dir(follow_symlinks=False):
                        pending.append(path)
                    else:
                        entries[path] = _entry(item.path)
        return cls(entries, repositories)

    def differences(self, now: Tree, since: Tree) -> list[str]:
        """How `now` is not what it should be, in sentences.

        Args:
            now: What is there.
            since: What was there before: what did not have to change must have kept its time, and repositories as they were.
        """
        told: list[str] = []
        for path in sorted(self.entries.keys() | now.entries.keys()):
            name, wanted, found = _shown(path), self.entries.get(path), now.entries.get(path)
            if found is None:
                told.append(f"{name} is missing")
            elif wanted is None:
                told.append(f"{name} should not be there")
            elif not wanted.same(found):
                told.append(f"{name} is {_difference(wanted, found)}")
            elif (old := since.entries.get(path)) and old.same(wanted) and old.modified != found.modified:
                told.append(f"{name} was written though nothing of it had to change")
        repositories = sorted(since.repositories.keys() | now.repositories.keys())
        changed = [path for path in repositories if since.repositories.get(path) != now.repositories.get(path)]
        told += [f"{_shown(path)} was changed" for path in changed]
        return told if len(told) <= SHOWN else [*told[:SHOWN], f"and {len(told) - SHOWN} more"]

    def replacing(self, other: Tree, *paths: str) -> Tree:
        """This one, but with these paths as `other` has them."""
        entries = dict(self.entries)
        for path in map(os.fsencode, paths):
            entries.pop(path, None)
            if path in other.entries:
                entries[path] = other.entries[path]
        return Tree(entries, self.repositories)


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """What git prints, as a user whose settings are the defaults would see it."""
    done = subprocess.run(
        [
            "git",
            "-c",
            "user.name=user",
            "-c",
            "user.email=user@example.org",
            "-c",
            "protocol.file.allow=always",
            *arguments,
        ],
        cwd=folder,
        env={**plain_environment(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"},
        capture_output=True,
        check=False,
    )
    if check and done.returncode:
        raise RuntimeError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace") + f"({done.returncode})" * bool(done.returncode)


def plain_environment(home: Path) -> dict[str, str]:
    """The environment of a process that is to know nothing of the user who runs the tests."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}


def _entry(path: bytes) -> Entry:
    found = os.lstat(path)
    kind = KINDS.get(stat.S_IFMT(found.st_mode), "device")
    content = ""
    if kind == "link":
        content = os.fsdecode(os.readlink(path))
    elif kind == "file":
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "blake2b").hexdigest()[:16] + f", {found.st_size} bytes"
    mode = 0 if kind == "link" else stat.S_IMODE(found.st_mode)
    return Entry(kind, mode, content, found.st_mtime_ns)


def _repository(path: Path) -> str:
    if path.is_file():
        return path.read_text(errors="replace")
    head = path / "HEAD"
    # Not the index's bytes: asking for the status may refresh the times in it.
    questions = (["for-each-ref"], ["ls-files", "--stage"], ["stash", "list"])
    told = [git(path.parent, *question, check=False) for question in questions]
    return "\n".join([head.read_text(errors="replace") if head.exists() else "no HEAD", *told])


def _difference(wanted: Entry, found: Entry) -> str:
    if wanted.kind != found.kind:
        return f"a {found.kind}, not a {wanted.kind}"
    if wanted.content != found.content:
        return "not as it should be" if wanted.kind == "file" else f"a link to {found.content}, not to {wanted.content}"
    return f"of mode {found.mode:o}, not {wanted.mode:o}"


def _shown(path: bytes) -> str:
    return ascii(os.fsdecode(path)).strip("'\"")
