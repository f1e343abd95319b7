"""The git process: what it is given, however slowly it reads, and how it is ended."""

from __future__ import annotations

import io
import marshal
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timeleap.errors import CancelledError
from timeleap.features.files import folder_list, git
from timeleap.features.files.git import Git, GitError
from timeleap.features.files.records import Control

INPUT = b"x" * 1_000_000
"""More than fits into a pipe."""


@pytest.fixture(autouse=True, params=["waits for pipes", "waits for none"])
def _system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in the ways of both kinds of systems: those that can wait for pipes, and Windows."""
    if request.param == "waits for none":
        monkeypatch.setattr(git, "_POSIX", False)


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

    stand_in = aliased(tmp_path, f"while test ! -e '{sign}'; do sleep 0.01; done; wc -c; :")
    assert int(stand_in.run("stand-in", stdin=INPUT, control=Control(cancelled=cancelled))) == len(INPUT)


def test_one_that_never_reads_ends_as_it_does(tmp_path: Path) -> None:
    with pytest.raises(GitError):
        aliased(tmp_path, "exit 3; :").run("stand-in", stdin=INPUT, control=Control())


def test_one_that_hangs_is_ended_when_that_is_cancelled(tmp_path: Path) -> None:
    hanging = Git(tmp_path / "repository", tmp_path)
    hanging.repository.mkdir()
    hanging.run("init", "--quiet")
    os.mkfifo(tmp_path / "nobody writes here")
    answers = iter([False, False, True])
    with pytest.raises(CancelledError):
        hanging.run(
            "hash-object", "--no-filters", "--stdin-paths", stdin=b"nobody writes here\n" * 100_000,
            control=Control(cancelled=lambda: next(answers)), looking=True,
        )  # fmt: skip


def test_folders_are_listed_without_those_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "inner").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "a" / "link").symlink_to("file")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["folder_list", "0"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\0gone\0a/file\0")))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=(said := io.BytesIO())))
    folder_list.main()
    answers: dict[str, tuple[Any, ...]] = marshal.loads(said.getvalue())
    assert list(answers) == ["a"]
    found = folder_list.Folder(*answers["a"])
    assert list(found.others) == [("inner", True)] and found.recent == ["a/file"]
