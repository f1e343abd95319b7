"""Repositories whose settings name programs, or other folders: nothing of them runs, and nothing leads out of the root."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.mostly_long import mostly_long
from tests.unit.features.files.conftest import Opener, git, go_back, put
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.features.files import git as runner

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell")

NAMES_PROGRAM = re.compile(
    r"(\.|^)([a-z]*command|\w*cmd|program|helper|editor|pager|driver|external|textconv|clean|smudge|process|askpass"
    r"|gitproxy|fsmonitor|browser|vcs|uploadpack|receivepack|packobjectshook|tunnel|difffilter|hookspath|smtpserver"
    r"|alternaterefscommand|defaultkeycommand|path|url|pushurl|proxy|\*)$",
    re.IGNORECASE,
)
HOOKS = (
    "post-index-change",
    "reference-transaction",
    "fsmonitor-watchman",
    "pre-commit",
    "post-checkout",
    "pre-auto-gc",
)
ATTRIBUTES = "* filter=evil diff=evil merge=evil working-tree-encoding=evil\n"


def program_settings(program: str) -> dict[str, str]:
    """Every setting of this git that names a program, and those that make it fetch."""
    listed = subprocess.run(["git", "help", "--config"], check=True, capture_output=True, text=True).stdout
    named = {re.sub(r"<[^>]+>|\*", "evil", name) for name in listed.split() if NAMES_PROGRAM.search(name)}
    named |= {
        "filter.evil.process",
        "filter.evil.required",
        "merge.evil.driver",
        "hook.evil.command",
        "trailer.evil.cmd",
    }
    found = {name: program for name in named if not name.lower().startswith("include")}
    return {
        **found,
        "filter.evil.required": "true",
        "hook.evil.event": "post-index-change",
        "remote.evil.url": f"ext::{program}",
        "remote.evil.promisor": "true",
        "protocol.ext.allow": "always",
        "protocol.file.allow": "always",
        "extensions.partialClone": "evil",
        "core.repositoryFormatVersion": "1",
    }


def set_traps(repository: Path, program: str) -> None:
    for name in HOOKS:
        hook = repository / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nexec {program}\n")
        hook.chmod(0o755)
    settings = list(program_settings(program).items())
    assert len(settings) > 50, settings
    for file, half in ((repository / "config", settings[::2]), (repository / "more", settings[1::2])):
        for name, value in half:
            subprocess.run(["git", "config", "--file", str(file), name, value], check=True)
    subprocess.run(["git", "config", "--file", str(repository / "config"), "include.path", "more"], check=True)
    for objects in list((repository / "objects").glob("??/*"))[:2]:
        objects.unlink()  # git would fetch what is missing


def at_root(root: Path) -> Path:
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")
    return root / ".git"


def above(root: Path) -> Path:
    git(root.parent, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")
    return root.parent / ".git"


def below(root: Path) -> Path:
    return at_root(root / "sub")


def a_worktree(root: Path) -> Path:
    main = root.parent / "main"
    main.mkdir()
    put(main, a="1")
    at_root(main)
    git(main, "worktree", "add", "-q", "--detach", str(root.parent / "linked"))
    (root.parent / "linked/.git").rename(root / ".git")
    git(root, "add", ".")
    return main / ".git"


def a_submodule(root: Path) -> Path:
    inner = at_root(root / "sub")
    git(root, "init", "-q")
    git(root, "-c", "protocol.file.allow=always", "add", ".")
    kept = root / ".git/modules/sub"
    kept.parent.mkdir()
    inner.rename(kept)
    (root / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    git(root / "sub", "config", "core.worktree", "../../../sub")
    return kept


@pytest.mark.parametrize("where", mostly_long([at_root, above, below, a_worktree, a_submodule], every=5))
def test_no_program_of_a_repository_runs(
    open_tree: Opener, root: Path, tmp_path: Path, where: Callable[[Path], Path]
) -> None:
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{ran}'\ncat\n")
    program.chmod(0o755)
    put(root, a="1", sub__b="2", sub__c_log="3")
    repository = where(root)
    set_traps(repository, str(program))
    for folder in (root, root / "sub"):
        (folder / ".gitattributes").write_text(ATTRIBUTES)
        (folder / ".gitignore").write_text("*.log\n")
    before = whole_tree(root)
    taken = open_tree().snapshot()
    put(root, a="2", sub__b=None, sub__d="new")
    open_tree().changes(taken.snapshot_id, None)
    restored = go_back(open_tree(), taken.snapshot_id)
    assert whole_tree(root) == before
    go_back(open_tree(), restored.before)
    assert (root / "sub/d").read_text() == "new"
    assert not ran.exists(), ran.read_text()


@pytest.mark.parametrize("way", ["setting", "file", "link", "included"])
def test_a_working_tree_that_is_named_elsewhere_is_left_alone(
    open_tree: Opener, root: Path, tmp_path: Path, way: str
) -> None:
    victim = tmp_path / "victim"
    put(victim, a="theirs", b="theirs")
    put(root, a="1")
    git(victim, "init", "-q")
    git(victim, "add", ".")
    if way in ("setting", "included"):
        git(root, "init", "-q")
        git(root, "add", ".")
        settings = root / ".git" / ("more" if way == "included" else "config")
        subprocess.run(["git", "config", "--file", str(settings), "core.worktree", str(victim)], check=True)
        if way == "included":
            git(root, "config", "include.path", "more")
    elif way == "file":
        (root / ".git").write_text(f"gitdir: {victim}/.git\n")
    else:
        (root / ".git").symlink_to(victim / ".git")
    theirs = whole_tree(victim, times=True)
    taken = open_tree().snapshot()
    put(root, a="2", c="3")
    go_back(open_tree(), taken.snapshot_id)
    assert (root / "a").read_text() == "1"
    assert not (root / "b").exists()
    assert whole_tree(victim, times=True) == theirs


VARIABLES = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    *("GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_EXTERNAL_DIFF", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS"),
    *("GIT_TRACE", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_SHALLOW_FILE", "GIT_QUARANTINE_PATH", "GIT_ATTR_SOURCE"),
    *("GIT_LITERAL_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_DEFAULT_HASH", "GIT_CEILING_DIRECTORIES"),
)


def test_variables_that_lead_git_elsewhere_are_not_followed(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    put(victim, a="theirs", b="theirs")
    put(root, a="1")
    for folder in (root, victim):
        git(folder, "init", "-q")
        git(folder, "add", ".")
    theirs = whole_tree(victim, times=True)
    for name in VARIABLES:
        monkeypatch.setenv(name, str(victim / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.worktree")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(victim))
    taken = open_tree().snapshot()
    put(root, a="2")
    go_back(open_tree(), taken.snapshot_id)
    assert ((root / "a").read_text(), (root / "b").exists()) == ("1", False)
    assert whole_tree(victim, times=True) == theirs


@pytest.mark.parametrize("setting", ["include.path", "core.attributesFile", "core.excludesFile"])
def test_settings_that_lead_to_a_pipe_are_asked_once_and_not_again_soon(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr(runner, "ASKING", 0.5)
    monkeypatch.setattr("timeleap.features.files.seed.ASKING", 0.5)
    put(root, a="1")
    git(root, "init", "-q")
    git(root, "add", ".")
    os.mkfifo(root / "pipe")
    with (root / ".git/config").open("a") as file:
        section, _, name = setting.partition(".")
        file.write(f"[{section}]\n\t{name} = {root}/pipe\n")
    late: list[str] = []
    real = runner._late

    def told(command: str, deadline: float) -> Exception:
        late.append(command)
        return real(command, deadline)

    monkeypatch.setattr(runner, "_late", told)
    for number in range(4):
        put(root, a=str(number))
        taken = open_tree().snapshot()
        assert [each.path for each in taken.skipped] == ["pipe"]
    assert len(late) <= 1


NESTED = ("*.secret", "/anchored", "private/", "deep/only", "!kept.secret")


@pytest.mark.parametrize("kind", mostly_long(["folder", "file", "setting"], every=3))
@pytest.mark.parametrize("carefully", [False, True])
def test_what_a_repository_within_the_root_leaves_out_is_neither_saved_nor_changed(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, carefully: bool
) -> None:
    inner = root / "odd [name]!"
    put(inner, kept="k")
    put(root, a_secret="k")
    at_root(inner)
    lines = "".join(f"{line}\n" for line in NESTED)
    if kind == "setting":
        (tmp_path / "ignore").write_text(lines)
        git(inner, "config", "core.excludesFile", str(tmp_path / "ignore"))
    else:
        (inner / ".git/info/exclude").write_text(lines)
    if kind == "file":
        (inner / ".git").rename(tmp_path / "elsewhere")
        (inner / ".git").write_text(f"gitdir: {tmp_path / 'elsewhere'}\n")
    if carefully:
        monkeypatch.setattr("timeleap.features.files.obstacles.is_obstacle", lambda *_, **__: True)
    secrets = [inner / name for name in ("x.secret", "sub/y.secret", "anchored", "private/p", "deep/only")]
    others = [*(inner / name for name in ("kept.secret", "sub/anchored", "sub/deep/only", "kept")), root / "a.secret"]
    for _ in range(2):
        for path in (*secrets, *others):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1")
        taken = open_tree().snapshot()
        for path in (*secrets, *others):
            path.write_text("2")
        go_back(open_tree(), taken.snapshot_id)
        assert [path.read_text() for path in secrets] == ["2"] * len(secrets)
        assert [path.read_text() for path in others] == ["1"] * len(others)
