"""The project of a session: its repository, below which all its worktrees are, whatever lies there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from timeleap.cli.projects import SessionProject, place_of, program_of


def git(folder: Path, *words: str) -> None:
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, env={**os.environ, **own})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def place(folder: Path) -> SessionProject:
    return place_of({"workspace": folder.as_uri()})


def test_a_repository_its_folders_and_its_worktrees_are_one_project(repository: Path, tmp_path: Path) -> None:
    (repository / "src").mkdir()
    git(repository, "worktree", "add", "-q", str(tmp_path / "elsewhere"))
    git(repository, "worktree", "add", "-q", str(repository / ".claude" / "worktrees" / "x"))
    project = str(repository)
    assert place(repository) == SessionProject(project, project)
    assert place(repository / "src") == SessionProject(project, str(repository / "src"))
    assert place(tmp_path / "elsewhere") == SessionProject(project, str(tmp_path / "elsewhere"), worktree=True)
    inner = repository / ".claude" / "worktrees" / "x"
    assert place(inner) == SessionProject(project, str(inner), worktree=True)
    assert place(repository / "gone" / "deep") == SessionProject(project, str(repository / "gone" / "deep"))


def test_a_worktree_of_a_bare_repository_is_below_it(repository: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    git(bare, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert place(tmp_path / "tree") == SessionProject(str(bare), str(tmp_path / "tree"), worktree=True)


def test_other_folders_are_their_own_project(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert place(plain) == SessionProject(str(plain), str(plain))
    assert place_of({}) == SessionProject("", "")
    assert place_of({"workspace": "vscode-remote://host/x"}) == SessionProject(
        "vscode-remote://host/x", "vscode-remote://host/x"
    )


@pytest.mark.parametrize(
    "content", [b"", b"gitdir: ", b"gitdir: /nowhere", b"gitdir: ../../../..", b"\xff\x00", b"x" * 99_999]
)
def test_what_a_stranger_wrote_there_leads_nowhere(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / ".git").write_bytes(content)
    assert place(folder) == SessionProject(str(folder), str(folder))


def test_a_pipe_or_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(folder / ".git")
    assert place(folder) == SessionProject(str(folder), str(folder))
    other = tmp_path / "link"
    other.mkdir()
    (other / ".git").symlink_to(folder / ".git")
    assert place(other) == SessionProject(str(other), str(other))


def test_a_session_is_of_the_program_that_wrote_it() -> None:
    assert program_of({"source": {"kind": "codex", "key": "x"}}) == "codex"
    assert program_of({}) == "timeleap"
