"""The working copy of one session: its directory on this disk, and how that and the database follow each other.

An append is planned on the copy and sent as one statement, which does nothing if the session's version is not that of
the copy any more. Any other change locks the session's row and brings the copy up to date; what it then does to the
directory goes into the database in the same transaction, and counts once that is committed. If it is not, the copy is
made again.

A log is stored in pieces, byte for byte. One that begins as another does (after a revert, say) names that as its
`parent`, and how many bytes they share: only the rest is its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.pq import Format

from timeleap import clock
from timeleap.errors import CorruptedError, SessionExistsError, SessionNotFoundError, StorageFailureError
from timeleap.storage import durable
from timeleap.storage.durable import FileStatus, OpenFile
from timeleap.storage.index import index_path
from timeleap.storage.log_values import LogState
from timeleap.storage.rewrite import Beginning
from timeleap_postgresql.approval_rows import ApprovalRows
from timeleap_postgresql.copy_reading import SESSION, CopyReading
from timeleap_postgresql.database import CHANNEL, NEW_SESSION, Database
from timeleap_postgresql.freshness import Staleness
from timeleap_postgresql.migrations import VERSION
from timeleap_postgresql.servers import Statement, WatchedConnection
from timeleap_postgresql.shared_parts import LogRow, SharedParts, beginnings, same_beginning, segments

LIVE: Final = "context.jsonl"
PIECE_BYTES: Final = 256 << 10  # that are stored, or fetched, at a time: one of them is in memory
CHANGES_KEPT: Final = 1000
_LOG: Final = re.compile(r"context(_[0-9]{1,18})?\.jsonl|context\.jsonl\.[0-9]{1,18}")
_DERIVED: Final = re.compile(r"\.(.+\.(idx|lock|intent)|.+\.[0-9a-f]{16}\.tmp)")
_LOCKED_SESSION: Final = f"{SESSION} FOR UPDATE OF s"
APPEND: Final = Statement(
    b"timeleap_append",
    """
    WITH known AS (SELECT FROM timeleap_schema WHERE version = $1::int), moved AS (
        UPDATE timeleap_session SET version = version + 1, messages = $4::bigint, tokens = $5::bigint,
            pending = $6::bigint, changed = clock_timestamp() FROM known WHERE id = $2::text AND version = $3::bigint
            RETURNING version, live),
    grown AS (UPDATE timeleap_log SET length = $8::bigint FROM moved WHERE id = live),
    put AS (INSERT INTO timeleap_piece (log, start, body) SELECT live, $7::bigint, $9::bytea FROM moved),
    noted AS (
        INSERT INTO timeleap_change (session, version, token, events)
        SELECT $2::text, version, $10::text, $11::bytea FROM moved)
    SELECT pg_notify($12::text, $13::text) FROM moved""",
    tuple(Format.BINARY if number in (9, 11) else Format.TEXT for number in range(1, 14)),
)
"""Does all of it or, where the session or the schema has another version, nothing: then it gives no row."""


class WorkingCopy:
    """The directory of one session, and the transaction that is changing it. Used by one thread at a time.

    Attributes:
        version: That of the database which the directory has; -1: none.
        doubtful: The directory may have what the database has not.
        reading: How it is brought up to date.
        heard: What other processes announced of the changes that were taken over last; None: not all is known.
    """

    def __init__(self, database: Database, session_id: str, directory: Path, parts: Path | None = None) -> None:
        """Its logs share their beginnings, if there may be the folder `parts` for that."""
        self.session_id = session_id
        self.directory = directory
        self.parts = SharedParts(parts)
        self.version = -1
        self.doubtful = False
        self.heard: list[bytes] | None = None
        self.approvals = ApprovalRows(database, session_id)
        self._database, self.reading = database, CopyReading(self, database)
        self.is_current, self.catch_up = self.reading.is_current, self.reading.catch_up
        self._connection: WatchedConnection | None = None
        self._documents: dict[str, FileStatus] = {}  # as they were when both sides agreed
        self._files: dict[int, FileStatus] = {}  # the same of the logs that are here
        self._logs: dict[int, LogRow] = {}
        self._live: int | None = None
        self._token = ""  # of the change that is being made
        self._asked: tuple[WatchedConnection, int] | None = None  # the append under way: over what, and the new length

    # A change

    def begin(self) -> bool:
        """Lock the session for a change, and bring the directory up to date; says whether it was not.

        Raises:
            SessionNotFoundError: It is not in the database any more.
            StorageFailureError: It is not locked.
        """
        return self._database.again(self._begin)

    def _begin(self) -> bool:
        self.end()
        self._token = clock.new_uid(24)
        connection = self._connection = self._database.take()
        try:
            with connection.pipeline():
                connection.begin()
                row = connection.execute(_LOCKED_SESSION, [VERSION, self.session_id])
            self.reading.prove(connection)
            return self.update(connection, row.fetchone())
        except BaseException as error:
            self.end()
            if isinstance(error, psycopg.Error):
                raise self._database.translated(error, connection) from error
            raise

    def end(self) -> None:
        """End what `begin` began; what was not committed is not made. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._database.give_back(connection)

    @property
    def uncertain(self) -> bool:
        """True if the directory is doubtful, or has what only a standby was seen to have."""
        return self.doubtful or self.reading.unproven

    def fetch(self, mark: Staleness | None = None) -> bool:
        """Catch up with the database. False if there is no such session."""
        try:
            self.catch_up(mark)
        except SessionNotFoundError:
            return False
        return True

    def fetch_documents(self, connection: Connection[Any], stamp: int) -> None:
        """Make the directory of the documents alone, all with the time `stamp`; `fetch` makes it whole."""
        self._clear()
        durable.make_directory(self.directory)
        self._take_documents(connection, stamp)
        self.doubtful = True

    def commit_append(self, data: bytes, after: LogState, events: bytes | None = None) -> bool:
        """Commit bytes at the end of the live log, which the directory gets afterwards (see `appended`), and what is
        announced of it; False: another process has changed the session, and nothing was made.

        Raises:
            StorageFailureError: It is not made; or nobody knows, and the directory is doubtful until that is known.
        """
        self.begin_append(data, after, events)
        return self.end_append()

    def begin_append(
        self, data: bytes, after: LogState, events: bytes | None, *, at_once: bool = False
    ) -> WatchedConnection | None:
        """Begin `commit_append`, which `end_append` ends; returns the connection that answers it. None, or an error: it was
        not begun, as that cannot be done `at_once`, or at all. Raises StorageFailureError."""
        assert self._live is not None
        connection = self._connection or (self._database.take_idle() if at_once else self._database.take())
        if connection is None:
            return None
        if at_once and (APPEND.name not in connection.prepared or (self.version + 1) % CHANGES_KEPT == 0):
            self._database.give_back(connection)
            return None
        try:
            connection.prepare(APPEND)
        except psycopg.Error as error:
            self._connection = connection
            self.end()
            raise self._database.translated(error, connection) from error
        start, self._token = self._logs[self._live].length, clock.new_uid(24)
        self._asked = connection, start + len(data)
        session = self.session_id.encode(connection.info.encoding)
        numbers = self.version, after.messages, after.token_count, after.pending_chars, start, start + len(data)
        values = [b"%d" % VERSION, session, *(b"%d" % number for number in numbers), data, self._token.encode()]
        self._database.untold.begin()
        connection.ask(APPEND, [*values, events, CHANNEL.encode(), self._announcement().encode()])
        return connection

    def end_append(self) -> bool:
        """Commit the append that `begin_append` has begun."""
        assert self._live is not None and self._asked is not None  # noqa: PT018
        (connection, length), self._asked = self._asked, None
        locked = self._connection is not None
        try:
            made = bool(connection.answer().ntuples)
            if made:
                _forget_old_changes(connection, self.session_id, self.version + 1)
            if locked:
                connection.execute("COMMIT")
        except psycopg.Error as error:
            self._connection = connection
            self._settle(error, connection)
            made = True
        else:
            if not locked:
                self._database.give_back(connection)
        if made:
            self._logs[self._live], self.version = self._logs[self._live]._replace(length=length), self.version + 1
        else:
            self._database.untold.clear()
        return made

    def appended(self) -> None:
        """The live log has in the directory what was committed."""
        assert self._live is not None
        there = durable.status(self.directory / LIVE)
        if there is None or there.size != self._logs[self._live].length:
            self.doubtful = True
        else:
            self._files[self._live] = there

    def commit(
        self, state: LogState, events: bytes | None = None, *, begins: Beginning | None = None, forget: bool = False
    ) -> None:
        """Commit what the directory has and the database has not, and what is announced of it. `begins`: what is known
        of the beginning of a new live log; `forget`: nothing of what was announced before is kept.

        Raises:
            StorageFailureError: As of `commit_append`.
        """
        connection = self._connection
        assert connection is not None
        try:
            if not self.approvals.store(connection, self.version + 1) | self._store(connection, begins):
                return
            if forget:
                connection.execute("UPDATE timeleap_change SET events = NULL WHERE session = %s", [self.session_id])
            with connection.pipeline():
                self._commit(connection, state, events)
        except psycopg.Error as error:
            self.doubtful = True
            self._settle(error, connection)
        self.approvals.stored()
        self.doubtful, self.version = False, self.version + 1
        try:
            self.parts.sweep()
        except OSError:
            self.doubtful = True  # what is gone must not stay here: it is made again

    def differs(self, *, logs_only: bool = False) -> bool:
        """True if the directory has what the database has not; `logs_only`: among its logs."""
        known = {self._logs[log].name or "": there for log, there in self._files.items()}
        documents, logs = _look(self.directory)
        return logs != known or (not logs_only and documents != self._documents)

    def publish(self, state: LogState) -> None:
        """Make the session in the database of what the directory has. Raises SessionExistsError, StorageFailureError."""
        self._database.again(lambda: self._publish(state))

    def _publish(self, state: LogState) -> None:
        self._logs, self._files, self._documents, self._live = {}, {}, {}, None
        self.version, self._token = 0, clock.new_uid(24)
        try:
            with self._database.transaction() as connection:
                if not connection.execute(NEW_SESSION, [self.session_id, self.session_id.casefold()]).rowcount:
                    raise SessionExistsError(f"session id {self.session_id} is taken", sessionId=self.session_id)
                self._store(connection, None)
                self._note(connection, state, None)
        except StorageFailureError as error:
            if not isinstance(error.__cause__, psycopg.OperationalError):
                raise
            if not self._database.was_made(self.session_id, self._token, None):
                raise
        self.version = 1

    def forget(self) -> None:
        """The directory is doubtful: `begin` makes it again."""
        self.doubtful = True

    def _commit(self, connection: Connection[Any], state: LogState, events: bytes | None) -> None:
        self._note(connection, state, events)
        self._database.untold.begin()
        connection.execute("COMMIT")

    def _note(self, connection: Connection[Any], state: LogState, events: bytes | None) -> None:
        """Note a change, and have it announced when it is committed."""
        version, session_id = self.version + 1, self.session_id
        connection.execute(
            "UPDATE timeleap_session SET version = %s, live = %s, messages = %s, tokens = %s,"
            " pending = %s, changed = clock_timestamp() WHERE id = %s",
            [version, self._live, state.messages, state.token_count, state.pending_chars, session_id],
        )
        connection.execute(
            "INSERT INTO timeleap_change (session, version, token, events) VALUES (%s, %s, %s, %s)",
            [session_id, version, self._token, events],
        )
        _forget_old_changes(connection, session_id, version)
        connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, self._announcement()])

    def _announcement(self) -> str:
        """Payload of the notification about the change under way."""
        return json.dumps({"session": self.session_id, "version": self.version + 1, "by": self._database.sender})

    def _settle(self, error: psycopg.Error, connection: Connection[Any]) -> None:
        """A commit has failed; return if it was made all the same, else raise why it was not."""
        lost = connection.broken
        self._database.untold.clear()
        self.end()
        if not lost:
            raise self._database.translated(error, connection) from error
        try:
            made = self._database.was_made(self.session_id, self._token, self.version)
        except StorageFailureError:
            self.doubtful = True
            raise
        if not made:
            raise self._database.translated(error, connection) from error

    # From the directory to the database

    def _store(self, connection: Connection[Any], begins: Beginning | None) -> bool:
        """Put into the database what only the directory has; says whether there was anything."""
        documents, logs = _look(self.directory)
        changed = [name for name, there in documents.items() if self._documents.get(name) != there]
        gone = [name for name in self._documents if name not in documents]
        for name in changed:
            connection.execute(
                "INSERT INTO timeleap_document (session, name, version, body) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (session, name) DO UPDATE SET version = excluded.version, body = excluded.body",
                [self.session_id, name, self.version + 1, (self.directory / name).read_bytes()],
            )
        if gone:
            connection.execute(
                "DELETE FROM timeleap_document WHERE session = %s AND name = ANY(%s)", [self.session_id, gone]
            )
        known = {self._logs[log].name: there for log, there in self._files.items()}
        if logs != known:
            self._store_logs(connection, logs, begins)
        self._documents = documents
        return bool(changed or gone or logs != known)

    def _store_logs(self, connection: Connection[Any], logs: dict[str, FileStatus], begins: Beginning | None) -> None:
        by_place = {(there.identity, there.modified_ns, there.size): log for log, there in self._files.items()}
        before, files = self._live, dict[int, FileStatus]()
        strangers: list[str] = []
        for name, there in logs.items():
            log = by_place.get((there.identity, there.modified_ns, there.size))
            if log is None:
                strangers.append(name)
                continue
            files[log] = there
            if self._logs[log].name != name:
                self._name(connection, log, name)
        # The live log first: timelines share their beginnings with it, or with each other.
        for name in sorted(strangers, key=lambda name: (name != LIVE, name)):
            known, nearest = 0, before if before in files else next(reversed(files), None)
            if begins is not None and begins.made._replace(names=1) == logs[name]:
                for log in (log for log, there in files.items() if there == begins.source._replace(names=1)):
                    known, nearest = begins.shared, log
            files[self._add(connection, name, logs[name], nearest, known)] = logs[name]
        for log in self._files.keys() - files.keys():
            self._name(connection, log, None)
        self._files = files
        self._live = next((log for log in files if self._logs[log].name == LIVE), None)
        self._sweep(connection)

    def _name(self, connection: Connection[Any], log: int, name: str | None) -> None:
        connection.execute("UPDATE timeleap_log SET name = %s WHERE id = %s", [name, log])
        self._logs[log] = self._logs[log]._replace(name=name)

    def _add(self, connection: Connection[Any], name: str, there: FileStatus, parent: int | None, known: int) -> int:
        """Store a log that the database does not have, without what it shares with the beginning of the log `parent`: the
        bytes that are `known` to be the same (0: none are), or that are found to be."""
        file, shared = OpenFile(self.directory / name), known
        if parent is not None and not known:
            other = OpenFile(self.directory / (self._logs[parent].name or ""))
            shared = same_beginning(file, other, min(there.size, self._logs[parent].length))
        while parent is not None and shared <= self._logs[parent].shared:
            parent = self._logs[parent].parent  # which has those bytes itself
        row = connection.execute(
            "INSERT INTO timeleap_log (session, name, parent, shared, length) VALUES (%s, %s, %s, %s, %s) RETURNING id",
            [self.session_id, name, parent, shared, shared],
        ).fetchone()
        assert row is not None
        log = int(row[0])
        pieces = (file.pread(at, min(PIECE_BYTES, there.size - at)) for at in range(shared, there.size, PIECE_BYTES))
        _put(connection, log, shared, pieces)
        self._logs[log] = LogRow(name, parent, shared, there.size)
        return log

    def _sweep(self, connection: Connection[Any]) -> None:
        """Remove logs that nobody names and no other log needs."""
        while True:
            needed = {log.parent for log in self._logs.values()}
            going = [log for log, facts in self._logs.items() if facts.name is None and log not in needed]
            if not going:
                break
            connection.execute("DELETE FROM timeleap_log WHERE id = ANY(%s)", [going])
            for log in going:
                del self._logs[log]
        # Of what is left without a name only what others begin with is kept: it may have been redacted.
        for log, facts in self._logs.items():
            used = max((other.shared for other in self._logs.values() if other.parent == log), default=0)
            if facts.name is None and used < facts.length:
                connection.execute("DELETE FROM timeleap_piece WHERE log = %s AND start >= %s", [log, used])
                connection.execute(
                    "UPDATE timeleap_piece SET body = substr(body, 1, (%(end)s - start)::int)"
                    " WHERE log = %(log)s AND start + length(body) > %(end)s",
                    {"log": log, "end": used},
                )
                connection.execute("UPDATE timeleap_log SET length = %s WHERE id = %s", [used, log])
                self._logs[log] = facts._replace(length=used)

    # From the database to the directory

    def update(self, connection: Connection[Any], row: tuple[Any, ...] | None) -> bool:
        """Bring the directory up to what a `row` tells of the session; says whether it was not. Raises as `catch_up`."""
        if row is None:
            self._database.check_version(connection)
            message = f"there is no session {self.session_id} in {self._database.label}"
            raise SessionNotFoundError(message, sessionId=self.session_id)
        version, live, changed, approvals = row
        if version == self.version and not self.doubtful:
            return False
        self.heard = self._announced(connection, version)
        if self.doubtful:
            self._clear()
        stamp = int(changed)
        self.doubtful = True  # until all of it is here
        with durable.storage_errors("write the working copy", self.directory):
            durable.make_directory(self.directory)
            self._take_documents(connection, stamp)
            self._take_logs(connection, live, stamp)
        self.approvals.take(connection, newer=approvals > self.version)
        self.version, self._live, self.doubtful = version, live, False
        return True

    def _announced(self, connection: Connection[Any], version: int) -> list[bytes] | None:
        rows = connection.execute(
            "SELECT events FROM timeleap_change WHERE session = %s AND version > %s ORDER BY version",
            [self.session_id, self.version],
        ).fetchall()
        known = [row[0] for row in rows if row[0] is not None]
        return known if self.version >= 0 and len(known) == version - self.version else None

    def _clear(self) -> None:
        """Begin again: remove all that came from the database or was to go there, and what was derived from it."""
        for name in durable.list_directory(self.directory):
            if not name.endswith(".lock"):
                with suppress(IsADirectoryError):
                    durable.remove_file(self.directory / name)
        self.parts.clear()
        self.reading.reached = max(self.reading.reached, self.version)
        self.version, self._documents, self._files, self._logs = -1, {}, {}, {}

    def _take_documents(self, connection: Connection[Any], stamp: int) -> None:
        names = {name for (name,) in connection.execute(
            "SELECT name FROM timeleap_document WHERE session = %s", [self.session_id]
        )}  # fmt: skip
        newer = connection.execute(
            "SELECT name, body FROM timeleap_document WHERE session = %s AND version > %s",
            [self.session_id, self.version],
        ).fetchall()
        for name in self._documents.keys() - names:
            durable.remove_file(self.directory / name)
            del self._documents[name]
        for name, body in newer:
            path = self.directory / _plain(name)
            durable.atomic_write(path, body, durable=False)
            self._documents[name] = _stamped(path, stamp)

    def _take_logs(self, connection: Connection[Any], live: int | None, stamp: int) -> None:
        rows = connection.execute(
            "SELECT id, name, parent, shared, length FROM timeleap_log WHERE session = %s", [self.session_id]
        ).fetchall()
        logs = {int(row[0]): LogRow(*row[1:]) for row in rows}
        here = {log: self.directory / (self._logs[log].name or "") for log in self._files}
        ready: dict[int, Path] = {}
        for log, facts in sorted(logs.items()):
            if facts.name is None:
                continue
            path = here.get(log)
            if path is None:
                file = durable.open_temporary(self.directory, LIVE)
                as_here = {**self._logs, **{other: logs[other] for other in ready}}
                path, begin = file.path, self.parts.begin_log(file, beginnings(logs, log, here, as_here))
            else:
                file, begin = OpenFile(path, writable=True), self._logs[log].length
            for source, start, size in segments(logs, log, begin):
                if source != log and (
                    source in ready or (source in here and start + size <= self._logs[source].length)
                ):
                    OpenFile(here[source]).copy_to(file, start, size)
                else:
                    for piece in _pieces(connection, source, start, size):
                        file.pwrite(piece, file.status().size)
            if file.status().size != facts.length:
                raise CorruptedError(f"{self._database.label} lacks bytes of {facts.name} of {self.session_id}")
            file.close()
            here[log] = ready[log] = path
        self._put_in_place(logs, ready)
        self.parts.sweep()
        self._logs = logs
        self._files = {
            log: _stamped(self.directory / (logs[log].name or ""), stamp if log == live else None) for log in ready
        }

    def _put_in_place(self, logs: dict[int, LogRow], ready: dict[int, Path]) -> None:
        """Give each log its name, with its index, where it has one."""
        moving = {log: path for log, path in ready.items() if path.name != logs[log].name}
        kept = {path.name for log, path in ready.items() if log not in moving}
        for log in self._files:  # what is no timeline any more
            name = self._logs[log].name or ""
            if name not in kept and log not in moving:
                durable.remove_file(self.directory / name)
                durable.remove_file(index_path(self.directory / name))
        aside = {log: self.directory / f".{LIVE}.{log:016x}.tmp" for log in moving}
        for log, path in moving.items():
            durable.replace_file(path, aside[log])
            with suppress(FileNotFoundError):
                durable.replace_file(index_path(path), index_path(aside[log]))
        for log, path in aside.items():
            target = self.directory / _plain(logs[log].name or "")
            durable.replace_file(path, target)
            durable.remove_file(index_path(target))
            with suppress(FileNotFoundError):
                durable.replace_file(index_path(path), index_path(target))


def _forget_old_changes(connection: Connection[Any], session_id: str, version: int) -> None:
    if version % CHANGES_KEPT == 0:
        last = version - CHANGES_KEPT
        connection.execute("DELETE FROM timeleap_change WHERE session = %s AND version < %s", [session_id, last])


def _put(connection: Connection[Any], log: int, start: int, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        if piece:
            connection.execute("INSERT INTO timeleap_piece (log, start, body) VALUES (%s, %s, %s)", [log, start, piece])
            start += len(piece)
    connection.execute("UPDATE timeleap_log SET length = %s WHERE id = %s", [start, log])


def _look(directory: Path) -> tuple[dict[str, FileStatus], dict[str, FileStatus]]:
    """The documents of a directory, and its logs."""
    documents: dict[str, FileStatus] = {}
    logs: dict[str, FileStatus] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if _DERIVED.fullmatch(entry.name) or not S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                continue
            there = durable.status(Path(entry.path))
            if there is not None:
                there = there._replace(names=1)
                (logs if _LOG.fullmatch(entry.name) else documents)[entry.name] = there
    return documents, logs


def _pieces(connection: Connection[Any], log: int, start: int, size: int) -> Iterator[bytes]:
    """The bytes `[start, start + size)` of what is a log's own."""
    at = start
    while at < start + size:
        rows = connection.execute(
            "SELECT start, body FROM timeleap_piece WHERE log = %(log)s AND start >= (SELECT max(start) FROM"
            " timeleap_piece WHERE log = %(log)s AND start <= %(at)s) AND start < %(end)s ORDER BY start LIMIT 1000",
            {"log": log, "at": at, "end": min(at + PIECE_BYTES, start + size)},
            binary=True,
        ).fetchall()
        if not rows:
            return
        for first, body in rows:
            piece = body[at - first : start + size - first]
            if not piece:
                return
            yield piece
            at += len(piece)


def _stamped(path: Path, stamp: int | None) -> FileStatus:
    """The state of a file that was just written, with its time of change set."""
    if stamp is not None:
        os.utime(path, ns=(stamp, stamp))
    there = durable.status(path)
    if there is None:
        raise StorageFailureError(f"{path} was removed meanwhile", path=str(path), errno="ENOENT")
    return there._replace(names=1)


def _plain(name: str) -> str:
    """A name from the database, which is not believed to be one of a file in this directory. Raises CorruptedError."""
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name or _DERIVED.fullmatch(name):
        raise CorruptedError(f"the store names a file {name[:100]!r}, which cannot be one of a session")
    return name
