"""Workspaces that hold pipes, endless files and the like where git, or we, look for patterns and settings."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.support.holding import wait_until
from tests.support.mostly_long import mostly_long
from tests.unit.features.files.conftest import Opener, git, go_back, put
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import CancelledError, StorageFailureError
from timeleap.features.files import git as runner
from timeleap.features.files import obstacles
from timeleap.features.files.git import Git
from timeleap.features.files.records import Control
from timeleap.features.files.tree import FileTree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs named pipes")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1536 << 20)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def patterns(path: Path) -> None:
    path.write_bytes(b"".join(b"%d\n" % number for number in range(1_000_000)))


Make = Callable[[Path], None]
IN_REPOSITORY = (
    "info/exclude",
    "info/attributes",
    "index",
    "config",
    "HEAD",
    "packed-refs",
    "commondir",
    "config.worktree",
)


def put_in_place(path: Path, make: Make) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        *((name, pipe) for name in (*IN_REPOSITORY, "objects/info/alternates", "objects/pack/pack-1.idx")),
        *((name, make) for name in ("info/exclude", "index") for make in (listening, holes, endless, patterns)),
        *((name, endless) for name in ("info/attributes", "config", "HEAD")),
    ],
)
def test_whatever_the_repository_holds_the_files_are_saved(
    open_tree: Opener, root: Path, name: str, make: Make
) -> None:
    put(root, a="1", sub__b="2")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")
    put_in_place(root / ".git" / name, make)
    taken = open_tree().snapshot().snapshot_id
    put(root, a="other", sub__b=None, c="3")
    go_back(open_tree(), taken)
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("[abc]")) == ["a", "sub/b"]


@pytest.mark.parametrize("make", [pipe, listening, holes, endless])
def test_whatever_is_in_the_place_of_the_repository_the_files_are_saved(
    open_tree: Opener, root: Path, make: Make
) -> None:
    put(root, a="1")
    put_in_place(root / ".git", make)
    taken = open_tree().snapshot().snapshot_id
    put(root, a="2")
    go_back(open_tree(), taken)
    assert (root / "a").read_text() == "1"


@pytest.mark.parametrize("make", [pipe, holes, endless])
@pytest.mark.parametrize(
    "name", mostly_long([".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes"])
)
def test_whatever_the_users_settings_are_the_files_are_saved(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Make
) -> None:
    person = tmp_path / "person"
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    put_in_place(person / name, make)
    put(root, a="1")
    taken = open_tree().snapshot().snapshot_id
    put(root, a="2")
    go_back(open_tree(), taken)
    assert (root / "a").read_text() == "1"


def test_settings_that_lead_to_a_pipe_are_waited_for_a_few_seconds_at_most(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "ASKING", 0.3)
    monkeypatch.setattr("timeleap.features.files.seed.ASKING", 0.3)
    put(root, a="1")
    git(root, "init", "-q")
    git(root, "add", ".")
    pipe(root / "settings")
    with (root / ".git/config").open("a") as file:
        file.write("[include]\n\tpath = ../settings\n[core]\n\texcludesFile = ../settings\n")
    assert [each.path for each in open_tree().snapshot().skipped] == ["settings"]


# In the folders


PLACES = (
    ".gitignore",
    "sub/.gitignore",
    "new/deep/.gitignore",
    ".gitattributes",
    "sub/.gitattributes",
    "sub/.git/HEAD",
)


@pytest.mark.parametrize("make", [pipe, listening])
@pytest.mark.parametrize("name", mostly_long(PLACES))
@pytest.mark.parametrize("with_repository", [True, False])
def test_whatever_is_where_patterns_are_looked_for_the_files_are_saved(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Make, with_repository: bool
) -> None:
    monkeypatch.setattr(obstacles, "PATIENCE", 0.2)
    put(root, a="1", sub__b="2", sub__c_log="log", other__d="3", other__e_log="log")
    (root / "other/.gitignore").write_text("*.log\n")
    if with_repository:
        git(root, "init", "-q")
        git(root, "add", "a", "other")
        git(root, "commit", "-qm", "x")
    if "sub/.git" in name:
        (root / "sub/.git").mkdir()
    first = open_tree().snapshot().snapshot_id
    put(root, new__deep__f="4")
    put_in_place(root / name, make)
    for _ in range(2):
        taken = open_tree().snapshot()
        assert {(each.path, each.reason) for each in taken.skipped} <= {(name, "special")}
        before = whole_tree(root)
        put(root, a="other", sub__b=None, other__d="other", other__e_log="other", other__f="5")
        restored = go_back(open_tree(), taken.snapshot_id)
        assert whole_tree(root) == {**before, "other/e.log": whole_tree(root)["other/e.log"]}
        assert (root / "other/e.log").read_text() == "other"
        go_back(open_tree(), restored.before)
        assert (root / "other/d").read_text() == "other"
        go_back(open_tree(), taken.snapshot_id)
    (root / name).unlink()
    go_back(open_tree(), first)
    assert not (root / "new/deep/f").exists()


@pytest.mark.parametrize("make", [holes, patterns])
@pytest.mark.parametrize("name", [".gitignore", "sub/.gitignore", "new/deep/.gitignore"])
def test_patterns_of_any_length_are_not_read(open_tree: Opener, root: Path, name: str, make: Make) -> None:
    put(root, a="1", sub__b="2", new__deep__f="4")
    put_in_place(root / name, make)
    taken = open_tree().snapshot()
    put(root, a="2", sub__b=None)
    go_back(open_tree(), taken.snapshot_id)
    assert ((root / "a").read_text(), (root / "sub/b").read_text()) == ("1", "2")


@pytest.mark.parametrize("seed", range(4))
def test_the_careful_look_finds_what_git_finds(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random_tree(root, Random(seed))
    settings = {"exclude": ("*.tmp",), "include_ignored": ("kept*",) if seed % 2 else ()}
    by_git = open_tree("s1", **settings).snapshot()
    monkeypatch.setattr(obstacles, "is_obstacle", lambda *_, **__: True)
    carefully = open_tree("s2", **settings).snapshot()
    assert carefully.snapshot_id == by_git.snapshot_id
    assert carefully.skipped == by_git.skipped
    assert open_tree("s1", **settings).changes(by_git.snapshot_id, None) == []
    assert open_tree("s1", **settings).snapshot().changed == 0


def random_tree(root: Path, chance: Random) -> None:
    """Folders with files, links, ignore files and repositories, of names that patterns are about."""
    names = ["a", "b.log", "build", "kept", "x.tmp", "ö", "with space", "-dash", "kept.log", "new\nline"]
    lines = ["*.log", "build/", "/a", "!kept.log", "b*", "# none", "sub/x", "**/deep", "\\-dash", "with space"]
    folders = [root]
    for _ in range(60):
        folder = chance.choice(folders)
        path = folder / chance.choice([*names, "sub", "deep"])
        if os.path.lexists(path):
            continue
        kind = chance.random()
        if kind < 0.35:
            path.mkdir(mode=chance.choice([0o755, 0o700]))
            folders.append(path)
        elif kind < 0.45:
            path.symlink_to(chance.choice(["a", "/nowhere", "../sub"]))
        else:
            path.write_text(chance.choice(["", "1", "2" * 5000]))
            path.chmod(chance.choice([0o644, 0o755, 0o600]))
    for folder in chance.sample(folders, min(4, len(folders))):
        (folder / ".gitignore").write_text("\n".join(chance.sample(lines, 3)) + "\n")


# Processes


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[Git, Path]:
    """A git whose command `stand-in` starts another process, tells of it in a file, and waits for ever."""
    told = tmp_path / "told"
    script = f"sleep 1000 & echo $! > '{told}.new'; mv '{told}.new' '{told}'; trap '' TERM; wait; wait; sleep 1000"
    return Git(tmp_path, tmp_path, settings=[f"alias.stand-in=!{script}"]), told


def is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_a_git_that_takes_too_long_is_ended_with_all_that_it_started(
    stubborn: tuple[Git, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in, told = stubborn
    monkeypatch.setattr(runner, "_GRACE_SECONDS", 0.1)
    with pytest.raises(StorageFailureError) as caught:
        stand_in.run("stand-in", deadline=2.0)
    assert (caught.value.data["errno"], caught.value.retryable) == ("ETIMEDOUT", True)
    if told.exists():
        wait_until(lambda: not is_alive(int(told.read_text())))


def test_a_git_that_is_not_wanted_any_more_is_ended_with_all_that_it_started(
    stubborn: tuple[Git, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in, told = stubborn
    monkeypatch.setattr(runner, "_GRACE_SECONDS", 0.1)
    with pytest.raises(CancelledError):
        stand_in.run("stand-in", control=Control(cancelled=told.exists))
    wait_until(lambda: not is_alive(int(told.read_text())))


# What is left out


@pytest.mark.parametrize("where", mostly_long(["exclude", "default", "user", "repository"], every=2))
@pytest.mark.parametrize("below", ["", "sub"])
def test_what_the_user_leaves_out_is_neither_saved_nor_changed(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, below: str
) -> None:
    person = tmp_path / "person"
    (person / ".config/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    put(root, kept="k", sub__kept="k")
    git(root, "init", "-q")
    lines = "*.secret\n/sub/anchored\nsub/private/\n"
    if where == "exclude":
        (root / ".git/info/exclude").write_text(lines)
    elif where == "default":
        (person / ".config/git/ignore").write_text(lines)
    else:
        (person / "ignore").write_text(lines)
        if where == "user":
            (person / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignore\n")
        else:
            git(root, "config", "core.excludesFile", str(person / "ignore"))
    secrets = [root / name for name in ("sub/a.secret", "sub/anchored", "sub/private/p", "sub/deep/b.secret")]
    for path in secrets:
        path.parent.mkdir(exist_ok=True)
        path.write_text("1")
    tree = open_tree(folder=root / below)
    taken = tree.snapshot().snapshot_id
    for path in (*secrets, root / "sub/kept"):
        path.write_text("2")
    go_back(tree, taken)
    assert [path.read_text() for path in secrets] == ["2"] * len(secrets)
    assert (root / "sub/kept").read_text() == "k"
    (root / "sub/a.secret").unlink()
    go_back(tree, taken)
    assert not (root / "sub/a.secret").exists()


def test_a_snapshot_of_nothing_new_starts_few_processes(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, a="1")
    git(root, "init", "-q")
    tree.snapshot()
    started: list[str] = []
    real = subprocess.Popen

    def counted(arguments: list[str], **how: object) -> object:
        started.append(arguments[0])
        return real(arguments, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", counted)
    tree.snapshot()
    assert len(started) <= 6
