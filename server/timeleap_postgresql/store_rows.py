"""Sessions of a database as rows, moved to the trash, back, or removed; and the files that are the store's own.

In the trash a session is called by its name there, which has a `~`, as no session's id has. The row `~` is no session:
its documents are those that a directory store has in its home.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg import Connection, OperationalError, errors

from timeleap import clock
from timeleap.errors import SessionExistsError, SessionNotFoundError, StorageFailureError
from timeleap.storage.log_files import state_of
from timeleap.storage.log_values import LogState
from timeleap_postgresql.approval_rows import KEY, STORE
from timeleap_postgresql.database import CHANNEL, Database
from timeleap_postgresql.working_copy import LIVE, WorkingCopy


def move(database: Database, before: str, after: str, cause: bytes) -> int:
    """Give a session another id, with all that is its own, in one step; says its version. Those who have it open are
    told, and find the `cause`, which is JSON, but no list as what is announced of a change (see `CopyReading.cause_of_end`).

    Raises:
        SessionNotFoundError: There is none of that id.
        SessionExistsError: The new id is taken.
        StorageFailureError: Nothing was changed.
    """
    return database.again(lambda: _moved(database, before, after, cause))


def _moved(database: Database, before: str, after: str, cause: bytes) -> int:
    token, version = clock.new_uid(24), -1
    try:
        with database.transaction() as connection:
            version = _move(connection, before, after, token, cause)
    except StorageFailureError as error:
        if not isinstance(error.__cause__, OperationalError) or not database.was_made(after, token, None):
            raise
    return version


def _move(connection: Connection[Any], before: str, after: str, token: str, cause: bytes) -> int:
    try:
        moved = connection.execute(
            "UPDATE timeleap_session SET id = %s, folded = %s, version = version + 1 WHERE id = %s RETURNING version",
            [after, after.casefold(), before],
        ).fetchone()
    except errors.UniqueViolation as error:
        raise SessionExistsError(f"session id {after} is taken", sessionId=after) from error
    if moved is None:
        raise SessionNotFoundError(f"there is no session {before.partition('~')[0]}", sessionId=before)
    connection.execute(
        "INSERT INTO timeleap_change (session, version, token, events) VALUES (%s, %s, %s, %s)",
        [after, moved[0], token, cause],
    )
    announced = json.dumps({"session": before, "version": moved[0]})
    connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, announced])
    return int(moved[0])


def remove(database: Database, names: Collection[str]) -> set[str]:
    """Remove sessions for good, by their names in the trash; says which were there. Raises StorageFailureError."""
    return database.again(lambda: _removed(database, names))


def _removed(database: Database, names: Collection[str]) -> set[str]:
    there: set[str] = set()
    try:
        _remove(database, list(names), there)
    except StorageFailureError as error:
        if not there or not isinstance(error.__cause__, OperationalError):
            raise
        _remove(database, list(names), there)  # what went, though the answer did not come, is not there again
    return there


def _remove(database: Database, names: list[str], there: set[str]) -> None:
    """`there`: is told which of them were found, also where the answer of the COMMIT is lost."""
    with database.transaction() as connection:
        found = connection.execute("SELECT id FROM timeleap_session WHERE id = ANY(%s) FOR UPDATE", [names]).fetchall()
        there.update(str(row[0]) for row in found)
        # A log may be begun by another one of its session: which of them goes first must not matter.
        connection.execute("UPDATE timeleap_log SET parent = NULL WHERE session = ANY(%s)", [names])
        connection.execute("DELETE FROM timeleap_session WHERE id = ANY(%s)", [names])


class TrashedFiles:
    """The files of a session in the trash, brought into a directory while its row is locked. All blocks."""

    def __init__(self, database: Database, name: str, folder: Path) -> None:
        """`folder`: is made, and removed at the end. Raises SessionNotFoundError, StorageFailureError: it is not locked."""
        self._folder, self.directory = folder, folder / name
        self._copy = WorkingCopy(database, name, self.directory)
        try:
            self._copy.begin()
        except BaseException:
            self.close()
            raise

    def keep(self) -> None:
        """Commit what the directory has by now. Nothing of what was announced is kept, and nothing that was approved,
        whose names are no files."""
        approvals = self._copy.approvals
        for name in approvals.now().keys() - {KEY}:
            approvals.put(name, None)
        self._copy.commit(state_of(self.directory / LIVE), forget=True)

    def close(self) -> None:
        """Unlock it; what was not kept is as it was."""
        self._copy.end()
        shutil.rmtree(self._folder, ignore_errors=True)


class StoreDocuments:
    """The files that are the store's own, as they are in a directory of this process.

    Attributes:
        directory: That has them, as of the last `read`.
    """

    def __init__(self, database: Database, directory: Path) -> None:
        self.directory = directory
        self._copy = WorkingCopy(database, STORE, directory)
        self._turn = threading.RLock()

    def read(self) -> None:
        """Bring them up to date. Blocking. Raises StorageFailureError."""
        with self._turn:
            self._copy.fetch()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Lock them for a block, up to date; what it changed counts when it has ended. Blocking.

        Raises:
            StorageFailureError: Nothing was changed.
        """
        with self._turn:
            self._copy.begin()
            try:
                yield
                self._copy.commit(LogState())
            except BaseException:
                self._copy.forget()
                raise
            finally:
                self._copy.end()
