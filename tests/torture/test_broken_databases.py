"""Sessions in a database whose connections are ended, and whose server is started again, again and again, under load, against
a model: nothing that was acknowledged is lost, nothing is done twice, and the order is one.

One seed alone: `.venv/bin/pytest -m torture tests/torture/test_broken_databases.py -k 'seed-7'`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.broken_database import faults_of, work_while_it_breaks
from tests.support.machines import Serve
from tests.support.pgbouncer import pooler
from tests.support.postgresql import Cluster, private_cluster
from tests.support.torture import share

pytestmark = pytest.mark.torture
SEEDS = [pytest.param(seed, id=f"seed-{seed}") for seed in range(share(20))]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as made:
        made.set(fsync="off")  # what is ended are processes
        yield made


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled_while_connections_are_ended(serve: Serve, cluster: Cluster, seed: int) -> None:
    url = cluster.new_database()
    work_while_it_breaks(serve, url, seed, faults_of(cluster, url.rpartition("/")[2]), rounds=12)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled_through_a_pool(serve: Serve, cluster: Cluster, seed: int) -> None:
    url = cluster.new_database()
    mode = ("transaction", "session")[seed % 2]
    with pooler(url, mode, server_idle_timeout="1", server_lifetime="2", server_round_robin="1") as between:
        faults = faults_of(cluster, url.rpartition("/")[2])
        faults["reconnected"] = lambda: between.command("RECONNECT")
        through = f"{between.url}?timeleap_direct=127.0.0.1:{cluster.port}"
        work_while_it_breaks(serve, through, seed, faults, rounds=8)
