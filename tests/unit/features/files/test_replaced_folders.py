"""Folders that somebody moves away, or puts another thing in the place of, while their files are saved or put back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, go_back, put
from tests.unit.features.files.test_restore import changed_by_an_agent, lived_in
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import FilesUnavailableError, TimeleapError
from timeleap.features.files import restore, snapshot, tree
from timeleap.features.files.root_folder import RootFolder, identity_of
from timeleap.features.files.tree import FileTree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="an open folder cannot be renamed there")

WHILE_SAVING = ("files.objects_written", "files.committed", "files.published")
WHILE_RESTORING = (
    *WHILE_SAVING,
    "files.intent",
    "files.staged",
    "files.moved",
    "files.removed",
    "files.folders_settled",
    "files.restored",
)
Happens = Callable[[str, Callable[[], object]], None]


@pytest.fixture
def happens(monkeypatch: pytest.MonkeyPatch) -> Happens:
    """Has something be done when the engine comes to a failpoint for the first time."""

    def at(point: str, event: Callable[[], object]) -> None:
        waiting = [event]

        def reached(name: str) -> None:
            if name == point and waiting:
                waiting.pop()()

        for module in (restore, snapshot, tree):
            monkeypatch.setattr(module, "failpoint", reached)

    return at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "project"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Another folder, with files of the same names."""
    path = tmp_path / "victim" / "project"
    path.mkdir(parents=True)
    lived_in(path)
    put(path, new="of somebody else", n__n__n="of somebody else")
    return path


def exchange(way: str, root: Path, victim: Path, away: Path) -> None:
    """Move the root, or the folder above it, to `away`, and put something else in its place."""
    if way == "a folder above":
        os.rename(root.parent, away)
        root.parent.symlink_to(victim.parent)
        return
    os.rename(root, away)
    if way == "a link":
        root.symlink_to(victim)
    elif way == "another folder":
        shutil.copytree(victim, root, symlinks=True)
    elif way == "a file":
        root.write_text("a file")
    elif way == "itself":
        os.rename(away, root)


def is_refused(work: Callable[[], object]) -> bool:
    """True if it is, since the root is not there; False if it is done."""
    try:
        work()
    except FilesUnavailableError as error:
        return error.data["reason"] == "rootMissing"
    return False


WAYS = ("a link", "a folder above", "another folder", "a file", "nothing", "itself")


def test_another_folder_under_the_same_path_is_not_held(root: Path, victim: Path) -> None:
    folder = RootFolder(root, identity_of(victim.stat()))
    with pytest.raises(FilesUnavailableError):
        folder.hold()
    assert folder.descriptor is None


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_that_was_replaced_while_it_is_held_is_told(
    root: Path, victim: Path, tmp_path: Path, way: str
) -> None:
    folder = RootFolder(root, identity_of(root.stat()))
    folder.hold()
    exchange(way, root, victim, tmp_path / "away")
    assert is_refused(folder.verify) is (way != "itself")
    folder.release()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", WHILE_RESTORING)
def test_a_restore_reaches_no_other_folder(
    tree: FileTree, root: Path, victim: Path, tmp_path: Path, happens: Happens, point: str, way: str
) -> None:
    lived_in(root)
    before, taken = whole_tree(root), tree.snapshot().snapshot_id
    changed_by_an_agent(root)
    worked, others = whole_tree(root), whole_tree(victim, times=True)
    away = tmp_path / "away"
    happens(point, lambda: exchange(way, root, victim, away))
    refused = is_refused(lambda: go_back(tree, taken))
    moved = {"itself": root, "a folder above": away / root.name}.get(way, away)
    assert whole_tree(moved) == (worked if refused else before)
    assert whole_tree(victim, times=True) == others
    assert not refused or way != "itself"
    if way == "another folder":
        assert whole_tree(root) == whole_tree(victim)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", WHILE_SAVING)
def test_a_snapshot_is_of_the_folder_it_was_begun_of(
    open_tree: Opener, root: Path, victim: Path, tmp_path: Path, happens: Happens, point: str, way: str
) -> None:
    lived_in(root)
    before = whole_tree(root)
    opened, away = open_tree(), tmp_path / "away"
    happens(point, lambda: exchange(way, root, victim, away))
    if is_refused(opened.snapshot):
        assert way != "itself"
        return
    if way != "itself":
        for path in (root, root.parent):
            if path.is_symlink() or path.is_file():
                path.unlink()
        shutil.rmtree(root, ignore_errors=True)
        os.rename(away, root.parent if way == "a folder above" else root)
    changed_by_an_agent(root)
    go_back(open_tree(), open_tree().snapshots()[0].snapshot_id)
    assert whole_tree(root) == before


@pytest.mark.parametrize("point", WHILE_RESTORING)
def test_a_folder_within_that_becomes_a_link_is_not_followed(
    tree: FileTree, root: Path, victim: Path, happens: Happens, point: str
) -> None:
    lived_in(root)
    taken = tree.snapshot().snapshot_id
    changed_by_an_agent(root)
    put(root, d__more="m")
    others = whole_tree(victim, times=True)

    def exchange_within() -> None:
        os.rename(root / "d", root.parent / "d")
        (root / "d").symlink_to(victim / "d")

    happens(point, exchange_within)
    with suppress(TimeleapError):
        go_back(tree, taken)
    assert whole_tree(victim, times=True) == others


def test_a_folder_of_the_same_path_is_refused_before_anything_is_looked_at(
    tree: FileTree, root: Path, victim: Path, tmp_path: Path
) -> None:
    put(root, a="1")
    taken = tree.snapshot().snapshot_id
    exchange("another folder", root, victim, tmp_path / "away")
    for use in (tree.snapshot, lambda: go_back(tree, taken), lambda: tree.changes(taken, None)):
        with pytest.raises(FilesUnavailableError) as caught:
            use()
        assert caught.value.data["reason"] == "rootMissing"
    assert whole_tree(root) == whole_tree(victim)


# Names outside of the folder


@pytest.mark.parametrize("change", ["permissions", "content", "both", "deleted"])
def test_another_name_of_a_file_keeps_what_it_has(tree: FileTree, root: Path, tmp_path: Path, change: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    os.link(outside, root / "f")
    before, taken = whole_tree(root), tree.snapshot().snapshot_id
    if change in ("permissions", "both"):
        outside.chmod(0o600)
    if change in ("content", "both"):
        outside.write_text("y")
    if change == "deleted":
        (root / "f").unlink()
    worked, kept = whole_tree(root), (outside.stat().st_mode, outside.read_text())
    restored = go_back(tree, taken)
    assert (whole_tree(root), outside.stat().st_mode, outside.read_text()) == (before, *kept)
    go_back(tree, restored.before)
    assert (whole_tree(root), outside.stat().st_mode, outside.read_text()) == (worked, *kept)


def test_a_name_that_is_given_at_the_last_moment_keeps_its_permissions(
    tree: FileTree, root: Path, tmp_path: Path, happens: Happens
) -> None:
    put(root, f="x")
    (root / "f").chmod(0o644)
    taken = tree.snapshot().snapshot_id
    (root / "f").chmod(0o600)
    happens("files.staged", lambda: os.link(root / "f", tmp_path / "outside"))
    go_back(tree, taken)
    assert ((root / "f").stat().st_mode & 0o777, (tmp_path / "outside").stat().st_mode & 0o777) == (0o644, 0o600)


def test_a_folder_is_replaced_by_a_link_to_itself(tree: FileTree, root: Path) -> None:
    (root / "a").symlink_to("a")
    before, taken = whole_tree(root), tree.snapshot().snapshot_id
    (root / "a").unlink()
    put(root, a__b="1")
    worked = whole_tree(root)
    restored = go_back(tree, taken)
    assert whole_tree(root) == before
    go_back(tree, restored.before)
    assert whole_tree(root) == worked


# What is ignored and gone


@pytest.mark.parametrize("pattern", ["conf.env", "*.env", "private/"])
@pytest.mark.parametrize("name", ["conf.env", "private/deep/conf.env"])
def test_what_was_ignored_and_deleted_is_gone_again_after_the_undo(
    tree: FileTree, root: Path, pattern: str, name: str
) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("SECRET=1")
    put(root, a_txt="1")
    before, taken = whole_tree(root), tree.snapshot().snapshot_id
    (root / ".gitignore").write_text(pattern + "\n")
    path.unlink()
    if path.parent != root:
        shutil.rmtree(root / "private")
    worked = whole_tree(root)
    for _ in range(2):
        restored = go_back(tree, taken)
        assert whole_tree(root) == before
        go_back(tree, restored.before)
        assert whole_tree(root) == worked
