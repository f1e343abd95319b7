"""The server that takes writes is lost under load and its synchronous standby takes over: nothing acknowledged is lost, and
nothing is done twice."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from typing import Any

import pytest
from tests.support import figures
from tests.support.machines import Serve
from tests.support.postgresql import Cluster, replicated_cluster
from tests.support.session import Session
from tests.support.shared_load import APPENDS, CHANGES, Load

PROCESSES = 4
WRITING_AGAIN_SECONDS = 5.0


def url_of(*clusters: Cluster, database: str) -> str:
    """The URL of a database on several servers."""
    hosts = ",".join(f"127.0.0.1:{cluster.port}" for cluster in clusters)
    return f"postgresql://timeleap@{hosts}/{database}"


def take_over(primary: Cluster, standby: Cluster, how: signal.Signals, rng: random.Random) -> None:
    """Take the primary away, and after a while let its standby take over."""
    primary.signal(how)
    time.sleep(rng.uniform(0, 1.5))  # operators, and programs that watch, take their time
    standby.promote()
    figures.count(failovers=1)


def fail_over(serve: Serve, how: signal.Signals, seed: int, mix: dict[str, int]) -> tuple[Load, float]:
    """Take the primary from processes at work; returns the load, and how long each of them could not write after the
    promotion."""
    rng = random.Random(seed)
    with replicated_cluster() as (primary, standby):
        store = url_of(primary, standby, database=primary.new_database().rpartition("/")[2])
        sessions = [Session.open(serve(store), "s") for _ in range(PROCESSES)]
        load = Load(sessions, seed, mix)
        load.wait_for_more(rng.randint(3, 25))
        take_over(primary, standby, how, rng)
        promoted = time.monotonic()
        load.wait_for_more(10)
        if how == signal.SIGSTOP:
            primary.signal(signal.SIGCONT)  # it takes itself for the primary still
            load.wait_for_more(10)
        load.stop()
        late = Session.open(serve(store), "s")
        check_all_is_there(load, [*sessions, late], mix)
        return load, load.writing_again(promoted)


def check_all_is_there(load: Load, sessions: list[Session], mix: dict[str, int]) -> None:
    """All processes show the same, which is what was acknowledged."""
    for session in sessions:
        session.append({"role": "user", "content": "see all"}, requestId="last")  # brings the copy up to date
    texts = [tuple(session.texts()) for session in sessions]
    assert len(set(texts)) == 1
    if mix == APPENDS:
        assert Counter(texts[0][:-1]) == Counter(load.appended())
    assert sessions[0].call("session/verify")["ok"] is True


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_failover_under_load_loses_nothing_and_doubles_nothing(serve: Serve, how: signal.Signals) -> None:
    load, _ = fail_over(serve, how, 1, APPENDS)
    assert not load.unexplained()


@pytest.mark.long
@pytest.mark.in_pairs
@pytest.mark.parametrize("seed", range(10, 13))
@pytest.mark.parametrize("mix", [APPENDS, CHANGES], ids=["appends", "changes"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_every_process_writes_soon_after_the_promotion(
    serve: Serve, how: signal.Signals, mix: dict[str, Any], seed: int
) -> None:
    load, again = fail_over(serve, how, seed, mix)
    assert again < WRITING_AGAIN_SECONDS
    assert not load.unexplained()
