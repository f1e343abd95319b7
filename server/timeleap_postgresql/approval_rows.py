"""Rows about the approvals of one session, apart from its files: a program that only writes files cannot change
them. They are changed in the transaction of the session's change, and read again with it.

A process that waits for decisions has an advisory lock for as long as it lives, by which others see that it is there.
"""

from __future__ import annotations

from typing import Any, Final

from psycopg import Connection

from timeleap.errors import ReadOnlyError
from timeleap_postgresql.database import WAITING_LOCK, Database

STORE: Final = "~"
KEY: Final = "key"
"""Row of the store, not of a session: the digest of the key that its seals are made with."""


class ApprovalRows:
    """The rows of one session, and the store's `KEY`.

    Attributes:
        committed: By name, as of the version that the working copy has.
    """

    def __init__(self, database: Database, session_id: str) -> None:
        self.committed: dict[str, bytes] = {}
        self._database = database
        self._session_id = session_id
        self._staged: dict[str, bytes | None] = {}

    @property
    def sender(self) -> str:
        """Name of this process among the others."""
        return self._database.sender

    def now(self) -> dict[str, bytes]:
        """The rows as they are in the change under way."""
        rows = {**self.committed, **self._staged}
        return {name: body for name, body in rows.items() if body is not None}

    def put(self, name: str, body: bytes | None) -> None:
        """Change a row, or (None) remove it, with the change under way; `KEY` is set once."""
        self._staged[name] = body

    def waiting(self) -> set[str]:
        """Senders of the processes that are there; where this one is not, it connects again to listen. Blocking. Raises
        StorageFailureError."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT objid FROM pg_locks JOIN pg_database d ON d.oid = database AND d.datname = current_database()"
                " WHERE locktype = 'advisory' AND classid = %s AND objsubid = 2 AND granted",
                [WAITING_LOCK],
            ).fetchall()
        found = {f"{int(row[0]):08x}" for row in rows}
        if self.sender not in found:
            self._database.untold.doubt()
        return found

    # Of the working copy

    def begin(self) -> None:
        """Another change begins; what was put for the last one does not count."""
        self._staged.clear()

    def take(self, connection: Connection[Any], *, newer: bool) -> None:
        """Take over what the database has, if that is newer."""
        if not newer:
            return
        rows = connection.execute(
            "SELECT name, body FROM timeleap_approval WHERE session = %s OR (session = %s AND name = %s)",
            [self._session_id, STORE, KEY],
        ).fetchall()
        self.committed = {str(name): bytes(body) for name, body in rows}

    def store(self, connection: Connection[Any], version: int) -> bool:
        """Send what was put; says whether there was anything.

        Raises:
            ReadOnlyError: Another process has set another `KEY` meanwhile.
        """
        for name, body in self._staged.items():
            if name == KEY:
                connection.execute(
                    "INSERT INTO timeleap_approval (session, name, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    [STORE, KEY, body],
                )
                there = connection.execute(
                    "SELECT body FROM timeleap_approval WHERE session = %s AND name = %s", [STORE, KEY]
                ).fetchone()
                if there != (body,):
                    raise ReadOnlyError("another machine has just set another key for approvals in this store")
            elif body is None:
                connection.execute(
                    "DELETE FROM timeleap_approval WHERE session = %s AND name = %s", [self._session_id, name]
                )
            else:
                connection.execute(
                    "INSERT INTO timeleap_approval (session, name, body) VALUES (%s, %s, %s)"
                    " ON CONFLICT (session, name) DO UPDATE SET body = excluded.body",
                    [self._session_id, name, body],
                )
        if self._staged:
            connection.execute("UPDATE timeleap_session SET approvals = %s WHERE id = %s", [version, self._session_id])
        return bool(self._staged)

    def stored(self) -> None:
        """Note that the rows put so far are committed."""
        self.committed = self.now()
        self._staged.clear()
