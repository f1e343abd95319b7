"""Two processes on one session: the lock, followers, and programs that take no lock (G5)."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Framing
from tests.support.matching import A_STRING, TIME, at_least
from tests.support.session import Session, user


def test_the_second_gets_sessionLocked_naming_the_owner(start: StartServer, framing: Framing) -> None:
    first, second = start(framing), start(framing)
    Session.open(first, "s").say("x")
    error = second.refuse("session/open", sessionId="s", attach=False)
    assert error == {
        "code": 4003,
        "message": A_STRING,
        "data": {
            "kind": "sessionLocked",
            "retryable": True,
            "owner": at_least({"pid": first.process.pid, "host": socket.gethostname(), "since": TIME}),
        },
    }


def test_the_lock_is_free_when_the_owner_closes_or_dies(start: StartServer) -> None:
    first, second, third = start(), start(), start()
    session = Session.open(first, "s")
    session.say("first")
    session.call("session/close")
    Session.open(second, "s", attach=False).say("second")
    assert first.refuse("session/open", sessionId="s", attach=False)["code"] == 4003
    second.kill()
    assert Session.open(third, "s", attach=False).texts() == ["first", "second"]


def test_two_opens_of_one_owner_hold_the_lock_until_the_last_close(start: StartServer) -> None:
    first, second = start(), start()
    session = Session.open(first, "s")
    session.reopen(first)
    session.call("session/close")
    assert second.refuse("session/open", sessionId="s", attach=False)["code"] == 4003
    session.call("session/close")
    assert Session.open(second, "s", attach=False).state["access"] == "owner"


def test_a_fork_that_is_asked_for_again_is_closed_by_as_many_closes(start: StartServer) -> None:
    first, second = start(), start()
    Session.open(first, "s").say("x")
    params = {"sessionId": "s", "newSessionId": "f", "requestId": "fork"}
    for fork in [Session(first, first.call("session/fork", **params)) for _ in range(2)]:
        assert second.refuse("session/open", sessionId="f", attach=False)["code"] == 4003
        fork.call("session/close")
    assert Session.open(second, "f", attach=False).state["access"] == "owner"


def test_a_reader_does_not_hold_the_lock(start: StartServer) -> None:
    first, second = start(), start()
    Session.open(first, "s").call("session/close")
    Session.open(first, "s", access="readOnly")
    assert Session.open(second, "s", attach=False).state["access"] == "owner"


def test_a_follower_is_told_and_sees_what_the_owner_writes(start: StartServer, framing: Framing) -> None:
    owner, follower = start(framing), start(framing)
    session = Session.open(owner, "s")
    session.say("0")
    reader = Session.open(follower, "s", access="readOnly", attach=False)
    assert (reader.state["access"], reader.texts()) == ("readOnly", ["0"])
    for number in range(1, 4):
        before = len(follower.received)
        session.say(str(number))
        told = follower.heard("context/didChange", since=before, kind="external")
        assert told == {"sessionId": "s", "head": A_STRING, "kind": "external", "cause": {}}
        assert reader.texts() == [str(n) for n in range(number + 1)]
        assert reader.head == session.head


def test_a_follower_sees_a_rewrite(start: StartServer) -> None:
    owner, follower = start(), start()
    session = Session.open(owner, "s")
    session.checkpoint()
    session.say("a", "b", "c")
    reader = Session.open(follower, "s", access="readOnly", attach=False)
    for method, params in (
        ("context/revertTo", {"checkpointId": 0}),
        ("context/restoreTimeline", {"timelineId": "context_1"}),
        ("context/clear", {}),
    ):
        before = len(follower.received)
        session.call(method, **params)
        follower.heard("context/didChange", since=before, kind="external")
        assert reader.get_state()["context"]["messageCount"] == session.get_state()["context"]["messageCount"]
        assert reader.texts() == session.texts()
        assert reader.timelines() == session.timelines()


def test_a_follower_writes_nothing(start: StartServer) -> None:
    owner, follower = start(), start()
    session = Session.open(owner, "s")
    session.say("x")
    listing = sorted((path.name, path.stat().st_size) for path in session.path.iterdir())
    reader = Session.open(follower, "s", access="readOnly", attach=False)
    assert reader.refuse("context/appendMessage", message=user("y"))["code"] == 4004
    assert reader.refuse("session/setYolo", yolo=True)["code"] == 4004
    assert sorted((path.name, path.stat().st_size) for path in session.path.iterdir()) == listing


def test_a_follower_outlives_the_owner(start: StartServer) -> None:
    owner, follower, next_owner = start(), start(), start()
    Session.open(owner, "s").say("a")
    reader = Session.open(follower, "s", access="readOnly", attach=False)
    owner.kill()
    assert reader.texts() == ["a"]
    before = len(follower.received)
    Session.open(next_owner, "s", attach=False).say("b")
    follower.heard("context/didChange", since=before, kind="external")
    assert reader.texts() == ["a", "b"]


def test_reading_a_session_owned_elsewhere_without_opening_it(start: StartServer) -> None:
    owner, other = start(), start()
    session = Session.open(owner, "s", title="T")
    session.say("x")
    state = other.call("session/getState", sessionId="s")
    assert (state["title"], state["context"]["messageCount"], state["head"]) == ("T", 1, session.head)
    fork = Session(other, other.call("session/fork", sessionId="s"))
    assert fork.texts() == ["x"]


def test_the_same_session_by_path_and_by_id_is_one_lock(start: StartServer, tmp_path: Path) -> None:
    first, second = start(), start(at=tmp_path / "other-home")
    session = Session.open(first, "s")
    error = second.refuse("session/open", path=str(session.path), access="write", attach=False)
    assert error["code"] == 4003


# programs that take no lock


def append_behind_its_back(session: Session, text: str = "foreign") -> None:
    with session.log.open("ab") as log:
        log.write(b'{"role": "user", "content": "%s"}\n' % text.encode())


def test_a_foreign_append_stops_our_writes_until_a_reload(start: StartServer, framing: Framing) -> None:
    server = start(framing)
    session = Session.open(server, "s")
    session.say("ours")
    head = session.head
    append_behind_its_back(session)
    before = session.log.read_bytes()
    for method, params in (
        ("context/appendMessage", {"message": user("x")}),
        ("context/checkpoint", {}),
        ("context/clear", {}),
        ("context/appendMessage", {"messages": [user("x"), user("y")]}),
    ):
        error = session.refuse(method, **params)
        assert (error["code"], error["data"]["kind"]) == (4015, "externallyModified"), method
    assert session.log.read_bytes() == before
    state = session.call("session/reload")
    assert state["context"]["messageCount"] == 2 and state["head"] != head
    assert session.texts() == ["ours", "foreign"]
    session.say("ours again")
    assert session.texts() == ["ours", "foreign", "ours again"]


@pytest.mark.parametrize("change", ["truncate", "replace", "remove", "same size", "half line"])
def test_any_foreign_change_is_noticed_before_the_next_write(start: StartServer, change: str) -> None:
    server = start()
    session = Session.open(server, "s")
    session.say("one", "two", "three")
    data = session.log.read_bytes()
    other = session.path / "other"
    if change == "truncate":
        session.log.write_bytes(data[: len(data) // 2])
    elif change == "replace":
        other.write_bytes(data + b'{"role":"user","content":"four"}\n')
        other.rename(session.log)
    elif change == "remove":
        session.log.unlink()
    elif change == "same size":
        other.write_bytes(data.replace(b"two", b"TWO"))
        other.rename(session.log)
    else:
        with session.log.open("ab") as log:
            log.write(b'{"role": "us')
    error = session.refuse("context/appendMessage", message=user("x"))
    assert error["code"] in (4015, 4014, 4005), error
    left = session.log.read_bytes() if session.log.exists() else b""
    assert b'"x"' not in left
    session.call("session/reload")
    session.say("next")
    expected = {
        "truncate": ["one", "next"],
        "replace": ["one", "two", "three", "four", "next"],
        "remove": ["next"],
        "same size": ["one", "TWO", "three", "next"],
        "half line": ["one", "two", "three", "next"],
    }[change]
    assert session.texts() == expected


def test_a_reload_without_need_is_harmless(start: StartServer) -> None:
    session = Session.open(start(), "s")
    session.say("x")
    before = session.get_state()
    after = session.call("session/reload")
    assert {**after, "head": None} == {**before, "head": None}
    session.say("y")


def test_a_follower_of_a_program_that_takes_no_lock_is_told(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.say("x")
    session.call("session/close")
    reader = session.reopen(server, access="readOnly")
    before = len(server.received)
    append_behind_its_back(session)
    assert server.heard("context/didChange", since=before, kind="external")["cause"] == {}
    assert reader.texts() == ["x", "foreign"]


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_stale_owner_record_names_nobody(start: StartServer) -> None:
    first, second = start(), start()
    Session.open(first, "s")
    first.kill()
    assert "owner" not in second.call("session/list")["sessions"][0]
    assert Session.open(second, "s", attach=False).state["access"] == "owner"
