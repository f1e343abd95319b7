"""Processes at work on one database, whose connections are ended meanwhile, and whose server is started again; compared with
a session that does one thing after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from functools import partial

from tests.support.machines import Serve
from tests.support.postgresql import Cluster
from tests.support.server import Message
from tests.support.session import Session
from tests.support.shared_load import ALL, Load

PROCESSES = 3
Fault = Callable[[], object]
_OTHERS = "datname = '{name}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


def faults_of(cluster: Cluster, name: str) -> dict[str, Fault]:
    """What may happen to the connections of a database, and to its server."""
    others = _OTHERS.format(name=name)

    def end(which: str) -> Fault:
        return lambda: cluster.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others} {which}")

    return {
        "one ended": end("AND pid = (SELECT pid FROM pg_stat_activity WHERE " + others + " ORDER BY random() LIMIT 1)"),
        "those at work ended": end("AND state <> 'idle'"),
        "those in a transaction ended": end("AND state LIKE 'idle in transaction%'"),
        "all ended": end(""),
        "statements cancelled": lambda: cluster.execute(
            f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {others} AND state <> 'idle'"
        ),
        "restarted": lambda: cluster.restart("fast"),
        "crashed": lambda: cluster.restart("immediate"),
    }


def work_while_it_breaks(
    serve: Serve,
    url: str,
    seed: int,
    faults: Mapping[str, Fault],
    *,
    rounds: int,
    mix: Mapping[str, int] = ALL,
    changes: int = 4,
) -> Load:
    """Let some processes work on a session, with so many faults, chosen and timed by the seed; then see that what they
    answered is what one session would have, that all show the same, and that each hears of the others."""
    rng = random.Random(seed)
    sessions = [Session.open(serve(url), f"s{seed}") for _ in range(PROCESSES)]
    load, happened = Load(sessions, seed, dict(mix)), list[str]()
    for _ in range(rounds):
        load.wait_for_more(changes)
        time.sleep(rng.uniform(0, 0.05))  # a moment within a request
        name = rng.choice(list(faults))
        happened.append(f"{time.monotonic():.3f} {name}")
        faults[name]()
    load.wait_for_more(changes)
    load.stop()
    problem = load.unexplained()
    assert not problem, "\n".join([f"seed {seed}: {problem}", *happened, *load.lines()])
    check_agreement(sessions)
    return load


def check_agreement(sessions: list[Session]) -> None:
    """See that all show the same, and that each hears of a change of each other one."""
    texts = [session.texts() for session in sessions]
    assert all(each == texts[0] for each in texts)
    assert sessions[0].call("session/verify")["ok"] is True
    for session in sessions:
        head = session.append({"role": "user", "content": "at last"})["head"]
        for other in sessions:
            if other is not session:
                other.server.wait_for(partial(_tells, head))


def _tells(head: str, message: Message) -> bool:
    return bool(message.get("params", {}).get("head") == head)
