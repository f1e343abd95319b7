"""Snapshots of files that a sync program has elsewhere, or whose folder is another one: told, and nothing is overwritten."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.mostly_long import mostly_long
from tests.support.server import Launch, Message, Server
from tests.support.session import Session


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all: each test has a folder of its own."""
    running = Server(Launch(tmp_path_factory.mktemp("content") / "home", "lsp"))
    running.initialize()
    yield running
    running.dispose()


def refs(repository: Path) -> list[Path]:
    return [path for path in (repository / "refs" / "timeleap").rglob("*") if path.is_file()]


def loose_objects(repository: Path) -> list[Path]:
    return [path for path in (repository / "objects").glob("??/*") if path.is_file()]


def packed(ending: str) -> Callable[[Path], list[Path]]:
    def found(repository: Path) -> list[Path]:
        environment = {**os.environ, "GIT_DIR": str(repository)}
        subprocess.run(["git", "repack", "-adq"], cwd=repository, env=environment, check=True)
        return list((repository / "objects" / "pack").glob(f"*{ending}"))

    return found


ORIGIN = "where it was borrowed from"
"""A document that is made anew where it is empty."""
WHERE: dict[str, Callable[[Path], list[Path]]] = {
    "refs": refs,
    "one ref": lambda repository: refs(repository)[:1],
    "objects": loose_objects,
    "a pack": packed(".pack"),
    "the index of a pack": packed(".idx"),
    ORIGIN: lambda repository: [repository / "origin.json"],
}


def emptied(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def sparse(path: Path) -> None:
    size = path.stat().st_size
    emptied(path)
    os.truncate(path, size)


HOW: dict[str, Callable[[Path], object]] = {
    "icloud": lambda path: path.rename(path.with_name(f".{path.name}.icloud")),
    "nextcloud": lambda path: path.rename(path.with_name(f"{path.name}.nextcloud")),
    "no bytes": emptied,
    "a hole": sparse,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Kept:
    """A session with a file that two snapshots have, and a third state on disk."""

    def __init__(self, store: Server, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.file = folder, folder / "a"
        self.session = Session.open(store, workspace=folder.as_uri(), files={"mode": "checkpoint"})
        self.checkpoints = []
        for text in ("first", "second", "third"):
            self.file.write_text(text)
            self.session.say(text)
            if text != "third":
                self.checkpoints.append(self.session.checkpoint()["uid"])
        before = store.home / "files"
        (self.repository,) = (
            path for path in before.iterdir() if str(folder) in (path / "origin.json").read_text("utf-8")
        )

    def back(self, **params: object) -> Message:
        """Go back to the first checkpoint's files."""
        target = {"checkpointUid": self.checkpoints[0]}
        reply: Message = self.session.start("files/restore", to=target, onConflict="overwrite", **params).reply()
        return reply


@pytest.mark.parametrize(
    ("where", "how"),
    mostly_long([(where, how) for where in WHERE for how in HOW if where != ORIGIN or "cloud" in how], every=5),
)
def test_snapshots_that_are_elsewhere_are_told_and_nothing_is_written_over_them(
    store: Server, tmp_path: Path, where: str, how: str
) -> None:
    kept = Kept(store, tmp_path / "work")
    session = kept.session
    gone = WHERE[where](kept.repository)
    saved = {path: path.read_bytes() for path in gone}
    for path in gone:
        HOW[how](path)
    there = contents(kept.repository)
    checked = session.call("session/verify")
    assert not checked["ok"]
    (problem,) = (one for one in checked["problems"] if one["file"] == "files")
    assert any(path.name in problem["message"] for path in gone)
    assert session.get_state()["files"]["problem"]["message"] == problem["message"]
    session.call("session/close")
    session = kept.session = session.reopen(store)
    assert session.state["files"]["problem"]["kind"] == "corrupted"
    replies = [kept.back(dryRun=True), kept.back()]
    replies += [session.start(method).reply() for method in ("files/list", "files/snapshot")]
    for restore in ("files", "both"):
        params = {"checkpointUid": kept.checkpoints[1], "restore": restore, "onConflict": "overwrite"}
        replies.append(session.start("context/revertTo", **params).reply())
    for reply in replies:
        told = where == "objects" or any(path.name in reply["error"]["message"] for path in gone)
        assert told and reply["error"]["data"]["kind"] == "corrupted", reply
    assert session.checkpoint()["files"]["error"]["kind"] == "corrupted"
    assert kept.file.read_text() == "third"
    after = contents(kept.repository)
    assert {name: after.get(name) for name in there} == there
    for path, data in saved.items():
        for stand_in in (path.with_name(f".{path.name}.icloud"), path.with_name(f"{path.name}.nextcloud")):
            stand_in.unlink(missing_ok=True)
        assert how in ("no bytes", "a hole") or not path.exists()
        path.write_bytes(data)
    assert session.call("session/verify")["ok"]
    assert kept.back()["result"]["files"]["modified"] == 1
    assert kept.file.read_text() == "first"


def test_snapshots_of_a_folder_that_another_one_covers_are_not_called_gone(store: Server, tmp_path: Path) -> None:
    kept = Kept(store, tmp_path / "work")
    kept.folder.rename(tmp_path / "aside")
    kept.folder.mkdir()
    snapshot = kept.session.call("files/snapshot")["snapshot"]
    replies = [kept.back(dryRun=True), kept.back()]
    params = {"checkpointUid": kept.checkpoints[1], "restore": "both"}
    replies.append(kept.session.start("context/revertTo", **params).reply())
    for reply in replies:
        assert reply["error"]["code"] == 4020, reply
        assert reply["error"]["data"]["reason"] == "rootMissing"
        assert "timeleap workspace" in reply["error"]["message"]
    assert kept.session.refuse("files/restore", to={"snapshot": "f9-0123456789ab"})["code"] == 4025
    assert [one["snapshot"] for one in kept.session.call("files/list")["snapshots"]] == [snapshot]
    kept.folder.rmdir()
    (tmp_path / "aside").rename(kept.folder)
    assert "result" in kept.back()
    assert kept.file.read_text() == "first"


def test_the_command_that_the_error_names_gives_the_folder_its_snapshots(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "home")
    server = Server(Launch(cli.home, "lsp"))
    server.initialize()
    kept = Kept(server, tmp_path / "work")
    kept.folder.rename(tmp_path / "aside")
    kept.folder.mkdir()
    kept.file.write_text("from a backup")
    message = kept.back()["error"]["message"]
    server.dispose()
    _, *words = message[message.index("timeleap workspace") :].split()
    cli.run(*words)
    server = Server(Launch(cli.home, "lsp"))
    server.initialize()
    kept.session = kept.session.reopen(server)
    assert "result" in kept.back()
    assert kept.file.read_text() == "first"
    server.dispose()
