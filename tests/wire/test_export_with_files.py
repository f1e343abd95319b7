"""Exports for people name the files that changed after each checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.server import Server
from tests.support.session import Session
from tests.support.workspace import Workspace, work


@pytest.fixture
def session(shared: Server, tmp_path: Path) -> Session:
    """Two checkpoints with a turn after each; the second one's end has a snapshot, too."""
    workspace = Workspace(tmp_path / "shop")
    session = workspace.open(shared)
    session.checkpoint()
    work(session, workspace)
    session.checkpoint()
    workspace.write("<b>&.txt", "x")
    session.call("files/snapshot")
    session.append({"role": "assistant", "content": "end"})
    return session


def exported(session: Session, form: str, path: Path) -> str:
    result = session.call("session/export", format=form, path=str(path))
    assert [loss for loss in result.get("losses", []) if loss["kind"] == "files"] == []
    return path.read_text(encoding="utf-8")


def test_markdown_lists_them_under_the_checkpoint(session: Session, tmp_path: Path) -> None:
    text = exported(session, "markdown", tmp_path / "a.md")
    first, second = (part.partition("## ")[0] for part in text.split("*checkpoint")[1:])
    assert "3 files changed" in first
    assert all(f"{line}\n" in first for line in ("- modified: login.py", "- added: new done", "- deleted: src/shop.py"))
    assert "1 file changed" in second
    assert "<b>" not in second


def test_the_page_has_them_with_the_checkpoint(session: Session, tmp_path: Path) -> None:
    text = exported(session, "html", tmp_path / "a.html")
    assert '"files":["modified: login.py","added: new done","deleted: src/shop.py"],"changed":3' in text


def test_files_that_are_gone_are_a_loss_and_no_failure(shared: Server, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "shop")
    session = workspace.open(shared)
    session.checkpoint()
    work(session, workspace)
    session.checkpoint()
    shutil.rmtree(workspace.folder)
    losses = session.call("session/export", format="markdown", path=str(tmp_path / "a.md"))["losses"]
    assert [loss["kind"] for loss in losses] == ["files"]
