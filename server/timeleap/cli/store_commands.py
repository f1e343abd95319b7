"""`store`: stores as a whole, in a database or in a directory: made, checked, copied from one to the other."""

from __future__ import annotations

import asyncio
import importlib
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from timeleap.cli.backend import refusal
from timeleap.cli.command import command, subcommands
from timeleap.cli.formatting import count
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.errors import SessionExistsError, StorageFailureError, TimeleapError
from timeleap.json_value import Json
from timeleap.rpc.errors import to_wire
from timeleap_client.errors import TimeleapRpcError

if TYPE_CHECKING:
    from timeleap.cli.store_places import CopyPlace
    from timeleap_postgresql.database import Database

app = Commands()
store = subcommands(app, "store", "Set up, check and copy whole stores: directories and PostgreSQL.")

Url = Annotated[str, Argument(metavar="URL", help="Of a database: postgresql://host/database.")]
Store = Annotated[str, Argument(metavar="STORE", help="postgresql://host/database, or a directory.")]


@command(store)
def init(terminal: Terminal, url: Url) -> None:
    """Make the tables of a store in a database, or bring those of an earlier release up to date. Changes nothing else.
    Then what `check` looks for is looked for: a pooler, rights, policies that hide rows, tables in another schema.

    Example:
        timeleap store init postgresql://owner@db.example/timeleap
    """
    with _told(), closing(_database(url)) as database, database.connection(prepared=False) as connection:
        elsewhere = database.elsewhere(connection)
        if elsewhere is not None:
            terminal.notice(f"{database.label}: {elsewhere}", {"store": database.label})
        before = database.prepare(connection)
        version = database.version(connection)
        database.check_use(connection)
    result = {"store": database.label, "version": version, "before": before}
    done = "is up to date" if before == version else "is a store now" if before == 0 else f"was of version {before}"
    terminal.answer(result, f"{database.label}: {done} (schema version {version})")


@command(store)
def check(terminal: Terminal, url: Url) -> None:
    """See that a store in a database can be used, and that every log in it is whole. Changes nothing.

    Example:
        timeleap store check postgresql://timeleap@db.example/timeleap
    """
    with _told(), closing(_database(url)) as database:
        found = database.check()
    result: Json = {"store": database.label, **found}
    logs, damaged = count(found["logs"], "log"), found["damaged"]
    terminal.answer(result, f"{database.label}: {count(found['sessions'], 'session')}, {logs}, {found['bytes']} bytes")
    if damaged:
        lines = [f"{len(damaged)} logs lack bytes", *(f"{each['sessionId']}: {each['log']}" for each in damaged[:20])]
        raise refusal(4014, "corrupted", "; ".join(lines))


@command(store)
def copy(
    terminal: Terminal,
    source: Store,
    target: Store,
    *,
    session: Annotated[list[str] | None, Option("--session", metavar="ID", help="Only this one; repeatable.")] = None,
) -> None:
    """Copy sessions to another store: logs and timelines byte for byte, titles, lineage, request ids and audit.

    Approvals start off in the copy, and the snapshots of files stay where they are. A session that the target has is
    an error, and then nothing is copied.

    Examples:
        timeleap store copy ~/.local/share/timeleap postgresql://db.example/timeleap
        timeleap store copy postgresql://db.example/timeleap ./restored --session fix-dates
    """
    with _told():
        asyncio.run(_copy(terminal, (source, target), session))


async def _copy(terminal: Terminal, named: tuple[str, str], wanted: list[str] | None) -> None:
    places = _places()
    source: CopyPlace = places.copy_place(named[0])
    target: CopyPlace = places.copy_place(named[1])
    there, ids = set(target.ids()), list(dict.fromkeys(wanted or source.ids()))
    for session_id in ids:
        if session_id in there:
            message = f"{target.label} has a session {session_id} already; nothing was copied"
            raise SessionExistsError(message, sessionId=session_id)
    done = []
    for session_id in ids:
        directory = target.scratch()
        try:
            await source.read(session_id, directory)
            places.without_approvals(directory)
            target.add(session_id, directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        done.append(session_id)
        terminal.hint(session_id)
    result = {"from": source.label, "to": target.label, "sessions": done}
    terminal.answer(result, f"{count(len(done), 'session')} copied to {target.label}")


def _places() -> Any:
    """The module that knows databases.

    Raises:
        StorageFailureError: The package or the library for them is not installed.
    """
    try:
        return importlib.import_module("timeleap.cli.store_places")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("timeleap_postgresql"):
            message = "this installation does not do stores in databases: its package timeleap_postgresql is missing"
            raise StorageFailureError(message) from error
        message = f"stores in databases need psycopg: pip install 'timeleap[postgresql]' ({error})"
        raise StorageFailureError(message) from error


def _database(url: str) -> Database:
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(f"{url.partition('://')[0]} is no URL of a database: it begins with postgresql://")
    database: Database = _places().Database(url)
    return database


@contextmanager
def _told() -> Iterator[None]:
    """Errors of the store as those of a server are told."""
    try:
        yield
    except TimeleapError as error:
        wire = to_wire(error)
        kind, retryable = wire["data"]["kind"], wire["data"]["retryable"]
        raise TimeleapRpcError(wire["code"], kind, wire["message"], wire["data"], retryable=retryable) from error
