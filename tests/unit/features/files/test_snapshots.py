"""Snapshots: what they have, what they leave out and say so, and what is read from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, git, go_back, put
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import FilesTooLargeError, FilesUnavailableError, InvalidInputError, SnapshotNotFoundError
from timeleap.features.files import scanner
from timeleap.features.files.records import FilesConfig, PathChange, Skipped
from timeleap.features.files.tree import FileTree


def test_snapshots_are_listed_newest_first(tree: FileTree, root: Path):
    put(root, a="1")
    first = tree.snapshot(label="begin")
    put(root, a="2", b="1")
    second = tree.snapshot(checkpoint_uid="c1")
    assert [found.snapshot_id for found in tree.snapshots()] == [second.snapshot_id, first.snapshot_id]
    assert [(found.label, found.checkpoint_uid, found.changed) for found in tree.snapshots()] == [
        (None, "c1", 2),
        ("begin", None, 0),
    ]


def test_a_snapshot_without_changes_is_a_new_one_of_the_same_tree(tree: FileTree, root: Path):
    put(root, a="1")
    first, second = tree.snapshot(), tree.snapshot()
    assert (first.snapshot_id[:3], second.snapshot_id[:3]) == ("f1-", "f2-")
    assert first.snapshot_id[3:] == second.snapshot_id[3:]
    assert second.changed == 0


def test_the_number_may_be_given_but_not_twice(tree: FileTree):
    assert tree.snapshot(number=7).snapshot_id.startswith("f7-")
    assert tree.next_number() == 8
    with pytest.raises(InvalidInputError):
        tree.snapshot(number=7)


def test_changes_between_two_snapshots_and_to_the_disk(tree: FileTree, root: Path):
    put(root, mod="1", gone="12", same="3", kind="4")
    first = tree.snapshot().snapshot_id
    put(root, mod=b"\0b", gone=None, new="", kind=None)
    (root / "kind").symlink_to("same")
    (root / "same").chmod(0o600)
    expected = [
        PathChange("gone", "deleted", 2, None, False, False),
        PathChange("kind", "type", 1, 4, False, False),
        PathChange("mod", "modified", 1, 2, True, False),
        PathChange("new", "added", None, 0, False, False),
        PathChange("same", "mode", 1, 1, False, False),
    ]
    assert tree.changes(first, None) == expected
    second = tree.snapshot()
    assert second.changed == 5
    assert tree.changes(first, second.snapshot_id) == expected
    assert tree.changes(first, second.snapshot_id, b"mod") == expected[2:3]


def test_a_part_of_a_file_is_read(tree: FileTree, root: Path):
    put(root, d__a="0123456789")
    (root / "d/a").chmod(0o640)
    (root / "link").symlink_to("d/a")
    taken = tree.snapshot().snapshot_id
    put(root, d__a="other")
    assert tree.read(taken, b"d/a", 3, 4).content == b"3456"
    whole = tree.read(taken, b"d/a")
    assert (whole.content, whole.total, whole.mode) == (b"0123456789", 10, 0o100640)
    link = tree.read(taken, b"link")
    assert (link.content, link.mode) == (b"d/a", 0o120777)


@pytest.mark.parametrize("path", [b"d", b"none", b"../x", b"/etc/passwd", b"", b".git/config", b"a\0b"])
def test_what_is_no_file_of_a_snapshot_is_not_read(tree: FileTree, root: Path, path: bytes):
    put(root, d__a="1")
    taken = tree.snapshot().snapshot_id
    with pytest.raises(InvalidInputError):
        tree.read(taken, path)


@pytest.mark.parametrize("name", ["f9-000000000000", "f1-000000000000", "nonsense", "f1-../../etc", ""])
def test_a_snapshot_that_is_not_there_is_not_found(tree: FileTree, name: str):
    tree.snapshot()
    with pytest.raises(SnapshotNotFoundError):
        tree.changes(name, None)


def test_snapshots_belong_to_their_session(open_tree: Opener):
    taken = open_tree("one1").snapshot().snapshot_id
    assert open_tree("two2").snapshots() == []
    with pytest.raises(SnapshotNotFoundError):
        open_tree("two2").changes(taken, None)


def test_what_cannot_be_taken_in_is_named(open_tree: Opener, root: Path):
    put(root, large=b"x" * 101, small=b"x" * 100, d__a="1")
    os.mkfifo(root / "fifo")
    os.mkfifo(root / "d/fifo")
    taken = open_tree(max_file_bytes=100).snapshot()
    assert taken.skipped == (Skipped("d/fifo", "special"), Skipped("fifo", "special"), Skipped("large", "tooLarge"))


@pytest.mark.parametrize("kind", ["file", "gone", "fifo"])
def test_what_the_user_ignores_everywhere_is_left_out(
    tree: FileTree, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """A place that holds no ignore file changes nothing, and nobody waits for it."""
    place = tmp_path / "ign\u00f6re"
    if kind == "file":
        place.write_text(".idea/\n")
    elif kind == "fifo":
        os.mkfifo(place)
    (tmp_path / "settings").write_text(f"[core]\n\texcludesFile = {place}\n[core]\n\thooksPath = /nowhere\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))
    put(root, src="1", _idea__own="2")
    taken = tree.snapshot()
    put(root, _idea__own="changed", src="2")
    go_back(tree, taken.snapshot_id)
    assert (root / ".idea/own").read_text() == ("changed" if kind == "file" else "2")


def test_ignored_files_are_left_out_unless_they_are_to_be_included(open_tree: Opener, root: Path):
    put(root, _gitignore="*.log\nbuild/\n", a_log="1", build__x="2", build__y_log="3", src="4")
    plain, included = open_tree(), open_tree(include_ignored=("build/",))
    assert [change.path for change in plain.changes(plain.snapshot().snapshot_id, None)] == []
    before, after = plain.snapshots()[0].snapshot_id, included.snapshot().snapshot_id
    assert [change.path for change in included.changes(before, after)] == ["build/x", "build/y.log"]


def test_excluded_files_are_left_out_even_if_the_users_repository_has_them(open_tree: Opener, root: Path):
    put(root, a_bin="1", a_txt="2")
    git(root, "init", "-q")
    git(root, "add", ".")
    plain, without = open_tree().snapshot().snapshot_id, open_tree(exclude=("*.bin",)).snapshot().snapshot_id
    assert [(change.path, change.kind) for change in open_tree().changes(plain, without)] == [("a.bin", "deleted")]


def test_too_many_files_are_refused_in_words(open_tree: Opener, root: Path):
    put(root, a="1", b="1", c="1")
    with pytest.raises(FilesTooLargeError, match="3 files") as refusal:
        open_tree(max_files=2).snapshot()
    assert refusal.value.data == {"files": 3, "limit": 2}
    assert open_tree(max_files=3).snapshot().changed == 0


def test_the_store_within_the_root_is_no_part_of_a_snapshot(root: Path, open_tree: Opener):
    put(root, a="1")
    home = root / "inside"
    home.mkdir()
    tree = FileTree.open(home, root, "s1", FilesConfig())
    first, second = tree.snapshot(), tree.snapshot()
    assert first.snapshot_id[3:] == second.snapshot_id[3:]
    go_back(tree, first.snapshot_id)
    assert len(tree.snapshots()) == 4


@pytest.mark.parametrize(
    ("folder", "reason"), [("/", "rootUnsafe"), ("missing", "rootMissing"), ("file", "rootMissing")]
)
def test_a_folder_that_cannot_be_kept_is_refused(open_tree: Opener, root: Path, folder: str, reason: str):
    put(root, file="")
    with pytest.raises(FilesUnavailableError) as refusal:
        open_tree(folder=root / folder)
    assert refusal.value.data["reason"] == reason


def test_the_home_folder_and_the_store_are_refused(
    open_tree: Opener, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(root))
    for folder in (root, root.parent, home):
        with pytest.raises(FilesUnavailableError) as refusal:
            open_tree(folder=folder)
        assert refusal.value.data["reason"] == "rootUnsafe"


def test_without_git_files_are_unavailable(open_tree: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FilesUnavailableError) as refusal:
        open_tree()
    assert refusal.value.data["reason"] == "noGit"


def test_an_old_git_is_unavailable(open_tree: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.35.9\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(FilesUnavailableError, match=r"2\.36"):
        open_tree()


def test_a_folder_made_where_another_was_is_another_root(open_tree: Opener, root: Path):
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    root.rename(root.parent / "moved")
    root.mkdir()
    put(root, a="2")
    before = whole_tree(root)
    with pytest.raises(SnapshotNotFoundError):
        go_back(open_tree(), taken)
    assert whole_tree(root) == before


def test_the_variables_of_the_callers_git_change_nothing(
    tree: FileTree, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root, a="1")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    taken = tree.snapshot()
    assert tree.read(taken.snapshot_id, b"a").content == b"1"
    assert not (tmp_path / "elsewhere").exists()


def test_refs_that_somebody_packed_still_count(open_tree: Opener, root: Path, home: Path):
    put(root, a="1")
    first = open_tree().snapshot().snapshot_id
    (repository,) = (home / "files").iterdir()
    git(repository, "pack-refs", "--all")
    second = open_tree().snapshot().snapshot_id
    assert (first[:3], second[:3]) == ("f1-", "f2-")
    assert [found.snapshot_id for found in open_tree().snapshots()] == [second, first]


def test_an_unchanged_state_is_stored_with_the_tree_that_is_there(open_tree: Opener, root: Path, home: Path):
    put(root, a="1", d__b="2")
    open_tree().snapshot()
    (repository,) = (home / "files").iterdir()
    open_tree().snapshot()
    trees = git(repository, "for-each-ref", "--format=%(tree)").split()
    assert len(trees) == 2 and len(set(trees)) == 1


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Names of the folders that were listed since it was asked last."""
    found: list[str] = []
    original = os.scandir

    def scandir(place: str) -> object:
        found.append(os.path.basename(place))
        return original(place)

    def since() -> list[str]:
        names = found.copy()
        found.clear()
        return names

    monkeypatch.setattr(os, "scandir", scandir)
    return since


def test_a_folder_is_listed_again_only_if_it_has_changed(
    open_tree: Opener, root: Path, listed: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scanner, "RACY_NS", 0)
    put(root, same__a="1", other__b="2")
    open_tree().snapshot()
    listed()
    os.mkfifo(root / "other/fifo")
    (root / "other/empty").mkdir(mode=0o700)
    tree = open_tree()  # each request opens its own
    taken = tree.snapshot()
    assert "other" in (names := listed()) and "same" not in names
    assert taken.skipped == (Skipped("other/fifo", "special"),)
    (root / "other/empty").rmdir()
    go_back(tree, taken.snapshot_id)
    assert (root / "other/empty").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_changed_just_before_it_was_listed_is_listed_again(
    tree: FileTree, root: Path, listed: Callable[[], list[str]]
):
    put(root, d__a="1")
    tree.snapshot()
    listed()
    tree.snapshot()
    assert "d" in listed()


def test_other_permissions_of_a_folder_that_is_not_listed_again_are_seen(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scanner, "RACY_NS", 0)
    put(root, d__a="1")
    before = tree.snapshot().snapshot_id
    (root / "d").chmod(0o711)
    tree.snapshot()
    go_back(tree, before)
    assert (root / "d").stat().st_mode & 0o777 != 0o711
