"""A session that works on several folders: one snapshot of all of them, and entries that say where they belong."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from tests.support.holding import file_time_passes
from tests.support.server import Server
from tests.support.session import Session, assistant
from tests.support.workspace import Workspace, listed


@pytest.fixture
def shop(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "shop")


@pytest.fixture
def library(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "a library")


@pytest.fixture
def session(shared: Server, shop: Workspace, library: Workspace) -> Session:
    return shop.open(shared, roots=[shop.uri, library.uri])


def change_both(session: Session, shop: Workspace, library: Workspace) -> None:
    shop.write("login.py", "changed\n")
    library.write("new", "x")
    session.append(assistant("done"))


def test_one_snapshot_is_of_all_folders(session: Session, shop: Workspace, library: Workspace) -> None:
    assert session.state["files"]["roots"] == [shop.uri, library.uri]
    first = session.checkpoint()
    os.mkfifo(library.folder / "pipe")
    change_both(session, shop, library)
    result = session.call("files/snapshot")
    assert (result["changed"], result["skipped"]) == (2, [{"path": "pipe", "root": library.uri, "reason": "special"}])
    assert [kept["snapshot"] for kept in listed(session)] == [result["snapshot"], first["files"]["snapshot"]]
    assert session.get_state()["files"]["snapshots"] == 2


def test_entries_say_which_folder_they_are_of(session: Session, shop: Workspace, library: Workspace) -> None:
    before = session.call("files/snapshot")["snapshot"]
    change_both(session, shop, library)
    sides = {"from": {"snapshot": before}, "to": {}}
    changes = session.call("files/diff", **sides)["changes"]
    assert [(change["root"], change["path"]) for change in changes] == [(shop.uri, "login.py"), (library.uri, "new")]
    assert session.call("files/diff", root=library.uri, **sides)["changes"] == changes[1:]
    page = session.call("files/diff", limit=1, **sides)
    assert session.call("files/diff", cursor=page["nextCursor"], **sides) == {"changes": changes[1:]}


def test_a_path_has_to_say_which_folder_it_is_of(session: Session, shop: Workspace, library: Workspace) -> None:
    before = session.call("files/snapshot")["snapshot"]
    library.write("login.py", "other\n")
    read = session.call("files/read", snapshot=before, path="login.py", root=library.uri)
    assert base64.b64decode(read["content"]) == b"def login():\n"
    asked = {"snapshot": before, "path": "login.py"}
    for root in ({}, {"root": "file:///elsewhere"}):
        assert session.refuse("files/read", **asked, **root)["data"]["errors"][0]["loc"] == ["root"]
        error = session.refuse("files/restore", to={"snapshot": before}, paths=["login.py"], **root)
        assert error["data"]["errors"][0]["loc"] == ["root"]


def test_all_folders_go_back_and_each_is_told(session: Session, shop: Workspace, library: Workspace) -> None:
    before, made = (shop.tree, library.tree), session.checkpoint()
    change_both(session, shop, library)
    worked = shop.tree, library.tree
    pending = session.start("context/revertTo", checkpointUid=made["uid"], restore="both")
    heard = [(told["params"]["root"], told["params"]["paths"]) for told in pending.heard()[:-1]]
    assert heard == [(shop.uri, ["login.py"]), (library.uri, ["new"])]
    assert (shop.tree, library.tree) == before
    session.call("files/restore", to={"snapshot": pending.result()["files"]["before"]})
    assert (shop.tree, library.tree) == worked


def test_one_folder_alone_goes_back(session: Session, shop: Workspace, library: Workspace) -> None:
    before, made = library.tree, session.checkpoint()
    change_both(session, shop, library)
    worked = shop.tree
    session.call("files/restore", to={"checkpointUid": made["uid"]}, root=library.uri)
    assert (shop.tree, library.tree) == (worked, before)


def test_what_one_restore_undoes_is_that_restore_alone(session: Session, shop: Workspace, library: Workspace) -> None:
    made = session.checkpoint()
    change_both(session, shop, library)
    target = {"checkpointUid": made["uid"]}
    session.call("files/restore", to=target, root=library.uri)
    between = shop.tree, library.tree
    second = session.call("files/restore", to=target, root=shop.uri)["files"]
    session.call("files/restore", to={"snapshot": second["before"]})
    assert (shop.tree, library.tree) == between
    assert len({kept["snapshot"] for kept in listed(session)}) == 7


def test_a_conflict_in_one_folder_leaves_all_as_they_are(session: Session, shop: Workspace, library: Workspace) -> None:
    made = session.checkpoint()
    change_both(session, shop, library)
    file_time_passes()
    library.write("new", "mine")
    edited = shop.tree, library.tree
    error = session.refuse("files/restore", to={"checkpointUid": made["uid"]})
    assert (error["code"], error["data"]["root"], error["data"]["paths"]) == (4021, library.uri, ["new"])
    dry = session.call("files/restore", to={"checkpointUid": made["uid"]}, dryRun=True)
    assert dry["files"]["conflictPaths"] == [{"path": "new", "root": library.uri}]
    assert (shop.tree, library.tree) == edited


def test_a_folder_that_came_later_is_left_alone_by_earlier_snapshots(
    shared: Server, shop: Workspace, library: Workspace
) -> None:
    session = shop.open(shared)
    made = session.checkpoint()
    session.reopen(shared, files={"mode": "checkpoint", "roots": [shop.uri, library.uri]})
    session.call("files/snapshot")
    before = library.tree
    change_both(session, shop, library)
    result = session.call("files/restore", to={"checkpointUid": made["uid"]})
    assert (result["files"]["modified"], result["files"]["deleted"]) == (1, 0)
    assert library.tree == {**before, "new": library.tree["new"]}


def test_a_folder_that_is_missing_is_named(shared: Server, shop: Workspace, tmp_path: Path) -> None:
    gone = (tmp_path / "gone").as_uri()
    session = shop.open(shared, roots=[shop.uri, gone])
    error = session.refuse("files/snapshot")
    assert (error["code"], error["data"]["reason"], error["data"]["root"]) == (4020, "rootMissing", gone)


def test_what_one_folder_refuses_is_kept_of_none(shared: Server, shop: Workspace, library: Workspace) -> None:
    session = shop.open(shared, roots=[shop.uri, library.uri], maxFiles=2)
    library.write("one too many", "x")
    error = session.refuse("files/snapshot")
    assert (error["code"], error["data"]["root"], listed(session)) == (4023, library.uri, [])
