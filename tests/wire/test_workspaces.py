"""A session of a folder is found by every spelling of the folder's URI, whoever wrote it, in old stores, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import ROOT
from tests.support.cli import Cli
from tests.support.fixtures import Engine, StartServer
from tests.support.server import Server
from tests.support.session import Session

TABLE: list[Any] = json.loads((ROOT / "protocol" / "folder-uris.json").read_text(encoding="utf-8"))
FOLDERS = [row for row in TABLE if row["canonical"] and not any("\ud800" in each for each in row["spellings"])]


def found(server: Server, workspace: str) -> list[str]:
    listed = [info["sessionId"] for info in server.call("session/list", workspace=workspace)["sessions"]]
    latest = server.call("session/latest", workspace=workspace)["session"]
    assert listed[:1] == ([] if latest is None else [latest["sessionId"]])
    return listed


def test_a_session_is_found_by_every_spelling(start: StartServer) -> None:
    server = start()
    for at, row in enumerate(FOLDERS):
        spellings = [*row["spellings"], row["canonical"]]
        opened = server.call("session/open", sessionId=f"s{at}", workspace=spellings[0])
        assert opened["workspace"] == row["canonical"]
        for spelling in spellings:
            assert found(server, spelling) == [f"s{at}"], spelling


def test_a_workspace_is_set_in_its_one_form(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.call("session/setWorkspace", workspace="file:///c%3A/Users/me%40here/")
    assert session.get_state()["workspace"] == "file:///C:/Users/me@here"
    told = server.heard("session/didChange", kind="workspaceChanged")
    assert told["workspace"] == "file:///C:/Users/me@here"
    assert found(server, "file:///C%3a/Users/me@here") == ["s"]
    fork = session.call("session/fork", newSessionId="t")
    assert fork["sessionId"] == "t"
    assert sorted(found(server, "file:///C:/Users/me@here")) == ["s", "t"]


def test_a_store_of_an_earlier_release_is_read_with_it(start: StartServer, home: Path, engine: Engine) -> None:
    server = start()
    Session.open(server, "old", workspace="file:///w/app")
    assert server.finish() == 0
    kept = home / "sessions" / "old" / "timeleap.json"
    document = json.loads(kept.read_text())
    kept.write_text(
        json.dumps({**document, "workspace": "file:///w/%61pp/", "files": {"mode": "off", "roots": ["file:/w/%61pp/"]}})
    )
    server = start()
    assert found(server, "file:///w/app") == ["old"]
    assert found(server, "file:///w/a%70p/") == ["old"]
    assert Session.open(server, "old").get_state()["workspace"] == "file:///w/app"
    assert server.call("session/latest", workspace="file://localhost/w/app")["session"]["workspace"] == "file:///w/app"


def test_a_root_is_named_by_any_spelling(start: StartServer, tmp_path: Path) -> None:
    roots = [tmp_path / "@one", tmp_path / "two~"]
    for root in roots:
        root.mkdir()
        (root / "a.txt").write_text("one\n")
    spellings = [f"{tmp_path.as_uri()}/%40one/", f"file://localhost{tmp_path}/two%7e"]
    session = Session.open(start(), "s", files={"mode": "checkpoint", "roots": spellings})
    first = session.call("files/snapshot")["snapshot"]
    (roots[0] / "a.txt").write_text("two\n")
    for spelling in (spellings[0], f"{tmp_path.as_uri()}/@one"):
        read = session.call("files/read", snapshot=first, root=spelling, path="a.txt")
        assert read["bytes"] == 4
    session.call(
        "files/restore",
        to={"snapshot": first},
        root=f"{tmp_path.as_uri()}/%40one",
        paths=["a.txt"],
        onConflict="overwrite",
    )
    assert (roots[0] / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("name", ["@scope", "c++", "draft (2)", "a=b&c", "tilde~", "ünï", "100%"])
def test_the_command_line_finds_what_an_editor_made(
    start: StartServer, home: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from urllib.parse import quote

    folder = tmp_path / name
    folder.mkdir()
    Session.open(start(), "s", workspace=f"file://{quote(str(tmp_path))}/{quote(name, safe='')}")
    Session.open(start(), "other", workspace=tmp_path.as_uri())
    monkeypatch.chdir(folder)
    assert Cli(home).json("state")["sessionId"] == "s"
