"""A tree of files to measure snapshots with, the same on every machine, and the usual way to take one."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.corpus import WORDS

FOLDER_FILES: Final = 25
LENGTH: Final = (1_000, 9_300)
"""Bytes of a file: 5.1 KB on average, as sources are."""

LONG_AGO: Final = 1_600_000_000
GIT: Final = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0")


def write_repository(folder: Path, files: int) -> None:
    """Make a repository of so many text files in folders of 25, committed, in one pack, with nothing to be refreshed."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    with subprocess.Popen([*GIT, "fast-import", "--quiet"], cwd=folder, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        importing.stdin.writelines(_commit(files))
    if importing.returncode:
        raise RuntimeError("git fast-import failed")
    git(folder, "reset", "-q", "--hard", "main")
    for path in folder.rglob("*.txt"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    git(folder, "status", "--porcelain")  # takes the times into the index, as any user's status has by then


def _commit(files: int) -> Iterator[bytes]:
    random_ = random.Random(7)
    yield b"commit refs/heads/main\ncommitter bench <bench@example.org> 1600000000 +0000\ndata 5\nstart\n"
    for number in range(files):
        text = _text(random_, number)
        yield b"M 100644 inline %s\ndata %d\n%s\n" % (name(number).encode(), len(text), text)


def _text(random_: random.Random, number: int) -> bytes:
    line = " ".join(random_.choices(WORDS["latin"], k=12))
    return (f"{number} {line}\n" * (random_.randint(*LENGTH) // (len(line) + 7))).encode()


def name(number: int) -> str:
    """The path of a file of the tree."""
    folder = number // FOLDER_FILES
    return f"part{folder // 40:03}/folder{folder:05}/file{number:06}.txt"


def change(folder: Path, numbers: Sequence[int], text: str) -> None:
    """Append a line to some files."""
    for number in numbers:
        with (folder / name(number)).open("a") as file:
            file.write(f"{text}\n")


def git(folder: Path, *arguments: str, shadow: Path | None = None) -> None:
    """Run git there, or with a shadow repository whose work tree it is."""
    environment = dict(os.environ)
    if shadow is not None:
        environment |= {"GIT_DIR": str(shadow), "GIT_WORK_TREE": str(folder)}
    subprocess.run([*GIT, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)


def shadow_snapshot(folder: Path, shadow: Path) -> None:
    """The recipe of several agents: everything into a second repository."""
    if not shadow.exists():
        git(folder, "init", "-q", shadow=shadow)
    git(folder, "add", "-A", shadow=shadow)
    git(folder, "commit", "-q", "--allow-empty", "-m", "snapshot", shadow=shadow)


def used_space(folder: Path) -> int:
    """Bytes of blocks below a folder."""
    told = subprocess.run(["du", "-s", "-B1", str(folder)], capture_output=True, text=True, check=True).stdout
    return int(told.split()[0])
