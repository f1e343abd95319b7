"""Four processes on one session answer as one that does one request at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.linearizable import UNKNOWN
from tests.support.machines import Serve
from tests.support.postgresql import shared_cluster
from tests.support.server import Launch, Server
from tests.support.session import Session
from tests.support.shared_load import ALL, WITH_READS, Load

PROCESSES = 4


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Several processes on one database."""
    store = shared_cluster().new_database()
    homes = [tmp_path_factory.mktemp("machine") / "home" for _ in range(PROCESSES)]
    servers = [Server(Launch(home, "lsp", args=["--store", store])) for home in homes]
    for server in servers:
        server.initialize(clientInfo={"name": "c"})
    yield servers
    for server in servers:
        server.dispose()


def work(sessions: list[Session], seed: int, changes: int, mix: dict[str, int] = WITH_READS) -> Load:
    """All at work on one session, until each has made so many changes."""
    load = Load(sessions, seed, mix)
    load.wait_for_more(changes)
    load.stop()
    return load


def check(load: Load) -> None:
    """There is one order, and there was something to be put into an order."""
    assert {each.name for each in load.history} == WITH_READS.keys()
    assert not load.unexplained()


@pytest.mark.long
def test_what_four_processes_do_at_once_has_one_order(machines: list[Server]) -> None:
    check(work([Session.open(server, "s") for server in machines], 1, 15))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 8))
def test_appends_reverts_undos_and_reads_have_one_order(machines: list[Server], seed: int) -> None:
    check(work([Session.open(server, f"s{seed}") for server in machines], seed, 40))


@pytest.mark.long
def test_compactions_and_dmails_have_one_order(machines: list[Server]) -> None:
    load = work([Session.open(server, "mail") for server in machines], 1, 60, ALL)
    done = {each.name for each in load.history if not isinstance(each.result, bool)}
    assert ALL.keys() - done <= {"send", "cancel"}
    assert not load.unexplained()


@pytest.mark.long
def test_what_a_killed_process_was_doing_is_done_or_not(serve: Serve, url: str) -> None:
    load = Load([Session.open(serve(url), "s") for _ in range(PROCESSES)], 1, WITH_READS)
    for at in range(PROCESSES - 1):
        load.wait_for_more(8)
        load.kill(at)
    load.wait_for_more(8)
    load.stop()
    assert len([each for each in load.history if each.result is UNKNOWN]) == PROCESSES - 1
    check(load)
