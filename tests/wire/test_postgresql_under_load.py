"""A database that is started again, and ways to it that lose connections or bytes, under load: nothing that was acknowledged is
lost, nothing is done twice, and nobody goes deaf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.support.broken_database import Fault, check_agreement, faults_of, work_while_it_breaks
from tests.support.machines import Serve
from tests.support.pgbouncer import pooler
from tests.support.postgresql import Cluster, private_cluster
from tests.support.server import Pending
from tests.support.session import Session, user
from tests.support.shared_load import APPENDS
from tests.support.swallowing import way_to
from tests.support.waits import with_waits

from timeleap_postgresql import database, servers

pytestmark = [pytest.mark.long, pytest.mark.slow]
SOON = "connect_timeout=2"
IMPATIENT = with_waits(
    {
        (servers, "WatchedConnection.patience"): 4.0,
        (database, "SILENT_SECONDS"): 4.0,  # with which a connection is given back
    }
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as made:
        made.set(fsync="off")  # what is ended are processes
        yield made


@pytest.mark.parametrize("seed", [1, 2])
def test_a_server_whose_connections_are_ended_at_random(serve: Serve, cluster: Cluster, seed: int) -> None:
    url = cluster.new_database()
    work_while_it_breaks(serve, url, seed, faults_of(cluster, url.rpartition("/")[2]), rounds=6)


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_that_is_started_again_under_load(serve: Serve, cluster: Cluster, how: str) -> None:
    again: dict[str, Fault] = {how: lambda: cluster.restart(how)}
    work_while_it_breaks(serve, cluster.new_database(), 3, again, rounds=2, mix=APPENDS)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pool_that_renews_its_connections_under_load(serve: Serve, cluster: Cluster, mode: str) -> None:
    url = cluster.new_database()
    with pooler(url, mode, server_idle_timeout="1", server_lifetime="1", server_round_robin="1") as between:
        faults: dict[str, Fault] = {"reconnected": lambda: between.command("RECONNECT")}
        if mode == "transaction":

            def pause() -> None:
                between.command("PAUSE")
                between.command("RESUME")

            faults["paused"] = pause
        through = f"{between.url}?timeleap_direct=127.0.0.1:{cluster.port}"
        load = work_while_it_breaks(serve, through, 4, faults, rounds=6)
    assert not [error for error in load.refused if error["code"] == 4005]


def test_connections_that_a_firewall_has_forgotten_are_replaced(serve: Serve, cluster: Cluster) -> None:
    """Whichever way they have lost; all at once, since each is waited for."""
    pairs: list[list[Session]] = []
    asked: list[list[Pending]] = []
    with ExitStack() as stack:
        for lost in (("out",), ("back",), ("out", "back")):
            url = cluster.new_database()
            way = stack.enter_context(way_to(cluster.port))
            through = url.replace(f":{cluster.port}/", f":{way.port}/")
            pairs.append([Session.open(serve(store, env=IMPATIENT), "s") for store in (through, url)])
            for session in pairs[-1]:
                session.say("before")
            way.swallow(*lost)
            first = pairs[-1][0]
            asked.append(
                [first.start("context/appendMessage", message=user(f"{at}"), requestId=f"{at}") for at in range(5)]
            )
        for sessions, appended in zip(pairs, asked, strict=True):
            for each in appended:
                assert "duplicate" not in each.result()
            assert sessions[1].texts() == ["before", "before", *map(str, range(5))]
            check_agreement(sessions)


def test_a_firewall_that_drops_everything_is_said_to_be_in_the_way(serve: Serve, cluster: Cluster) -> None:
    url = cluster.new_database()
    with way_to(cluster.port) as way:
        session = Session.open(serve(f"{url.replace(f':{cluster.port}/', f':{way.port}/')}?{SOON}"), "s")
        session.say("before")
        way.blocked = True
        way.swallow("out", "back")
        for method, params in (
            ("context/getHistory", {}),
            ("context/appendMessage", {"message": user("once"), "requestId": "r"}),
        ):
            error = session.refuse(method, **params)
            assert (error["code"], error["data"]["retryable"]) == (4005, True), error
            assert error["data"]["reason"] in ("unreachable", "lost"), error
        way.blocked = False
        session.append(user("once"), requestId="r")
        assert Session.open(serve(url), "s").texts() == session.texts() == ["before", "once"]
