"""Twenty windows at once: nobody gets another's reply, nobody waits for one that is stopped, slow or gone."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING, at_least
from tests.support.peer import Peer
from tests.support.scene import Scene, changes, marks, scene_at, settle, taken_over, told_first, until
from tests.support.server import Message, Server
from tests.support.session import Session, user
from tests.support.waits import with_waits

from timeleap.attach import listener

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="SIGSTOP"),
]

MEGABYTE = "x" * (1 << 20)
QUEUE = 8 << 20
"""Bytes of notifications that wait for one connection before it is dropped."""


# twenty at once


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    """An owner and twenty attached; half of them speak one framing, half the other."""
    with scene_at(tmp_path_factory.mktemp("crowd") / "home") as scene:
        scene.window()
        scene.crowd(10, "lsp")
        scene.crowd(10, "ndjson")
        assert [window.state["access"] for window in scene.windows] == ["owner"] + ["attached"] * 20
        yield scene.windows


def ask_all(windows: list[Session], method: str, params: Any, request: int | str) -> list[Message]:
    """The same request id from all, at the same time; what they ask is up to `params(number)`."""
    pendings = [
        window.server.start_with(method, {"sessionId": window.id, **params(number)}, id=request)
        for number, window in enumerate(windows)
    ]
    return [pending.result() for pending in pendings]


def test_nobody_gets_anothers_reply(crowd: list[Session]) -> None:
    settle(crowd)
    before = marks(crowd)
    for round_ in range(5):
        request: int | str = f"same {round_}" if round_ % 2 else 1_000_000 + round_
        labels = [f"{number} in {round_}" for number in range(len(crowd))]
        made = ask_all(crowd, "context/checkpoint", lambda n, labels=labels: {"label": labels[n]}, request)
        assert [result["checkpoint"]["label"] for result in made] == labels
        texts = [f"text {label}" for label in labels]
        appended = ask_all(crowd, "context/appendMessage", lambda n, texts=texts: {"message": user(texts[n])}, request)
        pages = ask_all(
            crowd,
            "context/getHistory",
            lambda n, appended=appended: {"from": appended[n]["firstIndex"], "to": appended[n]["firstIndex"] + 1},
            request,
        )
        assert [page["messages"][0]["message"]["content"] for page in pages] == texts
    settle(crowd)
    told = [changes(window, before) for window in crowd]
    assert all(each == told[0] for each in told)
    assert len(told[0]) == 5 * 2 * len(crowd)
    for window in crowd:
        told_first(window, before[id(window)])


def test_equal_heads_and_request_ids_do_not_mix_the_clients_up(crowd: list[Session]) -> None:
    """A requestId is the session's, not the connection's: the same request twice happens once, another is refused."""
    messages = [user("shared") if number % 2 else user("other") for number in range(len(crowd))]
    pendings = [
        window.server.start_with(
            "context/appendMessage", {"sessionId": "s", "message": message, "requestId": "one for all"}, id=f"{0}"
        )
        for window, message in zip(crowd, messages, strict=True)
    ]
    replies = [pending.reply() for pending in pendings]
    won = {messages[n]["content"] for n, reply in enumerate(replies) if "result" in reply}
    assert len(won) == 1
    for message, reply in zip(messages, replies, strict=True):
        assert ("result" in reply) is (message["content"] in won)
        assert "result" in reply or reply["error"]["code"] == -32602
    assert sum("duplicate" not in reply["result"] for reply in replies if "result" in reply) == 1


def test_nobody_waits_for_one_that_is_stopped(crowd: list[Session]) -> None:
    stopped, others = crowd[7], crowd[:7] + crowd[8:]
    settle(crowd)
    before = marks(crowd)
    stopped.server.signal(signal.SIGSTOP)
    try:
        waiting = stopped.server.start_with("context/appendMessage", {"sessionId": "s", "message": user("late")}, id=1)
        for round_ in range(5):
            ask_all(others, "context/appendMessage", lambda n, r=round_: {"message": user(f"{n} {r}")}, "same")
        settle(others)
        assert len(changes(crowd[0], before)) == 5 * len(others)
    finally:
        stopped.server.signal(signal.SIGCONT)
    assert waiting.result()["messageCount"] == crowd[0].get_state()["context"]["messageCount"]
    settle(crowd)
    told = [changes(window, before) for window in crowd]
    assert all(each == told[0] for each in told), "who was stopped for a moment has missed nothing"


def test_one_that_leaves_in_the_middle_of_a_request_takes_nothing_along(crowd: list[Session]) -> None:
    for number, leave in enumerate((Server.kill, Server.close_stdin)):
        leaving, others = crowd[-1], crowd[:-1]
        pendings = [
            window.server.start_with("context/appendMessage", {"sessionId": "s", "message": user(f"leaving {n} {number}")}, id="same")
            for n, window in enumerate(crowd)
        ]  # fmt: skip
        leave(leaving.server)
        indexes = [pending.result()["firstIndex"] for pending in pendings[:-1]]
        pages = ask_all(
            others, "context/getHistory", lambda n, at=indexes: {"from": at[n], "to": at[n] + 1}, f"page {number}"
        )
        texts = [page["messages"][0]["message"]["content"] for page in pages]
        assert texts == [f"leaving {n} {number}" for n in range(len(others))]
        kept = others[0].texts().count(f"leaving {len(others)} {number}")
        assert kept == 1 if leave is Server.close_stdin else kept in (0, 1)
        crowd.pop()


# one that does not read


def flood(window: Session, megabytes: int) -> None:
    """Make so many megabytes of notifications for every window."""
    for number in range(megabytes):
        window.call("session/setTitle", title=f"{number} {MEGABYTE}")


def test_one_that_is_stopped_for_long_is_dropped_and_comes_back(scene: Scene) -> None:
    owner = scene.window(env=with_waits({(listener, "LINGER"): 2.0}))
    stopped, other = scene.window(), scene.window()
    owner.say("before")
    flood(other, 40)
    settle(scene.windows)
    usual, before = memory(owner), marks(scene.windows)
    stopped.server.signal(signal.SIGSTOP)
    try:
        waiting = stopped.start("context/appendMessage", message=user("asked while it was stopped"))
        flood(other, 40)
        other.say("meanwhile")
        other.call("session/setTitle", title="short")
        assert memory(owner) < usual + (30 << 20), "what nobody reads is kept for ever"
        until(lambda: connections(owner) == 1, saying="the stopped one is dropped")
        owner.say("and on")
    finally:
        stopped.server.signal(signal.SIGCONT)
    assert waiting.result()["messageCount"] == 4
    assert stopped.texts() == owner.texts() == ["before", "meanwhile", "and on", "asked while it was stopped"]
    assert stopped.head == owner.head
    assert stopped.get_state() == {**owner.get_state(), "access": "attached"}
    told = changes(stopped, before)
    back = next(i for i, change in enumerate(told) if change["kind"] == "accessChanged")
    assert [change["kind"] for change in told[back - 2 : back + 1]] == ["external", "titleChanged", "accessChanged"]
    assert (told[back - 1]["title"], told[back]["access"]) == ("short", "attached")
    mark = marks(scene.windows)
    owner.say("heard again")
    settle(scene.windows)
    assert changes(stopped, mark) == changes(owner, mark) != []
    assert len(changes(other, before)) == 40 + 1 + 1 + 1 + 1 + 1


def memory(window: Session) -> int:
    """Bytes that the server of a window has in memory."""
    return int(psutil.Process(window.server.process.pid).memory_info().rss)


def connections(window: Session) -> int:
    """How many others are connected to the server of a window."""
    sockets = psutil.Process(window.server.process.pid).net_connections("unix")
    return len([each for each in sockets if str(each.laddr).endswith(".sock")]) - 1  # the one that listens


def test_the_reason_is_the_last_that_a_slow_connection_is_told(scene: Scene) -> None:
    owner, other = scene.window(), scene.window()
    with Peer(owner.path) as slow:
        slow.greet(clientInfo={"name": "slow"})
        assert slow.call("session/open", sessionId="s", path=str(owner.path))["access"] == "owner"
        flood(other, 4)
        owner.say("so far it has missed nothing")
        flood(other, 20)
        messages = slow.rest()
    assert [m["params"]["kind"] for m in messages[:5]] == ["titleChanged"] * 4 + ["messagesAppended"]
    assert messages[-1] == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": 4012, "message": A_STRING, "data": at_least({"kind": "overloaded", "retryable": True})},
    }
    kept = sum(len(str(message)) for message in messages)
    assert QUEUE // 2 < kept < QUEUE + (4 << 20)
    owner.say("and on")
    assert other.texts() == ["so far it has missed nothing", "and on"]


def deaf_client(start_at: StartServer, home: Path) -> Server:
    """A client that has opened the session and does not read."""
    deaf = start_at(home, "ndjson", reading=False)
    deaf.start("initialize", clientInfo={"name": "deaf"})
    deaf.start("session/open", sessionId="s")
    deaf.start("context/appendMessage", sessionId="s", message=user("here I am"))
    return deaf


def test_a_client_of_an_attached_process_may_stop_reading_and_go_on_later(
    scene: Scene, start_at: StartServer, home: Path
) -> None:
    owner, other = scene.window(), scene.window()
    deaf = deaf_client(start_at, home)
    owner.server.heard("context/didChange", cause={"client": "deaf"})
    flood(other, 60)
    owner.say("nobody waits")
    assert memory(Session(deaf, {})) < 200 << 20
    deaf.start_reading()
    window = Session(deaf, {"sessionId": "s"})
    assert window.texts() == owner.texts() == ["here I am", "nobody waits"]
    told = changes(window)
    assert len(told) < 60, "more than it was worth waited for one that did not read"
    kinds = [change["kind"] for change in told]
    assert kinds.index("external") < kinds.index("accessChanged")
    assert window.get_state() == {**owner.get_state(), "access": "attached"}


def test_an_owners_client_that_does_not_read_is_told_why_and_the_session_goes_on(
    scene: Scene, start_at: StartServer, home: Path
) -> None:
    deaf = deaf_client(start_at, home)
    [server] = scene.servers(1)
    until(lambda: any("owner" in info for info in server.call("session/list")["sessions"]), saying="it is open")
    other = scene.enter(server)
    assert other.state["access"] == "attached"
    before = marks([other])
    flood(other, 30)
    assert taken_over([other], before) is other
    deaf.start_reading()
    assert deaf.wait() == 3
    last = deaf.received[-1]
    assert (last["id"], last["error"]["code"]) == (None, 4012)
    other.say("and on")
    assert other.texts() == ["here I am", "and on"]
