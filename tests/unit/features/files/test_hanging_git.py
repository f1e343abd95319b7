"""A git that never answers, at each of its commands in turn: a cancelled request ends, and leaves no process behind."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.holding import wait_until
from tests.support.mostly_long import mostly_long
from tests.unit.features.files.conftest import Opener, git, put
from tests.unit.features.files.test_hostile_workspaces import is_alive

from timeleap.errors import CancelledError, StorageFailureError, TimeleapError
from timeleap.features.files import git as runner
from timeleap.features.files.records import Control, FilesConfig
from timeleap.features.files.tree import FileTree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell")

HANGING = """#!/bin/sh
command=
settings=
for each in "$@"; do
    if [ -n "$settings" ]; then settings=; continue; fi
    case "$each" in
        -c) settings=1 ;;
        --literal-pathspecs) ;;
        *) command=$each; break ;;
    esac
done
echo "$command" >> '{folder}/asked'
if [ "$command" = "$(cat '{folder}/hangs')" ]; then
    sleep 1000 &
    echo $$ $! > '{folder}/hanging.new'
    mv '{folder}/hanging.new' '{folder}/hanging'
    wait
    sleep 1000
fi
exec {git} "$@"
"""
Use = Callable[[FileTree, str, Control], object]


def save(tree: FileTree, _target: str, control: Control) -> object:
    return tree.snapshot(control)


def save_first(tree: FileTree, _target: str, control: Control) -> object:
    home = tree.root.parent / "homes" / secrets.token_hex(8)
    home.mkdir(parents=True)
    return FileTree.open(home, tree.root, "s", FilesConfig(), control).snapshot(control)


def foretell(tree: FileTree, target: str, control: Control) -> object:
    return tree.plan(target, log_changed_at=time.time_ns() + 10**9, control=control)


def put_back(tree: FileTree, target: str, control: Control) -> object:
    plan = tree.plan(target, log_changed_at=time.time_ns() + 10**9, control=control)
    return tree.begin_restore(plan, None, control).commit()


def compare(tree: FileTree, target: str, control: Control) -> object:
    return tree.changes(target, None, control=control)


def read(tree: FileTree, target: str, _control: Control) -> object:
    return tree.read(target, b"a")


def list_them(tree: FileTree, target: str, _control: Control) -> object:
    return tree.skipped(target), tree.snapshots()


class HangingGit:
    """A git on PATH that never answers one of its commands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.hang_at("nothing")
        script = HANGING.format(folder=folder, git=shutil.which("git"))
        (folder / "git").write_text(script)
        (folder / "git").chmod(0o755)

    def hang_at(self, command: str) -> None:
        (self._folder / "hanging").unlink(missing_ok=True)
        (self._folder / "hangs").write_text(f"{command}\n")

    def asked(self) -> list[str]:
        """Return the commands since the last call, each once."""
        log = self._folder / "asked"
        found = list(dict.fromkeys(log.read_text().split()))
        log.unlink()
        return found

    @property
    def hangs(self) -> bool:
        return (self._folder / "hanging").exists()

    def refuse_leftovers(self) -> None:
        pids = [int(pid) for pid in (self._folder / "hanging").read_text().split()]
        wait_until(lambda: not any(map(is_alive, pids)))


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HangingGit:
    made = HangingGit(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(runner, "_GRACE_SECONDS", 0.1)
    return made


def changed(root: Path, text: str) -> None:
    put(root, a=text, sub__b=text)
    (root / f"new {text}").write_text(text)
    (root / "a").chmod(0o600)


def outcome_of(use: Use, tree: FileTree, target: str, control: Control) -> BaseException | None:
    """Return what a request raised, once it has ended."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            with tree._git.under(control):
                use(tree, target, control)
        except TimeleapError as error:
            raised.append(error)
        else:
            raised.append(None)

    worker = threading.Thread(target=run)
    worker.start()
    worker.join(60)
    assert raised, "it did not end"
    return raised[0]


@pytest.mark.parametrize("use", mostly_long([save, put_back, foretell, compare, read, list_them, save_first], every=7))
def test_a_request_that_is_cancelled_ends_at_whichever_command_git_hangs(
    open_tree: Opener, root: Path, hanging: HangingGit, use: Use
) -> None:
    put(root, a="0", sub__b="0")
    git(root, "init", "-q")
    git(root, "add", ".")
    target = open_tree().snapshot().snapshot_id
    changed(root, "first")
    hanging.asked()
    use(open_tree(), target, Control())
    kept = len(open_tree().snapshots())
    for number, command in enumerate(hanging.asked()):
        changed(root, str(number))
        hanging.hang_at(command)
        raised = outcome_of(use, open_tree(), target, Control(cancelled=lambda: hanging.hangs))
        assert isinstance(raised, CancelledError) or not hanging.hangs, command
        if hanging.hangs:
            hanging.refuse_leftovers()
        hanging.hang_at("nothing")
        if use is save and raised is not None:
            assert len(open_tree().snapshots()) == kept, command
        use(open_tree(), target, Control())
        kept = len(open_tree().snapshots())


@pytest.mark.parametrize("use", mostly_long([read, save, put_back], every=3))
def test_a_git_that_never_answers_is_an_error_in_time(
    open_tree: Opener, root: Path, hanging: HangingGit, monkeypatch: pytest.MonkeyPatch, use: Use
) -> None:
    put(root, a="0" * 3000)
    target = open_tree().snapshot().snapshot_id
    put(root, a="1")
    monkeypatch.setattr(runner, "DEADLINE", 2.0)
    hanging.hang_at("cat-file" if use is not save else "write-tree")
    with pytest.raises(StorageFailureError) as caught:
        use(open_tree(), target, Control())
    assert (caught.value.data["errno"], caught.value.retryable) == ("ETIMEDOUT", True)
    hanging.refuse_leftovers()
    hanging.hang_at("nothing")
    monkeypatch.setattr(runner, "DEADLINE", 120.0)
    use(open_tree(), target, Control())


def test_a_git_that_does_not_even_say_its_version_is_named(
    open_tree: Opener, root: Path, hanging: HangingGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "ASKING", 0.2)
    hanging.hang_at("--version")
    with pytest.raises(TimeleapError, match="version") as caught:
        open_tree()
    assert caught.value.data["reason"] == "noGit"
    hanging.refuse_leftovers()


def test_a_lock_that_a_killed_git_left_on_a_snapshot_stops_nothing(open_tree: Opener, root: Path, home: Path) -> None:
    put(root, a="1")
    taken = open_tree().snapshot()
    (place,) = (home / "files").iterdir()
    for name in ("refs/timeleap/s1/1.lock", "refs/timeleap/s1/2.lock", "packed-refs.lock"):
        (place / name).touch()
    put(root, a="2")
    open_tree().snapshot()
    open_tree().remove([taken.snapshot_id])
    assert len(open_tree().snapshots()) == 1
