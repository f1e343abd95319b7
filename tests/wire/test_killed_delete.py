"""A delete that a crash cut short, or in a store that was moved: approvals count again only by an undelete."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.scene import until
from tests.support.server import Server
from tests.support.session import Session, user

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal")


def killed(start: StartServer, point: str) -> Path:
    """Kill a server in a delete of a session where everything runs without asking; returns the session's directory."""
    server = start(failpoints=f"{point}=kill")
    session = Session.open(server, "a")
    session.append(user("kept"))
    session.call("session/setYolo", yolo=True)
    session.start("session/delete", requestId="gone")
    server.wait()
    return session.path


@pytest.fixture
def key_file(home: Path) -> Path:
    """Where the server under test has its key."""
    return home.parent / "user" / "key"


def yolo(server: Server, name: str = "a") -> bool:
    session = Session.open(server, name, create=False)
    return bool(session.call("session/isApproved", action="anything")["approved"])


def settled(key_file: Path) -> bool:
    """Whether what is noted beside the key says that a session is retired."""
    noted = json.loads(key_file.with_name(key_file.name + ".revisions.json").read_text())
    return any(isinstance(number, int) and number < 0 for number in noted.values())


def put_back(home: Path, path: Path) -> None:
    (trashed,) = (home / "trash").iterdir()
    shutil.move(str(trashed), str(path))


def test_after_the_next_start_a_folder_put_back_by_hand_has_its_approvals_off(
    start: StartServer, home: Path, key_file: Path
) -> None:
    path = killed(start, "store.trashed")
    assert not settled(key_file)
    server = start()
    assert [one["sessionId"] for one in server.call("session/listTrash")["sessions"]] == ["a"]
    until(lambda: settled(key_file))
    put_back(home, path)
    assert not yolo(server)
    server.kill()
    assert not yolo(start())


def test_files_of_it_switch_nothing_on_in_a_successor(start: StartServer, home: Path) -> None:
    path = killed(start, "store.trashed")
    server = start()
    Session.open(server, "a")
    server.call("session/close", sessionId="a")
    (trashed,) = (home / "trash").iterdir()
    for name in ("state.json", "timeleap.json"):
        shutil.copy(trashed / name, path / name)
    assert not yolo(server)


@pytest.mark.parametrize("point", ["store.trashed", "store.moved"])
def test_an_undelete_brings_the_approvals_back(start: StartServer, point: str) -> None:
    killed(start, point)
    server = start()
    assert server.call("session/delete", sessionId="a", requestId="gone") == {"duplicate": True}
    server.call("session/undelete", sessionId="a")
    assert yolo(server)


def test_a_delete_that_did_not_happen_changes_no_approval(start: StartServer, home: Path, key_file: Path) -> None:
    path = killed(start, "store.before_move@2")  # the first is the making of it
    server = start()
    assert yolo(server)
    server.call("session/delete", sessionId="a", requestId="gone")
    assert settled(key_file)
    server.call("session/undelete", sessionId="a")
    assert yolo(server)
    server.call("session/delete", sessionId="a", requestId="again")
    put_back(home, path)
    assert not yolo(server)


def test_what_is_purged_is_forgotten_beside_the_key(start: StartServer, key_file: Path) -> None:
    killed(start, "store.trashed")
    start().call("session/purge", sessionId="a")
    noted = json.loads(key_file.with_name(key_file.name + ".revisions.json").read_text())
    assert "places" not in noted and not settled(key_file)


def test_a_delete_in_a_store_that_was_moved(start: StartServer, start_at: StartServer, home: Path) -> None:
    server = start()
    for name in ("a", "b"):
        Session.open(server, name).call("session/setYolo", yolo=True)
    server.finish()
    moved = home.with_name("moved")
    home.rename(moved)
    server = start_at(moved)
    server.initialize()
    for name in ("a", "b"):  # neither was opened since
        server.call("session/delete", sessionId=name)
    server.call("session/undelete", sessionId="b")
    put_back(moved, moved / "sessions" / "a")
    assert (yolo(server, "a"), yolo(server, "b")) == (False, True)
