"""A pooler between us and PostgreSQL: it works as if there was none, or is refused for what it is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.approvals import WANTED, ask, asked, decide
from tests.support.machines import Serve
from tests.support.pgbouncer import pooler
from tests.support.postgresql import private_cluster, stored_log
from tests.support.server import PATIENCE, Refused, Server
from tests.support.session import Session, user

from timeleap_postgresql import poolers
from timeleap_postgresql.database import Database
from timeleap_postgresql.servers import PooledConnection, WatchedConnection
from timeleap_postgresql.working_copy import WorkingCopy

ROUND_ROBIN = {"server_round_robin": "1", "min_pool_size": "5"}
IGNORED = {"ignore_startup_parameters": "options"}


def port(url: str) -> str:
    """The port that a URL names."""
    return url.rpartition(":")[2].partition("/")[0]


def heard(server: Server, head: str) -> Any:
    """The notification that gives that head, when it has come."""
    return server.wait_for(lambda message: message.get("params", {}).get("head") == head)


def use(serve: Serve, url: str, others: str) -> None:
    """Two windows, one of them by the URL `others`, change a session in all the ways that are made differently, hear of
    each other, and ask for an approval."""
    a, b = (Session.open(serve(store, capabilities=WANTED), "s") for store in (url, others))
    appends = [
        session.start("context/appendMessage", message=user(f"{at} {number}"))
        for number in range(20)
        for at, session in enumerate((a, b))
    ]
    for answer in appends:
        answer.result()
    assert len(a.texts()) == len(b.texts()) == 40
    b.checkpoint()
    head = a.append(user("told"), requestId="r")["head"]
    assert heard(b.server, head)["params"]["cause"]["requestId"] == "r"
    assert a.append(user("told"), requestId="r")["head"] == head
    head = b.append(user("told, too"))["head"]
    heard(a.server, head)
    a.call("context/revertTo", checkpointId=0)
    b.call("context/undo")
    assert a.texts()[-2:] == ["told", "told, too"]
    a.call("session/fork", newSessionId="f")
    assert {each["sessionId"] for each in b.server.call("session/list")["sessions"]} == {"s", "f"}
    waiting = ask(a)
    assert decide(b, asked(b)["approvalId"], "reject") == {}
    assert waiting.result()["decision"] == "reject"


def test_session_mode_with_default_settings_works(serve: Serve, url: str) -> None:
    with pooler(url, "session") as between:
        use(serve, between.url, url)


VARIANTS = {
    "options ignored": IGNORED,
    "nothing reset": {"server_reset_query": ""},
    "parameters ignored": {"ignore_startup_parameters": "options,extra_float_digits,search_path"},
    "passwords": {"auth_type": "md5"},
    "a round": ROUND_ROBIN,
}


@pytest.mark.long
@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_session_mode_works_however_it_is_set(serve: Serve, url: str, settings: dict[str, str]) -> None:
    with pooler(url, "session", **settings) as between:
        use(serve, between.url, between.url)


@pytest.mark.parametrize(
    "settings",
    [
        IGNORED | ROUND_ROBIN,
        pytest.param({}, marks=pytest.mark.long),
        pytest.param({"server_reset_query_always": "1"}, marks=pytest.mark.long),
    ],
    ids=["many processes in turn", "default settings", "reset always"],
)
def test_transaction_mode_works_with_a_way_past_it(serve: Serve, url: str, settings: dict[str, str]) -> None:
    with pooler(url, "transaction", **settings) as between:
        through = f"{between.url}?timeleap_direct=127.0.0.1:{port(url)}"
        use(serve, through, through)
    text = stored_log(url, "s", "context.jsonl").decode()
    assert text.count('"told, too"') == 1


@pytest.mark.long
def test_the_way_past_transaction_mode_may_be_a_pool_in_session_mode(serve: Serve, url: str) -> None:
    with pooler(url, "transaction", **ROUND_ROBIN) as between, pooler(url, "session") as listening:
        use(serve, f"{between.url}?timeleap_direct=127.0.0.1:{listening.port}", url)


@pytest.mark.parametrize(
    ("mode", "query", "part"),
    [
        ("transaction", "", "timeleap_direct=HOST:PORT"),
        pytest.param("statement", "", "statement mode", marks=pytest.mark.long),
        pytest.param("transaction", "?timeleap_direct={itself}", "timeleap_direct", marks=pytest.mark.long),
    ],
)
def test_a_pool_that_nothing_is_heard_over_is_refused_with_what_to_do(
    serve: Serve, url: str, mode: str, query: str, part: str
) -> None:
    with pooler(url, mode, **ROUND_ROBIN) as between:
        refused(serve, between.url + query.format(itself=f"127.0.0.1:{between.port}"), part)


@pytest.mark.long
def test_a_way_past_a_pool_to_another_database_is_refused(serve: Serve, url: str) -> None:
    with private_cluster() as other, pooler(url, "transaction") as between:
        other.execute(f"CREATE DATABASE {url.rpartition('/')[2]}")
        refused(serve, f"{between.url}?timeleap_direct=127.0.0.1:{other.port}", "names another database")


def refused(serve: Serve, url: str, part: str) -> None:
    """See that each request is refused for a pooler, for good, and that the server goes on."""
    server = serve(url)
    for method, params in (("session/open", {"sessionId": "s"}), ("session/list", {}), ("session/open", {})):
        error = server.refuse(method, **params)
        assert (error["code"], error["data"]["reason"], error["data"]["retryable"]) == (4005, "pooler", False), error
        assert part in error["message"]
        assert "\n" not in error["message"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_that_is_started_again_loses_nothing(serve: Serve, url: str, mode: str) -> None:
    with pooler(url, mode) as between:
        session = Session.open(serve(f"{between.url}?timeleap_direct=127.0.0.1:{port(url)}"), "s")
        for number in range(3):
            session.append(user(f"{number}"), requestId=f"{number}")
            between.stop()
            between.start(mode)
        assert until_done(session, "last")
        assert session.texts() == ["0", "1", "2", "last"]


@pytest.mark.long
def test_a_paused_pool_is_answered_as_what_passes(serve: Serve, url: str) -> None:
    with pooler(url, "transaction", query_wait_timeout="1") as between:
        session = Session.open(serve(f"{between.url}?timeleap_direct=127.0.0.1:{port(url)}"), "s")
        between.command("PAUSE")
        error = session.refuse("context/appendMessage", message=user("one"), requestId="r")
        assert (error["code"], error["data"]["retryable"]) == (4005, True), error
        between.command("RESUME")
        assert until_done(session, "one")
        assert session.texts() == ["one"]


@pytest.mark.long
def test_a_pool_of_one_connection_is_said_to_be_used_up(serve: Serve, url: str) -> None:
    with pooler(url, "session", default_pool_size="1", query_wait_timeout="20") as between:
        error = serve(between.url).refuse("session/open", sessionId="s")
        assert (error["data"]["reason"], error["data"]["retryable"]) == ("unreachable", True)
        assert "its pool is used up" in error["message"]


def until_done(session: Session, text: str) -> bool:
    """Append a text under one request id, again while that is refused for what passes."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        try:
            session.append(user(text), requestId=text)
            return True
        except Refused as refused:
            if not refused.error["data"]["retryable"]:
                raise
    return False


@pytest.fixture
def known() -> Iterator[None]:
    """What is known of poolers, for one test."""
    poolers.KNOWN.forget()
    yield
    poolers.KNOWN.forget()
    poolers.KNOWN._disproved.clear()


@pytest.mark.usefixtures("known")
def test_a_busy_pool_in_transaction_mode_passes_for_no_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pooler(url, "transaction", default_pool_size="2") as between, contextlib.ExitStack() as stack:

        def connect() -> WatchedConnection:
            return stack.enter_context(WatchedConnection.connect(between.url, autocommit=True, prepare_threshold=None))

        first, other = connect(), connect()
        process, busy = poolers.process_of(first), [True]
        other.execute("BEGIN")  # it has the process of the first one

        def begin(second: psycopg.Connection[Any], begin: Any = poolers._begin) -> None:
            begin(second)
            if busy.pop() if busy else False:
                other.execute("ROLLBACK")  # in time for the first one to get it again, as always from now on

        monkeypatch.setattr(poolers, "_begin", begin)
        monkeypatch.setattr(poolers, "HEARD_SECONDS", 0.5)
        assert poolers.find_mode(first, process, connect) == "transaction"
        assert not busy


@pytest.mark.usefixtures("known")
def test_a_connection_that_forgets_what_was_prepared_is_of_no_session(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = f"?timeleap_direct=127.0.0.1:{port(url)}"
    with pooler(url, "transaction", **IGNORED, **ROUND_ROBIN) as between:
        with contextlib.ExitStack() as stack:  # a pool of several processes
            for _ in range(3):
                stack.enter_context(psycopg.connect(between.url, prepare_threshold=None)).execute("SELECT 1")
        # As if the pooler had passed for one in session mode.
        monkeypatch.setattr(poolers, "find_mode", lambda *_: "session")
        with contextlib.closing(Database(between.url + way)) as database:
            copy = WorkingCopy(database, "none", Path("/nowhere"))
            copy.version = 0
            for _ in range(5):
                assert copy.is_current() is False
            with database.connection() as connection:
                assert isinstance(connection, PooledConnection)
