"""Connections to a database that are ended, by whatever is between: each is replaced, and what was asked is done, once,
before anything is said."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.support.approvals import ask
from tests.support.machines import Serve
from tests.support.postgresql import private_cluster, shared_cluster
from tests.support.server import PATIENCE
from tests.support.session import Session, user
from tests.wire.test_postgresql_faults import BEFORE, CHANGES, OF_THE_STORE, Fault

ONCE = "IF nextval('faults') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF"
READS: dict[str, dict[str, Any]] = {
    "context/getHistory": {},
    "context/listCheckpoints": {},
    "context/listTimelines": {},
    "context/search": {"query": "two"},
    "session/getState": {},
    "session/verify": {},
    "session/listAudit": {},
}


def end_backends(url: str) -> None:
    """End all connections to a database, and wait until they are gone."""
    name = url.rpartition("/")[2].partition("?")[0]
    shared_cluster().execute(f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'")


def test_what_reads_is_answered_after_idle_connections_were_ended(serve: Serve, url: str) -> None:
    server = serve(url)
    session = Session.open(server, "s")
    for method, params in BEFORE:
        session.call(method, **params)
    for method, params in READS.items():
        end_backends(url)
        session.call(method, **params)
    for method in ("session/list", "session/listTrash"):
        end_backends(url)
        server.call(method)
    end_backends(url)
    assert Session.open(server, "new").texts() == []


def test_what_changes_is_done_after_idle_connections_were_ended(serve: Serve, url: str) -> None:
    server = serve(url)
    for method, (params, before) in {**CHANGES, **OF_THE_STORE}.items():
        session = Session.open(server, method.replace("/", "-"))
        for name, given in [*BEFORE, *before]:
            session.call(name, **given)
        given = {**params, "newSessionId": f"f-{method[8:]}"} if method == "session/fork" else params
        end_backends(url)
        assert "duplicate" not in session.call(method, **given, requestId=f"r {method}"), method


def test_what_changes_is_done_once_where_its_connection_is_ended_in_the_middle(serve: Serve, url: str) -> None:
    a, b = serve(url), serve(url)
    a.call("session/list")
    name = url.rpartition("/")[2]
    fault = Fault(shared_cluster(), name)
    shared_cluster().execute("CREATE SEQUENCE faults", name)
    for method, (params, before) in CHANGES.items():
        session = Session.open(a, method.replace("/", "-"))
        for each, given in [*BEFORE, *before]:
            session.call(each, **given)
        shared_cluster().execute("ALTER SEQUENCE faults RESTART", name)
        with fault.during(ONCE):
            result = session.call(method, **params, requestId="r")
        assert "duplicate" not in result, method
        other = Session.open(b, session.id)
        assert other.records() == session.records(), method
        assert other.call(method, **params, requestId="r") == {**result, "duplicate": True}, method


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.long)])
def test_what_waits_behind_a_change_that_is_tried_again_does_not_overtake_it(
    serve: Serve, url: str, every: int
) -> None:
    a, b = serve(url), serve(url)
    a.call("session/list")
    name = url.rpartition("/")[2]
    fault = Fault(shared_cluster(), name)
    shared_cluster().execute("CREATE SEQUENCE faults", name)
    # Of those left out the effect depends on what is appended behind them.
    methods = [name for name in CHANGES if name not in ("session/archive", "context/compact", "context/deliverDMail")]
    for method in methods[::every]:
        params, before = CHANGES[method]
        session = Session.open(a, method.replace("/", "-"))
        for each, given in [*BEFORE, *before]:
            session.call(each, **given)
        shared_cluster().execute("ALTER SEQUENCE faults RESTART", name)
        with fault.during(ONCE):
            pending = [session.start(method, **params, requestId="r")]
            pending += [
                session.start("context/appendMessage", message=user(f"{at}"), requestId=f"{at}") for at in range(3)
            ]
            pending.append(session.start("session/setTitle", title="behind", requestId="title"))
            results = [each.result() for each in pending]
        assert not any("duplicate" in result for result in results), method
        assert session.texts()[-3:] == ["0", "1", "2"], method
        assert session.get_state()["title"] == "behind", method
        other = Session.open(b, session.id)
        assert other.records() == session.records(), method
        again = other.call(method, **params, requestId="r")
        assert again == {**results[0], "duplicate": True, "head": again["head"]}, method


def test_an_approval_is_asked_and_decided_once_where_connections_are_ended(serve: Serve, url: str) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    name = url.rpartition("/")[2]
    fault = Fault(shared_cluster(), name)
    shared_cluster().execute("CREATE SEQUENCE faults", name)
    with fault.during(ONCE):
        asked = ask(a, requestId="r")
        while not (waiting := b.call("approval/list")["approvals"]):
            assert "error" not in asked.server.received[-1]
    shared_cluster().execute("ALTER SEQUENCE faults RESTART", name)
    with fault.during(ONCE):
        b.call("approval/respond", approvalId=waiting[0]["approvalId"], decision="reject")
    assert asked.result()["decision"] == "reject"


def test_many_appends_at_once_are_made_once_in_their_order(serve: Serve, url: str) -> None:
    session = Session.open(serve(url), "s")
    name = url.rpartition("/")[2]
    fault = Fault(shared_cluster(), name)
    shared_cluster().execute("CREATE SEQUENCE faults", name)
    with fault.during(ONCE):
        pending = [session.start("context/appendMessage", message=user(f"{number}")) for number in range(50)]
        for each in pending:
            each.result()
    assert session.texts() == [f"{number}" for number in range(50)]


def test_connections_that_the_server_ends_when_they_are_idle(serve: Serve, url: str) -> None:
    name = url.rpartition("/")[2]
    session = Session.open(serve(f"{url}?options=-c%20idle_session_timeout%3D300"), "s")
    for number in range(3):
        deadline = time.monotonic() + PATIENCE
        mine = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE '%timeleap_session%'"
        while shared_cluster().execute(mine) != [(0,)]:
            assert time.monotonic() < deadline
        session.say(f"{number}")
        session.call("session/setTitle", title=f"{number}")
    assert session.texts() == ["0", "1", "2"]


@pytest.mark.long  # a cluster of its own
def test_an_idle_process_asks_a_database_nothing(serve: Serve) -> None:
    with private_cluster() as cluster:
        url = cluster.new_database()
        name = url.rpartition("/")[2]
        sessions = [Session.open(serve(url), "s") for _ in range(2)]
        for session in sessions:
            session.say("x")
            session.texts()
        newest = f"SELECT max(query_start), count(*) FROM pg_stat_activity WHERE datname = '{name}'"
        state = cluster.execute(newest)
        began = time.monotonic()
        while time.monotonic() - began < 6:  # three times as long as a list of servers is left alone
            time.sleep(0.5)
        assert cluster.execute(newest) == state
        sessions[0].say("after")
        assert sessions[1].texts()[-1] == "after"
