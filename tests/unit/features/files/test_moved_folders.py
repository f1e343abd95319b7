"""Folders that are renamed, moved, copied, put back or exchanged: whose snapshots are found where."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, go_back, put

from timeleap.features.files.taken_over import find_moved_snapshots, take_over

pytestmark = pytest.mark.skipif(os.name != "posix", reason="inodes tell on POSIX")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "project"
    path.mkdir(parents=True)
    return path


def kept(open_tree: Opener, folder: Path, session: str = "s1") -> list[str]:
    return [each.snapshot_id for each in open_tree(session, folder).snapshots()]


def goes_back(open_tree: Opener, folder: Path, taken: str, text: str = "1") -> None:
    put(folder, a="spoilt")
    go_back(open_tree(folder=folder), taken)
    assert (folder / "a").read_text() == text


@pytest.mark.parametrize("which", ["itself", "a folder above"])
@pytest.mark.parametrize("left", ["nothing", "a link", "another folder", "a file"])
def test_snapshots_follow_a_folder_that_is_renamed(open_tree: Opener, root: Path, which: str, left: str) -> None:
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    old = root if which == "itself" else root.parent
    new = old.with_name("renamed")
    os.rename(old, new)
    folder = new if which == "itself" else new / "project"
    if left == "a link":
        old.symlink_to(new)
    elif left == "another folder":
        put(root, a="of another")
    elif left == "a file":
        old.write_text("x")
    goes_back(open_tree, folder, taken)
    if left == "another folder":
        assert kept(open_tree, root) == []
        assert (root / "a").read_text() == "of another"
    if left == "a link":
        goes_back(open_tree, root, taken)


def test_a_folder_that_is_put_back_has_its_snapshots_again(open_tree: Opener, root: Path) -> None:
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    away = root.with_name("away")
    os.rename(root, away)
    open_tree(folder=away).snapshot()
    os.rename(away, root)
    assert kept(open_tree, root)[-1] == taken
    goes_back(open_tree, root, taken)


def test_folders_that_exchange_their_names_keep_their_snapshots(open_tree: Opener, root: Path) -> None:
    other, between = root.with_name("other"), root.with_name("between")
    put(root, a="1")
    put(other, a="2")
    first = open_tree().snapshot().snapshot_id
    second = open_tree(folder=other).snapshot().snapshot_id
    for source, target in ((root, between), (other, root), (between, other)):
        os.rename(source, target)
    goes_back(open_tree, other, first, "1")
    goes_back(open_tree, root, second, "2")


def test_a_copy_has_no_snapshots_and_the_original_keeps_them(open_tree: Opener, root: Path) -> None:
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    assert kept(open_tree, copy) == []
    goes_back(open_tree, root, taken)


# By a person's word


def moved_to_another_volume(root: Path) -> Path:
    """Nothing but the content is the same there."""
    new = root.parent / "volume" / "project"
    shutil.copytree(root, new)
    os.rename(root, root.parent / "not at its place any more")
    return new


def followed(home: Path, old: Path, new: Path) -> list[str]:
    found = find_moved_snapshots(home, old, new)
    for each in found:
        take_over(home, each)
    return [each.way for each in found]


def test_all_snapshots_of_a_folder_that_was_moved_to_another_volume_are_taken_over(
    open_tree: Opener, root: Path, home: Path
) -> None:
    put(root, a="1")
    taken, other = open_tree().snapshot().snapshot_id, open_tree("s2").snapshot().snapshot_id
    new = moved_to_another_volume(root)
    assert followed(home, root, new) == ["moved"]
    assert (kept(open_tree, new), kept(open_tree, new, "s2")) == ([taken], [other])
    goes_back(open_tree, new, taken)
    assert followed(home, root, new) == []


def test_those_of_a_folder_that_has_others_are_copied_beside_them(open_tree: Opener, root: Path, home: Path) -> None:
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    new = moved_to_another_volume(root)
    own = open_tree("s2", new).snapshot().snapshot_id
    assert followed(home, root, new) == ["copied"]
    assert (kept(open_tree, new), kept(open_tree, new, "s2")) == ([taken], [own])
    goes_back(open_tree, new, taken)


def test_those_of_a_session_that_has_others_there_stay(open_tree: Opener, root: Path, home: Path) -> None:
    put(root, a="1")
    open_tree().snapshot()
    new = moved_to_another_volume(root)
    put(new, a="2")
    own = open_tree(folder=new).snapshot().snapshot_id
    assert followed(home, root, new) == ["kept"]
    assert kept(open_tree, new) == [own]


def test_those_of_folders_below_come_along(open_tree: Opener, root: Path, home: Path) -> None:
    inner = root / "packages/inner"
    put(inner, a="1")
    taken = open_tree(folder=inner).snapshot().snapshot_id
    new = moved_to_another_volume(root)
    assert followed(home, root, new) == ["moved"]
    goes_back(open_tree, new / "packages/inner", taken)


def test_a_folder_that_came_back_from_a_backup_is_named_by_its_own_path(
    open_tree: Opener, root: Path, home: Path
) -> None:
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    os.rename(root, root.with_name("lost"))
    put(root, a="1")
    assert kept(open_tree, root) == []
    assert followed(home, root, root) == ["copied"]
    goes_back(open_tree, root, taken)
