"""A PostgreSQL server of the tests' own, in a temporary directory; the system's is never touched."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from timeleap.cli import private_cluster as servers
from timeleap.cli.private_cluster import INSTALL, free_port, programs

__all__ = [
    "INSTALL",
    "Cluster",
    "free_port",
    "private_cluster",
    "programs",
    "replicated_cluster",
    "shared_cluster",
    "stored_log",
]


class Cluster(servers.Cluster):
    """A running server."""

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{os.urandom(8).hex()}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """The rows that a statement gives."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]  # nothing of it comes from outside
            return cursor.fetchall() if cursor.description else []

    def set(self, **settings: str) -> None:
        """Change settings of the running server."""
        for name, value in settings.items():
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")


def stored_log(url: str, session_id: str, name: str) -> bytes:
    """The bytes of a session's log, or of a timeline, as the rows of a database give them."""
    with psycopg.connect(url) as connection:
        logs = {
            row[0]: row[1:]
            for row in connection.execute(
                "SELECT id, name, parent, shared, length FROM timeleap_log WHERE session = %s", [session_id]
            )
        }

        def beginning(log: int, length: int) -> bytes:
            _, parent, shared, _ = logs[log]
            pieces = connection.execute("SELECT body FROM timeleap_piece WHERE log = %s ORDER BY start", [log])
            own = b"".join(bytes(body) for (body,) in pieces)
            return ((beginning(parent, shared) if parent is not None else b"") + own)[:length]

        (log,) = (log for log, facts in logs.items() if facts[0] == name)
        return beginning(log, logs[log][3])


@functools.cache
def shared_cluster() -> Cluster:
    """The server of this process's tests, each of which has a database of its own there; it ends with the process."""
    stack = ExitStack()
    cluster = stack.enter_context(private_cluster())
    atexit.register(stack.close)
    return cluster


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """A new server, gone with its data, and that of its standbys, at the end. Skips the test where PostgreSQL is not
    installed."""
    if programs() is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    with servers.private_cluster(Cluster) as cluster:
        yield cluster


@contextmanager
def replicated_cluster() -> Iterator[tuple[Cluster, Cluster]]:
    """A server and its synchronous standby: what was committed on the one is on the other."""
    with private_cluster() as primary:
        standby = primary.standby("standby")
        primary.wait_for_synchronous("standby")
        yield primary, standby
