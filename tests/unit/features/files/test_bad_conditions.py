"""Files that change meanwhile, commands of git that fail, and documents of ours that somebody else wrote."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, go_back, put
from tests.unit.features.files.test_restore import changed_by_an_agent, lived_in
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import CancelledError, CorruptedError, StorageFailureError
from timeleap.features.files import disk, restore
from timeleap.features.files.git import Git
from timeleap.features.files.records import Control, Skipped
from timeleap.features.files.repository import Details
from timeleap.features.files.tree import FileTree


def during(monkeypatch: pytest.MonkeyPatch, option: str, act: Callable[[], object]) -> None:
    """Do something whenever a command of git with that option has ended."""
    original = Git.run

    def run(self: Git, *command: str, **how: object) -> bytes:
        output = original(self, *command, **how)  # type: ignore[arg-type]
        if option in command:
            act()
        return output

    monkeypatch.setattr(Git, "run", run)


def test_a_file_that_never_stops_changing_is_named_and_left_alone(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root, live_log="0", a="1")

    def grow() -> None:
        with (root / "live.log").open("a") as log:
            log.write("more")

    with monkeypatch.context() as patch:
        during(patch, "--add", grow)
        taken = tree.snapshot()
    assert taken.skipped == (Skipped("live.log", "changing"),)
    put(root, live_log="now", a="2")
    assert go_back(tree, taken.snapshot_id).kept == 1
    assert ((root / "a").read_text(), (root / "live.log").read_text()) == ("1", "now")


def test_a_file_that_goes_while_it_is_read_is_not_there(tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch):
    put(root, gone="0", a="1")
    with monkeypatch.context() as patch:
        during(patch, "--add", lambda: (root / "gone").unlink(missing_ok=True))
        taken = tree.snapshot()
    assert taken.skipped == ()
    assert tree.changes(taken.snapshot_id, None) == []


def test_an_edit_between_the_plan_and_its_doing_is_not_lost(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root, a="1", b="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2", b="2")
    plan = tree.plan(taken, log_changed_at=time.time_ns())
    with monkeypatch.context() as patch:
        during(patch, "mktree", lambda: put(root, b="a person's"))
        with pytest.raises(Exception, match="changed") as refusal:
            tree.restore(plan)
    assert refusal.value.data == {"paths": ["b"], "more": 0}  # type: ignore[attr-defined]
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("2", "a person's")


def test_an_edit_while_files_are_put_back_is_not_lost(tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch):
    put(root, a="1", b="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2", b="2")
    plan = tree.plan(taken, log_changed_at=time.time_ns())
    with monkeypatch.context() as patch:
        patch.setattr(restore, "failpoint", lambda name: put(root, b="a person's") if name == "files.staged" else None)
        with pytest.raises(Exception, match="changed"):
            tree.restore(plan)
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("2", "a person's")


def test_a_restore_that_fails_half_way_is_taken_back(tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch):
    put(root, a="1", b="1")
    taken = tree.snapshot().snapshot_id
    put(root, a="2", b="2")
    before, real, moved = whole_tree(root), disk.Disk.move, list[str]()

    def move(self: disk.Disk, source: str, target: str) -> None:
        moved.append(target)
        if len(moved) == 2:
            raise OSError(errno.EIO, "the disk has had enough")
        real(self, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(disk.Disk, "move", move)
        with pytest.raises(StorageFailureError):
            go_back(tree, taken, on_conflict="overwrite")
    assert len(moved) > 2
    assert {path: facts[:2] for path, facts in whole_tree(root).items()} == {
        path: facts[:2] for path, facts in before.items()
    }
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("2", "2")


@pytest.mark.parametrize("prefix", ["", "a", ".timeleap-restore-/../", ".timeleap", "/.timeleap-restore-"])
def test_a_note_of_a_restore_removes_files_of_no_other_names(tree: FileTree, root: Path, prefix: str):
    put(root, a="1")
    tree.snapshot()
    repository, oid = tree._repository, "0" * 40
    restore.write_intent(repository, restore.Intent("s", None, oid, oid, "f1", prefix))
    assert restore.read_intent(repository) is None
    restore.write_intent(repository, restore.Intent("s", None, oid, oid, "f1", restore.new_prefix()))
    assert restore.read_intent(repository) is not None


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Lets a command of git fail, saying something."""
    real = shutil.which("git")
    folder = tmp_path / "bin"
    folder.mkdir()

    def fail(command: str, says: str) -> None:
        script = (
            f'#!/bin/sh\nfor each in "$@"; do if [ "$each" = {command} ]; then echo "{says}" >&2; exit 128; fi; done\n'
        )
        (folder / "git").write_text(f'{script}exec {real} "$@"\n')
        (folder / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return fail


@pytest.mark.parametrize("command", ["ls-files", "diff-files", "update-index", "write-tree", "mktree", "commit-tree"])
def test_a_command_that_fails_makes_no_snapshot(
    tree: FileTree, root: Path, failing: Callable[[str, str], None], command: str
):
    put(root, a="1")
    tree.snapshot()
    put(root, a="2")
    failing(command, "fatal: something")
    with pytest.raises(CorruptedError, match=command):
        tree.snapshot()
    assert len(tree.snapshots()) == 1


@pytest.mark.parametrize("command", ["update-index", "write-tree", "hash-object", "update-ref"])
def test_a_full_disk_is_told_as_such(tree: FileTree, root: Path, failing: Callable[[str, str], None], command: str):
    put(root, a="1")
    (root / "a").chmod(0o600)
    failing(command, "error: file write error: No space left on device")
    with pytest.raises(StorageFailureError) as refusal:
        tree.snapshot()
    assert (refusal.value.data["errno"], refusal.value.retryable) == ("ENOSPC", True)
    assert tree.snapshots() == []


def test_a_cancelled_snapshot_is_none(tree: FileTree, root: Path):
    put(root, a="1")
    with pytest.raises(CancelledError):
        tree.snapshot(Control(cancelled=lambda: True))
    assert tree.snapshots() == []


def test_progress_counts_the_files_that_are_read(tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("timeleap.features.files.snapshot._PORTION", 2)
    put(root, a="1", b="2", c="3")
    told: list[tuple[str, int, int | None]] = []
    tree.snapshot(Control(progress=lambda stage, done, total: told.append((stage, done, total))))
    assert [counts[1:] for counts in told[1:]] == [(0, 3), (2, 3)]


def test_without_descriptors_of_folders_restores_are_the_same(
    tree: FileTree, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(disk, "BY_DESCRIPTOR", False)
    lived_in(root)
    before = whole_tree(root)
    taken = tree.snapshot().snapshot_id
    changed_by_an_agent(root)
    shutil.move(root / "closed", tmp_path / "outside")
    (root / "closed").symlink_to(tmp_path / "outside")
    outside = whole_tree(tmp_path / "outside", times=True)
    go_back(tree, taken)
    assert whole_tree(root) == before
    assert whole_tree(tmp_path / "outside", times=True) == outside


HOSTILE = [b"..", b".git", b".GIT"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_snapshot_with_a_name_that_leads_elsewhere_is_refused(tree: FileTree, root: Path, home: Path, name: bytes):
    put(root, a="1")
    taken = tree.snapshot()
    (place,) = (home / "files").iterdir()
    git = Git(place, root)
    blob = git.text("hash-object", "-w", "--stdin", stdin=b"evil")
    inner = git.text("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=entry(b"100644 x", blob))
    files = git.text("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=entry(b"40000 " + name, inner))
    details = git.text("hash-object", "-w", "--stdin", stdin=b"{}")
    outer = git.text("mktree", stdin=f"100644 blob {details}\tdetails\n040000 tree {files}\tfiles\n".encode())
    commit = git.text("commit-tree", outer, stdin=json.dumps({"number": 2, "tree": files}).encode())
    git.run("update-ref", "refs/timeleap/s1/2", commit)
    with pytest.raises(CorruptedError):
        go_back(tree, f"f2-{files[:12]}")
    assert sorted(path.name for path in root.iterdir()) == ["a"]
    assert taken.snapshot_id in {found.snapshot_id for found in tree.snapshots()}


def entry(mode_and_name: bytes, oid: str) -> bytes:
    return mode_and_name + b"\0" + bytes.fromhex(oid)


@pytest.mark.parametrize(
    "content", ["", "[]", "nonsense", '{"session": 1}', '{"session": "s1", "before": "x", "prefix": "../"}']
)
def test_documents_that_are_not_ours_are_passed_over(open_tree: Opener, root: Path, home: Path, content: str):
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    (place,) = (home / "files").iterdir()
    for name in ("restore.json", "origin.json", *(path.name for path in place.glob("index-*.recent"))):
        (place / name).write_text(content)
    put(root, a="2")
    assert open_tree().recover(lambda _: True) is None
    go_back(open_tree(), taken)
    assert (root / "a").read_text() == "1"


def test_details_that_are_not_of_their_form_are_left_out():
    told = {
        "usual": [1, 2],
        "modes": {"a": 0o600, "../b": 0o600, "c": "x"},
        "skipped": {"d": "else"},
        "exclude": [1, "e"],
    }
    found = Details.decode(json.dumps(told).encode())
    assert (found.usual, found.modes) == ((0o644, 0o755, 0o755), {"a": 0o600})
    assert (found.skipped, found.exclude) == ({"d": "unsupported"}, ("e",))
    assert Details.decode(b"nonsense") == Details()


def test_a_damaged_repository_is_told_as_damage(tree: FileTree, root: Path, home: Path, open_tree: Opener):
    put(root, a="1")
    taken = tree.snapshot().snapshot_id
    (place,) = (home / "files").iterdir()
    for path in place.glob("objects/??/*"):
        path.unlink()
    put(root, a="2")
    with pytest.raises((CorruptedError, LookupError)):
        go_back(open_tree(), taken)
    assert (root / "a").read_text() == "2"


def test_an_interrupted_making_of_the_repository_is_completed(open_tree: Opener, root: Path, home: Path):
    put(root, a="1")
    open_tree()
    (place,) = (home / "files").iterdir()
    (place / "HEAD").unlink()
    shutil.rmtree(place / "info")
    assert open_tree().snapshot().changed == 0


OURS = ["HEAD", "config", "info/attributes", "info/exclude", "origin.json", "index", "recent"]
"""Files of the repository of a folder's snapshots; of the index, which has a name of its own each time, the kind."""


def something_else(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)


@pytest.mark.skipif(os.name == "nt", reason="pipes")
@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_no_file_of_the_store_that_is_something_else_is_waited_for(
    open_tree: Opener, root: Path, home: Path, kind: str
):
    put(root, a="1")
    open_tree().snapshot()
    (place,) = (home / "files").iterdir()
    for at, name in enumerate(OURS):
        found = place.glob({"index": "index-*[0-9a-f]", "recent": "index-*.recent"}.get(name, name))
        something_else(next(iter(found)), kind)
        put(root, a=f"again {at}")
        taken = open_tree().snapshot().snapshot_id
        put(root, a="later")
        go_back(open_tree(), taken)
        assert (root / "a").read_text() == f"again {at}", name
