"""`session/list`."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from tests.support.fixtures import Engine, StartServer
from tests.support.matching import TIME
from tests.support.server import Server
from tests.support.session import Session


def ids(server: Server, **params: object) -> list[str]:
    return [info["sessionId"] for info in server.call("session/list", **params)["sessions"]]


@pytest.fixture
def store(start: StartServer) -> Server:
    return start()


def test_an_empty_store_has_no_sessions(store: Server) -> None:
    assert store.call("session/list") == {"sessions": []}


def test_an_entry_tells_what_a_picker_needs(store: Server, engine: Engine) -> None:
    session = Session.open(store, "s", title="Title", workspace="file:///w")
    session.say("x" * 40)
    session.call("context/updateTokenCount", tokenCount=7)
    entry = {
        "sessionId": "s",
        "title": "Title",
        "path": session.state["path"],
        "workspace": "file:///w",
        "createdAt": TIME,
        "updatedAt": TIME,
        "archived": False,
        "messageCount": 1,
        "tokenCount": 7,
        "tokenCountWithPending": 7,
    }
    owner = {"pid": store.process.pid, "host": socket.gethostname(), "since": TIME}
    assert store.call("session/list") == {"sessions": [{**entry, "owner": owner} if engine == "jsonl" else entry]}
    session.call("session/close")
    assert store.call("session/list") == {"sessions": [entry]}


@pytest.mark.parametrize("index", [True, False])
def test_an_entry_has_the_token_number_that_the_open_session_has(store: Server, *, index: bool) -> None:
    session = Session.open(store, "s")
    session.call("context/updateTokenCount", tokenCount=7)
    session.say("x" * 40)
    context = session.get_state()["context"]
    session.call("session/close")
    if not index:
        for file in session.path.glob("*.idx*"):
            file.unlink()
    (entry,) = store.call("session/list")["sessions"]
    counts = {name: entry[name] for name in ("tokenCount", "tokenCountWithPending")}
    assert counts == {"tokenCount": 7, "tokenCountWithPending": 17}
    assert counts == {name: context[name] for name in counts}


def test_a_session_open_in_another_process_names_its_owner(start: StartServer) -> None:
    first, second = start(), start()
    Session.open(first, "s")
    (info,) = second.call("session/list")["sessions"]
    assert info["owner"]["pid"] == first.process.pid
    first.kill()
    (info,) = second.call("session/list")["sessions"]
    assert "owner" not in info


def test_the_newest_change_comes_first(store: Server) -> None:
    for name in ("a", "b", "c"):
        Session.open(store, name)
    assert ids(store) == ["c", "b", "a"]
    store.call("context/appendMessage", sessionId="a", message={"role": "user", "content": "x"})
    assert ids(store) == ["a", "c", "b"]
    store.call("session/setTitle", sessionId="b", title="t")
    assert ids(store) == ["b", "a", "c"]


def test_pages_by_cursor_hold_every_session_once(store: Server) -> None:
    for number in range(25):
        Session.open(store, f"s{number:02}").call("session/close")
    everything: list[str] = []
    pages, cursor = 0, dict[str, str]()
    while True:
        page = store.call("session/list", limit=10, **cursor)
        everything += [info["sessionId"] for info in page["sessions"]]
        pages += 1
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert pages == 3
    assert everything == [f"s{number:02}" for number in reversed(range(25))]


def test_archived_sessions_are_listed_on_request(store: Server) -> None:
    for name in ("a", "b"):
        Session.open(store, name)
    store.call("session/archive", sessionId="a")
    assert ids(store) == ["b"]
    assert sorted(ids(store, includeArchived=True)) == ["a", "b"]
    archived = {i["sessionId"]: i["archived"] for i in store.call("session/list", includeArchived=True)["sessions"]}
    assert archived == {"a": True, "b": False}


def test_a_query_looks_in_title_and_id(store: Server) -> None:
    Session.open(store, "alpha", title="Repair the Roof")
    Session.open(store, "beta", title="other")
    Session.open(store, "roofless")
    assert sorted(ids(store, query="roof")) == ["alpha", "roofless"]
    assert ids(store, query="ALPHA") == ["alpha"]
    assert ids(store, query="[") == []
    assert len(ids(store, query="")) == 3


def test_a_workspace_selects(store: Server) -> None:
    Session.open(store, "a", workspace="file:///w")
    Session.open(store, "b", workspace="file:///w/below")
    Session.open(store, "c")
    assert ids(store, workspace="file:///w") == ["a"]
    assert ids(store, workspace="file:///nowhere") == []


def latest(server: Server, **params: str) -> str | None:
    session = server.call("session/latest", **params)["session"]
    return None if session is None else str(session["sessionId"])


def test_the_latest_session_is_the_first_of_the_list(store: Server) -> None:
    assert latest(store) is None
    first = Session.open(store, "a", workspace="file:///w")
    Session.open(store, "b")
    assert (latest(store), latest(store, workspace="file:///w"), latest(store, workspace="file:///x")) == (
        "b",
        "a",
        None,
    )
    first.say("x")
    assert store.call("session/latest")["session"] == store.call("session/list", limit=1)["sessions"][0]
    assert latest(store) == "a"
    first.call("session/archive")
    assert (latest(store), latest(store, workspace="file:///w")) == ("b", None)


def test_the_workspace_can_be_set_and_taken_away(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "a")
    head = session.call("session/setWorkspace", workspace="file:///w")["head"]
    assert (head, session.get_state()["workspace"]) == (session.head, "file:///w")
    assert latest(server, workspace="file:///w") == "a"
    server.kill()
    session = Session.open(start(), "a")
    assert session.state["workspace"] == "file:///w"
    session.call("session/setWorkspace", workspace=None)
    assert "workspace" not in session.get_state()
    assert latest(session.server, workspace="file:///w") is None


@pytest.mark.parametrize("params", [{}, {"workspace": ""}, {"workspace": 3}])
def test_a_workspace_is_a_uri_or_null(store: Server, params: dict[str, object]) -> None:
    session = Session.open(store, "a", workspace="file:///w")
    error = session.refuse("session/setWorkspace", **params)
    assert (error["code"], [problem["loc"] for problem in error["data"]["errors"]]) == (-32602, [["workspace"]])
    assert session.get_state()["workspace"] == "file:///w"


def test_a_damaged_session_does_not_break_the_list(store: Server, home: Path) -> None:
    for name in ("good", "bad-state", "bad-meta", "no-log", "bad-log"):
        session = Session.open(store, name)
        session.say("x")
        session.call("session/close")
    sessions = home / "sessions"
    (sessions / "bad-state" / "state.json").write_bytes(b"\xff{")
    (sessions / "bad-meta" / "timeleap.json").write_bytes(b"{")
    (sessions / "no-log" / "context.jsonl").unlink()
    (sessions / "bad-log" / "context.jsonl").write_bytes(b"\x00\xff\n{{{\n")
    (sessions / "stray-file").write_text("x")
    (sessions / "no good id").mkdir()
    (sessions / "empty").mkdir()
    os.symlink(sessions / "good", sessions / "a-link")
    os.mkfifo(sessions / "a-fifo")
    listed = ids(store, limit=1000)
    assert {"good", "bad-state", "bad-log"} <= set(listed)
    assert not {"stray-file", "no good id", "a-link", "a-fifo"} & set(listed)


def test_a_store_removed_behind_our_back_is_an_empty_one(store: Server, home: Path) -> None:
    Session.open(store, "s").call("session/close")
    shutil.rmtree(home / "sessions" / "s")
    assert ids(store) == []
    assert store.refuse("session/getState", sessionId="s")["code"] == 4001


def test_sessions_that_are_not_open_are_listed_from_disk(start: StartServer) -> None:
    first = start()
    Session.open(first, "s", title="T").say("a", "b")
    assert first.finish() == 0
    (info,) = start().call("session/list")["sessions"]
    assert (info["sessionId"], info["title"], info["messageCount"]) == ("s", "T", 2)


def test_messages_of_a_killed_server_are_counted(start: StartServer) -> None:
    first = start()
    Session.open(first, "s", title="T").say("a", "b", "c")
    first.kill()
    (info,) = start().call("session/list")["sessions"]
    assert info["messageCount"] == 3
