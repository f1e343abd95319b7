"""Folders of agents in which other users have files, links and homes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli
from tests.support.codex_file import CodexFile

from timeleap.errors import StorageFailureError
from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.folders import look, mirror_id

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
NOBODY = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that all users can look into."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def nobody() -> Iterator[None]:
    """Another user, without the rights of root."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def session(folder: Path, workspace: str = "/shop") -> ClaudeFile:
    made = ClaudeFile(folder, workspace)
    made.turn(1)
    return made


def test_a_link_leads_only_to_what_its_maker_owns(shared: Path) -> None:
    own, outside = session(shared / "projects"), session(shared / "outside", "/other")
    os.chown(outside.path, NOBODY, NOBODY)
    links = {name: own.path.with_name(f"{name}.jsonl") for name in ("mine", "theirs")}
    for link in links.values():
        link.symlink_to(outside.path)
    (own.folder / "folder").symlink_to(outside.path.parent)
    os.chown(outside.path.parent, NOBODY, NOBODY)
    found = look("claude-code", own.folder)
    assert list(found.files) == [str(own.path)]
    assert [problem.partition(" is ")[2] for problem in found.problems] == [
        "a link to what another user owns: it is not followed"
    ] * 3
    os.lchown(links["theirs"], NOBODY, NOBODY)
    assert set(look("claude-code", own.folder).files) == {str(own.path), str(outside.path)}


def test_a_file_of_another_user_is_read_and_one_that_may_not_be_is_told(shared: Path) -> None:
    readable, closed = session(shared / "projects"), session(shared / "projects")
    behind = session(shared / "projects", "/closed")
    closed.path.chmod(0o600)
    behind.path.parent.chmod(0o700)
    with nobody():
        found = look("claude-code", readable.folder)
        log = ClaudeLog(readable.path)
        log.read()
        with pytest.raises(StorageFailureError, match="Permission denied"):
            ClaudeLog(closed.path).read()
    assert len(log.steps()) == 2
    assert set(found.files) == {str(readable.path), str(closed.path)}
    assert found.problems == [f"{behind.path.parent} cannot be read: Permission denied"]


def test_a_home_that_another_user_made_is_told_and_left_as_it_is(shared: Path) -> None:
    file = session(shared / "projects")
    cli = Cli(shared / "home", {"HOME": str(shared), "CLAUDE_CONFIG_DIR": str(shared)})
    cli.run("agents", "watch", "claude-code", "--once")
    cli.home.chmod(0o700)
    before = {str(path): path.stat().st_mtime_ns for path in cli.home.rglob("*")}
    with nobody():
        for command in (("agents", "list"), ("sessions",)):
            assert "Permission denied" in cli.run(*command, code=1).err
    assert {str(path): path.stat().st_mtime_ns for path in cli.home.rglob("*")} == before
    assert mirror_id("claude-code", file.path) in cli.run("sessions", "--json").out


def test_sessions_of_two_programs_with_one_id_are_two(tmp_path: Path) -> None:
    claude = ClaudeFile(tmp_path / "projects")
    codex = CodexFile(tmp_path / "sessions", name=claude.session_id)
    assert mirror_id("claude-code", claude.path) != mirror_id("codex", codex.path)
