"""`timeleap workspace OLD NEW`: sessions and snapshots follow a folder, and nothing happens where that is not clear."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    old = tmp_path / "old"
    (old / "inner").mkdir(parents=True)
    for folder in (old, old / "inner"):
        (folder / "a.txt").write_text("as it was")
    cli = Cli(tmp_path / "store")
    for name, folder in (("outer", old), ("inner", old / "inner")):
        monkeypatch.chdir(folder)
        cli.run("new", name, "--files")
        cli.run("checkpoint", name, "before")
    cli.run("new", "elsewhere", "--workspace", "/")
    monkeypatch.chdir(tmp_path)
    for folder in (old, old / "inner"):
        (folder / "a.txt").write_text("spoilt")
    for name in ("outer", "inner"):
        cli.run("append", name, "--role", "assistant", "done")
    return cli


def moved(tmp_path: Path) -> Path:
    """Move the folder so that neither device nor inode tell."""
    new = tmp_path / "volume" / "new"
    shutil.copytree(tmp_path / "old", new)
    os.rename(tmp_path / "old", tmp_path / "gone")
    return new


def test_sessions_and_snapshots_follow(cli: Cli, tmp_path: Path) -> None:
    new = moved(tmp_path)
    assert "workspace OLD NEW" in cli.run("revert", "outer", "0", "--restore", "both", "--yes", code=1).err
    foretold = cli.json("workspace", "./old", str(new), "--dry-run")
    assert {each["sessionId"]: each["workspace"] for each in foretold["sessions"]} == {
        "outer": new.as_uri(),
        "inner": (new / "inner").as_uri(),
    }
    assert {(each["to"], each["way"], each["snapshots"]) for each in foretold["snapshots"]} == {
        (new.as_uri(), "moved", 1),
        ((new / "inner").as_uri(), "moved", 1),
    }
    assert cli.json("workspace", "outer")["workspace"] == (tmp_path / "old").as_uri()
    said = cli.run("workspace", "./old", str(new)).out
    assert "outer" in said and "1 snapshot of 1 session" in said
    for name, folder in (("outer", new), ("inner", new / "inner")):
        cli.run("revert", name, "0", "--restore", "both", "--yes", "--on-conflict", "overwrite")
        assert (folder / "a.txt").read_text() == "as it was"
    assert cli.json("workspace", "elsewhere")["workspace"] == "file:///"
    assert "no session and no snapshot" in cli.run("workspace", "./old", str(new), code=2).err


def test_where_it_is_not_clear_nothing_happens(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    for old, new, said in (
        ("./old", "nowhere", "there is no folder"),
        ("./old", "other", "is still there"),
        ("./never", "other", "no session and no snapshot"),
    ):
        assert said in cli.run("workspace", old, new, code=2).err
    cli.run("workspace", "./old", "file", code=2)
    assert "two folders" in cli.run("workspace", "outer", "other", "--dry-run", code=2).err
    assert cli.json("workspace", "outer")["workspace"] == (tmp_path / "old").as_uri()


def test_folders_of_files_follow_too(cli: Cli, tmp_path: Path) -> None:
    cli.run("files", "mode", "elsewhere", "checkpoint", "--root", str(tmp_path / "old"))
    (tmp_path / "old/a.txt").write_text("later")
    cli.run("checkpoint", "elsewhere", "later")
    new = moved(tmp_path)
    cli.run("workspace", "./old", str(new))
    assert cli.json("files", "status", "elsewhere")["files"]["roots"] == [new.as_uri()]
    assert "f1-" in cli.run("files", "log", "elsewhere").out
