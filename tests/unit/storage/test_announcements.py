"""The thread that listens for what other processes commit to a database: it is woken, and does not look now and then."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator

import pytest
from tests.support.postgresql import shared_cluster
from tests.support.server import PATIENCE

from timeleap.storage.postgresql import database as module
from timeleap.storage.postgresql.database import CHANNEL, Announcements, Database

Heard = tuple[str | None, int | None]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(module, "LISTENING_PAUSE", 100 * PATIENCE)
    database = Database(shared_cluster().new_database())
    yield database
    database.close()


def test_it_ends_as_soon_as_it_is_closed(database: Database) -> None:
    listening = Announcements(database, lambda session, version: None)
    assert listening.wait_until_ready(PATIENCE)
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
