"""Archives with the snapshots of a session's files: `session/export {withFiles}`, `session/import {folders}`."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.holding import Hold
from tests.support.mostly_long import mostly_long
from tests.support.packs import blob, pack, tree
from tests.support.server import Message, Server
from tests.support.session import Session
from tests.support.workspace import Workspace, listed, tree_of, work
from tests.wire.test_import import archive, listing, nothing_is_left, unzipped

SECRET = "sk-very-secret-0123456789"


def worked(server: Server, tmp_path: Path) -> tuple[Session, Workspace]:
    """A session with three snapshots: of a checkpoint, after a turn, and with a label."""
    workspace = Workspace(tmp_path / "shop")
    session = workspace.open(server, exclude=["*.tmp"])
    session.checkpoint(label="before")
    work(session, workspace)
    session.checkpoint()
    workspace.write("own.tmp", "left out")
    session.call("files/snapshot", label="end")
    return session, workspace


def exported(session: Session, path: Path) -> Path:
    assert session.call("session/export", format="native", path=str(path), withFiles=True)["losses"] == []
    return path


def folder(tmp_path: Path, name: str = "there") -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def take_in(server: Server, path: Path, *folders: Path, **params: object) -> Session:
    uris = [each.as_uri() for each in folders]
    return Session(server, server.call("session/import", path=str(path), folders=uris, **params))


def refused(server: Server, path: Path, *folders: Path, **params: object) -> Message:
    uris = [each.as_uri() for each in folders]
    before = sorted((server.home / "files").rglob("*")), sorted((server.home / "sessions").iterdir())
    error = server.refuse("session/import", path=str(path), folders=uris, **params)
    nothing_is_left(server)
    assert (sorted((server.home / "files").rglob("*")), sorted((server.home / "sessions").iterdir())) == before
    return error


def test_the_snapshots_arrive_and_both_goes_back(shared: Server, start: StartServer, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    then = {**workspace.tree}
    path, target = exported(session, tmp_path / "a.zip"), folder(tmp_path)
    shutil.rmtree(workspace.folder)
    new = take_in(start(at=tmp_path / "other"), path, target)
    assert (new.state["losses"], list(target.iterdir())) == ([], [])
    assert (
        new.state["files"].items() >= {"mode": "checkpoint", "roots": [target.as_uri()], "exclude": ["*.tmp"]}.items()
    )
    taken = listed(new)
    assert [each.get("label") for each in taken] == ["end", None, None]
    assert not list(new.path.glob("snapshots*"))
    new.call("files/restore", to={"snapshot": taken[0]["snapshot"]})
    del then["own.tmp"]
    assert tree_of(target) == then
    undone = new.call("context/revertTo", checkpointId=0, restore="both")
    assert undone["files"]["deleted"] == 1
    assert (target / "login.py").read_text() == "def login():\n"
    new.call("context/undo", restore="both")
    assert tree_of(target) == then


def test_without_a_folder_they_are_left_out_and_that_is_said(shared: Server, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    path = exported(session, tmp_path / "a.zip")
    new = shared.call("session/import", path=str(path))
    assert [loss["kind"] for loss in new["losses"]] == ["files"]
    assert (new["files"]["mode"], new["files"]["snapshots"]) == ("off", 0)
    assert shared.refuse("files/snapshot", sessionId=new["sessionId"])["data"]["reason"] == "notConfigured"
    assert not list(Path(new["path"]).glob("snapshots*"))
    assert workspace.tree == tree_of(workspace.folder)


def test_an_archive_without_them_is_written_as_ever(shared: Server, tmp_path: Path) -> None:
    session, _ = worked(shared, tmp_path)
    session.call("session/export", format="native", path=str(tmp_path / "a.zip"))
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        manifest = json.loads(opened.read("manifest.json"))
        assert opened.namelist() == ["manifest.json", "context.jsonl", "state.json", "timeleap.json"]
        assert "files" not in json.loads(opened.read("timeleap.json"))
    assert manifest["version"] == 1
    exported(session, tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as opened:
        assert json.loads(opened.read("manifest.json"))["version"] == 2, "earlier releases refuse it"
        whole = unzipped(tmp_path / "b.zip")
    assert {name: whole[name] for name in unzipped(tmp_path / "a.zip")} == unzipped(tmp_path / "a.zip")


def test_a_session_without_snapshots_is_exported_without(shared: Server, tmp_path: Path) -> None:
    never, workspace = Session.open(shared), Workspace(tmp_path / "shop")
    for number, session in enumerate((never, workspace.open(shared))):
        path = tmp_path / f"{number}.zip"
        losses = session.call("session/export", format="native", path=str(path), withFiles=True)["losses"]
        assert [loss["kind"] for loss in losses] == ["files"]
        assert "snapshots.json" not in unzipped(path)
        assert refused(shared, path, workspace.folder)["data"]["errors"][0]["loc"] == ["folders"]


def test_what_is_saved_though_it_is_ignored_is_for_each_to_say(shared: Server, tmp_path: Path) -> None:
    session = Workspace(tmp_path / "shop").open(shared, includeIgnored=[".env"])
    session.checkpoint()
    losses = session.call("session/export", format="native", path=str(tmp_path / "a.zip"), withFiles=True)["losses"]
    assert ["includeIgnored" in loss["message"] for loss in losses] == [True]


def test_only_an_archive_can_hold_them(shared: Server, tmp_path: Path) -> None:
    session, _ = worked(shared, tmp_path)
    error = session.refuse("session/export", format="html", path=str(tmp_path / "a.html"), withFiles=True)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["withFiles"])


def test_several_roots_arrive_in_their_order(shared: Server, tmp_path: Path) -> None:
    roots = [Workspace(tmp_path / name) for name in ("app", "lib")]
    session = roots[0].open(shared, roots=[root.uri for root in roots])
    session.checkpoint()
    for root in roots:
        root.write("name", root.folder.name)
    session.call("files/snapshot")
    path, targets = exported(session, tmp_path / "a.zip"), [folder(tmp_path, name) for name in ("one", "two")]
    assert "2 (app, lib)" in refused(shared, path, targets[0])["message"]
    new = take_in(shared, path, *targets)
    new.call("files/restore", to={"snapshot": listed(new)[0]["snapshot"]})
    assert [tree_of(target) for target in targets] == [root.tree for root in roots]


def test_the_same_session_twice_and_a_repeated_request(shared: Server, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    path = exported(session, tmp_path / "a.zip")
    first = take_in(shared, path, workspace.folder, requestId="r-files")
    again = shared.call("session/import", path=str(path), folders=[workspace.uri], requestId="r-files")
    assert (again["sessionId"], again["duplicate"]) == (first.id, True)
    second = take_in(shared, path, workspace.folder)
    ids = [each["snapshot"] for each in listed(session)]
    assert [[each["snapshot"] for each in listed(new)] for new in (first, second)] == [ids, ids]
    second.call("session/delete")
    shared.call("session/purge", sessionId=second.id)
    assert [each["snapshot"] for each in listed(first)] == ids


def test_a_redacted_session_is_exported_without_the_value(shared: Server, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    workspace.write("secret.txt", SECRET)
    session.call("files/snapshot")
    workspace.write("secret.txt", "gone")
    session.call("files/snapshot")
    assert session.call("session/redact", value=SECRET)["snapshots"]
    new = take_in(shared, exported(session, tmp_path / "a.zip"), target := folder(tmp_path))
    assert len(listed(new)) == 4
    for each in listed(new):
        new.call("files/restore", to={"snapshot": each["snapshot"]}, onConflict="overwrite")
        assert all(SECRET.encode() != content for _, content in tree_of(target).values())
    assert shared.call("session/redact", sessionId=new.id, value=SECRET)["redacted"] is False


def test_what_an_attached_window_exports_has_them(start: StartServer, tmp_path: Path) -> None:
    owner = start()
    session, _ = worked(owner, tmp_path)
    other = Session.open(start(), session.id)
    assert other.state["access"] == "attached"
    new = take_in(owner, exported(other, tmp_path / "a.zip"), folder(tmp_path))
    assert len(listed(new)) == 3


# What is refused


def test_folders_that_cannot_be_it_are_refused(shared: Server, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    path = exported(session, tmp_path / "a.zip")
    assert refused(shared, path, tmp_path / "nowhere")["data"]["reason"] == "rootMissing"
    assert refused(shared, path, Path("/"))["data"]["reason"] == "rootUnsafe"
    assert refused(shared, path, shared.home / "sessions")["data"]["reason"] == "rootUnsafe"
    assert refused(shared, path, workspace.folder, workspace.folder)["code"] == -32602
    for bad in ([], ["shop"], ["http://x/shop"], [3]):
        assert shared.refuse("session/import", path=str(path), folders=bad)["code"] == -32602
    other = tmp_path / "log.jsonl"
    other.write_text('{"role":"user","content":"x"}\n')
    assert refused(shared, other, workspace.folder)["code"] == -32602


def remade(path: Path, members: dict[str, bytes], version: int = 2) -> Path:
    said = {"format": "timeleap-session", "version": version, "members": listing(members)}
    return archive(path, members, said=json.dumps(said).encode())


def test_a_strangers_archive_is_taken_whole_or_not_at_all(shared: Server, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    good = unzipped(exported(session, tmp_path / "a.zip"))
    take_in(shared, remade(tmp_path / "good.zip", good), workspace.folder)
    content, details = blob(b"a"), blob(b"{}")
    top = tree(("100644", b".GIT", content))
    record = {"number": 1, "tree": top.oid, "details": details.oid, "createdAt": 1, "changed": 0, "ms": 0}
    root = {"folder": "x", "pack": "snapshots_1.pack", "snapshots": [record]}
    document = json.dumps({"settings": {"mode": "off"}, "roots": [root]}).encode()
    harm = {"snapshots.json": document, "snapshots_1.pack": pack([top, content, details])}
    for number, members in enumerate(
        (
            {**good, **harm},
            {**good, "snapshots_1.pack": harm["snapshots_1.pack"]},
            {**good, "snapshots.json": b"[]"},
            {name: data for name, data in good.items() if name != "snapshots_1.pack"},
            {**good, "snapshots_1.pack": good["snapshots_1.pack"][:-1]},
        )
    ):
        error = refused(shared, remade(tmp_path / f"{number}.zip", members), workspace.folder)
        assert (error["code"], error["data"]["member"].partition("_")[0][:9]) == (4014, "snapshots")
    assert refused(shared, remade(tmp_path / "old.zip", good, version=1), workspace.folder)["code"] == 4014
    assert refused(shared, remade(tmp_path / "new.zip", good, version=3), workspace.folder)["code"] == -32602


def test_what_an_archive_says_of_folders_is_not_believed(shared: Server, tmp_path: Path) -> None:
    session, _ = worked(shared, tmp_path)
    members = unzipped(exported(session, tmp_path / "a.zip"))
    victim, target = Workspace(tmp_path / "victim"), folder(tmp_path)
    said = {"mode": "turn", "roots": [victim.uri], "includeIgnored": ["*"]}
    notes = {**json.loads(members["timeleap.json"]), "workspace": victim.uri, "files": said, "filesFrom": "x"}
    document = {**json.loads(members["snapshots.json"]), "settings": {**said, "maxFiles": 7}}
    members |= {"timeleap.json": json.dumps(notes).encode(), "snapshots.json": json.dumps(document).encode()}
    path, before = remade(tmp_path / "b.zip", members), victim.tree
    new = take_in(shared, path, target)
    assert new.state["files"].items() >= {"mode": "turn", "roots": [target.as_uri()], "maxFiles": 7}.items()
    assert "includeIgnored" not in new.state["files"]
    new.call("files/restore", to={"snapshot": listed(new)[0]["snapshot"]})
    assert (victim.tree, (target / "login.py").exists()) == (before, True)
    without = shared.call("session/import", path=str(path))
    assert (without["files"]["mode"], without["files"]["snapshots"]) == ("off", 0)


# What a crash leaves

AFTERWARDS = ("store.published", "files.bundle_unpacked", "files.bundle_taken")


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
@pytest.mark.parametrize("point", mostly_long(AFTERWARDS, every=3))
def test_killed_once_it_is_in_its_place_the_next_opening_takes_them_in(
    start: StartServer, tmp_path: Path, point: str
) -> None:
    session, workspace = worked(start(), tmp_path)
    path = exported(session, tmp_path / "a.zip")
    doomed = start(failpoints=f"{point}=kill")
    doomed.start("session/import", path=str(path), folders=[workspace.uri], sessionId="new")
    doomed.wait()
    new = Session.open(start(), "new", create=False)
    assert [each["snapshot"] for each in listed(new)] == [each["snapshot"] for each in listed(session)]
    assert not list(new.path.glob("snapshots*"))
    assert not list((new.path.parents[1] / "files").glob("*/work-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
@pytest.mark.parametrize("point", ["files.bundle_judged"])
def test_killed_before_that_nothing_is_left(start: StartServer, tmp_path: Path, point: str) -> None:
    server = start()
    session, workspace = worked(server, tmp_path)
    path = exported(session, tmp_path / "a.zip")
    stored = sorted((server.home / "files").rglob("*"))
    doomed = start(failpoints=f"{point}=kill")
    doomed.start("session/import", path=str(path), folders=[workspace.uri], sessionId="new", requestId="r-1")
    doomed.wait()
    assert sorted((server.home / "files").rglob("*")) == stored
    assert server.refuse("session/open", sessionId="new", create=False)["code"] == 4001
    new = take_in(server, path, workspace.folder, sessionId="new", requestId="r-1")
    nothing_is_left(server)
    assert len(listed(new)) == 3


def test_a_cancelled_import_with_files_leaves_nothing(start: StartServer, tmp_path: Path) -> None:
    path, target = exported(worked(start(at=tmp_path / "other"), tmp_path)[0], tmp_path / "a.zip"), folder(tmp_path)
    hold = Hold("files.bundle_judged", tmp_path)
    server = start(env=hold.environment)
    pending = server.start("session/import", path=str(path), folders=[target.as_uri()], sessionId="midway")
    hold.wait()
    server.notify("$/cancelRequest", id=pending.id)
    hold.release()
    assert pending.error()["code"] == -32800
    nothing_is_left(server)
    assert server.refuse("session/getState", sessionId="midway")["code"] == 4001
    assert len(listed(take_in(server, path, target, sessionId="midway"))) == 3


@pytest.mark.long
def test_a_cancelled_export_with_files_leaves_nothing(shared: Server, tmp_path: Path) -> None:
    session, workspace = worked(shared, tmp_path)
    for number in range(2000):
        workspace.write(f"many/{number % 50}/{number}", os.urandom(2000).hex())
    session.call("files/snapshot")
    path = tmp_path / "a.zip"
    pending = session.start("session/export", format="native", path=str(path), withFiles=True, workDoneToken="t")
    shared.heard("$/progress", since=pending.sent_at)
    shared.notify("$/cancelRequest", id=pending.id)
    assert pending.error()["code"] == -32800
    assert [each.name for each in tmp_path.iterdir() if each != workspace.folder] == []
    nothing_is_left(shared)
    exported(session, path)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_what_waits_for_its_folder_goes_at_a_redaction(start: StartServer, tmp_path: Path) -> None:
    session, _ = worked(start(), tmp_path)
    path, target = exported(session, tmp_path / "a.zip"), folder(tmp_path)
    doomed = start(failpoints="store.published=kill")
    doomed.start("session/import", path=str(path), folders=[target.as_uri()], sessionId="new")
    doomed.wait()
    target.rmdir()
    new = Session.open(start(), "new", create=False)
    assert new.state["files"]["problem"]["reason"] == "rootMissing"
    assert len(list(new.path.glob("snapshots*"))) == 2
    new.say(SECRET)
    new.call("session/redact", value=SECRET)
    assert not list(new.path.glob("snapshots*"))
