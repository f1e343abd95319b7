"""A PostgreSQL server of the tests' own, in a temporary directory; the system's is never touched."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest
from psycopg import sql

from timeleap.cli import private_cluster as servers
from timeleap.cli.private_cluster import INSTALL, free_port, programs
from timeleap_postgresql.database import Database

__all__ = [
    "INSTALL",
    "Cluster",
    "edit_document",
    "edit_log",
    "free_port",
    "private_cluster",
    "programs",
    "rename_session",
    "replicated_cluster",
    "shared_cluster",
    "stored_document",
    "stored_log",
    "stored_rows",
]


_STRUCTURE = """
    SELECT (SELECT version FROM timeleap_schema),
        (SELECT string_agg(concat_ws(' ', oid::regclass, relkind, relacl), ',' ORDER BY relname) FROM pg_class
            WHERE relnamespace = 'public'::regnamespace),
        (SELECT string_agg(concat_ws(' ', attrelid::regclass, attname, atttypid, attacl), ',' ORDER BY attrelid, attnum)
            FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)),
        (SELECT string_agg(conname, ',' ORDER BY conname) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace),
        (SELECT count(*) FROM pg_proc WHERE oid >= 16384), (SELECT count(*) FROM pg_namespace WHERE oid >= 16384),
        (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal), (SELECT count(*) FROM pg_rewrite WHERE oid >= 16384),
        (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = pg_database.oid), datacl, datconnlimit
    FROM pg_database WHERE datname = current_database()
"""


class Cluster(servers.Cluster):
    """A running server."""

    copying = ""
    """How it makes a new database, where that is not its own way."""
    _structure: tuple[object, ...] | None = None
    """Of a store's tables; None: nothing is used again."""

    def use_again(self) -> None:
        """Give a store that a test has done with to another one, emptied: that costs a tenth of a new one."""
        url = self.new_database()
        database = Database(url)
        with database.connection() as connection:
            self._structure = tuple(map(str, connection.execute(_STRUCTURE).fetchone() or ()))
        database.close()
        self._given_back = [url]

    def store(self) -> str:
        """The URL of a database with nothing in it, or nothing but a store's empty tables."""
        while self._structure is not None and self._given_back:
            url = self._given_back.pop()
            with psycopg.connect(url, autocommit=True) as connection:
                if self._emptied(connection):
                    return url
        return self.new_database()

    def give_back(self, url: str) -> None:
        """Have a database used again, after the end of the test that had it."""
        if self._structure is not None:
            self._given_back.append(url)

    def _emptied(self, connection: psycopg.Connection[Any]) -> bool:
        """Delete what is in a store; False where that is not all by which it differs from a new one."""
        if connection.execute("SELECT to_regclass('timeleap_schema')").fetchone() == (None,):
            return False
        if tuple(map(str, connection.execute(_STRUCTURE).fetchone() or ())) != self._structure:
            return False
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"  # of servers that were killed
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute(
            "DELETE FROM timeleap_session; INSERT INTO timeleap_session (id, folded, version) VALUES ('~', '~', 0)"
        )
        return True

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{os.urandom(8).hex()}"
        self.execute(f"CREATE DATABASE {name} {self.copying}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """The rows that a statement gives."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]  # nothing of it comes from outside
            return cursor.fetchall() if cursor.description else []

    def restart(self, how: str) -> None:
        """Stop the server, `fast` or `immediate`, and start it again."""
        self._control("stop", "-m", how)
        self.start()

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


def stored_document(url: str, session_id: str, name: str) -> bytes | None:
    """The bytes of a small file of a session, as its row has them; None: there is no such row."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT body FROM timeleap_document WHERE session = %s AND name = %s", [session_id, name]
        ).fetchone()
    return None if row is None else bytes(row[0])


def edit_document(url: str, session_id: str, name: str, body: bytes | None) -> None:
    """Write a small file of a session behind the back of all servers (None: remove it), which see that it is another one."""
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM timeleap_document WHERE session = %s AND name = %s", [session_id, name])
        if body is not None:
            connection.execute(
                "INSERT INTO timeleap_document (session, name, version, body)"
                " SELECT id, %s, version + 1, %s FROM timeleap_session WHERE id = %s",
                [name, body, session_id],
            )
        connection.execute("UPDATE timeleap_session SET version = version + 1 WHERE id = %s", [session_id])


def edit_log(url: str, session_id: str, data: bytes) -> None:
    """Write the live log of a session behind the back of all servers, which see that it is another one."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "INSERT INTO timeleap_log (session, name, length) SELECT session, name, %s FROM timeleap_log"
            " WHERE id = (SELECT live FROM timeleap_session WHERE id = %s) RETURNING id",
            [len(data), session_id],
        ).fetchone()
        assert row is not None
        if data:
            connection.execute("INSERT INTO timeleap_piece (log, start, body) VALUES (%s, 0, %s)", [row[0], data])
        connection.execute(
            "UPDATE timeleap_log SET name = NULL WHERE id = (SELECT live FROM timeleap_session WHERE id = %s)",
            [session_id],
        )
        connection.execute(
            "UPDATE timeleap_session SET live = %s, version = version + 1 WHERE id = %s", [row[0], session_id]
        )


def stored_rows(url: str) -> bytes:
    """Every value of every row of a database's tables."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        values = [
            value
            for (table,) in tables
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            for value in row
        ]
    return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


def rename_session(url: str, pattern: str, name: str) -> None:
    """Give the one session whose id is like `pattern` another one, behind the back of all servers."""
    with psycopg.connect(url) as connection:
        done = connection.execute(
            "UPDATE timeleap_session SET id = %s, folded = %s WHERE id LIKE %s", [name, name.casefold(), pattern]
        )
        assert done.rowcount == 1


@functools.cache
def shared_cluster() -> Cluster:
    """The server of this process's tests, each of which has a database of its own there; it ends with the process."""
    stack = ExitStack()
    cluster = stack.enter_context(private_cluster())
    atexit.register(stack.close)
    # What it keeps without power is nobody's business here: what is killed are its processes.
    # With a hundred databases a process is started twice a second to see that there is nothing to be vacuumed.
    cluster.set(fsync="off", full_page_writes="off", autovacuum="off")
    if int(str(cluster.execute("SHOW server_version_num")[0][0])) >= 150_000:
        # A new database has 7 MB, which else go through the write-ahead log, too. With fsync this way would be the slow one.
        cluster.copying = "STRATEGY FILE_COPY"
        cluster.use_again()
    return cluster


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """A new server, gone with its data, and that of its standbys, at the end. Skips the test where PostgreSQL is not
    installed."""
    if programs() is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    with mock.patch.object(servers, "_run", _run), servers.private_cluster(Cluster) as cluster:
        yield cluster


def _run(program: str, *arguments: str, run: Callable[..., str] = servers._run) -> str:
    """Run one of PostgreSQL's programs; `initdb`, which takes half a second of the processor, once for all clusters."""
    if program != "initdb":
        return run(program, *arguments)
    directory, options = Path(arguments[arguments.index("-D") + 1]), tuple(arguments[2:])
    made = _initialized(options, run)
    subprocess.run(["cp", "-a", str(made), str(directory)], check=True)
    return ""


@functools.cache
def _initialized(options: tuple[str, ...], run: Callable[..., str]) -> Path:
    folder = tempfile.mkdtemp(prefix="tlpg-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if (owner := servers._owner()) is not None:
        shutil.chown(folder, owner)
    run("initdb", "-D", str(Path(folder, "data")), *options)
    return Path(folder, "data")


@contextmanager
def replicated_cluster() -> Iterator[tuple[Cluster, Cluster]]:
    """A server and its synchronous standby: what was committed on the one is on the other."""
    with private_cluster() as primary:
        standby = primary.standby("standby")
        primary.wait_for_synchronous("standby")
        yield primary, standby
