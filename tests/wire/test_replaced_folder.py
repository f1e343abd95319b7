"""A session's folder, or its lock alone, is replaced under the process that owns it: there is one owner at any time, what
was acknowledged is in one place, and `session/reload` owns the session again or attaches to its owner."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.fixtures import StartServer
from tests.support.server import Launch, Server
from tests.support.session import Session, user

LOCK = ".context.jsonl.lock"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers on one home: what is replaced is a session of the test's own."""
    home = tmp_path_factory.mktemp("replaced") / "home"
    servers = Server(Launch(home, "lsp")), Server(Launch(home, "lsp"))
    for server in servers:
        server.initialize()
    yield servers
    for server in servers:
        server.dispose()


def moved_and_copied(path: Path, aside: Path) -> None:
    path.rename(aside)
    shutil.copytree(aside, path)


def synced_from_a_copy(path: Path, aside: Path) -> None:
    """Each file is put in its place under another name first, as `rsync -a --delete` does."""
    shutil.copytree(path, aside)
    for file in path.iterdir():
        put = path / f".{file.name}.Xy12"
        shutil.copy2(aside / file.name, put)
        put.rename(file)


def removed_and_restored(path: Path, aside: Path) -> None:
    archive = aside.with_suffix(".tar")
    subprocess.run(["tar", "-cf", archive, "-C", path.parent, path.name], check=True)
    shutil.rmtree(path)
    subprocess.run(["tar", "-xf", archive, "-C", path.parent], check=True)


def copied_and_exchanged(path: Path, aside: Path) -> None:
    """The copy is made under another name, which is given to the old folder: both have had both names."""
    copy = aside.with_name(aside.name + "-copy")
    shutil.copytree(path, copy)
    path.rename(aside)
    copy.rename(path)


def copied_without_hidden_files(path: Path, aside: Path) -> None:
    path.rename(aside)
    path.mkdir()
    for file in aside.glob("[!.]*"):
        shutil.copy2(file, path)


def linked_copy(path: Path, aside: Path) -> None:
    """As `cp -al`, but of the lock: the log is one file in both folders."""
    path.rename(aside)
    path.mkdir()
    for file in aside.iterdir():
        (shutil.copy2 if file.name == LOCK else os.link)(file, path / file.name)


def all_sessions(path: Path, aside: Path) -> None:
    moved_and_copied(path.parent, aside)


def lock_removed(path: Path, _: Path) -> None:
    (path / LOCK).unlink()


def lock_replaced(path: Path, aside: Path) -> None:
    aside.write_bytes((path / LOCK).read_bytes() if (path / LOCK).exists() else b"")
    aside.rename(path / LOCK)


Replace = Callable[[Path, Path], None]
FOLDER: list[Replace] = [
    moved_and_copied,
    synced_from_a_copy,
    removed_and_restored,
    copied_and_exchanged,
    copied_without_hidden_files,
    linked_copy,
    all_sessions,
]
KINDS = [pytest.param(kind, id=kind.__name__) for kind in [*FOLDER, lock_removed, lock_replaced]]
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("context/appendMessage", {"message": user("stale")}),
    ("context/checkpoint", {}),
    ("context/revertTo", {"checkpointId": 0}),
    ("context/clear", {}),
    ("session/setTitle", {"title": "stale"}),
    ("session/setYolo", {"yolo": True}),
    ("context/sendDMail", {"checkpointId": 0, "message": "stale"}),
    ("session/archive", {}),
]


def made(server: Server) -> Session:
    session = Session.open(server)
    session.checkpoint()
    session.say("one", "two")
    return session


def replace_folder(how: Replace, session: Session, tmp_path: Path) -> None:
    how(session.path, tmp_path / "aside")


@pytest.mark.parametrize("how", KINDS)
def test_the_one_who_opens_what_was_put_back_is_the_only_owner(
    pair: tuple[Server, Server], tmp_path: Path, how: Replace
) -> None:
    first = made(pair[0])
    replace_folder(how, first, tmp_path)
    second = first.reopen(pair[1])
    assert second.state["access"] == "owner"
    second.call("session/setTitle", title="of the second")
    for method, params in CHANGES:
        assert first.refuse(method, **params)["data"]["kind"] == "externallyModified", method
    second.say("three")
    assert second.texts() == ["one", "two", "three"]
    assert (second.get_state()["title"], second.get_state()["approval"]["yolo"]) == ("of the second", False)
    state = first.call("session/reload")
    assert (state["access"], state["title"]) == ("attached", "of the second")
    first.say("four")
    assert second.texts() == first.texts() == ["one", "two", "three", "four"]
    first.call("session/close")
    second.call("session/close")


@pytest.mark.parametrize("how", KINDS)
def test_a_reload_owns_what_was_put_back(pair: tuple[Server, Server], tmp_path: Path, how: Replace) -> None:
    first = made(pair[0])
    replace_folder(how, first, tmp_path)
    assert first.refuse("context/appendMessage", message=user("stale"))["data"]["kind"] == "externallyModified"
    assert first.call("session/reload")["access"] == "owner"
    first.say("three")
    assert pair[1].refuse("session/open", sessionId=first.id, attach=False)["data"]["kind"] == "sessionLocked"
    second = first.reopen(pair[1])
    assert second.state["access"] == "attached"
    second.say("four")
    assert second.texts() == first.texts() == ["one", "two", "three", "four"]
    second.call("session/close")
    first.call("session/close")
    assert first.reopen(pair[1]).state["access"] == "owner"


@pytest.mark.parametrize("how", [moved_and_copied, lock_removed])
def test_those_who_are_attached_find_the_owner_of_what_was_put_back(
    pair: tuple[Server, Server], tmp_path: Path, how: Replace
) -> None:
    first = made(pair[0])
    attached = first.reopen(pair[1])
    replace_folder(how, first, tmp_path)
    third = Server(Launch(pair[0].home, "lsp"))
    try:
        third.initialize()
        owner = first.reopen(third)
        assert owner.state["access"] == "owner"
        assert attached.refuse("context/appendMessage", message=user("stale"))["data"]["kind"] == "externallyModified"
        assert first.call("session/reload")["access"] == "attached"
        attached.say("three")
        first.say("four")
        assert owner.texts() == first.texts() == attached.texts() == ["one", "two", "three", "four"]
    finally:
        third.dispose()
    first.say("five")
    assert first.texts() == attached.texts()


def test_the_owner_deletes_a_session_for_the_one_who_owned_it_before(
    pair: tuple[Server, Server], tmp_path: Path
) -> None:
    first = made(pair[0])
    replace_folder(moved_and_copied, first, tmp_path)
    second = first.reopen(pair[1], attach=False)
    since = len(pair[1].received)
    pair[0].call("session/delete", sessionId=first.id)
    pair[1].heard("session/didChange", since=since, kind="deleted")
    assert second.refuse("context/appendMessage", message=user("three"))["data"]["kind"] == "sessionNotFound"
    pair[1].call("session/undelete", sessionId=first.id)
    assert first.reopen(pair[0]).texts() == ["one", "two"]


def test_a_session_that_was_away_for_a_moment_is_what_it_was(pair: tuple[Server, Server], tmp_path: Path) -> None:
    first = made(pair[0])
    first.call("session/setTitle", title="kept")
    first.call("context/appendMessage", message=user("three"), requestId="three")
    described = (first.path / "timeleap.json").read_bytes()
    first.path.rename(tmp_path / "aside")
    first.refuse("session/reload")
    assert first.get_state()["context"]["messageCount"] == 3
    (tmp_path / "aside").rename(first.path)
    assert (first.path / "timeleap.json").read_bytes() == described
    state = first.call("session/reload")
    assert (state["access"], state["title"], state["warnings"]) == ("owner", "kept", [])
    assert first.call("context/appendMessage", message=user("three"), requestId="three")["duplicate"] is True
    assert first.texts() == ["one", "two", "three"]


def test_the_state_of_what_was_replaced_says_so_before_anything_is_written(
    pair: tuple[Server, Server], tmp_path: Path
) -> None:
    first = made(pair[0])
    replace_folder(lock_replaced, first, tmp_path)
    warning = next(one for one in first.get_state()["warnings"] if one["kind"] == "externallyModified")
    assert "lock" in warning["message"] and "reload" in warning["message"]
    first.call("session/reload")
    assert first.get_state()["warnings"] == []


def test_a_command_and_a_server_do_not_both_own_what_was_put_back(pair: tuple[Server, Server], tmp_path: Path) -> None:
    first = made(pair[0])
    replace_folder(moved_and_copied, first, tmp_path)
    cli = Cli(pair[0].home)
    cli.run("append", first.id, input='{"role":"user","content":"three"}\n')
    assert first.refuse("context/appendMessage", message=user("stale"))["data"]["kind"] == "externallyModified"
    first.call("session/reload")
    first.say("four")
    assert first.texts() == ["one", "two", "three", "four"]


def test_a_question_in_a_folder_that_was_replaced_does_not_keep_the_server_from_its_end(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.append(user("one"))
    pending = session.start("approval/request", action="run", description="ls")
    session.get_state()
    session.path.rename(session.path.with_name("away"))
    shutil.copytree(session.path.with_name("away"), session.path)
    assert server.finish() == 0
    assert "error" in pending.reply()
