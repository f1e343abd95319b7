"""kill -9 and a full disk at every step of a snapshot and of a restore: files are in one state or the other, never between.

After a kill, the next opening brings the restore to an end: forward where the log followed (or there is none), else back.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import figures
from tests.support.mostly_long import mostly_long
from tests.unit.features.files.test_restore import changed_by_an_agent, lived_in
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import FilesIncompleteError
from timeleap.features.files import tree as engine
from timeleap.features.files.records import FilesConfig
from timeleap.features.files.tree import FileTree
from timeleap.storage import durable

OF_SESSIONS = {"restore_step", "session_snapshots"}
"""Modules whose points a session passes: tests/crash/wire/test_killed_restores.py kills there."""
POINTS = sorted(
    {
        name
        for file in Path(engine.__file__).parent.glob("*.py")
        if file.stem not in OF_SESSIONS
        for name in re.findall(r'failpoint\("([^"]+)"\)', file.read_text("utf-8"))
    }
)
SNAPSHOT = {"files.objects_written", "files.committed", "files.published"}
OF_RECOVERY, OF_ROLL_BACK = "files.recovered", "files.taken_back"
RESTORE = [name for name in POINTS if name not in {OF_RECOVERY, OF_ROLL_BACK} and "bundle" not in name]
MANY = ("files.moved", "files.removed")
STEPS = [*(f"{name}@{count}" for name in MANY for count in (2, 4)), *RESTORE]
BEFORE_THE_INTENT = SNAPSHOT

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

Tree = dict[str, tuple[object, ...]]


@pytest.fixture(autouse=True)
def disarmed():
    yield
    durable.arm("")


class Scene:
    """A folder that an agent has changed, and the snapshot from before that."""

    def __init__(self, place: Path) -> None:
        self.root, self.home = place / "project", place / "store"
        self.root.mkdir()
        self.home.mkdir()
        lived_in(self.root)
        self.then = whole_tree(self.root)
        self.target = self.opened().snapshot().snapshot_id
        changed_by_an_agent(self.root)
        self.now = whole_tree(self.root)

    def opened(self) -> FileTree:
        return FileTree.open(self.home, self.root, "s1", FilesConfig())

    @property
    def tree(self) -> Tree:
        return whole_tree(self.root)

    def restore(self, token: str | None = None) -> None:
        tree = self.opened()
        plan = tree.plan(self.target, log_changed_at=time.time_ns() + 10**9)
        tree.begin_restore(plan, token).commit()

    def recover(self, happened: bool = True) -> None:
        self.opened().recover(lambda _: happened)

    def roll_back(self) -> None:
        tree = self.opened()
        plan = tree.plan(self.target, log_changed_at=time.time_ns() + 10**9)
        tree.begin_restore(plan, "token").roll_back()

    def settled(self) -> bool:
        return not any(self.home.glob("files/*/restore.json"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def killed(work: Callable[[], object], armed: str) -> None:
    """Do `work` in a child that dies at a failpoint."""
    child = os.fork()
    if child == 0:
        try:
            durable.arm(f"{armed}=kill")
            work()
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"{armed} was not passed"
    figures.count(kills=1)


@pytest.mark.parametrize("point", sorted(SNAPSHOT))
def test_a_snapshot_that_is_killed_is_there_or_not(scene: Scene, point: str):
    killed(lambda: scene.opened().snapshot(), point)
    tree = scene.opened()
    assert len(tree.snapshots()) == 1 + (point == "files.published")
    taken = tree.snapshot()
    assert tree.changes(taken.snapshot_id, None) == []
    assert scene.tree == scene.now


@pytest.mark.parametrize("step", mostly_long(STEPS))
def test_a_restore_alone_that_is_killed_goes_forward(scene: Scene, step: str):
    killed(scene.restore, step)
    begun = step not in BEFORE_THE_INTENT
    scene.recover()
    assert scene.tree == (scene.then if begun else scene.now)
    assert scene.settled()
    tree = scene.opened()
    assert tree.changes(tree.snapshots()[0].snapshot_id, None) == [] or not begun


@pytest.mark.parametrize("happened", [True, False], ids=["forward", "back"])
@pytest.mark.parametrize("step", mostly_long((step for step in STEPS if step not in BEFORE_THE_INTENT), first=1))
def test_a_restore_with_a_log_that_is_killed_goes_where_the_log_is(scene: Scene, step: str, happened: bool):
    killed(lambda: scene.restore("token"), step)
    scene.recover(happened)
    assert scene.tree == (scene.then if happened else scene.now)
    assert scene.settled()


@pytest.mark.parametrize(
    "step", mostly_long(["files.moved@2", "files.removed@2", "files.folders_settled", OF_RECOVERY])
)
@pytest.mark.parametrize("happened", [True, False], ids=["forward", "back"])
def test_a_recovery_that_is_killed_is_done_again(scene: Scene, step: str, happened: bool):
    killed(lambda: scene.restore("token"), "files.moved@3" if happened else "files.restored")
    killed(lambda: scene.recover(happened), step)
    scene.recover(happened)
    assert scene.tree == (scene.then if happened else scene.now)
    assert scene.settled()


@pytest.mark.parametrize("step", ["files.moved@9", OF_ROLL_BACK])
def test_a_roll_back_that_is_killed_is_done_again(scene: Scene, step: str):
    killed(scene.roll_back, step)
    scene.recover(happened=False)
    assert scene.tree == scene.now
    assert scene.settled()


def test_what_somebody_else_changed_in_between_is_left_and_named(scene: Scene):
    killed(lambda: scene.restore("token"), "files.moved@2")
    (scene.root / "a.txt").write_text("a person's")
    recovered = scene.opened().recover(lambda _: True)
    assert recovered is not None and recovered.foreign == ("a.txt",)
    assert scene.tree == {**scene.then, "a.txt": scene.tree["a.txt"]}
    assert (scene.root / "a.txt").read_text() == "a person's"
    assert scene.settled()


def test_nothing_is_done_on_top_of_a_restore_whose_log_is_not_asked(scene: Scene):
    killed(lambda: scene.restore("token"), "files.moved@2")
    other = FileTree.open(scene.home, scene.root, "s2", FilesConfig())
    for tree in (other, scene.opened()):
        with pytest.raises(FilesIncompleteError) as refusal:
            tree.snapshot()
        assert refusal.value.data["target"] == scene.target
        assert refusal.value.data["before"].startswith("f2-")


def test_a_restore_alone_that_was_killed_is_completed_by_the_next_look(scene: Scene):
    killed(scene.restore, "files.moved@2")
    scene.opened().snapshot()
    assert scene.tree == scene.then


FULL = [step for step in STEPS if step not in {"files.published", "files.after_published"}]


@pytest.mark.parametrize("step", mostly_long(FULL, first=2))
def test_a_full_disk_leaves_everything_as_it_was(scene: Scene, step: str):
    tree = scene.opened()
    plan = tree.plan(scene.target, log_changed_at=time.time_ns() + 10**9)
    durable.arm(f"{step}=raise:ENOSPC" if "@" in step else f"{step}@1=raise:ENOSPC")
    with pytest.raises(OSError, match="No space"):
        tree.restore(plan)
    durable.arm("")
    assert scene.tree == scene.now
    assert scene.settled()
    scene.restore()
    assert scene.tree == scene.then


@pytest.mark.parametrize("step", sorted(SNAPSHOT))
def test_a_snapshot_on_a_full_disk_is_none(scene: Scene, step: str):
    tree = scene.opened()
    durable.arm(f"{step}=raise:ENOSPC")
    with pytest.raises(OSError, match="No space"):
        tree.snapshot()
    durable.arm("")
    taken = tree.snapshot()
    assert tree.changes(taken.snapshot_id, None) == []
