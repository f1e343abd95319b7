"""The database in which opencode keeps its sessions: SQLite, only ever read.

A session is named by a path below the database that no file has: `opencode.db/ses_...`, of a sub-agent
`opencode.db/ses_.../ses_...`, behind the session it works for.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from timeleap.errors import CorruptedError, StorageFailureError, TimeleapError
from timeleap.storage.durable import storage_errors

NAME: Final = re.compile(r"opencode(?:-[A-Za-z0-9._-]+)?\.db")
SESSION: Final = re.compile(r"ses_[A-Za-z0-9_]{1,100}")
FILES: Final = "storage"
"""Beside the database: where each session, message and part was a file of its own before version 1.2."""
KEPT_IN_FILES: Final = (
    "sessions as opencode kept them before version 1.2, each message in a file of its own: start opencode once, which takes "
    "them over into opencode.db"
)
LOCKED_SECONDS: Final = 2.0
"""How long to wait for a program that has the database to itself."""
TRIES: Final = 3
MOST_COPIED: Final = 1 << 30
"""Bytes of a database that is copied to be read, because its program did not end it well."""

_SESSIONS: Final = """
    SELECT s.id, s.parent_id, max(s.time_updated, coalesce(
        (SELECT max(m.time_updated) FROM message m WHERE m.session_id = s.id), 0))
    FROM session s WHERE :id IS NULL OR s.id = :id"""
"""Versions without events tell by the rows themselves whether something has changed."""
_SEQUENCES: Final = "SELECT aggregate_id, seq FROM event_sequence WHERE :id IS NULL OR aggregate_id = :id"

Found = TypeVar("Found")


class SessionRow(NamedTuple):
    """A session in a database. `changed`: nanoseconds since 1970; `size` grows with each change of it."""

    id: str
    parent: str | None
    changed: int
    size: int


def is_kept_in_files(path: Path) -> bool:
    """True of a place in the folder of files in which opencode kept sessions before it had a database, and of a folder with
    such sessions and no database. Blocking."""
    if path.is_dir() and not any(is_database(name.name) for name in path.iterdir()):
        path = path / FILES if (path / FILES).is_dir() else path
        if all((path / name).is_dir() for name in ("session", "message")):
            return True
    return FILES in path.parts[:-1] and not {"session", "message", "part"}.isdisjoint(path.parts)


def is_database(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def split(path: Path) -> tuple[Path, str] | None:
    """The database and the session that a path names; None where it names none."""
    if SESSION.fullmatch(path.name) is None:
        return None
    above = path.parent.parent if SESSION.fullmatch(path.parent.name) else path.parent
    return above, path.name


def path_of(database: Path, row: SessionRow) -> Path:
    """The path that names a session."""
    return (database if row.parent is None else database / row.parent) / row.id


def sessions(database: Path) -> list[SessionRow]:
    """All sessions of a database. Blocking. Raises as `reading`."""
    return reading(database, _sessions)


def session(path: Path) -> SessionRow | None:
    """The session that a path names; None where there is none, or it cannot be read. Blocking."""
    place = split(path)
    if place is None:
        return None
    database, session_id = place
    with suppress(StorageFailureError, CorruptedError):
        found = reading(database, lambda connection: _sessions(connection, session_id))
        return found[0] if found else None
    return None


def _sessions(connection: sqlite3.Connection, session_id: str | None = None) -> list[SessionRow]:
    rows = connection.execute(_SESSIONS, {"id": session_id})
    sequences = {}
    if "event_sequence" in tables(connection):
        sequences = dict(connection.execute(_SEQUENCES, {"id": session_id}))
    found = []
    for name, parent, changed in rows:
        if isinstance(name, str) and SESSION.fullmatch(name):
            above = parent if isinstance(parent, str) and SESSION.fullmatch(parent) else None
            found.append(SessionRow(name, above, int(changed or 0) * 1_000_000, int(sequences.get(name, -1)) + 1))
    return found


def tables(connection: sqlite3.Connection) -> set[str]:
    """Names of the tables."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def reading(database: Path, work: Callable[[sqlite3.Connection], Found]) -> Found:
    """Do some reading in a database, all of it as it was at one moment. Nothing is written, neither to it nor beside it.
    Blocking.

    Raises:
        StorageFailureError: It cannot be read, is no ordinary file, or another program has it to itself.
        CorruptedError: It is damaged, or not of a form that is known.
    """
    with storage_errors(f"read {database.name}", database):
        status = database.stat()
        if not stat.S_ISREG(status.st_mode):
            message = f"{database} is no ordinary file"
            raise StorageFailureError(message, path=str(database), errno="EINVAL")
    for _ in range(TRIES):
        before = _state(database)
        has_log, has_index = (_size(database, end) for end in ("-wal", "-shm"))
        try:
            # With a journal a change is being made, and who makes it says when others may read.
            if (has_log is not None and has_index is not None) or _size(database, "-journal"):
                return _read(f"{database.absolute().as_uri()}?mode=ro", work)
            if has_log:
                return _read_copy(database, work)
            # Nobody has it open. Without `immutable` SQLite would leave files beside it.
            found = _read(f"{database.absolute().as_uri()}?mode=ro&immutable=1", work)
        except TimeleapError:  # it may have been changed under this reading
            if _state(database) == before:
                raise
            continue
        if _state(database) == before and _size(database, "-wal") is None:
            return found
    message = f"{database} changes all the time while nobody has it open as a database: look again"
    raise StorageFailureError(message, path=str(database), errno="EAGAIN")


def _state(database: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        status = database.stat()
        return status.st_size, status.st_mtime_ns, status.st_ino
    return None


def _size(database: Path, end: str) -> int | None:
    with suppress(OSError):
        return database.with_name(database.name + end).stat().st_size
    return None


def _read(uri: str, work: Callable[[sqlite3.Connection], Found]) -> Found:
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCKED_SECONDS, isolation_level=None)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")
            if "session" not in (names := tables(connection)) and "session_v2" in names:
                message = "the database is one of opencode 2, whose form is not read; sessions of opencode 1 are"
                raise CorruptedError(message)
            return work(connection)
    except sqlite3.Error as error:
        raise _told(uri, error) from error


def _told(uri: str, error: sqlite3.Error) -> StorageFailureError | CorruptedError:
    """The error that says what went wrong, and what to do."""
    text, name = str(error), uri.partition("?")[0].rpartition("/")[2]
    if "locked" in text or "busy" in text:
        message = f"{name} is in use by a program that lets nobody else read it ({text}): look again when it is done"
        return StorageFailureError(message, path=uri, errno="EBUSY")
    if "no such table" in text or "no such column" in text:
        return CorruptedError(f"{name} has not the form of an opencode database that is known ({text})")
    if isinstance(error, sqlite3.OperationalError) and "unable to open" in text:
        return StorageFailureError(f"{name} cannot be opened as a database ({text})", path=uri, errno="EACCES")
    return CorruptedError(f"{name} is damaged, or no database ({text})")


def _read_copy(database: Path, work: Callable[[sqlite3.Connection], Found]) -> Found:
    """Read a copy: the program ended without putting its last changes in order, which only a writer may do."""
    names = [database, database.with_name(f"{database.name}-wal")]
    if sum(name.stat().st_size for name in names) > MOST_COPIED:
        message = f"{database} was not closed by its program, and is too large to be copied: start opencode once"
        raise StorageFailureError(message, path=str(database), errno="EFBIG")
    with tempfile.TemporaryDirectory(prefix="timeleap-") as folder:
        with storage_errors(f"copy {database.name}", database):
            for name in names:
                shutil.copyfile(name, Path(folder) / name.name)
        return _read((Path(folder) / database.name).as_uri(), work)
