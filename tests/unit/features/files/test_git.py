"""The git process: what it is given, however slowly it reads, and how it is ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timeleap.errors import CancelledError
from timeleap.features.files.git import Git, GitError
from timeleap.features.files.records import Control

INPUT = b"x" * 1_000_000
"""More than fits into a pipe."""


def aliased(folder: Path, script: str) -> Git:
    """A git whose command `stand-in` is a shell script."""
    return Git(folder, folder, settings=[f"alias.stand-in=!{script}"])


def test_one_that_reads_late_is_given_all_the_same(tmp_path: Path) -> None:
    sign, asked = tmp_path / "sign", list[None]()

    def cancelled() -> bool:
        asked.append(None)
        if len(asked) == 3:
            sign.touch()
        return False

    git = aliased(tmp_path, f"while test ! -e '{sign}'; do sleep 0.01; done; wc -c; :")
    assert int(git.run("stand-in", stdin=INPUT, control=Control(cancelled=cancelled))) == len(INPUT)


def test_one_that_never_reads_ends_as_it_does(tmp_path: Path) -> None:
    with pytest.raises(GitError):
        aliased(tmp_path, "exit 3; :").run("stand-in", stdin=INPUT, control=Control())


def test_one_that_hangs_is_ended_when_that_is_cancelled(tmp_path: Path) -> None:
    git = Git(tmp_path / "repository", tmp_path)
    git.repository.mkdir()
    git.run("init", "--quiet")
    os.mkfifo(tmp_path / "nobody writes here")
    answers = iter([False, False, True])
    with pytest.raises(CancelledError):
        git.run(
            "hash-object", "--no-filters", "--stdin-paths", stdin=b"nobody writes here\n" * 100_000,
            control=Control(cancelled=lambda: next(answers)), looking=True,
        )  # fmt: skip
