"""Whole trees at random against what they were, in workspaces with pipes, links and writers.

Each case ends by itself after so many rounds; its name has the seed that repeats it. The first ones are long tests.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support import figures
from tests.support.torture import share
from tests.support.workspace import tree_of
from tests.unit.features.files.conftest import go_back
from tests.unit.features.files.test_changing_files import written

from timeleap.errors import TimeleapError
from timeleap.features.files import obstacles
from timeleap.features.files.records import FilesConfig
from timeleap.features.files.tree import FileTree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs named pipes")

NAMES = ("a", "b", "sub", "deep", "ö", "with space", "new\nline", "-dash", "x.tmp")
HOSTILE = ("", "hostile/", "hostile/inner/")


def seeds(count: int, *, long: int) -> list[Any]:
    """Seeds of which the first are for the long tests."""
    torture = [pytest.param(seed, marks=pytest.mark.torture) for seed in range(long, long + share(count - long))]
    return [*(pytest.param(seed, marks=pytest.mark.long) for seed in range(long)), *torture]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for obstacles soon: else the rounds take as long as that is waited for."""
    monkeypatch.setattr(obstacles, "PATIENCE", 0.2)


def change(root: Path, chance: Random) -> None:
    """What an agent may do: files, links and folders come, go, change, and take each other's place."""
    for _ in range(chance.randrange(1, 20)):
        folders = [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]
        path = chance.choice([folder for folder in folders if "hostile" not in folder.parts]) / chance.choice(NAMES)
        if os.path.lexists(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        kind = chance.random()
        if kind < 0.3:
            path.mkdir()
        elif kind < 0.4:
            path.symlink_to(chance.choice(["a", "/nowhere", "../sub"]))
        elif kind < 0.8:
            path.write_bytes(chance.randbytes(chance.choice([0, 10, 70_000])))
            path.chmod(chance.choice([0o644, 0o755, 0o600]))


@pytest.mark.parametrize("seed", seeds(30, long=1))
def test_trees_come_back_whatever_stands_in_the_way(tmp_path: Path, seed: int) -> None:
    chance, root, home, outside = Random(seed), tmp_path / "root", tmp_path / "home", tmp_path / "outside"
    for folder in (root, home, outside, root / "hostile/inner"):
        folder.mkdir(parents=True, exist_ok=True)
    (outside / "theirs").write_text("theirs")
    known: dict[str, dict[str, tuple[int, bytes | str]]] = {}
    for _ in range(12):
        change(root, chance)
        pipe = root / (chance.choice(HOSTILE) + chance.choice([".gitignore", ".gitattributes"]))
        if chance.random() < 0.3 and not os.path.lexists(pipe):
            os.mkfifo(pipe)
        elif os.path.lexists(pipe):
            pipe.unlink()
        known[FileTree.open(home, root, "s", FilesConfig()).snapshot().snapshot_id] = tree_of(root)
        change(root, chance)
        if chance.random() < 0.3:
            (root / "a").unlink(missing_ok=True) if not (root / "a").is_dir() else shutil.rmtree(root / "a")
            os.link(outside / "theirs", root / "a")
        before, target = tree_of(root), chance.choice([*known])
        figures.count(hostile_inputs=1)
        restored = go_back(FileTree.open(home, root, "s", FilesConfig()), target)
        assert tree_of(root) == known[target]
        if chance.random() < 0.5:
            go_back(FileTree.open(home, root, "s", FilesConfig()), restored.before)
            assert tree_of(root) == before
        assert (outside / "theirs").read_text() == "theirs"
        assert (outside / "theirs").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("seed", seeds(10, long=1))
def test_while_files_are_written_and_folders_move_nothing_else_is_touched(tmp_path: Path, seed: int) -> None:
    chance, root, home, victim = Random(seed), tmp_path / "root", tmp_path / "home", tmp_path / "victim"
    for folder in (root, home, victim):
        folder.mkdir()
    (victim / "a").write_text("theirs")
    (root / "a").write_text("1")
    theirs = tree_of(victim)
    with written(root / "busy"):
        for number in range(10):
            (root / "a").write_text(str(number))
            taken = FileTree.open(home, root, "s", FilesConfig()).snapshot()
            assert {(each.path, each.reason) for each in taken.skipped} <= {("busy", "changing")}
            (root / "a").write_text("other")
            tree = FileTree.open(home, root, "s", FilesConfig())
            if chance.random() < 0.5:
                os.rename(root, tmp_path / "away")
                root.symlink_to(victim)
                with pytest.raises(TimeleapError):
                    go_back(tree, taken.snapshot_id, on_conflict="overwrite")
                root.unlink()
                os.rename(tmp_path / "away", root)
            assert tree_of(victim) == theirs
