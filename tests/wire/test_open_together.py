"""Two processes that make, open, delete or fork one session at the same moment: each is answered as if one of them had come
first, in a directory as in a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.machines import machines
from tests.support.postgresql import shared_cluster
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, user

ROUNDS = 3
Pair = tuple[Server, Server]


@pytest.fixture(scope="module", params=["directory", "database"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("together")
    if request.param == "database":
        with machines(folder) as start:
            url = shared_cluster().new_database()
            yield start(url), start(url)
        return
    servers = Server(Launch(folder / "home", "lsp")), Server(Launch(folder / "home", "lsp"))
    for server in servers:
        server.initialize()
    yield servers
    for server in servers:
        server.dispose()


def together(pair: Pair, *asked: tuple[str, Message]) -> list[Message]:
    """What two processes answer to what they are asked at one moment."""
    pending = [server.start(method, **params) for server, (method, params) in zip(pair, asked, strict=True)]
    return [each.reply() for each in pending]


def both_have(pair: Pair, session_id: str) -> None:
    """Both write to the one session of that id."""
    for server in pair:
        server.call("context/appendMessage", sessionId=session_id, message=user("x"))
    pages = [server.call("context/getHistory", sessionId=session_id) for server in pair]
    assert pages[0]["messages"] == pages[1]["messages"]
    assert len(pages[0]["messages"]) == 2


def test_a_database_is_set_up_by_two_at_once(tmp_path: Path) -> None:
    for round_ in range(ROUNDS):
        url = shared_cluster().new_database()
        with machines(tmp_path / str(round_)) as start:
            servers = start(url), start(url)
            replies = together(servers, *[("session/list", {})] * 2)
        assert all("result" in reply for reply in replies), replies


def test_both_that_open_a_new_session_get_it(pair: Pair) -> None:
    for round_ in range(ROUNDS):
        for given in ({}, {"title": "T"}):
            session_id = f"open{round_}{len(given)}"
            replies = together(pair, *[("session/open", {"sessionId": session_id, **given})] * 2)
            assert [reply["result"]["sessionId"] for reply in replies] == [session_id] * 2, replies
            both_have(pair, session_id)


def test_one_request_that_two_processes_get_makes_one_session(pair: Pair) -> None:
    for round_ in range(ROUNDS):
        for given in ({"sessionId": f"one{round_}"}, {}):
            request = ("session/open", {**given, "requestId": f"one{round_}{len(given)}"})
            results = [reply["result"] for reply in together(pair, request, request)]
            assert results[0]["sessionId"] == results[1]["sessionId"]
            assert any(result.get("duplicate") for result in results)
            both_have(pair, results[0]["sessionId"])


def test_who_opens_a_session_while_another_deletes_it_has_a_session(pair: Pair) -> None:
    for round_ in range(ROUNDS):
        session_id = f"gone{round_}"
        Session.open(pair[0], session_id).call("session/close")
        opened, deleted = together(
            pair, ("session/open", {"sessionId": session_id}), ("session/delete", {"sessionId": session_id})
        )
        assert "result" in opened, opened
        assert "result" in deleted or deleted["error"]["code"] == 4003, deleted


def test_who_does_not_make_sessions_hears_that_it_was_deleted(pair: Pair) -> None:
    for round_ in range(ROUNDS):
        session_id = f"kept{round_}"
        Session.open(pair[0], session_id).call("session/close")
        opened, deleted = together(
            pair,
            ("session/open", {"sessionId": session_id, "create": False}),
            ("session/delete", {"sessionId": session_id}),
        )
        assert "result" in opened or opened["error"]["code"] == 4001, opened
        assert "result" in deleted or deleted["error"]["code"] == 4003, deleted


@pytest.mark.parametrize("method", ["session/purge", "session/undelete"])
def test_who_opens_a_session_in_the_trash_while_another_takes_it_out(pair: Pair, method: str) -> None:
    for round_ in range(ROUNDS):
        session_id = f"{method[8:]}{round_}"
        session = Session.open(pair[0], session_id)
        session.say("old")
        session.call("session/close")
        pair[0].call("session/delete", sessionId=session_id)
        opened, moved = together(pair, ("session/open", {"sessionId": session_id}), (method, {"sessionId": session_id}))
        assert "result" in opened, opened
        assert "result" in moved or (method, moved["error"]["code"]) == ("session/undelete", 4016), moved
        texts = Session(pair[0], opened["result"]).texts()
        assert texts == (["old"] if method == "session/undelete" and "result" in moved else [])


def test_of_two_forks_into_one_id_one_is_made(pair: Pair) -> None:
    Session.open(pair[0], "origin").say("one")
    for round_ in range(ROUNDS):
        fork = ("session/fork", {"sessionId": "origin", "newSessionId": f"fork{round_}"})
        replies = together(pair, fork, fork)
        assert sorted("result" in reply for reply in replies) == [False, True], replies
        assert [reply["error"]["code"] for reply in replies if "error" in reply] == [4016]


def test_of_one_fork_that_two_processes_are_asked_for_one_is_made(pair: Pair) -> None:
    Session.open(pair[0], "trunk").say("one")
    for round_ in range(ROUNDS):
        for given in ({"newSessionId": f"branch{round_}"}, {}):
            fork = ("session/fork", {"sessionId": "trunk", "requestId": f"fork{round_}{len(given)}", **given})
            replies = together(pair, fork, fork)
            assert any("result" in reply for reply in replies), replies
            for reply in replies:  # in a directory the other one owns it
                assert "result" in reply or reply["error"]["code"] == 4003, replies
            results = [
                server.call(fork[0], **fork[1])
                for server, reply in zip(pair, replies, strict=True)
                if "result" in reply
            ]
            assert len({result["sessionId"] for result in results}) == 1
            parents = [each for each in pair[0].call("session/list", limit=1000)["sessions"] if each.get("parent")]
            assert len([each for each in parents if each["parent"]["sessionId"] == "trunk"]) == 2 * round_ + 2 - len(
                given
            )
