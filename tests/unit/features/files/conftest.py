"""A folder with files, its store, and the engine on both."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from timeleap.features.files.records import FilesConfig, Restored
from timeleap.features.files.tree import FileTree

Opener = Callable[..., FileTree]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    path.mkdir()
    return path


@pytest.fixture
def open_tree(root: Path, home: Path) -> Opener:
    """Opens the files of a session; settings as keywords."""

    def opened(session: str = "s1", folder: Path = root, **settings: object) -> FileTree:
        return FileTree.open(home, folder, session, FilesConfig(**settings))  # type: ignore[arg-type]

    return opened


@pytest.fixture
def tree(open_tree: Opener) -> FileTree:
    return open_tree()


def put(root: Path, **files: str | bytes | None) -> None:
    """Write files by name (`__` is `/`, `_` is `.`), or remove them."""
    for key, content in files.items():
        path = root / key.replace("__", "/").replace("_", ".")
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def go_back(tree: FileTree, target: str, **how: object) -> Restored:
    """Restore as at the end of a turn: nothing was changed by anybody else."""
    how.setdefault("log_changed_at", time.time_ns() + 10**9)
    return tree.restore(tree.plan(target, **how))  # type: ignore[arg-type]


def git(folder: Path, *command: str) -> str:
    """The user's own git."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **{f"GIT_{role}_{what}": "user@host" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    done = subprocess.run(["git", *command], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout
