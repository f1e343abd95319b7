"""The thread that listens for what other processes commit to a database is woken, and does not look now and then; and which
server connections are made to."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.postgresql import shared_cluster
from tests.support.server import PATIENCE

from timeleap_postgresql import announcements as module
from timeleap_postgresql import servers
from timeleap_postgresql.announcements import Announcements
from timeleap_postgresql.approval_rows import ApprovalRows
from timeleap_postgresql.database import CHANNEL, Database
from timeleap_postgresql.servers import WatchedConnection

Heard = tuple[str | None, int | None]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(module, "LISTENING_PAUSE", 100 * PATIENCE)
    database = Database(shared_cluster().new_database())
    yield database
    database.close()


def test_it_ends_as_soon_as_it_is_closed(database: Database) -> None:
    listening = Announcements(database, lambda session, version: None)
    assert listening.ready.wait(PATIENCE)
    listening.close()
    assert not listening._thread.is_alive()


def test_what_is_announced_is_heard_at_once(database: Database) -> None:
    heard: queue.Queue[Heard] = queue.Queue()
    listening = Announcements(database, lambda session, version: heard.put((session, version)))
    try:
        assert heard.get(timeout=PATIENCE) == (None, None)  # all may have changed before it listened
        for version in (1, 2):
            told = json.dumps({"by": "another", "session": "s", "version": version})
            with database.connection() as connection:
                connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, told])
            assert heard.get(timeout=PATIENCE) == ("s", version)
    finally:
        listening.close()


def deaf(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first connection that listens hear nothing, as one whose process a pooler has given to somebody else."""
    ways = [Database(shared_cluster().new_database()).connect_to_listen, database.connect_to_listen]
    monkeypatch.setattr(database, "connect_to_listen", lambda: ways.pop(0)() if len(ways) > 1 else ways[0]())


@pytest.mark.parametrize("who", ["its own change", "an approval that waits"])
def test_a_connection_that_hears_nothing_is_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setattr(module, "LISTENING_PAUSE", 0.05)
    monkeypatch.setattr(module, "OWN_SECONDS", 0.2)
    deaf(database, monkeypatch)
    heard: queue.Queue[Heard] = queue.Queue()
    listening = Announcements(database, lambda session, version: heard.put((session, version)))
    try:
        assert heard.get(timeout=PATIENCE) == (None, None)
        if who == "its own change":
            database.untold.begin()
        else:
            assert ApprovalRows(database, "s").waiting() == set()
        assert heard.get(timeout=PATIENCE) == (None, None)  # it listens anew
        assert database.sender in ApprovalRows(database, "s").waiting()
        told = json.dumps({"session": "s", "version": 1, "by": database.sender})
        database.untold.begin()
        with database.connection() as connection:
            connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, told])
        while database.untold.since(0):
            assert listening._thread.is_alive()
        assert heard.empty()
    finally:
        listening.close()


@pytest.mark.parametrize("in_use", [True, False])
def test_of_several_hosts_the_primary_is_asked_while_it_is_in_use_only(
    database: Database, monkeypatch: pytest.MonkeyPatch, in_use: bool
) -> None:
    monkeypatch.setattr(module, "LISTENING_PAUSE", 0.02)
    monkeypatch.setattr(module, "LISTENING_SECONDS", 0.05)
    monkeypatch.setattr(module, "QUIET_SECONDS", 1000.0 if in_use else 0.0)
    monkeypatch.setattr(Database, "several", property(lambda _: True))
    asked = f"SELECT query, query_start FROM pg_stat_activity WHERE datname = '{database.label.rpartition('/')[2]}'"
    listening = Announcements(database, lambda session, version: None)
    try:
        assert listening.ready.wait(PATIENCE)
        began = time.monotonic()
        found = {tuple(shared_cluster().execute(asked))}
        while len(found) < 3 if in_use else time.monotonic() < began + 1:
            found.add(tuple(shared_cluster().execute(asked)))
            assert time.monotonic() < began + PATIENCE
        assert any("SELECT 1" in str(each) for each in found) is in_use
        assert in_use or len(found) == 1
    finally:
        listening.close()


class ConnectionTo(WatchedConnection):
    """One that nothing is asked over."""

    def __init__(self, options: servers.Options, timeline: str) -> None:
        self.options, self.timeline = options, timeline

    def close(self) -> None:
        """There is nothing to close."""

    def __del__(self, *_: Any) -> None:
        """Nor to warn of."""


def test_a_lost_connection_to_a_server_that_was_replaced_casts_no_doubt_on_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timelines, asked = {"1": "01"}, list[str]()

    def connected(options: servers.Options, *, timeline: bool = False) -> WatchedConnection:
        asked.append(options["port"])
        if options["port"] not in timelines:
            raise psycopg.OperationalError("it takes no writes")
        return ConnectionTo(options, timelines[options["port"]])

    monkeypatch.setattr(servers, "_open", connected)
    known = servers.Servers({"host": "a,b", "port": "1,2"})
    before, lost = known.connect(), known.connect()
    timelines["2"] = "02"
    known.doubt(before)
    assert known.connect().options["port"] == "2"
    asked.clear()
    known.doubt(lost)
    assert (known.connect().options["port"], asked) == ("2", ["2"])  # a server that hangs would be waited for
    known.doubt(known.connect())
    asked.clear()
    known.connect()
    assert sorted(set(asked)) == ["1", "2"]


def test_a_connection_that_is_given_back_to_a_closed_database_is_closed() -> None:
    database = Database(shared_cluster().new_database())
    late, kept = database.take(), database.take()
    database.give_back(kept)
    database.close()
    database.give_back(late)
    assert late.closed and kept.closed
