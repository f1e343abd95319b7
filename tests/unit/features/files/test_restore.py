"""Restores: the whole tree is as it was, in both directions; what is not to be touched is not."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, git, go_back, put
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import FilesBusyError, FilesConflictError
from timeleap.features.files.records import changed_by_others
from timeleap.features.files.tree import FileTree


def lived_in(root: Path) -> None:
    """Files of every kind that is kept."""
    put(root, a_txt="a", d__b="b", d__e__c="c" * 100_000, zero="", x_sh="#!/bin/sh\n", private="secret", g__h="h")
    (root / "x.sh").chmod(0o755)
    (root / "private").chmod(0o600)
    (root / "group").write_text("g")
    (root / "group").chmod(0o664)
    (root / "link").symlink_to("a.txt")
    (root / "nowhere").symlink_to("/does/not/exist")
    (root / "empty").mkdir()
    (root / "closed").mkdir(mode=0o700)
    (root / "closed/inside").write_text("i")


def changed_by_an_agent(root: Path) -> None:
    """A shell's changes of every kind."""
    put(root, a_txt="A", d__e__c=None, new="n", n__n__n="n", zero="not any more")
    shutil.rmtree(root / "g")
    (root / "g").write_text("a file in the place of a folder")
    (root / "d/b").unlink()
    (root / "d/b").mkdir()
    (root / "d/b/deep").write_text("a folder in the place of a file")
    (root / "link").unlink()
    (root / "link").write_text("a file in the place of a link")
    (root / "private").unlink()
    (root / "private").symlink_to("a.txt")
    (root / "x.sh").chmod(0o644)
    (root / "group").chmod(0o640)
    (root / "empty").rmdir()
    (root / "closed").chmod(0o755)


def test_all_that_a_shell_changed_goes_back_and_the_undo_of_that(tree: FileTree, root: Path):
    lived_in(root)
    before = whole_tree(root)
    taken = tree.snapshot().snapshot_id
    changed_by_an_agent(root)
    after = whole_tree(root)
    restored = go_back(tree, taken)
    assert whole_tree(root) == before
    go_back(tree, restored.before)
    assert whole_tree(root) == after
    go_back(tree, restored.after)
    assert whole_tree(root) == before


def test_files_that_do_not_differ_keep_their_times(tree: FileTree, root: Path):
    put(root, same="1", d__same="2", mod="3")
    (root / "link").symlink_to("same")
    taken = tree.snapshot().snapshot_id
    times = whole_tree(root, times=True)
    put(root, mod="4", new="5")
    restored = go_back(tree, taken)
    go_back(tree, restored.before)
    go_back(tree, taken)
    now = whole_tree(root, times=True)
    assert {path: now[path] for path in ("same", "d/same", "link")} == {
        path: times[path] for path in ("same", "d/same", "link")
    }


def test_counts_and_paths_of_a_restore(tree: FileTree, root: Path):
    put(root, mod="1", gone="2")
    taken = tree.snapshot().snapshot_id
    put(root, mod="2", gone=None, new="3")
    plan = tree.plan(taken, log_changed_at=time.time_ns())
    restored = tree.restore(plan)
    counts = (restored.added, restored.modified, restored.deleted, restored.kept, restored.conflicts)
    assert counts == (plan.added, plan.modified, plan.deleted, plan.kept, len(plan.conflicts)) == (1, 1, 1, 0, 0)
    assert [path for path, _ in restored.paths] == [change.path for change in plan.changes] == ["gone", "mod", "new"]
    assert [found.snapshot_id for found in tree.snapshots()] == [restored.after, restored.before, taken]
    assert restored.after[3:] == taken[3:]


def test_only_the_paths_asked_for_go_back(tree: FileTree, root: Path):
    put(root, d__a="1", d__b="1", dd__a="1", c="1")
    taken = tree.snapshot().snapshot_id
    put(root, d__a="2", d__b=None, d__new="2", dd__a="2", c="2")
    go_back(tree, taken, paths=[b"d"])
    assert sorted(path.name for path in (root / "d").iterdir()) == ["a", "b"]
    assert ((root / "dd/a").read_text(), (root / "c").read_text()) == ("2", "2")
    assert tree.changes(None, tree.snapshots()[0].snapshot_id) == []


def test_a_plan_changes_nothing(tree: FileTree, root: Path):
    put(root, a="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2", b="2")
    before = whole_tree(root, times=True)
    assert [change.path for change in tree.plan(taken, log_changed_at=0).changes] == ["a", "b"]
    assert whole_tree(root, times=True) == before
    assert len(tree.snapshots()) == 1


def edited_by_a_person(tree: FileTree, root: Path) -> tuple[str, int]:
    """A turn that changed `a`, and then a person who changed `b`: the snapshot before both, and the time between."""
    put(root, a="1", b="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2")
    between = time.time_ns()
    while (root / "b").stat().st_ctime_ns <= between:
        put(root, b="3")
    return taken, between


def test_a_persons_edit_after_the_turn_is_a_conflict_and_nothing_is_changed(tree: FileTree, root: Path):
    taken, between = edited_by_a_person(tree, root)
    before = whole_tree(root, times=True)
    plan = tree.plan(taken, log_changed_at=between)
    assert plan.conflicts == ("b",)
    for _ in range(2):
        with pytest.raises(FilesConflictError) as refusal:
            tree.restore(plan)
        assert refusal.value.data == {"paths": ["b"], "more": 0}
        assert refusal.value.message.startswith("b was changed by somebody else; ")
    assert whole_tree(root, times=True) == before
    assert len(tree.snapshots()) == 1


def test_a_conflict_is_kept_if_asked_for(tree: FileTree, root: Path):
    taken, between = edited_by_a_person(tree, root)
    restored = tree.restore(tree.plan(taken, on_conflict="keep", log_changed_at=between))
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("1", "3")
    assert (restored.kept, restored.conflicts, restored.modified) == (1, 1, 1)
    assert tree.changes(restored.after, None) == []


def test_a_conflict_is_overwritten_if_asked_for_and_can_be_had_back(tree: FileTree, root: Path):
    taken, between = edited_by_a_person(tree, root)
    restored = tree.restore(tree.plan(taken, on_conflict="overwrite", log_changed_at=between))
    assert (root / "b").read_text() == "1"
    assert tree.read(restored.before, b"b").content == b"3"


def test_a_file_that_a_person_removed_after_the_turn_is_a_conflict(tree: FileTree, root: Path):
    put(root, d__a="1")
    taken = tree.snapshot().snapshot_id
    put(root, d__a="2")
    tree.snapshot()
    between = time.time_ns()
    while (root / "d").stat().st_ctime_ns <= between:
        put(root, d__a="2", d__b="3")
        put(root, d__a=None, d__b=None)
    assert tree.plan(taken, log_changed_at=between).conflicts == ("d/a",)


def test_what_an_agent_did_before_the_last_record_is_no_conflict(tree: FileTree, root: Path):
    put(root, a="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2")
    assert tree.plan(taken, log_changed_at=(root / "a").stat().st_ctime_ns).conflicts == ()


def test_ignored_files_are_never_touched(tree: FileTree, root: Path):
    put(root, _gitignore="*.log\nbuild/\n", a="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2", x_log="mine", build__o="mine")
    before = whole_tree(root, times=True)
    go_back(tree, taken)
    after = whole_tree(root, times=True)
    assert {path for path in before if before[path] != after[path]} == {"a"}


def test_a_file_that_was_ignored_then_is_not_deleted_now(tree: FileTree, root: Path):
    put(root, _gitignore="*.log\n", a="1", x_log="mine")
    taken = tree.snapshot().snapshot_id
    put(root, a="2", _gitignore="")
    restored = go_back(tree, taken)
    assert ((root / "a").read_text(), (root / "x.log").read_text()) == ("1", "mine")
    assert restored.kept == 1


def test_a_file_that_the_settings_of_then_left_out_is_not_deleted_now(open_tree: Opener, root: Path):
    put(root, a="1", x_bin="mine")
    taken = open_tree(exclude=("*.bin",)).snapshot().snapshot_id
    put(root, a="2")
    go_back(open_tree(), taken)
    assert ((root / "a").read_text(), (root / "x.bin").read_text()) == ("1", "mine")


def test_what_is_ignored_by_now_is_in_the_snapshot_before_it_goes_back(tree: FileTree, root: Path, open_tree: Opener):
    put(root, note="1")
    taken = tree.snapshot().snapshot_id
    put(root, note="2", _gitignore="note\n")
    other = open_tree(max_file_bytes=1000)  # other settings, and so an index that does not have it
    restored = go_back(other, taken)
    assert (root / "note").read_text() == "1"
    go_back(other, restored.before)
    assert (root / "note").read_text() == "2"


def test_a_file_too_large_to_keep_is_neither_deleted_nor_overwritten(open_tree: Opener, root: Path):
    tree = open_tree(max_file_bytes=100)
    put(root, was_large="x" * 101, is_large="1", a="1")
    taken = tree.snapshot().snapshot_id
    put(root, was_large="1", is_large="x" * 101, a="2")
    restored = go_back(tree, taken)
    assert ((root / "was.large").read_text(), len((root / "is.large").read_text())) == ("1", 101)
    assert ((root / "a").read_text(), restored.kept) == ("1", 2)


def test_pipes_are_left_alone(tree: FileTree, root: Path):
    put(root, d="1", e__a="1")
    taken = tree.snapshot().snapshot_id
    (root / "d").unlink()
    (root / "d").mkdir()
    os.mkfifo(root / "d/pipe")
    shutil.rmtree(root / "e")
    os.mkfifo(root / "e")
    restored = go_back(tree, taken)
    assert (root / "d/pipe").is_fifo() and (root / "e").is_fifo()
    assert restored.kept == 2


def test_a_folder_with_ignored_files_does_not_become_a_file(tree: FileTree, root: Path):
    put(root, _gitignore="*.log\n", d="1")
    taken = tree.snapshot().snapshot_id
    (root / "d").unlink()
    put(root, d__mine_log="mine", d__x="2")
    restored = go_back(tree, taken)
    assert ((root / "d/mine.log").read_text(), restored.kept) == ("mine", 2)


def test_nothing_is_written_through_a_link(tree: FileTree, root: Path, tmp_path: Path):
    put(root, data__a="1", data__b="1")
    taken = tree.snapshot().snapshot_id
    outside = tmp_path / "outside"
    shutil.move(root / "data", outside)
    put(outside, a="theirs")
    (root / "data").symlink_to(outside)
    before = whole_tree(outside, times=True)
    go_back(tree, taken)
    assert not (root / "data").is_symlink() and (root / "data/a").read_text() == "1"
    assert whole_tree(outside, times=True) == before


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"new\nline", b"-rf", b"*", b":(top)x", b" blank ", b"a\\b", b'q"', b"git~1"]
)
def test_names_of_every_kind_go_back(tree: FileTree, root: Path, name: bytes):
    folder = os.fsencode(root) + b"/" + name + b".d"
    os.mkdir(folder)
    for path in (os.fsencode(root) + b"/" + name, folder + b"/" + name):
        Path(os.fsdecode(path)).write_text("1")
    before = whole_tree(root)
    taken = tree.snapshot().snapshot_id
    Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("2")
    shutil.rmtree(folder)
    after = whole_tree(root)
    restored = go_back(tree, taken)
    assert whole_tree(root) == before
    go_back(tree, restored.before)
    assert whole_tree(root) == after
    assert tree.read(taken, name).content == b"1"


def test_names_that_differ_only_by_case_go_back(tree: FileTree, root: Path):
    put(root, a="1", A="2")
    before = whole_tree(root)
    taken = tree.snapshot().snapshot_id
    put(root, a=None, A="3")
    go_back(tree, taken)
    assert whole_tree(root) == before


def test_repositories_within_the_root_are_kept_and_their_own_is_not_touched(tree: FileTree, root: Path):
    put(root, a="1", sub__s="1", sub__deep__t="1", none__n="1")
    git(root / "none", "init", "-q")  # without a commit
    git(root / "sub", "init", "-q")
    git(root / "sub", "add", "s")
    git(root / "sub", "commit", "-qm", "s")
    git(root / "sub/deep", "init", "-q")
    before, gits = whole_tree(root), [whole_tree(root / name / ".git", times=True) for name in ("sub", "none")]
    taken = tree.snapshot().snapshot_id
    put(root, a="2", sub__s="2", sub__deep__t=None, sub__new="2", none__n="2")
    go_back(tree, taken)
    assert whole_tree(root) == before
    assert [whole_tree(root / name / ".git", times=True) for name in ("sub", "none")] == gits


def test_an_edit_of_the_same_size_in_the_same_tick_is_not_lost(tree: FileTree, root: Path):
    for number in range(20):
        put(root, a=f"{number:04}")
        taken = tree.snapshot().snapshot_id
        facts = (root / "a").stat()
        put(root, a=f"{number:03}x")
        os.utime(root / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
        later = tree.snapshot().snapshot_id
        assert tree.read(taken, b"a").content == f"{number:04}".encode()
        assert tree.read(later, b"a").content == f"{number:03}x".encode()


def test_two_sessions_on_one_folder_have_their_own_snapshots(open_tree: Opener, root: Path):
    first, second = open_tree("s1"), open_tree("s2")
    put(root, a="1")
    taken = first.snapshot().snapshot_id
    put(root, a="2")
    other = second.snapshot().snapshot_id
    put(root, a="3")
    go_back(first, taken)
    assert (root / "a").read_text() == "1"
    go_back(second, other)
    assert (root / "a").read_text() == "2"


def test_while_a_restore_is_pending_others_are_told_to_come_back(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("timeleap.features.files.repository.WAIT_SECONDS", 0.05)
    first, second = open_tree("s1"), open_tree("s2")
    put(root, a="1")
    taken = first.snapshot().snapshot_id
    put(root, a="2")
    pending = first.begin_restore(first.plan(taken, log_changed_at=time.time_ns()), "token")
    with pytest.raises(FilesBusyError):
        second.snapshot()
    pending.commit()
    assert second.snapshot().changed == 0


def test_a_pending_restore_can_be_taken_back(tree: FileTree, root: Path):
    lived_in(root)
    taken = tree.snapshot().snapshot_id
    changed_by_an_agent(root)
    after = whole_tree(root)
    pending = tree.begin_restore(tree.plan(taken, log_changed_at=time.time_ns()), "token")
    pending.roll_back()
    assert whole_tree(root) == after
    assert tree.snapshots()[0].snapshot_id == pending.restored.before
    assert tree.recover(lambda _: True) is None


def test_a_folder_of_empty_folders_gives_way_to_a_link_and_comes_back(tree: FileTree, root: Path):
    (root / "b").symlink_to("nowhere")
    taken = tree.snapshot().snapshot_id
    (root / "b").unlink()
    (root / "b/c/d").mkdir(parents=True, mode=0o700)
    after = whole_tree(root)
    restored = go_back(tree, taken)
    assert (root / "b").is_symlink()
    go_back(tree, restored.before)
    assert whole_tree(root) == after


def test_a_fork_has_the_snapshots_of_its_parent_under_their_ids(open_tree: Opener, root: Path):
    parent, fork = open_tree("s1"), open_tree("s2")
    put(root, a="1")
    first = parent.snapshot().snapshot_id
    put(root, a="2")
    second = parent.snapshot().snapshot_id
    fork.adopt("s1")
    assert [found.snapshot_id for found in fork.snapshots()] == [second, first]
    parent.remove([first, second])
    put(root, a="3")
    go_back(fork, second)
    assert (root / "a").read_text() == "2"
    assert fork.next_number() == 5


def test_a_refusal_names_one_file_or_says_how_many_more_there_are():
    assert changed_by_others(["a"], "so").message == "a was changed by somebody else; so"
    several = changed_by_others(["a", "b\udcff c", "d"], "so", root="file:///r")
    assert several.message == "a and 2 more were changed by somebody else; so"
    assert several.data == {"paths": ["a", "b%FF%20c", "d"], "pathEncoding": "percent", "more": 0, "root": "file:///r"}
