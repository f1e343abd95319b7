"""The rows of one session of opencode, kept as JSON lines: each row as it was each time that it had changed, which of them
went, and all events. The program has all sessions in one database, and deletes rows of it.

What is given back is the session in the form that the program itself exports and takes in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from timeleap.errors import CorruptedError
from timeleap.json_value import Json
from timeleap_agents.mirrors import opencode_database
from timeleap_agents.mirrors.formats.conversion import sound
from timeleap_agents.mirrors.scratch_database import ScratchDatabase
from timeleap_agents.mirrors.vault import packing
from timeleap_agents.mirrors.vault.kept_file import KeptFile
from timeleap_agents.mirrors.vault.notes import Generation
from timeleap_agents.mirrors.vault.redacted_copies import lines_in

FOLDER: Final = "timeleap"
"""Beside the database: sessions that are to be taken in by the program."""
TAKE_IN: Final = 'opencode import "$0" && exec opencode --session "$1"'
"""The program takes in a session by a command, which is to be followed by the one that goes on in it."""
AT_ONCE: Final = 4 << 20  # bytes
_TABLES: Final = ("session", "message", "part", "event")
_LISTED: Final = {
    "session": "SELECT id, time_updated, coalesce(length(revert), 0) + length(title) FROM session WHERE id = ?",
    "message": "SELECT id, time_updated, length(data) FROM message WHERE session_id = ?",
    "part": "SELECT id, time_updated, length(data) FROM part WHERE session_id = ?",
}
_ROW: Final = {
    "session": "SELECT * FROM session WHERE id = ?",
    "message": "SELECT * FROM message WHERE id = ?",
    "part": "SELECT * FROM part WHERE id = ?",
}
_INSERT: Final = {table: f"INSERT INTO {table} VALUES" for table in _TABLES}
_KNOWN: Final = "CREATE TABLE known (kind TEXT, id TEXT, facts TEXT, PRIMARY KEY (kind, id)) WITHOUT ROWID"
_EVENTS: Final = "SELECT * FROM event WHERE aggregate_id = ? AND seq > ? ORDER BY seq"


class KeptRows:
    """The rows that are kept in the directory of one mirror. All methods block.

    Args:
        directory: Of the mirror.
        durable: As of `KeptFile`.
    """

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self.file = KeptFile(directory, durable=durable)
        self._live = 0  # the generation of which the next two are known
        self._known = _KnownRows()
        self._seq = -1  # of the last event

    def keep(self, path: Path) -> bool:
        """Keep what has changed by now of the session that a path names; says whether something waits to be compressed.

        Raises:
            StorageFailureError, CorruptedError: The database cannot be read.
            OSError: The rows cannot be written.
        """
        place = opencode_database.split(path)
        if place is None:
            return False
        database, session_id = place
        self._remember()
        lines = bytearray()

        def write(line: bytes) -> None:
            lines.extend(line)
            if len(lines) > AT_ONCE:
                self.file.add(path, bytes(lines))
                lines.clear()

        opencode_database.reading(database, lambda connection: self._read(connection, session_id, write))
        if lines:
            self.file.add(path, bytes(lines))
        return self.file.waits()

    def _remember(self) -> None:
        """Know what the generation that may grow has."""
        live = self.file.live()
        number = 0 if live is None else live.number
        if number and number == self._live:
            return
        self._live, self._known, self._seq = number, _KnownRows(), -1
        for line in [] if live is None else _read_lines(self.file.directory, live):
            table, name = str(line.get("table")), str(line.get("id"))
            if "row" not in line:
                self._known.forget(table, name)
            elif table == "event":
                self._seq = max(self._seq, int(line["row"].get("seq", -1)))
            else:
                self._known.put(table, name, _facts(line.get("changed"), line.get("length")))

    def _read(self, connection: sqlite3.Connection, session_id: str, write: Callable[[bytes], None]) -> None:
        for table, query in _LISTED.items():
            seen = 0
            for name, changed, length in connection.execute(query, (session_id,)):
                seen += 1
                facts = _facts(changed, length)
                if self._known.facts(table, str(name)) != facts:
                    for row in _rows(connection.execute(_ROW[table], (name,))):
                        write(_line(table, str(name), {"changed": changed, "length": length, "row": row}))
                    self._known.put(table, str(name), facts)
            if table != "session" and self._known.count(table) != seen:
                is_there = _ROW[table]
                gone = [
                    name
                    for name in self._known.names(table)
                    if connection.execute(is_there, (name,)).fetchone() is None
                ]
                for name in gone:
                    write(_line(table, name, {}))
                    self._known.forget(table, name)
        if "event" in opencode_database.tables(connection):
            for row in _rows(connection.execute(_EVENTS, (session_id, self._seq))):
                write(_line("event", str(row.get("id")), {"row": row}))
                self._seq = row["seq"]


class _KnownRows:
    """Which rows are kept, and their facts: when each was changed, and its length."""

    def __init__(self) -> None:
        self._notes = ScratchDatabase(_KNOWN)

    def facts(self, table: str, name: str) -> str | None:
        """The facts of a row; None of one that is not kept."""
        found: str | None = self._notes.one("SELECT facts FROM known WHERE kind = ? AND id = ?", table, name)
        return found

    def put(self, table: str, name: str, facts: str) -> None:
        """Note that a row is kept."""
        self._notes.do("INSERT OR REPLACE INTO known VALUES (?, ?, ?)", table, name, facts)

    def forget(self, table: str, name: str) -> None:
        """Note that a row has gone."""
        self._notes.do("DELETE FROM known WHERE kind = ? AND id = ?", table, name)

    def count(self, table: str) -> int:
        """Number of rows of a table."""
        return int(self._notes.one("SELECT count(*) FROM known WHERE kind = ?", table))

    def names(self, table: str) -> Iterator[str]:
        """The ids of the rows of a table. Nothing may be changed meanwhile."""
        return (name for (name,) in self._notes.do("SELECT id FROM known WHERE kind = ?", table))


def _facts(changed: object, length: object) -> str:
    return sound(f"{changed} {length}")


def _rows(cursor: sqlite3.Cursor) -> Iterator[Json]:
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def _line(table: str, name: str, members: Json) -> bytes:
    return json.dumps({"table": table, "id": name, **members}, default=repr, ensure_ascii=False).encode() + b"\n"


def _read_lines(directory: Path, generation: Generation) -> Iterator[Json]:
    for text in lines_in(packing.blocks(directory, generation)):
        with suppress(ValueError, RecursionError):  # a crash may have cut the last one
            line = json.loads(text)
            if isinstance(line, dict) and isinstance(line.get("row", {}), dict):
                yield line


def tables_of(directory: Path, generation: Generation) -> dict[str, dict[str, Json]]:
    """The rows of a generation by table and id, as they were last. Blocking. Raises CorruptedError, OSError."""
    found: dict[str, dict[str, Json]] = {table: {} for table in _TABLES}
    for line in _read_lines(directory, generation):
        rows = found.get(str(line.get("table")), {})
        if "row" in line:
            rows[str(line.get("id"))] = line["row"]
        else:
            rows.pop(str(line.get("id")), None)
    if not found["session"]:
        raise CorruptedError(f"generation {generation.number} has no session in it", path=str(directory))
    return found


def exported(directory: Path, generation: Generation) -> bytes:
    """The session of a generation as the program exports one. Blocking. Raises as `tables_of`."""
    tables = tables_of(directory, generation)
    session_id, session = next(iter(tables["session"].items()))
    info = _info(session_id, session)
    parts: dict[str, list[Json]] = {}
    for name, row in sorted(tables["part"].items()):
        place: Json = {"id": name, "messageID": row.get("message_id"), "sessionID": session_id}
        parts.setdefault(str(row.get("message_id")), []).append({**_object(row.get("data")), **place})
    taken_back = str(_object(session.get("revert")).get("messageID") or "~")
    messages: list[Json] = []
    for name, row in sorted(tables["message"].items(), key=lambda item: (item[1].get("time_created") or 0, item[0])):
        if name < taken_back:
            message = _object(row.get("data")) | {"id": name, "sessionID": session_id}
            messages.append({"info": message, "parts": parts.get(name, [])})
    return json.dumps({"info": info, "messages": messages}).encode() + b"\n"


def _info(session_id: str, row: Json) -> Json:
    made: Json = {
        "id": session_id,
        "slug": row.get("slug") or session_id,
        "version": row.get("version"),
        "projectID": row.get("project_id"),
        "directory": row.get("directory"),
        "title": row.get("title"),
        "time": {"created": row.get("time_created"), "updated": row.get("time_updated")},
    }
    return made | ({"parentID": row["parent_id"]} if row.get("parent_id") else {})


def _object(text: object) -> Json:
    with suppress(ValueError, RecursionError):
        found = json.loads(text) if isinstance(text, str) else {}
        return found if isinstance(found, dict) else {}
    return {}


def write_database(directory: Path, generation: Generation, database: Path) -> None:
    """Make a database that has the session of a generation alone. Blocking. Raises as `tables_of`."""
    with closing(sqlite3.connect(database)) as connection:
        for table, rows in tables_of(directory, generation).items():
            names = list(dict.fromkeys(name for row in rows.values() for name in row))
            if not names:
                continue
            columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
            connection.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(names))
            values = ([row.get(name) for name in names] for row in rows.values())
            connection.executemany(f"{_INSERT[table]} ({marks})", values)
        for table in ("message", "part"):
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (id, message_id, session_id, time_created, time_updated, data)"
            )
        connection.commit()
