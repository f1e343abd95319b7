"""How a working copy is brought up to date: by the primary, or by a standby where that is allowed and no primary
answers.

A standby may be behind: what is here then stays. It may also have what the next primary never gets, if it is not the one
that is promoted; so what came from it is compared with the primary by the last change, which has a token of its own.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from psycopg import Connection
from psycopg.pq import Format

from timeleap_postgresql.approval_rows import STORE
from timeleap_postgresql.database import Database
from timeleap_postgresql.freshness import Staleness
from timeleap_postgresql.migrations import VERSION
from timeleap_postgresql.servers import Statement, WatchedConnection

# The schema is named first, so that it is locked first: a newer release that changes it waits, and deadlocks with nobody.
_FROM: Final = "FROM timeleap_schema v, timeleap_session s WHERE v.version = %s AND s.id = %s"
SESSION: Final = f"SELECT s.version, s.live, date_part('epoch', s.changed) * 1e9, s.approvals {_FROM}"
"""The columns that `Copy.update` takes. A time as a number is read by us whatever the database's `datestyle` is."""
_VERSION: Final = Statement(
    b"timeleap_version",
    "SELECT s.version FROM timeleap_schema v, timeleap_session s WHERE v.version = $1::int AND s.id = $2::text",
    (Format.TEXT, Format.TEXT),
)
_LAST_CHANGE: Final = "SELECT token FROM timeleap_change WHERE session = %s AND version = %s"

_CAUSE: Final = (
    "SELECT c.events FROM timeleap_session s JOIN timeleap_change c ON c.session = s.id AND c.version = s.version"
    " WHERE starts_with(s.id, %s) AND c.version > %s ORDER BY s.id DESC LIMIT 1"
)

Row = tuple[Any, ...]


class Copy(Protocol):
    """The working copy that is brought up to date."""

    session_id: str
    version: int
    doubtful: bool

    def update(self, connection: Connection[Any], row: Row | None) -> bool: ...


class CopyReading:
    """Brings one up to date, without a change.

    Attributes:
        reached: At least this version was here before; a standby that has less is behind.
        unproven: A standby was the last that it was brought up to date by: a primary has to be asked.
    """

    def __init__(self, copy: Copy, database: Database) -> None:
        self.reached = -1
        self.unproven = False
        self._copy, self._database = copy, database
        self._last = ""  # the change that the standby had as its last; "": nobody knows

    def is_current(self, mark: Staleness | None = None) -> bool:
        """True if the directory has what the database has; with `mark`, of a standby (see `Database.read`): at least
        that. Raises StorageFailureError."""
        copy = self._copy

        def ask(connection: WatchedConnection, stale: bool) -> bool:
            connection.prepare(_VERSION)
            connection.ask(_VERSION, [b"%d" % VERSION, copy.session_id.encode(connection.info.encoding)])
            answer = connection.answer()
            row = (int(answer.get_value(0, 0) or 0),) if answer.ntuples else None
            return self._has(row) if stale else row == (copy.version,) and not self.unproven

        return not copy.doubtful and self._database.read(ask, mark)

    def catch_up(self, mark: Staleness | None = None) -> bool:
        """Bring the directory up to date; says whether it was not. With `mark`, as `is_current`.

        Raises:
            SessionNotFoundError: It is not in the database any more.
            StorageFailureError: It is as it was, or doubtful.
        """
        return self._database.read(self._take, mark)

    def cause_of_end(self) -> bytes | None:
        """Why the session is not there any more: the cause that its move was made with; None where nobody knows. Raises
        StorageFailureError."""
        with self._database.connection() as connection:
            row = connection.execute(_CAUSE, [f"{self._copy.session_id}{STORE}", self._copy.version]).fetchone()
        return None if row is None else row[0]

    def _take(self, connection: WatchedConnection, stale: bool) -> bool:
        copy = self._copy
        with connection.transaction():
            with connection.pipeline():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                cursor = connection.execute(SESSION, [VERSION, copy.session_id])
            row = cursor.fetchone()
            if not stale:
                self.prove(connection)
                return copy.update(connection, row)
            if not copy.doubtful and self._has(row):
                return False
            if row is not None and row[0] < max(self.reached, copy.version):
                raise self._database.behind()
            self.unproven, self._last = True, ""
            changed = copy.update(connection, row)
            self._last = self._last_change(connection)
            return changed

    def prove(self, connection: Connection[Any]) -> None:
        """Find out whether a primary has what came from a standby; if not, the copy is doubtful."""
        if self.unproven:
            self._copy.doubtful |= not self._last or self._last != self._last_change(connection)
            self.unproven = False

    def _has(self, row: Row | None) -> bool:
        """True if a standby has nothing that is not here."""
        return self._copy.version >= 0 if row is None else bool(row[0] <= self._copy.version)

    def _last_change(self, connection: Connection[Any]) -> str:
        row = connection.execute(_LAST_CHANGE, [self._copy.session_id, self._copy.version]).fetchone()
        return "" if row is None else str(row[0])
