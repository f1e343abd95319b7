"""Contents of folders: permissions and times of files, and names of entries that are neither file nor link.

Run as a program it answers for many folders. In its parent, asking for the state of 50 000 files would hold the
interpreter for as long as the rest of a first snapshot needs it; so it imports nothing but the standard library.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from typing import NamedTuple


class Folder(NamedTuple):
    """A folder as it was found.

    Attributes:
        mode: Of the folder itself, as `st_mode` has it.
        stamp: No name came or went while it is the same.
        others: Names of what is neither file nor link, and whether that is a folder.
        modes: By paths of files: what `st_mode` says.
        recent: Those of them that have changed lately.
    """

    mode: int
    stamp: tuple[int, int, int, int]
    others: tuple[tuple[str, bool], ...]
    modes: dict[str, int]
    recent: list[str]


def stamp_of(facts: os.stat_result) -> tuple[int, int, int, int]:
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def list_folder(root: str, folder: str, facts: os.stat_result, since: int | None) -> Folder:
    """List a folder below `root`; the state of its files is asked for if `since` (nanoseconds since 1970) is given."""
    place = f"{root}/{folder}" if folder else root
    others: list[tuple[str, bool]] = []
    modes: dict[str, int] = {}
    recent: list[str] = []
    prefix = f"{folder}/" if folder else ""
    # Through a descriptor the ways to its files are shorter.
    by_descriptor = os.scandir in os.supports_fd
    source = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) if by_descriptor else place
    try:
        with os.scandir(source) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    if not entry.is_symlink():
                        others.append((entry.name, entry.is_dir(follow_symlinks=False)))
                elif since is not None:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    modes[path := prefix + entry.name] = found.st_mode
                    if found.st_ctime_ns >= since:
                        recent.append(path)
    finally:
        if isinstance(source, int):
            os.close(source)
    return Folder(facts.st_mode, stamp_of(facts), tuple(others), modes, recent)


def main() -> None:
    """Answer for the folders on stdin, relative to where it works, each ended by a zero byte: a dict of tuples, without those that cannot be read."""
    root, since = ".", int(sys.argv[1])
    answers: dict[str, tuple[object, ...]] = {}
    for name in sys.stdin.buffer.read().split(b"\0")[:-1]:
        folder = name.decode("utf-8", "surrogateescape")
        try:
            facts = os.lstat(f"{root}/{folder}")
            if stat.S_ISDIR(facts.st_mode):
                answers[folder] = tuple(list_folder(root, folder, facts, since))
        except OSError:
            continue
    marshal.dump(answers, sys.stdout.buffer)


if __name__ == "__main__":
    main()
