"""The database: connections to it, its errors in our terms, and what it tells of changes.

A commit whose answer was lost is never guessed at: each is noted in `timeleap_change` under a token, and is looked up
over another connection once the row of its session can be locked, which waits for whatever still holds it.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Connection, errors

from timeleap import clock
from timeleap.errors import StorageFailureError, TimeleapError
from timeleap_postgresql import poolers, refusals, usability
from timeleap_postgresql.freshness import Staleness
from timeleap_postgresql.migrations import VERSION, migrate
from timeleap_postgresql.refusals import Reason, Refusal
from timeleap_postgresql.servers import (
    SILENT_SECONDS,
    WORKING_SECONDS,
    PooledConnection,
    Servers,
    WatchedConnection,
)
from timeleap_postgresql.store_url import DIRECT, StoreUrl

T = TypeVar("T")

AWAY_SECONDS: Final = 1.0
"""How long a primary that did not answer is not asked again by reads that a standby can answer."""
CHANNEL: Final = "timeleap"
MIGRATION_LOCK: Final = 7_164_838_221
WAITING_LOCK: Final = 1_953_066_093
"""The first number of the advisory lock that a process has while it hears of changes; the second one is its sender."""
MEETING_LOCK: Final = 1_953_066_094
"""The first number of the lock by which two connections find out that they are in one database."""
OUTCOME_SECONDS: Final = 10.0
"""How long to look for a database that says whether a commit was made."""
NEW_SESSION: Final = "INSERT INTO timeleap_session (id, folded, version) VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
MAX_IDLE: Final = 4
"""Connections that are kept for the next use."""
_logger = logging.getLogger(__name__)
_NO_LISTENING: Final = (
    "over which nothing is heard of what other processes change: name the server itself, or a pool in session mode, by"
    f" {DIRECT}=HOST:PORT in the URL, or use a pool in session mode"
)
_OF_ROW_SECURITY: Final = ("check_enable_rls", "ExecWithCheckOptions")
"""Functions of PostgreSQL that refuse what a policy hides or forbids: its words are in the language of the server."""
_AWAY: Final = ("unreachable", "lost", "readOnly")
"""Why no primary answers, for a read."""


class Untold:
    """The notification of a change of this process, which comes back to it."""

    def __init__(self) -> None:
        self._since: float | None = None

    def begin(self) -> None:
        """A change is about to be committed."""
        if self._since is None:
            self._since = time.monotonic()

    def clear(self) -> None:
        """A notification has come, or none will come: nothing was changed, or a new connection listens."""
        self._since = None

    def doubt(self) -> None:
        """The listener has lost its connection, as another user of the database has seen."""
        self._since = float("-inf")

    def since(self, seconds: float) -> bool:
        """True if it has not come for so long."""
        began = self._since  # which another thread may change
        return began is not None and time.monotonic() - began > seconds


class Database:
    """A database that holds a store.

    Attributes:
        label: Its URL without user, password and options.
        reads_standby: Reads are answered by a standby while no primary answers, if they are marked then.
        sender: What changes made through it are announced with.
        listening: The servers as they are reached to listen, and to keep a lock: past a pooler, if there is one.
        untold: Whether the process that listens is yet to hear of its own last change.
        used: When a connection was taken last, as `time.monotonic` says.
    """

    def __init__(self, url: str) -> None:
        """`url`: a libpq URI, which may also have parameters of ours; several hosts are tried in turn. Raises
        InvalidInputError where it is none."""
        found = StoreUrl(url)
        self.label, self.reads_standby, self._options = found.label, found.reads_standby, found.options
        self.sender = clock.new_uid(8)
        self._servers = Servers(found.options)
        self.listening = self._servers if found.direct is None else Servers(found.direct)
        self._idle: list[WatchedConnection] = []
        self._closed = False
        self._lock = threading.Lock()
        self._checked = False
        self._away: tuple[float, Reason, str] = (0.0, "unreachable", "")  # until when, and why
        self.untold = Untold()
        self.used = 0.0

    def connect(self) -> WatchedConnection:
        """A connection of one's own, each statement of which is a transaction unless one is begun. Raises
        StorageFailureError."""
        connection = self._connect(self._servers)
        if isinstance(connection, PooledConnection) and self.listening is self._servers:
            connection.close()
            raise self.failure("pooler", f"{self.label} is a pooler in transaction mode, {_NO_LISTENING}")
        return connection

    def connect_to_listen(self) -> WatchedConnection:
        """A connection that hears of changes and keeps locks. Raises StorageFailureError."""
        connection = self._connect(self.listening)
        if isinstance(connection, PooledConnection):
            connection.close()
            place = self.label if self.listening is self._servers else f"{DIRECT} of the URL"
            raise self.failure("pooler", f"{place} is a pooler in transaction mode, {_NO_LISTENING}")
        return connection

    def _connect(self, servers: Servers) -> WatchedConnection:
        place = self.label if servers is self._servers else f"the server of {self.label} that {DIRECT} names"
        try:
            return servers.connect()
        except poolers.PoolerError as error:
            raise self.failure("pooler", f"cannot use {place}: {error}") from None
        except psycopg.Error as error:
            refusal = refusals.of_connection(error)
            if refusal.reason == "readOnly" and servers.several:  # one of them is promoted soon
                refusal = Refusal("unreachable", True)
            hint = " (a standby, or default_transaction_read_only is on)" if refusal.reason == "readOnly" else ""
            message = f"cannot connect to {place}: {refusals.first_line(error)}{hint}"
            raise self.failure(refusal.reason, message, refusal.retryable) from None

    def _check_listening(self, connection: WatchedConnection) -> None:
        """Look whether who listens past a pooler is in the same database: else nothing was ever heard of there. Raises
        StorageFailureError."""
        if self.listening is self._servers:
            return
        number = secrets.randbelow(1 << 31)
        with self.connect_to_listen() as direct:
            direct.execute("SELECT pg_advisory_lock_shared(%s, %s)", [MEETING_LOCK, number])
            seen = connection.execute(
                "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database AND d.datname = current_database()"
                " WHERE locktype = 'advisory' AND classid = %s AND objid = %s",
                [MEETING_LOCK, number],
            ).fetchone()
        if seen is None:
            raise self.failure("pooler", f"{DIRECT} of the URL names another database than that of {self.label}")

    def failure(
        self, reason: Reason, message: str, retryable: bool = False, *, unchanged: bool = False, **data: Any
    ) -> StorageFailureError:
        """The error that says why the store cannot be used. `unchanged`: the same may be tried over another
        connection."""
        error = StorageFailureError(message, store=self.label, reason=reason, **data)
        error.retryable, error.unchanged = retryable, unchanged
        return error

    def behind(self) -> StorageFailureError:
        """Why a standby is of no use: what it has is less than what was answered before."""
        return self.failure("readOnly", "the standby is behind what was answered before")

    def translated(self, error: psycopg.Error, connection: Connection[Any] | None = None) -> StorageFailureError:
        """An error of the database in our terms."""
        refusal = refusals.of_statement(error)
        if connection is not None and connection.broken and (refusal.retryable or error.sqlstate is None):
            text = f"the connection to {self.label} was lost; nothing was changed"
            return self.failure("lost", text, True, unchanged=True)
        if isinstance(error, errors.UndefinedTable):
            return self.failure("rights", f"{self.label} is no store yet: run `timeleap store init` as its owner")
        if isinstance(error, errors.LockNotAvailable):
            text = f"another process is changing the session in {self.label}, and has not ended in time"
            return self.failure("busy", f"{text}; nothing was changed, try again", True)
        if isinstance(error, errors.InvalidSchemaName):
            text = (
                f"{self.label} has no schema for tables in the search_path of the role: CREATE SCHEMA, or name another"
            )
            return self.failure("rights", f"{text} by ?options=-csearch_path%3DNAME")
        if error.diag.source_function in _OF_ROW_SECURITY:
            text = f"row level security of {self.label} hides rows, or refuses them"
            return self.failure("rights", f"{text}: {usability.ROW_SECURITY}; nothing was changed")
        message = f"{self.label} refused: {refusals.first_line(error)}; nothing was changed"
        return self.failure(refusal.reason, message, refusal.retryable)

    @contextmanager
    def connection(self, *, prepared: bool = True) -> Iterator[WatchedConnection]:
        """A connection for the time of a block, which leaves no transaction open; `prepared`: to a store of this
        release. Raises StorageFailureError for what goes wrong in it."""
        connection = self.take() if prepared else self.connect()
        try:
            yield connection
        except psycopg.Error as error:
            raise self.translated(error, connection) from error
        finally:
            self.give_back(connection)

    @contextmanager
    def transaction(self) -> Iterator[WatchedConnection]:
        """Hold a connection for one transaction, during which no other release changes the schema."""
        with self.connection() as connection, self.steady(connection):
            yield connection

    @contextmanager
    def steady(self, connection: WatchedConnection) -> Iterator[None]:
        """Such a transaction on a connection."""
        with connection.transaction():
            connection.execute("LOCK TABLE timeleap_schema IN ACCESS SHARE MODE")
            self.check_version(connection)
            yield

    def read(self, work: Callable[[WatchedConnection, bool], T], mark: Staleness | None) -> T:
        """Run `work`, which reads, on a connection. With a `mark`, and while no primary answers, that may be one to a
        standby: then the second argument is True, and so is `mark.found` at the end.

        Raises:
            StorageFailureError: Why the primary does not answer, also if the standby has not what `work` needs.
        """
        marked = mark if self.reads_standby else None
        try:
            until, reason, message = self._away
            if marked is not None and time.monotonic() < until:
                raise self.failure(reason, message, True)
            return self.again(lambda: self._read_primary(work))
        except StorageFailureError as error:
            reason = error.data.get("reason", "full")
            if marked is None or reason not in _AWAY:
                raise
            if time.monotonic() >= self._away[0]:
                self._away = time.monotonic() + AWAY_SECONDS, reason, error.message
            try:
                found = self._read_standby(work)
            except (TimeleapError, psycopg.Error) as problem:
                _logger.debug("no standby answers either: %s", type(problem).__name__)
                raise error from None
            marked.found = True
            return found

    def again(self, work: Callable[[], T]) -> T:
        """Run `work`, and once more where its connection was lost and nothing was changed: one that
        was idle may have been ended by its server, or by what is between."""
        try:
            return work()
        except StorageFailureError as error:
            if not error.unchanged:
                raise
        return work()

    def _read_primary(self, work: Callable[[WatchedConnection, bool], T]) -> T:
        with self.connection() as connection:
            return work(connection, False)

    def _read_standby(self, work: Callable[[WatchedConnection, bool], T]) -> T:
        connection = self._servers.connect_to_standby()
        try:
            if self.version(connection) != VERSION:
                raise self.failure("newerSchema", "the standby has the schema of another release")
            return work(connection, True)
        finally:
            connection.close()

    def take(self) -> WatchedConnection:
        """A connection that is given back by `give_back`. Raises StorageFailureError where there is none, or the
        database is no store of this release."""
        self.used = time.monotonic()
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self.connect()
                self._away = (0.0, "unreachable", "")
                break
            if not connection.closed and not self.is_outdated(connection) and _alive(connection):
                break
            connection.close()
        if not self._checked:
            try:
                self.prepare(connection, ignore_hidden=False)
            except BaseException:
                connection.close()
                raise
            self._checked = True
        return connection

    def take_idle(self) -> WatchedConnection | None:
        """Take a connection that is idle now; None if there is none."""
        self.used = time.monotonic()
        with self._lock:
            connection = self._idle.pop() if self._idle and self._checked else None
        if connection is None or not (connection.closed or self.is_outdated(connection) or _has_input(connection)):
            return connection
        self.give_back(connection)
        return None

    def doubt(self, lost: Connection[Any] | None = None) -> None:
        """A connection was lost: others to the same server are as good as lost, and it may not take writes any more."""
        self._servers.doubt(lost)
        if self.listening is not self._servers:
            self.listening.doubt()
        self._checked = False  # a newer release may have been at it meanwhile
        self.close(for_good=False)

    @property
    def several(self) -> bool:
        """True if the URL names several servers."""
        return self._servers.several

    def is_outdated(self, connection: WatchedConnection) -> bool:
        """True of a connection to a server that another one has taken over from."""
        return self._servers.is_outdated(connection)

    def give_back(self, connection: WatchedConnection) -> None:
        """Keep a connection for the next use, with nothing left open on it."""
        connection.patience = SILENT_SECONDS
        if connection.broken:
            self.doubt(connection)
        with suppress(psycopg.Error):
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
            with self._lock:
                if len(self._idle) < MAX_IDLE and not (connection.closed or self._closed):
                    self._idle.append(connection)
                    return
        connection.close()

    def close(self, *, for_good: bool = True) -> None:
        """Close the connections that are kept; `for_good`: one that a thread has still is not kept, either."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed |= for_good
        for connection in idle:
            connection.close()

    # The schema

    def version(self, connection: Connection[Any]) -> int:
        """The version of the schema; 0 where there is none."""
        # Reading a table takes note of what others have made since this connection looked for the name in vain.
        if connection.execute("SELECT to_regclass('timeleap_schema') FROM pg_class LIMIT 1").fetchone() == (None,):
            return 0
        found = connection.execute("SELECT version FROM timeleap_schema").fetchone()
        return 0 if found is None else int(found[0])

    def prepare(self, connection: WatchedConnection, *, ignore_hidden: bool = True) -> int:
        """Bring the schema up to this release's, if the role may; returns the version it had.

        Args:
            ignore_hidden: Make a store also where there is one in a schema that the role does not see.

        Raises:
            StorageFailureError: A newer release has changed it, or the role may not.
        """
        try:
            self._check_listening(connection)
            before = self.version(connection)
            there = None if ignore_hidden else self.elsewhere(connection)
            if there is not None:
                raise self.failure("rights", f"{self.label}: {there}")
            if before < VERSION:
                connection.patience = WORKING_SECONDS
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
                    migrate(connection, self.version(connection))
        except errors.InsufficientPrivilege as error:
            message = f"the role may not set up {self.label} ({refusals.first_line(error)}): run `timeleap store init`"
            raise self.failure("rights", f"{message} as a role that may") from error
        except psycopg.Error as error:
            raise self.translated(error, connection) from error
        self._refuse_newer(before)
        return before

    def check_version(self, connection: Connection[Any]) -> None:
        """Look whether a newer release has changed the schema meanwhile. Raises StorageFailureError if so."""
        self._refuse_newer(self.version(connection))

    def _refuse_newer(self, version: int) -> None:
        if version > VERSION:
            self._checked = False
            message = f"{self.label} has schema version {version}, this release knows {VERSION}: use a newer Timeleap"
            raise self.failure("newerSchema", message)

    def elsewhere(self, connection: Connection[Any]) -> str | None:
        """Where a store is that the role does not see, in the place of one that it sees; None: nowhere."""
        return usability.elsewhere(connection) if self.version(connection) == 0 else None

    def check_use(self, connection: Connection[Any]) -> None:
        """Look whether the role can use the tables. Raises StorageFailureError if not, psycopg.Error."""
        hindrance = usability.hindrance(connection)
        if hindrance is not None:
            raise self.failure("rights", f"{self.label}: {hindrance}")

    def check(self) -> dict[str, Any]:
        """How much is in the store, and logs of which bytes are missing.

        Raises:
            StorageFailureError: It cannot be used: it has no tables, or those of another release.
        """
        with self.connection(prepared=False) as connection:
            self._check_listening(connection)
            connection.patience = WORKING_SECONDS
            version = self.version(connection)
            if version == 0:
                there = usability.elsewhere(connection)
                raise self.failure("rights", f"{self.label} is no store yet: {there or 'run `timeleap store init`'}")
            if version > VERSION:
                self.prepare(connection)
            self.check_use(connection)
            rows = connection.execute(
                "SELECT l.session, coalesce(l.name, ''), l.length - l.shared,"
                " coalesce((SELECT sum(length(p.body)) FROM timeleap_piece p WHERE p.log = l.id), 0),"
                " coalesce((SELECT p.length FROM timeleap_log p WHERE p.id = l.parent), 0) < l.shared"
                " FROM timeleap_log l ORDER BY l.session, l.id"
            ).fetchall()
            sessions = connection.execute("SELECT count(*) FROM timeleap_session WHERE id NOT LIKE '%~%'").fetchone()
        damaged = [
            {"sessionId": session_id, "log": name or "a log that others begin with"}
            for session_id, name, own, stored, lacks_parent in rows
            if own != stored or lacks_parent
        ]
        return {
            "version": version,
            "sessions": 0 if sessions is None else int(sessions[0]),
            "logs": len(rows),
            "bytes": int(sum(row[3] for row in rows)),
            "damaged": damaged,
        }

    # The outcome of a commit

    def was_made(self, session_id: str, token: str, before: int | None) -> bool:
        """True if the change with a token of version `before` was committed, for a commit whose answer did not come;
        `before` is None of the change that made the session. One that was not cannot be any more: where what was sent may
        yet arrive, the session gets the next version.

        Raises:
            StorageFailureError: No database answers for so long; `data.outcome` is `unknown`.
        """
        deadline = time.monotonic() + OUTCOME_SECONDS
        while True:
            try:
                with self.connection() as connection, connection.transaction():
                    connection.patience = OUTCOME_SECONDS / 2
                    connection.execute("SET LOCAL lock_timeout = '2s'")
                    if before is None:  # a row that is not committed yet is waited for by the same one only
                        connection.execute(NEW_SESSION, [session_id, session_id.casefold()])
                    row = connection.execute(
                        "SELECT version FROM timeleap_session WHERE id = %s FOR UPDATE", [session_id]
                    ).fetchone()
                    made = connection.execute("SELECT 1 FROM timeleap_change WHERE token = %s", [token]).fetchone()
                    if made is None and before is None:
                        raise psycopg.Rollback
                    if made is None and before is not None and row == (before,):
                        connection.execute(
                            "UPDATE timeleap_session SET version = version + 1 WHERE id = %s", [session_id]
                        )
                        connection.execute(
                            "INSERT INTO timeleap_change (session, version, token, events) VALUES (%s, %s, %s, '[]')",
                            [session_id, before + 1, f"not {token}"],
                        )
                return made is not None
            except StorageFailureError as error:
                if time.monotonic() > deadline:
                    message = f"the connection to {self.label} was lost during a commit, and it does not answer"
                    asked = "; ask again with the same request id"
                    raise self.failure("lost", message + asked, True, outcome="unknown") from error
                time.sleep(0.2)


def _has_input(connection: Connection[Any]) -> bool:
    """True of a connection that was told something, or has ended, since it was used."""
    import select

    if not hasattr(select, "poll"):
        return bool(select.select([connection.fileno()], [], [], 0)[0])
    waiting = select.poll()  # which takes descriptors of any number
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def _alive(connection: Connection[Any]) -> bool:
    """True unless the other side has gone meanwhile; costs no round trip."""
    if not _has_input(connection):
        return True
    with suppress(psycopg.Error):
        connection.execute("SELECT 1")
        return True
    return False
