"""What goes from a store's snapshots: a session's, what is over the budget, what holds a value; and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, go_back, put

from timeleap.features.files.records import SnapshotBudget
from timeleap.features.files.repository import Repository
from timeleap.features.files.stored import (
    forget_session,
    holding,
    is_over,
    remove,
    remove_session,
    repositories,
    sessions_with,
    shrink,
    snapshots_in,
    sweep,
)
from timeleap.features.files.tree import FileTree
from timeleap.store.home import Home

SECRET = b"sk-very-secret-0123456789"


def only(home: Path) -> Repository:
    (repository,) = repositories(home)
    return repository


def ids(tree: FileTree) -> list[str]:
    return [snapshot.snapshot_id for snapshot in tree.snapshots()]


def stored(repository: Repository) -> bytes:
    """All that can be read from a repository's objects, and the names of the paths in its indexes."""
    listed = repository.git.run("cat-file", "--batch-all-objects", "--batch", "--unordered")
    return listed + b"".join(path.read_bytes() for path in repository.path.glob("index-*"))


def test_a_purged_session_leaves_nothing_and_others_everything(open_tree: Opener, home: Path, root: Path) -> None:
    gone, stays = open_tree("gone"), open_tree("stays")
    put(root, a_txt="shared", only_txt=SECRET)
    gone.snapshot()
    put(root, only_txt=None)
    kept = stays.snapshot().snapshot_id
    remove_session(home, "gone")
    assert (ids(gone), ids(stays)) == ([], [kept])
    assert SECRET not in stored(only(home))
    put(root, a_txt="changed")
    go_back(stays, kept)
    assert (root / "a.txt").read_text() == "shared"


def test_nothing_is_left_of_the_last_session_not_even_names_of_files(open_tree: Opener, home: Path, root: Path) -> None:
    tree = open_tree()
    put(root, secretname_txt="a" * 100)
    tree.snapshot()
    remove_session(home, "s1")
    assert stored(only(home)) == b""
    again = open_tree().snapshot().snapshot_id
    put(root, secretname_txt=None)
    go_back(tree, again)
    assert (root / "secretname.txt").exists()


def test_snapshots_of_a_folder_that_is_gone_are_removed_too(open_tree: Opener, home: Path, root: Path) -> None:
    put(root, a_txt="a")
    open_tree().snapshot()
    shutil.rmtree(root)
    remove_session(home, "s1")
    assert snapshots_in(only(home)) == []


def test_a_uid_that_begins_as_another_is_another(open_tree: Opener, home: Path, root: Path) -> None:
    put(root, a_txt="a")
    open_tree("s1").snapshot()
    open_tree("s10").snapshot()
    remove_session(home, "s1")
    assert [snapshot.session_uid for snapshot in snapshots_in(only(home))] == ["s10"]


def test_sessions_are_found_by_their_checkpoints(open_tree: Opener, home: Path) -> None:
    open_tree("s1").snapshot(checkpoint_uid="c0-aa")
    open_tree("s2").snapshot(checkpoint_uid="c1-bb")
    assert sessions_with(home, {"c1-bb", "c2-cc"}) == {"s2"}


def test_what_is_over_the_budget_goes_oldest_first_but_never_a_checkpoints_or_the_newest(
    open_tree: Opener, home: Path, root: Path
) -> None:
    tree, other = open_tree("s1"), open_tree("s2")
    for number in range(6):
        put(root, a_txt=str(number))
        tree.snapshot(checkpoint_uid=f"c{number}-aa")
    alone = other.snapshot().snapshot_id
    every = ids(tree)[::-1]
    repository = only(home)
    with repository.lock():
        gone = shrink(repository, "s1", {1}, SnapshotBudget(snapshots=4))
    assert [snapshot.snapshot_id for snapshot in gone] == every[1:4]
    assert (ids(tree)[::-1], ids(other)) == ([every[0], every[4], every[5]], [alone])


def test_checkpoints_of_other_sessions_stay_since_nobody_asked_their_logs(open_tree: Opener, home: Path) -> None:
    other = open_tree("s2")
    kept = other.snapshot(checkpoint_uid="c0-aa").snapshot_id
    newer = [other.snapshot().snapshot_id for _ in range(2)]
    open_tree("s1").snapshot()
    repository = only(home)
    with repository.lock():
        shrink(repository, "s1", (), SnapshotBudget(snapshots=1))
    assert ids(other) == [newer[1], kept]


def test_bytes_over_the_budget_come_back(open_tree: Opener, home: Path, root: Path) -> None:
    tree = open_tree()
    put(root, a_txt="small")
    tree.snapshot()
    small = tree.usage().bytes
    for _ in range(4):
        put(root, big_bin=os.urandom(1 << 20))
        tree.snapshot()
    put(root, big_bin=None)
    newest = tree.snapshot().snapshot_id
    repository, budget = only(home), SnapshotBudget(bytes=small + (1 << 19))
    assert is_over(repository, budget)
    with repository.lock():
        while is_over(repository, budget):
            assert shrink(repository, "s1", (), budget)
            sweep(repository)
    assert ids(tree)[0] == newest
    assert tree.usage().bytes < small + (1 << 19)


def test_within_the_budget_nothing_goes(open_tree: Opener, home: Path) -> None:
    tree = open_tree()
    for _ in range(3):
        tree.snapshot()
    repository = only(home)
    with repository.lock():
        assert shrink(repository, "s1", (), SnapshotBudget(snapshots=3)) == []


def test_snapshots_that_hold_a_value_are_found_in_contents_paths_and_labels(
    open_tree: Opener, home: Path, root: Path
) -> None:
    tree = open_tree()
    put(root, a_txt="clean")
    clean = tree.snapshot()
    put(root, deep__b_txt=b"x" * 1000 + SECRET)
    content = tree.snapshot()
    put(root, deep__b_txt=None)
    (root / SECRET.decode()).touch()
    path = tree.snapshot()
    (root / SECRET.decode()).unlink()
    label = tree.snapshot(label=f"before {SECRET.decode()}")
    repository = only(home)
    with repository.lock():
        found = holding(repository, lambda data: SECRET in data)
        assert [each.snapshot_id for each in found] == [each.snapshot_id for each in (content, path, label)]
        remove(repository, found)
    assert SECRET not in stored(repository)
    assert ids(tree) == [clean.snapshot_id]


# Of a session that is purged


def session_dir(home: Path, name: str, uid: str | None, *checkpoints: str) -> Path:
    path = Home(home).sessions / name
    path.mkdir(parents=True)
    lines = [json.dumps({"role": "_checkpoint", "id": 0, "_tl": {"u": uid}}) + "\n" for uid in checkpoints]
    (path / "context.jsonl").write_text("".join(lines))
    (path / "timeleap.json").write_text(json.dumps({"version": 1, "uid": uid}) if uid else "{damaged")
    return path


def test_a_purged_session_is_known_by_its_uid(open_tree: Opener, home: Path) -> None:
    open_tree("gone").snapshot()
    open_tree("other").snapshot()
    path = session_dir(home, "s", "gone")
    assert forget_session(Home(home), path) is True
    assert [each.session_uid for each in snapshots_in(only(home))] == ["other"]


def test_without_its_uid_a_session_is_known_by_its_checkpoints(open_tree: Opener, home: Path) -> None:
    open_tree("gone").snapshot(checkpoint_uid="c0-aa")
    open_tree("fork").snapshot(checkpoint_uid="c0-aa")
    session_dir(home, "fork", "fork", "c0-aa")
    path = session_dir(home, "s", None, "c0-aa")
    condemned = home / "elsewhere"
    path.rename(condemned)
    assert forget_session(Home(home), condemned) is True
    assert [each.session_uid for each in snapshots_in(only(home))] == ["fork"]


def test_snapshots_that_nobody_claims_stay_and_that_is_said(open_tree: Opener, home: Path) -> None:
    open_tree("unknown").snapshot()
    path = session_dir(home, "s", None, "c0-aa")
    assert forget_session(Home(home), path) is False
    assert [each.session_uid for each in snapshots_in(only(home))] == ["unknown"]


def test_without_snapshots_there_is_nothing_to_say(home: Path) -> None:
    assert forget_session(Home(home), session_dir(home, "s", None)) is True


def test_without_git_snapshots_stay_and_that_is_said(
    open_tree: Opener, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_tree("gone").snapshot()
    path = session_dir(home, "s", "gone")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(home))
        assert forget_session(Home(home), path) is False
